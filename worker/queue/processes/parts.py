"""Parts of a worker whose processes claim their own jobs: in the main process, and in each of these."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.queue import connections
from worker.queue.broker.turns import turn_of
from worker.queue.claims import Claims
from worker.queue.further_tasks import FurtherTasks
from worker.queue.processes.events import Events
from worker.queue.processes.keeper import Keeper
from worker.queue.processes.process import Process
from worker.queue.processes.table import MOST_JOBS
from worker.queue.records import RecordStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from celery import Celery

    from worker.queue.broker.inspection import Rules
    from worker.queue.metrics import Metrics
    from worker.queue.outcome import Answers
    from worker.queue.processes.consumer import Consumer
    from worker.queue.processes.pool import Pool
    from worker.queue.processes.process import Limits
    from worker.queue.processes.table import Head, Slot
    from worker.settings import Settings

_KEEPER_SECONDS = 1.5
"""Time limit of the keeper's commands: several tries to renew must fit into an owner's life."""

_SOCKETS = {name: value for name, value in connections.SOCKETS.items() if name != "retry_on_timeout"}


class Processes:
    """The parts.

    Attributes:
        settings: the worker's settings.
        consumer: Celery's consumer; None before it is made.
        number: of this process in its pool; 0 in the main process.
        pool: the worker's pool; None before it has started.
    """

    def __init__(self, app: Celery, settings: Settings, rules: Rules, answers: Answers) -> None:
        self._app = app
        self.settings = settings
        self._rules = rules
        self._answers = answers
        self.consumer: Consumer | None = None
        self.number = 0
        self.pool: Pool | None = None

    @property
    def metrics(self) -> Metrics:
        """Metrics of this worker."""
        return self._answers.metrics

    @property
    def queues(self) -> list[str]:
        """Names of the queues that this worker serves."""
        return [queue.name for queue in self._app.amqp.queues.consume_from.values()]

    @property
    def bundle(self) -> int:
        """Most jobs that are answered together; a standby's lag is checked in each search's own transaction."""
        return 1 if self.settings.of_the_standby else min(self.settings.worker.bundle, MOST_JOBS)

    def keeper(self, slots: Callable[[], Mapping[int, Slot]]) -> Keeper:
        """Make the main process's keeper."""
        store = self._store()
        return Keeper(
            self._broker(_KEEPER_SECONDS),
            store,
            FurtherTasks(self._app, store),
            _name(os.getpid()),
            self.queues,
            slots,
            self._rules,
            self.metrics.on,
        )

    def run(self, slot: Slot, head: Head, hostname: str, limits: Limits, parent: int) -> None:
        """Run a process until it leaves."""
        client, store = self._broker(), self._store()
        Process(
            Claims(client, self.queues, _name(os.getppid()), slot.announce, self._rules.max_bytes, self._turn_of),
            self.queues,
            store,
            client,
            self._answers,
            FurtherTasks(self._app, store),
            self._rules,
            limits,
            head,
            slot,
            Events(self._app, hostname, head),
            parent,
        ).run()

    @property
    def _turn_of(self) -> Callable[[bytes], str] | None:
        owners = self.settings.principal.owners
        return (lambda raw: turn_of(raw, owners)) if self.settings.worker.fair else None

    def _broker(self, seconds: float = connections.ANSWER_SECONDS) -> redis.Redis:
        limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds}
        return redis.Redis.from_url(self._app.conf.broker_url, retry=Retry(NoBackoff(), 0), **_SOCKETS | limits)

    def _store(self) -> RecordStore:
        client = redis.Redis.from_url(self._app.conf.result_backend, retry=Retry(NoBackoff(), 0), **_SOCKETS)
        places = [server_client.get_connection_kwargs() for server_client in (client, self._broker())]
        is_on_broker = len({_server(place) for place in places}) == 1
        return RecordStore(client, self.settings.worker.result_expires_seconds, is_on_broker=is_on_broker)


def _server(place: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return which server a client's options mean."""
    return place.get("path"), place.get("host") or "localhost", int(place.get("port") or 6379)


def _name(pid: int) -> str:
    """Return a worker's name in owners' names, HOST-PID, as older versions have it; by the id of its main process."""
    return f"{socket.gethostname()[:40]}-{pid}"
