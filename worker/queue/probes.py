"""Whether a worker turns, and whether it can answer jobs: what `/healthz` and `/readyz` say."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import redis

from retrieval_client.errors import RetrievalError, Unavailable
from worker.adapters import logs
from worker.adapters.durability import check_redis
from worker.adapters.postgres.database import check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import SecretStr

    from worker.queue.processes.pool import Pool
    from worker.settings import Settings

log = logs.logger("worker.probes")

_LOOP_SECONDS = 60.0
"""Time without a turn of the main loop after which it counts as stopped, if Redis answers, for which it may wait."""
_LIMITS_SECONDS = 30.0
"""Time without a look at the limits of processes after which nothing keeps them."""

_CHECK_SECONDS = 5.0
"""Time for which the answer of the servers stands: whoever asks more often costs them no more."""

_ANSWER_SECONDS = 2.0


class LastWork(NamedTuple):
    """When the parts of a worker's main process last did their work, by `time.monotonic`.

    Attributes:
        loop: Celery's loop, which replaces processes and hears commands.
        limits: the thread that keeps time limits.
        redis: since when the thread that keeps the worker's claims in Redis has reached it each time; infinite: it does
            not.
    """

    loop: float
    limits: float
    redis: float


def standstills(work: LastWork, current_time: float) -> tuple[str, ...]:
    """Return which parts of a main process stand still; not a loop that waits for Redis, which may come back."""
    problems = []
    if current_time - work.limits > _LIMITS_SECONDS:
        problems.append(f"time limits have not been kept for {current_time - work.limits:.0f} s")
    if min(current_time - work.loop, current_time - work.redis) > _LOOP_SECONDS:
        problems.append(f"the main loop has not turned for {current_time - work.loop:.0f} s")
    return tuple(problems)


class Probes:
    """Probes of a worker; `pool` returns its pool, None before there is one."""

    def __init__(self, settings: Settings, pool: Callable[[], Pool | None]) -> None:
        self._settings = settings
        self._pool = pool
        self._lock = threading.Lock()
        self._checked = float("-inf")
        self._unready: tuple[str, ...] = ()

    def health(self) -> tuple[str, ...]:
        """Return why the worker should be started anew; empty: it turns, or it starts or ends."""
        pool = self._pool()
        return () if pool is None or pool.is_ending else standstills(pool.last_work, time.monotonic())

    def readiness(self) -> tuple[str, ...]:
        """Return why the worker can't answer jobs now; empty: it can. The worker's log has the details."""
        pool = self._pool()
        if pool is None:
            return ("the worker is starting",)
        if pool.is_ending:
            return ("the worker is stopping",)
        problems = () if pool.is_ready else ("no process is ready",)
        return (*self.health(), *problems, *self._problems_of_servers())

    def _problems_of_servers(self) -> tuple[str, ...]:
        with self._lock:
            if time.monotonic() - self._checked >= _CHECK_SECONDS:
                self._unready = tuple(self._check_servers())
                self._checked = time.monotonic()
            return self._unready

    def _check_servers(self) -> Iterator[str]:
        settings = self._settings
        checks: dict[str, Callable[[], object]] = {
            "Redis": lambda: _ping(settings.broker_url),
            "Redis of results": lambda: _ping(settings.result_backend or settings.broker_url),
            "rights in Redis": lambda: check_redis(settings),
            "Postgres, its role and tables": lambda: check(settings),
        }
        for subject, check_it in checks.items():
            try:
                check_it()
            except RetrievalError as error:
                problem = f"{subject}: {type(error).__name__}"
                if problem not in self._unready:  # told once, however often it is asked for
                    # A reason may name tables and servers, and the port has no password: the log has it.
                    log.warning("not ready", subject=subject, error=type(error).__name__, reason=error.message)
                yield problem


def _ping(url: SecretStr) -> None:
    """Raises Unavailable: the server does not answer."""
    limits = {"socket_timeout": _ANSWER_SECONDS, "socket_connect_timeout": _ANSWER_SECONDS}
    try:
        with redis.Redis.from_url(url.get_secret_value(), **limits) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        raise Unavailable(f"no answer ({type(error).__name__})") from None
