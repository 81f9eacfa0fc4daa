"""A real Celery worker and Flower, as child processes on a stack."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import sys
import uuid
from typing import TYPE_CHECKING

from celery import Celery

from retrieval_client.errors import SettingsError
from workbench.devstack.processes import Program, listens, reserved_port, running, spawn_python, stop
from worker.settings import PREFIX
from worker.settings.base import config_folder

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from workbench.devstack.stack import Stack


CONNECTIONS = (
    "DATABASE_CONNECTION_STRING",
    "DATABASE_READ_CONNECTION_STRING",
    "CELERY_BROKER_URL",
    "CELERY_RESULT_BACKEND",
)
"""Variables that lead to servers: a stack has servers of its own."""


def own_settings() -> dict[str, str]:
    """Return the worker's settings that the environment of this process has, without their prefix."""
    return {name.removeprefix(PREFIX): value for name, value in os.environ.items() if name.startswith(PREFIX)}


def stack_environment(stack: Stack, **settings: str) -> dict[str, str]:
    """Return the environment of a worker on this stack, with the unprivileged role and the Redis user `worker`.

    Args:
        stack: the running servers.
        settings: the worker's settings, without their prefix: ``TRUST_QUEUE="true"``. None is inherited.
    """
    left_out = (PREFIX, *CONNECTIONS)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {
        **inherited,
        "DATABASE_CONNECTION_STRING": stack.postgres.dsn(user="retrieval_worker"),
        **stack.redis.environment("worker"),
        **{PREFIX + name: value for name, value in settings.items()},
    }


@contextlib.contextmanager
def celery_worker(
    environment: Mapping[str, str], log: Path, *options: str, queues: str = "retrieval,pipeline"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a real Celery worker as a child process; yield it once it answers; stop it warmly.

    Args:
        environment: see `worker_environment`.
        log: file of its log.
        options: further options of ``celery worker``, e.g. ``--autoscale=4,1``.
        queues: the queues that it serves.
    """
    with running(worker_program(environment, log, *options, queues=queues)) as process:
        yield process


def worker_program(
    environment: Mapping[str, str], log: Path, *options: str, queues: str = "retrieval,pipeline"
) -> Program:
    """Describe a Celery worker; arguments as for `celery_worker`. It keeps its name when restarted."""
    name = f"worker-{uuid.uuid4().hex[:8]}@localhost"
    command = [*(sys.executable, "-m", "celery", "-A", "worker.app", "worker", "-n", name, "-Q", queues), *options]
    broker = environment["CELERY_BROKER_URL"]
    return Program("the worker", command, environment, log, lambda: _answers(broker, name))


def _answers(broker: str, name: str) -> bool:
    """Return whether a worker is ready, by a new connection each time: an old one may be closed by now."""
    with Celery(set_as_current=False) as app:
        # As an argument it would yield to the environment of this process, which may name a stopped stack.
        app.conf.update(broker_read_url=broker, broker_write_url=broker)
        with app.connection_for_write() as connection:
            try:
                return {name: {"ok": "pong"}} in app.control.ping([name], timeout=0.25, connection=connection)
            except connection.connection_errors:
                return False


@contextlib.contextmanager
def flower(environment: Mapping[str, str], log: Path, *, user: str, password: str) -> Iterator[str]:
    """Run Flower on a free loopback port; yield its URL."""
    with reserved_port() as port:
        url, program = flower_program(environment, log, port, user=user, password=password)
        with running(program):
            yield url


def flower_program(
    environment: Mapping[str, str], log: Path, port: int, *, user: str, password: str
) -> tuple[str, Program]:
    """Describe Flower on a loopback port; return its URL too.

    Raises:
        SettingsError: Flower is not installed.
    """
    if importlib.util.find_spec("flower") is None:
        raise SettingsError("Flower is not installed here: pip install 'retrieval-worker[monitoring]'")
    command = [
        *(sys.executable, "-m", "celery", "-A", "worker.app", "flower"),
        *(f"--conf={config_folder() / 'flowerconfig.py'}", "--address=127.0.0.1", f"--port={port}"),
    ]
    # In the environment, not on the command line, where every user of the machine could read it.
    secret = {**environment, "FLOWER_BASIC_AUTH": f"{user}:{password}"}
    return f"http://127.0.0.1:{port}", Program("Flower", command, secret, log, lambda: listens(port))


def inspector_program(environment: Mapping[str, str], log: Path, port: int, user: str) -> tuple[str, Program] | None:
    """Describe the inspector on a loopback port, visited as a user, and return its address; None without the extra."""
    if any(importlib.util.find_spec(name) is None for name in ("jinja2", "starlette", "uvicorn")):
        return None
    command = [sys.executable, "-m", "workbench", "inspect", f"--as={user}", f"--port={port}"]
    key = secrets.token_urlsafe(32)
    secret = {**environment, "INSPECTOR_KEY": key}  # as for Flower
    address = f"http://127.0.0.1:{port}/sign-in?key={key}"
    return address, Program("the inspector", command, secret, log, lambda: listens(port))


@contextlib.contextmanager
def celery_beat(environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the schedule as a child process; its state between ticks is stored beside its log."""
    memory = f"--schedule={log.with_suffix('.schedule')}"
    command = [sys.executable, "-m", "celery", "-A", "worker.app", "beat", memory, "--pidfile="]
    process, file = spawn_python(command, environment, log)
    try:
        yield process
    finally:
        stop(process, signal.SIGTERM)
        file.close()
