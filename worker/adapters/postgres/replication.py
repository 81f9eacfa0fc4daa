"""A standby: whether it may be read, and how far it is behind its primary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.adapters.postgres.database import check
from worker.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.adapters.postgres.database import Statement
    from worker.settings import Settings

LAG: Statement = (
    b"""
SELECT (CASE WHEN NOT pg_is_in_recovery() THEN NULL
             WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver)
             THEN 0
             ELSE greatest(0, extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()))
        END)::float8
""",
    {},
)
"""Seconds of what the primary has committed that may not be here yet: an upper bound; NULL where nobody knows.

Nobody does of a server that is no standby: it may have been promoted while its primary lives on. Zero where all that
was received is replayed and the stream stands: the last commit of an idle primary is old, and yet nothing is missing.
Where the link to the primary carries nothing any more, it stands for `wal_receiver_timeout`.
"""


def check_standby(settings: Settings, *, at_start: bool = False) -> Mapping[str, CorpusTypes]:
    """Inspect the role and the corpora there, by `Settings.of_the_standby`; see `postgres.check`.

    Raises:
        SettingsError: rows could leak; the message begins with the variable that leads there.
        Unavailable: nobody answers.
    """
    try:
        return check(settings, at_start=at_start)
    except SettingsError as error:
        reason = error.message.removeprefix("DATABASE_CONNECTION_STRING: ")
        raise SettingsError(f"DATABASE_READ_CONNECTION_STRING: {reason}") from None
