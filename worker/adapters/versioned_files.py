"""Files in a folder that processes share: there whole once written, with every earlier version, whatever ends or fills.

A version's name is claimed by a hard link, a file comes in place by a rename, and the disk has both before the caller
goes on. A lock lets the writers of a folder in one by one; the kernel frees that of a process that dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from worker.adapters.private_files import write_private

if TYPE_CHECKING:
    from collections.abc import Iterator

PART = ".part"
"""Name of a file that is not whole yet. That of a process that was killed is overwritten by the next."""


@contextlib.contextmanager
def locked(root: Path, folder: Path) -> Iterator[None]:
    """Hold the lock of a folder below ``root``; another folder may share it.

    Not in the folder itself, whose files are listed and exported; and few, because they are never deleted.
    """
    name = hashlib.sha256(bytes(folder)).hexdigest()[:2]
    (root / "locks").mkdir(parents=True, exist_ok=True)
    with (root / "locks" / name).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def add_version(target: Path, content: bytes) -> None:
    """Put a file in place, and keep what was there as ``<name>.v<n><ending>``; the caller holds the folder's lock.

    The same content is there once: an earlier version with it moves back into place.
    """
    versions = _versions(target)
    if not _has(target, content):
        same = next((version for version in versions.values() if _has(version, content)), None)
        new = same or _write_part(target.parent, content)
        last_version = max(versions, default=0)
        # They are one file where a process was killed between the link and the rename.
        if target.exists() and not (last_version and versions[last_version].samefile(target)):
            os.link(target, _version(target, last_version + 1))
        new.replace(target)
    _sync(target.parent)


def replace(target: Path, content: bytes) -> None:
    """Put a file in place, without an earlier version; the caller holds the folder's lock."""
    _write_part(target.parent, content).replace(target)


def try_versions(root: Path) -> None:
    """Write two versions of a file in a folder, and delete both.

    Raises:
        OSError: it can't be written, or its file system has no locks or no hard links.
    """
    with tempfile.TemporaryDirectory(dir=root, prefix=".retrieval-worker-doctor-") as name:
        folder = Path(name)
        with locked(folder, folder):
            for content in (b"1", b"2"):
                add_version(folder / "probe.txt", content)


def _write_part(folder: Path, content: bytes) -> Path:
    _make_folder(folder)
    part_file = folder / PART
    try:
        write_private(part_file, content)
        _sync(part_file)
    except OSError:
        part_file.unlink(missing_ok=True)
        raise
    return part_file


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _sync(path: Path) -> None:
    """Have the disk hold what a file or a folder is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _versions(target: Path) -> dict[int, Path]:
    """Return the earlier versions of a file by number."""
    stem, _, ending = target.name.rpartition(".")
    name = re.compile(rf"{re.escape(stem)}\.v([1-9]\d*)\.{re.escape(ending)}")
    files = target.parent.iterdir() if target.parent.is_dir() else ()
    return {int(match[1]): path for path in files if (match := name.fullmatch(path.name))}


def _version(target: Path, number: int) -> Path:
    stem, _, ending = target.name.rpartition(".")
    return target.with_name(f"{stem}.v{number}.{ending}")


def _has(path: Path, content: bytes) -> bool:
    """Return whether a file has this content; a file of another length is not read."""
    return path.exists() and path.stat().st_size == len(content) and path.read_bytes() == content
