"""Composition root: builds the Celery app, and each process's engine, from validated settings.

``celery -A worker.app worker`` finds the app here.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from billiard.process import current_process
from celery import Celery, signals
from kombu.entity import Queue

from worker import codec, observe, results, tasks
from worker import settings as settings_module
from worker.adapters.postgres import check
from worker.engine import Engine, spare_collections
from worker.errors import RetrievalError, SettingsError, Unavailable
from worker.metrics import Metrics

if TYPE_CHECKING:
    from worker.settings import Settings

RETRIEVAL_QUEUE, PIPELINE_QUEUE = "retrieval", "pipeline"
CONFIGURATION_EXIT_CODE = 78  # EX_CONFIG of sysexits.h

log = observe.logger("worker.app")


def create_app(settings: Settings) -> Celery:
    """The Celery app of a worker with these settings."""
    codec.install()
    app = Celery("retrieval-worker", set_as_current=False)
    app.loader.override_backends = results.OVERRIDES
    app.conf.update(celery_settings(settings))
    process = _Process(settings)
    metrics = Metrics(settings.metrics)
    tasks.register(app, settings, process.engine, metrics)
    _connect_signals(app, settings, process, metrics)
    return app


def celery_settings(settings: Settings) -> dict[str, Any]:
    """Celery's configuration; the reasons are in docs/operations.md."""
    worker = settings.worker
    broker = settings.broker_url.get_secret_value()
    sockets = {"socket_keepalive": True, "socket_connect_timeout": 5, "health_check_interval": 25}
    return {
        "broker_url": broker,
        "result_backend": settings.result_backend.get_secret_value() if settings.result_backend else broker,
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_serializer": "json",
        "result_accept_content": ["json"],
        "result_expires": worker.result_expires_seconds,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_acks_on_failure_or_timeout": True,
        "task_default_queue": RETRIEVAL_QUEUE,
        "task_queues": [Queue(name, routing_key=name) for name in (RETRIEVAL_QUEUE, PIPELINE_QUEUE)],
        "task_routes": {"run_pipeline": {"queue": PIPELINE_QUEUE}},
        "beat_schedule": beat_schedule(settings),
        "task_soft_time_limit": worker.soft_time_limit_seconds,
        "task_time_limit": worker.time_limit_seconds,
        "worker_prefetch_multiplier": worker.prefetch_multiplier,
        "worker_send_task_events": worker.send_task_events,
        "worker_soft_shutdown_timeout": worker.soft_shutdown_seconds,
        "worker_enable_soft_shutdown_on_idle": False,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_consumer": "worker.quiet:QuietConsumer",
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_transport_options": {**sockets, "visibility_timeout": worker.visibility_timeout_seconds},
        "result_backend_transport_options": sockets,
        "redis_socket_keepalive": True,
        "redis_socket_connect_timeout": 5,
        "redis_backend_health_check_interval": 25,
        "result_backend_always_retry": True,
        "result_backend_max_retries": 10,
    }


def beat_schedule(settings: Settings) -> dict[str, Any]:
    """What `celery -A worker.app beat` sends: the check of recorded runs, if the settings ask for it."""
    seconds = settings.verify.every_minutes * 60
    if not seconds:
        return {}
    # A tick that no worker took before the next one is no use any more. Celery would send the task's own time
    # limits as the header that every job is refused for.
    options = {"expires": seconds, "time_limit": None, "soft_time_limit": None}
    return {"verify-runs": {"task": "verify_runs", "schedule": seconds, "args": ({},), "options": options}}


class _Process:
    """What one process holds: its engine, made on first use, after any fork."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engine: Engine | None = None

    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(self._settings, time.perf_counter)
            spare_collections()
        return self._engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def _connect_signals(app: Celery, settings: Settings, process: _Process, metrics: Metrics) -> None:
    """Celery's signals are global: only those of our own app are answered."""

    def setup_logging(**_: Any) -> None:
        observe.configure(settings.log)

    def before_start(conf: Any = None, **_: Any) -> None:
        if conf is app.conf:
            refuse_unsafe_start(settings)
            _start_metrics(settings, metrics)

    def after_fork(**_: Any) -> None:
        number = getattr(current_process(), "index", None)
        if number is not None:  # the solo pool has none: it says this of the main process
            metrics.forked(number)
        try:
            process.engine()
        except RetrievalError as error:
            # Not fatal here: Celery would fork again without pause. The next job tries again, and says so.
            log.warning("engine not ready", error=type(error).__name__, reason=error.message)

    def before_exit(**_: Any) -> None:
        process.close()

    signals.setup_logging.connect(setup_logging, weak=False)
    signals.celeryd_init.connect(before_start, weak=False)
    signals.worker_process_init.connect(after_fork, weak=False)
    signals.worker_process_shutdown.connect(before_exit, weak=False)


def refuse_unsafe_start(settings: Settings) -> None:
    """Stop this process where the database is set up so that rows could leak.

    A database that is away is no reason: every process checks again before its first answer.
    """
    try:
        check(settings)
    except SettingsError as error:
        _exit(error)
    except Unavailable as error:
        log.warning("starting without Postgres", reason=error.message)


def _start_metrics(settings: Settings, metrics: Metrics) -> None:
    if settings.metrics.on:
        try:
            metrics.start()
        except SettingsError as error:
            _exit(error)


def _exit(error: SettingsError) -> None:
    print(f"retrieval-worker: {error.message}", file=sys.stderr)  # noqa: T201 -- to whoever started it, before logging
    raise SystemExit(CONFIGURATION_EXIT_CODE)


def __getattr__(name: str) -> Celery:
    """The app of the environment's settings, made when ``celery -A worker.app`` asks for it."""
    if name not in {"app", "celery"}:
        raise AttributeError(name)
    try:
        application = create_app(settings_module.load())
    except SettingsError as error:
        _exit(error)
    globals()["app"] = globals()["celery"] = application
    return application
