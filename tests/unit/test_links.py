"""Bounds of this project's connections to Redis; that they hold on dead links is in tests/acceptance/test_links.py."""

from __future__ import annotations

import pytest

from worker.queue.connections import RESULTS, SOCKETS

LONGEST_SECONDS = 60


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (SOCKETS, "socket_timeout"),
        (SOCKETS, "socket_connect_timeout"),
        (SOCKETS, "health_check_interval"),
        (RESULTS, "redis_socket_timeout"),
        (RESULTS, "redis_socket_connect_timeout"),
        (RESULTS, "redis_backend_health_check_interval"),
    ],
)
def test_nothing_waits_for_ever(settings: dict[str, float], name: str) -> None:
    """Each wait and each number of tries has an end; celery's and redis-py's own defaults have none."""
    assert settings[name] is not None
    assert 0 < settings[name] <= LONGEST_SECONDS


def test_a_silent_peer_is_asked() -> None:
    """Keepalives end a connection whose peer does not answer, and hold none open through a firewall."""
    assert SOCKETS["socket_keepalive"]
    assert SOCKETS["socket_keepalive_options"]
    assert RESULTS["redis_socket_keepalive"]
