-- The HNSW indexes of tables by cosine distance over all their rows.

-- name: hnsw
-- Returns the valid ones: table, name, operator class, m, ef_construction, bytes. pgvector's defaults are those of an
-- index without options of its own.
-- Parameter: oids of tables.
SELECT i.indrelid, c.oid::regclass::text, o.opcname,
       coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions) WHERE option_name = 'm'), 16),
       coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions)
                  WHERE option_name = 'ef_construction'), 64),
       pg_relation_size(c.oid)
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_am a ON a.oid = c.relam AND a.amname = 'hnsw'
  JOIN pg_opclass o ON o.oid = i.indclass[0]
 WHERE i.indrelid = ANY (%s::oid[]) AND i.indisvalid AND i.indpred IS NULL
   AND o.opcname = ANY (ARRAY['vector_cosine_ops', 'halfvec_cosine_ops'])
 ORDER BY 1, 2

-- name: kinds
-- Returns the types of vectors that they are over, without the indexes' sizes, for which Postgres would wait where one
-- is locked.
-- Parameter: oids of tables.
SELECT DISTINCT CASE o.opcname WHEN 'vector_cosine_ops' THEN 'vector' ELSE 'halfvec' END
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_am a ON a.oid = c.relam AND a.amname = 'hnsw'
  JOIN pg_opclass o ON o.oid = i.indclass[0]
 WHERE i.indrelid = ANY (%s::oid[]) AND i.indisvalid AND i.indpred IS NULL
   AND o.opcname = ANY (ARRAY['vector_cosine_ops', 'halfvec_cosine_ops'])

-- name: unfinished
-- Returns the names of all that are not valid, also of those that are being built: the worker's role does not see the
-- builds of others.
-- Parameter: oids of tables.
SELECT i.indexrelid::regclass::text
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_am a ON a.oid = c.relam AND a.amname = 'hnsw'
 WHERE i.indrelid = ANY (%s::oid[]) AND NOT i.indisvalid
 ORDER BY 1
