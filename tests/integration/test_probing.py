"""Connections in doubt, through a network that swallows bytes: probed first, and replaced."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import redis

from chaos.proxy import Proxy, network, proxy
from worker.queue.liveness import PATIENCE_SECONDS, probed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.cli.devstack.stack import Stack

ANSWER_SECONDS = 2.0
IDLE_SECONDS = 1e-9
assert PATIENCE_SECONDS < ANSWER_SECONDS, "who waits for the whole answer time, gets a TimeoutError here"


@pytest.fixture
def link(stack: Stack, broker: redis.Redis) -> Iterator[Proxy]:
    del broker  # emptied
    with network() as loop, proxy(loop, urlsplit(stack.redis.url(0)).port or 0) as way:
        yield way


@pytest.fixture
def connect(stack: Stack, link: Proxy) -> Iterator[Callable[..., Any]]:
    """Makes connections of the class, over the link."""
    address = urlsplit(stack.redis.url(0))
    with contextlib.ExitStack() as exits:

        def one(idle: float = 0.0) -> Any:
            connection = probed(redis.Connection)(
                host="127.0.0.1",
                port=link.port,
                username=address.username,
                password=address.password,
                socket_timeout=ANSWER_SECONDS,
                health_check_interval=idle,
            )
            exits.callback(connection.disconnect)
            connection.connect()
            return connection

        yield one


def ask(connection: Any) -> Any:
    connection.send_command("ECHO", "still there")
    return connection.read_response()


def test_an_idle_connection_that_died_silently_costs_no_answer_time(link: Proxy, connect: Callable[..., Any]) -> None:
    connection = connect(idle=IDLE_SECONDS)
    assert ask(connection) == b"still there"
    link.half_open()
    assert ask(connection) == b"still there"


def test_one_silence_is_enough_for_all_that_are_as_old(link: Proxy, connect: Callable[..., Any]) -> None:
    """The first one finds out, and waits for the whole answer time; the others do not."""
    first, *others = connect(), connect(), connect()
    link.half_open()
    with pytest.raises(redis.TimeoutError):
        ask(first)
    assert [ask(one) for one in (first, *others)] == [b"still there"] * 3


def test_a_connection_that_lives_is_kept(link: Proxy, connect: Callable[..., Any]) -> None:
    """Another one's silence, and its own idleness, are only a reason to ask."""
    dead = connect()
    link.half_open()
    alive = connect(idle=IDLE_SECONDS)
    ask(alive)
    socket = alive._sock
    with pytest.raises(redis.TimeoutError):
        ask(dead)
    assert ask(alive) == b"still there"
    assert alive._sock is socket


def test_a_server_that_closed_an_idle_connection_is_reached_anew(link: Proxy, connect: Callable[..., Any]) -> None:
    connection = connect(idle=IDLE_SECONDS)
    ask(connection)
    link.reset()
    assert ask(connection) == b"still there"


def test_where_all_is_swallowed_the_error_is_redis_s_own(link: Proxy, connect: Callable[..., Any]) -> None:
    connection = connect(idle=IDLE_SECONDS)
    ask(connection)
    link.blackhole(True)
    with pytest.raises(redis.TimeoutError):
        ask(connection)
    link.blackhole(False)
    assert ask(connection) == b"still there"
