"""Dead letters in a real Redis: answered, kept, shown, sent again, deleted."""

from __future__ import annotations

import functools
import json
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import redis
import structlog
from prometheus_client import values
from tests.command_line import command_line

from workbench.devstack.processes import free_port
from worker.queue.broker import dead_letters, keys
from worker.queue.broker.depths import watcher
from worker.queue.broker.inspection import Rules
from worker.queue.metrics import Metrics
from worker.queue.probes import Probes
from worker.queue.records import RecordStore, compose
from worker.settings.serving import QUEUES

from .claims import QUEUE, RULES, Worker, envelope, ids, places, stored_failures

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    from workbench.devstack.stack import Stack
    from worker.settings import Settings

CANARY = "canary-4711"


def dead_letter(url: str, *messages: bytes, rules: Rules = RULES) -> None:
    """Have a process refuse messages that can't be run."""
    with redis.Redis.from_url(url) as client, Worker(url, rules=rules) as worker:
        before = client.xlen(keys.dead(QUEUE))
        client.lpush(QUEUE, *messages)
        worker.run(lambda: client.xlen(keys.dead(QUEUE)) == before + len(messages))
        assert worker.ids == []


def test_each_kind_is_kept_with_its_reason_and_its_sender_told(url: str, broker: redis.Redis) -> None:
    """The first that comes is the first in the stream; nothing is left where it was."""
    gone = "2020-01-01T00:00:00Z"
    dead_letter(
        url,
        b"\xff" + CANARY.encode(),
        envelope("unknown-1", task="unknown", shadow=CANARY),
        envelope("expired-1", expires=gone),
        envelope("limits-1", timelimit=[1, 1]),
    )
    letters = [*dead_letters.every(broker, QUEUE)][::-1]
    assert [(letter.reason, letter.error, letter.task_id) for letter in letters] == [
        ("malformed", "InvalidJob", ""),
        ("unknown_task", "DeadLettered", "unknown-1"),
        ("expired", "DeadLettered", "expired-1"),
        ("malformed", "InvalidJob", "limits-1"),
    ]
    assert {name: type(error).__name__ for name, error in stored_failures(broker).items()} == {
        "unknown-1": "DeadLettered",
        "expired-1": "DeadLettered",
        "limits-1": "InvalidJob",
    }
    assert places(broker) == {"dead": 4}
    assert CANARY not in json.dumps([letter.as_json() for letter in letters])


def test_a_stream_is_capped(url: str, broker: redis.Redis) -> None:
    """Somebody who sends nothing but rubbish does not fill Redis."""
    dead_letter(url, *(b"rubbish %d" % number for number in range(50)), rules=Rules(dead_entries=10_000))
    with Worker(url, rules=Rules(dead_entries=1)) as worker:
        broker.lpush(QUEUE, *(b"more %d" % number for number in range(200)))
        worker.run(lambda: broker.llen(QUEUE) == 0)
    assert places(broker).keys() == {"dead"}
    assert broker.xlen(keys.dead(QUEUE)) < 150  # Redis cuts whole nodes, of 100 entries


@pytest.mark.parametrize(
    "message", [envelope("bad", task="unknown"), envelope("killer")], ids=["refused", "delivered too often"]
)
def test_a_message_stays_until_its_sender_can_be_told(url: str, broker: redis.Redis, message: bytes) -> None:
    """No dead letter is made before the failure is stored, and the message is not run meanwhile."""
    broker.hset(keys.deliveries(QUEUE), keys.digest(envelope("killer")), RULES.max_deliveries)
    broker.lpush(QUEUE, message)
    with structlog.testing.capture_logs() as lines, Worker(url, urls={"records": "redis://127.0.0.1:1/0"}) as worker:
        worker.run(lambda: "outcomes not stored yet" in [line["event"] for line in lines])
        assert worker.ids == []
    assert places(broker) == {"queue": 1}
    with Worker(url) as worker:
        worker.run(lambda: places(broker) == {"dead": 1})
        assert len(stored_failures(broker)) == 1


def test_a_job_that_was_answered_is_no_dead_letter(url: str, broker: redis.Redis) -> None:
    """Each time, only its acknowledgement was lost: its answer stands, and no other follows."""
    for task_id in ("answered", "killer"):
        broker.hset(keys.deliveries(QUEUE), keys.digest(envelope(task_id)), RULES.max_deliveries)
    RecordStore(broker, 60, is_on_broker=True).put([compose("answered", "SUCCESS", {"status": "ok"})])
    broker.lpush(QUEUE, envelope("answered"), envelope("killer"), envelope("good"))
    with Worker(url) as worker:
        assert worker.take(1) == ["good"]
        assert stored_failures(broker).keys() == {"killer"}
    (letter,) = dead_letters.every(broker, QUEUE)
    assert (letter.task_id, letter.reason, letter.deliveries) == ("killer", "max_deliveries", RULES.max_deliveries)
    assert places(broker) == {"dead": 1}
    assert not broker.exists(keys.deliveries(QUEUE))


# --- for operators ----------------------------------------------------------------------------------


@pytest.fixture
def command(stack: Stack, capsys: pytest.CaptureFixture[str]) -> Callable[..., CompletedProcess[str]]:
    """Runs `retrieval-worker dead …` as an operator does."""
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    typed = command_line(capsys, {"CELERY_BROKER_URL": stack.redis.url(0), "DATABASE_CONNECTION_STRING": nowhere})
    return functools.partial(typed, "dead")


TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJ1c2VyX2lkIjoiYWxpY2UifQ.c2lnbmF0dXJl"  # noqa: S105 -- must not be kept


def secret_job(task_id: str, **more: Any) -> bytes:
    """A message full of what an operator must not see."""
    body = json.dumps([[{"query": CANARY, "k": 12, CANARY: 1, **more}], {}, {}])
    return envelope(task_id, task="unknown").replace(b'"[[{}], {}, {}]"', json.dumps(body).encode())


def test_the_commands_tell_why_and_not_what(url: str, command: Callable[..., Any]) -> None:
    """List and show: the reason, the time, the fields of a job by name if it is stored; no text, no token."""
    dead_letter(url, secret_job("job-1"), b"rubbish " + CANARY.encode())
    listed = [json.loads(line) for line in command("list", "--json").stdout.splitlines()]
    assert [(letter["reason"], letter["task_id"], letter["queue"]) for letter in listed] == [
        ("malformed", "", QUEUE),
        ("unknown_task", "job-1", QUEUE),
    ]
    shown = command("show", listed[1]["entry"], "--json")
    assert json.loads(shown.stdout)["job"] == "(k, query, +1)"
    unread = json.loads(command("show", listed[0]["entry"], "--json").stdout)
    assert (unread["kept"], unread["job"]) == ("nothing", "(not stored)")
    texts = [command("list").stdout, command("show", listed[1]["entry"]).stdout, shown.stdout, json.dumps(listed)]
    assert "unknown_task" in texts[0]
    assert [text for text in texts if CANARY in text] == []
    assert json.loads(command("list", "--json", "--reason", "malformed").stdout)["entry"] == listed[0]["entry"]
    assert command("list", "--queue", "pipeline").stdout == "no dead letters\n"


def test_retry_sends_the_same_bytes_again_and_counts_anew(
    url: str, broker: redis.Redis, command: Callable[..., Any]
) -> None:
    """A second retry of the same dead letter fails: it is gone."""
    sent = envelope("job-1")
    broker.hset(keys.deliveries(QUEUE), keys.digest(sent), RULES.max_deliveries)
    dead_letter(url, sent)
    assert "delivered 3 times" in stored_failures(broker)["job-1"].message
    (letter,) = dead_letters.every(broker, QUEUE)
    done = command("retry", letter.entry)
    assert (done.returncode, done.stderr) == (0, "1 sent again\n")
    assert broker.lrange(QUEUE, 0, -1) == [sent]
    assert places(broker) == {"queue": 1}
    again = command("retry", letter.entry)
    assert again.returncode == 1
    assert f"no dead letter {letter.entry}" in again.stderr
    assert not dead_letters.retry(broker, QUEUE, letter.entry)
    assert ids(broker) == ["job-1"]
    with Worker(url) as worker:
        assert worker.take(1) == ["job-1"]


def test_two_who_retry_at_once_send_it_once(url: str, broker: redis.Redis) -> None:
    """One of them reads the dead letter before the other has sent it."""
    dead_letter(url, envelope("job-1", task="unknown"))
    (letter,) = dead_letters.every(broker, QUEUE)

    class Slower(redis.Redis):
        def xrange(self, *arguments: Any, **options: Any) -> Any:
            page = super().xrange(*arguments, **options)
            assert dead_letters.retry(broker, QUEUE, letter.entry)
            return page

    with Slower.from_url(url) as slower:
        assert not dead_letters.retry(slower, QUEUE, letter.entry)
    assert ids(broker) == ["job-1"]


def test_the_count_of_what_expired_after_deliveries_goes_with_it(url: str, broker: redis.Redis) -> None:
    """A dead letter tells how often it was delivered, and leaves nothing behind."""
    late = envelope("job-1", expires="2020-01-01T00:00:00Z")
    broker.hset(keys.deliveries(QUEUE), keys.digest(late), 2)
    dead_letter(url, late)
    (letter,) = dead_letters.every(broker, QUEUE)
    assert (letter.reason, letter.deliveries) == ("expired", 2)
    assert not broker.exists(keys.deliveries(QUEUE))


def test_retry_says_what_can_not_be_sent_again(url: str, broker: redis.Redis, command: Callable[..., Any]) -> None:
    """Messages that expired or are not stored whole stay where they are, also those of older versions."""
    deadly = envelope("deadly-1")
    broker.hset(keys.deliveries(QUEUE), keys.digest(deadly), RULES.max_deliveries + 1)
    dead_letter(
        url,
        envelope("expired-1", expires="2020-01-01T00:00:00Z"),
        secret_job("token-1", principal_token=TOKEN),
        envelope("unknown-1", task="unknown"),
        deadly,
    )
    stored = str(broker.xrange(keys.dead(QUEUE)))
    assert [part for part in ("eyJ", CANARY) if part in stored] == []
    for kept in ("cut", "start"):
        old = {"kept": kept, "original": envelope(kept), "reason": "unknown_task", "deliveries": 0, "bytes": 5}
        shown = command("show", broker.xadd(keys.dead(QUEUE), old).decode(), "--json")
        assert (json.loads(shown.stdout)["kept"], json.loads(shown.stdout)["job"]) == (kept, "()")
    done = command("retry", "--all")
    assert done.returncode == 1
    assert "1 sent again" in done.stderr
    again = json.loads(command("retry", "--all", "--json").stdout)
    assert (again["sent"], len(again["refused"])) == (0, 5)
    assert (done.stderr.count("expired: only its sender"), done.stderr.count("not stored whole: only its")) == (1, 4)
    assert ids(broker) == ["unknown-1"]
    assert broker.xlen(keys.dead(QUEUE)) == 5


def test_purge_deletes_what_is_named(url: str, broker: redis.Redis, command: Callable[..., Any]) -> None:
    """One, those of a reason, all."""
    gone = "2020-01-01T00:00:00Z"
    dead_letter(url, *(envelope(f"{i}", expires=gone) for i in range(3)), b"rubbish", envelope("u", task="unknown"))
    newest = next(iter(dead_letters.every(broker, QUEUE)))
    assert command("purge", newest.entry).stderr == "1 deleted\n"
    assert command("purge", "--all", "--reason", "expired").stderr == "3 deleted\n"
    assert json.loads(command("purge", "--all", "--json").stdout) == {"deleted": 1}
    assert broker.xlen(keys.dead(QUEUE)) == 0


@pytest.mark.parametrize(
    ("arguments", "changes", "code", "said"),
    [
        (["retry"], {}, 2, "either entries or --all"),
        (["purge", "1-0", "--all"], {}, 2, "either entries or --all"),
        (["show", "no entry"], {}, 1, "no such dead letter"),
        (["show", f"{2**64}-0"], {}, 1, "no such dead letter"),  # an id that Redis does not read
        (["purge", "\u0661-0"], {}, 1, "no dead letter \u0661-0"),
        (["list", "--queue", "retreival"], {}, 2, "Invalid value for --queue: expected retrieval or pipeline"),
        (["purge", "--all", "--queue", "x"], {}, 2, "Invalid value for --queue: expected retrieval or pipeline"),
        (["list", "--reason", "expird"], {}, 2, "expected one of malformed, unknown_task, bad_signature, expired, max"),
        (["retry", "--all", "--reason", "x"], {}, 2, "Invalid value for --reason: expected one of malformed"),
        (["purge", "--all", "--reason", "x"], {}, 2, "Invalid value for --reason: expected one of malformed"),
        (["retry", "[bold]1-0"], {}, 1, "no dead letter [bold]1-0"),
        (["list"], {"CELERY_BROKER_URL": "redis://127.0.0.1:1/0"}, 69, "CELERY_BROKER_URL"),
        (["list"], {"RETRIEVAL_WORKER_SEARCH__EXACT_ROWS": "many"}, 78, "search.exact_rows"),
    ],
)
def test_the_commands_say_what_is_wrong(
    broker: redis.Redis,
    command: Callable[..., Any],
    arguments: list[str],
    changes: dict[str, str],
    code: int,
    said: str,
) -> None:
    """One sentence and the exit code of its kind."""
    del broker  # there
    done = command(*arguments, **changes)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_metrics_tell_depth_and_age(
    url: str, broker: redis.Redis, make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each queue, as Redis has it now, also of what waits for its time; nothing while Redis is away."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "set by the worker, restored by pytest")
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)
    minute_ago = int(time.time() - 60) * 1000
    broker.xadd(keys.dead(QUEUE), {"reason": "malformed"}, id=f"{minute_ago}-0")
    dead_letter(url, b"rubbish")
    broker.zadd(keys.delayed(QUEUE), {"waits": 1})
    broker.lpush(keys.deferred(QUEUE), "put off")
    unused_port = free_port()
    settings = make_settings(metrics={"port": unused_port})
    metrics = Metrics(settings.metrics, watcher(url, QUEUES), probes=Probes(settings, lambda: None))
    metrics.start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{unused_port}/metrics", timeout=180) as answer:
            text = answer.read().decode()
    finally:
        metrics.close()
    assert 'retrieval_dead_letters{queue="retrieval"} 2.0' in text
    assert 'retrieval_dead_letters{queue="pipeline"} 0.0' in text
    assert 'retrieval_delayed_jobs{queue="retrieval"} 2.0' in text
    assert 'retrieval_delayed_jobs{queue="pipeline"} 0.0' in text
    (age,) = [line for line in text.splitlines() if line.startswith('retrieval_dead_letter_oldest_seconds{queue="retr')]
    assert 60 <= float(age.split()[1]) < 120
    assert watcher("redis://127.0.0.1:1/0", QUEUES)() == []
