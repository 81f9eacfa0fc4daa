"""Locks of the SQL in a sentence: what waits while it runs, and for how long."""

from __future__ import annotations

_MOMENT = (
    "blocks reads and writes for a moment, once the queries that run have ended: SET lock_timeout = '2s' before it"
)
_REWRITES = "blocks reads and writes while it writes the table and its indexes anew"

_LOCKS = {
    "CREATE INDEX CONCURRENTLY": "blocks neither reads nor writes; it waits for open transactions and reads the table "
    "twice (HNSW: about 75 s for 100,000 rows of 768 dimensions)",
    "CREATE INDEX ON": "blocks writes, not reads, until the index is built",
    "DROP INDEX CONCURRENTLY": "blocks nothing, and waits for transactions that use the index",
    "VACUUM FULL": _REWRITES,
    "ADD COLUMN": _REWRITES,
    "ALTER the column's TYPE": _REWRITES,
    "SET NOT NULL": "blocks reads and writes while it reads the table once",
    "SET STORAGE": _MOMENT,
    "ENABLE ROW LEVEL SECURITY": _MOMENT,
    "CREATE POLICY": _MOMENT,
    "ALTER VIEW": _MOMENT,
    "ANALYZE": "blocks neither reads nor writes",
    "GRANT": "blocks nothing",
    "ALTER ROLE": "blocks nothing, and holds for new sessions: restart the workers",
    "ALTER DATABASE": "blocks nothing, and holds for new sessions: restart the workers",
    "ALTER SYSTEM": "blocks nothing",
    "ALTER EXTENSION": "blocks the commands of the extension's new functions for a moment",
    "ALTER FUNCTION": "blocks nothing",
}
"""Command → what it locks (docs of PostgreSQL, Explicit Locking)."""


def locks(text: str) -> str:
    """Return what each command in a sentence locks; "" without a command.

    >>> locks("no GIN index: CREATE INDEX CONCURRENTLY ON t USING gin (w)")[:59]
    'CREATE INDEX CONCURRENTLY blocks neither reads nor writes; '
    >>> locks("it answers")
    ''
    """
    return ". ".join(f"{command} {effect}" for command, effect in _LOCKS.items() if command in text)
