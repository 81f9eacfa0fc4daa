"""The inspector in a terminal of 80 × 24, without a mouse, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any

from textual.widgets import Input, OptionList, Static

from worker.cli.commands.ui import in_this_process
from worker.inspector.terminal.app import Pane, Terminal
from worker.inspector.terminal.desk import Desk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.pilot import Pilot

    from worker.jobs.engine import Engine
    from worker.model import Principal
    from worker.settings import Settings

SIZE = (80, 24)
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\U000e0000-\U000e0fff]"
)


class Seat:
    """A user at the terminal.

    Args:
        app: the application.
        pilot: presses its keys.
    """

    def __init__(self, app: Terminal, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and wait after each for what it read: Enter opens nothing in a list that has not arrived yet."""
        for key in keys:
            await self.pilot.press(key)
            await self.until(lambda: "reading …" not in self.status)

    async def write(self, text: str) -> None:
        """Write into the field that has the focus, and press Enter."""
        field = self.app.focused
        assert isinstance(field, Input), field
        field.value = text
        await self.press("enter")

    async def until(self, is_so: Callable[[], Any], seconds: float = 30.0) -> None:
        """Wait until something is so."""
        try:
            async with asyncio.timeout(seconds):
                while not is_so():
                    await self.pilot.pause(0.01)
        except TimeoutError:
            raise AssertionError(f"{self.status}, focus: {self.app.focused}\n{self.screen()}") from None
        await self.pilot.pause()

    def pane(self, name: str) -> str:
        """All lines of a pane."""
        return "\n".join(strip.text.rstrip() for strip in self.app.query_one(f"#{name}", Pane).lines)

    async def ask(self, question: str) -> str:
        """Ask, and wait for the answer; what the conversation then shows below the question."""
        await self.press("escape")
        await self.until(lambda: isinstance(self.app.focused, Input))
        await self.write(question)
        await self.until(lambda: not self.app._is_asking)
        return self.below(question)

    def below(self, question: str) -> str:
        """Text of the conversation below the last question of these words."""
        return self.pane("ask-lines").rpartition(f"› {question}")[2]

    @property
    def status(self) -> str:
        """The status line."""
        return str(self.app.query_one("#status", Static).content)

    @property
    def runs(self) -> list[str]:
        """The entries of the list of runs."""
        return [str(option.prompt) for option in self.app.query_one("#runs-lines", OptionList).options]

    def screen(self) -> str:
        """Rows of the screen, as they are seen."""
        rows = self.app.screen._compositor.render_strips(self.app.size)
        return "\n".join("".join(segment.text for segment in row) for row in rows)


def desk_of(engine: Engine, caller: Principal, **options: Any) -> Desk:
    """The desk of a caller."""
    return Desk(engine, caller, in_this_process(engine), **options)


@contextlib.asynccontextmanager
async def seated(desk: Any, settings: Settings, size: tuple[int, int] = SIZE) -> AsyncIterator[Seat]:
    """A user who has just started it; the field for a question has the focus."""
    app = Terminal(desk, {"mode": [*settings.modes], "profile": [*settings.profiles]})
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Seat(app, pilot)
