"""What all acceptance tests share: Redis refuses none of the shipped users what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker import devstack


def refusals(server: devstack.Redis) -> list[dict[str, Any]]:
    """What Redis refused to its users, by its own log, except what is asked for in the knowledge that it may be."""
    if not server.passwords:
        return []
    with redis.Redis.from_url(server.url(), decode_responses=True) as admin:
        entries = [entry for entry in admin.acl_log() if entry["username"] in server.passwords]
    # The worker asks how Redis is set, and takes no for an answer.
    return [entry for entry in entries if entry["object"] != "config|get"]


@pytest.fixture(autouse=True)
def _nothing_is_refused(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a process was refused a command, a key or a channel; tests that provoke it mark that."""
    if "stack" not in request.fixturenames or request.node.get_closest_marker("provokes_refusals"):
        yield
        return
    server = request.getfixturevalue("stack").redis
    if server.passwords:
        with redis.Redis.from_url(server.url()) as admin:
            admin.acl_log_reset()
    yield
    assert refusals(server) == []
