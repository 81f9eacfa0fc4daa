"""Searches on a standby of the primary, while it is available and its lag is small enough."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from retrieval_client.errors import RetrievalError, SettingsError, Unavailable
from worker.adapters import logs
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.replication import LAG, check_standby

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from worker.adapters.postgres.database import CallerRead, Row, Statement
    from worker.model import Principal
    from worker.settings import Settings

log = logs.logger("worker.standby")

REST_SECONDS = 15.0
"""Seconds without reads on a standby after it was unavailable or too far behind."""

_LIFETIME_SECONDS = 60.0
"""Seconds after which a connection is replaced: one that fell back to the primary then finds a standby again."""


class Standby:
    """A reader that searches on a standby, and on the primary where that fails.

    It is for searches only: reads of what was just written go to the primary.

    Args:
        primary: this process's connections to the primary.
        settings: the worker's settings for the standby, from `Settings.of_the_standby`.
        clock: monotonic seconds.
    """

    def __init__(self, primary: Database, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._primary = primary
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._checked = False
        self._rests_until = float("-inf")
        self._usable()

    def read(
        self,
        principal: Principal,
        statements: Sequence[Statement],
        timeout_seconds: float | None = None,
        *,
        searches: int = 1,
        corpora: Collection[str] | None = None,
    ) -> list[list[Row]]:
        """Run statements for one caller in one read-only transaction; see `Database.read`."""

        def ask(database: Database, *prefix: Statement) -> list[list[Row]]:
            return database.read(principal, [*prefix, *statements], timeout_seconds, searches=searches, corpora=corpora)

        rows = self._fresh_rows(ask)
        return ask(self._primary) if rows is None else rows

    def _fresh_rows(self, ask: Callable[[Database, Statement], list[list[Row]]]) -> list[list[Row]] | None:
        """Return the standby's rows; None if it fails or is too far behind."""
        standby = self._usable()
        if standby is None:
            return None
        lag: float | None = None
        # Two attempts: after an idle time the lag seems as old as the last commit, until the next replay.
        for _ in range(2):
            try:
                (((lag,),), *rows) = ask(standby, LAG)
            except (Unavailable, SettingsError) as error:
                # A new table or grant may not be replicated yet: the primary decides. `min_lsn` is of this job alone.
                if not (isinstance(error, Unavailable) and error.behind):
                    self._rest(error.message)
                return None
            if lag is not None and lag <= self._settings.standby.max_lag_seconds:
                return rows
        unknown_lag = "it is no standby, or its lag is unknown"
        self._rest(unknown_lag if lag is None else f"it is {lag:.1f} s behind its primary")
        return None

    def read_each(self, reads: Sequence[CallerRead], timeout_seconds: float) -> list[list[list[Row]] | None]:
        """Leave each to `read`, which checks the lag in the same transaction."""
        del timeout_seconds
        return [None] * len(reads)

    def _usable(self) -> Database | None:
        """Return the standby if it is not resting and passes the check, which is repeated after each rest."""
        with self._lock:
            if self._clock() < self._rests_until:
                return None
            try:
                self._check()
            except RetrievalError as error:
                self._rest(error.message)
                return None
            return self._database

    def _check(self) -> None:
        """Check that the role can't bypass the policies on the server that the string leads to now.

        Raises:
            SettingsError: it can; or the server is no standby of the primary.
            Unavailable: the server does not answer.
        """
        if self._checked:
            return
        if self._database is None:
            self._database = Database(self._settings, _LIFETIME_SECONDS)
            types = self._database.types
        else:
            types = check_standby(self._settings)
        # Compared with a new inspection: a partition may have been added since this process started.
        if types != self._primary.types and types != self._primary.types_now():
            raise SettingsError("DATABASE_READ_CONNECTION_STRING: expected a streaming standby of the primary")
        self._checked = True

    def _rest(self, reason: str) -> None:
        self._checked = False
        self._rests_until = self._clock() + REST_SECONDS
        log.warning("standby unused", reason=reason, seconds=REST_SECONDS)

    def close(self) -> None:
        """Close all connections to it."""
        if self._database is not None:
            self._database.close()
