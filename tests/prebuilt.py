"""Data folders of Postgres that the processes of a test run share: who first needs one fills it, each runs a copy.

And copies of a database in them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from workbench.devstack.postgres import Postgres, postgres_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pytest

_MEMORY = "/dev/shm"  # noqa: S108 -- folders with names of their own are made in it
_ROOM = 2 * 2**30
_VARIABLE = "TESTS_PREBUILT_FOLDER"
"""Names the folder of this run, to the processes of pytest-xdist as well."""


def fast_place() -> str | None:
    """Where files are kept in memory, if there is room and programs may run there; otherwise None.

    A database is a few hundred files, which a disk takes longer to create than a test takes.
    """
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return None
    return None if found.f_flag & os.ST_NOEXEC or found.f_bavail * found.f_frsize < _ROOM else _MEMORY


def share_folder(config: pytest.Config) -> None:
    """Make the folder of a run, in its first process, and remove it at the end."""
    if not hasattr(config, "workerinput"):
        # Not one of pytest's, which are closed to the account that Postgres runs as.
        os.environ[_VARIABLE] = folder = tempfile.mkdtemp(prefix="rw-tests-", dir=fast_place())
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@contextlib.contextmanager
def postgres(
    root: Path,
    name: str,
    fill: Callable[[Postgres], None],
    *,
    version: int = 18,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Postgres]:
    """Run a server on a copy of a data folder.

    Args:
        root: where the copy is put.
        name: names what the folder holds.
        fill: fills it, on a server that runs only for that; called once in a run for each version.
        version: 16 or 18.
        settings: of the server, as for `postgres_server`.
    """
    data = f"data-{version}"
    root.mkdir(parents=True)
    subprocess.run(["cp", "-a", str(_filled(name, fill, version) / data), str(root / data)], check=True)
    with postgres_server(root, version=version, settings=settings) as server:
        yield server


@contextlib.contextmanager
def copied_database(server: Postgres, template: str, name: str) -> Iterator[str]:
    """Copy a database for the length of a block; return the copy's name."""
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        # Copied as files: through the log, as is usual, takes half as long again, and so does the removal.
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        try:
            yield name
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _filled(name: str, fill: Callable[[Postgres], None], version: int) -> Path:
    place = Path(os.environ[_VARIABLE]) / f"{name}-{version}"
    done = place / "filled"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(place, ignore_errors=True)  # what a process left that failed
            with postgres_server(place, version=version) as server:
                fill(server)
            done.touch()
    return place
