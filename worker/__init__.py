"""retrieval-worker: a Celery worker that answers retrieval jobs from Postgres/pgvector.

Read in this order:

1. `model` and `errors`: the nouns, and what can go wrong.
2. `contract`: the jobs that come in and the results that go out.
3. `tasks.run_job`: the whole way of a job; `principal` (who asks) and `retrieval` (the engine) are its steps.
4. `core`: the pure parts. `adapters`: Postgres and embedding servers.
5. `app`: where everything is put together from `settings`.
"""
