"""The only way to standard output and standard error; no output can control the terminal.

Answers, records and settings contain untrusted text. `Terminal` shows control, format and zero-width characters as
visible signs (`worker.core.text.visible`) and treats no string as markup. `styled` adds a style.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import traceback
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, Group
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from worker.core.text.visible import ascii_json, visible, visible_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment


class Terminal(Console):
    """A console of Rich to which every string is plain text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, markup=False, emoji=False, highlight=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a table with ids is printed as a block of lines for each row where the width is too small to read it.

        A pipe has no width: a table is as wide there as it needs to be.
        """
        (renderable, *other_renderables) = objects or ("",)
        if other_renderables or not isinstance(renderable, Group | Table):
            super().print(*objects, **options)
        elif isinstance(renderable, Group):
            for grouped_renderable in renderable.renderables:
                self.print(grouped_renderable, **options)
        elif (needed := _needed_width(renderable)) <= self.width:
            super().print(renderable, **options)
        elif self.is_terminal or "COLUMNS" in self._environ:  # Rich's own: it takes its width from there
            self._print_rows(renderable, **options)
        else:
            usual, self.width = self.width, needed
            super().print(renderable, **options)
            self.width = usual

    def _print_rows(self, table: Table, **options: Any) -> None:
        """Print a table without its columns: title, a block of lines for each row, caption."""
        if table.title:
            self.print(table.title, **options)
        for row in zip(*(column.cells for column in table.columns), strict=True):
            lines, texts = _block(table, row, self.width)
            for line in lines:
                self.print(line, **options, soft_wrap=True)  # an id is whole on one line, so that it can be copied
            for text in texts:
                self.print(Padding(text, (0, 0, 0, len(_INDENT))), **options)
        if table.caption:
            self.print(table.caption, **options)

    def on_broken_pipe(self) -> None:
        """End the command, by way of `main.run`: the reader of standard output has exited."""
        self.quiet = True
        raise BrokenPipeError

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as text; also where Rich expects markup."""
        return super().render_str(visible(text), **{**options, "markup": False, "emoji": False, "highlight": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield segments without hidden characters; Rich's own controls stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


ID_COLUMN: Any = {"no_wrap": True, "overflow": "ignore"}
"""Options of a table's column of ids: each id is whole on one line, so that it can be copied."""

_WRAPPED, _TEXT = 16, 40
"""Minimum widths at which a column that wraps, and one that takes the room that is there, can be read."""

_AROUND = 3
"""Width of a column's padding and border."""

_INDENT, _BETWEEN = "   ", "  "
"""Before the lines of a block after its first; between two cells on a line."""


def id_cell(text: str) -> str:
    """Return an id for a column of ids, always on one line."""
    return visible_line(text)


def _needed_width(table: Table) -> int:
    """Return the width at which a table with ids can be read, 0 for one without any."""
    if all(column.overflow != "ignore" for column in table.columns):
        return 0
    needed = 1
    for column in table.columns:
        widest = max([cell_len(str(cell)) for cell in [column.header, *column.cells] if isinstance(cell, str | Text)])
        if column.overflow == "ignore":
            column.min_width = widest
        elif column.ratio:
            widest = min(widest, _TEXT)
        elif not column.no_wrap:
            widest = min(widest, _WRAPPED)
        needed += (column.width or min(widest, column.max_width or widest)) + _AROUND
    return needed


def _block(table: Table, row: Sequence[RenderableType], width: int) -> tuple[list[Text], list[Text]]:
    """Return a row's cells with their names: lines of as many as there is room for, and texts, which wrap."""
    lines: list[Text] = []
    texts: list[Text] = []
    for column, cell in zip(table.columns, row, strict=True):
        content = cell if isinstance(cell, Text) else styled((str(cell), str(column.style)))
        named = styled((f"{column.header} ".lstrip(), "dim")) + content
        if not content:
            continue
        if column.ratio:
            texts.append(named)
        elif lines and lines[-1].cell_len + len(_BETWEEN) + named.cell_len <= width:
            lines[-1] += styled(_BETWEEN) + named
        else:
            lines.append(styled(_INDENT if lines else "") + named)
    return lines, texts


def styled(*pieces: str | tuple[str, str]) -> Text:
    """Join strings, and pairs of a string and its style, to a text."""
    pairs = ((piece, "") if isinstance(piece, str) else piece for piece in pieces)
    return Text.assemble(*((visible(text), style) for text, style in pairs))


def printed(*renderables: RenderableType, width: int) -> Text:
    """Return what a `Terminal` of ``width`` columns prints, in its colours, for a screen that is drawn otherwise."""
    out = io.StringIO()
    terminal = Terminal(file=out, width=width, force_terminal=True, color_system="standard")
    for renderable in renderables:
        terminal.print(renderable)
    return Text.from_ansi(out.getvalue())


# Without a terminal's width (a pipe, a CI log), tables need more than the usual 80 columns. Both obey COLUMNS.
console = Terminal(width=None if sys.stdout.isatty() else shutil.get_terminal_size((120, 24)).columns)
# Progress for people; output for programs goes to standard output alone.
screen = Terminal(stderr=True)


def progress(terminal: Terminal) -> Progress:
    """Make a bar with its description, a count and the time."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=terminal)


def write_text(text: str) -> None:
    """Print a text for another program, with its layout."""
    print(visible(text.removesuffix("\n")))


def write_line(*fields: str) -> None:
    """Print one line of fields with tabs between them."""
    print("\t".join(map(visible_line, fields)))


def write_json(value: Any) -> None:
    """Print one line of JSON in ASCII."""
    print(ascii_json(json.dumps(value)))


def write_json_text(text: str) -> None:
    """Print a JSON text in ASCII."""
    print(ascii_json(text.removesuffix("\n")))


def show_traceback(_: Any, error: BaseException, __: Any) -> None:
    """Show an error of our own, as `sys.excepthook`: its message may quote untrusted text."""
    print(visible("".join(traceback.format_exception(error))), file=sys.stderr, end="")


def complain(sentence: str) -> None:
    """Print an error on standard error, on one line."""
    print(f"retrieval-worker: {visible_line(sentence)}", file=sys.stderr)
