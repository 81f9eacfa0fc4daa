-- Policies of corpora. What they reach is composed in Python.

-- name: foreign_functions
-- Returns those functions, with their owners, that belong to another role than the tables' owners, the database's or a
-- superuser. The owner may replace a function.
-- Parameters: functions, relations: oids; trusted: names of functions that may belong to anybody.
SELECT p.oid::regprocedure::text, r.rolname
  FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE p.oid = ANY (%(functions)s::oid[]) AND NOT r.rolsuper
   AND r.oid <> ALL (ARRAY(SELECT datdba FROM pg_database WHERE datname = current_database()
                           UNION ALL SELECT relowner FROM pg_class WHERE oid = ANY (%(relations)s::oid[])))
   AND n.nspname || '.' || p.proname <> ALL (%(trusted)s::text[])
   AND NOT (p.proname = ANY (%(trusted)s::text[]) AND pg_function_is_visible(p.oid))
 ORDER BY 1

-- name: conditions
-- Returns the policies of tables that have a condition: name and table as SQL, the condition as pg_node_tree, and the
-- oids of the operators =.
-- Parameter: oids of tables.
SELECT quote_ident(polname), polrelid::regclass::text, polqual::text,
       ARRAY(SELECT oid::integer FROM pg_operator WHERE oprname = '=')
  FROM pg_policy
 WHERE polrelid = ANY (%s::oid[]) AND polqual IS NOT NULL ORDER BY 2, 1

-- name: bound
-- Returns those tables that have row-level security or policies: oid, name as SQL, and whether these bind this role. A
-- policy that asks whether a row of another table is visible relies on that table's own policies.
-- Parameter: oids of tables.
SELECT c.oid, format('%%I.%%I', n.nspname, c.relname),
       row_security_active(c.oid) AND NOT pg_has_role(c.relowner, 'MEMBER')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = ANY (%s::oid[]) AND c.relkind IN ('r', 'p')
   AND (c.relrowsecurity OR EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid)) ORDER BY 2
