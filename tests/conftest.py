"""Real servers for the tests: started once, a fresh database for whoever asks."""

from __future__ import annotations

import itertools
import signal
from typing import TYPE_CHECKING, Any

import hypothesis
import psycopg
import pytest
import redis
from tests.lanes import is_full

from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli import devstack
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.devstack.redis import find_redis, version
from worker.cli.loader import load, migrate
from worker.settings import Settings, from_values, read_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# The same examples in each run: a suite that fails by chance tells nobody what broke; random ones are for `make fuzz`.
# No deadline: the machine is shared. The number of examples keeps the unit tests under ten seconds.
hypothesis.settings.register_profile("repeatable", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.load_profile("repeatable")

_numbers = itertools.count(1)

# A shell has what it runs in the background ignore Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    """Say which Redis the tests run on, and what of config/redis it can't do."""
    binary = find_redis()
    said = f"Redis: {'.'.join(map(str, version(binary)))} ({binary})"
    return [said, *(f"Redis: {missing}" for tls in (False, True) if (missing := devstack.lacks(tls=tls)))]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what only `make test-all` runs."""
    for item in items:
        if is_full(item.nodeid):
            item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[devstack.Stack]:
    """PostgreSQL 18 and Redis for this test session."""
    del tmp_path_factory  # pytest's folders are closed to the account that Postgres runs as
    with devstack.stack() as running:
        yield running


@pytest.fixture(scope="session")
def stack(servers: devstack.Stack) -> devstack.Stack:
    """The servers that tests use; a module may put others in their place."""
    return servers


@pytest.fixture(scope="session")
def sample_template(servers: devstack.Stack) -> str:
    """Name of a database with the schema and the sample corpora, to be cloned."""
    name = "sample_template"
    with psycopg.connect(servers.postgres.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(servers.postgres.dsn(name), autocommit=True) as connection:
        migrate(connection)
        for file in SAMPLES.values():
            load(connection, read(file), LexicalEmbedder())
    return name


@pytest.fixture
def database(stack: devstack.Stack, sample_template: str) -> Iterator[str]:
    """Name of a fresh database with the schema and the sample corpora."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {sample_template}")
        yield name
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def admin(stack: devstack.Stack, database: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection to the fresh database, in autocommit."""
    with psycopg.connect(stack.postgres.dsn(database), autocommit=True) as connection:
        yield connection


@pytest.fixture
def broker(stack: devstack.Stack) -> Iterator[redis.Redis]:
    """An emptied Redis."""
    with redis.Redis.from_url(stack.redis.url(0)) as client:
        client.flushall()
        yield client


@pytest.fixture
def make_settings(stack: devstack.Stack) -> Callable[..., Settings]:
    """Makes settings as shipped, with the changes given, for a database of the stack."""

    def make(dbname: str = "postgres", user: str = "retrieval_worker", **changes: Any) -> Settings:
        values = read_values() | {
            "database_connection_string": stack.postgres.dsn(dbname, user),
            "broker_url": stack.redis.url(0),
            "result_backend": stack.redis.url(1),
            "trust_queue": True,
            "cache": read_values()["cache"] | {"timeout_seconds": 5.0},  # the machine is shared
        }
        for name, change in changes.items():
            merge = isinstance(change, dict) and isinstance(values.get(name), dict) and name != "corpora"
            values[name] = {**values[name], **change} if merge else change
        if "modes" not in changes:  # those whose corpora are there, as with a settings file of one's own
            corpora = values["corpora"].keys()
            values["modes"] = {
                name: mode for name, mode in values["modes"].items() if mode["corpora"].keys() <= corpora
            }
        return from_values(values)

    return make


@pytest.fixture
def settings(make_settings: Callable[..., Settings], database: str) -> Settings:
    """Settings as shipped (but trusting the queue), for the fresh database."""
    return make_settings(database)


@pytest.fixture
def worker_environment(stack: devstack.Stack, database: str) -> Callable[..., dict[str, str]]:
    """Makes the environment of a worker process on the fresh database."""

    def make(**changes: str) -> dict[str, str]:
        environment = devstack.worker_environment(stack, TRUST_QUEUE="true", LOG__FORMAT="json", **changes)
        return {**environment, "DATABASE_CONNECTION_STRING": stack.postgres.dsn(database, "retrieval_worker")}

    return make


@pytest.fixture
def worker_log(tmp_path: Path) -> Path:
    """Where a worker process of this test logs."""
    return tmp_path / "worker.log"
