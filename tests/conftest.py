"""Real servers for the tests: started once, a fresh database for each test that needs one."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psycopg
import pytest
import redis
from tests import prebuilt
from tests.clients import called_alike
from tests.integration.provider import Provider, running
from tests.lanes import has_quick_tests, is_full, is_of_peers

from retrieval_client import AsyncClient, Client
from workbench.devstack.redis import find_redis, missing_tls, redis_server, version
from workbench.devstack.stack import Stack
from workbench.devstack.workers import stack_environment
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import count_words, load, migrate
from worker.settings import Settings, from_values, load_unconnected, read_values
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.devstack.postgres import Postgres

# The same examples in each run: a suite that fails by chance does not say what broke; random ones are for `make fuzz`.
# No deadline: the machine is shared. `make test` takes the first profile, all else the second.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=10, derandomize=True)
hypothesis.settings.register_profile("repeatable", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.load_profile("repeatable")

QUICK_LANE = "not full"
"""Mark expression of `make test`."""

SAMPLE = "sample_template"
_numbers = itertools.count(1)

# A shell has what it runs in the background ignore Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Nor does the terminal from which the tests are run decide how wide a table is, or whether it has colours.
for _variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(_variable, None)


def pytest_configure(config: pytest.Config) -> None:
    """Give the processes of this run a folder to share."""
    prebuilt.share_folder(config)


def pytest_report_header() -> list[str]:
    """Say which Redis or Valkey the tests run on, and why none speaks TLS."""
    binary = find_redis()
    without = missing_tls()
    return [f"Redis: {'.'.join(map(str, version(binary)))} ({binary})", *([f"TLS: {without}"] if without else [])]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what the quick lane leaves out."""
    if config.option.markexpr == QUICK_LANE:
        terminalreporter.write_line(
            "Left out: faults, many rows, replicas, PostgreSQL 16, and what needs TLS, a browser, Node.js, Docker or "
            "root. `make test-rest` runs it."
        )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which the quick lane runs nothing: each process of the tests would import all of them."""
    if config.option.markexpr != QUICK_LANE or collection_path.suffix != ".py":
        return None
    return True if not has_quick_tests(str(collection_path.relative_to(config.rootpath))) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the full lane, and those of packages of others."""
    for item in items:
        if is_of_peers(item.nodeid):
            item.add_marker(pytest.mark.peers)
        if is_full(item.nodeid):
            item.add_marker(pytest.mark.full)


def pytest_collection_finish() -> None:
    """Keep thousands of tests out of each garbage collection: they are there to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def servers() -> Iterator[Stack]:
    """PostgreSQL 18 and Redis for this test session; Postgres has the database `SAMPLE`."""
    with (
        tempfile.TemporaryDirectory(prefix="rw-", dir=prebuilt.fast_place(), ignore_cleanup_errors=True) as folder,
        prebuilt.postgres(Path(folder) / "postgres", SAMPLE, fill_sample) as server,
        redis_server(Path(folder) / "redis") as broker,
    ):
        yield Stack(Path(folder), server, broker)


def fill_sample(server: Postgres) -> None:
    """Make a database with the schema and the sample corpora."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {SAMPLE}")
    with psycopg.connect(server.dsn(SAMPLE), autocommit=True) as connection:
        migrate(connection)
        files = [read(file) for file in SAMPLES.values()]
        for file in files:
            load(connection, file, LexicalEmbedder())
        count_words(connection, load_unconnected(config_folder() / "worker.toml").corpora, files)


@pytest.fixture(scope="session")
def stack(servers: Stack) -> Stack:
    """The servers that tests use; a module may put others in their place."""
    return servers


@pytest.fixture(scope="session")
def sample_template(servers: Stack) -> str:
    """Name of a database with the schema and the sample corpora, to be cloned."""
    del servers  # which have it
    return SAMPLE


@pytest.fixture
def database(stack: Stack, sample_template: str) -> Iterator[str]:
    """Name of a fresh database with the schema and the sample corpora."""
    with prebuilt.copied_database(stack.postgres, sample_template, f"test_{next(_numbers)}") as name:
        yield name


@pytest.fixture
def admin(stack: Stack, database: str) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection to the fresh database, in autocommit."""
    with psycopg.connect(stack.postgres.dsn(database), autocommit=True) as connection:
        yield connection


@pytest.fixture
def broker(stack: Stack) -> Iterator[redis.Redis]:
    """An emptied Redis."""
    with redis.Redis.from_url(stack.redis.url(0)) as client:
        client.flushall()
        yield client


@pytest.fixture(params=[Client, AsyncClient], ids=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients of either kind, which are called as the one that blocks."""
    with called_alike(request.param) as make:
        yield make


@pytest.fixture
def make_settings(stack: Stack) -> Callable[..., Settings]:
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
def worker_environment(stack: Stack, database: str) -> Callable[..., dict[str, str]]:
    """Makes the environment of a worker process on the fresh database."""

    def make(**changes: str) -> dict[str, str]:
        environment = stack_environment(stack, TRUST_QUEUE="true", LOG__FORMAT="json", **changes)
        return {**environment, "DATABASE_CONNECTION_STRING": stack.postgres.dsn(database, "retrieval_worker")}

    return make


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider of models on loopback, whose answers a test chooses."""
    with running() as server:
        yield server


@pytest.fixture
def worker_log(tmp_path: Path) -> Path:
    """Where a worker process of this test logs."""
    return tmp_path / "worker.log"
