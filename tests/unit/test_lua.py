"""Lua scripts of the queue and the cache: each documents its keys and arguments, and is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis

from worker import queue
from worker.adapters import redis_cache
from worker.queue import lua
from worker.queue.lua import Script

FILES = sorted(Path(lua.__file__).parent.glob("*.lua"))


@pytest.mark.parametrize("file", [*FILES, Path(redis_cache.__file__).with_suffix(".lua")], ids=lambda file: file.stem)
def test_a_script_documents_its_keys_and_arguments_at_its_head(file: Path) -> None:
    """Each number that it uses, after KEYS and ARGV."""
    text = file.read_text()
    head = " ".join(line.removeprefix("--") for line in text.split("\n\n")[0].splitlines() if line.startswith("--"))
    code = re.sub(r"^ *--.*", "", text, flags=re.MULTILINE)
    _, keys, arguments = re.split(r"KEYS: |ARGV: ", head)
    for name, description in (("KEYS", keys), ("ARGV", arguments)):
        for number in re.findall(rf"{name}\[(\d)\]", code):
            assert re.search(rf"\b{number} \w", description), f"{name}[{number}]"


def test_each_script_is_used() -> None:
    """None is left over."""
    assert FILES
    source = "".join(file.read_text() for file in Path(queue.__file__).parent.rglob("*.py"))
    assert {*re.findall(r'(?:Script|text)\("(\w+)"', source)} == {file.stem for file in FILES}


def test_a_script_is_sent_once_and_run_once() -> None:
    """By its digest; a server that does not have it has run nothing."""
    commands: list[str] = []

    def ask(*command: str | bytes | float) -> str:
        commands.append(str(command[0]))
        if commands == ["EVALSHA"]:
            raise redis.exceptions.NoScriptError
        return "reply"

    script = Script("requeue")
    assert [script.run(ask, ["list", "queue"], b"message") for _ in range(2)] == ["reply", "reply"]
    assert commands == ["EVALSHA", "SCRIPT", "EVALSHA", "EVALSHA"]
