"""Which Redis `demo`, `up` and the tests run: the bundled Valkey, or the server that is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval_client.errors import SettingsError
from workbench.devstack.redis import NAMED_BY, find_redis, version


def install(folder: Path, name: str, text: str) -> str:
    """Put a program into a folder that says only its version."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\necho 'Redis server {text} sha=00000000:0'\n")
    file.chmod(0o755)
    return str(file)


def test_a_server_that_happens_to_be_on_path_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same server runs on every machine."""
    monkeypatch.delenv(NAMED_BY, raising=False)
    install(tmp_path, "redis-server", "v=97.10.1")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(find_redis()).name == "valkey-server"
    assert version(find_redis())[0] in range(9, 97)


def test_a_server_that_is_named_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its path, or as a program on PATH."""
    program = install(tmp_path, "redis-server", "v=7.0.15")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("redis-server", program):
        monkeypatch.setenv(NAMED_BY, name)
        assert (find_redis(), version(find_redis())) == (program, (7, 0, 15))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("v=6.2.14", "of version 6.2.14: Redis or Valkey 7 is needed"),
        ("of an unknown version", "of version 0: Redis or Valkey 7 is needed"),
        (None, "which is no program here"),
    ],
)
def test_a_named_server_that_can_not_have_the_users_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, sentence: str
) -> None:
    """One sentence that names the variable, the program and what is needed."""
    program = install(tmp_path, "redis-server", text) if text else str(tmp_path / "nothing")
    monkeypatch.setenv(NAMED_BY, program)
    with pytest.raises(SettingsError) as error:
        find_redis()
    assert f"{NAMED_BY} names {program}" in error.value.message
    assert sentence in error.value.message
