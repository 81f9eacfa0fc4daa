"""Shared by all acceptance tests: Redis refuses none of the shipped users what they need."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis
from kombu import pools
from tests.acceptance.records import assert_as_the_contract_says
from tests.refusals import refusals

from retrieval_client import Client
from workbench.devstack.redis import missing_tls, redis_server
from workbench.devstack.workers import celery_worker

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from workbench.devstack.stack import Stack

    from .jobs import Start


@pytest.fixture(scope="module")
def tls_stack(servers: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The servers with a Redis that speaks TLS only, where this machine's does: for a module's own `stack`."""
    if missing_tls():
        yield servers
        return
    with redis_server(tmp_path_factory.mktemp("redis"), tls=True) as secure:
        yield replace(servers, redis=secure)


@pytest.fixture
def client(stack: Stack, broker: redis.Redis) -> Iterator[Client]:
    """A backend, as the producer that is shipped; it goes past the links that a test may put before its worker."""
    del broker  # emptied
    made = Client(*stack.redis.urls("producer"))
    yield made
    made.close()
    with redis.Redis.from_url(stack.redis.url(1)) as results:
        assert_as_the_contract_says(results)


@pytest.fixture
def locked(admin: psycopg.Connection[Any], stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that keeps every search waiting until it is rolled back."""
    # Jobs may wait here for longer than the role's limits allow.
    admin.execute(f"ALTER ROLE retrieval_worker IN DATABASE {admin.info.dbname} SET lock_timeout = '60s'")
    with psycopg.connect(stack.postgres.dsn(admin.info.dbname)) as connection:
        connection.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
        yield connection
        connection.rollback()


@pytest.fixture
def start(worker_environment: Callable[..., dict[str, str]], worker_log: Path) -> Start:
    """Starts a worker with these options and settings on the fresh database; all log to `worker_log`."""

    def started(*options: str, **changes: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return celery_worker(worker_environment(**changes), worker_log, *options)

    return started


@pytest.fixture(autouse=True)
def _pools_are_of_one_test() -> Iterator[None]:
    """Leave no connection of kombu's pools to a later test: Redis ends those that are silent for two minutes."""
    yield
    for group in (pools.producers, pools.connections):
        for pool in group.values():
            pool.resize(pool.limit, reset=True)


@pytest.fixture(autouse=True)
def _nothing_is_refused(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a process was refused a command, a key or a channel; tests that provoke it mark that."""
    if "stack" not in request.fixturenames or request.node.get_closest_marker("provokes_refusals"):
        yield
        return
    server = request.getfixturevalue("stack").redis
    with redis.Redis.from_url(server.url()) as admin:
        admin.acl_log_reset()
    yield
    assert refusals(server) == []
