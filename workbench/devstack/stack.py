"""A stack of both servers, Postgres and Redis."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from retrieval_client.errors import SettingsError
from workbench.devstack.postgres import Postgres, postgres_server
from workbench.devstack.processes import check_machine
from workbench.devstack.redis import Redis, redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Stack:
    """Both servers, and the folder that holds their data."""

    root: Path
    postgres: Postgres
    redis: Redis


@contextlib.contextmanager
def local_stack(root: Path | None = None, *, durable: bool = False) -> Iterator[Stack]:
    """Start both servers, yield them, stop them.

    Args:
        root: folder of the data between starts; ``None`` creates a temporary folder and removes it.
        durable: fsync in Postgres and an append-only file in Redis, for a stack that is kept.

    Raises:
        SettingsError: another stack runs in the folder, or a server does not start.
    """
    with contextlib.ExitStack() as exits:
        if root is None:
            root = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="rw-", ignore_cleanup_errors=True)))
        root.mkdir(parents=True, exist_ok=True)
        check_machine()
        _lock(exits.enter_context((root / "lock").open("a+", encoding="utf-8")), root)
        settings = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"} if durable else {}
        pg = exits.enter_context(postgres_server(root / "postgres", settings=settings))
        rd = exits.enter_context(redis_server(root / "redis", durable=durable))
        yield Stack(root, pg, rd)


def _lock(file: TextIO, root: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise SettingsError(
            f"{root}: its servers run already, of {file.read()}: stop it, or name another folder"
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} since {datetime.now().astimezone().isoformat(' ', 'seconds')}")
    file.flush()
