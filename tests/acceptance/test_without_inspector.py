"""An installation without the extra of the inspector: all else works, and its commands say how to install it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from workbench.devstack.workers import celery_worker

from .jobs import HUM, JOB
from .test_ui import on_screen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from retrieval_client import Client

    Environment = Callable[..., dict[str, str]]

HIDE = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.split(".")[0] in {"textual", "starlette", "jinja2", "markupsafe", "uvicorn"}:
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""
"""Read by each Python at its start: it finds the packages of the extra no more than if they were not installed."""

MISSING = "retrieval-worker: the inspector is not installed: pip install 'retrieval-worker[inspector]'"


@pytest.fixture
def environment(worker_environment: Environment, tmp_path: Path) -> dict[str, str]:
    """The environment of processes without the extra."""
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDE)
    return worker_environment(ARTIFACTS__URL=str(tmp_path / "artifacts")) | {"PYTHONPATH": str(folder)}


def typed(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that ended."""
    command = [sys.executable, "-m", "workbench", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_the_packages_are_hidden(environment: dict[str, str]) -> None:
    """Or the other tests here would show nothing."""
    for name in ("textual", "starlette", "jinja2", "uvicorn"):
        ended = subprocess.run(
            [sys.executable, "-c", f"import {name}"], env=environment, capture_output=True, text=True, check=False
        )
        assert f"No module named '{name}'" in ended.stderr


def test_the_worker_and_all_other_commands_work(
    environment: dict[str, str], broker: Any, client: Client, worker_log: Path
) -> None:
    """Record, show, cite, replay, check, evaluate."""
    del broker  # emptied
    with celery_worker(environment, worker_log, "--concurrency=1"):
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
        name, caller = ("desk", "r1"), ("--as", "alice")
        for arguments in (
            ("ask", HUM, *caller, "--record", *name),
            ("query", HUM, *caller),
            ("trace", *name, *caller),
            ("cite", *name, *caller),
            ("replay", *name, *caller),
            ("runs", "list", *caller),
            ("verify", *caller),
            ("dead", "list"),
            ("doctor",),
        ):
            ended = typed(environment, *arguments)
            assert ended.returncode == 0, (arguments, ended.stderr)
            assert "Traceback" not in ended.stderr


def test_its_commands_say_in_one_sentence_how_to_install_it(environment: dict[str, str], tmp_path: Path) -> None:
    """Exit code 2; nothing is written or served."""
    file = tmp_path / "x.html"
    for arguments in (["inspect", "--as", "alice"], ["report", "desk", "r1", "--as", "alice", "--html", str(file)]):
        ended = typed(environment, *arguments)
        assert (ended.returncode, ended.stdout, ended.stderr.strip()) == (2, "", MISSING)
    assert not file.exists()
    with on_screen(environment, "--as", "alice") as screen:
        assert screen.ended() == 2
        assert " ".join(screen.output.split()) == MISSING


def test_the_packages_are_needed_by_these_commands_only(environment: dict[str, str]) -> None:
    """The list of commands, with each one's help, is the same."""
    for arguments in (["--help"], ["inspect", "--help"], ["ui", "--help"], ["report", "--help"]):
        ended = typed(environment, *arguments)
        assert (ended.returncode, ended.stderr) == (0, ""), arguments
