"""The inspector's commands where Postgres or Redis is away at their start: one sentence, and an exit code."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from workbench.devstack.processes import free_port

from .test_ui import on_screen

if TYPE_CHECKING:
    from collections.abc import Callable

    Environment = Callable[..., dict[str, str]]

POSTGRES = "postgresql://retrieval_worker@127.0.0.1:{port}/x"
REDIS = "redis://127.0.0.1:{port}/0"


def without(environment: dict[str, str], what: str) -> dict[str, str]:
    """The environment of a command whose Postgres or Redis does not answer."""
    port = free_port()
    if what == "Postgres":
        return environment | {"DATABASE_CONNECTION_STRING": POSTGRES.format(port=port)}
    return environment | dict.fromkeys(("CELERY_BROKER_URL", "CELERY_RESULT_BACKEND"), REDIS.format(port=port))


INSPECT = [sys.executable, "-m", "workbench", "inspect", "--as", "alice", "--port", "0"]


def test_without_postgres_no_page_is_served(worker_environment: Environment) -> None:
    """Exit code 69 and one sentence: nothing listens, and no stack trace."""
    environment = without(worker_environment(), "Postgres")
    ended = subprocess.run(INSPECT, env=environment, check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (69, "")
    assert re.fullmatch(SENTENCES["Postgres"], ended.stderr.strip())


def test_without_redis_only_the_queue_is_not_shown(worker_environment: Environment) -> None:
    """Runs are read from Postgres."""
    environment = without(worker_environment(), "Redis")
    with subprocess.Popen(INSPECT, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().strip()
        with httpx.Client(base_url=address.partition("/sign-in")[0], timeout=60) as client:
            client.get(address)
            runs, queue = (client.get(page) for page in ("/", "/queue"))
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert (runs.status_code, queue.status_code) == (200, 503)
    assert "Try again later" in queue.text
    assert "Traceback" not in said


SENTENCES = {
    "Postgres": r"retrieval-worker: Postgres is away",
    "Redis": r"retrieval-worker: Redis is away \(127\.0\.0\.1:\d+\)",
}


@pytest.mark.parametrize("what", ["Postgres", "Redis"])
def test_the_terminal_is_not_taken(worker_environment: Environment, what: str) -> None:
    """Exit code 69 and one sentence, without a screen before it; Redis is needed with --queue only."""
    with on_screen(without(worker_environment(), what), "--as", "alice", "--queue") as screen:
        assert screen.ended(60) == 69
        assert re.fullmatch(SENTENCES[what], screen.output.strip())


def test_without_the_queue_the_terminal_needs_no_redis(worker_environment: Environment) -> None:
    """It answers questions itself."""
    with on_screen(without(worker_environment(), "Redis"), "--as", "alice") as screen:
        screen.wait_for("your question")
        screen.type_in("\x03")
        assert screen.ended() == 130
