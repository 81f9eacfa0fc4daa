"""Privileges that the worker's role lacks, each with the command that grants it.

Postgres raises an error for a table whose schema may not be used, and reports other missing privileges only when a
statement runs. So both are checked at the start, before a job fails on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql

from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from worker.adapters.postgres.policies import Reach


class Role(NamedTuple):
    """The worker's role.

    Attributes:
        quoted: its name, as SQL.
        memberships: oids of all roles that it is a member of, and its own.
    """

    quoted: str
    memberships: frozenset[int]


_SQL = blocks("privileges")
_SCHEMA_PRIVILEGE = _SQL["schema_privilege"]
_QUOTED = _SQL["quoted"]
_UNREADABLE = _SQL["unreadable"]
_UNCALLABLE = _SQL["uncallable"]
_HIDDEN_PGVECTOR = _SQL["hidden_pgvector"]
_SHORT_WAIT = _SQL["short_wait"]
_SOURCES = _SQL["sources"]


def hidden_schema(connection: psycopg.Connection[Any], table: str) -> str | None:
    """Return the schema of a table's name, as SQL, if the role may not use it; else None."""
    schema, dot, _ = table.partition(".")
    row = connection.execute(_SCHEMA_PRIVILEGE, (schema,)).fetchone() if dot else None
    return row[0] if row is not None and not row[1] else None


def quoted_name(connection: psycopg.Connection[Any], *name_parts: str) -> str:
    """Return a name as SQL, with quotation marks where Postgres needs them: for commands that people copy."""
    (quoted,) = connection.execute(_QUOTED, ([*name_parts],)).fetchone() or ("",)
    return str(quoted)


def sources(
    connection: psycopg.Connection[Any], relation: str, column: str, types: Sequence[str] = ()
) -> dict[int, tuple[str, str]] | None:
    """Return the tables below a view that hold a column of it, by oid: each with its name and the column's, as SQL.

    Args:
        connection: any connection.
        relation: the view, as SQL.
        column: the column's name in the view.
        types: names of types that only such a column has: it may have another name below the view.

    Returns:
        None where more than one table, or more than one column of one, may be meant.
    """
    values = {"relation": relation, "column": column, "types": [*types]}
    rows = connection.execute(_SOURCES, values).fetchall()
    named_rows = [row for row in rows if row[4]] or rows
    if len({(root, name) for _, _, name, root, _ in named_rows}) != 1:
        return None
    return {oid: (table, name) for oid, table, name, _, _ in named_rows}


def oid_of(connection: psycopg.Connection[Any], quoted: str) -> int | None:
    """Return the oid of a relation, by its name as SQL; its schema must be one that the role may use."""
    row = connection.execute("SELECT to_regclass(%s)::oid", (quoted,)).fetchone()
    return row[0] if row is not None else None


def usage(schema: str, role: Role) -> str:
    """Return the command that lets the role use a schema."""
    return f"GRANT USAGE ON SCHEMA {schema} TO {role.quoted}"


def operator_problems(connection: psycopg.Connection[Any]) -> Iterator[str]:
    """Say that the role may not use pgvector's schema, without which no search is answered."""
    row = connection.execute(_HIDDEN_PGVECTOR).fetchone()
    if row is not None:
        schema, role = row
        cure = f"GRANT USAGE ON SCHEMA {schema} TO {role}"
        yield f"pgvector is in the schema {schema}, which the worker's role may not use: {cure}"


def read_refusal(connection: psycopg.Connection[Any], table: str, columns: Sequence[str]) -> str | None:
    """Read no row of these columns of a table or view; return the SQLSTATE of a refusal, None where there is none.

    A locked table counts as readable: a job would wait for it.
    """
    # Where a condition is false, PostgreSQL 18 leaves the columns of a view out of the plan, with what they call.
    query = sql.SQL("SELECT {} FROM {} LIMIT 0").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier(*table.split("."))
    )
    try:
        with connection.transaction():
            connection.execute(_SHORT_WAIT)
            connection.execute(query)
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        # Only a missing privilege, table or column matters here; a job reports the rest. Planning may evaluate a
        # policy, which then lacks the caller's settings.
        unset = isinstance(error, psycopg.errors.UndefinedObject)
        return error.sqlstate if error.sqlstate.startswith("42") and not unset else None
    return None


def unreadable(
    connection: psycopg.Connection[Any], table: str, state: str, oids: Sequence[int], needed: Reach, role: Role
) -> str:
    """Say why a table or view can't be read, and how to fix it.

    Args:
        connection: a connection of the role.
        table: its name in the settings.
        state: the SQLSTATE of the refusal.
        oids: oids of the table, and of what a view reads and calls.
        needed: what the policies of these read and call.
        role: the worker's role.
    """
    if state != psycopg.errors.InsufficientPrivilege.sqlstate:
        return f"Postgres refuses every read of {table} (SQLSTATE {state}): check its policies, and what a view calls"
    missing = [name for (name,) in connection.execute(_UNREADABLE, ([*oids],)).fetchall()]
    if missing:
        return f"the worker's role may not read all of {table}: GRANT SELECT ON {', '.join(missing)} TO {role.quoted}"
    missing = [name for (name,) in connection.execute(_UNREADABLE, ([*needed.relations],)).fetchall()]
    if missing:
        names = ", ".join(missing)
        cure = f"GRANT SELECT ON {names} TO {role.quoted}"
        return f"a policy of {table} reads {names}, which the worker's role may not: {cure}"
    missing = [name for (name,) in connection.execute(_UNCALLABLE, ([*oids, *needed.functions],)).fetchall()]
    if missing:
        names = ", ".join(missing)
        return (
            f"the worker's role may not call {names}, which {table} needs: "
            f"GRANT EXECUTE ON FUNCTION {names} TO {role.quoted}"
        )
    return (
        f"the worker's role may not call a function that {table} needs: GRANT EXECUTE on it, and USAGE on its schema, "
        f"to {role.quoted}"
    )
