"""Celery's consumer without the step that consumes tasks: remote control, events and heartbeats stay."""

from __future__ import annotations

from typing import Any

from celery import bootsteps
from celery.signals import worker_shutting_down
from celery.worker import consumer

from worker.queue.processes import control  # noqa: F401 -- here only: it replaces Celery's commands


class _Control(consumer.Control):
    requires = (consumer.Mingle,)  # which else would answer others' questions itself, and wait for their end


class _NoTasks:
    """In place of a consumer of tasks and its number of reserved ones, for Celery's loop."""

    on_message = None
    prev = value = 0

    def __init__(self, queues: list[Any]) -> None:
        self.queues = queues

    def consume(self) -> None:
        """Do nothing."""

    def update(self) -> None:
        """Do nothing."""

    def increment_eventually(self, count: int) -> None:
        """Do nothing."""

    decrement_eventually = increment_eventually


class Consumer(consumer.Consumer):
    """The consumer."""

    class Blueprint(bootsteps.Blueprint):
        """Its steps."""

        name = "Consumer"
        default_steps = (
            consumer.Connection,
            consumer.Mingle,
            consumer.Events,
            consumer.Gossip,
            consumer.Heart,
            _Control,
            "celery.worker.consumer.consumer:Evloop",
        )

        def shutdown(self, parent: Any) -> None:
            """Stop its steps."""
            self.send_all(parent, "shutdown")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.task_consumer = self.qos = _NoTasks([*self.app.amqp.queues.consume_from.values()])
        self.app.processes.consumer = self
        worker_shutting_down.connect(self._hurry)

    def _hurry(self, **_: Any) -> None:
        """Let other workers take the jobs over soon, if this one is killed before it has finished them."""
        self.app.processes.hurry()
