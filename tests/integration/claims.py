"""Shared by the tests of the transport: a consumer over it, messages, and where they are in Redis."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import redis
from kombu import Connection, Consumer, Queue
from tests.waiting import PATIENCE, wait_for

from worker.queue.transport import TRANSPORT, keys
from worker.queue.transport.inspection import Rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrieval_client.errors import RetrievalError
    from worker.queue.transport.channel import Channel
    from worker.queue.transport.claim import Claim
    from worker.queue.transport.qos import QoS

QUEUE, OTHER = "retrieval", "pipeline"
RULES = Rules(tasks=("retrieve_top_k",), max_deliveries=3)


def envelope(task_id: str, **headers: Any) -> bytes:
    """A message as a backend without Celery writes it; all have the same delivery tag."""
    return json.dumps(
        {
            "body": "[[{}], {}, {}]",
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": {"id": task_id, "task": "retrieve_top_k", **headers},
            "properties": {"delivery_tag": "1"},
        }
    ).encode()


def ids(client: redis.Redis, queue: str = QUEUE) -> list[str]:
    """Task ids of a queue, the next one first."""
    return [json.loads(raw)["headers"]["id"] for raw in client.lrange(queue, 0, -1)][::-1]


class Worker:
    """A consumer over the transport, as Celery is one, and what it was handed."""

    def __init__(
        self,
        url: str,
        *queues: str,
        prefetch: int = 0,
        rules: Rules = RULES,
        deliveries: QoS | None = None,
        **options: Any,
    ) -> None:
        self._url = url
        self.got: list[Any] = []
        self.failures: dict[str, RetrievalError] = {}
        self.connection = Connection(url, transport=TRANSPORT, transport_options={"rules": rules, **options})
        self.connection.transport.answer = self.failures.update
        self.connection.transport.deliveries = deliveries
        self.channel: Channel = self.connection.channel()
        self.channel.basic_qos(0, prefetch, False)
        self.consumer = Consumer(self.channel, [Queue(name, routing_key=name) for name in queues or (QUEUE,)])
        self.consumer.on_message = self.got.append
        self.consumer.consume()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(redis.RedisError, OSError):
            self.end_waiting()
        with contextlib.suppress(redis.RedisError, OSError):
            self.connection.release()

    @property
    def ids(self) -> list[str]:
        return [message.headers["id"] for message in self.got]

    @property
    def claim(self) -> Claim:
        return self.channel._claims[QUEUE]

    def drain(self, until: Callable[[], bool]) -> None:
        """Do what an event loop does, until something holds."""
        deadline = time.monotonic() + PATIENCE
        while not until():
            assert time.monotonic() < deadline, "it did not come true in time"
            with contextlib.suppress(TimeoutError):
                self.connection.drain_events(timeout=0.01)

    def take(self, count: int) -> list[str]:
        self.drain(lambda: len(self.got) >= count)
        return self.ids

    def end_waiting(self) -> None:
        """Have Redis answer the claims that wait, as after their time: a stop waits for each for up to a second."""
        connections = [claim.connection for claim in self.channel._claims.values() if claim.since is not None]
        addresses = ["{}:{}".format(*one._sock.getsockname()) for one in connections if one._sock is not None]
        with redis.Redis.from_url(self._url, socket_timeout=1) as client:
            for one in client.client_list():
                if one["addr"] in addresses:
                    client.client_unblock(int(one["id"]))

    def blame(self, *messages: Any) -> None:
        """Jobs whose process died unasked."""
        for message in messages:
            self.channel.qos.blame(message.delivery_tag)
            message.reject(requeue=True)

    def maintain(self) -> None:
        """Run the maintenance that is due every few seconds, from now on only here."""
        channel = self.channel
        channel._promoted = channel._maintained = channel._looked = float("-inf")
        channel.maintain()
        channel._promoted = channel._maintained = channel._looked = float("inf")


def places(client: redis.Redis) -> dict[str, int]:
    """Where messages are, and how many."""
    found = {"queue": client.llen(QUEUE), "unacked": client.hlen(keys.UNACKED), "dead": client.xlen(keys.dead(QUEUE))}
    found["delayed"] = client.zcard(keys.delayed(QUEUE))
    found["put off"] = client.llen(keys.deferred(QUEUE))
    found["inflight"] = sum(client.llen(place) for place in client.keys(f"{QUEUE}.inflight.*"))
    return {name: count for name, count in found.items() if count}


def declare_dead(client: redis.Redis) -> None:
    """Let an owner's key expire, as if it had been silent for long enough."""
    for key in client.keys("retrieval-worker.owner.*"):
        client.delete(key)


class Proxy:
    """Stands between a worker and Redis, and can stop passing on what one of them says.

    Attributes:
        mute: nothing that Redis says is passed on, on connections made before.
        deaf: nothing that is said to it.
    """

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self.mute, self.deaf = threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[Any] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def await_connections(self, count: int) -> None:
        """Wait until this many connections have been made."""
        wait_for(lambda: len(self._open) >= 2 * count)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._to)
                ways = ((client, server, self.deaf), (server, client, self.mute))
                passing = [(*way, way[2].is_set()) for way in ways]
                self._open += [client, server]  # whoever counts them may stop them
                for way in passing:
                    threading.Thread(target=self._pass, args=way, daemon=True).start()

    @staticmethod
    def _pass(source: Any, target: Any, stop: threading.Event, immune: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if immune or not stop.is_set():
                    target.sendall(data)

    def close(self) -> None:
        self._listener.close()
        for sock in self._open:
            sock.close()


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, which may import this module as `claims`."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
