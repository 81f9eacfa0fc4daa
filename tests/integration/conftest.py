"""Fixtures that several integration tests share."""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis
from tests.command_line import command_line
from tests.refusals import refusals

from worker.jobs.engine import Engine

from .adopting import Site
from .large import Large, large_corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from workbench.devstack.stack import Stack
    from worker.settings import Settings


@pytest.fixture(scope="session", params=[16, 18])
def large(request: pytest.FixtureRequest) -> Iterator[Large]:
    """50,000 rows, on PostgreSQL 16 and 18."""
    with large_corpus(request.param) as filled:
        yield filled


@pytest.fixture
def open_engine(make_settings: Callable[..., Settings], database: str) -> Iterator[Callable[..., Engine]]:
    """Opens engines on the fresh database with settings of their own."""
    with contextlib.ExitStack() as engines:
        yield lambda **changes: engines.enter_context(
            contextlib.closing(Engine(make_settings(database, **changes), time.perf_counter))
        )


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    """The engine on the fresh database, without a queue before it."""
    made = Engine(settings, time.perf_counter)
    yield made
    made.close()


@pytest.fixture
def url(stack: Stack, broker: redis.Redis) -> Iterator[str]:
    """Where a worker finds the emptied Redis, which must refuse it nothing."""
    broker.acl_log_reset()
    yield stack.redis.url(0, "worker")
    assert refusals(stack.redis) == []


@pytest.fixture
def store(stack: Stack, broker: redis.Redis) -> Iterator[redis.Redis]:
    """The Redis of the results, where the cache is unless settings say otherwise."""
    del broker
    with redis.Redis.from_url(stack.redis.url(1)) as client:
        yield client


@pytest.fixture
def unnoticed(stack: Stack, database: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser whose writes Postgres does not count, so that no version of a corpus changes."""
    with psycopg.connect(stack.postgres.dsn(database), autocommit=True) as connection:
        connection.execute("SET track_counts = off")
        yield connection


_numbers = itertools.count(1)


@pytest.fixture
def site(stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Site]:
    """An empty database of an application."""
    name = f"adopted_{next(_numbers)}"
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        url = stack.postgres.dsn(name)
        with psycopg.connect(url, autocommit=True) as own:
            own.execute("CREATE EXTENSION vector")
            yield Site(url, own, command_line(capsys, {}), tmp_path, stack)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
