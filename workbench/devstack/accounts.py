"""The account that servers run as where the shell is root: Postgres refuses root, and Valkey does not need it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from retrieval_client.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

ACCOUNT = "nobody"


def unprivileged_account() -> pwd.struct_passwd | None:
    """Return the account for servers if this process is root (a container, CI); None: they run as this user."""
    return pwd.getpwnam(ACCOUNT) if os.geteuid() == 0 else None


def give(folder: Path, account: pwd.struct_passwd | None) -> None:
    """Make an account the owner of a folder and of all in it."""
    if account is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


@contextlib.contextmanager
def opened_for(folder: Path, account: pwd.struct_passwd | None) -> Iterator[tuple[str, Sequence[int]]]:
    """Make a folder of an account; yield a name of it, and the descriptors that a program inherits to use this name.

    The folders above, as a home of root's, may be closed to the account: on Linux a descriptor leads past them.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if account is None or sys.platform != "linux":
        yield str(folder), ()
        return
    os.chown(folder, account.pw_uid, account.pw_gid)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}", (descriptor,)
    finally:
        os.close(descriptor)


def check_temporary(folder: Path, account: pwd.struct_passwd | None) -> None:
    """Check that an account can enter its temporary folder.

    Raises:
        SettingsError: a folder above is closed to it.
    """
    if account is not None and not _runs_as(account, ["test", "-x", str(folder)]):
        raise SettingsError(
            f"TMPDIR: the account {ACCOUNT}, as which servers run when root starts them, can't enter {folder.parent}. "
            f"Choose another folder, or start as another user than root"
        )


def reachable(program: Path, account: pwd.struct_passwd | None, copy: Callable[[], Path]) -> Path:
    """Return a program where an account can run it: in place, or the copy that ``copy`` makes."""
    if account is None or _runs_as(account, [str(program), "--version"]):
        return program
    return copy()


def open_copy(source: Path, target: Path) -> Path:
    """Copy a file or folder in place of an older copy, and open it to every account."""
    target.unlink(missing_ok=True)
    (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() or path.stat().st_mode & 0o100 else 0o044))
    return target


def _runs_as(account: pwd.struct_passwd, command: list[str]) -> bool:
    try:
        completed = subprocess.run(  # noqa: S603 -- our own binaries and test, no shell
            command,
            check=False,
            capture_output=True,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
            cwd="/",
            # A PATH of root's may lead through folders that are closed to the account.
            env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{os.defpath}"},
        )
    except OSError:
        return False
    return completed.returncode == 0
