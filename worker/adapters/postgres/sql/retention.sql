-- What is kept no longer: deleted by a role that owns the tables, a bounded number at once.

-- name: due_runs
-- Locks and returns the oldest runs of which nothing was recorded since a time; those that are being written are left.
-- Their key grows with their time, so the search ends at the first ones.
-- Parameters: cutoff; last_key: only runs with greater ones; limit.
SELECT r.id, r.owner, r.subject_id, r.run_id FROM retrieval.runs AS r
 WHERE r.created_at < %(cutoff)s AND r.id > %(last_key)s
   AND NOT EXISTS (SELECT FROM retrieval.run_records AS d WHERE d.run = r.id AND d.created_at >= %(cutoff)s)
   AND NOT EXISTS (SELECT FROM retrieval.run_events AS e WHERE e.run = r.id AND e.at >= %(cutoff)s)
   AND NOT EXISTS (SELECT FROM retrieval.run_feedback AS f WHERE f.run = r.id AND f.at >= %(cutoff)s)
 ORDER BY r.id LIMIT %(limit)s FOR UPDATE OF r SKIP LOCKED

-- name: delete_runs
-- Parameter: keys of runs. Their records, pins, events, checks and feedback go with them.
DELETE FROM retrieval.runs WHERE id = ANY(%(runs)s)

-- name: delete_responses
-- Deletes answers of conversations in which nothing was asked since a time; returns how many.
-- Parameters: cutoff; limit.
DELETE FROM retrieval.responses WHERE ctid = ANY(ARRAY(
  SELECT a.ctid FROM retrieval.responses AS a
   WHERE a.created_at < %(cutoff)s
     AND NOT EXISTS (SELECT FROM retrieval.responses AS b
                      WHERE b.owner = a.owner AND b.conversation_id = a.conversation_id AND b.created_at >= %(cutoff)s)
   LIMIT %(limit)s FOR UPDATE SKIP LOCKED))

-- name: delete_packages
-- Deletes packages made before a time to which no answer refers; returns how many.
-- Parameters: cutoff; limit.
DELETE FROM retrieval.packages WHERE ctid = ANY(ARRAY(
  SELECT p.ctid FROM retrieval.packages AS p
   WHERE p.created_at < %(cutoff)s
     AND NOT EXISTS (SELECT FROM retrieval.responses AS a WHERE a.owner = p.owner AND a.package_id = p.package_id)
   LIMIT %(limit)s FOR UPDATE SKIP LOCKED))

-- name: count
-- Returns how many runs and answers are due, as the statements above find them.
-- Parameters: cutoffs of runs and of conversations; NULL: none are due.
SELECT (SELECT count(*) FROM retrieval.runs AS r
         WHERE r.created_at < %(runs)s
           AND NOT EXISTS (SELECT FROM retrieval.run_records AS d WHERE d.run = r.id AND d.created_at >= %(runs)s)
           AND NOT EXISTS (SELECT FROM retrieval.run_events AS e WHERE e.run = r.id AND e.at >= %(runs)s)
           AND NOT EXISTS (SELECT FROM retrieval.run_feedback AS f WHERE f.run = r.id AND f.at >= %(runs)s)),
       (SELECT count(*) FROM retrieval.responses AS a
         WHERE a.created_at < %(conversations)s
           AND NOT EXISTS (SELECT FROM retrieval.responses AS b
                            WHERE b.owner = a.owner AND b.conversation_id = a.conversation_id
                              AND b.created_at >= %(conversations)s))

-- name: is_restricted
-- Returns whether row-level security hides records from this role; NULL: there are none.
SELECT bool_or(row_security_active(name::regclass))
  FROM unnest(ARRAY['retrieval.runs', 'retrieval.responses', 'retrieval.packages']) AS name
 WHERE to_regclass(name) IS NOT NULL

-- name: cutoff
-- Returns the server's time less some days.
SELECT clock_timestamp() - make_interval(days => %(days)s)
