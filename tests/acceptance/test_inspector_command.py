"""The commands of the inspector as processes: `report` writes a page, `inspect` serves them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx
from tests.integration.asking import ask
from tests.integration.inspecting import HUM, RUN

from worker.cli.citation_files import write_document
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from worker.settings import Settings

COMMAND = [sys.executable, "-m", "workbench"]


def recorded(settings: Settings) -> dict[str, Any]:
    """An answer of alice's, recorded as a run."""
    engine = Engine(settings, time.perf_counter)
    try:
        return ask(engine, question=HUM, run=RUN)
    finally:
        engine.close()


def test_a_report_is_one_page_that_loads_nothing(
    settings: Settings, worker_environment: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """With the answer, its sources and the commands that check it again; another caller's run is an unknown one."""
    answer = recorded(settings)
    file = tmp_path / "desk.html"
    report = [*COMMAND, "report", "desk", "r1", "--html", str(file)]
    environment = worker_environment()
    subprocess.run([*report, "--as", "alice"], env=environment, check=True, capture_output=True)
    page = file.read_text()
    assert all(label in page for label in ("source-S1", "Conflicts", "Drift", "retrieval-worker replay desk r1"))
    assert not re.search(r"<script|<link|<img|src=|@import|url\(", page)
    assert answer["citations"][0]["snippet"][:40] in page
    for run in (["desk", "r1", "--as", "bob"], ["desk", "no-such-run", "--as", "alice"]):
        ended = subprocess.run(
            [*COMMAND, "report", *run, "--html", str(tmp_path / "x.html")],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert (ended.returncode, ended.stderr.strip()) == (1, "retrieval-worker: run: no such run")


def test_files_with_texts_are_this_users_alone(
    settings: Settings, worker_environment: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    """Of `report` and `runs export`, whatever the umask; and an export says what it withholds."""
    recorded(settings)
    for name in ("report desk r1 --html", "runs export desk r1 --out"):
        file = tmp_path / name[:6]
        command = [*COMMAND, *name.split(), str(file), "--as", "alice"]
        ended = subprocess.run(command, env=worker_environment(), check=True, capture_output=True, umask=0)
        assert file.stat().st_mode & 0o777 == 0o600, name
        assert b"withheld" not in ended.stderr
    written = tmp_path / "citations.json"
    write_document(written, {"all_citations": []})
    assert written.stat().st_mode & 0o077 == 0


def test_the_pages_are_served_until_the_process_is_asked_to_stop(
    settings: Settings, worker_environment: Callable[..., dict[str, str]]
) -> None:
    """On the address that it prints; SIGTERM ends it without a trace."""
    recorded(settings)
    command = [*COMMAND, "inspect", "--as", "alice", "--port", "0"]
    with subprocess.Popen(command, env=worker_environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().strip()
        url, _, key = address.partition("/sign-in?key=")
        assert url.startswith("http://127.0.0.1:")
        assert len(key) > 40
        with httpx.Client(base_url=url, timeout=30) as client:
            assert client.get("/run?subject=desk&run=r1").status_code == 303
            client.get(address)
            response = client.get("/run?subject=desk&run=r1")
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert response.status_code == 200
    assert "source-S1" in response.text
    assert "Traceback" not in said
    assert "desk" not in said


def test_wrong_uses_are_refused_in_one_sentence(worker_environment: Callable[..., dict[str, str]]) -> None:
    """Before anything is served."""
    for arguments, code, sentence in (
        (["--as", "alice", "--host", "192.0.2.1"], 2, "loopback"),
        ([], 78, "RETRIEVAL_WORKER_TOKEN_KEYS"),
        (["--as", "alice", "--root-path", "inspector/"], 2, "/inspector"),
        (["--as", "alice", "--certificate", "x.pem"], 2, "its key"),
        (["--as", "alice", "--port", "0", "--certificate", "x.pem", "--key", "y.pem"], 78, "x.pem"),
    ):
        ended = subprocess.run(
            [*COMMAND, "inspect", *arguments], env=worker_environment(), check=False, capture_output=True, text=True
        )
        assert ended.returncode == code, (arguments, ended.stderr)
        assert sentence in ended.stderr
        assert "Traceback" not in ended.stderr
