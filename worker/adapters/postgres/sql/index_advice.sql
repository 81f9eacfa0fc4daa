-- How Postgres stores and indexes a corpus.

-- name: buffers
-- Returns the bytes of shared_buffers.
SELECT pg_size_bytes(current_setting('shared_buffers'))

-- name: out_of_line
-- Returns those tables that may store embeddings out of line.
-- Parameter: oids of tables.
SELECT attrelid FROM pg_attribute
 WHERE attrelid = ANY (%s::oid[]) AND atttypid = ANY (SELECT oid FROM pg_type WHERE typname IN ('vector', 'halfvec'))
   AND attstorage <> 'p' ORDER BY 1

-- name: is_view
-- Returns whether a relation is a view.
-- Parameter: its name, as SQL.
SELECT relkind = 'v' FROM pg_class WHERE oid = to_regclass(%s)

-- name: tables
-- Returns oids and names, as SQL, of tables.
-- Parameter: their oids.
SELECT oid, oid::regclass::text FROM pg_class WHERE oid = ANY (%s::oid[]) ORDER BY 1
