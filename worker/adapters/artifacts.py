"""Files of runs, in a local folder or an object store (through fsspec): written whole or not at all, versions kept."""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec.core

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.versioned_files import PART, add_version, locked, replace, try_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.settings.serving import ArtifactSettings

_PROBE = "retrieval-worker-doctor"
_VERSION = re.compile(r"\.v\d+\.[^.]*$")


class Artifacts:
    """Files by owner and path.

    Args:
        settings: their location: a path, or any URL that fsspec knows (``s3://bucket/prefix``).

    Raises:
        SettingsError: fsspec knows no such kind of URL, or its package is not installed.
    """

    def __init__(self, settings: ArtifactSettings) -> None:
        try:
            self._files, self._root = fsspec.core.url_to_fs(settings.url)
        except (ImportError, ValueError) as error:
            raise SettingsError(f"artifacts.url: {error}") from None
        protocol = self._files.protocol
        self._is_local = "file" in (protocol if isinstance(protocol, tuple) else [protocol])

    def write(self, owner: str, path: str, content: bytes) -> str:
        """Put a file in place; what was there before stays as ``<name>.v<n><ending>``.

        Args:
            owner: the file's owner; the same path of another owner is another file.
            path: relative, made of parts that were checked (see `worker.jobs.run_files`).
            content: the whole file. If it is what is there already, nothing is written.

        Returns:
            Its path below the root of the store.

        Raises:
            Unavailable: the store does not take it.
        """
        target = self._locate(owner, path)
        with self._translated_errors(), self._locked(target):
            if self._is_local:
                add_version(Path(target), content)
            else:
                self._add_version(target, content)
        return _below_root(owner, path)

    def check(self) -> None:
        """Write a file and delete it, in a folder or an object store; a folder that was made for it is deleted, too.

        Raises:
            SettingsError: files can't be kept there.
        """
        if self._is_local:
            self.check_folder(leave=False)
            return
        try:
            name = f"{self._root}/{_PROBE}"
            self._files.pipe_file(name, b"")
            self._files.rm_file(name)
        except Exception as error:  # noqa: BLE001 -- each store has classes of its own, and its words may hold a key
            raise _cannot_store(error) from None

    def check_folder(self, *, leave: bool = True) -> None:
        """Write a file into a local folder, which is made if it is not there, and delete it; ask no object store.

        Args:
            leave: keep a folder that was created for the check.

        Raises:
            SettingsError: files can't be kept there.
        """
        if not self._is_local:
            return
        try:
            try_folder(Path(self._root), leave=leave, use=try_versions)
        except OSError as error:
            raise _cannot_store(error) from None

    def replace(self, owner: str, path: str, make: Callable[[], bytes]) -> None:
        """Write a file as `write` does, but keep no earlier version.

        Args:
            owner: the file's owner.
            path: relative.
            make: returns the content; called while no other process writes there, so that the last one is the newest.
        """
        target = self._locate(owner, path)
        with self._translated_errors(), self._locked(target):
            if self._is_local:
                replace(Path(target), make())
            else:
                self._put(target, make())

    def read(self, owner: str, path: str) -> bytes | None:
        """Read a file; None if there is none.

        Raises:
            Unavailable: the store does not answer.
        """
        with self._translated_errors():
            try:
                content: bytes = self._files.cat_file(self._locate(owner, path))
            except FileNotFoundError:
                return None
            return content

    def names(self, owner: str, folder: str) -> list[str]:
        """List the names of a folder's files, sorted, without earlier versions; empty if there is no such folder."""
        with self._translated_errors():
            try:
                paths = self._files.ls(self._locate(owner, folder), detail=False)
            except FileNotFoundError:
                return []
        names = sorted(str(path).rsplit("/", 1)[-1] for path in paths)
        return [name for name in names if name and name != PART and not _VERSION.search(name)]

    def check_is_there(self) -> None:
        """Check that a local folder exists; of an object store nothing tells.

        Raises:
            SettingsError: it does not.
        """
        if self._is_local and not Path(self._root).is_dir():
            raise SettingsError(
                f"artifacts.url: there is no folder {self._root}: set RETRIEVAL_WORKER_ARTIFACTS__URL as the workers "
                "have it"
            )

    def delete(self, owner: str, folder: str) -> bool:
        """Delete a folder with all its files and their earlier versions; return False if there is none.

        A local folder around it that is empty then goes, too.

        Raises:
            Unavailable: the store does not answer.
        """
        target = self._locate(owner, folder)
        with self._translated_errors(), self._locked(f"{target}/{PART}"):
            try:
                self._files.rm(target, recursive=True)
            except FileNotFoundError:
                return False
        if self._is_local:
            with contextlib.suppress(OSError):  # it is not empty
                Path(target).parent.rmdir()
        return True

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise a store's errors as `Unavailable`: a store that fails after the start may recover (a lost mount)."""
        try:
            yield
        except OSError as error:
            raise Unavailable(f"the artifact store failed ({type(error).__name__})") from None

    def _locked(self, target: str) -> contextlib.AbstractContextManager[None]:
        """Keep other writers of a folder out; an object store has no lock."""
        return locked(Path(self._root), Path(target).parent) if self._is_local else contextlib.nullcontext()

    def _add_version(self, target: str, content: bytes) -> None:
        if self._files.exists(target):
            if self._files.cat_file(target) == content:
                return
            # As lists, because fsspec takes a string for a pattern, and an id may hold [, * or ?.
            self._files.copy([target], [self._next_version(target)])
        self._put(target, content)

    def _put(self, target: str, content: bytes) -> None:
        self._files.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        # A transaction puts the file in place at its end, or not at all.
        with self._files.transaction, self._files.open(target, "wb") as file:
            file.write(content)

    def _locate(self, owner: str, path: str) -> str:
        return f"{self._root}/{_below_root(owner, path)}"

    def _next_version(self, target: str) -> str:
        stem, _, ending = target.rpartition(".")
        number = 1
        while self._files.exists(f"{stem}.v{number}.{ending}"):
            number += 1
        return f"{stem}.v{number}.{ending}"


def _below_root(owner: str, path: str) -> str:
    # Hashed: an owner may hold any character, and a listing need not show it.
    folder = hashlib.sha256(owner.encode()).hexdigest()[:32]
    return f"{folder}/{path}"


def try_folder(folder: Path, *, leave: bool, use: Callable[[Path], None] = lambda _: None) -> None:
    """Write a file into a folder, which is made if it is not there, and delete it.

    Args:
        folder: the folder's path.
        leave: keep a folder that was created for the check.
        use: uses the folder further.

    Raises:
        OSError: it can't be made or written.
    """
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{_PROBE}-") as file:
            file.write(b"1")
        use(folder)
    finally:
        with contextlib.suppress(OSError):  # another process uses it by now
            for path in new_folders if not leave else ():
                path.rmdir()


def _cannot_store(error: Exception) -> SettingsError:
    return SettingsError(
        f"artifacts.url: files can't be kept there ({type(error).__name__}). Give the worker's account the right to "
        "write there, or name another place"
    )
