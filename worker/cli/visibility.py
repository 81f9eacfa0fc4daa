"""Rows of a corpus that anybody sees: counted as no one, and as two callers that are invented."""

from __future__ import annotations

import itertools
import secrets
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from worker.adapters.durability import Finding
from worker.adapters.postgres.catalog import identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.settings import Settings

_MOST, _SECONDS, _NEARLY_ALL = 100_000, 10, 0.9

_COUNT = "SELECT count(*) FROM (SELECT FROM {} LIMIT {}) AS visible"
_STATE = "SELECT set_config(name, value, true) FROM jsonb_each_text(%s::jsonb) AS settings (name, value)"


def visible_rows(connection: psycopg.Connection[Any], settings: Settings, name: str, rows: int) -> Finding:
    """Count the rows of a corpus that no one sees, and two invented callers: policies show these to everybody.

    Args:
        connection: a connection of the worker's role, in autocommit.
        settings: the worker's settings.
        name: the corpus.
        rows: its rows, as Postgres estimates them.
    """
    table, subject = settings.corpora[name].table, f"corpus {name}"
    try:
        counts = [_count(connection, table, dict.fromkeys(settings.principal.settings.values(), ""))]
        counts += [_count_as_invented(connection, table, settings) for _ in range(2)]
    except psycopg.errors.QueryCanceled:
        return Finding("ok", subject, f"its visible rows could not be counted in {_SECONDS} s")
    shown = ["none, the policies fail" if one is None else f"{one:,}{'+' * (one == _MOST)}" for one in counts]
    said = f"rows visible to no one: {shown[0]}; to two invented callers: {shown[1]} and {shown[2]}; of about {rows:,}"
    if rows and max(one or 0 for one in counts) >= _NEARLY_ALL * rows:
        cure = "mend its policies (docs/schema.md), or declare it public = true if that is meant"
        return Finding("advice", subject, f"{said}. Every caller sees all of it, or nearly: {cure}")
    return Finding("ok", subject, said)


def _count_as_invented(connection: psycopg.Connection[Any], table: str, settings: Settings) -> int | None:
    """Return the number of rows that a new caller sees; None where policies cast its claims to other types."""
    names = settings.principal.settings.values()
    invented = str(uuid.uuid4())
    values = (invented, str(2_000_000_000 + secrets.randbelow(10**8)), f'["{invented}"]')
    claims = (dict(zip(names, row, strict=True)) for row in itertools.product(values, repeat=len(names)))
    counts = (_count(connection, table, stated) for stated in claims)
    return next((count for count in counts if count is not None), None)


def _count(connection: psycopg.Connection[Any], table: str, claims: Mapping[str, str]) -> int | None:
    """Return the number of rows that a caller sees, at most `_MOST`; None if a policy fails on the claims."""
    count = sql.SQL(_COUNT).format(identifier(table), sql.Literal(_MOST))
    stated = {"transaction_read_only": "on", "statement_timeout": f"{_SECONDS}s", **claims}
    try:
        with connection.transaction():
            connection.execute(_STATE, (Jsonb(stated),))
            row = connection.execute(count).fetchone()
    except (psycopg.DataError, psycopg.errors.RaiseException, psycopg.errors.UndefinedObject):
        return None
    return int(row[0]) if row else 0
