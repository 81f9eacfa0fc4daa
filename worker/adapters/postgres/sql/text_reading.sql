-- How full-text search reads the texts of a corpus.

-- name: is_folded
-- Returns whether a column was made of folded texts; without a column, whether texts can be folded. A generated column
-- depends on the functions of its expression. A column of this name tells; below a view, where it may have another
-- name, any column of words or of signatures.
-- Parameters: column, its name or NULL; tables, oids of the tables that hold the rows.
WITH function AS (
  SELECT p.oid FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
   WHERE n.nspname = 'retrieval' AND p.proname = 'text_vector'
     AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')
)
SELECT EXISTS (SELECT FROM function) AND (%(column)s::text IS NULL OR coalesce((
         SELECT EXISTS (SELECT FROM pg_depend d
                         WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid IN (SELECT oid FROM function)
                           AND ((d.classid = 'pg_class'::regclass AND d.objid = a.attrelid AND d.objsubid = a.attnum)
                                OR (d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid)))
           FROM pg_attribute a JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
          WHERE a.attrelid = ANY (%(tables)s::oid[]) AND a.atttypid IN ('tsvector'::regtype, 'bit'::regtype)
            AND a.attgenerated <> ''
          ORDER BY a.attname = %(column)s DESC, a.attrelid, a.attnum LIMIT 1), false))

-- name: configurations
-- Returns, of each text search configuration of a name that the role can use, whether it is the worker's own.
-- Parameter: the name.
SELECT n.nspname = 'retrieval' FROM pg_ts_config c JOIN pg_namespace n ON n.oid = c.cfgnamespace
 WHERE c.cfgname = %s
   AND (pg_ts_config_is_visible(c.oid) OR (n.nspname = 'retrieval' AND has_schema_privilege(n.oid, 'USAGE')))
