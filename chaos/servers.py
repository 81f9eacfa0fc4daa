"""Postgres and Redis that can be hurt: each is known by the pid that it says itself, and by nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil
import psycopg
import redis
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry

from workbench.devstack.postgres import Postgres, postgres_server
from workbench.devstack.processes import free_port
from workbench.devstack.redis import REFUSED_HARMLESSLY, Redis, redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator

GONE_SECONDS = 30.0
TMPFS_MEGABYTES = 512


class ForeignServerError(Exception):
    """A server is not the process that the harness started."""


def connect(port: int, database: int = 0, timeout: float = 2.0) -> redis.Redis:
    """A client that tries everything once, so that each reply is that of one try."""
    return client_of(f"redis://127.0.0.1:{port}/{database}", timeout)


def client_of(url: str, timeout: float = 2.0, retry: Retry | None = None) -> redis.Redis:
    """The same, by a URL."""
    retry = retry or Retry(NoBackoff(), 0)
    return redis.Redis.from_url(url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=retry)


class RedisServer:
    """Redis as `config/redis` ships it, on one port and folder for all its lives.

    Attributes:
        port: where it listens.
        folder: where its files are.
        denied: what its users were refused, as far as it was noted.
    """

    name = "Redis"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.denied: set[str] = set()
        self.port = free_port()
        self._running = contextlib.ExitStack()
        self._server: Redis | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None and self._server.process.poll() is None:
            self._server.process.send_signal(signal.SIGCONT)
        self._running.close()

    @property
    def server(self) -> Redis:
        """The running server."""
        assert self._server is not None  # noqa: S101 -- for the type checker: started
        return self._server

    @property
    def version(self) -> str:
        """Its name and version."""
        return self.server.name

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server's process."""
        return self.server.process

    def url(self, database: int = 0, user: str = "admin", port: int | None = None) -> str:
        """Return the URL for one of its users, through a proxy if a port is given."""
        return self.server.url(database, user, port=port or self.port)

    def client(self, database: int = 0, timeout: float = 2.0, user: str = "admin") -> redis.Redis:
        """A client that tries everything once, past the proxy."""
        return client_of(self.url(database, user), timeout)

    def start(self) -> None:
        """Start it, again or for the first time; returns once it answers."""
        self._running.close()
        settings = {"auto-aof-rewrite-min-size": "32mb"}  # its disk may be a small one
        self._server = self._running.enter_context(
            redis_server(self.folder, durable=True, port=self.port, settings=settings)
        )

    def check_pid(self) -> int:
        """Return its pid, as the server reports it.

        Raises:
            ForeignServerError: another process answers on its port.
        """
        try:
            with self.client() as client:
                server_info: dict[str, Any] = client.info("server")
        except redis.AuthenticationError:
            raise ForeignServerError(f"Redis on port {self.port} has other users") from None
        if server_info["process_id"] != self.process.pid:
            raise ForeignServerError(
                f"Redis on port {self.port} is process {server_info['process_id']}, not {self.process.pid}"
            )
        return self.process.pid

    def kill(self, signal_number: signal.Signals = signal.SIGKILL) -> None:
        """End it; with SIGTERM it saves and closes first."""
        self.record_denied()
        os.kill(self.check_pid(), signal_number)
        self.process.wait(GONE_SECONDS)

    def record_denied(self) -> None:
        """Record what ACL denied to its users: a server that ends forgets it."""
        with contextlib.suppress(redis.RedisError), self.client() as client:
            log: Any = client.acl_log() if self.server.passwords else []
            self.denied |= {
                f"{denial['username']}: {denial['reason']} {denial['object']}"
                for denial in log
                if denial["object"] not in REFUSED_HARMLESSLY
            }

    def wait_for_end(self) -> bool:
        """Return whether it exited within a few seconds."""
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            return False
        return True

    def setting(self, name: str) -> str:
        """Return the value of a setting."""
        with self.client() as client:
            settings: Any = client.config_get(name)
        return str(settings[name])

    def command(self, *words: str) -> None:
        """Send an administrator's command, until it is taken: a full server closes connections, this one too."""
        with client_of(self.url(), retry=Retry(ConstantBackoff(0.05), 200)) as client:
            client.execute_command(*words)


class PostgresServer:
    """PostgreSQL that keeps what it committed when its processes are killed.

    Attributes:
        folder: where its files are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running = contextlib.ExitStack()
        self._server: Postgres | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def server(self) -> Postgres:
        """The running server."""
        assert self._server is not None  # noqa: S101 -- for the type checker: started
        return self._server

    @property
    def socket(self) -> str:
        """Path of its socket; another one after each start."""
        return str(self.server.socket_dir / ".s.PGSQL.5432")

    def start(self) -> None:
        """Start it, again or for the first time; returns once it answers."""
        self._running.close()
        # A commit is on file before it is confirmed, as in production; the disk itself survives all that is done here.
        settings = {"synchronous_commit": "on", "full_page_writes": "on", "max_connections": "300"}
        self._server = self._running.enter_context(postgres_server(self.folder, settings=settings))

    def check_pid(self) -> int:
        """Return its pid, from its pid file.

        Raises:
            ForeignServerError: the file names another process.
        """
        file = self.folder / f"data-{self.server.version}" / "postmaster.pid"
        pid = int(file.read_text().splitlines()[0])
        if pid != self.server.process.pid:
            raise ForeignServerError(f"{file} names process {pid}, not {self.server.process.pid}")
        return pid

    def kill(self, signal_number: signal.Signals = signal.SIGKILL) -> None:
        """End it; SIGQUIT is Postgres' immediate shutdown. Returns once all its processes are gone."""
        children = psutil.Process(self.check_pid()).children(recursive=True)
        os.kill(self.check_pid(), signal_number)
        self.server.process.wait(GONE_SECONDS)
        # Sessions outlive their postmaster until they look up from their work; no new one may start before.
        psutil.wait_procs(children, timeout=GONE_SECONDS)

    def connect(self) -> psycopg.Connection[Any]:
        """A superuser's connection, past the proxy."""
        return psycopg.connect(self.server.dsn(), autocommit=True, connect_timeout=5)

    def terminate_sessions(self) -> None:
        """End all sessions of workers, as an administrator or a failover does."""
        with self.connect() as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker'")


@contextlib.contextmanager
def folders() -> Iterator[tuple[Path, Path | None]]:
    """(a temporary folder, a small tmpfs within it; None where none may be mounted)."""
    with tempfile.TemporaryDirectory(prefix="rw-chaos-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        small = root / "redis"
        small.mkdir()
        mounted = _mount(small)
        try:
            yield root, small if mounted else None
        finally:
            if mounted:
                _unmount(small)


def _mount(folder: Path) -> bool:
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        return False
    command = [mount, "-t", "tmpfs", "-o", f"size={TMPFS_MEGABYTES}m", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603 -- no shell


def _unmount(folder: Path) -> None:
    umount = shutil.which("umount")
    assert umount is not None  # noqa: S101 -- for the type checker: it was mounted
    deadline = time.monotonic() + GONE_SECONDS
    while subprocess.run([umount, str(folder)], check=False, capture_output=True).returncode:  # noqa: S603 -- no shell
        if time.monotonic() > deadline:
            return
        time.sleep(0.2)


def fill(folder: Path) -> Path:
    """Fill the file system of a folder; returns the file to delete."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 65536)
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"\0" * 512):
            pass
    return ballast
