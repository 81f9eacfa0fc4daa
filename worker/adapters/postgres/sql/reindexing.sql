-- Builds of vector indexes.

-- name: progress
-- Returns the phase of a build, its blocks done and in all.
-- Parameter: pid of the session that builds.
SELECT phase, blocks_done, blocks_total FROM pg_stat_progress_create_index WHERE pid = %s

-- name: end_with_client
-- Has Postgres look for its client each second: a build that nobody waits for ends. Where Postgres can't see that a
-- client is gone (on Windows), it goes on.
SET client_connection_check_interval = 1000

-- name: is_built
-- Returns a row where a valid index has a name.
-- Parameter: the name.
SELECT true FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid
