"""Undocumented parts of Celery, kombu and billiard that this package overrides or calls.

`pyproject.toml` has upper bounds for the versions of the three. Before a newer version is allowed, the test of this
list (`tests/unit/test_internals.py`) shows which parts are gone; the code that uses a part explains why.
"""

from __future__ import annotations

OVERRIDDEN: dict[tuple[str, str], str] = {
    ("connections", "celery.app.amqp:AMQP"): "Connection",
    ("connections", "kombu.connection:Connection"): "ensure_connection",
    ("pool", "billiard.pool:Pool"): ("TimeoutHandler _repopulate_pool did_start_ok maintain_pool shrink terminate_job"),
    ("pool", "billiard.pool:TimeoutHandler"): "on_hard_timeout on_soft_timeout",
    ("pool", "billiard.pool:Worker"): "_ensure_messages_consumed after_fork",
    ("pool", "celery.concurrency.asynpool:AsynPool"): (
        "ResultHandler Worker __init__ _create_process_handlers _create_worker_process _create_write_handlers "
        "_track_child_process create_result_handler flush get_process_queues on_job_process_down on_job_ready "
        "on_process_alive timers"
    ),
    ("pool", "celery.concurrency.asynpool:ResultHandler"): "_make_process_result",
    ("pool", "celery.concurrency.asynpool:Worker"): "on_loop_start",
    ("pool", "celery.concurrency.prefork:TaskPool"): "Pool _get_info uses_semaphore",
    ("processes.autoscaler", "celery.worker.autoscale:Autoscaler"): "_update_consumer_prefetch_count qty scale_down",
    ("processes.consumer", "celery.worker.consumer.consumer:Consumer"): (
        "Blueprint __init__ _update_prefetch_count on_close"
    ),
    ("processes.consumer", "celery.worker.consumer.control:Control"): "name requires",
    ("processes.pool", "celery.concurrency.base:BasePool"): (
        "__init__ _get_info maintain_pool num_processes on_start on_stop on_terminate register_with_event_loop "
        "signal_safe"
    ),
    ("remote_control", "celery.app.control:Control"): "Mailbox",
    ("remote_control", "kombu.pidbox:Mailbox"): "node_cls",
    ("remote_control", "kombu.pidbox:Node"): "handle_message",
    ("request", "celery.app.events:Events"): "dispatcher_cls",
    ("request", "celery.events.dispatcher:EventDispatcher"): "_publish",
    ("request", "celery.worker.consumer.consumer:Consumer"): (
        "__init__ call_soon_ack connect on_close on_connection_error_after_connected on_decode_error on_invalid_task "
        "on_send_event_buffered on_unknown_message on_unknown_task register_with_event_loop"
    ),
    ("request", "celery.worker.request:Request"): (
        "__init__ _announce_revoked _success_was_stored body content_type info on_accepted on_failure "
        "on_timeout request_dict terminate"
    ),
    ("results", "celery.backends.base:Backend"): ("mark_as_failure mark_as_revoked prepare_exception store_result"),
    ("results", "celery.backends.base:BaseKeyValueStoreBackend"): "_store_result",
    ("results", "celery.backends.redis:RedisBackend"): "_get_pool",
    ("tasks", "celery.app.task:Task"): (
        "Request acks_late apply_async max_retries on_failure on_retry reject_on_worker_lost throws typing"
    ),
    ("transport.channel", "kombu.transport.redis:Channel"): (
        "QoS __init__ _basic_cancel _connparams _get _on_connection_disconnect _purge _queue_bind _receive "
        "_receive_one _refresh_binding basic_consume close conn_or_acquire from_transport_options max_connections "
        "priority_steps sweep_bindings"
    ),
    ("transport.channel", "kombu.transport.virtual.base:Channel"): "Message",
    ("transport.poller", "kombu.transport.redis:MultiChannelPoller"): (
        "handle_event maybe_check_brpop_health maybe_restore_messages on_poll_init on_poll_start on_readable"
    ),
    ("transport.qos", "kombu.transport.redis:QoS"): "__init__ ack append reject restore_unacked restore_visible",
    ("transport.qos", "kombu.transport.virtual.base:Message"): "__init__",
    ("transport.qos", "kombu.transport.virtual.base:QoS"): "can_consume restore_unacked_once",
    ("transport.transport", "kombu.transport.redis:Transport"): "Channel __init__ register_with_event_loop",
}
"""(module of `worker.queue`, class) → attributes and methods that a subclass of ours replaces."""

USED = (
    "billiard.common:TERM_SIGNAME",
    "billiard.common:pickle_loads",
    "billiard.compat:mem_rss",
    "billiard.einfo:ExceptionInfo",
    "billiard.einfo:ExceptionWithTraceback",
    "billiard.pool:ACK",
    "billiard.pool:EX_RECYCLE",
    "billiard.pool:READY",
    "billiard.pool:RUN",
    "billiard.pool:SIG_SOFT_TIMEOUT",
    "billiard.process:current_process",
    "celery._state:get_current_worker_task",
    "celery.concurrency:get_implementation",
    "celery.platforms:signals",
    "celery.worker.control:Panel",
    "celery.worker.state:revoked",
    "celery.worker.state:scheduled_requests",
    "celery.worker.state:should_stop",
    "celery.worker.state:should_terminate",
    "celery.worker.state:task_ready",
    "celery.worker.state:task_reserved",
    "kombu.asynchronous:set_event_loop",
    "kombu.connection:resolve_aliases",
    "kombu.serialization:register",
    "kombu.transport.redis:QoS.restore_by_tag",
    "kombu.transport.virtual:QoS.ack",
    "kombu.transport.virtual:QoS.append",
    "kombu.utils.json:dumps",
    "psycopg:Pipeline._enqueue_sync",
    "psycopg._preparing:PrepareManager.clear",
)
"""Imported or called names that are undocumented as well; psycopg's in `worker.adapters.postgres`."""
