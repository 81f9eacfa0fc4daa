"""Kombu's Redis channel, for remote control and events: no published message ends a worker; Flower needs no script."""

from __future__ import annotations

import time
from queue import Empty
from typing import TYPE_CHECKING, Any

import redis
from kombu.connection import resolve_aliases
from kombu.transport import redis as kombu_redis

from worker.adapters import logs
from worker.queue import codec
from worker.queue.broker import delayed, turns
from worker.queue.broker.clock import ServerClock
from worker.queue.connections import ANSWER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRANSPORTS = {"redis": f"{__name__}:Transport", "rediss": f"{__name__}:SecureTransport"}

# A connection's URL that is read back (Flower, Celery's banner) has its original scheme.
resolve_aliases.update({path: scheme for scheme, path in _TRANSPORTS.items()})

LONGEST_BYTES = 2_097_152
"""Most bytes of a published message; longer ones are ignored."""

log = logs.logger("worker.remote_control")


def transport(url: str) -> str:
    """Return the path of the transport for a broker's URL, for Celery's ``broker_transport``."""
    return _TRANSPORTS["rediss" if url.startswith("rediss:") else "redis"]


class Channel(kombu_redis.Channel):
    """The channel.

    Attributes:
        is_worker: True in a worker, whose user of Redis may run scripts; set by its consumer.
    """

    is_worker = False

    def _refresh_binding(self, keys: Sequence[str], args: Sequence[Any], client: Any) -> None:
        """Record or renew the binding of a queue that expires, by plain commands.

        A fanout exchange needs no record: its messages are published, and nothing looks its queues up.
        """
        (table, deadlines), (member, exchange, milliseconds) = keys, args
        if self.typeof(exchange).type == "fanout":
            return
        with self.conn_or_acquire() as connection:
            deadline = int(ServerClock(time.monotonic).read(connection).timestamp() * 1000) + milliseconds
        client.sadd(table, member)
        client.zadd(deadlines, {exchange: deadline}, gt=True)

    def sweep_bindings(self, limit: int = 100) -> int:
        """Delete overdue bindings, by kombu's script."""
        return int(super().sweep_bindings(limit)) if self.is_worker else 0

    def _purge(self, queue: str) -> int:
        """Delete a queue's waiting and delayed messages; return their number."""
        with self.conn_or_acquire() as client:
            return int(super()._purge(queue)) + turns.purge(client, queue) + delayed.purge(client, queue)

    def _receive_one(self, c: Any) -> bool:
        """Receive a message of remote control or events, if there is one, and ignore one that can't be read.

        Kombu reads without a time limit: forever, if a dead connection was replaced between the poll and the read.
        """
        if c.connection is None:
            raise Empty
        try:
            if not c.connection.can_read(timeout=0):
                raise Empty
            answer = c.parse_response(block=False, timeout=ANSWER_SECONDS)
        except self.connection_errors:
            self._in_listen = False
            raise
        event = self._handle_message(c, answer) if isinstance(answer, list | tuple) else {}
        if not _text(event.get("type", "")).endswith("message") or not event["data"]:
            return False
        try:
            self._deliver_published(_text(event["channel"]), event["data"])
        except (redis.RedisError, OSError, Empty):  # not kombu's `connection_errors`: a KeyError is one of these
            raise
        except Exception as error:  # noqa: BLE001 -- any published content may be wrong
            log.warning("published message ignored", reason=type(error).__name__, bytes=len(event["data"]))
        return True

    def _deliver_published(self, place: str, data: bytes) -> None:
        if len(data) > LONGEST_BYTES:
            raise OverflowError
        message = codec.parse(data)
        if "compression" in message["headers"]:
            raise NotImplementedError
        exchange = place.partition(".")[2].split("/", 1)[0]
        self.connection._deliver(message, self._fanout_to_queue[exchange])  # noqa: SLF001 -- kombu's own way


class Transport(kombu_redis.Transport):
    """Kombu's transport, with `Channel`."""

    Channel = Channel


class SecureTransport(Transport):
    """Transport over TLS, for URLs that begin with ``rediss``; kombu shows them as such."""


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
