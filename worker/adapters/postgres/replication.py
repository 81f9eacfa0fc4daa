"""Checks of a standby: its safety for reads, and its replication lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieval_client.errors import SettingsError
from worker.adapters.postgres.database import check

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
"""Upper bound of the standby's replication lag in seconds; NULL where it is unknown.

It is unknown for a server that is no standby: it may have been promoted while its primary is still running. It is zero
where all received WAL is replayed and the stream is connected: the last commit of an idle primary is old, but nothing
is missing. A silent stream counts as connected for `wal_receiver_timeout`.
"""


def check_standby(settings: Settings, *, at_start: bool = False) -> Mapping[str, CorpusTypes]:
    """Inspect the role and the corpora there, by `Settings.of_the_standby`; see `postgres.check`.

    Raises:
        SettingsError: rows could leak; the message begins with the standby's variable.
        Unavailable: the server does not answer.
    """
    try:
        return check(settings, at_start=at_start)
    except SettingsError as error:
        reason = error.message.removeprefix("DATABASE_CONNECTION_STRING: ")
        raise SettingsError(f"DATABASE_READ_CONNECTION_STRING: {reason}") from None
