"""Files of runs in a folder that processes share: each version is there once, whole, whatever ends or fills up."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from chaos.servers import fill, folders
from retrieval_client.errors import Unavailable
from worker.adapters.artifacts import Artifacts
from worker.settings.serving import ArtifactSettings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PATH = "runs/song-1/r1/citations.json"
STEPS = {"open", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.scandir"}
"""Steps before which a process can be killed, as Python's audit events."""

forked = multiprocessing.get_context("fork")


def write(store: Path, contents: Iterable[str], kill_before: int | None = None) -> None:
    """Write versions; end as by SIGKILL before the step of this number."""
    artifacts, steps = Artifacts(ArtifactSettings(url=str(store))), 0

    def count(event: str, _: object) -> None:
        nonlocal steps
        if event in STEPS:
            steps += 1
            if steps == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)

    if kill_before is not None:
        sys.addaudithook(count)
    for content in contents:
        artifacts.write("alice", PATH, content.encode())


def in_processes(*arguments: tuple[object, ...]) -> list[int | None]:
    """Call `write` in a process for each of the arguments, all at once; return how they ended."""
    processes = [forked.Process(target=write, args=given) for given in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def stored(store: Path) -> Counter[str]:
    """Count the contents that are there, of all versions."""
    return Counter(path.read_text() for path in store.glob("*/runs/song-1/r1/citations*"))


def test_versions_that_processes_write_at_once_are_all_there(tmp_path: Path) -> None:
    """Six processes, forty each; none is lost, twice or cut off, one is current, and no other user reads them."""
    contents = [[f"{writer}: {number}" for number in range(40)] for writer in range(6)]
    assert in_processes(*((tmp_path, of_writer) for of_writer in contents)) == [0] * 6
    assert stored(tmp_path) == Counter(text for of_writer in contents for text in of_writer)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*/runs/song-1/r1/*")} == {0o600}
    assert Artifacts(ArtifactSettings(url=str(tmp_path))).names("alice", "runs/song-1/r1") == ["citations.json"]


def test_a_writer_that_is_killed_at_any_step_leaves_each_version_once(tmp_path: Path) -> None:
    """Its own is written again, before or after another one, and nothing else of it is left."""
    ended: list[int | None] = []
    for kill_before in range(1, 25):
        for number, order in enumerate((["new", "other"], ["other", "new"])):
            store = tmp_path / f"{kill_before}-{number}"
            write(store, ["first", "second"])
            ended += in_processes((store, ["new"], kill_before))
            write(store, order)
            assert stored(store) == Counter(["first", "second", "new", "other"])
            assert not [*store.glob("*/runs/song-1/r1/.*")]
    assert {0, -signal.SIGKILL} == {*ended}  # it was killed at each step, and the last numbers are beyond its end


def test_a_version_that_comes_again_is_current_and_there_once(tmp_path: Path) -> None:
    """An earlier version moves back into place; the numbers of the others stay."""
    write(tmp_path, ["a", "b", "c", "a", "d"])
    (folder,) = tmp_path.glob("*/runs/song-1/r1")
    named = {path.name: path.read_text() for path in folder.iterdir()}
    assert named == {
        "citations.json": "d",
        "citations.v2.json": "b",
        "citations.v3.json": "c",
        "citations.v4.json": "a",
    }


def test_a_full_disk_changes_nothing() -> None:
    """All that was there is there, nothing is cut off or empty, and once there is room the version is written."""
    with folders() as (_, small):
        if small is None:
            pytest.skip("no tmpfs may be mounted here: it takes root")
        write(small, ["first", "second"])
        ballast = fill(small)
        with pytest.raises(Unavailable, match=r"the artifact store failed \(OSError\)"):
            write(small, ["third" * 10_000])
        assert stored(small) == Counter(["first", "second"])
        ballast.unlink()
        write(small, ["third"])
        assert stored(small) == Counter(["first", "second", "third"])
