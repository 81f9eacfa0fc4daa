-- The worker's role, and the relations of corpora.

-- name: role
-- Returns the worker's role: name, name as SQL, whether it is a superuser, whether it has BYPASSRLS; the oids of every
-- role whose privileges it can use (by SET ROLE, inherited or not), and the names of those that row-level security does
-- not bind; whether row_security is off; the database, as SQL.
SELECT rolname, quote_ident(rolname), rolsuper, rolbypassrls,
       ARRAY(SELECT m.oid FROM pg_roles m WHERE pg_has_role(r.oid, m.oid, 'MEMBER')),
       ARRAY(SELECT m.rolname FROM pg_roles m
              WHERE pg_has_role(r.oid, m.oid, 'MEMBER') AND m.oid <> r.oid
                AND (m.rolsuper OR m.rolbypassrls) ORDER BY 1),
       current_setting('row_security') = 'off', quote_ident(current_database())
  FROM pg_roles r WHERE rolname = current_user

-- name: relation
-- Returns a relation: oid, kind, oid and name of its owner, whether row-level security is on, whether it is a view with
-- the caller's rights, whether the role may read it or a column of it.
-- Parameter: its oid.
SELECT c.oid, c.relkind::text, c.relowner, pg_get_userbyid(c.relowner), c.relrowsecurity,
       coalesce(c.reloptions @> '{security_invoker=true}' OR c.reloptions @> '{security_invoker=on}'
                OR c.reloptions @> '{security_invoker=1}' OR c.reloptions @> '{security_invoker=yes}', false),
       has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')
  FROM pg_class c WHERE c.oid = %s

-- name: has_statistics
-- Returns whether the role can read all tables of word statistics.
-- Parameter: names, of these tables.
SELECT count(*) = cardinality(%(names)s::text[]) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname || '.' || c.relname = ANY (%(names)s::text[])
   AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')

-- name: is_leakproof
-- Returns whether @@ of full-text search was declared leakproof.
SELECT proleakproof FROM pg_proc WHERE oid = 'ts_match_vq(tsvector, tsquery)'::regprocedure

-- name: columns
-- Returns the columns of a relation: name, type, modifier, type as it was declared, whether NULL is allowed. A domain's
-- values are of its base type, and the driver sees only that.
-- Parameter: oid of the relation.
WITH RECURSIVE typed AS (
  SELECT attname, atttypid AS type, atttypmod AS modifier, format_type(atttypid, atttypmod) AS full_name,
         NOT attnotnull AS nullable
    FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT attname, t.typbasetype, t.typtypmod, full_name, nullable AND NOT t.typnotnull
    FROM typed JOIN pg_type t ON t.oid = typed.type WHERE t.typtype = 'd'
)
SELECT attname, format_type(type, -1), modifier, full_name, nullable
  FROM typed JOIN pg_type t ON t.oid = typed.type WHERE t.typtype <> 'd'

-- name: storage
-- Returns the oids of the tables that hold the rows of a relation: through views of any depth, and in partitions and
-- children.
-- Parameter: its name, as SQL.
WITH RECURSIVE below AS (
  SELECT to_regclass(%s)::oid AS oid
  UNION
  SELECT child FROM below b, LATERAL (
    SELECT d.refobjid AS child
      FROM pg_rewrite w JOIN pg_depend d
        ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
       AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'n'
     WHERE w.ev_class = b.oid
    UNION ALL
    SELECT inhrelid FROM pg_inherits WHERE inhparent = b.oid
  ) AS children
)
SELECT c.oid FROM below JOIN pg_class c USING (oid) WHERE c.relkind = 'r' ORDER BY 1

-- name: below_view
-- Returns all that a view reads or calls, through any depth: oid, kind, whether a function runs with its owner's
-- rights, name. These are relations, functions and operators. Partitions and children are read through their parent,
-- whose policies apply. Of a function whose body is text, every function and relation counts whose name is a word of
-- it: rather one too many. What is in pg_catalog is Postgres' own. Trusted functions are not followed.
-- Parameters: view, its oid; trusted, names of functions.
WITH RECURSIVE own AS (
  SELECT oid FROM pg_namespace WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
), below (class, oid) AS (
  SELECT 'pg_class'::regclass::oid, %(view)s::oid
  UNION
  SELECT child.class, child.oid FROM below b, LATERAL (
    SELECT d.refclassid AS class, d.refobjid AS oid
      FROM pg_rewrite w JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.deptype = 'n'
     WHERE b.class = 'pg_class'::regclass AND w.ev_class = b.oid
    UNION ALL
    SELECT d.refclassid, d.refobjid FROM pg_depend d
     WHERE b.class = 'pg_proc'::regclass AND d.classid = b.class AND d.objid = b.oid AND d.deptype = 'n'
    UNION ALL
    SELECT 'pg_proc'::regclass, o.oprcode::oid FROM pg_operator o
     WHERE b.class = 'pg_operator'::regclass AND o.oid = b.oid
    UNION ALL
    SELECT 'pg_proc'::regclass, part.oid
      FROM pg_aggregate a, unnest(ARRAY[a.aggtransfn, a.aggfinalfn, a.aggcombinefn]::oid[]) AS part (oid)
     WHERE b.class = 'pg_proc'::regclass AND a.aggfnoid = b.oid
    UNION ALL
    SELECT named.class, named.oid
      FROM pg_proc f JOIN pg_language l ON l.oid = f.prolang,
           LATERAL regexp_split_to_table(lower(f.prosrc), '[^[:alnum:]_$]+') AS word,
           LATERAL (SELECT 'pg_proc'::regclass::oid AS class, p.oid FROM pg_proc p JOIN own ON own.oid = p.pronamespace
                     WHERE lower(p.proname) = word
                    UNION ALL
                    SELECT 'pg_class'::regclass, c.oid FROM pg_class c JOIN own ON own.oid = c.relnamespace
                     WHERE lower(c.relname) = word) AS named
     WHERE b.class = 'pg_proc'::regclass AND f.oid = b.oid AND l.lanname NOT IN ('internal', 'c')
  ) AS child
   WHERE child.class IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_operator'::regclass)
     AND NOT (child.class = 'pg_proc'::regclass
              AND child.oid = ANY (SELECT p.oid FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                                    WHERE n.nspname || '.' || p.proname = ANY (%(trusted)s::text[])
                                       OR p.proname = ANY (%(trusted)s::text[]) AND pg_function_is_visible(p.oid)))
)
SELECT c.oid, c.relkind::text, false, quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name
  FROM below b JOIN pg_class c ON b.class = 'pg_class'::regclass AND c.oid = b.oid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid <> %(view)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
UNION ALL
SELECT p.oid, 'function', p.prosecdef, n.nspname || '.' || p.proname
  FROM below b JOIN pg_proc p ON b.class = 'pg_proc'::regclass AND p.oid = b.oid
  JOIN pg_namespace n ON n.oid = p.pronamespace
 ORDER BY name, 1
