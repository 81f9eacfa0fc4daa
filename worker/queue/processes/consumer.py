"""Celery's consumer without the step that consumes tasks: remote control, events and heartbeats stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import bootsteps
from celery.worker import consumer

from worker.queue import remote_channel
from worker.queue.processes import control  # noqa: F401 -- here only: it replaces Celery's commands

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Queues:
    """In place of a consumer of tasks and of the number of its reserved ones, for Celery's loop and its commands."""

    on_message = None
    prev = value = 0

    def __init__(self, queues: Sequence[Any]) -> None:
        self.queues = queues

    def consume(self) -> None:
        """Do nothing."""

    def update(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""

    def increment_eventually(self, count: int) -> None:
        """Do nothing."""

    decrement_eventually = increment_eventually


class _Processes(bootsteps.StartStopStep):
    """In place of the step that consumes tasks: processes claim these."""

    requires = (consumer.Events,)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        remote_channel.Channel.is_worker = True
        parent.app.processes.consumer = parent
        parent.task_consumer = parent.qos = _Queues([*parent.app.amqp.queues.consume_from.values()])


class _Control(consumer.Control):
    requires = (_Processes,)  # Celery's would bring back what consumes tasks


class Consumer(consumer.Consumer):
    """The consumer."""

    class Blueprint(bootsteps.Blueprint):
        """Its steps; not Mingle and Gossip, whose queues a full Redis refuses, which would restart it without end."""

        name = "Consumer"
        default_steps = (
            consumer.Connection,
            consumer.Events,
            consumer.Heart,
            _Processes,
            _Control,
            "celery.worker.consumer.consumer:Evloop",
        )

        def shutdown(self, parent: Any) -> None:
            """Stop its steps."""
            self.send_all(parent, "shutdown")
