"""Checks of what decides who sees a row: the policies of a corpus's tables, and of all that these policies read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from worker.adapters.durability import Finding
from worker.adapters.postgres.policies import BINDING, reach
from worker.adapters.postgres.privileges import oid_of
from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.settings import Settings

_SQL = blocks("doctor_policies")
_SHOWS_NOTHING = _SQL["shows_nothing"]

_CONDITIONS = f"""
SELECT 'a policy of ' || polrelid::regclass::text, pg_get_expr(polqual, polrelid)
  FROM pg_policy p WHERE polrelid = ANY (%(relations)s::oid[]) AND {BINDING} AND polqual IS NOT NULL
UNION ALL
SELECT 'the function ' || oid::regprocedure::text || ', which a policy calls,', pg_get_functiondef(oid)
  FROM pg_proc WHERE oid = ANY (%(functions)s::oid[]) AND prokind = 'f'
 ORDER BY 1, 2
"""  # noqa: S608 -- a constant

_READS = re.compile(r"current_setting\('([a-z_]\w*(?:\.\w+)+)'", re.ASCII | re.IGNORECASE)


def policy_findings(
    connection: psycopg.Connection[Any], settings: Settings, name: str, types: CorpusTypes, quoted: str
) -> Iterator[Finding]:
    """Report policies that show the same to every caller, or nothing: no answer and no error tells of either.

    Args:
        connection: a connection of the worker's role.
        settings: the worker's settings.
        name: the corpus.
        types: its types.
        quoted: its table, as SQL.
    """
    subject, mapped = f"corpus {name}", set(settings.principal.settings.values())
    table_oid = oid_of(connection, quoted)
    relations, functions = reach(connection, [*types.protection.governed] or [table_oid or 0])
    empty = connection.execute(_SHOWS_NOTHING, (quoted, [*relations])).fetchall()
    for is_own, table in empty:
        effect = "so every answer is empty" if is_own else "so what the corpus's policies read there is empty"
        cure = f"CREATE POLICY … ON {table} FOR SELECT (docs/schema.md)"
        yield Finding("advice", subject, f"no policy of {table} lets this role SELECT, {effect}: {cure}")
    values = {"relations": [*relations], "functions": [*functions]}
    conditions = connection.execute(_CONDITIONS, values).fetchall()
    unmapped = {
        (reader, setting_name.lower())
        for reader, text in conditions
        for setting_name in _READS.findall(text)
        if setting_name.lower() not in mapped and not setting_name.lower().startswith("retrieval.")
    }
    for reader, setting_name in sorted(unmapped):
        text = f"{reader} reads the setting {setting_name}, to which principal.settings maps no claim"
        yield Finding("advice", subject, text)
    is_read = any(f"'{setting}'" in text.lower() for _, text in conditions for setting in mapped)
    # What the text of a function's body calls is not followed: it may read one.
    if conditions and not (settings.corpora[name].public or empty or unmapped or is_read or functions):
        yield Finding(
            "advice",
            subject,
            f"no policy that decides reads a setting of principal.settings ({', '.join(sorted(mapped))}), so every "
            "caller sees the same rows: compare a column with one (docs/schema.md), or declare it public = true",
        )
