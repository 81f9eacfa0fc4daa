"""Settings that every Celery worker of the comparison shares; imported in the environments of the peers, too."""

from __future__ import annotations

import os

from celery import Celery

DSN = os.environ.get("BENCH_DSN", "")
K = int(os.environ.get("BENCH_K", "15"))
CLAIMS = {"app.user_id": "", "app.tenant_id": os.environ.get("BENCH_TENANT", ""), "app.roles": ""}


def celery_app(queue: str) -> Celery:
    """An app with the settings that this project's worker has: late acknowledgement, JSON, one job at a time."""
    app = Celery(queue, set_as_current=False)
    # As an argument these would yield to CELERY_BROKER_URL of the environment.
    app.backend_cls = os.environ["BENCH_RESULTS"]
    app.conf.update(
        broker_read_url=os.environ["BENCH_BROKER"],
        broker_write_url=os.environ["BENCH_BROKER"],
        task_default_queue=queue,
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        result_expires=3600,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        task_soft_time_limit=60,
        task_time_limit=90,
        broker_transport_options={"visibility_timeout": 600},
    )
    return app
