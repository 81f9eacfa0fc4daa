"""Whether Redis and Postgres are set so that nothing is lost and nothing waits for ever: read-only questions.

What each setting prevents is in docs/operations.md.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.adapters.connections import LIMITS
from worker.adapters.postgres import connected, translated_errors
from worker.errors import RetrievalError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import SecretStr

    from worker.settings import Settings

_ANSWER_SECONDS = 5
_BLMOVE_SINCE, _HELLO_SINCE = (6, 2), (6, 0)
"""Versions of Redis; without HELLO no transport works."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: ``ok``; ``advice`` (it works, but could be faster or safer); ``problem`` (the worker won't start, or
            answers nothing).
        subject: what was looked at.
        text: what was found, and the command that mends it.
    """

    level: Literal["ok", "advice", "problem"]
    subject: str
    text: str


_REDIS = {
    "appendonly": ("yes", "a restart loses every waiting job"),
    "appendfsync": ("always", "a crash loses the jobs that were sent last, though Redis has acknowledged them"),
    "maxmemory-policy": ("noeviction", "a full Redis drops jobs"),
}
"""Setting of Redis → what it should be, and what happens otherwise."""

_OF_THE_BROKER: dict[str, tuple[str | int, ...]] = {
    "EVAL with the key unacked": ("EVAL", "return 1", 1, "unacked"),
    "HGET unacked": ("HGET", "unacked", ""),
    "ZRANGE retrieval-worker.owners": ("ZRANGE", "retrieval-worker.owners", 0, 0),
}
_OF_THE_RESULTS: dict[str, tuple[str | int, ...]] = {
    "EVAL with the key celery-task-meta-…": ("EVAL", "return 1", 1, "celery-task-meta-of-no-task"),
    "PUBLISH celery-task-meta-…": ("PUBLISH", "celery-task-meta-of-no-task", ""),
}
"""Name → a command that every worker needs, in a form that changes nothing. Redis checks rights before it runs it."""

_PREVENTS = {
    "lock_timeout": "a search waits for a lock for as long as somebody holds it",
    "idle_in_transaction_session_timeout": "a transaction that a killed worker left open holds VACUUM back",
    "statement_timeout": "a query that nobody waits for any more runs on",
}


def redis_findings(settings: Settings) -> Iterator[Finding]:
    """What the broker's Redis is set to, and whether results are kept apart from it."""
    broker = settings.broker_url.get_secret_value()
    try:
        with _asked(settings.broker_url) as client:
            client.ping()
            problem = _too_old(client, settings) or _missing_rights(client, settings)
            yield Finding("problem", "Redis", problem) if problem else Finding("ok", "Redis", "it answers")
            yield from _redis_settings(client)
    except redis.AuthenticationError:
        yield Finding("problem", "Redis", _not_let_in("CELERY_BROKER_URL"))
    except (redis.RedisError, ValueError, TypeError) as error:
        # Its text may name the user; the class says whether it is the link or the URL.
        yield Finding(
            "problem", "Redis", f"the broker does not answer ({type(error).__name__}): check CELERY_BROKER_URL"
        )
    if settings.result_backend is None or settings.result_backend.get_secret_value() == broker:
        yield Finding(
            "advice",
            "Redis",
            "results are kept in the queues' own database, where emptying one empties the other. "
            "Set CELERY_RESULT_BACKEND to another database or, so that results can't fill the queues' memory, another "
            "server",
        )


def check_redis(settings: Settings) -> None:
    """Check that the settings' transport can work on this broker, as the Redis users of the settings.

    A Redis that is away, or says nothing of itself, is no reason to stop.

    Raises:
        SettingsError: it is too old, or refuses a user, or what a worker does.
    """
    problem = None
    try:
        with _asked(settings.broker_url) as client:
            problem = _too_old(client, settings) or _missing_rights(client, settings)
    except redis.AuthenticationError:
        problem = _not_let_in("CELERY_BROKER_URL")
    except (redis.RedisError, ValueError, TypeError):
        return
    if problem:
        raise SettingsError(problem)


def _not_let_in(variable: str) -> str:
    return f"{variable}: Redis refuses this user or password. Check both against users.acl of that Redis"


def _asked(url: SecretStr) -> redis.Redis:
    return redis.Redis.from_url(
        url.get_secret_value(),
        retry=Retry(NoBackoff(), 0),  # a silent server costs one wait, not one for each of redis-py's tries
        socket_connect_timeout=_ANSWER_SECONDS,
        socket_timeout=_ANSWER_SECONDS,
        protocol=2,  # so that a Redis before 6, which knows no other, can say its version
    )


def _too_old(client: redis.Redis, settings: Settings) -> str | None:
    """What is to be done about a Redis that lacks a command of the reliable transport."""
    try:
        version = str(client.info("server").get("redis_version", ""))
    except redis.ResponseError:  # also NoPermissionError
        return None
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    if settings.worker.transport == "stock" or len(found) < len(_BLMOVE_SINCE) or found >= _BLMOVE_SINCE:
        return None
    otherwise = ', or set worker.transport = "stock" (docs/reliability.md)' if found >= _HELLO_SINCE else ""
    return (
        f"Redis {version} is too old: the reliable transport moves jobs with BLMOVE, which Redis has since 6.2 "
        f"(and every Valkey). Install a newer one{otherwise}"
    )


def _missing_rights(broker: redis.Redis, settings: Settings) -> str | None:
    """What is to be done about a user of Redis who may not do what a worker does.

    Celery takes a refusal for a lost connection: such a worker would connect again for ever.
    """
    if settings.worker.transport == "stock":
        return None
    if problem := _refused(broker, "CELERY_BROKER_URL", _OF_THE_BROKER):
        return problem
    if settings.result_backend is None:
        return _refused(broker, "CELERY_BROKER_URL", _OF_THE_RESULTS)
    try:
        with _asked(settings.result_backend) as results:
            return _refused(results, "CELERY_RESULT_BACKEND", _OF_THE_RESULTS)
    except redis.AuthenticationError:
        return _not_let_in("CELERY_RESULT_BACKEND")
    except (redis.RedisError, ValueError, TypeError):
        return None  # results on a server that is away are waited for, as the broker is


def _refused(client: redis.Redis, variable: str, commands: Mapping[str, tuple[str | int, ...]]) -> str | None:
    for name, words in commands.items():
        try:
            client.execute_command(*words)  # type: ignore[no-untyped-call] # redis-py's own
        except redis.exceptions.NoPermissionError:
            user = client.get_connection_kwargs().get("username") or "default"
            return (
                f"{variable}: the Redis user {user} may not run {name}, which every worker does. Connect as a user "
                "with the rights of worker in config/redis/users.acl (docs/operations.md)"
            )
        except redis.ResponseError:
            continue
    return None


def _redis_settings(client: redis.Redis) -> Iterator[Finding]:
    found = _visible(client)
    for name, (wanted, otherwise) in _REDIS.items():
        if name in found and found[name] != wanted:
            yield Finding(
                "advice",
                "Redis",
                f"{name} is {found[name]}: {otherwise}. CONFIG SET {name} {wanted}, and the same in redis.conf",
            )
    hidden = [name for name in _REDIS if name not in found]
    if hidden:
        yield Finding(
            "ok",
            "Redis",
            f"{', '.join(hidden)} can't be seen by the worker's user, as it should be; an administrator may: "
            f"redis-cli CONFIG GET {hidden[0]}",
        )


def _visible(client: redis.Redis) -> dict[str, str]:
    """The settings that this user may see: by CONFIG, else what INFO says of them, else none."""
    found: dict[str, str] = {}
    try:
        for name in _REDIS:
            found[name] = str(client.config_get(name).get(name))
    except redis.ResponseError:  # also NoPermissionError, and a managed Redis without CONFIG
        found |= _informed(client)
    return found


def _informed(client: redis.Redis) -> dict[str, str]:
    try:
        info: Mapping[str, Any] = client.info()
    except redis.ResponseError:
        return {}
    known = {
        "appendonly": {1: "yes", 0: "no"}.get(info.get("aof_enabled", -1)),
        "maxmemory-policy": info.get("maxmemory_policy"),
    }
    return {name: value for name, value in known.items() if value is not None}


def role_findings(settings: Settings) -> Iterator[Finding]:
    """Time limits of the worker's role; see `worker.adapters.connections.LIMITS`."""
    names = ", ".join(f"current_setting('{name}')" for name in LIMITS)
    with translated_errors(), connected(settings.database_connection_string.get_secret_value()) as connection:
        row = connection.execute(f"SELECT current_user, {names}".encode()).fetchone()
    role, *stated = row or ("", *LIMITS.values())
    for (name, limit), value in zip(LIMITS.items(), stated, strict=True):
        if value == "0":
            yield Finding(
                "advice",
                "Postgres",
                f"the role {role} has no {name}: {_PREVENTS[name]}. The worker's own sessions have one of {limit}; "
                f"for all others: ALTER ROLE {role} SET {name} = '{limit}'",
            )


def warnings(settings: Settings) -> list[Finding]:
    """What the worker says at its start of servers that are set otherwise than they should be.

    A server that is away is no reason to say more: the worker's own connection does.
    """
    found = [*redis_findings(settings)]
    with contextlib.suppress(RetrievalError):
        found += role_findings(settings)
    return [finding for finding in found if finding.level == "advice"]
