"""The public wire contract as pydantic models: the jobs in and the results out.

Imported by the worker and by backends alike, so it needs neither numpy nor a database. Embeddings are only typed here;
`worker.core.ranking.vectors.decode` checks and decodes them in the worker. Each name lives in one module:

- `base`: what all parts share: limits, embeddings, `parse_job`.
- `jobs`, `run_jobs`, `feedback`: the jobs.
- `results`, `pinned`, `answers`: the results.
- `registry`: each task with its job, its result and its queue.
"""
