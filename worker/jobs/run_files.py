"""Files of runs: ``runs/{subject_id}/{run_id}/`` with citations, the caller's outputs, and the run's events."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import orjson

from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.runs import Event

if TYPE_CHECKING:
    from retrieval_client.contract.jobs import RunRef
    from retrieval_client.contract.run_jobs import RunName
    from worker.adapters.artifacts import Artifacts
    from worker.adapters.postgres.runs import Runs
    from worker.model import Principal

CITATIONS, EVENTS = "citations.json", "events.jsonl"

# No leading dot, and no character with a special meaning in a file system or an object store.
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}")

# Limit of common file systems; the same for every store, so that files of runs can move between them.
_FOLDER_BYTES = 255


class RunFiles:
    """Store of the files of runs, which records each file in the run's events.

    Args:
        runs: stores events.
        artifacts: stores files.
    """

    def __init__(self, runs: Runs, artifacts: Artifacts) -> None:
        self._runs = runs
        self._artifacts = artifacts

    def keep(self, owner: Principal, run: RunRef | RunName, name: str, content: bytes) -> str:
        """Store a file, keep its earlier version beside it, and export the run's events again.

        Args:
            owner: owner of the run.
            run: the run.
            name: name of the file, e.g. ``lyrics.json``.
            content: the whole file.

        Returns:
            Its path below the root of the store: ``{owner's folder}/runs/{subject_id}/{run_id}/{name}``.

        Raises:
            InvalidJob: a name or an id that would lead out of the folder.
            Unavailable: the artifact store or Postgres is unavailable.
        """
        path = self._artifacts.write(owner.owner, f"{run_path(run)}/{file_name(name)}", content)
        details = {"file": name, "sha256": hashlib.sha256(content).hexdigest()}
        self._runs.add(owner, run, events=[Event("kept", details)])
        self.export_events(owner, run)
        return path

    def export_events(self, owner: Principal, run: RunRef | RunName) -> None:
        """Write all events of a run to ``events.jsonl``.

        Postgres is authoritative; each export replaces the one before.
        """

        def lines() -> bytes:
            events = self._runs.events(owner, run)
            return b"".join(
                orjson.dumps({"at": event.at, "kind": event.kind, **event.data}, option=orjson.OPT_UTC_Z) + b"\n"
                for event in events
            )

        self._artifacts.replace(owner.owner, f"{run_path(run)}/{EVENTS}", lines)

    def read(self, owner: str, run: RunRef | RunName, name: str) -> bytes | None:
        """Return a run's current file; None without one, or if the run's ids can't name a folder.

        Raises:
            Unavailable: the artifact store is unavailable.
        """
        try:
            path = run_path(run)
        except InvalidJob:
            return None
        return self._artifacts.read(owner, f"{path}/{name}")

    def read_all(self, owner: str, run: RunRef | RunName) -> dict[str, bytes]:
        """Return the run's current files by name, without events and earlier versions."""
        return {
            name: content
            for name in self._artifacts.names(owner, run_path(run))
            if name != EVENTS and (content := self._artifacts.read(owner, f"{run_path(run)}/{name}")) is not None
        }


def run_path(run: RunRef | RunName) -> str:
    """Return the path of a run's files: ``runs/{subject_id}/{run_id}``.

    Raises:
        InvalidJob: an id that is not valid as a folder name, or is too long for one.
    """
    for name in ("subject_id", "run_id"):
        value = getattr(run, name)
        if value in {".", ".."} or any(character in value for character in '/\\:"<>|') or not value.isprintable():
            raise InvalidJob("expected an id that can be the name of a folder", f"run.{name}")
        if len(value.encode()) > _FOLDER_BYTES:
            raise InvalidJob(f"expected the name of a folder: at most {_FOLDER_BYTES} bytes", f"run.{name}")
    return f"runs/{run.subject_id}/{run.run_id}"


def file_name(name: str) -> str:
    """Check the name of a run's file, and return it.

    Raises:
        InvalidJob: it would lead out of the folder, looks like an earlier version, or is the worker's own.
    """
    if not _FILE_NAME.fullmatch(name) or "." not in name or re.search(r"\.v\d+\.[^.]*$", name) or name == EVENTS:
        raise InvalidJob("expected the name of a file as lyrics.json, without folders", "file")
    return name
