"""What answers the jobs of one process: built once, after fork, from settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.adapters.postgres import Database
from worker.adapters.runs import Runs
from worker.corpora import Corpora
from worker.recording import Recording
from worker.retrieval import Retrieval

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.settings import Settings


class Engine:
    """The parts that tasks call.

    Args:
        settings: the worker's settings.
        clock: for traces only; no result depends on it.

    Attributes:
        retrieval: answers `retrieve_top_k`.

    Raises:
        SettingsError, Unavailable: see `worker.adapters.postgres.Database`.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._database = Database(settings)
        corpora = Corpora(settings, self._database)
        recording = Recording(Runs(self._database))
        self.retrieval = Retrieval(corpora, recording, clock)

    def close(self) -> None:
        """Close the connections to Postgres."""
        self._database.close()
