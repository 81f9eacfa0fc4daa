"""Row-level security as a condition of each transaction, checked before anything is read.

A check at the start of a process is not enough: row security may be disabled, a view replaced or the worker's role
granted more while it runs. Where the condition fails, Postgres itself aborts the transaction: nothing after it is
planned, read or written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from psycopg import sql

from worker.adapters.postgres.policies import BINDING

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDS = (
    "retrieval.runs",
    "retrieval.run_records",
    "retrieval.run_pins",
    "retrieval.run_events",
    "retrieval.run_checks",
    "retrieval.run_feedback",
    "retrieval.packages",
    "retrieval.responses",
)
"""The worker's own tables: each has policies that show its owner's rows only (config/records.sql)."""


@dataclass(frozen=True, slots=True)
class Protection:
    """Protection of a corpus's rows, as the last full check found it; empty for a public corpus.

    Attributes:
        tables: names of its tables, as SQL: any table with such a name at the time of a read must be as safe.
        views: names of its views, as SQL.
        below: oids of the tables below its views, and of those with policies that its policies read.
        definitions: oids of its views, of the views below them, and of the functions that they call.
        governed: oids of the tables whose policies decide: its own, and those that their policies read.
        functions: oids of the functions that these policies call.
        version: of all these; see `version_of`.
    """

    tables: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    below: tuple[int, ...] = ()
    definitions: tuple[int, ...] = ()
    governed: tuple[int, ...] = ()
    functions: tuple[int, ...] = ()
    version: str = ""


UNPROTECTED = Protection()
OF_RECORDS = Protection(tables=RECORDS)

# A relation that its policies do not protect from this role: row security is off, or the role passes it. Postgres
# takes a member of the owner for the owner only where it inherits; here any member is one, since it may SET ROLE.
_UNPROTECTED = """
NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = ANY (ARRAY[{relations}]::oid[])
             AND (NOT row_security_active(c.oid) OR pg_has_role(c.relowner, 'MEMBER')))
"""

_POWERLESS = """
NOT EXISTS (SELECT FROM pg_roles r WHERE (r.rolsuper OR r.rolbypassrls) AND pg_has_role(r.oid, 'MEMBER'))
"""

# Reads nothing, and locks what it names until the end of the transaction: no ALTER TABLE between check and read.
_LOCKED = "NOT EXISTS (SELECT FROM {relation} WHERE false)"

# Catalog rows that define views and functions: any change of one rewrites its row.
_VERSION = """
(SELECT coalesce(string_agg(version, ' ' ORDER BY version COLLATE "C"), '') FROM (
  SELECT 'view ' || c.oid || ' ' || c.xmin FROM pg_class c WHERE c.oid = ANY ({oids})
  UNION ALL SELECT 'rule ' || r.oid || ' ' || r.xmin FROM pg_rewrite r WHERE r.ev_class = ANY ({oids})
  UNION ALL SELECT 'function ' || p.oid || ' ' || p.xmin FROM pg_proc p WHERE p.oid = ANY ({oids})
) AS rows (version))
"""

# The same of policies, and whether they bind this role, of the functions that they call, and of the tables that have
# the names now. In every read, so by constants.
_DECIDING = f"""
(ARRAY[{{tables}}]::oid[]::text
 || ARRAY(SELECT p.xmin || {BINDING}::text
            FROM pg_policy p WHERE p.polrelid = ANY (ARRAY[{{governed}}]::oid[]) ORDER BY p.oid)::text
 || ARRAY(SELECT p.xmin FROM pg_proc p WHERE p.oid = ANY (ARRAY[{{functions}}]::oid[]) ORDER BY p.oid)::text)
"""  # noqa: S608 -- a constant

# Of a setting that does not exist: the one way in which an expression can end a transaction with an error of its own.
_PROTECTED = "CASE WHEN {conditions} THEN '' ELSE current_setting('retrieval.policies_do_not_apply') END"


def version_of(protection: Protection) -> sql.Composed:
    """Compose an expression for the version of what decides: equal while none of it is changed or replaced."""
    deciding = sql.SQL(_DECIDING).format(
        tables=_listed([_oid_of(table) for table in protection.tables]),
        governed=_listed([sql.Literal(oid) for oid in protection.governed]),
        functions=_listed([sql.Literal(oid) for oid in protection.functions]),
    )
    if not protection.views:
        return deciding
    oids = [*(_oid_of(view) for view in protection.views), *map(sql.Literal, protection.definitions)]
    views = sql.SQL(_VERSION).format(oids=sql.SQL("ARRAY[{}]::oid[]").format(_listed(oids)))
    return sql.SQL("{} || {}").format(deciding, views)


def _listed(oids: Sequence[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(oids)


@cache
def protected(protections: tuple[Protection, ...]) -> sql.Composable:
    """Compose an expression that is ``''`` where policies bind this role; else it fails with SQLSTATE 42704."""
    conditions = [condition for protection in protections for condition in _conditions(protection)]
    if not conditions:
        return sql.SQL("''")
    conditions.append(sql.SQL(_POWERLESS))
    return sql.SQL(_PROTECTED).format(conditions=sql.SQL(" AND ").join(conditions))


def _conditions(protection: Protection) -> list[sql.Composable]:
    conditions: list[sql.Composable] = []
    relations = [*(_oid_of(table) for table in protection.tables), *map(sql.Literal, protection.below)]
    if relations:
        conditions.append(sql.SQL(_UNPROTECTED).format(relations=sql.SQL(", ").join(relations)))
    if protection is not OF_RECORDS:  # whose statements name the owner themselves
        current_version, checked_version = version_of(protection), sql.Literal(protection.version)
        conditions.append(sql.SQL("({}) = {}").format(current_version, checked_version))
        names = (*protection.tables, *protection.views)
        conditions += [sql.SQL(_LOCKED).format(relation=sql.SQL(name)) for name in names]
    return conditions


def _oid_of(name: str) -> sql.Composable:
    return sql.SQL("to_regclass({})").format(sql.Literal(name))
