"""Version of a corpus: unchanged while Postgres' statistics count no write to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from worker.adapters.postgres.catalog import identifier
from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from worker.adapters.postgres.database import Database
    from worker.model import Principal

_SQL = blocks("versions")
_VERSION = _SQL["version"]


def version(
    database: Database, principal: Principal, tables: Iterable[str], corpora: Collection[str] | None = None
) -> str | None:
    """Return the version of the contents of tables and views, one text for all of them.

    It changes within about a second of a write if the writing session continues or ends, within ten if it stays idle,
    and only after its next transaction if that begins at once.

    Args:
        database: the database that holds them.
        principal: the caller; the version is the same for all callers.
        tables: their names in the settings.
        corpora: names of the corpora of these tables; default all.

    Returns:
        The version; None if the server does not count all writes.
    """
    names = [identifier(table).as_string(None) for table in tables]
    ((row,),) = database.read(principal, [(_VERSION, {"tables": json.dumps(names)})], corpora=corpora)
    counts, text = row
    return text if counts else None
