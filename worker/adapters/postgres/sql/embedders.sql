-- The recorded embedders of tables.

-- name: is_there
-- Returns whether migrate has made the table of records.
SELECT to_regclass('retrieval.embedders') IS NOT NULL

-- name: select_embedders
-- Returns the recorded embedders: table, name, version, dimensions, fingerprint.
SELECT relation, name, version, dimensions, fingerprint FROM retrieval.embedders

-- name: upsert_embedder
-- Records who filled a table, in place of who was recorded.
-- Parameters: relation, the table's name; name, version, dimensions, fingerprint.
INSERT INTO retrieval.embedders (relation, name, version, dimensions, fingerprint)
VALUES (%(relation)s, %(name)s, %(version)s, %(dimensions)s, %(fingerprint)s)
ON CONFLICT (relation) DO UPDATE SET name = excluded.name, version = excluded.version,
  dimensions = excluded.dimensions, fingerprint = excluded.fingerprint, loaded_at = now()
