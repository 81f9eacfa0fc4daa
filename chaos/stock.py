"""The worker on kombu's own transport: ``celery -A chaos.stock worker``. The harness shows what that one loses."""

from __future__ import annotations

from worker.app import app

# Kombu's own by the URL's scheme; it looks after unacknowledged messages in seconds, not in its default minutes.
app.conf.broker_transport = None
app.conf.broker_transport_options = {
    **{name: value for name, value in app.conf.broker_transport_options.items() if name != "rules"},
    "unacked_mutex_expire": 30,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
}
