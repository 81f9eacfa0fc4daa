"""The worker's answers on stock Celery: ``celery -A chaos.stock worker``. The harness shows what that one loses."""

from __future__ import annotations

import functools
import time
from typing import Any

from celery import Celery

from worker import settings
from worker.app import celery_settings
from worker.jobs.engine import Engine
from worker.queue import tasks
from worker.queue.codec import JobResult
from worker.queue.metrics import Metrics
from worker.queue.outcome import DeliveredJob

_OURS = ("broker_transport", "worker_pool", "worker_consumer", "worker_autoscaler", "worker_cancel_long_running")

SETTINGS = settings.load()

app = Celery("chaos-stock", set_as_current=False)
app.conf.update({name: value for name, value in celery_settings(SETTINGS).items() if not name.startswith(_OURS)})
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    # It looks after unacknowledged messages in seconds, not in its default minutes.
    broker_transport_options={
        "visibility_timeout": 16,
        "unacked_mutex_expire": 30,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
    },
)


@functools.cache
def engine() -> Engine:
    """The engine of this process, made by its first job."""
    return Engine(SETTINGS, time.perf_counter)


_answers = tasks.register(Celery(set_as_current=False), SETTINGS, engine, Metrics(SETTINGS.metrics, list))


def _define(name: str) -> None:
    @app.task(bind=True, shared=False, name=name)
    def task(self: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        job = DeliveredJob(name, self.request.id, args, kwargs, {})
        result = _answers.outcome(job, time.perf_counter(), lambda *_: None).result
        if isinstance(result, JobResult):
            answer: dict[str, Any] = result.__json__()
            return answer
        raise result


for _name in _answers.tasks:
    _define(_name)
