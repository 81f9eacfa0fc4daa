-- The list of an owner's runs.

-- name: select_page
-- Returns a page of an owner's runs, newest first, with what their records and last checks say. A job without a mode
-- has that of the settings then: its request says which.
-- Parameters: owner; before: only runs with smaller keys, NULL for the newest; limit; the filters, each NULL for all:
-- text (in any case, in a question, a name or the day), subject_id, task, mode, outcome, drift (as of the last check),
-- since and until (days).
SELECT runs.id, subject_id, run_id, runs.created_at, r.tasks, r.modes, r.questions, r.outcomes, r.degraded,
       c.counts, c.checked_at
  FROM retrieval.runs
  LEFT JOIN retrieval.run_checks c ON c.run = runs.id
 CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(task ORDER BY sequence), '{}') AS tasks,
              coalesce(array_agg(coalesce(answer #>> '{package,package,request,mode}', job ->> 'mode')
                                 ORDER BY sequence), '{}') AS modes,
              coalesce(array_agg(coalesce(job ->> 'question', job ->> 'query') ORDER BY sequence), '{}') AS questions,
              coalesce(array_agg(coalesce(answer -> 'response' ->> 'status', answer ->> 'status')
                                 ORDER BY sequence), '{}') AS outcomes,
              coalesce(bool_or(json_array_length(coalesce(answer -> 'package' -> 'package' -> 'degraded',
                                                          answer -> 'degraded', '[]')) > 0), false) AS degraded
         FROM retrieval.run_records WHERE run = runs.id) r
 WHERE owner = %(owner)s AND (%(before)s::bigint IS NULL OR runs.id < %(before)s)
   AND (%(subject_id)s::text IS NULL OR subject_id = %(subject_id)s)
   AND (%(text)s::text IS NULL OR pg_catalog.strpos(
        pg_catalog.lower(pg_catalog.concat_ws(' / ', subject_id, runs.run_id, runs.created_at::date,
                                              pg_catalog.array_to_string(r.questions, ' / '))),
        pg_catalog.lower(%(text)s)) > 0)
   AND (%(since)s::date IS NULL OR runs.created_at >= %(since)s::date)
   AND (%(until)s::date IS NULL OR runs.created_at < %(until)s::date + 1)
   AND (%(task)s::text IS NULL OR %(task)s = ANY (r.tasks))
   AND (%(mode)s::text IS NULL OR %(mode)s = ANY (r.modes))
   AND (%(outcome)s::text IS NULL OR %(outcome)s = ANY (r.outcomes) OR (%(outcome)s = 'degraded' AND r.degraded))
   AND CASE %(drift)s::text WHEN 'unchecked' THEN c.run IS NULL
                            WHEN 'drifted' THEN c.counts ?| ARRAY['edited', 'missing']
                            WHEN 'same' THEN NOT c.counts ?| ARRAY['edited', 'missing']
                            ELSE true END
 ORDER BY runs.id DESC LIMIT %(limit)s
