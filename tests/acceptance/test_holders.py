"""Who holds which jobs, as the queue's page and `doctor` tell it, also after an abrupt end."""

from __future__ import annotations

import contextlib
import html
import re
import socket
import time
from typing import TYPE_CHECKING, Any

from tests.command_line import command_line
from tests.integration.inspecting import served, settings_of, visitor
from tests.waiting import wait_for, waiting_sessions

from workbench.devstack.workers import celery_worker
from worker.jobs.engine import Engine
from worker.queue.broker import keys
from worker.queue.overview import Overview
from worker.settings.serving import QUEUES

from .jobs import JOB, kill_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg
    import pytest
    import redis

    from retrieval_client import Client
    from workbench.devstack.stack import Stack
    from worker.settings import Settings


GONE = r"holds 2 of retrieval; it is gone, last heard from \d+ s ago: requeued once a worker runs"


def shown_on_page(settings: Settings) -> str:
    """The queue's page, as an operator sees it."""
    with (
        contextlib.closing(Engine(settings, time.perf_counter)) as engine,
        served(engine, settings) as url,
        visitor(url, "olga", roles=["operator"]) as olga,
    ):
        return html.unescape(re.sub(r"<[^>]+>", "", olga.get("/queue").text))


def test_after_a_kill_page_and_doctor_tell_who_holds_what(
    stack: Stack,
    client: Client,
    broker: redis.Redis,
    locked: psycopg.Connection[Any],
    worker_environment: Callable[..., dict[str, str]],
    make_settings: Callable[..., Settings],
    database: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each worker by its name, until another one has requeued it: then it is told of no more, and listed nowhere."""
    environment = worker_environment(SEARCH__STATEMENT_TIMEOUT_SECONDS="50")
    overview = Overview(stack.redis.url(0, "inspector"), QUEUES)
    with celery_worker(environment, tmp_path / "killed.log", "--concurrency=2") as killed:
        name = f"{socket.gethostname()[:40]}-{killed.pid}"
        ids = [client.enqueue(JOB) for _ in range(2)]
        wait_for(lambda: waiting_sessions(locked) == 2)
        wait_for(lambda: overview.look(0).workers[0].running_seconds is not None)  # told at the next heartbeat
        state = overview.look(0)
        assert [(worker.name, worker.held) for worker in state.workers] == [(name, {"retrieval": 2})]
        assert re.fullmatch(r"holds 2 of retrieval, the oldest runs for \d+ s", state.describe(state.workers[0]))
        kill_whole(killed)
    locked.rollback()
    wait_for(lambda: overview.look(0).alive == 0)
    state = overview.look(0)
    assert [worker.name for worker in state.workers] == [name]
    assert re.fullmatch(GONE, state.describe(state.workers[0]))
    assert re.search(
        f"0 workers.*{name} {GONE}", shown_on_page(settings_of(make_settings, database, tmp_path)), re.DOTALL
    )
    assert re.search(f"advice  worker: {name} {GONE}", command_line(capsys, environment)("doctor").stdout)
    with celery_worker(environment, tmp_path / "other.log", "--concurrency=2") as other:
        assert [client.result(task_id, timeout=180).status for task_id in ids] == ["ok"] * 2  # type: ignore[union-attr] # of a search
        wait_for(lambda: [worker.held for worker in overview.look(0).workers] == [{}])
        places: Any = broker.zrange(keys.OWNERS, 0, -1)
        assert {keys.worker_of(keys.parse_inflight(place.decode())[1]).rpartition("-")[2] for place in places} == {
            str(other.pid)
        }
    assert overview.look(0).workers == ()
