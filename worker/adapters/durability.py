"""Read-only checks that Redis and Postgres are configured to lose nothing and to wait for nothing without limit.

docs/redis.md says what each setting prevents.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from retrieval_client.errors import RetrievalError, SettingsError
from worker.adapters.postgres.connections import LIMITS
from worker.adapters.postgres.database import connected, translated_errors
from worker.adapters.postgres.sql import blocks
from worker.adapters.redis_refusals import queue_url_problem, refusal, url_problem
from worker.settings.serving import QUEUES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic import SecretStr

    from worker.settings import Settings

_ANSWER_SECONDS = 5
_BLMOVE_SINCE = (6, 2)
"""The first Redis that has the command by which messages are claimed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        level: ``ok``; ``advice`` (it works, but could be faster or safer); ``problem`` (the worker won't start, or
            answers nothing).
        subject: the part that was checked.
        text: the result, and the command that fixes it.
    """

    level: Literal["ok", "advice", "problem"]
    subject: str
    text: str


_REDIS = {
    "appendonly": ("yes", "a restart loses every waiting job"),
    "appendfsync": ("always", "a crash loses the jobs that were sent last, though Redis has acknowledged them"),
    "maxmemory-policy": ("noeviction", "a full Redis drops jobs"),
}
"""Setting of Redis → its expected value, and what happens otherwise."""

_OF_KEPT_RESULTS = {"maxmemory-policy": ("noeviction", "a full Redis drops results that no one has read yet")}
"""The same of a Redis that has only results."""

_NO_CLIENT = 2**63 - 1
"""Number of a connection that does not exist. Never 0: Redis 6.2 takes that for all."""

_OF_THE_BROKER: dict[str, tuple[str | int, ...]] = {
    "EVALSHA with the key unacked": ("EVALSHA", "0" * 40, 1, "unacked"),
    "SCRIPT LOAD": ("SCRIPT", "LOAD", "return 1"),
    "ZRANGE retrieval-worker.owners": ("ZRANGE", "retrieval-worker.owners", 0, 0),
    "INFO server": ("INFO", "server"),
    "CLIENT ID": ("CLIENT", "ID"),
    "CLIENT UNBLOCK": ("CLIENT", "UNBLOCK", _NO_CLIENT),
}
_OF_A_QUEUE: dict[str, tuple[str | int, ...]] = {
    "BLMOVE": ("{0}", "{0}.inflight.of-no-worker", "RIGHT", "LEFT", -1),
    "LMOVE": ("{0}", "{0}.inflight.of-no-worker", "RIGHT", "NOWHERE"),
}
_OF_THE_RESULTS: dict[str, tuple[str | int, ...]] = {
    "EVALSHA with the key celery-task-meta-…": ("EVALSHA", "0" * 40, 1, "celery-task-meta-of-no-task"),
    "SCRIPT LOAD": ("SCRIPT", "LOAD", "return 1"),
    "PUBLISH celery-task-meta-…": ("PUBLISH", "celery-task-meta-of-no-task", ""),
}
"""Name → a command that every worker needs, in a form that changes nothing. Redis checks permissions first, then the
arguments: those that move messages have one that no server takes."""


def _of_channels(database: int) -> dict[str, tuple[str | int, ...]]:
    """Return the commands of Celery's remote control and events, whose channels are named for the queues' database.

    An event without content is read by nobody. The last ends what the first began: the connection is used again.
    """
    control, event = f"/{database}.celery.pidbox", f"/{database}.celeryev/worker.of-no-worker"
    return {
        f"PUBLISH {event}": ("PUBLISH", event, ""),
        f"PSUBSCRIBE {control}": ("PSUBSCRIBE", control),
        f"PUNSUBSCRIBE {control}": ("PUNSUBSCRIBE", control),
    }


_WRITES: dict[str, tuple[tuple[str | int, ...], ...]] = {
    "Redis": (("ZADD", "retrieval-worker.owners", "XX", 0, ""),),
    "results": (("SET", "celery-task-meta-of-no-task", "", "XX"),),
}
"""Server → commands that write only what is there already, and there is no such: Redis checks that it could first."""

_AS_A_WORKER = (
    "Run workers and doctor as a user with the permissions of worker in config/redis/users.acl (docs/redis.md); a "
    "backend's user, such as producer, only sends jobs"
)
_ENDS = "queries by hand are cancelled"
_PREVENTS = {
    "lock_timeout": "a search waits for a lock as long as another session holds it",
    "idle_in_transaction_session_timeout": "a transaction that a killed worker left open blocks VACUUM",
    "statement_timeout": "a query whose result no one awaits keeps running",
}


class _NoAnswer(Exception):
    """A server that does not answer; its argument is the kind of failure."""


class _Server(NamedTuple):
    """A Redis that a worker uses.

    Attributes:
        subject: its name in findings.
        name: its name in sentences.
        variable: the setting that holds its URL.
        url: its URL.
        commands: the commands that a worker must be allowed to run there.
    """

    subject: str
    name: str
    variable: str
    url: SecretStr
    commands: Mapping[str, tuple[str | int, ...]]

    @property
    def writes(self) -> tuple[tuple[str | int, ...], ...]:
        """Return the commands that try whether it takes writes."""
        return _WRITES.get(self.subject, ())


def _of_queues(queues: Iterable[str]) -> dict[str, tuple[str | int, ...]]:
    return {
        f"{name} from {queue}": (name, *(word.format(queue) if isinstance(word, str) else word for word in words))
        for queue in queues
        for name, words in _OF_A_QUEUE.items()
    }


def _servers(settings: Settings, queues: Iterable[str]) -> Iterator[_Server]:
    """Yield the broker, then the other servers that have a URL of their own."""
    results = settings.result_backend
    commands = {**_OF_THE_BROKER, **_of_queues(queues), **(_OF_THE_RESULTS if results is None else {})}
    yield _Server("Redis", "the broker", "CELERY_BROKER_URL", settings.broker_url, commands)
    if results is not None:
        yield _Server("results", "the result backend", "CELERY_RESULT_BACKEND", results, _OF_THE_RESULTS)
    if settings.cache.tasks and settings.cache.url is not None:
        yield _Server("cache", "the cache", "RETRIEVAL_WORKER_CACHE__URL", settings.cache.url, {})


def redis_findings(settings: Settings, queues: Iterable[str] = QUEUES) -> Iterator[Finding]:
    """Check the broker's settings, and that results have a database of their own and can be stored."""
    places = set()
    for server in _servers(settings, queues):
        try:
            problem = _problem(server) or _write_problem(server)
        except _NoAnswer as away:
            problem = f"{server.name} does not answer ({away}): check {server.variable}"
        yield Finding("problem", server.subject, problem) if problem else Finding("ok", server.subject, "it answers")
        place = urlsplit(server.url.get_secret_value()).netloc.rpartition("@")[2]
        if not problem and place not in places:
            with contextlib.suppress(redis.RedisError), _asked(server.url) as client:
                yield from _redis_settings(client, server)
        places.add(place)
    broker, results = settings.broker_url, settings.result_backend
    if results is None or results.get_secret_value() == broker.get_secret_value():
        yield Finding(
            "advice",
            "Redis",
            "results are kept in the queues' own database, where emptying one empties the other. "
            "Set CELERY_RESULT_BACKEND to another database or, so that results can't fill the queues' memory, another "
            "server",
        )


def check_redis(settings: Settings, queues: Iterable[str] = QUEUES) -> None:
    """Check that the settings' transport can work on this broker, as the Redis users of the settings.

    A Redis that is unavailable, or that hides its settings, is no error.

    Raises:
        SettingsError: it is too old, or refuses a user or a command that a worker needs; or a URL does not lead to a
            Redis.
    """
    for server in _servers(settings, queues):
        with contextlib.suppress(_NoAnswer):
            if problem := _problem(server):
                raise SettingsError(problem)


def _problem(server: _Server) -> str | None:
    """Say what keeps a worker from using a server.

    Raises:
        _NoAnswer: the server does not answer.
    """
    url = server.url.get_secret_value()
    if problem := queue_url_problem(url) if server.subject == "Redis" else url_problem(url):
        return f"{server.variable}: {problem}"
    try:
        with _asked(server.url) as client:
            client.connection_pool.make_connection().connect()  # the pool ends it with the client
            too_old = _too_old(client) if server.subject == "Redis" else None
            return too_old or _missing_rights(client, server)
    except (redis.RedisError, ValueError, TypeError) as error:
        if problem := refusal(error, url):
            return f"{server.variable}: {problem}"
        raise _NoAnswer(type(error).__name__) from None  # its text may name the user


def _asked(url: SecretStr) -> redis.Redis:
    return redis.Redis.from_url(
        url.get_secret_value(),
        retry=Retry(NoBackoff(), 0),  # a silent server costs one wait, not one for each of redis-py's tries
        socket_connect_timeout=_ANSWER_SECONDS,
        socket_timeout=_ANSWER_SECONDS,
        protocol=2,  # so that a Redis before 6, which knows no other, can say its version
    )


def _too_old(client: redis.Redis) -> str | None:
    """Say how to fix a Redis that lacks a command of the reliable transport; None if it has all."""
    try:
        version = str(client.info("server").get("redis_version", ""))
    except redis.ResponseError:  # also NoPermissionError
        return None
    version_numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdecimal())
    if len(version_numbers) < len(_BLMOVE_SINCE) or version_numbers >= _BLMOVE_SINCE:
        return None
    return (
        f"Redis {version} is too old: the reliable transport moves jobs with BLMOVE, which Redis has since 6.2 "
        f"(and every Valkey). Install a newer one"
    )


def _missing_rights(client: redis.Redis, server: _Server) -> str | None:
    """Say how to fix a Redis user without the permissions that a worker needs; None if it has them.

    Celery treats a refusal as a lost connection: such a worker would reconnect without end.
    """
    database = client.get_connection_kwargs().get("db") or 0
    channels = _of_channels(database) if server.subject == "Redis" else {}
    for name, words in {**server.commands, **channels}.items():
        try:
            client.execute_command(*words)  # type: ignore[no-untyped-call] # redis-py's own
        except redis.exceptions.NoPermissionError as error:
            user = client.get_connection_kwargs().get("username") or "default"
            cure = _AS_A_WORKER
            if name in channels and "channel" in str(error):
                cure = (
                    "The channels in config/redis/users.acl are those of database 0: keep the queues there, or ACL "
                    f"SETUSER {user} &/{database}.celery.pidbox &/{database}.celeryev/*, and the same in users.acl"
                )
            return f"{server.variable}: the Redis user {user} may not run {name}, which every worker does. {cure}"
        except redis.ResponseError:
            continue
    return None


def redis_time(url: SecretStr) -> float | None:
    """Return the seconds since 1970 by a Redis's clock; None if it does not say."""
    try:
        with _asked(url) as client:
            seconds, microseconds = client.time()
    except (redis.RedisError, ValueError, TypeError):
        return None
    return float(seconds + microseconds / 1e6)


def _write_problem(server: _Server) -> str | None:
    """Say why a Redis takes no writes, by one that changes nothing; a worker starts all the same, and waits."""
    try:
        with _asked(server.url) as client:
            for words in server.writes:
                client.execute_command(*words)
    except redis.exceptions.ReadOnlyError:
        return f"{server.variable}: {server.name} is a replica, which takes no writes: name its primary"
    except redis.exceptions.OutOfMemoryError:
        return (
            f"{server.variable}: {server.name} takes no writes, because it is full (maxmemory). Give it more: "
            "CONFIG SET maxmemory BYTES, and the same in redis.conf"
        )
    except redis.RedisError:
        return None
    return None


def _redis_settings(client: redis.Redis, server: _Server) -> Iterator[Finding]:
    if server.subject == "cache":
        return  # which may lose what it has
    if server.subject == "Redis":
        yield from _kill_right(client)
    settings = _visible(client)
    expected = _REDIS if server.subject == "Redis" else _OF_KEPT_RESULTS
    for name, (setting, otherwise) in expected.items():
        if name in settings and settings[name] != setting:
            yield Finding(
                "advice",
                server.subject,
                f"{name} is {settings[name]}: {otherwise}. CONFIG SET {name} {setting}, and the same in redis.conf",
            )
    hidden = [name for name in expected if name not in settings]
    if hidden and server.subject == "Redis":
        yield Finding(
            "ok",
            "Redis",
            f"{', '.join(hidden)} can't be seen by the worker's user, as it should be; an administrator may: "
            f"redis-cli CONFIG GET {hidden[0]}",
        )


def _kill_right(client: redis.Redis) -> Iterator[Finding]:
    """Report a user who can't end lost connections: workers go on, and watch these's lists for longer."""
    try:
        client.execute_command("CLIENT KILL", "ID", _NO_CLIENT)  # type: ignore[no-untyped-call] # redis-py's own
    except redis.exceptions.NoPermissionError:
        user = client.get_connection_kwargs().get("username") or "default"
        yield Finding(
            "advice",
            "Redis",
            f"the Redis user {user} may not run CLIENT KILL: lists of dead workers are watched for 15 minutes. "
            f"ACL SETUSER {user} +client|kill, and the same in users.acl",
        )
    except redis.ResponseError:
        return


def _visible(client: redis.Redis) -> dict[str, str]:
    """Return the settings that this user may see: by CONFIG, else from INFO, else none."""
    settings: dict[str, str] = {}
    try:
        for name in _REDIS:
            settings[name] = str(client.config_get(name).get(name))
    except redis.ResponseError:  # also NoPermissionError, and a managed Redis without CONFIG
        settings |= _read_info(client)
    return settings


def _read_info(client: redis.Redis) -> dict[str, str]:
    try:
        info: Mapping[str, Any] = client.info()
    except redis.ResponseError:
        return {}
    redis_settings = {
        "appendonly": {1: "yes", 0: "no"}.get(info.get("aof_enabled", -1)),
        "maxmemory-policy": info.get("maxmemory_policy"),
    }
    return {name: value for name, value in redis_settings.items() if value is not None}


_SQL = blocks("durability")
_STATED_LIMITS = _SQL["stated_limits"]
_STORAGE = _SQL["storage"]


def role_findings(settings: Settings) -> Iterator[Finding]:
    """Check the time limits of the worker's role; see `worker.adapters.postgres.connections.LIMITS`.

    Each is what a new session of the role has, whether the role, the database or the server sets it. The command names
    role and database, since that wins over all of these.
    """
    with translated_errors(), connected(settings.database_connection_string.get_secret_value()) as connection:
        rows = {row[2]: row for row in connection.execute(_STATED_LIMITS, ([*LIMITS],)).fetchall()}
    longest, search = settings.worker.time_limit_seconds, settings.search.statement_timeout_seconds
    for name, limit in (LIMITS | {"statement_timeout": f"{min(max(30, math.ceil(search)), longest)}s"}).items():
        role, database, _, seconds = rows[name]
        if seconds == 0:
            wrong = f"has no {name}: {_PREVENTS[name]}"
        elif name == "statement_timeout" and seconds > longest:
            wrong = f"has {name} {seconds:g} s, more than worker.time_limit_seconds ({longest}): {_PREVENTS[name]}"
        elif name == "statement_timeout" and seconds < min(search, longest):
            wrong = f"has {name} {seconds:g} s, less than search.statement_timeout_seconds ({search:g}): {_ENDS}"
        else:
            continue
        yield Finding(
            "advice",
            "Postgres",
            f"the role {role} {wrong}. The worker's own sessions have limits of their own; for all others: "
            f"ALTER ROLE {role} IN DATABASE {database} SET {name} = '{limit}'",
        )


_CRASH = "a crash of the machine can destroy the database"
_OFF = {
    "fsync": (_CRASH, "ALTER SYSTEM SET fsync = on; reload"),
    "full_page_writes": (_CRASH, "ALTER SYSTEM SET full_page_writes = on; reload"),
    "autovacuum": ("deleted rows stay, and plans rest on old statistics", "ALTER SYSTEM SET autovacuum = on; reload"),
    "track_counts": (
        "autovacuum sees no writes, and no answer is cached",
        "ALTER DATABASE {database} SET track_counts = on",
    ),
}
"""Setting that is never off → what happens otherwise, and its mend."""

_PLANS = "a left-over of an experiment: plans that searches need are avoided"


def storage_findings(settings: Settings) -> Iterator[Finding]:
    """Check whether what Postgres has committed survives a crash, and a failover to a standby."""
    with translated_errors(), connected(settings.database_connection_string.get_secret_value()) as connection:
        row = connection.execute(_STORAGE, ([*_OFF],)).fetchone()
    role, database, standby, commit, standby_names, standbys, off = row or ("", "", False, "on", "", 0, [])
    of_session = (_PLANS, f"ALTER ROLE {role} IN DATABASE {database} SET {{name}} = on")
    for name in off:
        otherwise, cure = _OFF.get(name, of_session)
        yield Finding("advice", "Postgres", f"{name} is off: {otherwise}. {cure.format(name=name, database=database)}")
    if standby:
        yield Finding(
            "advice",
            "Postgres",
            "DATABASE_CONNECTION_STRING leads to a standby, which takes no writes: no run can be recorded. Name the "
            "primary, or add target_session_attrs=read-write",
        )
    if commit == "off":
        yield Finding(
            "advice",
            "Postgres",
            f"the role {role} has synchronous_commit off: a crash loses its last transactions. The worker's own wait "
            f"for the disk; for all others: ALTER ROLE {role} IN DATABASE {database} SET synchronous_commit = on",
        )
    if standbys and (not standby_names or commit == "local"):
        setting = "synchronous_commit is local" if standby_names else "synchronous_standby_names is empty"
        yield Finding(
            "advice",
            "Postgres",
            f"{setting}: a failover to a standby loses the records that it has not received, though they were answered "
            "(docs/reliability.md)",
        )


def warnings(settings: Settings) -> list[Finding]:
    """Return the warnings about misconfigured servers that the worker logs at its start.

    An unavailable server adds no warning here: the worker's own connection reports it.
    """
    findings = [*redis_findings(settings)]
    with contextlib.suppress(RetrievalError):
        findings += role_findings(settings)
    return [finding for finding in findings if finding.level == "advice"]
