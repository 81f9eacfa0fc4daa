"""Pane: lines in a scrolling area, or entries to choose from; only the rows that are seen are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from textual.binding import BindingType
    from textual.events import Resize

    from worker.inspector.terminal.lines import Line


ENTRY_ROWS = 2


class Pane(ScrollView, can_focus=True):
    """Area that shows lines, wrapped to its width."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("space", "page_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self._lines: Sequence[Line] = ()
        self._rows: list[Text] = []
        self._revealed = ""

    @property
    def text(self) -> str:
        """All that the pane shows, as plain text, without what wrapping makes of it."""
        return "\n".join(line.text.plain for line in self._lines)

    def show(self, lines: Sequence[Line], reveal: str = "") -> None:
        """Show lines, from the top; or from the first text of a style.

        Args:
            lines: the lines.
            reveal: the style to bring into view; ``""``: the top; ``"end"``: the end.
        """
        self._lines, self._revealed = lines, reveal
        self._wrap()
        self._scroll()

    def on_resize(self, event: Resize) -> None:
        """Wrap again."""
        del event
        self._wrap()
        self._scroll()

    def on_mount(self) -> None:
        """Keep the scroll bar's place, so that a text is wrapped once."""
        self.show_horizontal_scrollbar = False

    def _wrap(self) -> None:
        width = max(self.scrollable_content_region.width, 20)
        self._rows = [row for line in self._lines for row in wrapped(line, width, self.app.console)]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def _scroll(self) -> None:
        if self._revealed == "end":
            self.scroll_end(animate=False, immediate=True)
            return
        row = first_row(self._rows, self._revealed) if self._revealed else 0
        self.scroll_to(0, max(row - 2, 0), animate=False, immediate=True)

    def render_line(self, y: int) -> Strip:
        """Return a row of the area."""
        place, width = y + self.scroll_offset.y, self.size.width
        if place >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        strip = Strip(self._rows[place].render(self.app.console))
        return strip.adjust_cell_length(width).apply_style(self.rich_style)


def wrapped(line: Line, width: int, console: Console) -> list[Text]:
    """Return the rows of a line."""
    if not line.text:
        return [Text()]
    rows = line.text.wrap(console, max(width - line.indent, 10), overflow="fold")
    for row in rows:
        row.end = ""
        row.pad_left(line.indent)
    return [*rows]


def first_row(rows: Sequence[Text], style: str) -> int:
    """Return the first row with a text of a style, 0 without one."""
    return next((i for i, row in enumerate(rows) if any(span.style == style for span in row.spans)), 0)


class Choice(ScrollView, can_focus=True):
    """List of entries, each on two rows, of which one is chosen by the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,space", "move(10)", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("home,g", "move(-1000000)", show=False),
        Binding("end,G", "move(1000000)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Chosen(Message):
        """Entry that was chosen.

        Args:
            index: its number, from 0.
        """

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self.entries: Sequence[Text] = ()
        self.current = 0

    def show(self, entries: Sequence[Text], current: int) -> None:
        """Show entries, one of them chosen."""
        self.entries, self.current = entries, current
        self.virtual_size = Size(self.size.width, ENTRY_ROWS * len(entries))
        self.action_move(0)

    def on_mount(self) -> None:
        """Keep the scroll bar's place."""
        self.show_horizontal_scrollbar = False

    def action_move(self, step: int) -> None:
        """Choose another entry, and keep it in view."""
        self.current = max(0, min(self.current + step, len(self.entries) - 1))
        top, seen = ENTRY_ROWS * self.current, self.scrollable_content_region.height
        top_row = min(max(self.scroll_offset.y, top + ENTRY_ROWS - seen), top)
        self.scroll_to(0, max(top_row, 0), animate=False, immediate=True)
        self.refresh()

    def action_choose(self) -> None:
        """Open the entry."""
        if self.entries:
            self.post_message(self.Chosen(self.current))

    def render_line(self, y: int) -> Strip:
        """Return a row of the list."""
        place, width = y + self.scroll_offset.y, self.size.width
        index, row = divmod(place, ENTRY_ROWS)
        if index >= len(self.entries):
            return Strip.blank(width, self.rich_style)
        rows = self.entries[index].split("\n", allow_blank=True)
        text = rows[row] if row < len(rows) else Text()
        if index == self.current:
            return Strip([Segment(text.plain)]).adjust_cell_length(width).apply_style(Style(reverse=True))
        return Strip(text.render(self.app.console)).adjust_cell_length(width).apply_style(self.rich_style)
