"""`/healthz` and `/readyz` of a real worker: they fail when they should, and only then."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.waiting import wait_for

from workbench.devstack.processes import free_port
from workbench.devstack.redis import redis_server
from workbench.devstack.workers import celery_worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

    from .jobs import Start


@pytest.fixture
def port() -> int:
    return free_port()


def asked(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=180) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_worker_that_answers_is_well_and_ready(port: int, start: Start) -> None:
    """And no other page is there: a probe of a wrong path fails."""
    with start("--concurrency=1", METRICS__PORT=str(port)):
        wait_for(lambda: asked(port, "/readyz") == (200, "ok\n"))
        assert asked(port, "/healthz") == (200, "ok\n")
        assert asked(port, "/metrics")[0] == 200
        assert asked(port, "/healthz?verbose") == (200, "ok\n")
        for path in ("/", "/health", "/metrics/", "/readyz/..", "/healthz%2f"):
            assert asked(port, path)[0] == 404


def test_without_postgres_it_is_well_and_not_ready(
    port: int, start: Start, admin: psycopg.Connection[Any], worker_log: Path
) -> None:
    """Starting it anew would help nobody. Why it is not ready is in the log, not on a page without a password."""
    name = admin.info.dbname
    with start("--concurrency=1", METRICS__PORT=str(port)):
        wait_for(lambda: asked(port, "/readyz")[0] == 200)
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker'")
        wait_for(lambda: asked(port, "/readyz")[0] == 503)
        assert asked(port, "/readyz")[1] == "Postgres, its role and tables: Unavailable\n"
        assert asked(port, "/healthz") == (200, "ok\n")
        assert '"event":"not ready"' in worker_log.read_text().replace('": "', '":"')
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")
        wait_for(lambda: asked(port, "/readyz") == (200, "ok\n"))


def test_a_role_that_could_see_all_rows_is_not_ready(port: int, start: Start, admin: psycopg.Connection[Any]) -> None:
    """As at the worker's start, also later."""
    with start("--concurrency=1", METRICS__PORT=str(port)):
        wait_for(lambda: asked(port, "/readyz")[0] == 200)
        admin.execute("ALTER TABLE document_chunks DISABLE ROW LEVEL SECURITY")
        wait_for(lambda: asked(port, "/readyz")[0] == 503)
        assert asked(port, "/readyz")[1] == "Postgres, its role and tables: SettingsError\n"


def test_without_redis_it_is_well_and_not_ready(
    port: int, worker_environment: Callable[..., dict[str, str]], worker_log: Path, tmp_path: Path
) -> None:
    """Its main loop waits for Redis then, and that is no reason to kill it."""
    environment = worker_environment(METRICS__PORT=str(port))
    with (
        redis_server(tmp_path / "redis") as server,
        celery_worker(environment | server.environment("worker"), worker_log, "--concurrency=1"),
    ):
        wait_for(lambda: asked(port, "/readyz")[0] == 200)
        server.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: asked(port, "/readyz")[0] == 503)
            assert "Redis: Unavailable\n" in asked(port, "/readyz")[1]
            assert asked(port, "/healthz") == (200, "ok\n")
        finally:
            server.process.send_signal(signal.SIGCONT)
        wait_for(lambda: asked(port, "/readyz") == (200, "ok\n"))


def test_a_worker_without_a_process_is_not_ready(port: int, start: Start) -> None:
    """Its processes die at once, again and again: jobs would wait."""
    with start("--concurrency=1", METRICS__PORT=str(port)) as worker:
        wait_for(lambda: asked(port, "/readyz")[0] == 200)

        def unready() -> bool:
            for process in psutil.Process(worker.pid).children():
                os.kill(process.pid, signal.SIGKILL)
            return "no process is ready\n" in asked(port, "/readyz")[1]

        wait_for(unready)
        wait_for(lambda: asked(port, "/readyz")[0] == 200)
