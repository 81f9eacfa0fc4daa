-- Settings of each connection.

-- name: search_path
-- Takes the schema of the role's name out of search_path, and appends that of pgvector. Any role that may create
-- schemas could name one as the worker's, and put its own functions and tables first. The schema of pgvector comes
-- last, wherever it was installed: the driver looks its types up by the path.
SELECT set_config('search_path', string_agg(part, ', ' ORDER BY place), false)
  FROM (SELECT btrim(part) AS part, place
          FROM unnest(string_to_array(current_setting('search_path'), ',')) WITH ORDINALITY AS parts (part, place)
         WHERE btrim(part, ' "') NOT IN ('$user', '')
        UNION ALL
        SELECT quote_ident(n.nspname), 1000000
          FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
         WHERE e.extname = 'vector' AND n.nspname <> ALL (current_schemas(false))) AS path
HAVING count(*) > 0
