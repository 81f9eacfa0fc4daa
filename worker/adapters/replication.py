"""How far a standby is behind its primary."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker.adapters.postgres import Statement

LAG: Statement = (
    b"""
SELECT (CASE WHEN NOT pg_is_in_recovery() THEN 0
             WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver)
             THEN 0
             ELSE greatest(0, extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()))
        END)::float8
""",
    {},
)
"""Seconds of what the primary has committed that may not be here yet: an upper bound; NULL where nobody knows.

None where all that was received is replayed and the stream stands: the last commit of an idle primary is old, and yet
nothing is missing. Where the link to the primary carries nothing any more, it stands for `wal_receiver_timeout`.
"""
