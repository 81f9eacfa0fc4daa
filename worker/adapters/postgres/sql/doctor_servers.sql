-- Questions of doctor about the server.

-- name: records
-- Returns whether all of the worker's own tables are there, whether the role may read and write them, and the role as
-- SQL.
-- Parameter: names of the tables.
SELECT bool_and(oid IS NOT NULL),
       bool_and(has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')), quote_ident(current_user)
  FROM unnest(%s::text[]) AS name, LATERAL (SELECT to_regclass(name)::oid) AS found (oid)

-- name: recovery
-- Returns whether the server is a standby, and wal_receiver_timeout in seconds.
SELECT pg_is_in_recovery(), setting::float8 / 1000 FROM pg_settings WHERE name = 'wal_receiver_timeout'

-- name: locale
-- Returns the database's name as SQL, its encoding and lc_ctype.
SELECT quote_ident(datname), pg_encoding_to_char(encoding), datctype FROM pg_database WHERE datname = current_database()

-- name: pgvector
-- Returns the version of pgvector's code on the server, which is that of its package, whatever the database has; and
-- the kinds of its indexes here.
SELECT default_version,
       ARRAY(SELECT DISTINCT amname::text FROM pg_class JOIN pg_am AS a ON a.oid = relam
              WHERE amname IN ('hnsw', 'ivfflat'))
  FROM pg_available_extensions WHERE name = 'vector'

-- name: outdated_pgvector
-- Returns the installed and the offered version of pgvector where they differ.
SELECT installed_version, default_version FROM pg_available_extensions
 WHERE name = 'vector' AND installed_version <> default_version

-- name: now
-- Returns the server's Unix time.
SELECT extract(epoch FROM clock_timestamp())::float8
