-- Questions of doctor about one corpus.

-- name: has_index
-- Returns whether a table has a valid index of a kind.
-- Parameters: the table's name, as SQL; the access method.
SELECT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
               WHERE i.indrelid = to_regclass(%s) AND a.amname = %s AND i.indisvalid)

-- name: is_partitioned
-- Returns whether a table is partitioned.
-- Parameter: its name, as SQL.
SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(%s)

-- name: never_analysed
-- Returns the names, as SQL, of those tables that have rows and no statistics.
-- Parameter: oids of tables.
SELECT oid::regclass::text FROM pg_class
 WHERE oid = ANY (%s::oid[]) AND reltuples < 0 AND pg_relation_size(oid) > 0 ORDER BY 1

-- name: unindexed
-- Returns those columns that no valid index over all rows begins with, each with whether the table is partitioned.
-- Parameters: names of columns; the table's name, as SQL.
SELECT name, c.relkind = 'p' FROM pg_class c, unnest(%s::text[]) AS name
 WHERE c.oid = to_regclass(%s)
   AND NOT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                    WHERE i.indrelid = c.oid AND a.attname = name AND i.indisvalid AND i.indpred IS NULL)
 ORDER BY 1

-- name: made_by
-- Returns the expression of a generated column.
-- Parameters: the table's name and the column's, as SQL.
SELECT pg_get_expr(adbin, adrelid)
  FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
 WHERE d.adrelid = to_regclass(%s) AND quote_ident(a.attname) = %s AND a.attgenerated <> ''

-- name: have_own
-- Returns whether all these languages have a text search configuration of the worker.
-- Parameter: names.
SELECT count(*) = cardinality(%(names)s::text[]) FROM pg_ts_config c JOIN pg_namespace n ON n.oid = c.cfgnamespace
 WHERE n.nspname = 'retrieval' AND c.cfgname = ANY (%(names)s::text[])

-- name: stop_words
-- Returns, of the most frequent words of a corpus, the largest share that are stop words of one of the languages that
-- Postgres has: the language and the share. Folded texts have stop words of their own.
-- Parameter: corpus.
SELECT substring(d.dictname FROM '^(.*)_stem$') AS language,
       sum(chunks) FILTER (WHERE ts_lexize(d.oid::regdictionary, term) = '{}')::float8 / sum(chunks) AS share
  FROM (SELECT term, t.chunks FROM retrieval.term_statistics t JOIN retrieval.text_statistics s ON s.id = t.statistics
         WHERE s.corpus = %(corpus)s AND s.tenant = '' ORDER BY t.chunks DESC, term LIMIT 40) AS frequent,
       pg_ts_dict d
 WHERE d.dictnamespace = 'pg_catalog'::regnamespace AND d.dictname LIKE '%%\_stem'
 GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 LIMIT 1

-- name: relation
-- Returns whether a relation is a view, and its name as SQL.
-- Parameter: its name, as SQL.
SELECT relkind = 'v', oid::regclass::text FROM pg_class WHERE oid = to_regclass(%s)

-- name: counted
-- Returns the number of chunks when the words of a corpus were counted, and the days since.
-- Parameter: the corpus.
SELECT chunks, extract(day FROM now() - refreshed_at)::bigint
  FROM retrieval.text_statistics WHERE corpus = %s AND tenant = ''
