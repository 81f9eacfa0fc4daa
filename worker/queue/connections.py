"""Redis connection options: no wait is unbounded, and a lost connection is re-established soon.

A silent link looks like a slow reply. docs/redis.md explains how the settings work together.
"""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from celery.app.amqp import AMQP
from kombu.connection import Connection

ANSWER_SECONDS = 3.0
"""Time limit for one reply of Redis; kombu's blocking pop takes 1 s if a queue is empty."""

_KEEPALIVE = {
    # Probes on a silent link: after 5 s, then every 2 s; three without an answer end the connection.
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 2,
    "TCP_KEEPCNT": 3,
    # Milliseconds that sent bytes may remain unacknowledged.
    "TCP_USER_TIMEOUT": 10_000,
}

SOCKETS: dict[str, Any] = {
    "socket_timeout": ANSWER_SECONDS,
    "socket_connect_timeout": ANSWER_SECONDS,
    "socket_keepalive": True,
    # Not every system has all of them.
    "socket_keepalive_options": {
        getattr(socket, name): value for name, value in _KEEPALIVE.items() if hasattr(socket, name)
    },
    "health_check_interval": 3,
    "retry_on_timeout": False,  # nested retries would multiply their times
}
"""For `broker_transport_options`."""

RESULTS: dict[str, Any] = {
    "redis_socket_timeout": ANSWER_SECONDS,
    "redis_socket_connect_timeout": ANSWER_SECONDS,
    "redis_socket_keepalive": True,
    "redis_backend_health_check_interval": 3,
}
"""Celery settings for the result backend's Redis, which chords use."""


_TLS = ("ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


def tls(url: str) -> dict[str, str] | None:
    """Return the TLS options of a Redis URL, for Flower, which reads them from Celery's `broker_use_ssl` only.

    >>> tls("rediss://worker:secret@redis/0?ssl_cert_reqs=required&ssl_ca_certs=/ca.crt")
    {'ssl_cert_reqs': 'required', 'ssl_ca_certs': '/ca.crt'}
    >>> tls("redis://redis/0") is None
    True
    """
    address = urlsplit(url)
    url_options = parse_qs(address.query)
    options = {name: url_options[name][-1] for name in _TLS if name in url_options}
    return options if address.scheme == "rediss" and options else None


class _Connection(Connection):
    """Connection that is retried every few seconds; kombu's own pauses grow to half a minute."""

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        """Connect; see `kombu.Connection.ensure_connection`."""
        pauses = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 3.0}
        return super().ensure_connection(*args, **{**pauses, **options})


class Amqp(AMQP):
    """Celery's broker access, with `_Connection`."""

    Connection = _Connection
