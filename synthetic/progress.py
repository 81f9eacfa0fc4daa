"""Progress bars on stderr."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

progress_console = Console(stderr=True)


@contextlib.contextmanager
def steps() -> Iterator[Callable[[str, int, int | None], None]]:
    """Progress bars on stderr: one for each step, in order."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"), TimeElapsedColumn())
    with Progress(*columns, console=progress_console) as bars:
        tasks: dict[str, Any] = {}

        def tell(step: str, count: int, total: int | None) -> None:
            if step not in tasks:
                _finish(bars)
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=count, total=total)

        yield tell
        _finish(bars)


def _finish(bars: Progress) -> None:
    """A new step means that the last one is done, even if its progress was unknown."""
    for task in bars.tasks:
        if task.total is None:
            bars.update(task.id, total=1, completed=1)
            bars.stop_task(task.id)
