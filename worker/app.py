"""Composition root: builds the Celery app, and each process's engine, from validated settings.

``celery -A worker.app worker`` finds the app here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from celery import Celery, signals
from celery.utils.nodenames import node_format
from kombu.entity import Queue

from retrieval_client.contract.registry import TASKS
from retrieval_client.errors import RetrievalError, SettingsError, Unavailable
from worker import settings as settings_module
from worker.adapters import logs
from worker.adapters.durability import check_redis, warnings
from worker.adapters.parts import check_parts
from worker.adapters.postgres.database import check
from worker.adapters.postgres.replication import check_standby
from worker.jobs.drift import VERIFY_RUNS
from worker.jobs.engine import Engine, spare_collections, spare_start_up
from worker.jobs.principal import check_keys
from worker.queue import codec, connections, remote_channel, remote_control, tasks
from worker.queue.broker.depths import watcher
from worker.queue.broker.inspection import Rules
from worker.queue.metrics import Metrics
from worker.queue.probes import Probes
from worker.queue.processes.parts import Processes
from worker.queue.processes.pool import Pool
from worker.settings.serving import PIPELINE_QUEUE, QUEUES, RETRIEVAL_QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from worker.settings import Settings

CONFIGURATION_EXIT_CODE = 78  # EX_CONFIG of sysexits.h

_POOL = f"{Pool.__module__}:{Pool.__name__}"

log = logs.logger("worker.app")


def create_app(settings: Settings) -> Celery:
    """Create the Celery app of a worker with these settings."""
    codec.install()
    app = Celery("retrieval-worker", set_as_current=False)
    app.amqp_cls = connections.Amqp
    app.control_cls = remote_control.Control
    app.conf.update(celery_settings(settings))
    process = _Process(settings)
    depths = watcher(settings.broker_url.get_secret_value(), QUEUES)
    probes = Probes(settings, lambda: app.processes.pool)
    metrics = Metrics(settings.metrics, depths, lambda: _look(app.processes), probes)
    answers = tasks.register(app, settings, process.engine, metrics)
    app.processes = Processes(app, settings, rules(settings), answers)
    _connect_signals(app, settings, process, metrics)
    return app


def _look(processes: Processes) -> list[dict[str, int]]:
    """Return the pool's running jobs by queue, and its processes by state; nothing before it has started."""
    pool = processes.pool
    return [pool.running_of_queues(processes.queues), pool.states] if pool else []


def celery_settings(settings: Settings) -> dict[str, Any]:
    """Return Celery's configuration; the reasons are in docs/operations.md."""
    worker = settings.worker
    broker = settings.broker_url.get_secret_value()
    return {
        "broker_url": broker,
        "result_backend": settings.result_backend.get_secret_value() if settings.result_backend else broker,
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_serializer": "json",
        "result_accept_content": ["json"],
        "result_expires": worker.result_expires_seconds,
        "task_default_queue": RETRIEVAL_QUEUE,
        "task_queues": [Queue(name, routing_key=name) for name in QUEUES],
        "task_routes": {"run_pipeline": {"queue": PIPELINE_QUEUE}},
        "beat_schedule": beat_schedule(settings),
        "worker_send_task_events": True,  # Flower shows jobs by them, and an operator can disable them
        "worker_soft_shutdown_timeout": worker.soft_time_limit_seconds / 2,
        "worker_remote_control": list(worker.remote_control),
        "worker_cancel_long_running_tasks_on_connection_loss": True,  # Celery has none, and warns of False
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "broker_use_ssl": connections.tls(broker),
        "broker_transport": remote_channel.transport(broker),
        "broker_transport_options": {**connections.SOCKETS, "ack_emulation": False, "priority_steps": [0]},
        **connections.RESULTS,
        "worker_consumer": "worker.queue.processes.consumer:Consumer",
        "worker_pool": _POOL,
        "worker_autoscaler": "worker.queue.processes.autoscaler:Autoscaler",
    }


def rules(settings: Settings) -> Rules:
    """Return the rules that a message must meet to be delivered."""
    worker = settings.worker
    names = {*(task.name for task in TASKS), *([VERIFY_RUNS] if settings.verify.every_minutes else [])}
    return Rules(
        tasks=tuple(sorted(names)),
        max_bytes=settings.limits.max_message,
        max_values=settings.limits.max_values,
        max_deliveries=worker.max_deliveries,
        callbacks=worker.allow_callbacks,
        dead_entries=worker.dead_letters,
    )


def beat_schedule(settings: Settings) -> dict[str, Any]:
    """Return the schedule of `celery -A worker.app beat`: the check of recorded runs, if enabled."""
    seconds = settings.verify.every_minutes * 60
    if not seconds:
        return {}
    # A tick that no worker ran before the next one is useless.
    return {"verify-runs": {"task": VERIFY_RUNS, "schedule": seconds, "args": ({},), "options": {"expires": seconds}}}


class _Process:
    """State of one process: its engine, created on first use, after any fork."""

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
    """Connect Celery's signals. They are global: handlers act only for our own app."""

    def setup_logging(logfile: str | None = None, **_: Any) -> None:
        try:
            logs.configure(settings.log, logfile)
        except SettingsError as error:
            _exit(error)

    def before_start(sender: Any = None, conf: Any = None, options: Any = None, **_: Any) -> None:
        if conf is app.conf:
            logfile = (options or {}).get("logfile")
            setup_logging(node_format(logfile, sender) if logfile else None)  # Celery does that after this signal only
            _prepare_start(settings, metrics, options or {})

    def ready(sender: Any = None, **_: Any) -> None:
        if getattr(sender, "app", None) is app:
            warn_of_servers(settings)

    def after_fork(**_: Any) -> None:
        metrics.forked(app.processes.number)
        try:
            process.engine()
        except RetrievalError as error:
            # Not fatal here: Celery would fork again without pause. The next job retries and reports the error.
            log.warning("engine not ready", error=type(error).__name__, reason=error.message)

    def before_exit(**_: Any) -> None:
        process.close()

    signals.setup_logging.connect(setup_logging, weak=False)
    signals.celeryd_init.connect(before_start, weak=False)
    signals.worker_ready.connect(ready, weak=False)
    signals.worker_before_create_process.connect(spare_start_up, weak=False)
    signals.worker_process_init.connect(after_fork, weak=False)
    signals.worker_process_shutdown.connect(before_exit, weak=False)


def _prepare_start(settings: Settings, metrics: Metrics, options: Mapping[str, Any]) -> None:
    """Refuse what can't work, also in the log file: with --detach, standard error leads nowhere."""
    try:
        refuse_other_pool(options.get("pool") or options.get("pool_cls") or _POOL)
        refuse_wrong_numbers(options)
        refuse_unsafe_start(settings, served_queues(options))
        _start_metrics(settings, metrics)
    except SystemExit as end:
        if options.get("logfile"):
            log.error("worker not started", reason=str(end.__cause__))  # noqa: TRY400 -- its sentence says all
        raise


def refuse_other_pool(pool: Any) -> None:
    """Stop this process if its pool is not our own, whose processes claim jobs: it would get none."""
    if pool not in {Pool, _POOL}:
        name = str(getattr(pool, "__module__", pool)).rpartition(".")[2]
        _exit(SettingsError(f"--pool={name}: this worker has processes only: leave it out; --concurrency=1 for one"))


def refuse_wrong_numbers(options: Mapping[str, Any]) -> None:
    """Stop this process if options of `celery worker` allow no process, or no job any time."""
    most, *_ = options.get("autoscale") or [1]
    if most < 1:
        _exit(SettingsError("--autoscale: expected at least 1 as the maximum"))
    for name in ("time_limit", "soft_time_limit"):
        if (options.get(name) or 0) < 0:
            _exit(SettingsError(f"--{name.replace('_', '-')}: expected a positive number of seconds"))


def served_queues(options: Mapping[str, Any]) -> set[str]:
    """Return the queues that the options of `celery worker` select."""

    def named(option: str) -> set[str]:
        value = options.get(option) or ()
        return {*(value.split(",") if isinstance(value, str) else value)}

    return (named("queues") or {*QUEUES}) - named("exclude_queues")


def refuse_unsafe_start(settings: Settings, queues: Collection[str] = QUEUES) -> None:
    """Stop this process if rows could leak, no job could arrive, or a part that its queues' jobs need is missing.

    An unavailable server is no reason: every process checks the database again before its first answer.
    """
    standby = settings.of_the_standby
    if not queues or "" in queues:
        _exit(SettingsError("-Q: expected names of queues"))
    _refuse("keys", lambda: check_keys(settings))
    _refuse("parts", lambda: check_parts(settings, queues))
    _refuse("Redis", lambda: check_redis(settings, sorted(queues)))
    _refuse("Postgres", lambda: check(settings, at_start=True))
    if standby is not None:
        _refuse("the standby", lambda: check_standby(standby, at_start=True))


def _refuse(server: str, check_it: Callable[[], object]) -> None:
    try:
        check_it()
    except SettingsError as error:
        _exit(error)
    except Unavailable as error:
        log.warning("starting without a server", server=server, reason=error.message)


def warn_of_servers(settings: Settings) -> None:
    """Warn of settings of Redis or Postgres with which a fault could lose a job, with the command that fixes them."""
    for finding in warnings(settings):
        log.warning("server misconfigured", server=finding.subject, advice=finding.text)


def _start_metrics(settings: Settings, metrics: Metrics) -> None:
    if settings.metrics.on:
        try:
            metrics.start()
        except SettingsError as error:
            _exit(error)


def _exit(error: SettingsError) -> None:
    from worker.adapters.terminal import complain  # noqa: PLC0415 -- only a worker that does not start needs it

    complain(error.message)
    raise SystemExit(CONFIGURATION_EXIT_CODE) from error


def __getattr__(name: str) -> Celery:
    """Create the app from the environment's settings when ``celery -A worker.app`` reads it."""
    if name not in {"app", "celery"}:
        raise AttributeError(name)
    try:
        application = create_app(settings_module.load())
    except SettingsError as error:
        _exit(error)
    globals()["app"] = globals()["celery"] = application
    return application
