-- Ownership of what runs in the database.

-- name: vector_schema
-- Returns the schema of pgvector, as SQL.
SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
 WHERE e.extname = 'vector'

-- name: foreign_objects
-- Returns objects that another role owns, but no superuser: the schema retrieval, what is in it, and tables; name,
-- owner, and this role, each as SQL; at most five. Every object that has an owner is in pg_shdepend, unless the role
-- that initialised the cluster owns it.
-- Parameter: names of the tables.
SELECT object.type || ' ' || object.identity, d.refobjid::regrole::text, quote_ident(current_user)
  FROM pg_shdepend d CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, 0) AS object
 WHERE d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND d.deptype = 'o'
   AND NOT EXISTS (
     SELECT FROM pg_roles r
      WHERE r.oid = d.refobjid
        AND (r.rolsuper OR r.rolname = current_user))
   AND CASE object.type
         WHEN 'schema' THEN object.name = 'retrieval'
         ELSE object.schema = 'retrieval' OR object.identity = ANY (%s::text[]) END
 ORDER BY object.type <> 'schema', 1 LIMIT 5

-- name: foreign_owner
-- Returns one owner, as SQL, of a table or its partitions who is neither this role nor a superuser; NULL if there is
-- none. An owner's functions in indexes, statistics and partition keys run as whoever plans a query of the table.
-- Parameter: oid of the table.
SELECT min(quote_ident(r.rolname))
  FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner
 WHERE (c.oid = %(oid)s::oid OR c.oid IN (SELECT relid FROM pg_partition_tree(%(oid)s::oid::regclass)))
   AND NOT (r.rolsuper OR r.rolname = current_user)

-- name: rights
-- Returns this role, as SQL; whether it is a superuser or not the database's owner; whether it may create roles;
-- whether it may change the worker's role, or there is none.
SELECT quote_ident(r.rolname), r.rolsuper OR NOT pg_has_role(r.oid, d.datdba, 'USAGE'), r.rolcreaterole,
       w.oid IS NULL OR EXISTS (SELECT FROM pg_auth_members m
                                 WHERE m.roleid = w.oid AND m.member = r.oid AND m.admin_option)
  FROM pg_roles r JOIN pg_database d ON d.datname = current_database()
  LEFT JOIN pg_roles w ON w.rolname = 'retrieval_worker'
 WHERE r.rolname = current_user
