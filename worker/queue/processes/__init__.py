"""Pool processes that claim, answer, store and acknowledge their own jobs; the main process forks and watches them.

Read: `table` (what each process does, in memory that all share), `process` (one process), `pool` (the main process's
side of it), `keeper` (all that the main process asks of Redis), `consumer` and `autoscaler` (Celery's, without its
tasks), `control` (what remote control sees).
"""
