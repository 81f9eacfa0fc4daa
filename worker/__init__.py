"""retrieval-worker: a Celery worker that answers retrieval jobs from Postgres/pgvector.

Read in this order:

1. `model` and `errors`: the nouns, and what can go wrong.
2. `contract`: the jobs that come in and the results that go out.
3. `tasks.run_job`: the whole way of a job; `principal` says who asks.
4. What answers: `retrieval` (top-K), `hybrid` (several `legs`, one ranking), `recording` and `replay` (the same again),
   `citing` (what was used, checked), `verifying` (what drifted), `pipeline` (from a question to an answer).
5. `core`: the pure parts. `adapters`: Postgres, files, models.
6. `transport`: how messages come off Redis so that none is lost.
7. `engine` and `app`: where everything is put together from `settings`.
"""
