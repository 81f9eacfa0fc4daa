"""Where searches read: a standby of the primary, as long as it is there and not too far behind it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from worker.adapters import logs
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.replication import LAG, check_standby
from worker.errors import RetrievalError, SettingsError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from worker.adapters.postgres.database import Row, Statement
    from worker.model import Principal
    from worker.settings import Settings

log = logs.logger("worker.standby")

REST_SECONDS = 15.0
"""How long the primary is asked alone after a standby was away or too far behind."""

_LIFETIME_SECONDS = 60.0
"""Then a connection is made anew: one that leads to the primary, for want of a standby, finds a standby again."""


class Standby:
    """Answers searches from a standby, and from the primary where it can't.

    Only searches: whoever reads what was just written reads the primary.

    Args:
        primary: this process's connections to the primary.
        settings: the worker's settings as `Settings.of_the_standby` has them.
        clock: seconds, for rests.
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
        standby = self._usable()
        if standby is not None:
            rows = self._fresh_rows(standby, principal, statements, timeout_seconds, searches, corpora)
            if rows is not None:
                return rows
        return self._primary.read(principal, statements, timeout_seconds, searches=searches, corpora=corpora)

    def _fresh_rows(
        self,
        standby: Database,
        principal: Principal,
        statements: Sequence[Statement],
        timeout_seconds: float | None,
        searches: int,
        corpora: Collection[str] | None,
    ) -> list[list[Row]] | None:
        """What the standby answers; None where it does not, or is too far behind."""
        lag: float | None = None
        # Twice: of an idle primary all that comes seems as old as its last commit, until it is replayed at once.
        for _ in range(2):
            try:
                (((lag,),), *rows) = standby.read(
                    principal, [LAG, *statements], timeout_seconds, searches=searches, corpora=corpora
                )
            except (Unavailable, SettingsError) as error:
                # A table or a right that was made a moment ago may not be there yet: the primary decides.
                self._rest(error.message)
                return None
            if lag is not None and lag <= self._settings.standby.max_lag_seconds:
                return rows
        unknown = "it is no standby, or nobody knows how far it is behind"
        self._rest(unknown if lag is None else f"it is {lag:.1f} s behind its primary")
        return None

    def _usable(self) -> Database | None:
        """The standby, if it need not rest and is what it should be; looked at again after each rest."""
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
        """See that the role can't see past the policies there either, on whatever server the string leads to now.

        Raises:
            SettingsError: it could; or the server is no copy of the primary.
            Unavailable: nobody answers.
        """
        if self._checked:
            return
        if self._database is None:
            self._database = Database(self._settings, _LIFETIME_SECONDS)
            types = self._database.types
        else:
            types = check_standby(self._settings)
        # Asked again where they differ: a partition may have come since this process began.
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
