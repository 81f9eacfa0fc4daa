"""The four queues that are compared: how each is set to lose nothing, and what it promises in its own words."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kombu.entity import Queue

from chaos.jobs import QUEUES
from chaos.rabbit import PROGRAM, RabbitServer
from chaos.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMED_BY = "CHAOS_BROKER"
"""The environment variable that names one of `BROKERS` to a worker of `chaos.stock`."""
VISIBILITY_SECONDS = 16


class OpenRedisServer(RedisServer):
    """Redis for queues that know nothing of our users."""

    def url(self, database: int = 0, user: str = "admin", port: int | None = None) -> str:  # noqa: ARG002 -- the base's
        """Return the administrator's URL."""
        return super().url(database, "admin", port)


@dataclass(frozen=True)
class Broker:
    """One of the queues.

    Attributes:
        title: its name in the table.
        server: what it runs on.
        settings: Celery's settings for it, of producers and workers.
        promise: a sentence of its documentation.
        source: where that stands.
        missing: why it can't run here; empty if it can.
        packages: of Python, that it needs.
    """

    title: str
    server: type[RedisServer]
    promise: str
    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    missing: str = ""
    packages: tuple[str, ...] = ()


_QUORUM_QUEUES = [
    Queue(name, routing_key=name, queue_arguments={"x-queue-type": "quorum"})  # type: ignore[no-untyped-call] # kombu has no types
    for name in QUEUES.split(",")
]
BROKERS = {
    "ours": Broker(
        "this worker",
        RedisServer,
        "`chaos` checks under faults that no job is lost, no answer wrong, and no row of another caller seen.",
        "docs/reliability.md",
    ),
    "stock": Broker(
        "Celery on Redis",
        OpenRedisServer,
        "If a task isn't acknowledged within the Visibility Timeout the task will be redelivered to another worker and "
        "executed.",
        "https://docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/redis.html",
        # It looks after unacknowledged messages in seconds, not in its default minutes.
        {
            "broker_transport_options": {
                "visibility_timeout": VISIBILITY_SECONDS,
                "unacked_mutex_expire": 30,
                "unacked_restore_interval": 5,
                "unacked_restore_throttle": 1,
            }
        },
    ),
    "plus": Broker(
        "celery-redis-plus",
        OpenRedisServer,
        "Combined with visibility timeout tracking, this ensures messages are never lost - even if a worker crashes in "
        "the instant after the message is pop'ed from the queue, the message can be recovered and requeued.",
        "https://oliverhaas.github.io/celery-redis-plus/",
        {
            "broker_transport": "celery_redis_plus.transport:Transport",
            "broker_transport_options": {"visibility_timeout": VISIBILITY_SECONDS},
        },
        "" if find_spec("celery_redis_plus") else "celery-redis-plus is not installed; it needs Python 3.13",
        ("celery-redis-plus",),
    ),
    "rabbit": Broker(
        "RabbitMQ, quorum queues",
        RabbitServer,
        "Quorum queues are optimized for certain use cases where data safety is the top priority.",
        "https://www.rabbitmq.com/docs/quorum-queues",
        {
            "broker_transport_options": {"confirm_publish": True},
            "task_queues": _QUORUM_QUEUES,
        },
        "" if PROGRAM.exists() else "RabbitMQ is not installed: apt-get install rabbitmq-server",
    ),
}
