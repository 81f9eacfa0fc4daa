-- Feedback on recorded runs. Parameters that name a run: owner, subject_id, run_id. Those of its feedback are arrays of
-- one length: tasks, steps, corpora, chunk_ids, used, ats. A statement with the parameter job does nothing where the
-- run has an event of that job: one that is delivered again, after others, would undo what they said.

-- name: wait_in_turn
-- Lets transactions that record feedback of this run go one after another: the next one sees the jobs of those before.
-- Parameters: the run's name.
SELECT pg_advisory_xact_lock(hashtextextended(jsonb_build_array(%(owner)s::text, %(subject_id)s::text,
                                                                %(run_id)s::text)::text, 0))

-- name: insert_job
-- Adds the event that a job's feedback is recorded.
-- Parameters: the run's name; job: hash of the job's id.
INSERT INTO retrieval.run_events (run, kind, data)
SELECT id, 'feedback', jsonb_build_object('job', %(job)s::text) FROM retrieval.runs
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
   AND NOT EXISTS (SELECT FROM retrieval.run_events e
                    WHERE e.run = runs.id AND e.kind = 'feedback' AND e.data = jsonb_build_object('job', %(job)s::text))

-- name: upsert_feedback
-- Stores feedback, and one event for each record that it changes; returns the number of judgements that are new or
-- changed. Repeated feedback changes nothing and adds no event.
-- Parameters: the run's name, the feedback; job: hash of the job's id, or NULL.
WITH judged AS (
  INSERT INTO retrieval.run_feedback AS f (run, task, step, corpus, chunk_id, used)
  SELECT runs.id, j.*
    FROM retrieval.runs, unnest(%(tasks)s::text[], %(steps)s::text[], %(corpora)s::text[], %(chunk_ids)s::text[],
                                %(used)s::boolean[]) AS j
   WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
     AND NOT EXISTS (SELECT FROM retrieval.run_events e
                      WHERE e.run = runs.id AND e.kind = 'feedback'
                        AND e.data = jsonb_build_object('job', %(job)s::text))
  ON CONFLICT (run, task, step, corpus, chunk_id) DO UPDATE SET used = excluded.used, at = now()
   WHERE f.used <> excluded.used
  RETURNING run, task, step, used
), events AS (
  INSERT INTO retrieval.run_events (run, kind, data)
  SELECT run, 'used', jsonb_build_object('task', task, 'step', step, 'used', used, 'chunks', count(*))
    FROM judged GROUP BY run, task, step, used
)
SELECT count(*) FROM judged

-- name: insert_feedback
-- Stores feedback with its times; existing feedback is the owner's own, and stays.
-- Parameters: the run's name, the feedback; a time may be NULL for now.
INSERT INTO retrieval.run_feedback (run, task, step, corpus, chunk_id, used, at)
SELECT runs.id, j.task, j.step, j.corpus, j.chunk_id, j.used, coalesce(j.at, now())
  FROM retrieval.runs, unnest(%(tasks)s::text[], %(steps)s::text[], %(corpora)s::text[], %(chunk_ids)s::text[],
                              %(used)s::boolean[], %(ats)s::timestamptz[])
                         AS j (task, step, corpus, chunk_id, used, at)
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
ON CONFLICT DO NOTHING

-- name: select_feedback
-- Returns the feedback on one run, by record, then by corpus and chunk id.
-- Parameters: the run's name.
SELECT f.task, f.step, f.corpus, f.chunk_id, f.used, f.at
  FROM retrieval.run_feedback f
  JOIN retrieval.run_records r USING (run, task, step) JOIN retrieval.runs ON runs.id = f.run
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
 ORDER BY r.sequence, f.corpus, f.chunk_id

-- name: select_judged
-- Returns the latest recorded hybrid searches of which a chunk was used, one row for each corpus: run, step, results of
-- each leg, ids of the used chunks. The records' answers are long: only the needed ones are read.
-- Parameters: owner, corpus: only of these, NULL for all; limit.
WITH latest AS (
  SELECT f.run, f.task, f.step, f.corpus, r.sequence, array_agg(f.chunk_id ORDER BY f.chunk_id) AS used
    FROM retrieval.run_feedback f
    JOIN retrieval.run_records r USING (run, task, step) JOIN retrieval.runs ON runs.id = f.run
   WHERE f.task = 'retrieve_hybrid' AND f.used
     AND (%(owner)s::text IS NULL OR owner = %(owner)s) AND (%(corpus)s::text IS NULL OR f.corpus = %(corpus)s)
   GROUP BY f.run, f.task, f.step, f.corpus, r.sequence
   ORDER BY r.sequence DESC, f.corpus LIMIT %(limit)s
)
SELECT run, step, r.answer -> 'legs' -> corpus, used
  FROM latest JOIN retrieval.run_records r USING (run, task, step)
 ORDER BY r.sequence DESC, corpus

-- name: insert_rating
-- Adds the owner's rating of an answer, unless it repeats the last one of that step. It is an event of the run, so that
-- it is exported with it.
-- Parameters: the run's name; data: step, rating and note; job: hash of the job's id, or NULL.
INSERT INTO retrieval.run_events (run, kind, data)
SELECT id, 'rated', %(data)s::jsonb
  FROM retrieval.runs
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
   AND %(data)s::jsonb IS DISTINCT FROM (
         SELECT data FROM retrieval.run_events e
          WHERE e.run = runs.id AND kind = 'rated' AND data -> 'step' = %(data)s::jsonb -> 'step'
          ORDER BY sequence DESC LIMIT 1)
   AND NOT EXISTS (SELECT FROM retrieval.run_events e
                    WHERE e.run = runs.id AND e.kind = 'feedback' AND e.data = jsonb_build_object('job', %(job)s::text))
