"""The account that servers run as where the shell is root: Postgres refuses root, and Valkey does not need it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from typing import TYPE_CHECKING

from retrieval_client.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable
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


def let_through(folder: Path, account: pwd.struct_passwd | None) -> None:
    """Let an account reach a folder of its own by its path: opens the parent, where this process owns it.

    Raises:
        SettingsError: another folder above is closed to it.
    """
    if account is None:
        return
    parent = folder.parent
    if parent.stat().st_uid == os.geteuid():
        parent.chmod(parent.stat().st_mode | 0o011)
    if not _runs_as(account, ["test", "-x", str(folder)]):
        raise SettingsError(
            f"{folder}: the account {ACCOUNT}, as which servers run when root starts them, can't enter a folder above "
            f"it. Choose a folder that it can reach, or start as another user than root"
        )


def reachable(program: Path, account: pwd.struct_passwd | None, copy: Callable[[], Path]) -> Path:
    """Return a program where an account can run it: in place, or the copy that ``copy`` makes."""
    if account is None or _runs_as(account, [str(program), "--version"]):
        return program
    return copy()


def copy_once(source: Path, target: Path) -> Path:
    """Copy a file or folder, unless it is there, and open it to every account."""
    if not target.exists():
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
        )
    except OSError:
        return False
    return completed.returncode == 0
