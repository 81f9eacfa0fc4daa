"""retrieval-worker: a Celery worker that answers retrieval jobs from Postgres/pgvector.

Read in this order:

1. `model` and `errors`: the nouns, and what can go wrong.
2. `retrieval_client.contract`: the jobs that come in and the results that go out. `retrieval_client` itself sends and
   reads them, for a Python backend.
3. `queue.tasks.run_job`: a job from message to result.
4. `jobs`: what answers, one file or folder each. `jobs.principal` says who the caller is; `jobs.engine` builds them.
5. `core`: the pure parts. `adapters`: Postgres, files, models, remote services.
6. `queue.broker`: how messages come off Redis so that none is lost.
7. `inspector`: views of runs, and the pages that show them.
8. `app`: the Celery application, built from `settings`. `cli`: the commands of a service.

`workbench`, a package beside this one, has what no service loads, and the whole command line.
"""
