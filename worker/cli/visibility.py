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
from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.settings import Settings

_MOST_ROWS, _SECONDS, _NEARLY_ALL = 100_000, 10, 0.9

_COUNT = "SELECT count(*) FROM (SELECT FROM {} {} LIMIT {}) AS visible"
_SQL = blocks("visibility")
_IS_TABLE = _SQL["is_table"]
_SET_CALLER = _SQL["set_caller"]


def visible_rows(connection: psycopg.Connection[Any], settings: Settings, name: str, rows: int) -> Finding:
    """Count the rows of a corpus that no one sees, and two invented callers: policies show these to everybody.

    Args:
        connection: a connection of the worker's role, in autocommit.
        settings: the worker's settings.
        name: the corpus.
        rows: its rows, as Postgres estimates them.
    """
    table, subject = settings.corpora[name].table, f"corpus {name}"
    (is_table,) = connection.execute(_IS_TABLE, (identifier(table).as_string(connection),)).fetchone() or (False,)
    share = min(1.0, _MOST_ROWS / rows) if rows and is_table else 1.0
    try:
        counts = [_count(connection, table, share, dict.fromkeys(settings.principal.settings.values(), ""))]
        counts += [_count_as_invented(connection, table, share, settings) for _ in range(2)]
    except psycopg.errors.QueryCanceled:
        return Finding("ok", subject, f"its visible rows could not be counted in {_SECONDS} s")
    count_texts = [
        "none, the policies fail" if count is None else f"{count:,}{'+' * (count == _MOST_ROWS)}" for count in counts
    ]
    sentence = (
        f"rows visible to no one: {count_texts[0]}; to two invented callers: {count_texts[1]} and {count_texts[2]}; "
        f"of about {rows:,}"
    )
    if rows and max(count or 0 for count in counts) >= _NEARLY_ALL * rows:
        cure = "mend its policies (docs/schema.md), or declare it public = true if that is meant"
        return Finding("advice", subject, f"{sentence}. Every caller sees all of it, or nearly: {cure}")
    return Finding("ok", subject, sentence)


def _count_as_invented(connection: psycopg.Connection[Any], table: str, share: float, settings: Settings) -> int | None:
    """Return the number of rows that a new caller sees; None where policies cast its claims to other types."""
    names = settings.principal.settings.values()
    invented = str(uuid.uuid4())
    values = (invented, str(2_000_000_000 + secrets.randbelow(10**8)), f'["{invented}"]')
    claims = (dict(zip(names, row, strict=True)) for row in itertools.product(values, repeat=len(names)))
    counts = (_count(connection, table, share, invented_claims) for invented_claims in claims)
    return next((count for count in counts if count is not None), None)


def _count(connection: psycopg.Connection[Any], table: str, share: float, claims: Mapping[str, str]) -> int | None:
    """Return the number of rows that a caller sees; None if a policy fails on the claims.

    Of a large table it is estimated by a share of its pages; of a large view at most `_MOST_ROWS` are counted.
    """
    sampled = sql.SQL("TABLESAMPLE SYSTEM ({})").format(sql.Literal(100 * share)) if share < 1 else sql.SQL("")
    count = sql.SQL(_COUNT).format(
        identifier(table), sampled, sql.Literal(round(1.1 * _MOST_ROWS) if share < 1 else _MOST_ROWS)
    )
    session_settings = {"transaction_read_only": "on", "statement_timeout": f"{_SECONDS}s", **claims}
    try:
        with connection.transaction():
            connection.execute(_SET_CALLER, (Jsonb(session_settings),))
            row = connection.execute(count).fetchone()
    except (psycopg.DataError, psycopg.errors.RaiseException, psycopg.errors.UndefinedObject):
        return None
    return round(row[0] / share) if row else 0
