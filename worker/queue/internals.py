"""Undocumented parts of Celery and kombu that this package overrides or calls.

`pyproject.toml` has upper bounds for their versions. Before a newer version is allowed, the test of this list
(`tests/unit/test_internals.py`) shows which parts are gone; the code that uses a part explains why.
"""

from __future__ import annotations

OVERRIDDEN: dict[tuple[str, str], str] = {
    ("connections", "celery.app.amqp:AMQP"): "Connection",
    ("connections", "kombu.connection:Connection"): "ensure_connection",
    ("processes.consumer", "celery.worker.consumer.consumer:Consumer"): "Blueprint",
    ("processes.pool", "celery.concurrency.base:BasePool"): "_get_info",
    ("remote_channel", "kombu.transport.redis:Channel"): "_purge _receive_one _refresh_binding sweep_bindings",
    ("remote_channel", "kombu.transport.redis:Transport"): "Channel",
    ("remote_control", "celery.app.control:Control"): "Mailbox",
    ("remote_control", "kombu.pidbox:Mailbox"): "node_cls",
    ("remote_control", "kombu.pidbox:Node"): "handle_message",
}
"""(module of `worker.queue`, class) → attributes and methods that a subclass of ours replaces."""

DOCUMENTED: dict[tuple[str, str], str] = {
    ("processes.consumer", "celery.bootsteps:StartStopStep"): "name",
    ("processes.consumer", "celery.bootsteps:Step"): "__init__ requires",
    ("processes.consumer", "celery.worker.consumer.control:Control"): "name requires",
    ("processes.pool", "celery.concurrency.base:BasePool"): (
        "on_start on_stop on_terminate register_with_event_loop signal_safe"
    ),
}
"""The same of what Celery documents for subclasses: steps, and the pool that ``worker_pool`` names."""

USED = (
    "celery.worker.autoscale:AUTOSCALE_KEEPALIVE",
    "celery.worker.heartbeat:active_requests",
    "celery.worker.heartbeat:all_total_count",
    "celery.worker.state:revoked",
    "celery.worker.state:total_count",
    "kombu.connection:resolve_aliases",
    "kombu.utils.json:dumps",
    "psycopg:Pipeline._communicate_gen",
    "psycopg:Pipeline._enqueue_sync",
    "psycopg._preparing:PrepareManager.clear",
)
"""Imported or called names that are undocumented as well; psycopg's in `worker.adapters.postgres`."""
