"""Nothing that strangers wrote steers a terminal: every command, on texts, ids and settings made to do so."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import typer.main
from psycopg import sql
from tests.command_line import command_line
from tests.raw_messages import raw_message

from workbench.devstack.workers import celery_worker
from workbench.main import cli

if TYPE_CHECKING:
    from pathlib import Path

    from tests.command_line import Command

    from workbench.devstack.stack import Stack

MARKUP = "[/x][bold][link=http://evil.example]here[/link]:bomb:"
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\\x9b31m\x9d0;c1\x9c\b\v\f\r\x7f\x85"
    f"\u202edesrever\u2066\u200b\u200f\u2028\U000e0041{MARKUP}"
)
UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
SUBJECT, RUN, CALLER = f"song{HOSTILE}", f"r1{HOSTILE}", f"mallory{HOSTILE}"
KEPT = ("song [*?] #1 %41 é", ".r[1]")
"""A run whose files can be kept: its ids can be names of folders, and are patterns to a file system."""

AS = ("--as", CALLER)
FIELDS = ("at", "reason", "error", "message", "task", "task_id", "digest", "kept", "original")
QUESTION = "Which zebrafish hums at night in which tank?"


def unseen(shown: str) -> set[str]:
    """Characters that steer a terminal or hide from a reader, except newlines and tabs."""
    return {hex(ord(sign)) for sign in shown if sign not in "\n\t" and unicodedata.category(sign) in UNSEEN}


def commands() -> set[str]:
    """Every command of the application, as it is typed."""

    def below(command: Any, name: str) -> set[str]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return {name}
        return {found for part, one in inner.items() for found in below(one, f"{name} {part}".strip())}

    return below(typer.main.get_command(cli), "")


class Hostile:
    """A site whose every stored text is hostile, and its command line.

    Attributes:
        environment: of its workers and commands.
        folder: for files.
        typed: commands that were run.
    """

    def __init__(self, environment: dict[str, str], folder: Path, run: Command) -> None:
        self.environment = environment
        self.folder = folder
        self._run = run
        self.typed: set[str] = set()

    def type_in(self, command: str, *arguments: str, code: int = 0) -> str:
        """Return a command's output; it has no terminal control codes, and the exit code is the expected one."""
        self.typed.add(command)
        done = self._run(*command.split(), *arguments)
        shown = done.stdout + done.stderr
        assert "Traceback" not in shown, shown
        assert done.returncode == code, shown
        assert unseen(shown) == set(), command
        return done.stdout or done.stderr

    def documents(self, text: str = "") -> Path:
        """A file of documents of which every field that may is hostile."""
        chunks = [
            {
                "id": f"chunk-{i}{HOSTILE}",
                "section": HOSTILE,
                "text": f"{text} {f'A zebrafish{HOSTILE} hums at night in tank {i}. ' * 9}{'w' * 10_000}",
            }
            for i in range(12)
        ]
        names = {"title": HOSTILE, "path": HOSTILE, "kind": HOSTILE}
        document = {"id": f"doc{HOSTILE}", "owner": CALLER, **names, "chunks": chunks}
        file = self.folder / f"hostile{text}.json"
        file.write_text(json.dumps({"documents": [document]}))
        return file


@pytest.fixture
def hostile(
    stack: Stack,
    database: str,
    broker: Any,
    worker_environment: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Hostile:
    broker.flushall()
    environment = worker_environment(ARTIFACTS__URL=str(tmp_path / "artifacts"))
    environment["MIGRATION_CONNECTION_STRING"] = stack.postgres.dsn(database)
    return Hostile(environment, tmp_path, command_line(capsys, environment))


def test_no_command_lets_a_strangers_text_steer_the_terminal(hostile: Hostile, broker: Any, worker_log: Path) -> None:
    """Every command of the application shows the readable part of hostile data, and nothing that is not seen."""
    hostile.type_in("load", str(hostile.documents()))
    with celery_worker(hostile.environment, worker_log, "--concurrency=1"):
        chunk = _ask(hostile)
        broker.lpush("retrieval", raw_message({}, HOSTILE, MARKUP))
        _cite_and_replay(hostile)
        _look_at_dead_letters(hostile, broker)
    _look_at_runs(hostile, chunk)
    _evaluate(hostile, chunk)
    _set_up(hostile)
    assert unseen(worker_log.read_text()) == set()
    assert hostile.typed == commands()


def _ask(hostile: Hostile) -> str:
    """Ask in every way; a chunk that the run `searched` found."""
    found = hostile.type_in("query", QUESTION, *AS, "--k", "12", "--record", SUBJECT, RUN)
    assert MARKUP[:4] in found
    exact = json.loads(hostile.type_in("query", QUESTION, *AS, "--record", *KEPT, "--json"))
    assert exact["chunks"][0]["chunk_id"].endswith(HOSTILE)
    searched = ("--context", HOSTILE, "--corpus", "documents", "--record", "searched", RUN)
    assert "zebrafish" in hostile.type_in("search", f"zebrafish {HOSTILE}", *AS, *searched)
    exact = json.loads(hostile.type_in("search", f"zebrafish {HOSTILE}", *AS, *searched, "--json"))
    chunk: str = exact["results"]["documents"]["chunks"][0]["chunk_id"]
    asked = hostile.type_in("ask", QUESTION, *AS, "--record", "desk", RUN)
    assert MARKUP in asked.replace("\n", "") or "[S1]" in asked
    exact = json.loads(hostile.type_in("ask", QUESTION, *AS, "--json"))
    assert HOSTILE in exact["citations"][0]["source_path"]
    assert MARKUP in hostile.type_in("trace", "desk", RUN, *AS).replace("\n", "")
    return chunk


def _cite_and_replay(hostile: Hostile) -> None:
    document = str(hostile.folder / "citations.json")
    assert "runs/song" in hostile.type_in("cite", *KEPT, *AS, "--out", document)
    hostile.type_in("cite", SUBJECT, RUN, *AS, code=1)
    told = ("--rating", "1", "--note", HOSTILE, "--used", f"sha256:{'0' * 64}")
    assert MARKUP in hostile.type_in("feedback", SUBJECT, RUN, *AS, *told, code=1).replace("\n", "")
    hostile.type_in("load", str(hostile.documents("edited")))
    assert "{+edited" in hostile.type_in("replay", *KEPT, *AS, "--citations", document, code=1)
    assert "edited" in hostile.type_in("replay", SUBJECT, RUN, *AS, code=1)


def _look_at_runs(hostile: Hostile, chunk: str) -> None:
    exported, lyrics = hostile.folder / f"out{HOSTILE.replace('/', '')}.json", hostile.folder / "lyrics.json"
    lyrics.write_text("{}")
    assert MARKUP in hostile.type_in("runs list", *AS)
    assert json.loads(hostile.type_in("verify", SUBJECT, *AS, "--json", code=1))["run_id"] == RUN
    assert "␛" in hostile.type_in("verify", *AS, code=1)
    assert json.loads(hostile.type_in("runs export", *KEPT, *AS))["subject_id"] == KEPT[0]
    hostile.type_in("runs export", *KEPT, *AS, "--out", str(exported))
    hostile.type_in("runs import", str(exported), "--as", f"other{HOSTILE}")
    hostile.type_in("runs import", f"/no/such{HOSTILE}", *AS, code=2)
    assert "lyrics.json" in hostile.type_in("runs keep", *KEPT, str(lyrics), *AS)
    hostile.type_in("runs keep", SUBJECT, RUN, str(lyrics), *AS, code=1)
    hostile.type_in("runs used", "searched", RUN, chunk, *AS)
    hostile.type_in("runs used", "searched", RUN, HOSTILE, *AS, code=1)
    hostile.type_in("report", *KEPT, *AS, "--html", str(hostile.folder / f"{HOSTILE.replace('/', '')}.html"))
    hostile.type_in("report", HOSTILE, HOSTILE, *AS, "--html", str(hostile.folder / "none.html"), code=1)
    hostile.type_in("tune", *AS)
    hostile.type_in("tune", "--corpus", HOSTILE, code=1)


def _evaluate(hostile: Hostile, chunk: str) -> None:
    queries, wrong = hostile.folder / "queries.jsonl", hostile.folder / "wrong.jsonl"
    queries.write_text(json.dumps({"id": HOSTILE, "question": QUESTION, "corpus": "documents", "relevant": [chunk]}))
    wrong.write_text(json.dumps({"question": QUESTION, HOSTILE: 1, "relevant": [chunk]}))
    assert "nDCG" in hostile.type_in("evaluate", str(queries), *AS, "--here")
    hostile.type_in("evaluate", str(queries), *AS, "--here", "--profile", HOSTILE, code=2)
    hostile.type_in("evaluate", str(wrong), *AS, "--here", code=2)


def _look_at_dead_letters(hostile: Hostile, broker: Any) -> None:
    """One that the worker wrote, and one whose every field somebody else chose."""
    entry = broker.xadd("retrieval.dead", {**dict.fromkeys(FIELDS, HOSTILE), "deliveries": 1, "bytes": 2}).decode()
    shown = json.loads(hostile.type_in("dead show", entry, "--json"))
    assert {shown[name] for name in FIELDS[:-1]} == {HOSTILE}
    lines = hostile.type_in("dead list", "--json").splitlines()
    assert [json.loads(line)["task_id"] for line in lines] == [HOSTILE, MARKUP]
    assert "[/x]" in hostile.type_in("dead list").replace(" ", "")
    assert "[/x]" in hostile.type_in("dead show", entry)
    hostile.type_in("dead show", HOSTILE, code=1)
    hostile.type_in("dead retry", HOSTILE, code=1)
    hostile.type_in("dead retry", entry, code=1)
    hostile.type_in("dead purge", "--all", "--reason", HOSTILE)


def _set_up(hostile: Hostile) -> None:
    """Commands that show settings, files and what they were asked for."""
    hostile.type_in("doctor")
    with psycopg.connect(hostile.environment["MIGRATION_CONNECTION_STRING"], autocommit=True) as connection:
        columns = sql.SQL("CREATE TABLE {0} (id text PRIMARY KEY, {0} text, v vector(3))")
        connection.execute(columns.format(sql.Identifier(f"t{HOSTILE}")))
    hostile.type_in("adopt", "--out", str(hostile.folder / "adopted"))
    hostile.type_in("inspect", "--host", HOSTILE, *AS, code=2)
    hostile.type_in("ui", *AS, code=2)
    hostile.type_in("statistics", "documents")
    hostile.type_in("statistics", HOSTILE, code=2)
    hostile.type_in("calibrate", *AS, "--queries", "10", "--steps", "100,200", "--mean", "0", "--worst", "0")
    hostile.type_in("calibrate", "--corpus", HOSTILE, *AS, code=2)
    hostile.type_in("contract", f"{hostile.folder}/{HOSTILE.replace('/', '')}")
    hostile.type_in("contract", "--check", str(hostile.folder), code=1)
    hostile.type_in("init", f"{hostile.folder}/{HOSTILE.replace('/', '')}", code=2)
    hostile.type_in("init", f"{hostile.folder}/{MARKUP.replace('/', '')}")
    hostile.type_in("migrate", HOSTILE, code=2)
    hostile.type_in("prune", "--runs", HOSTILE, code=2)
    hostile.type_in("demo", f"--{HOSTILE}", code=2)
    hostile.type_in("up", "--autoscale", HOSTILE, code=2)
