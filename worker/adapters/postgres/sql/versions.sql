-- The version of a corpus.

-- name: version
-- Returns whether the server counts all writes to some tables, and the version of their contents, one text. It covers
-- every table that can affect a corpus's results: those below its tables (a view's, a table's partitions) and those
-- that their policies read. Of each: the versions of the catalog rows of the table, its policies and its view, which
-- change with its file, its permissions and its definition; and the number of rows ever written. Foreign tables are not
-- counted. Also the server and its start time: a standby has no counters of its own, and a crash resets them without a
-- restart of the postmaster; only the reset time of the shared ones shows that.
-- Parameter: tables, a JSON array of their names as SQL.
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
