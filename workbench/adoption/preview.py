"""Rows that callers would see by the policies to choose from: counted as the owner, before any policy is there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from workbench.adoption.tables import COUNTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.adoption.proposals import Choice, Hidden, Proposal

_CALLERS = """
SELECT value, tenant, count(*), (SELECT count(*) FROM first) FROM first WHERE value <> '' AND tenant <> ''
 GROUP BY value, tenant ORDER BY count(*) DESC, value COLLATE "C", tenant COLLATE "C" LIMIT 2
"""
_FIRST_ROWS = """
WITH first AS MATERIALIZED (
  SELECT ({value})::text AS value, ({tenant})::text AS tenant FROM {tables} LIMIT {limit})
"""
_HIDDEN = """
SELECT count(*) FILTER (WHERE shown IS NOT TRUE), count(*)
  FROM (SELECT {shown} AS shown FROM {table} LIMIT {limit}) AS first
"""


@dataclass(frozen=True, slots=True)
class Preview:
    """Rows of a corpus that callers would see, and that may be hidden.

    Attributes:
        callers: claim → two callers, each in words with the number of rows that it would see.
        hidden: columns that may mean hidden, each in words with the number of rows that it would leave out.
    """

    callers: Mapping[str, Sequence[str]]
    hidden: Sequence[tuple[Hidden, str]]


def preview(connection: psycopg.Connection[Any], proposal: Proposal) -> Preview:
    """Count what two callers would see by each choice, among the first rows."""
    callers = {choice.claim: _callers(connection, proposal, choice) for choice in proposal.choices if choice.claim}
    return Preview(callers, [(hidden, _in_words(connection, hidden)) for hidden in proposal.hiding])


def _callers(connection: psycopg.Connection[Any], proposal: Proposal, choice: Choice) -> Sequence[str]:
    tables = f"{proposal.source.table.quoted} AS c"
    tenant = choice.within or choice
    references = {
        reference.table.quoted: reference for reference in (choice.reference, tenant.reference) if reference is not None
    }
    if len(references) > 1:
        return []  # each would be the table d
    for reference in references.values():
        referenced_table = reference.table
        target = next(column.quoted for column in referenced_table.columns if column.name == reference.target)
        referring_column = proposal.source.columns[reference.column].quoted
        tables += f" JOIN {referenced_table.quoted} AS d ON d.{target} = c.{referring_column}"
    if proposal.where:
        tables += f" WHERE {proposal.where}"
    first_rows = sql.SQL(_FIRST_ROWS).format(
        value=_raw(choice.value), tenant=_raw(tenant.value), tables=_raw(tables), limit=sql.Literal(COUNTED)
    )
    caller_rows = _rows(connection, first_rows + sql.SQL(_CALLERS))
    return [
        f"{json.dumps({tenant.claim: of_tenant, choice.claim: value})} would see {rows:,} of {total:,} rows"
        for value, of_tenant, rows, total in caller_rows
    ]


def _in_words(connection: psycopg.Connection[Any], hidden: Hidden) -> str:
    qualified_name = f"{hidden.table.name}.{hidden.column.name}"
    if not hidden.visible_where:
        values = hidden.table.states.get(hidden.column.name, ())
        return f"{qualified_name}{f' ({json.dumps([*values])})' if values else ''}, by a condition of yours"
    query = sql.SQL(_HIDDEN).format(
        shown=_raw(hidden.visible_where), table=_raw(hidden.table.quoted), limit=sql.Literal(COUNTED)
    )
    counted_rows = _rows(connection, query)
    if not counted_rows:
        return f"{qualified_name}, not counted: this role may not read all of the table"
    ((rows, total),) = counted_rows
    return f"{qualified_name}, {rows:,} of {total:,}"


def _rows(connection: psycopg.Connection[Any], query: sql.Composed) -> list[tuple[Any, ...]]:
    """Return the rows of a query; none where this role may not read all of a table that chunks refer to."""
    try:
        return connection.execute(query).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        return []


def _raw(text: str) -> sql.SQL:
    """Return SQL that was composed of quoted names, to be put into a query as it is."""
    return sql.SQL(text)
