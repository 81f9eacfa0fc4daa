"""Privileges that the worker's role lacks, each with the command that grants it.

Postgres raises an error for a table whose schema may not be used, and reports other missing privileges only when a
statement runs. So both are checked at the start, before a job fails on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import sql

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


_SCHEMA = "SELECT quote_ident(nspname), has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s"

_QUOTED = """
SELECT string_agg(quote_ident(part), '.' ORDER BY place) FROM unnest(%s::text[]) WITH ORDINALITY AS parts (part, place)
"""

_UNREADABLE = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = ANY (%s::oid[]) AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY 1
"""

_UNCALLABLE = """
SELECT format('%%I.%%I(%%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE p.oid = ANY (%s::oid[]) AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1
"""

_HIDDEN_PGVECTOR = """
SELECT quote_ident(n.nspname), quote_ident(current_user)
  FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
 WHERE e.extname = 'vector' AND NOT has_schema_privilege(n.oid, 'USAGE')
"""

_SHORT_WAIT = "SET LOCAL lock_timeout = '100ms'"


def hidden_schema(connection: psycopg.Connection[Any], table: str) -> str | None:
    """Return the schema of a table's name, as SQL, if the role may not use it; else None."""
    schema, dot, _ = table.partition(".")
    row = connection.execute(_SCHEMA, (schema,)).fetchone() if dot else None
    return row[0] if row is not None and not row[1] else None


def quoted_name(connection: psycopg.Connection[Any], *name_parts: str) -> str:
    """Return a name as SQL, with quotation marks where Postgres needs them: for commands that people copy."""
    (quoted,) = connection.execute(_QUOTED, ([*name_parts],)).fetchone() or ("",)
    return str(quoted)


_SOURCES = """
WITH RECURSIVE below (oid, root, attname) AS (
  SELECT to_regclass(%(relation)s)::oid, NULL::oid, NULL::name
  UNION
  SELECT child.oid, child.root, child.attname FROM below b, LATERAL (
    SELECT d.refobjid AS oid, CASE WHEN r.relkind <> 'v' THEN r.oid END AS root,
           CASE WHEN r.relkind <> 'v' THEN a.attname END AS attname
      FROM pg_rewrite w
      JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
       AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'n'
      JOIN pg_class r ON r.oid = d.refobjid
      LEFT JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      LEFT JOIN pg_type t ON t.oid = a.atttypid
     WHERE w.ev_class = b.oid
       AND (r.relkind = 'v' OR a.attname = %(column)s OR t.typname = ANY (%(types)s::text[]))
    UNION ALL
    SELECT inhrelid, b.root, b.attname FROM pg_inherits WHERE inhparent = b.oid AND b.root IS NOT NULL
  ) AS child
)
SELECT c.oid, c.oid::regclass::text, quote_ident(attname), b.root, b.attname = %(column)s
  FROM below b JOIN pg_class c USING (oid) WHERE c.relkind = 'r' AND attname IS NOT NULL ORDER BY 1
"""


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
