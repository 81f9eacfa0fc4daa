"""A Redis as config/redis sets it up: users with the least rights, and TLS."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import redis

import worker
from worker.devstack.processes import free_port, spawn, stop, wait_until
from worker.devstack.redis import find_redis

if TYPE_CHECKING:
    from collections.abc import Iterator

SHIPPED = Path(worker.__file__).parents[1] / "config" / "redis"
SELECTORS_SINCE = 7
PASSWORDS = {name: f"canary-{name}-password" for name in ("admin", "producer", "worker", "flower")}


@dataclass
class Guarded:
    """A running server and how its users reach it."""

    port: int
    scheme: str
    options: str

    def url(self, user: str, database: int = 0) -> str:
        """A user's URL, as docs/operations.md writes it."""
        return f"{self.scheme}://{user}:{PASSWORDS[user]}@127.0.0.1:{self.port}/{database}{self.options}"

    def client(self, user: str, database: int = 0) -> redis.Redis:
        """A plain connection of a user."""
        return redis.Redis.from_url(self.url(user, database), decode_responses=True)


def lacks(*, tls: bool) -> str:
    """What the Redis of this machine is too old for, or was built without; empty if nothing."""
    binary = find_redis()
    version = _said(binary, "--version")
    major = re.search(r"v=(\d+)", version)
    if major is None or int(major[1]) < SELECTORS_SINCE:
        return f"users.acl needs Redis {SELECTORS_SINCE} or newer, this is {version.strip()}"
    if tls and "tls-port" in _said(binary, "--port", "0", "--tls-port", "0", "--no-such-setting", "x"):
        return "this Redis was built without TLS"
    return ""


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return done.stdout + done.stderr


@contextlib.contextmanager
def guarded_redis(folder: Path, *, tls: bool = False) -> Iterator[Guarded]:
    """Run a Redis with the shipped files, in which only folders and passwords are filled in."""
    folder.mkdir()
    if tls:
        subprocess.run(["sh", str(SHIPPED / "certificates.sh"), str(folder / "tls"), "127.0.0.1"], check=True)
    for file in ("redis.conf", "redis-tls.conf", "users.acl"):
        text = (SHIPPED / file).read_text()
        for name, password in PASSWORDS.items():
            text = text.replace(f"{name.upper()}_PASSWORD", password)
        text = text.replace("/etc/redis", str(folder)).replace("/var/lib/redis", str(folder))
        (folder / file).write_text(text)
    port = free_port()
    shipped = folder / ("redis-tls.conf" if tls else "redis.conf")
    authority = f"?ssl_cert_reqs=required&ssl_ca_certs={folder / 'tls' / 'ca.crt'}" if tls else ""
    server = Guarded(port, "rediss" if tls else "redis", authority)
    log = folder / "redis.log"
    with log.open("ab") as file:
        process = spawn([find_redis(), str(shipped), "--tls-port" if tls else "--port", str(port)], file, None)
        try:
            wait_until(lambda: _answers(server), process, "Redis", log)
            yield server
        finally:
            stop(process, signal.SIGTERM)


def _answers(server: Guarded) -> bool:
    try:
        with server.client("admin") as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False
