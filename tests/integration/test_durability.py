"""Warnings about servers whose settings could lose a job, or hold one for ever."""

from __future__ import annotations

import re
import shlex
import socketserver
import threading
from typing import TYPE_CHECKING, Any

import pytest
import redis

from retrieval_client.errors import SettingsError
from workbench.devstack.redis import Redis, redis_server
from worker.adapters.durability import Finding, check_redis, redis_findings, role_findings, storage_findings, warnings
from worker.adapters.postgres.database import Database
from worker.cli.doctor import examine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from worker.settings import Settings


UNSEEING = ("~*", "&*", "+@all", "-config")
"""A worker's rights, without those to see how Redis is set."""


SETTINGS = ("appendonly", "appendfsync", "maxmemory-policy")
"""Those of Redis that tests change."""


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A Redis as `up` starts it."""
    with redis_server(tmp_path_factory.mktemp("durable") / "redis", durable=True) as server:
        yield server


@pytest.fixture
def operator(durable: Redis) -> Iterator[redis.Redis]:
    """May change settings and users; both are as they were for the next test."""
    with redis.Redis.from_url(durable.url(), decode_responses=True) as client:
        kept = client.config_get(*SETTINGS)
        yield client
        for name in SETTINGS:
            client.config_set(name, kept[name])
        client.acl_deluser("limited", "unseeing")


@pytest.fixture
def pointed(make_settings: Callable[..., Settings], durable: Redis) -> Settings:
    return make_settings(broker_url=durable.url(0), result_backend=durable.url(1))


def advice(findings: Iterator[Finding]) -> list[str]:
    return [finding.text for finding in findings if finding.level == "advice"]


def test_a_redis_that_loses_nothing_is_left_alone(pointed: Settings) -> None:
    """`up` starts a Redis of which there is nothing to say."""
    assert [*redis_findings(pointed)] == [Finding("ok", name, "it answers") for name in ("Redis", "results")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("appendonly", "no"),
        ("appendfsync", "everysec"),
        ("appendfsync", "no"),
        ("maxmemory-policy", "allkeys-lru"),
        ("maxmemory-policy", "volatile-ttl"),
    ],
)
def test_a_redis_that_could_lose_jobs_is_named_with_the_command_that_mends_it(
    pointed: Settings, operator: redis.Redis, name: str, value: str
) -> None:
    """The start and `doctor` say the same, and the command does what it says."""
    operator.config_set(name, value)
    (said,) = advice(redis_findings(pointed))
    assert said.startswith(f"{name} is {value}: ")
    assert said in [finding.text for finding in examine(pointed)]
    command = re.search(r"CONFIG SET [^,]+", said)
    assert command is not None
    operator.execute_command(*shlex.split(command[0]))
    assert advice(redis_findings(pointed)) == []


def test_a_redis_that_hides_its_settings_is_no_fault(
    make_settings: Callable[..., Settings], durable: Redis, operator: redis.Redis
) -> None:
    """A user who may not ask sees what INFO tells, where the user may run it; the rest is said to be unseen."""
    for name, rights in (("limited", ()), ("unseeing", ("-info",))):
        operator.execute_command("ACL", "SETUSER", name, "on", ">a password", *UNSEEING, *rights)
    url, results = (f"redis://{name}:a%20password@127.0.0.1:{durable.port}" for name in ("limited", "unseeing"))
    settings = make_settings(broker_url=f"{url}/0", result_backend=f"{results}/1")
    findings = [*redis_findings(settings)]
    assert {finding.level for finding in findings} == {"ok"}
    assert any("appendfsync can't" in finding.text for finding in findings)
    assert "a password" not in str(findings)
    assert "redis" not in [finding.subject.lower() for finding in warnings(settings)]


def test_what_info_tells_is_judged(
    make_settings: Callable[..., Settings], durable: Redis, operator: redis.Redis
) -> None:
    """Without CONFIG, an append-only file that is off is seen all the same."""
    operator.execute_command("ACL", "SETUSER", "limited", "on", ">p", *UNSEEING)
    operator.config_set("appendonly", "no")
    url = f"redis://limited:p@127.0.0.1:{durable.port}/0"
    (said,) = advice(redis_findings(make_settings(broker_url=url, result_backend=durable.url(1))))
    assert said.startswith("appendonly is no")


@pytest.mark.parametrize("results", [None, 0])
def test_results_in_the_queues_database_are_named(
    make_settings: Callable[..., Settings], durable: Redis, results: int | None
) -> None:
    """One Redis is enough; one database for both is worth a word."""
    backend = None if results is None else durable.url(results)
    (said,) = advice(redis_findings(make_settings(broker_url=durable.url(0), result_backend=backend)))
    assert "CELERY_RESULT_BACKEND" in said


@pytest.mark.parametrize("url", ["redis://:a-password@127.0.0.1:1/0", "http://a-password/", "redis://h:port/0"])
def test_a_redis_that_is_away_is_a_problem_without_its_password(
    make_settings: Callable[..., Settings], url: str
) -> None:
    """The class of the error, not the URL."""
    findings = [*redis_findings(make_settings(broker_url=url))]
    assert findings[0].level == "problem"
    assert "a-password" not in str(findings)


# --- a Redis without BLMOVE ---------------------------------------------------------------------


class OldRedis(socketserver.StreamRequestHandler):
    """Answers as a Redis of the server's `version` does, to the little that is asked."""

    def handle(self) -> None:
        while count := self.rfile.readline():
            words = []
            for _ in range(int(count[1:])):
                length = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(length + 2)[:-2].decode().upper())
            self.wfile.write(self._answer(words))

    def _answer(self, words: list[str]) -> bytes:
        if words[0] == "PING":
            return b"+PONG\r\n"
        if words[0] == "INFO":
            reported = f"# Server\r\nredis_version:{self.server.version}\r\n".encode()
            return b"$%d\r\n%s\r\n" % (len(reported), reported)
        if words[0] == "SELECT":
            return b"+OK\r\n"
        return b"-ERR unknown command\r\n"


@pytest.fixture
def old_redis(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of a Redis of the version that is asked for."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), OldRedis) as server:
        server.daemon_threads = True
        server.version = request.param
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("old_redis", ["6.0.16", "5.0.7"], indirect=True)
def test_a_redis_without_blmove_is_a_problem_and_stops_the_start(
    make_settings: Callable[..., Settings], old_redis: str
) -> None:
    """Without it no job would ever be taken. Both say which version is needed, and what else could be done."""
    settings = make_settings(broker_url=old_redis)
    (problem,) = [finding for finding in redis_findings(settings) if finding.level == "problem"]
    assert "since 6.2" in problem.text
    with pytest.raises(SettingsError, match=r"is too old.*BLMOVE"):
        check_redis(settings)


@pytest.mark.parametrize("old_redis", ["6.2.0", "7.0.15", "10.1", "unstable", ""], indirect=True)
def test_a_newer_redis_or_one_that_tells_nothing_is_taken(
    make_settings: Callable[..., Settings], old_redis: str
) -> None:
    """A version is compared as two numbers, not as text; a server without one is not judged by it."""
    settings = make_settings(broker_url=old_redis)
    check_redis(settings)
    assert "problem" not in [finding.level for finding in redis_findings(settings)]


def test_a_redis_that_is_away_or_closed_stops_no_start(
    make_settings: Callable[..., Settings], durable: Redis, operator: redis.Redis
) -> None:
    """The worker waits for the one, and works with the other."""
    check_redis(make_settings(broker_url="redis://127.0.0.1:1/0"))
    operator.execute_command("ACL", "SETUSER", "limited", "on", ">p", *UNSEEING)
    check_redis(make_settings(broker_url=f"redis://limited:p@127.0.0.1:{durable.port}/0"))


# --- the role -----------------------------------------------------------------------------------


@pytest.fixture
def role(admin: psycopg.Connection[Any], database: str) -> Iterator[str]:
    """A role that may start a worker and has no time limits."""
    name = f"unlimited_{database}"
    admin.execute(
        f"CREATE ROLE {name} LOGIN NOINHERIT; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name};"
        f"GRANT USAGE ON SCHEMA retrieval TO {name}"
    )
    yield name
    admin.execute(f"ALTER ROLE {name} NOLOGIN")


def test_the_role_of_the_schema_has_its_limits(settings: Settings) -> None:
    """`migrate` makes a role of which there is nothing to say."""
    assert [*role_findings(settings)] == []


@pytest.mark.parametrize("search_seconds", [10, 40, 100])  # a job may take 90
def test_a_role_without_limits_is_named_with_the_commands_that_mend_it(
    make_settings: Callable[..., Settings],
    database: str,
    admin: psycopg.Connection[Any],
    role: str,
    search_seconds: int,
) -> None:
    """One command a limit, and they do what they say."""
    settings = make_settings(database, user=role, search={"statement_timeout_seconds": search_seconds})
    said = advice(role_findings(settings))
    assert len(said) == 3
    assert set(said) <= {finding.text for finding in warnings(settings)}
    assert set(said) <= {finding.text for finding in examine(settings)}
    for text in said:
        admin.execute(text[text.index("ALTER ROLE") :].encode())
    assert advice(role_findings(settings)) == []


def session(settings: Settings) -> list[Any]:
    engine = Database(settings)
    with engine._pool.connection() as connection:
        row = connection.execute(
            "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'),"
            " current_setting('statement_timeout')"
        ).fetchone()
    engine.close()
    return [*(row or ())]


def test_a_session_has_limits_though_its_role_has_none(
    make_settings: Callable[..., Settings], database: str, role: str
) -> None:
    """The worker does not depend on a role of somebody else's making."""
    assert session(make_settings(database, user=role)) == ["5s", "30s", "30s"]


def test_a_roles_own_limits_stay(
    make_settings: Callable[..., Settings], database: str, role: str, admin: psycopg.Connection[Any]
) -> None:
    """Who sets a limit knows why."""
    admin.execute(f"ALTER ROLE {role} SET lock_timeout = '1min'; ALTER ROLE {role} SET statement_timeout = '1s'")
    assert session(make_settings(database, user=role)) == ["1min", "30s", "1s"]


@pytest.mark.parametrize(
    ("stated", "timeout"), [("", "10000"), ("&tcp_user_timeout=1234", "1234"), ("&keepalives=0", "10000")]
)
def test_a_link_has_its_limits_unless_the_connection_string_has_others(
    make_settings: Callable[..., Settings], settings: Settings, stated: str, timeout: str
) -> None:
    """Keepalives and `tcp_user_timeout` go to libpq; what an operator wrote outranks them."""
    dsn = settings.database_connection_string.get_secret_value()
    engine = Database(make_settings(database_connection_string=dsn + stated))
    with engine._pool.connection() as connection:
        parameters = connection.info.get_parameters()
    engine.close()
    assert parameters["tcp_user_timeout"] == timeout
    assert parameters.get("keepalives") == ("0" if "keepalives" in stated else "1")


# --- what a crash or a failover leaves ----------------------------------------------------------


def test_what_a_crash_of_postgres_would_lose_is_named(
    settings: Settings, admin: psycopg.Connection[Any], database: str
) -> None:
    """With the command that mends it; a throw-away server of the tests has all three off."""
    losing = "the role retrieval_worker has synchronous_commit off"
    said = advice(storage_findings(settings))
    assert [text.split(":")[0] for text in said] == ["fsync is off", "full_page_writes is off", losing]
    assert {*said} <= {finding.text for finding in examine(settings)}
    admin.execute(f"ALTER ROLE retrieval_worker IN DATABASE {database} SET synchronous_commit = on".encode())
    assert losing not in str(advice(storage_findings(settings)))
