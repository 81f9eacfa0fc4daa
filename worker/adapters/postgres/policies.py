"""Policies of corpora: what decides with them who sees a row, and slips of which Postgres says nothing.

A policy runs functions, and reads tables that have policies of their own. The owner of a function may replace it, so
that it must be one who may change the policy as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import psycopg

BINDING = """
(p.polcmd IN ('r', '*') AND (0 = ANY (p.polroles)
   OR EXISTS (SELECT FROM unnest(p.polroles) role WHERE role <> 0 AND pg_has_role(role, 'MEMBER'))))
"""
"""That a policy ``p`` may decide what this role reads, also after `SET ROLE`."""

# A view or function with its owner's rights reads by the policies of that owner, so there all of them count.
_REACHED = f"""
WITH RECURSIVE reached (class, oid, as_caller) AS (
  SELECT 'pg_class'::regclass::oid, relation, true FROM unnest(%(relations)s::oid[]) AS relation
  UNION
  SELECT child.class, child.oid, child.as_caller FROM reached r, LATERAL (
    SELECT d.refclassid AS class, d.refobjid AS oid, r.as_caller
      FROM pg_policy p JOIN pg_depend d ON d.classid = 'pg_policy'::regclass AND d.objid = p.oid
     WHERE r.class = 'pg_class'::regclass AND p.polrelid = r.oid AND (NOT r.as_caller OR {BINDING})
    UNION ALL
    SELECT d.refclassid, d.refobjid, r.as_caller AND v.reloptions::text ~ 'security_invoker=(true|on|1|yes)'
      FROM pg_rewrite w JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.deptype = 'n'
      JOIN pg_class v ON v.oid = w.ev_class
     WHERE r.class = 'pg_class'::regclass AND w.ev_class = r.oid
    UNION ALL
    SELECT d.refclassid, d.refobjid, r.as_caller AND NOT f.prosecdef FROM pg_depend d JOIN pg_proc f ON f.oid = d.objid
     WHERE r.class = 'pg_proc'::regclass AND d.classid = r.class AND d.objid = r.oid AND d.deptype = 'n'
    UNION ALL
    SELECT 'pg_proc'::regclass, o.oprcode::oid, r.as_caller FROM pg_operator o
     WHERE r.class = 'pg_operator'::regclass AND o.oid = r.oid
  ) AS child
   WHERE child.class IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_operator'::regclass)
)
SELECT DISTINCT class = 'pg_proc'::regclass, oid FROM reached WHERE class <> 'pg_operator'::regclass ORDER BY 1, 2
"""  # noqa: S608 -- a constant

_SQL = blocks("policies")
_FOREIGN_FUNCTIONS = _SQL["foreign_functions"]
_CONDITIONS = _SQL["conditions"]
_BOUND = _SQL["bound"]


class Reach(NamedTuple):
    """Relations and functions that the policies of tables read and call.

    Attributes:
        relations: oids of these tables, and of all that their policies read.
        functions: oids of the functions that are called; what only the text of a body names is not among them.
    """

    relations: tuple[int, ...]
    functions: tuple[int, ...]


def reach(connection: psycopg.Connection[Any], relations: Sequence[int]) -> Reach:
    """Return what the policies of these tables read and call, through any depth."""
    rows = connection.execute(_REACHED, {"relations": [*relations]}).fetchall()
    return Reach(*(tuple(oid for is_function, oid in rows if is_function is kind) for kind in (False, True)))


def with_policies(connection: psycopg.Connection[Any], relations: Sequence[int]) -> dict[int, tuple[str, bool]]:
    """Return those of these tables that have policies, by oid: the name, as SQL, and whether they bind this role."""
    rows = connection.execute(_BOUND, ([*relations],)).fetchall()
    return {oid: (name, is_bound) for oid, name, is_bound in rows}


def policy_problems(
    connection: psycopg.Connection[Any], relations: Sequence[int], trusted: Collection[str]
) -> Iterator[str]:
    """Say which policies another role can decide, which rely on policies that are off, and which have a slip.

    Args:
        connection: a connection of the role that reads the corpus.
        relations: oids of a corpus's tables.
        trusted: names of functions that may belong to anybody.
    """
    reached = reach(connection, relations)
    values = {"functions": [*reached.functions], "relations": [*relations], "trusted": [*trusted]}
    for name, owner in connection.execute(_FOREIGN_FUNCTIONS, values).fetchall():
        yield (
            f"a policy calls {name}, which belongs to {owner}: that role can decide who sees what. ALTER FUNCTION "
            f"{name} OWNER TO the tables' owner, or name it in trusted_functions"
        )
    other_relations = [oid for oid in reached.relations if oid not in {*relations}]
    for name, is_bound in with_policies(connection, other_relations).values():
        if not is_bound:
            yield (
                f"a policy reads {name}, whose own policies do not bind the worker's role: ALTER TABLE {name} ENABLE "
                "ROW LEVEL SECURITY, and let another role own it"
            )
    for policy, table, condition, equals in connection.execute(_CONDITIONS, ([*reached.relations],)).fetchall():
        if compares_its_own_columns(condition, equals):
            yield (
                f"the policy {policy} of {table} compares columns of the table in its EXISTS, and none of {table}: it "
                f"shows every row to whoever sees one there. Name the column with its table ({table}.…)"
            )
        if selects_outer_columns(condition):
            yield (
                f"the policy {policy} of {table} has a subquery that selects a column of {table}, and none of the "
                f"tables that it reads: it shows every row to whoever sees one there. Name the column with its table"
            )


_TOKEN = re.compile(r"(?<!\\)(?:\{([A-Z_]+)|\})|:(subLinkType|varno|varlevelsup|opno) (-?\d+)")
_EXISTS = "0"


@dataclass(slots=True)
class _Node:
    """A node of an expression, as `pg_node_tree` has it."""

    name: str
    values: dict[str, str] = field(default_factory=dict)
    children: list[_Node] = field(default_factory=list)

    def all(self) -> Iterator[_Node]:
        """Yield this node and all below it."""
        yield self
        for child in self.children:
            yield from child.all()


def compares_its_own_columns(condition: str, equals: Collection[int]) -> bool:
    """Return whether an `EXISTS` compares two columns of one table of its own, and names no column from outside it.

    In ``EXISTS (SELECT FROM docs WHERE docs.id = document_id)``, Postgres takes ``document_id`` for a column of
    ``docs`` where that has one.

    Args:
        condition: the condition of a policy, as `pg_policy.polqual` has it.
        equals: oids of the operators ``=``.
    """
    selects = (node for node in _parse(condition).all() if node.values.get("subLinkType") == _EXISTS)
    return any(not _is_tied(link, 0) and any(_is_of_one_table(node, equals) for node in link.all()) for link in selects)


def selects_outer_columns(condition: str) -> bool:
    """Return whether a subquery, but for `EXISTS`, selects columns from outside it only.

    In ``document_id IN (SELECT document_id FROM docs)``, the second is that of the row where ``docs`` has none.

    Args:
        condition: the condition of a policy, as `pg_policy.polqual` has it.
    """
    links = (node for node in _parse(condition).all() if node.name == "SUBLINK")
    queries = (child for link in links if link.values["subLinkType"] != _EXISTS for child in link.children)
    return any(_selects_outer_columns(query) for query in queries if query.name == "QUERY")


def _selects_outer_columns(query: _Node) -> bool:
    selected = next((child for child in query.children if child.name == "TARGETENTRY"), _Node(""))
    sources = (child for clause in query.children if clause.name == "FROMEXPR" for child in clause.children)
    if not any(source.name in {"RANGETBLREF", "JOINEXPR"} for source in sources):
        return False
    columns = [node for node in selected.all() if node.name == "VAR"]
    return bool(columns) and all(int(column.values["varlevelsup"]) > 0 for column in columns)


def _parse(tree: str) -> _Node:
    root = _Node("")
    around = [root]
    for name, key, value in _TOKEN.findall(tree):
        if name:
            around.append(_Node(name))
            around[-2].children.append(around[-1])
        elif key:
            around[-1].values[key] = value
        else:
            around.pop()
    return root


def _is_tied(node: _Node, queries: int) -> bool:
    """Return whether a node names a column from outside the outermost of the queries around it."""
    queries += node.name == "QUERY"
    if node.name == "VAR" and int(node.values["varlevelsup"]) >= queries:
        return True
    return any(_is_tied(child, queries) for child in node.children)


def _is_of_one_table(node: _Node, equals: Collection[int]) -> bool:
    """Return whether a node says that two columns of one table are equal."""
    if node.name != "OPEXPR" or int(node.values["opno"]) not in equals:
        return False
    columns = [child.children[0] if child.name == "RELABELTYPE" else child for child in node.children]
    tables = {(column.values.get("varno"), column.values.get("varlevelsup")) for column in columns}
    return {column.name for column in columns} == {"VAR"} and len(tables) == 1
