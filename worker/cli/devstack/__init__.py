"""Postgres, Redis, a worker and Flower for one machine: no root, no fixed ports, nothing left running.

Used by the demo, ``retrieval-worker up``, the tests and the benchmarks. Every server is a child process, stopped by its
own pid.
"""

from worker.cli.devstack.postgres import Postgres, base_backup, postgres
from worker.cli.devstack.redis import Redis, find_redis, lacks, redis_server
from worker.cli.devstack.stack import Stack, stack
from worker.cli.devstack.supervisor import Supervisor, supervisor
from worker.cli.devstack.workers import (
    celery_beat,
    celery_worker,
    flower,
    flower_program,
    worker_environment,
    worker_program,
)

__all__ = [
    "Postgres",
    "Redis",
    "Stack",
    "Supervisor",
    "base_backup",
    "celery_beat",
    "celery_worker",
    "find_redis",
    "flower",
    "flower_program",
    "lacks",
    "postgres",
    "redis_server",
    "stack",
    "supervisor",
    "worker_environment",
    "worker_program",
]
