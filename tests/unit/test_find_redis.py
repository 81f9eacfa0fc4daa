"""Which Redis `demo`, `up` and the tests run: the newest one that is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.cli.devstack.redis import find_redis, version


def install(folder: Path, name: str, said: str) -> str:
    """Put a program into a folder that says only its version."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\necho 'Redis server {said} sha=00000000:0'\n")
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two folders, which are the PATH."""
    both = [tmp_path / "venv", tmp_path / "system"]
    monkeypatch.setenv("PATH", ":".join(map(str, both)))
    return both


def test_an_older_one_that_comes_first_on_path_does_not_hide_a_newer_one(folders: list[Path]) -> None:
    """An active virtual environment puts the bundled Redis 6.2 before the system's."""
    install(folders[0], "redis-server", "v=6.2.14")
    newest = install(folders[1], "redis-server", "v=97.10.1")
    install(folders[1], "valkey-server", "v=97.9.9")
    assert (find_redis(), version(find_redis())) == (newest, (97, 10, 1))


def test_of_equal_versions_the_first_on_path_is_taken(folders: list[Path]) -> None:
    """As a shell would; one that does not say its version, or can't be run, comes last."""
    install(folders[0], "valkey-server", "of an unknown version")
    first = install(folders[0], "redis-server", "v=98.0.0")
    install(folders[1], "redis-server", "v=98.0.0")
    broken = install(folders[1], "valkey-server", "")
    Path(broken).write_bytes(b"\x7fELF of another machine")
    assert find_redis() == first
