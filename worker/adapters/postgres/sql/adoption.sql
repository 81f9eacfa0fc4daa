-- Questions of adopt about a database's tables.

-- name: vector_tables
-- Returns the oids of the tables that have vectors, by schema and name.
-- Parameter: schemas, names; none: all but Postgres' own and the worker's.
SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
   AND CASE WHEN %(schemas)s::text[] = '{}' THEN n.nspname NOT LIKE 'pg\_%%'
                 AND n.nspname NOT IN ('information_schema', 'retrieval')
            ELSE n.nspname = ANY (%(schemas)s::text[]) END
   AND EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
                 JOIN pg_extension e ON e.extname = 'vector' AND e.extnamespace = t.typnamespace
                WHERE a.attrelid = c.oid AND NOT a.attisdropped AND t.typname IN ('vector', 'halfvec'))
 ORDER BY n.nspname, c.relname

-- name: table
-- Returns a table: schema, name, name as SQL, whether row-level security is on, the number of policies on reading that
-- bind the worker's role, whether it is partitioned, the columns of its primary key, or of another unique index without
-- NULL.
-- Parameter: its oid.
SELECT n.nspname, c.relname, quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.relrowsecurity,
       (SELECT count(*) FROM pg_policy WHERE polrelid = c.oid AND polcmd IN ('r', '*')
           AND (0 = ANY (polroles) OR to_regrole('retrieval_worker') = ANY (polroles))), c.relkind = 'p',
       coalesce((SELECT array_agg(a.attname ORDER BY place) FROM pg_index i,
                        unnest(i.indkey) WITH ORDINALITY AS part (attnum, place)
                   JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = part.attnum
                  WHERE i.indrelid = c.oid AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
                    AND NOT EXISTS (SELECT FROM unnest(i.indkey) AS k JOIN pg_attribute n
                                        ON n.attrelid = c.oid AND n.attnum = k WHERE NOT n.attnotnull)
                  GROUP BY i.indexrelid, i.indisprimary ORDER BY i.indisprimary DESC, i.indexrelid LIMIT 1), '{}')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s

-- name: columns
-- Returns the columns of a table: name, name as SQL, type (of a domain, its base), modifier.
-- Parameter: its oid.
SELECT a.attname, quote_ident(a.attname),
       CASE WHEN t.typname IN ('vector', 'halfvec', 'sparsevec') AND e.oid IS NOT NULL THEN t.typname
            ELSE format_type(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END, NULL) END, a.atttypmod
  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_extension e ON e.extname = 'vector' AND e.extnamespace = t.typnamespace
 WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum

-- name: references
-- Returns the foreign keys of one column: the column, oid of the table that it refers to, column there.
-- Parameter: oid of the table.
SELECT a.attname, k.confrelid, f.attname FROM pg_constraint k
  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
  JOIN pg_attribute f ON f.attrelid = k.confrelid AND f.attnum = k.confkey[1]
 WHERE k.conrelid = %s AND k.contype = 'f' AND cardinality(k.conkey) = 1 ORDER BY a.attnum

-- name: indexes
-- Returns what a table's HNSW indexes by cosine distance are over, of vector and halfvec.
-- Parameter: its oid.
SELECT DISTINCT replace(o.opcname, '_cosine_ops', '') FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam AND m.amname = 'hnsw'
  JOIN pg_opclass o ON o.oid = i.indclass[0]
 WHERE i.indrelid = %s AND i.indpred IS NULL AND o.opcname IN ('vector_cosine_ops', 'halfvec_cosine_ops') ORDER BY 1

-- name: is_hidden
-- Returns whether the role may not read all rows of a table.
-- Parameter: oid.
SELECT NOT has_table_privilege(%(oid)s::oid, 'SELECT') OR row_security_active(%(oid)s::oid)

-- name: ordinary
-- Returns the oid of a table; none of a view, which would run what its owner wrote.
-- Parameters: schema, name.
SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')

-- name: storage
-- Returns the oids of the tables that hold a table's rows.
-- Parameter: oid.
SELECT relid::oid FROM pg_partition_tree(%(oid)s::oid::regclass) WHERE isleaf
 UNION SELECT oid FROM pg_class WHERE oid = %(oid)s AND relkind = 'r'

-- name: never_analysed
-- Returns whether one of some tables has no statistics.
-- Parameter: oids of tables.
SELECT coalesce(bool_or(reltuples < 0), false) FROM pg_class WHERE oid = ANY (%s::oid[])

-- name: is_granted
-- Returns whether every role may use pgvector's schema.
SELECT has_schema_privilege('public', extnamespace, 'USAGE') FROM pg_extension WHERE extname = 'vector'
