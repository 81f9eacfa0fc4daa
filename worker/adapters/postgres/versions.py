"""What version a corpus is in: equal while nothing was written to it, as far as Postgres' statistics know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from worker.adapters.postgres.catalog import identifier

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from worker.adapters.postgres.database import Database
    from worker.model import Principal

# Every table that can decide what a corpus answers: those below its tables (a view's, a table's partitions) and those
# that their policies read. Of each: the versions of its rows in the catalog, its policies' and its view's, which change
# with its file, its rights and its definition; and the rows ever written. Foreign tables' are not counted here.
# And which server this is since when: a standby has no counters of its own, and after a crash they start anew, though
# not the server; only the time of the shared ones tells.
_VERSION = b"""
WITH RECURSIVE governing (oid) AS (
  SELECT to_regclass(name)::oid FROM jsonb_array_elements_text(%(tables)s::jsonb) AS name
  UNION
  SELECT child FROM governing AS g, LATERAL (
    SELECT inhrelid AS child FROM pg_inherits WHERE inhparent = g.oid
    UNION ALL
    SELECT d.refobjid FROM pg_rewrite AS w JOIN pg_depend AS d
        ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass
     WHERE w.ev_class = g.oid
    UNION ALL
    SELECT d.refobjid FROM pg_policy AS p JOIN pg_depend AS d
        ON d.classid = 'pg_policy'::regclass AND d.objid = p.oid AND d.refclassid = 'pg_class'::regclass
     WHERE p.polrelid = g.oid
  ) AS children
)
SELECT current_setting('track_counts')::bool
         AND NOT EXISTS (SELECT FROM governing JOIN pg_class AS c USING (oid) WHERE c.relkind = 'f'),
       jsonb_build_array(
         current_database(), current_user, pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time(),
         (SELECT pg_stat_get_db_stat_reset_time(oid) FROM pg_database WHERE datname = current_database()),
         CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() END,
         (SELECT jsonb_agg(jsonb_build_array(c.oid, c.xmin::text, pg_stat_get_tuples_inserted(c.oid),
                                             pg_stat_get_tuples_updated(c.oid), pg_stat_get_tuples_deleted(c.oid),
                                             ARRAY(SELECT p.xmin::text FROM pg_policy AS p
                                                    WHERE p.polrelid = c.oid ORDER BY p.oid),
                                             ARRAY(SELECT w.xmin::text FROM pg_rewrite AS w
                                                    WHERE w.ev_class = c.oid ORDER BY w.oid))
                           ORDER BY c.oid)
            FROM governing JOIN pg_class AS c USING (oid))
       )::text
"""


def version(
    database: Database, principal: Principal, tables: Iterable[str], corpora: Collection[str] | None = None
) -> str | None:
    """The version of what stands in tables and views, one text for all of them.

    It follows a write within about a second where the writing session goes on or ends, within ten where it stays
    idle, and only after its next transaction where that began at once.

    Args:
        database: where they are.
        principal: who asks; the version is the same for everybody.
        tables: their names, as in settings.
        corpora: names of those that the tables belong to; default all.

    Returns:
        None where the server does not count what is written, or not all of it.
    """
    names = [identifier(table).as_string(None) for table in tables]
    ((row,),) = database.read(principal, [(_VERSION, {"tables": json.dumps(names)})], corpora=corpora)
    counts, text = row
    return text if counts else None
