"""The worker's answers on stock Celery and any broker of it: ``celery -A chaos.stock worker``."""

from __future__ import annotations

import functools
import os
import time
from typing import Any

from celery import Celery, signals

from chaos.brokers import BROKERS, NAMED_BY
from worker import settings
from worker.adapters import logs
from worker.app import celery_settings
from worker.jobs.engine import Engine
from worker.queue import tasks
from worker.queue.broker.inspection import DeliveredJob
from worker.queue.codec import JobResult
from worker.queue.metrics import Metrics

_OURS = ("broker_transport", "worker_pool", "worker_consumer", "worker_autoscaler", "worker_cancel_long_running")

_BROKER_URL = os.environ["CELERY_BROKER_URL"]
if not _BROKER_URL.startswith("redis"):
    os.environ["CELERY_BROKER_URL"] = os.environ["CELERY_RESULT_BACKEND"]  # a worker's settings name no other broker
SETTINGS = settings.load()
os.environ["CELERY_BROKER_URL"] = _BROKER_URL

app = Celery("chaos-stock", set_as_current=False)
app.conf.update({name: value for name, value in celery_settings(SETTINGS).items() if not name.startswith(_OURS)})
app.conf.update(
    broker_url=_BROKER_URL,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    **BROKERS[os.environ.get(NAMED_BY, "stock")].settings,
)


@signals.setup_logging.connect(weak=False)
def configure_logs(logfile: str | None = None, **_: Any) -> None:
    """Log as our worker does: the harness reads it."""
    logs.configure(SETTINGS.log, logfile)


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
