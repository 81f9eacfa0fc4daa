"""The network between, on real sockets, and servers that are known by their pid."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest
import redis
from tests.waiting import PATIENCE

from chaos.proxy import Proxy, network, proxy
from chaos.servers import ForeignServerError, RedisServer, connect, fill, folders
from workbench.devstack.redis import Redis, redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with redis_server(tmp_path_factory.mktemp("redis"), users=False) as running:
        yield running


@pytest.fixture
def link(server: Redis) -> Iterator[Proxy]:
    """A proxy before a Redis."""
    with network() as loop, proxy(loop, server.port) as made:
        yield made


@pytest.fixture
def client(link: Proxy) -> Iterator[redis.Redis]:
    with connect(link.port, timeout=0.5) as made:
        made.ping()  # connected, through the proxy
        yield made


def answers(client: redis.Redis) -> bool:
    with contextlib.suppress(redis.RedisError):
        return bool(client.ping())
    return False


def test_it_carries_whatever_is_sent(client: redis.Redis) -> None:
    client.set("large", b"x" * 3_000_000)
    assert client.get("large") == b"x" * 3_000_000


def test_a_blackhole_swallows_and_old_connections_stay_dead(link: Proxy, client: redis.Redis) -> None:
    """Neither end is notified: the client times out; afterwards a new connection works."""
    link.blackhole(True)
    for _ in range(2):  # the connection there was, and one made meanwhile
        with pytest.raises(redis.TimeoutError):
            client.ping()
    with connect(link.port, timeout=5) as meanwhile:
        with pytest.raises(redis.TimeoutError), connect(link.port, timeout=0.3) as impatient:
            impatient.ping()
        link.blackhole(False)
        assert meanwhile.ping()
    assert client.ping()


def test_what_was_sent_into_a_half_open_connection_is_gone(link: Proxy, client: redis.Redis, server: Redis) -> None:
    """The server's end stays: Redis gives the next message to a client that is not there any more."""
    with connect(server.port) as direct, connect(link.port, timeout=0.5) as other:
        direct.delete("list")
        blocked = other.connection_pool.get_connection()
        blocked.send_command("CLIENT", "ID")
        own = str(blocked.read_response())
        blocked.send_command("BRPOP", "list", 0)
        # Others may wait as well: what a test before left half-open.
        while "b" not in next(one["flags"] for one in direct.client_list() if one["id"] == own):
            time.sleep(0.01)
        link.half_open()
        direct.lpush("list", "message")
        assert direct.llen("list") == 0
        with pytest.raises(redis.TimeoutError):
            blocked.read_response()
        assert answers(client) or answers(client)  # its old connection is dead, its next one is not


def test_latency_holds_back(link: Proxy) -> None:
    with connect(link.port, timeout=PATIENCE) as patient:
        patient.ping()  # connected
        link.latency(0.1)
        started = time.monotonic()
        patient.ping()
        assert time.monotonic() - started >= 0.2  # there and back
        link.latency(0)


def test_a_reset_ends_all_connections(link: Proxy, client: redis.Redis) -> None:
    """Also one that waits for an answer; the next one works."""
    with connect(link.port, timeout=180) as other:
        blocked = other.connection_pool.get_connection()
        blocked.send_command("BRPOP", "nothing", 0)
        link.reset()
        with pytest.raises(redis.ConnectionError):
            blocked.read_response()
    assert client.ping()


def test_a_server_of_somebody_else_is_not_killed(tmp_path: Path, server: Redis) -> None:
    """Another process answers on the port: nothing is done to it."""
    with RedisServer(tmp_path) as ours:
        own, ours.port = ours.port, server.port
        with pytest.raises(ForeignServerError):
            ours.kill()
        assert server.process.poll() is None
        ours.port = own
        ours.kill()
        assert ours.process.poll() is not None


def test_what_redis_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    """The same port and folder; the file is synced at every write."""
    with RedisServer(tmp_path) as server:
        port = server.port
        with server.client() as client:
            client.lpush("list", *range(1000))
        server.kill()
        server.start()
        assert server.port == port
        with server.client() as client:
            assert client.llen("list") == 1000


def test_a_full_disk_ends_redis_and_loses_nothing() -> None:
    with folders() as (_, small):
        if small is None:
            pytest.skip("no tmpfs may be mounted here")
        with RedisServer(small) as server, server.client() as client:
            client.lpush("list", "kept")
            ballast = fill(small)
            with pytest.raises(redis.RedisError):
                client.lpush("list", "x" * 100_000)
            assert server.wait_for_end()
            ballast.unlink()
            server.start()
            assert client.lrange("list", 0, -1) == [b"kept"]


def test_what_redis_denied_is_known_after_it_ended(tmp_path: Path) -> None:
    """Redis forgets its log when it ends; the harness has noted it before."""
    with RedisServer(tmp_path) as server:
        with server.client(user="producer") as client, pytest.raises(redis.exceptions.NoPermissionError):
            client.flushall()
        server.kill()
        server.start()
        assert server.denied == {"producer: command flushall"}
