"""The search that acceptance tests send where any job will do, and the pool process that runs it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
from tests.waiting import wait_for

from retrieval_client import RetrieveTopK, encode_embedding
from worker.core.text import lexical

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Start = Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]

HUM = "What causes the 50 Hz hum on channel 18?"
QUERY = encode_embedding(lexical.embed([HUM])[0].tolist())
JOB = RetrieveTopK(query_embedding=QUERY, principal={"user_id": "alice"})


PATIENT = {"SEARCH__STATEMENT_TIMEOUT_SECONDS": "50"}
"""Settings of a worker whose searches `wait_for_locks` lets wait for long."""


def wait_for_locks(admin: psycopg.Connection[Any]) -> None:
    """Let the worker's searches of a database wait for a lock for longer than the shipped five seconds."""
    admin.execute(f"ALTER ROLE retrieval_worker IN DATABASE {admin.info.dbname} SET lock_timeout = '100s'")


@contextlib.contextmanager
def searches_held(environment: dict[str, str]) -> Iterator[None]:
    """Searches wait for a lock as long as this lasts."""
    dsn = environment["DATABASE_CONNECTION_STRING"].replace("retrieval_worker", "postgres")
    with psycopg.connect(dsn) as connection:
        connection.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
        yield
        connection.rollback()


def kill_whole(worker: subprocess.Popen[bytes]) -> None:
    """Kill a worker with all its processes, as the end of its machine does."""
    processes = psutil.Process(worker.pid).children()
    worker.kill()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    worker.wait(180)


def pool_process(worker: subprocess.Popen[bytes]) -> psutil.Process:
    """Return the only pool process of a worker with one."""
    found: list[psutil.Process] = []

    def there_is_one() -> bool:
        found[:] = psutil.Process(worker.pid).children()
        return len(found) == 1

    wait_for(there_is_one)
    return found[0]
