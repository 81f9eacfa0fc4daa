"""The ledgers of `examples/`, in three languages, against a real worker: no job is lost, none is answered twice."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest
import redis
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.waiting import wait_for, waiting_sessions

from workbench.devstack.processes import free_port, stop
from workbench.devstack.redis import Redis, redis_server
from workbench.devstack.workers import celery_worker
from worker.jobs.principal import LEEWAY_SECONDS

from .jobs import QUERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB = {"query_embedding": QUERY, "k": 12}
ALICE = {"user_id": "alice"}
ASKED = {"task": "retrieve_top_k", "job": JOB, "claims": ALICE}
KEY = "a secret of at least thirty-two bytes"


@dataclass
class Example:
    """One of the ledgers, as its user has it: a command, its environment, what it wrote."""

    command: list[str]
    ledger: Path
    environment: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def add(self, *asked: dict[str, Any]) -> list[str]:
        done = subprocess.run(
            [*self.command, "add"],
            input="".join(json.dumps(line) + "\n" for line in asked),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    def run(self, **changes: str) -> subprocess.Popen[str]:
        """Start it; a session of its own, so that `kill` ends its children too."""
        process = subprocess.Popen(
            [*self.command, "run"],
            env=self.environment | changes,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def finish(self, process: subprocess.Popen[str] | None = None, **changes: str) -> dict[str, str]:
        """Until it ends by itself: what it printed, as status by id."""
        process = process or self.run(**changes)
        printed, said = process.communicate(timeout=90)
        assert process.returncode == int("GIVEN_UP" in printed), said
        return dict(line.split() for line in printed.splitlines())

    def kill(self, process: subprocess.Popen[str]) -> None:
        """As the kernel would: nothing of it gets to tidy up."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=180)

    def row(self, task_id: str) -> dict[str, Any]:
        """Return the ledger's row of a job."""
        if self.ledger.suffix == ".sqlite":
            with contextlib.closing(sqlite3.connect(self.ledger)) as rows:
                rows.row_factory = sqlite3.Row
                return dict(rows.execute("SELECT * FROM jobs WHERE id = ?", (task_id,)).fetchone())
        for folder in ("open", "closed", "open"):  # it may be moved between two looks
            with contextlib.suppress(FileNotFoundError):
                return json.loads((self.ledger / folder / f"{task_id}.json").read_text())
        raise KeyError(task_id)

    def keep(self) -> None:
        """Put a copy of the ledger aside."""
        copy = self.ledger.with_name(self.ledger.name + ".kept")
        shutil.copytree(self.ledger, copy) if self.ledger.is_dir() else shutil.copy(self.ledger, copy)

    def put_back(self) -> None:
        """The ledger as it was kept."""
        copy = self.ledger.with_name(self.ledger.name + ".kept")
        if self.ledger.is_dir():
            shutil.rmtree(self.ledger)
        copy.replace(self.ledger)

    def end(self) -> None:
        """Nothing that was started is left."""
        for process in self.started:
            self.kill(process)


PROGRAMS = {"python": [], "node": ["node"], "redis-cli": ["redis-cli", "jq", "openssl"]}
"""Programs that each ledger needs besides this Python."""

# The `embedded` extra brings a redis-cli beside this Python.
PATH = os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)])


def missing(name: str) -> list[str]:
    return [program for program in PROGRAMS[name] if shutil.which(program, path=PATH) is None]


def make(name: str, stack: Stack, folder: Path) -> Example:
    command, ledger = {
        "python": ([sys.executable, str(EXAMPLES / "ledger.py")], folder / "ledger.sqlite"),
        "node": (["node", str(EXAMPLES / "ledger.mjs")], folder / "ledger of node"),
        "redis-cli": ([str(EXAMPLES / "ledger.sh")], folder / "ledger of redis-cli"),
    }[name]
    environment = {
        "PATH": PATH,
        "HOME": str(folder),
        **stack.redis.environment("producer"),
        "LEDGER": str(ledger),
        "LEDGER_SECONDS": "60",  # longer than any test: what is sent again is sent again on purpose
    }
    return Example(command, ledger, environment)


@pytest.fixture(params=PROGRAMS)
def example(request: pytest.FixtureRequest, tmp_path: Path, stack: Stack, broker: redis.Redis) -> Iterator[Example]:
    """Each ledger alone, where no worker is needed."""
    del broker  # emptied
    if absent := missing(request.param):
        pytest.skip(f"not installed here: {', '.join(absent)}")
    made = make(request.param, stack, tmp_path)
    yield made
    made.end()


class Examples:
    """All ledgers that can run here, side by side on one worker."""

    def __init__(self, each: list[Example]) -> None:
        self.each = each

    def __len__(self) -> int:
        return len(self.each)

    def add(self, *asked: dict[str, Any]) -> dict[str, Example]:
        """The ids of new jobs, and in which ledger each is."""
        return {task_id: example for example in self.each for task_id in example.add(*asked)}

    def run(self, **changes: str) -> list[subprocess.Popen[str]]:
        return [example.run(**changes) for example in self.each]

    def finish(self, running: list[subprocess.Popen[str]] | None = None, **changes: str) -> dict[str, str]:
        """Until all end by themselves: what they printed, as status by id."""
        running = running or self.run(**changes)
        printed = [example.finish(process) for example, process in zip(self.each, running, strict=True)]
        return {task_id: status for statuses in printed for task_id, status in statuses.items()}

    def kill(self, running: list[subprocess.Popen[str]]) -> None:
        for example, process in zip(self.each, running, strict=True):
            example.kill(process)


@pytest.fixture
def examples(tmp_path: Path, stack: Stack, broker: redis.Redis) -> Iterator[Examples]:
    del broker  # emptied
    made = Examples([make(name, stack, tmp_path) for name in PROGRAMS if not missing(name)])
    yield made
    for example in made.each:
        example.end()


def all_pushed(jobs: dict[str, Example], broker: redis.Redis) -> bool:
    """Whether each job is in the queue once, and its ledger knows it."""
    counted = all(example.row(task_id)["sends"] == 1 for task_id, example in jobs.items())
    return counted and broker.llen("retrieval") == len(jobs)


@pytest.fixture
def results(stack: Stack) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(stack.redis.url(1)) as client:
        yield client


@pytest.fixture
def worker(worker_environment: Environment, worker_log: Path) -> Callable[..., Any]:
    """Starts a worker with one process."""

    def start(**changes: str) -> Any:
        return celery_worker(worker_environment() | changes, worker_log, "--concurrency=1")

    return start


def stands(results: redis.Redis, task_id: str) -> str | None:
    """The record in Redis, byte for byte."""
    record = results.get(f"celery-task-meta-{task_id}")
    return record.decode() if record is not None else None


def done_jobs(log: Path) -> int:
    return sum('"event": "job done"' in line or '"event":"job done"' in line for line in log.read_text().splitlines())


def test_every_job_is_sent_once_and_its_answer_is_kept_as_it_came(
    examples: Examples, worker: Callable[..., Any], results: redis.Redis, broker: redis.Redis, worker_log: Path
) -> None:
    """An answer and a failure both end a job; an id that is added again is the same job; a later run does nothing."""
    good = examples.add(ASKED)
    wrong = [{**ASKED, "job": {**JOB, "k": "many"}, "id": f"of-the-backend-{n}"} for n in range(len(examples))]
    bad = {line["id"]: example for line, example in zip(wrong, examples.each, strict=True)}
    with worker():
        for line, example in zip(wrong, examples.each, strict=True):
            assert example.add(line) == [line["id"]]
        assert examples.finish() == dict.fromkeys(good, "SUCCESS") | dict.fromkeys(bad, "FAILURE")
        for line, example in zip(wrong, examples.each, strict=True):
            assert example.add(line) == [line["id"]]
        assert examples.finish() == {}
    for task_id, example in (good | bad).items():
        row = example.row(task_id)
        assert (row["status"], row["sends"]) == ("SUCCESS" if task_id in good else "FAILURE", 1)
        assert row["record"] == stands(results, task_id)
        result = json.loads(row["record"])["result"]
        if task_id in good:
            assert len(result["chunks"]) == result["k"] == 12
        else:
            assert result["exc_type"] == "InvalidJob"
    assert done_jobs(worker_log) == len(good)
    assert broker.llen("retrieval") == 0


def test_a_worker_that_is_killed_with_the_job_in_hand_loses_nothing(
    examples: Examples,
    worker: Callable[..., Any],
    admin: psycopg.Connection[Any],
    stack: Stack,
    results: redis.Redis,
) -> None:
    """The whole worker dies by kill -9 while it searches: another one answers what is sent again."""
    jobs = examples.add(ASKED)
    with psycopg.connect(stack.postgres.dsn(admin.info.dbname)) as locked, worker() as process:
        locked.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
        running = examples.run(LEDGER_SECONDS="1", LEDGER_SENDS="60")
        wait_for(lambda: waiting_sessions(admin) == 1)
        for member in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait(180)
        assert not any(stands(results, task_id) for task_id in jobs)
        wait_for(lambda: all(example.row(task_id)["sends"] > 1 for task_id, example in jobs.items()))
    with worker():
        assert examples.finish(running) == dict.fromkeys(jobs, "SUCCESS")
    assert_as_it_stands(jobs, results)


def assert_as_it_stands(jobs: dict[str, Example], results: redis.Redis) -> None:
    """Each ledger's record equals Redis' record, byte for byte."""
    for task_id, example in jobs.items():
        assert example.row(task_id)["record"] == stands(results, task_id)


def test_a_message_that_was_lost_is_sent_again(
    examples: Examples, worker: Callable[..., Any], broker: redis.Redis, results: redis.Redis
) -> None:
    """Redis forgets all that it held after it acknowledged the push: the job is answered all the same."""
    jobs = examples.add(ASKED)
    running = examples.run(LEDGER_SECONDS="3", LEDGER_SENDS="60")
    wait_for(lambda: all(example.row(task_id)["sends"] >= 1 for task_id, example in jobs.items()))
    broker.flushall()
    with worker():
        assert examples.finish(running) == dict.fromkeys(jobs, "SUCCESS")
    assert all(example.row(task_id)["sends"] > 1 for task_id, example in jobs.items())
    assert_as_it_stands(jobs, results)


def test_a_backend_killed_before_its_push_arrived_sends_when_it_starts_again(
    examples: Examples, worker: Callable[..., Any], broker: redis.Redis
) -> None:
    """The push hangs in a Redis that takes no writes, and the backend dies: what is in the ledger is sent."""
    jobs = examples.add(ASKED)
    broker.execute_command("CLIENT", "PAUSE", "60000", "WRITE")
    try:
        running = examples.run()
        wait_for(lambda: broker.info("clients")["blocked_clients"] == len(examples))
        examples.kill(running)
        wait_for(lambda: broker.info("clients")["blocked_clients"] == 0)
    finally:
        broker.execute_command("CLIENT", "UNPAUSE")
    assert broker.llen("retrieval") == 0
    assert all(example.row(task_id)["sends"] == 0 for task_id, example in jobs.items())
    with worker():
        assert examples.finish() == dict.fromkeys(jobs, "SUCCESS")
    assert all(example.row(task_id)["sends"] == 1 for task_id, example in jobs.items())


def test_a_backend_killed_before_it_counted_a_push_gets_one_answer_of_two_messages(
    examples: Examples, worker: Callable[..., Any], broker: redis.Redis, results: redis.Redis, worker_log: Path
) -> None:
    """Two messages under one id are two runs and one record: the second changes not a byte of it."""
    jobs = examples.add(ASKED)
    for example in examples.each:
        example.keep()
    running = examples.run()
    wait_for(lambda: all_pushed(jobs, broker))
    examples.kill(running)
    for example in examples.each:
        example.put_back()  # as it stood when Redis had the push and the ledger had not
    running = examples.run()
    wait_for(lambda: broker.llen("retrieval") == 2 * len(jobs))
    with worker():
        assert examples.finish(running) == dict.fromkeys(jobs, "SUCCESS")
        wait_for(lambda: done_jobs(worker_log) == 2 * len(jobs))
    assert_as_it_stands(jobs, results)


def test_a_backend_killed_while_it_waits_reads_the_answer_when_it_starts_again(
    examples: Examples, worker: Callable[..., Any], broker: redis.Redis, worker_log: Path
) -> None:
    """A job answered while the backend was away is not sent again, even after its deadline."""
    jobs = examples.add(ASKED)
    running = examples.run()
    wait_for(lambda: all_pushed(jobs, broker))
    examples.kill(running)
    with worker():
        wait_for(lambda: done_jobs(worker_log) == len(jobs))
    assert examples.finish(LEDGER_SECONDS="0") == dict.fromkeys(jobs, "SUCCESS")
    assert all(example.row(task_id)["sends"] == 1 for task_id, example in jobs.items())
    assert broker.llen("retrieval") == 0


def test_a_job_that_nobody_answers_is_given_up(example: Example, broker: redis.Redis) -> None:
    """After its sends, and not before: the same job under the same id, with a new delivery tag each time."""
    [task_id] = example.add(ASKED)
    assert example.finish(LEDGER_SECONDS="0.3", LEDGER_SENDS="3") == {task_id: "GIVEN_UP"}
    messages = [json.loads(message) for message in broker.lrange("retrieval", 0, -1)]
    assert [message["headers"]["id"] for message in messages] == [task_id] * 3
    assert len({message["properties"]["delivery_tag"] for message in messages}) == 3
    assert len({decoded_body(message) for message in messages}) == 1
    assert (example.row(task_id)["sends"], example.row(task_id)["record"]) == (3, None)


def decoded_body(message: dict[str, Any]) -> str:
    """A body as canonical text, however it was sent."""
    body = message["body"]
    if message["properties"].get("body_encoding") == "base64":
        body = base64.b64decode(body)
    return json.dumps(json.loads(body)[0], sort_keys=True)


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, dict[str, str]]:
    """Keys to sign and to verify with: a secret (HS256), and for redis-cli a pair of RSA keys."""
    pair = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = tmp_path / "private.pem"
    private.write_bytes(
        pair.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public = pair.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return {
        "HS256": {"TOKEN_KEY": KEY, "TOKEN_KEY_ID": "secret"},
        "RS256": {"TOKEN_KEY_FILE": str(private), "TOKEN_KEY_ID": "pair"},
        "worker": {
            "RETRIEVAL_WORKER_TRUST_QUEUE": "false",
            "RETRIEVAL_WORKER_TOKEN_KEYS": json.dumps({"secret": KEY, "pair": public.decode()}),
            "RETRIEVAL_WORKER_PRINCIPAL__TOKEN__ALGORITHMS": json.dumps(["HS256", "RS256"]),
        },
    }


def give_keys(examples: Examples, keys: dict[str, dict[str, str]]) -> None:
    for example in examples.each:
        example.environment |= keys["RS256" if example.command[0].endswith(".sh") else "HS256"]


def test_signed_jobs_pass_where_the_queue_is_not_trusted(
    examples: Examples, worker: Callable[..., Any], keys: dict[str, dict[str, str]], broker: redis.Redis
) -> None:
    """Signed again for each send: a re-send under the same id passes, and no token stands in the ledger."""
    give_keys(examples, keys)
    plain = examples.add(ASKED)
    filters = {"sections": ["Änderungen „é“"], "metadata": {"b": 1, "a": 2}}
    filtered = examples.add({**ASKED, "job": {**JOB, "filters": filters}})
    running = examples.run(LEDGER_SECONDS="3", LEDGER_SENDS="60")
    wait_for(lambda: all(example.row(task_id)["sends"] >= 1 for task_id, example in (plain | filtered).items()))
    broker.delete("retrieval")
    with worker(**keys["worker"]):
        assert examples.finish(running) == dict.fromkeys(plain | filtered, "SUCCESS")
    for task_id, example in plain.items():
        row = example.row(task_id)
        assert "handbook-desk-notes-006" in row["record"]  # only alice sees it
        assert row["sends"] > 1
        assert "principal_token" not in json.dumps(row)
    for task_id, example in filtered.items():
        assert json.loads(example.row(task_id)["record"])["result"]["status"] == "empty"


def test_a_message_whose_token_ended_in_the_queue_does_not_answer_for_the_next(
    examples: Examples,
    worker: Callable[..., Any],
    keys: dict[str, dict[str, str]],
    broker: redis.Redis,
    results: redis.Redis,
) -> None:
    """The backend was away for longer than its token held: `NotAuthorised` stands there, and the job is sent again."""
    give_keys(examples, keys)
    jobs = examples.add(ASKED)
    running = [example.run(LEDGER_TOKEN_SECONDS=str(1)) for example in examples.each]
    wait_for(lambda: all_pushed(jobs, broker))
    examples.kill(running)
    ended = max(example.row(task_id)["token_until"] for task_id, example in jobs.items()) + LEEWAY_SECONDS
    wait_for(lambda: time.time() > ended)
    with worker(**keys["worker"]):
        wait_for(lambda: all(stands(results, task_id) for task_id in jobs))
        assert {json.loads(stands(results, task_id) or "")["result"]["exc_type"] for task_id in jobs} == {
            "NotAuthorised"
        }
        assert examples.finish(LEDGER_SECONDS="1", LEDGER_SENDS="60") == dict.fromkeys(jobs, "SUCCESS")
    assert_as_it_stands(jobs, results)


def test_a_caller_without_rights_is_told_so_at_once(
    examples: Examples, worker: Callable[..., Any], keys: dict[str, dict[str, str]]
) -> None:
    """`NotAuthorised` is an answer like any other failure where no token of the job has ended."""
    jobs = examples.add(ASKED)  # with a plain principal, which this worker does not trust
    with worker(**keys["worker"]):
        assert examples.finish() == dict.fromkeys(jobs, "FAILURE")
    for task_id, example in jobs.items():
        assert json.loads(example.row(task_id)["record"])["result"]["exc_type"] == "NotAuthorised"


def test_redis_is_killed_and_comes_back(
    examples: Examples, worker: Callable[..., Any], tmp_path: Path, worker_log: Path
) -> None:
    """Before the push and after it: the backend waits for Redis, sends once it is there, reads once it is back."""
    port, folder = free_port(), tmp_path / "redis"
    with redis_on(port, folder) as server:
        for example in examples.each:
            example.environment |= server.environment("producer")
    jobs = examples.add(ASKED)
    running = examples.run()
    assert_redis_is_away(running)
    with redis_on(port, folder) as server, redis.Redis.from_url(server.url()) as client:
        wait_for(lambda: all_pushed(jobs, client))
    assert_redis_is_away(running)
    with redis_on(port, folder) as server, worker(**server.environment("worker")):
        assert examples.finish(running) == dict.fromkeys(jobs, "SUCCESS")
    assert all(example.row(task_id)["sends"] == 1 for task_id, example in jobs.items())
    assert done_jobs(worker_log) == len(jobs)


def assert_redis_is_away(running: list[subprocess.Popen[str]]) -> None:
    """Each of them says so next."""
    for process in running:
        assert process.stderr is not None
        assert "Redis is away" in process.stderr.readline()


@contextlib.contextmanager
def redis_on(port: int, folder: Path) -> Iterator[Redis]:
    """A Redis that writes down what it acknowledges, ended by kill -9."""
    with redis_server(folder, durable=True, port=port) as server:
        try:
            yield server
        finally:
            stop(server.process, signal.SIGKILL)


@pytest.mark.parametrize("line", ["no JSON", "[]", '{"task": "retrieve_top_k"}', '{"task": 5, "job": {}}',
                                  '{"task": "retrieve_top_k", "job": {}, "id": "../x"}',
                                  '{"task": "retrieve_top_k", "job": {}, "id": 5}'])  # fmt: skip
def test_a_line_that_is_no_job_is_refused_in_one_sentence(example: Example, line: str) -> None:
    """It names the line and what was expected; what stands above it is in the ledger."""
    lines = json.dumps({**ASKED, "id": "first"}) + "\n" + line + "\n"
    done = subprocess.run(
        [*example.command, "add"],
        input=lines, env=example.environment, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == 'ledger: line 2: expected {"task": "…", "job": {…}, "claims": {…}, "id": "a UUID"}\n'
    assert done.stdout == "first\n"
    assert example.row("first")["sends"] == 0
