"""Evaluations: reports of `retrieval-worker evaluate --report`, a file or the newest of a folder."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from worker.inspector.view.evaluation import evaluation_view

if TYPE_CHECKING:
    from pathlib import Path

    from worker.inspector.view.evaluation import EvaluationView

LONGEST = 256_000_000
"""Most bytes of a report: each query has its rankings in it."""

MOST_REPORTS = 50


class Evaluations:
    """Reports that visitors may see.

    Args:
        place: a report, or a folder of them; None: there are none.
    """

    def __init__(self, place: Path | None) -> None:
        self._place = place

    @property
    def is_set(self) -> bool:
        """True if there is a place for reports."""
        return self._place is not None

    def names(self) -> list[str]:
        """Return the names of the reports, newest first."""
        return [file.name for file in self._files()]

    def read(self, name: str = "") -> EvaluationView | None:
        """Return a report, the newest that can be read without a name; None if there is none of that name.

        Raises:
            ValueError: the file is not a report of `evaluate`, or too long.
            OSError: it can't be read.
        """
        files = [file for file in self._files() if name in {"", file.name}]
        for file in files[:-1]:  # others may lie in the folder
            with contextlib.suppress(ValueError, OSError):
                return self._view(file)
        return self._view(files[-1]) if files else None

    def _view(self, file: Path) -> EvaluationView:
        status = file.stat()
        if status.st_size > LONGEST:
            raise ValueError("too long")
        return _read(file, status.st_mtime_ns, status.st_size)

    def _files(self) -> list[Path]:
        if self._place is None or not self._place.exists():
            return []
        if not self._place.is_dir():
            return [self._place]
        files = [file for file in self._place.glob("*.json") if file.is_file()]
        return sorted(files, key=lambda file: (-file.stat().st_mtime_ns, file.name))[:MOST_REPORTS]


@functools.lru_cache(maxsize=8)
def _read(file: Path, changed: int, size: int) -> EvaluationView:
    del changed, size  # of the file whose view is kept
    return evaluation_view(file.read_bytes())
