-- Privileges that the worker's role lacks.

-- name: schema_privilege
-- Returns a schema's name, as SQL, and whether the role may use it.
-- Parameter: its name.
SELECT quote_ident(nspname), has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s

-- name: quoted
-- Returns a name as SQL, with quotation marks where Postgres needs them.
-- Parameter: the name's parts.
SELECT string_agg(quote_ident(part), '.' ORDER BY place) FROM unnest(%s::text[]) WITH ORDINALITY AS parts (part, place)

-- name: unreadable
-- Returns the names, as SQL, of those relations that the role may not read.
-- Parameter: oids of relations.
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = ANY (%s::oid[]) AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY 1

-- name: uncallable
-- Returns the names with arguments, as SQL, of those functions that the role may not call.
-- Parameter: oids of functions.
SELECT format('%%I.%%I(%%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid))
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE p.oid = ANY (%s::oid[]) AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1

-- name: hidden_pgvector
-- Returns pgvector's schema and the role, as SQL, where the role may not use it.
SELECT quote_ident(n.nspname), quote_ident(current_user)
  FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
 WHERE e.extname = 'vector' AND NOT has_schema_privilege(n.oid, 'USAGE')

-- name: short_wait
-- Bounds the wait for a lock in this transaction.
SET LOCAL lock_timeout = '100ms'

-- name: sources
-- Returns the tables below a view that may hold a column of it: oid, name and column as SQL, the table whose partition
-- or child it is, whether the column has its name there. A column of one of the types counts whatever its name: it may
-- have another one below the view.
-- Parameters: relation, the view as SQL; column; types, names of types that only such a column has.
WITH RECURSIVE below (oid, root, attname) AS (
  SELECT to_regclass(%(relation)s)::oid, NULL::oid, NULL::name
  UNION
  SELECT child.oid, child.root, child.attname FROM below b, LATERAL (
    SELECT d.refobjid AS oid, CASE WHEN r.relkind <> 'v' THEN r.oid END AS root,
           CASE WHEN r.relkind <> 'v' THEN a.attname END AS attname
      FROM pg_rewrite w
      JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
       AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'n'
      JOIN pg_class r ON r.oid = d.refobjid
      LEFT JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      LEFT JOIN pg_type t ON t.oid = a.atttypid
     WHERE w.ev_class = b.oid
       AND (r.relkind = 'v' OR a.attname = %(column)s OR t.typname = ANY (%(types)s::text[]))
    UNION ALL
    SELECT inhrelid, b.root, b.attname FROM pg_inherits WHERE inhparent = b.oid AND b.root IS NOT NULL
  ) AS child
)
SELECT c.oid, c.oid::regclass::text, quote_ident(attname), b.root, b.attname = %(column)s
  FROM below b JOIN pg_class c USING (oid) WHERE c.relkind = 'r' AND attname IS NOT NULL ORDER BY 1
