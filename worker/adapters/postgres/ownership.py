"""Ownership of what the worker, or a role that installs it, runs in the database: pgvector, functions, tables.

A role that may create schemas can make its own objects under names that others look up first, or before `migrate` does.
Postgres runs a function with the rights of its caller, and an owner may replace it at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieval_client.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

_VECTOR_SCHEMA = """
SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
 WHERE e.extname = 'vector'
"""


def vector_schema(connection: psycopg.Connection[Any]) -> str | None:
    """Return the schema of pgvector's types, operators and functions, as SQL; None where it is not installed."""
    row = connection.execute(_VECTOR_SCHEMA).fetchone()
    return str(row[0]) if row else None


# Every object that has an owner is in pg_shdepend, unless the role that initialised the cluster owns it.
_FOREIGN = """
SELECT object.type || ' ' || object.identity, d.refobjid::regrole::text, quote_ident(current_user)
  FROM pg_shdepend d CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, 0) AS object
 WHERE d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND d.deptype = 'o'
   AND NOT EXISTS (
     SELECT FROM pg_roles r
      WHERE r.oid = d.refobjid
        AND (r.rolsuper OR r.rolname = current_user))
   AND CASE object.type
         WHEN 'schema' THEN object.name = 'retrieval'
         ELSE object.schema = 'retrieval' OR object.identity = ANY (%s::text[]) END
 ORDER BY object.type <> 'schema', 1 LIMIT 5
"""


def check_owners(connection: psycopg.Connection[Any], tables: Sequence[str]) -> None:
    """Check that no other role owns the schema `retrieval`, what is in it, or one of these tables.

    This role and superusers may; the owner of the database, who may put indexes on its tables, could else become one.

    Raises:
        SettingsError: one does; the message names each object and its owner.
    """
    foreign = connection.execute(_FOREIGN, ([*tables],)).fetchall()
    if foreign:
        owners = ", ".join(f"the {name} belongs to {owner}" for name, owner, _ in foreign)
        raise SettingsError(
            f"{owners}: an owner can decide who sees what, and run code as whoever uses it. Nothing is changed. Drop "
            f"what you did not make, and give the rest to {foreign[0][2]} (ALTER … OWNER TO), or connect as its owner"
        )


# An owner's functions in indexes, statistics and partition keys run as whoever plans a query of the table.
_FOREIGN_OWNER = """
SELECT min(quote_ident(r.rolname))
  FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
 WHERE (c.oid = %(oid)s::oid OR c.oid IN (SELECT relid FROM pg_partition_tree(%(oid)s::oid::regclass)))
   AND NOT (r.rolsuper OR r.rolname = current_user)
"""


def foreign_owner(connection: psycopg.Connection[Any], table: int) -> str | None:
    """Return the owner of a table, given by oid, or of a partition of it, who is neither this role nor a superuser."""
    row = connection.execute(_FOREIGN_OWNER, {"oid": table}).fetchone()
    return row[0] if row else None


_ROLES = """
SELECT quote_ident(r.rolname), r.rolsuper OR NOT pg_has_role(r.oid, d.datdba, 'USAGE'), r.rolcreaterole,
       w.oid IS NULL OR EXISTS (SELECT FROM pg_auth_members m
                                 WHERE m.roleid = w.oid AND m.member = r.oid AND m.admin_option)
  FROM pg_roles r JOIN pg_database d ON d.datname = current_database()
  LEFT JOIN pg_roles w ON w.rolname = 'retrieval_worker'
 WHERE r.rolname = current_user
"""


def missing_right(connection: psycopg.Connection[Any]) -> str | None:
    """Return what lets the owner of a database change the worker's role; None if it may, or is not the owner."""
    name, is_other, may_create, may_change = connection.execute(_ROLES).fetchone() or ("", True, True, True)
    if is_other or (may_create and may_change):
        return None
    commands = [] if may_create else [f"ALTER ROLE {name} CREATEROLE"]
    commands += [] if may_change else [f"GRANT retrieval_worker TO {name} WITH ADMIN OPTION"]
    return f"it owns the database, and may not change the worker's role, too. A superuser runs {'; '.join(commands)}"
