"""The command line as a newcomer types it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import psutil
import psycopg
import pytest
from celery import Celery
from tests.command_line import command_line
from tests.waiting import wait_for

from retrieval_client import Client, RetrieveTopK, RunRef, TopK, encode_embedding
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from retrieval_client.contract.run_jobs import RunName
from workbench.devstack.processes import listens
from workbench.devstack.workers import celery_beat, celery_worker
from worker.adapters.providers.embedder import make
from worker.cli.corpus_files import SAMPLES
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.feedback import ENOUGH
from worker.jobs.principal import as_principal
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.command_line import Command

    from workbench.devstack.stack import Stack
    from worker.settings import Settings

NO_URLS = ("foo://x", "redis://x:abc/0", "redis://[::1", "redis://x/abc", "redis://x:99999/0", "redis://\udcff/0")
RESTARTED = r"{} ended \(signal SIGKILL\), starting it again (now|in 1 s); its log: "
"""At once if it had run for a while, on a machine with much to do also in a test."""
COMMAND = [sys.executable, "-m", "workbench"]


def run(*arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )


def start(*arguments: str, stderr: IO[str] | int = subprocess.STDOUT, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        bufsize=1,
        env={**os.environ, **environment},
    )


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """The line in which a command first says ``text``."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"the command ended without saying {text!r}")


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Servers, workers and their processes that a command runs now."""
    return psutil.Process(process.pid).children(recursive=True)


def still_running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that have not ended soon after their command did (one may have been starting at that moment)."""
    return psutil.wait_procs(processes, timeout=15)[1]


def test_the_demo_answers_two_callers_and_leaves_nothing_running() -> None:
    """One command: servers, schema, corpus, worker, jobs over Redis, tables; then nothing."""
    process = start("demo")
    read_until(process, "a Celery worker runs")
    alice = read_until(process, "alice asks")
    started = children(process)
    assert process.stdout is not None
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(180) == 0
    for mode in ("grounded", "code", "lyrics", "extraction"):
        _, asked = rest.split(f"{mode}: ", 1)
        assert "[S" in asked.split("Nearest source")[0], mode
    assert "a hybrid search" in rest
    alice, bob = (alice + rest).split("bob asks", 1)
    assert "handbook-desk-notes-006" in alice
    assert "handbook-desk-notes-006" not in bob.split("alice asks")[0]
    assert len(started) > 3
    assert not still_running(started)


def test_up_serves_jobs_until_it_is_stopped() -> None:
    """`up` prints how to send a job; it starts again on the same data; SIGTERM stops everything."""
    with tempfile.TemporaryDirectory(prefix="rw-up-", ignore_cleanup_errors=True) as state:
        for _ in range(2):
            process = start("up", "--data", state, "--autoscale", "1,1")
            line = read_until(process, "export CELERY_BROKER_URL")
            settings = dict(part.split("=", 1) for part in line.split() if "=" in part)
            started = children(process)
            done = run("query", "What causes the hum on channel 18?", "--as", "alice", "--json", **settings)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["chunks"][0]["chunk_id"] == "handbook-desk-notes-006"
            process.send_signal(signal.SIGTERM)
            assert process.wait(180) == 143
            assert process.stdout is not None
            process.stdout.close()
            assert not still_running(started)


@dataclass(frozen=True)
class Up:
    """A running `up`.

    Attributes:
        process: the command.
        client: the variables that it prints for sending jobs.
        worker: those for another worker.
        errors: its standard error.
        read: lines of it that were expected.
    """

    process: subprocess.Popen[str]
    client: dict[str, str]
    worker: dict[str, str]
    errors: Path
    read: list[str] = field(default_factory=list)

    def child(self, *words: str) -> psutil.Process:
        """The process that it started itself and that has these words on its command line."""
        own = psutil.Process(self.process.pid).children()
        return next(one for one in own if all(word in one.cmdline() for word in words))

    def wait_for_error(self, text: str) -> None:
        """Wait for one more line on standard error, and match it with a pattern."""
        wait_for(lambda: self.errors.read_text().count("\n") > len(self.read))
        *before, line = self.errors.read_text().splitlines()
        assert before == self.read
        assert re.match(f"retrieval-worker: {text}", line)
        self.read.append(line)


@contextlib.contextmanager
def running_up() -> Iterator[Up]:
    with tempfile.TemporaryDirectory(prefix="rw-up-", ignore_cleanup_errors=True) as state:
        errors = Path(state) / "errors"
        with errors.open("w") as file:
            process = start("up", "--data", state, "--autoscale", "1,1", stderr=file)
        try:
            client, worker = (
                exported("".join(read_until(process, "export ") for _ in range(3))),
                exported("".join(read_until(process, "export ") for _ in range(3))),
            )
            yield Up(process, client, worker, errors)
        finally:
            process.terminate()
            process.wait(180)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """One for all tests that do not end it."""
    with running_up() as running:
        yield running


def exported(lines: str) -> dict[str, str]:
    """The variables in lines of ``export A=b C=d``."""
    return dict(part.split("=", 1) for part in lines.split() if "=" in part)


def test_up_starts_a_killed_worker_again(up: Up) -> None:
    """A worker that is killed is reported in one line and started again: a job that is sent then is answered."""
    killed = up.child("worker.app", "worker")
    killed.kill()
    embedder = make(EmbedderSettings(kind=up.client["RETRIEVAL_WORKER_EMBEDDER__KIND"]))
    query = encode_embedding(embedder.embed(["What causes the hum on channel 18?"])[0].tolist())
    client = Client(up.client["CELERY_BROKER_URL"], up.client["CELERY_RESULT_BACKEND"])
    answer = client.call(RetrieveTopK(query_embedding=query, principal={"user_id": "alice"}), timeout=180)
    client.close()
    assert isinstance(answer, TopK)
    assert answer.chunks[0].chunk_id == "handbook-desk-notes-006"
    up.wait_for_error(RESTARTED.format("the worker"))
    assert up.child("worker.app", "worker").pid != killed.pid


def test_up_starts_a_killed_flower_again(up: Up) -> None:
    """Flower comes back at the address that `up` printed."""
    flower = up.child("worker.app", "flower")
    (port,) = (word.removeprefix("--port=") for word in flower.cmdline() if word.startswith("--port="))
    flower.kill()
    up.wait_for_error(RESTARTED.format("Flower"))
    wait_for(lambda: listens(int(port)))


def test_up_ends_when_redis_does() -> None:
    """Without Redis nothing can be served: one line, exit code 1, nothing left running."""
    with running_up() as up:
        started = children(up.process)
        (redis,) = (one for one in started if "redis-server" in one.name() or "valkey-server" in one.name())
        redis.kill()
        up.wait_for_error(r"Redis ended \(signal SIGKILL\), stopping all; its log: ")
        assert up.process.wait(180) == 1
        assert not still_running(started)


@pytest.mark.parametrize(
    ("name", "value", "kind"), [("KIND", "lexical", "lexical"), ("LEAST_EVIDENCE", "0.3", "local")]
)
def test_up_keeps_the_settings_of_the_environment(name: str, value: str, kind: str) -> None:
    """All but the connections, which lead to the servers that it starts: that is said in one line.

    An embedder's kind is chosen where the environment names none; an API key is not shown.
    """
    with tempfile.TemporaryDirectory(prefix="rw-up-", ignore_cleanup_errors=True) as state:
        own = {
            "RETRIEVAL_WORKER_TRUST_QUEUE": "false",
            f"RETRIEVAL_WORKER_EMBEDDER__{name}": value,
            "RETRIEVAL_WORKER_EMBEDDER__API_KEY": "hidden",
            "RETRIEVAL_WORKER_WORKER__BUNDLE": "2",
            "CELERY_BROKER_URL": "redis://elsewhere.invalid",
        }
        errors = Path(state) / "errors"
        with errors.open("w") as file:
            process = start("up", "--data", state, "--autoscale", "1,1", stderr=file, **own)
        try:
            settings = exported("".join(read_until(process, "export ") for _ in range(3)))
            assert settings["RETRIEVAL_WORKER_TRUST_QUEUE"] == "false"
            embedder = {key: text for key, text in settings.items() if "EMBEDDER" in key}
            assert embedder == {"RETRIEVAL_WORKER_EMBEDDER__KIND": kind, f"RETRIEVAL_WORKER_EMBEDDER__{name}": value}
            done = run("query", "What causes the hum on channel 18?", "--as", "alice", **settings)
            assert (done.returncode, "does not trust its queue" in done.stderr) == (1, True), done.stderr
            said = "not used: CELERY_BROKER_URL of the environment; the worker uses the servers started here\n"
            assert errors.read_text() == said
        finally:
            process.terminate()
            process.wait(180)
            assert process.stdout is not None
            process.stdout.close()


def test_wrong_settings_of_the_environment_start_nothing(typed: Command, tmp_path: Path) -> None:
    """The worker would be restarted again and again."""
    done = typed("up", "--data", str(tmp_path / "state"), RETRIEVAL_WORKER_SEARCH__EXACT_ROWS="many")
    assert (done.returncode, done.stdout) == (78, "")
    assert "RETRIEVAL_WORKER_SEARCH__EXACT_ROWS" in done.stderr or "search.exact_rows" in done.stderr
    assert not (tmp_path / "state").exists()


def test_up_prints_how_to_start_another_worker(up: Up, tmp_path: Path) -> None:
    """The printed variables are all that a worker needs."""
    with celery_worker(os.environ | up.worker, tmp_path / "another.log", "--concurrency=1") as worker:
        assert worker.poll() is None


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs commands in this process; those above and the demo are processes, as all are for a user."""
    return command_line(capsys, {})


@pytest.mark.parametrize(
    "command",
    [
        *("demo", "up", "query", "search", "ask", "trace", "cite", "replay", "feedback", "verify", "tune"),
        *("init", "migrate", "adopt", "load", "statistics", "doctor", "calibrate", "contract"),
    ],
)
def test_every_command_has_help_with_an_example(command: str, typed: Command) -> None:
    """--help says what a command does, with an example."""
    done = typed(command, "--help", COLUMNS="200")
    assert done.returncode == 0
    assert "Example" in done.stdout


def test_the_version_is_told() -> None:
    """One line, as scripts read it."""
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"retrieval-worker {metadata.version('retrieval-worker')}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["no-such-command"], 2, "No such command"),
        (["migrate", "--dsn", "postgresql://nobody@127.0.0.1:1/x"], 69, "Postgres does not answer"),
        (["migrate", "--dsn", "postgresql://no-such-host.invalid/x"], 78, "there is no host no-such-host.invalid"),
        (["migrate", "--dsn", "nonsense"], 78, "no connection string"),
        (["load", "/no/such/file.json", "--dsn", "postgresql://nobody@127.0.0.1:1/x"], 2, "/no/such/file.json"),
        (
            ["query", "x", "--as", "alice", "--broker", "redis://127.0.0.1:1/0"],
            69,
            "(CELERY_BROKER_URL): Redis is away (127.0.0.1:1, database 0)",
        ),
        (
            ["ask", "x", "--as", "alice", "--broker", "redis://u:hidden@127.0.0.1:1/2"],
            69,
            "Redis is away (127.0.0.1:1, database 2)",
        ),
        (
            ["query", "x", "--as", "alice", "--broker", "'redis://127.0.0.1:1/0'"],
            78,
            "remove the white space or the quot",
        ),
        (["trace", "desk", "r1", "--as", "alice"], 78, "DATABASE_CONNECTION_STRING"),
        (["doctor"], 78, "DATABASE_CONNECTION_STRING"),
        *((["query", "x", "--as", "alice", "--broker", url], 78, "expected redis://") for url in NO_URLS[:-1]),
        (["query", "x", "--as", "alice", "--broker", NO_URLS[-1]], 2, "broker: expected text in UTF-8"),
        (["ask", "x", "--broker", "redis://127.0.0.1:1/0", "--backend", "amqp://x"], 78, "CELERY_RESULT_BACKEND"),
        (["search", "x", "--broker", "redis://127.0.0.1:1/0", "--timeout", "nan"], 2, "expected more than 0 seconds"),
        (["contract", "/dev/null/x"], 1, "/dev/null/x: Not a directory"),
        (["up", "--data", "/dev/null"], 1, "/dev/null: File exists"),
        (["calibrate"], 78, "DATABASE_CONNECTION_STRING"),
    ],
)
def test_a_users_mistake_is_one_line(arguments: list[str], code: int, said: str, typed: Command) -> None:
    """The line says what is wrong; the exit code says whose matter it is; no stack trace."""
    done = typed(*arguments, DATABASE_CONNECTION_STRING="", CELERY_BROKER_URL="")
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("url", NO_URLS)
def test_dead_letters_need_a_broker_that_can_be_asked(url: str, typed: Command) -> None:
    """The commands about dead letters say what is wrong with it, and don't repeat it."""
    done = typed("dead", "list", CELERY_BROKER_URL=url, DATABASE_CONNECTION_STRING="postgresql://u@127.0.0.1:1/x")
    assert (done.returncode, "CELERY_BROKER_URL: expected redis://" in done.stderr) == (78, True), done.stderr
    assert "Traceback" not in done.stderr
    assert url not in done.stderr


def test_a_broker_that_does_not_answer_is_named_without_its_password(typed: Command) -> None:
    """By host, port and database."""
    away = {"CELERY_BROKER_URL": "redis://u:hidden@127.0.0.1:1/3", "DATABASE_CONNECTION_STRING": "postgresql://x/x"}
    done = typed("dead", "list", **away)
    assert done.returncode == 69
    assert done.stderr.startswith("retrieval-worker: the broker at 127.0.0.1:1, database 3 does not answer (")
    assert "hidden" not in done.stderr


def test_an_output_that_is_full_is_one_line() -> None:
    """A disk without room is not the program's fault."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 -- a device
        done = subprocess.run([*COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, timeout=180, check=False)
    assert done.returncode != 0
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_the_doctor_examines_and_advises(stack: Stack, worker_environment: Any, admin: Any, typed: Command) -> None:
    """Exit 0 with advice on a good set-up; 1 where the worker would refuse to start."""
    environment = worker_environment()
    admin.execute("ALTER TABLE document_chunks ALTER COLUMN embedding SET STORAGE EXTERNAL")
    good = typed("doctor", **environment)
    assert good.returncode == 0, good.stdout + good.stderr
    assert "ok      Postgres" in good.stdout
    assert "SET STORAGE PLAIN" in good.stdout
    assert "trust_queue" in good.stdout
    admin.execute("ALTER TABLE document_chunks DISABLE ROW LEVEL SECURITY")
    bad = typed("doctor", **environment)
    assert bad.returncode == 1
    reported = typed("doctor", "--json", **environment)
    assert reported.returncode == 1
    assert {"level": "ok", "subject": "Redis", "text": "it answers"} in json.loads(reported.stdout)["findings"]
    assert "problem Postgres" in bad.stdout
    assert "ENABLE ROW LEVEL SECURITY" in bad.stdout
    del stack


def test_migrate_and_load_from_the_command_line(stack: Stack, admin: Any, typed: Command) -> None:
    """An empty database becomes a searchable one with two commands, each safe to repeat."""
    admin.execute("CREATE DATABASE from_command_line")
    dsn = stack.postgres.dsn("from_command_line")
    for _ in range(2):
        done = typed("migrate", "--dsn", dsn, "--json")
        assert json.loads(done.stdout) == {"installed": ["records", "reference"], "dimensions": 768, "remaining": []}
        done = typed("load", MIGRATION_CONNECTION_STRING=dsn)
        assert done.returncode == 0, done.stderr
        assert "107 chunks of 20 documents" in done.stdout
    done = typed("load", "--json", MIGRATION_CONNECTION_STRING=dsn)
    assert json.loads(done.stdout)["loaded"][0] == {"corpus": "documents", "items": 20, "chunks": 107}
    admin.execute("DROP DATABASE from_command_line WITH (FORCE)")


def test_migrate_builds_indexes_over_another_type(stack: Stack, database: str, admin: Any, typed: Command) -> None:
    """It prints their sizes and how the old ones are dropped; the commands run as they are printed."""
    dsn = stack.postgres.dsn(database)
    done = typed("migrate", "--dsn", dsn, "--index", "vector")
    assert done.returncode == 0, done.stderr
    assert "public.document_chunks has an index over vector: " in done.stdout
    *_, commands = done.stdout.partition("drop the old ones, then restart the workers: ")
    dropped = commands.strip().split("; ")
    assert [command.split()[:3] for command in dropped] == [["DROP", "INDEX", "CONCURRENTLY"]] * 3
    for command in dropped:
        admin.execute(command)
    done = typed("migrate", "--dsn", dsn, "--index", "vector", "--json")
    installed = {"installed": ["records", "reference"], "dimensions": 768, "remaining": [], "indexes": []}
    assert json.loads(done.stdout) == installed
    for wrong in (["--index", "bit"], ["--index", "vector", "--records-only"]):
        done = typed("migrate", "--dsn", dsn, *wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert "--index" in done.stderr


def test_a_build_ends_with_the_command_that_asked_for_it(stack: Stack, database: str, admin: Any) -> None:
    """A killed `migrate` leaves no build in Postgres, which would hold up the next one."""
    dsn = stack.postgres.dsn(database)
    builds = "SELECT phase FROM pg_stat_progress_create_index"
    with psycopg.connect(dsn) as older:
        older.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        older.execute("SELECT 1")  # the build waits for this transaction
        process = start("migrate", "--dsn", dsn, "--index", "vector", stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: ("waiting for old snapshots",) in admin.execute(builds).fetchall())
        finally:
            process.kill()
            process.communicate()
        wait_for(lambda: admin.execute(builds).fetchall() == [])
        older.rollback()


def test_migrate_gives_up_on_a_lock_that_somebody_holds(
    stack: Stack, admin: Any, database: str, typed: Command
) -> None:
    """A waiting migration would hold up all behind it: it prints one line, changes nothing, and works another time."""
    dsn = stack.postgres.dsn(database)
    admin.execute("DROP INDEX document_chunks_hash_idx")
    there = "SELECT to_regclass('document_chunks_hash_idx') IS NOT NULL"
    with psycopg.connect(dsn) as holder:
        holder.execute("LOCK TABLE document_chunks IN ACCESS SHARE MODE")
        done = typed("migrate", "--dsn", dsn, "--lock-timeout", "0.2")
        assert (done.returncode, done.stdout) == (69, "")
        assert "--lock-timeout" in done.stderr
        assert "Traceback" not in done.stderr
        assert admin.execute(there).fetchone() == (False,)
    assert typed("migrate", "--dsn", dsn).returncode == 0
    assert admin.execute(there).fetchone() == (True,)


def test_retrieve_cite_change_replay(
    stack: Stack, database: str, broker: Any, worker_environment: Any, worker_log: Any, tmp_path: Any, typed: Command
) -> None:
    """The main flow as docs/runs.md types it; the diff shows, word by word, what was edited, and what is gone."""
    broker.flushall()
    environment = worker_environment(ARTIFACTS__URL=str(tmp_path / "artifacts"))
    document = tmp_path / "citations.json"
    name = ["song-1", "r1", "--as", "alice"]

    def type_in(*arguments: str) -> subprocess.CompletedProcess[str]:
        return typed(*arguments, **{**environment, "MIGRATION_CONNECTION_STRING": stack.postgres.dsn(database)})

    with celery_worker(environment, worker_log, "--concurrency=1"):
        found = type_in("query", "hum on channel 18", "--as", "alice", "--record", "song-1", "r1", "--json")
        first, second = json.loads(found.stdout)["chunks"][:2]
        cited = type_in("cite", *name, "--out", str(document))
        assert (cited.returncode, cited.stdout.count("exact")) == (0, 15), cited.stdout + cited.stderr
        assert "runs/song-1/r1/citations.json" in cited.stdout
        document_again = json.loads(type_in("cite", *name, "--json").stdout)["citations"]
        assert document_again["all_citations"] == json.loads(document.read_text())["all_citations"]
        same = type_in("replay", *name)
        assert (same.returncode, same.stdout.count("exact")) == (0, 15), same.stdout + same.stderr
        assert type_in("verify", "--as", "alice").returncode == 0
        edited = _edited_sample(tmp_path, first["chunk_id"], second["chunk_id"])
        assert type_in("load", str(edited)).returncode == 0
        changed = type_in("replay", *name, "--citations", str(document))
        verdict_of = type_in("replay", *name, "--json")
    assert verdict_of.returncode == 1
    assert sorted({pin["verdict"] for pin in json.loads(verdict_of.stdout)["pins"]}) == ["edited", "exact", "missing"]
    assert changed.returncode == 1
    assert "entirely" in changed.stdout
    verdicts = ("exact", "edited", "missing")
    assert [changed.stdout.count(f"│ {verdict} ") for verdict in verdicts] == [13, 1, 1]
    drifted = type_in("verify", "song-1", "--as", "alice")
    assert (drifted.returncode, "1 of 1 runs drifted" in drifted.stdout) == (1, True)
    reported = json.loads(type_in("verify", "--as", "alice", "--json").stdout)
    assert reported["verdicts"] == {"edited": 1, "exact": 13, "missing": 1}


def _edited_sample(folder: Path, edited: str, removed: str) -> Path:
    """The sample corpus with one chunk that says something else, and one left out."""
    documents = json.loads(SAMPLES["documents"].read_text())
    for document in documents["documents"]:
        document["chunks"] = [chunk for chunk in document["chunks"] if chunk["id"] != removed]
        for chunk in document["chunks"]:
            if chunk["id"] == edited:
                chunk["text"] = f"entirely {chunk['text']}"
    file = folder / "edited.json"
    file.write_text(json.dumps(documents))
    return file


def test_a_run_goes_out_and_comes_in_from_the_command_line(
    admin: Any, worker_environment: Any, tmp_path: Path, typed: Command
) -> None:
    """List, keep a file, export, import; mistakes are one line."""
    environment = worker_environment(ARTIFACTS__URL=str(tmp_path / "artifacts"))
    lyrics, exported = tmp_path / "lyrics.json", tmp_path / "run.json"
    lyrics.write_text('{"verse": 1}')
    unknown = typed("runs", "keep", "song-1", "r1", str(lyrics), "--as", "alice", **environment)
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr == "retrieval-worker: run: no such run ('retrieval-worker runs list' shows the caller's)\n"
    assert not (tmp_path / "artifacts").exists()
    admin.execute("INSERT INTO retrieval.runs (owner, subject_id, run_id) VALUES ('alice', 'song-1', 'r1')")
    kept = typed("runs", "keep", "song-1", "r1", str(lyrics), "--as", "alice", **environment)
    assert kept.stdout.endswith("/runs/song-1/r1/lyrics.json\n"), kept.stderr
    assert (tmp_path / "artifacts" / kept.stdout.strip()).read_text() == lyrics.read_text()
    again = typed("runs", "keep", "song-1", "r1", str(lyrics), "--as", "alice", "--json", **environment)
    assert json.loads(again.stdout) == {"file": kept.stdout.strip()}
    assert typed("runs", "list", "--as", "alice", **environment).stdout == "song-1\tr1\n"
    listed = typed("runs", "list", "--as", "alice", "--json", **environment).stdout
    assert json.loads(listed) == {"subject_id": "song-1", "run_id": "r1"}
    done = typed("runs", "export", "song-1", "r1", "--as", "alice", "--out", str(exported), **environment)
    assert done.returncode == 0, done.stderr
    admin.execute("DELETE FROM retrieval.runs")
    done = typed("runs", "import", str(exported), "--as", "alice", **environment)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert json.loads(exported.read_text())["files"].keys() == {"lyrics.json"}
    done = typed("runs", "import", str(exported), "--as", "carol", "--json", **environment)
    assert json.loads(done.stdout) == {"subject_id": "song-1", "run_id": "r1"}
    for arguments, said in (
        (["runs", "export", "song-1", "no", "--as", "alice"], "no such run"),
        (["runs", "export", "song-1", "r1", "--as", "bob"], "no such run"),
        (["runs", "import", str(lyrics), "--as", "alice"], "runs export"),
        (["runs", "keep", "song-1", "..", str(lyrics), "--as", "alice"], "no such run"),
        (["runs", "keep", "song-1", "r1", str(lyrics), "--as", "bob"], "no such run"),
        (["verify", "no", "--as", "alice"], "no such run"),
    ):
        wrong = typed(*arguments, **environment)
        code = 2 if "import" in arguments else 1
        assert (wrong.returncode, wrong.stdout) == (code, ""), arguments
        assert said in wrong.stderr
        assert "Traceback" not in wrong.stderr
    none = typed("runs", "list", "--as", "bob", **environment)
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "no runs of this caller\n")
    anonymous = typed("verify", **environment)
    assert (anonymous.returncode, "verify.principal" in anonymous.stderr) == (78, True)


def test_feedback_and_tune_from_the_command_line(settings: Settings, worker_environment: Any, typed: Command) -> None:
    """Say what was used, get a proposal; everybody's feedback and too little of it; mistakes are one line."""
    environment = worker_environment()
    with contextlib.closing(Engine(settings, time.perf_counter)) as engine:
        alice = as_principal({"user_id": "alice"}, settings, "principal")
        asked = {"query": "add hi-hats", "context": 'sound("bd").fast(2)', "searches": [{"corpus": "docs"}]}
        for i in range(ENOUGH):
            name = {"subject_id": "song-1", "run_id": f"r{i}"}
            weights = {"primary": 0, "contextual": 1}
            legs = {"legs": ["primary", "contextual"], "weights": weights}
            job = parse_job(RetrieveHybrid, {**asked, "fusion": "weighted", **legs, "run": name})
            chunks = engine.hybrid.retrieve(job, JobContext(lambda: alice))["results"]["docs"]["chunks"]
            if i:
                engine.feedback.record(alice, RunName(**name), [chunks[0]["chunk_id"]])
    best, other = chunks[0]["chunk_id"], chunks[1]["chunk_id"]
    few = typed("tune", **environment)
    counted = (
        f"{ENOUGH - 1} hybrid retrievals with a used chunk, {ENOUGH} are needed (runs of other tasks do not count)"
    )
    assert (few.returncode, few.stdout) == (0, f"too little feedback: {counted}\n")
    reported = json.loads(typed("tune", "--json", **environment).stdout)
    assert (reported["retrievals"], reported["needed"], reported["proposal"], reported["setting"]) == (
        ENOUGH - 1,
        ENOUGH,
        None,
        None,
    )
    noted = typed("runs", "used", "song-1", "r0", best, other, "--as", "alice", **environment)
    assert (noted.returncode, noted.stdout) == (0, ""), noted.stderr
    assert "2 noted" in noted.stderr
    assert "1 noted" in typed("runs", "used", "song-1", "r0", other, "--not", "--as", "alice", **environment).stderr
    again = typed("runs", "used", "song-1", "r0", best, "--as", "alice", "--json", **environment)
    assert (json.loads(again.stdout), "0 noted" in again.stderr) == ({"recorded": 0}, True)
    for caller in ((), ("--as", "alice")):
        tuned = typed("tune", *caller, "--corpus", "docs", "--k", "3", **environment)
        assert tuned.returncode == 0, tuned.stderr
        assert f"feedback on {ENOUGH} hybrid retrievals" in tuned.stdout
        assert "nDCG@3" in tuned.stdout
        written = tomllib.loads(tuned.stdout.split("under [hybrid]:\n")[1])
        proposed = written["weights"]
        assert proposed["contextual"] > proposed["primary"]
        assert [leg["weight"] for leg in written["profiles"]["hybrid"]["legs"]] == [
            proposed[name] for name in ("primary", "sparse", "contextual")
        ]
        assert proposed["sparse"] == pytest.approx(0.3 / (0.7 + 0.4), abs=0.001)  # as much beside the others as before
        reported = json.loads(typed("tune", *caller, "--corpus", "docs", "--k", "3", "--json", **environment).stdout)
        assert (reported["method"], reported["k"], reported["setting"]) == ("weighted", 3, proposed)
        assert reported["proposal"]["after"]["ndcg"] > reported["proposal"]["before"]["ndcg"]
    better = typed("tune", **environment, RETRIEVAL_WORKER_HYBRID__WEIGHTS=json.dumps(proposed))
    assert (better.returncode, better.stdout.endswith("no other weights are better\n")) == (0, True)
    assert typed("tune", "--as", "bob", **environment).stdout.startswith("too little feedback: 0 hybrid retrievals")
    for arguments, said in (
        (["runs", "used", "song-1", "r0", best, "--as", "bob"], "run: no such run"),
        (["runs", "used", "song-1", "r0", best, "--as", "alice", "--step", "x"], "run: no such run"),
        (["runs", "used", "song-1", "r0", best, "nothing", "--as", "alice"], "chunks[1]: expected a chunk"),
        (["tune", "--method", "similarity"], "--method: expected weighted or rrf"),
        (["tune", "--corpus", "nowhere"], "corpus: expected one of documents, docs, examples"),
    ):
        wrong = typed(*arguments, **environment)
        code = 2 if "--method" in arguments else 1
        assert (wrong.returncode, wrong.stdout) == (code, ""), arguments
        assert said in wrong.stderr
        assert "Traceback" not in wrong.stderr


def test_the_schedule_checks_runs_with_the_rights_of_the_settings(
    stack: Stack, admin: Any, broker: Any, worker_environment: Any, worker_log: Any
) -> None:
    """`celery beat` sends `verify_runs`; another sender can't choose its caller; it is off by default."""
    broker.flushall()
    environment = worker_environment(VERIFY__EVERY_MINUTES="0.05", VERIFY__PRINCIPAL='{"user_id": "alice"}')
    query = encode_embedding(lexical.embed(["hum on channel 18"])[0].tolist())
    client = Client(*stack.redis.urls("producer"))
    name = RunRef(subject_id="song-1", run_id="r1")
    with celery_worker(environment, worker_log, "--concurrency=1"):
        client.call(RetrieveTopK(query_embedding=query, principal={"user_id": "alice"}, run=name), timeout=180)
        sender = Celery("schedule", broker=stack.redis.url(0), backend=stack.redis.url(1), set_as_current=False)
        for job in ({"principal": {"user_id": "alice"}}, {"run": name.model_dump()}, [], None):
            refused = sender.send_task("verify_runs", (job,), queue="retrieval").get(timeout=180, propagate=False)
            assert type(refused).__name__ == "InvalidJob"
        with celery_beat(environment, worker_log.with_suffix(".beat")):
            wait_for(lambda: admin.execute("SELECT counts FROM retrieval.run_checks").fetchall() == [({"exact": 15},)])
    client.close()
    assert '"outcome":"drifted=0"' in worker_log.read_text().replace(": ", ":")
