-- Questions of doctor to the server about time limits and durability.

-- name: stated_limits
-- Returns role and database, as SQL, and of each setting its name and what a new session has, in seconds.
-- Parameter: names of settings that are durations.
SELECT quote_ident(current_user), quote_ident(current_database()), name,
       extract(epoch FROM (reset_val || unit)::interval)::float8
  FROM pg_settings WHERE name = ANY (%s)

-- name: storage
-- Returns role and database, as SQL; whether the server is a standby; synchronous_commit and synchronous_standby_names;
-- the number of connected standbys; names of those settings that are off, and of the planner's that are on by default.
-- Parameter: names of settings that are never off.
SELECT quote_ident(current_user), quote_ident(current_database()), pg_is_in_recovery(),
       current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_replication),
       ARRAY(SELECT name FROM pg_settings
              WHERE setting = 'off' AND (name = ANY (%s) OR name LIKE 'enable\_%%' AND boot_val = 'on') ORDER BY name)
