"""Redis as config/redis sets it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from worker import devstack

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _needs_users() -> None:
    if missing := devstack.lacks():
        pytest.skip(missing)


def test_a_restart_keeps_what_was_written_in_one_step(tmp_path: Path) -> None:
    """Redis replays transactions with the rights of the default user: without any, it drops them silently."""
    with devstack.redis_server(tmp_path, durable=True) as server, redis.Redis.from_url(server.url()) as client:
        client.eval("redis.call('SET', KEYS[1], 1) redis.call('SET', KEYS[2], 1)", 2, "one", "other")
    with devstack.redis_server(tmp_path, durable=True) as server, redis.Redis.from_url(server.url()) as client:
        assert client.exists("one", "other") == 2


def test_the_default_user_is_off(tmp_path: Path) -> None:
    """Nobody comes in without a name and a password, whatever rights that user has."""
    with devstack.redis_server(tmp_path) as server:
        for name in (None, "default"):
            for password in (None, ""):
                with (
                    redis.Redis(port=server.port, username=name, password=password) as client,
                    pytest.raises((redis.AuthenticationError, redis.ResponseError)),
                ):
                    client.ping()
