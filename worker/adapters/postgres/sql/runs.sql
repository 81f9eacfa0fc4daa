-- Records of runs: written once, read by their owner only. Parameters that name a run: owner, subject_id, run_id.

-- name: insert_run
-- Adds a run, unless it is there.
INSERT INTO retrieval.runs (owner, subject_id, run_id) VALUES (%(owner)s, %(subject_id)s, %(run_id)s)
ON CONFLICT DO NOTHING

-- name: insert_record
-- Adds one record of a run with its pins, and the event that says so; returns the number of new records: 0 where the
-- run has one of that task and step.
-- Parameters: the run's name and the columns of the record; pins: a JSON array of objects, hashes in hexadecimal.
WITH record AS (
  INSERT INTO retrieval.run_records
         (run, task, step, job, job_sha256, claims_sha256, answer, models, query_embedding)
  SELECT id, %(task)s, %(step)s, %(job)s, %(job_sha256)s, %(claims_sha256)s, %(answer)s, %(models)s,
         %(query_embedding)s
    FROM retrieval.runs WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
  ON CONFLICT DO NOTHING
  RETURNING run
), pins AS (
  INSERT INTO retrieval.run_pins
         (run, task, step, rank, corpus, chunk_hash, hash_version, raw_hash, chunk_id, document_id, score)
  SELECT record.run, %(task)s, %(step)s, rank, corpus, decode(chunk_hash, 'hex'), hash_version,
         decode(raw_hash, 'hex'), chunk_id, document_id, score
    FROM record, jsonb_to_recordset(%(pins)s) AS pin (rank int, corpus text, chunk_hash text, hash_version smallint,
                                                      raw_hash text, chunk_id text, document_id text, score float8)
), events AS (
  INSERT INTO retrieval.run_events (run, kind, data)
  SELECT run, 'recorded', data
    FROM record, jsonb_build_object('task', %(task)s::text, 'step', %(step)s::text,
                                    'chunks', jsonb_array_length(%(pins)s)) AS data
   WHERE NOT EXISTS (SELECT FROM retrieval.run_events e
                      WHERE e.run = record.run AND e.kind = 'recorded' AND e.data = data.data)
)
SELECT count(*) FROM record

-- name: select_records
-- Returns the records of one run, in the order of recording.
-- Parameters: the run's name; task, step: only of these, NULL for all.
SELECT r.task, r.step, r.job, r.job_sha256, r.claims_sha256, r.answer, r.models, r.query_embedding
  FROM retrieval.run_records r JOIN retrieval.runs ON runs.id = r.run
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
   AND (%(task)s::text IS NULL OR task = %(task)s) AND (%(step)s::text IS NULL OR step = %(step)s)
 ORDER BY r.sequence

-- name: select_pins
-- Returns the pins of the same records, by record and rank.
-- Parameters: as of select_records.
SELECT p.task, p.step, p.rank, p.score, p.chunk_hash, p.hash_version, p.raw_hash, p.chunk_id, p.document_id, p.corpus
  FROM retrieval.run_pins p JOIN retrieval.runs ON runs.id = p.run
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
   AND (%(task)s::text IS NULL OR task = %(task)s) AND (%(step)s::text IS NULL OR step = %(step)s)
 ORDER BY p.task, p.step, p.rank

-- name: insert_event
-- Adds an event, once: a job that runs again (at-least-once delivery) leaves one. An event with a given time is the
-- same only at that time: users change their feedback on a chunk and change it back.
-- Parameters: the run's name; kind, data; at: its time, NULL for now.
INSERT INTO retrieval.run_events (run, at, kind, data)
SELECT id, coalesce(%(at)s::timestamptz, now()), %(kind)s, %(data)s FROM retrieval.runs
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
   AND NOT EXISTS (SELECT FROM retrieval.run_events e
                    WHERE e.run = runs.id AND e.kind = %(kind)s AND e.data = %(data)s::jsonb
                      AND e.at = coalesce(%(at)s::timestamptz, e.at))

-- name: select_events
-- Returns kind, details and time of a run's events, in their order.
-- Parameters: the run's name.
SELECT e.kind, e.data, e.at
  FROM retrieval.run_events e JOIN retrieval.runs ON runs.id = e.run
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
 ORDER BY e.sequence

-- name: select_names
-- Returns subject_id and run_id of an owner's runs, in the order of creation.
-- Parameters: owner; subject_id: only of this subject, NULL for all.
SELECT subject_id, run_id FROM retrieval.runs
 WHERE owner = %(owner)s AND (%(subject_id)s::text IS NULL OR subject_id = %(subject_id)s) ORDER BY id
