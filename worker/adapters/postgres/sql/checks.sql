-- Recorded runs that are due for a check, and the results of checks.

-- name: count
-- Returns the number of runs.
-- Parameters: owner, subject_id, run_id: only of these, NULL for all.
SELECT count(*) FROM retrieval.runs
 WHERE (%(owner)s::text IS NULL OR owner = %(owner)s) AND (%(subject_id)s::text IS NULL OR subject_id = %(subject_id)s)
   AND (%(run_id)s::text IS NULL OR run_id = %(run_id)s)

-- name: select_next
-- Returns the next runs by their keys: key, subject_id, run_id, and the counts of the last check, NULL if never
-- checked.
-- Parameters: those of count; after: the last key, limit.
SELECT r.id, r.subject_id, r.run_id, c.counts
  FROM retrieval.runs r LEFT JOIN retrieval.run_checks c ON c.run = r.id
 WHERE r.id > %(after)s
   AND (%(owner)s::text IS NULL OR owner = %(owner)s) AND (%(subject_id)s::text IS NULL OR subject_id = %(subject_id)s)
   AND (%(run_id)s::text IS NULL OR run_id = %(run_id)s)
 ORDER BY r.id LIMIT %(limit)s

-- name: select_due
-- Returns new runs first, then those checked longest ago, with the columns of select_next: two small index lookups
-- instead of a sort of all.
-- Parameter: limit.
(SELECT r.id, r.subject_id, r.run_id, NULL::jsonb
   FROM retrieval.runs r WHERE NOT EXISTS (SELECT FROM retrieval.run_checks c WHERE c.run = r.id)
  ORDER BY r.id LIMIT %(limit)s)
UNION ALL
(SELECT r.id, r.subject_id, r.run_id, c.counts
   FROM retrieval.run_checks c JOIN retrieval.runs r ON r.id = c.run
  ORDER BY c.checked_at, c.run LIMIT %(limit)s)
 LIMIT %(limit)s

-- name: select_pins
-- Returns the pins of runs, in the order of recording.
-- Parameter: runs, keys.
SELECT p.run, p.score, p.chunk_hash, p.hash_version, p.raw_hash, p.chunk_id, p.document_id, p.corpus
  FROM retrieval.run_pins p JOIN retrieval.run_records r USING (run, task, step)
 WHERE p.run = ANY (%(runs)s::bigint[]) ORDER BY p.run, r.sequence, p.rank

-- name: upsert_checks
-- Stores the results of checks.
-- Parameters: runs, keys; counts: of each, as JSON.
INSERT INTO retrieval.run_checks (run, counts)
SELECT * FROM unnest(%(runs)s::bigint[], %(counts)s::jsonb[])
ON CONFLICT (run) DO UPDATE SET checked_at = now(), counts = excluded.counts

-- name: insert_drift
-- Adds an event to each run whose result differs from the last.
-- Parameters: drifted, keys; drift: counts of each, as JSON.
INSERT INTO retrieval.run_events (run, kind, data)
SELECT run, 'drifted', counts FROM unnest(%(drifted)s::bigint[], %(drift)s::jsonb[]) AS d (run, counts)
