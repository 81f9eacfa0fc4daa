"""Ownership of what the worker, or a role that installs it, runs in the database: pgvector, functions, tables.

A role that may create schemas can make its own objects under names that others look up first, or before `migrate` does.
Postgres runs a function with the rights of its caller, and an owner may replace it at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieval_client.errors import SettingsError
from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

_SQL = blocks("ownership")
_VECTOR_SCHEMA = _SQL["vector_schema"]
_FOREIGN_OBJECTS = _SQL["foreign_objects"]
_FOREIGN_OWNER = _SQL["foreign_owner"]
_RIGHTS = _SQL["rights"]


def vector_schema(connection: psycopg.Connection[Any]) -> str | None:
    """Return the schema of pgvector's types, operators and functions, as SQL; None where it is not installed."""
    row = connection.execute(_VECTOR_SCHEMA).fetchone()
    return str(row[0]) if row else None


def check_owners(connection: psycopg.Connection[Any], tables: Sequence[str]) -> None:
    """Check that no other role owns the schema `retrieval`, what is in it, or one of these tables.

    This role and superusers may; the owner of the database, who may put indexes on its tables, could else become one.

    Raises:
        SettingsError: one does; the message names each object and its owner.
    """
    foreign = connection.execute(_FOREIGN_OBJECTS, ([*tables],)).fetchall()
    if foreign:
        owners = ", ".join(f"the {name} belongs to {owner}" for name, owner, _ in foreign)
        raise SettingsError(
            f"{owners}: an owner can decide who sees what, and run code as whoever uses it. Nothing is changed. Drop "
            f"what you did not make, and give the rest to {foreign[0][2]} (ALTER … OWNER TO), or connect as its owner"
        )


def foreign_owner(connection: psycopg.Connection[Any], table: int) -> str | None:
    """Return the owner of a table, given by oid, or of a partition of it, who is neither this role nor a superuser."""
    row = connection.execute(_FOREIGN_OWNER, {"oid": table}).fetchone()
    return row[0] if row else None


def missing_right(connection: psycopg.Connection[Any]) -> str | None:
    """Return what lets the owner of a database change the worker's role; None if it may, or is not the owner."""
    name, is_other, may_create, may_change = connection.execute(_RIGHTS).fetchone() or ("", True, True, True)
    if is_other or (may_create and may_change):
        return None
    commands = [] if may_create else [f"ALTER ROLE {name} CREATEROLE"]
    commands += [] if may_change else [f"GRANT retrieval_worker TO {name} WITH ADMIN OPTION"]
    return f"it owns the database, and may not change the worker's role, too. A superuser runs {'; '.join(commands)}"
