-- Questions of doctor about policies. Their conditions are composed in Python.

-- name: shows_nothing
-- Returns those tables, with row-level security, that no policy opens to this role: whether it is the corpus's own, and
-- its name as SQL.
-- Parameters: the corpus's table, as SQL; oids of tables.
SELECT oid = to_regclass(%s), oid::regclass::text
  FROM pg_class c
 WHERE oid = ANY (%s::oid[]) AND relrowsecurity AND NOT EXISTS (
         SELECT FROM pg_policy
          WHERE polrelid = c.oid AND polpermissive AND polcmd IN ('r', '*')
            AND EXISTS (SELECT FROM unnest(polroles) role WHERE role = 0 OR pg_has_role(current_user, role, 'USAGE')))
 ORDER BY 1 DESC, 2
