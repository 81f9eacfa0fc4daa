"""The waits of both Python clients against a real Redis: what is stored is found, whether or not it was heard of."""

from __future__ import annotations

import gc
import json
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.clients import refuse
from tests.waiting import wait_for

from retrieval_client import Client, RetrieveTopK
from retrieval_client.errors import (
    InternalError,
    InvalidJob,
    RetrievalError,
    SettingsError,
    TimedOut,
    Unavailable,
)
from retrieval_client.ledger import Ledger
from retrieval_client.testing import example_of
from workbench.devstack.redis import redis_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.devstack.stack import Stack

JOB = RetrieveTopK(query_embedding=[0.5])
PLACE = "celery-task-meta-job"
ANSWER = {"exc_type": "InvalidJob", "exc_message": ["k: wrong"], "exc_module": "worker.errors"}
RECORD = json.dumps({"task_id": "job", "status": "FAILURE", "result": ANSWER, "traceback": None, "children": []})


@pytest.fixture
def client(connect: Callable[..., Any], stack: Stack, store: redis.Redis) -> Client:
    """A client, of either kind."""
    del store  # emptied
    return connect(stack.redis.url(0), stack.redis.url(1))


def subscribed(store: redis.Redis) -> int:
    """Count the jobs that somebody waits for."""
    return len(store.pubsub_channels("celery-task-meta-*"))


def test_an_answer_whose_publication_is_lost_is_found(client: Client, store: redis.Redis) -> None:
    """It is stored, and nothing is published: long before the timeout the client has it."""

    def keep_silently() -> None:
        wait_for(lambda: "cmdstat_get" in store.info("commandstats"))  # it has looked
        store.set(PLACE, RECORD)

    store.config_resetstat()
    silent = threading.Thread(target=keep_silently)
    silent.start()
    with pytest.raises(InvalidJob, match="k: wrong"):
        client.result("job", timeout=180)
    assert not silent.is_alive()
    silent.join()


def test_an_answer_that_does_not_come_is_waited_for_so_long(client: Client) -> None:
    before = time.monotonic()
    with pytest.raises(TimedOut, match=r"no answer within 1\.5 s"):
        client.result("job", timeout=1.5)
    assert time.monotonic() - before >= 1.5


def test_the_redis_that_is_away_is_named(connect: Callable[..., Any], stack: Stack) -> None:
    """Of the queues or of the results: a backend has two addresses to look at."""
    away, job = "redis://127.0.0.1:1/0", RetrieveTopK(query_embedding=[0.0] * 767 + [1.0])
    for urls, name in (
        (("", away), "result_backend (CELERY_RESULT_BACKEND)"),
        ((away, ""), "broker_url (CELERY_BROKER_URL)"),
    ):
        broker, results = (url or stack.redis.url(number) for number, url in enumerate(urls))
        with pytest.raises(Unavailable) as raised:
            connect(broker, results).enqueue(job)
        assert raised.value.message == f"{name}: Redis is away (127.0.0.1:1, database 0)"


def test_a_redis_that_is_full_is_told_from_one_that_is_away(client: Client, stack: Stack, broker: redis.Redis) -> None:
    """It answers, and takes no more: looking for an outage would find none."""
    broker.config_set("maxmemory", "1")
    try:
        with pytest.raises(Unavailable) as raised:
            client.enqueue(RetrieveTopK(query_embedding=[0.0] * 767 + [1.0]))
    finally:
        broker.config_set("maxmemory", "0")
    place = f"(127.0.0.1:{stack.redis.port}, database 0)"
    assert raised.value.message == f"broker_url (CELERY_BROKER_URL): Redis is full (maxmemory) {place}"


def test_connections_are_used_again_and_nothing_stays_subscribed(client: Client, store: redis.Redis) -> None:
    """However many jobs were waited for, one after another, answered or not."""
    store.set(PLACE, RECORD)
    before = len(store.client_list())
    for _ in range(20):
        with pytest.raises(InvalidJob):
            client.result("job", timeout=180)
        with pytest.raises(TimedOut):
            client.result("another", timeout=0)
    wait_for(lambda: not subscribed(store))
    assert len(store.client_list()) <= before + 2
    client.close()
    wait_for(lambda: len(store.client_list()) == before)


def test_many_threads_wait_at_once_and_each_gets_its_own(client: Client, store: redis.Redis) -> None:
    """One client serves them all."""
    names = [f"job-{number}" for number in range(32)]
    with ThreadPoolExecutor(len(names)) as threads:
        waiting = [threads.submit(client.result, name, 180) for name in names]
        wait_for(lambda: subscribed(store) == len(names))
        for name in names:
            refuse(store, name)
        assert [str(wait.exception()) for wait in waiting] == names
    wait_for(lambda: not subscribed(store))


def test_two_wait_for_one_job(client: Client, store: redis.Redis) -> None:
    """The first to go leaves the other one subscribed."""
    with ThreadPoolExecutor(2) as threads:
        hasty, patient = (threads.submit(client.result, "job", seconds) for seconds in (0.2, 180))
        with pytest.raises(TimedOut, match=r"no answer within 0\.2 s"):
            hasty.result()
        refuse(store, "job")
        assert isinstance(patient.exception(), InvalidJob)


def test_a_lost_connection_is_made_again(client: Client, store: redis.Redis) -> None:
    """The subscription of who waits, too."""
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.result, "job", 180)
        wait_for(lambda: subscribed(store))
        store.client_kill_filter(_type="pubsub")
        wait_for(lambda: subscribed(store))
        refuse(store, "job")
        assert isinstance(waiting.exception(), InvalidJob)


def test_closing_a_client_ends_the_waits_of_other_threads(
    connect: Callable[..., Any], stack: Stack, store: redis.Redis
) -> None:
    """With the sentence of a closed client, not an error of the connection that was taken away, which stays away."""
    before = len(store.client_list())
    for _ in range(20):  # at several moments of the wait
        client = connect(stack.redis.url(0), stack.redis.url(1))
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(client.result, "job", 180)
            while not subscribed(store) and not waiting.done():
                pass
            client.close()
            with pytest.raises(RuntimeError, match="the client is closed"):
                waiting.result(timeout=60)
        wait_for(lambda: len(store.client_list()) == before)


def test_what_a_closed_client_meets_inside_redis_py_is_told_as_closed(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection may be taken away at any moment of a command: here as it is about to be used."""
    client = Client(stack.redis.url(0), stack.redis.url(1))

    def closed_meanwhile(*_: object) -> None:
        client.close()
        raise TypeError("argument must be an int, or have a fileno() method.")

    monkeypatch.setattr(redis.Redis, "get", closed_meanwhile)
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.progress("job")


def test_a_forked_process_has_connections_of_its_own(stack: Stack, store: redis.Redis) -> None:
    """A server that forks its workers after it has used the client: both go on."""
    store.set(PLACE, RECORD)
    with Client(stack.redis.url(0), stack.redis.url(1)) as client:
        with pytest.raises(InvalidJob):
            client.result("job", timeout=180)
        if (child := os.fork()) == 0:
            try:
                client.result("job", timeout=180)
            except InvalidJob:
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(InvalidJob):
            client.result("job", timeout=180)


WRONG_RECORDS = [
    *("no json", "[]", "{}", "[" * 100_000, '{"status": 1}', '{"status": "SUCCESS", "result": ' + "9" * 5000 + "}"),
    *('{"status": "SUCCESS", "result": 1}', '{"status": "SUCCESS", "result": {"schema_version": 2}}'),
    *('{"status": "FAILURE"}', '{"status": "FAILURE", "result": {"exc_type": ["InvalidJob"], "exc_message": 1}}'),
]


@pytest.mark.parametrize("wrong", WRONG_RECORDS, ids=range(len(WRONG_RECORDS)))
def test_what_is_no_record_is_an_error_of_its_job_alone(
    client: Client, store: redis.Redis, tmp_path: Path, wrong: str
) -> None:
    """Somebody else wrote it: the jobs beside it are answered, and a ledger's row is closed."""
    right = json.dumps({"status": "SUCCESS", "result": example_of(JOB)})
    records = {"before": right, "job": wrong, "later": right}
    store.mset({f"celery-task-meta-{name}": record for name, record in records.items()})
    with pytest.raises(InternalError):
        client.result("job", timeout=180)
    outcomes = {outcome.task_id: type(outcome.error) for outcome in client.results(records, timeout=180)}
    assert outcomes == {"before": type(None), "job": InternalError, "later": type(None)}
    with Ledger(tmp_path / "ledger.sqlite", client) as ledger:
        for name in records:
            ledger.add(JOB, task_id=name)
        assert {outcome.task_id: type(outcome.error) for outcome in ledger.run()} == outcomes
        assert ledger.open() == []


def test_an_answer_that_is_no_json_closes_its_row_in_a_ledger(stack: Stack, store: redis.Redis, tmp_path: Path) -> None:
    """Of metadata that Python can read and not write."""
    answer = example_of(JOB)
    answer["chunks"][0]["metadata"] = {"half a character": "\ud800"}
    store.set(PLACE, json.dumps({"status": "SUCCESS", "result": answer}))
    with (
        Client(stack.redis.url(0), stack.redis.url(1)) as client,
        Ledger(tmp_path / "ledger.sqlite", client) as ledger,
    ):
        ledger.add(JOB, task_id="job")
        (outcome,) = ledger.run()
        assert isinstance(outcome.error, InternalError)
        ledger._rows.execute("UPDATE jobs SET answer = '{}', error = NULL")
        read = ledger.outcome("job")
        assert read is not None
        assert isinstance(read.error, InternalError)


def test_progress_of_another_form_is_no_error(client: Client, store: redis.Redis) -> None:
    """Numbers and texts of the wrong type are unknown."""
    for done in (1, "x", [], None):
        store.set(PLACE, json.dumps({"status": "PROGRESS", "result": {"stage": [done], "done": done}}))
        assert client.progress("job").stage is None
    store.set(PLACE, json.dumps({"status": "PROGRESS", "result": {"stage": "a\x1b[2Jb", "done": 1}}))
    assert client.progress("job").stage == "a\\x1b[2Jb"


def test_a_failure_s_sentence_moves_no_terminal(client: Client, store: redis.Redis) -> None:
    """Its control characters are spelled out, of the contract's errors and of others."""
    hostile = "k: \x1b[2J\x9b31m\r\u202egone\n"
    for failure in ({"exc_type": "InvalidJob", "exc_message": [hostile]}, {"exc_type": hostile}):
        store.set(PLACE, json.dumps({"status": "FAILURE", "result": failure}))
        with pytest.raises(RetrievalError, match=r"\\x1b\[2J\\x9b31m\\r\\u202egone\\n") as raised:
            client.result("job", timeout=180)
        assert str(raised.value).isprintable()


@pytest.mark.parametrize("scheme", ["unix", "redis+socket"])
def test_a_socket_of_the_file_system_is_spoken_to(connect: Callable[..., Any], tmp_path: Path, scheme: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket is short
        socket = f"{folder}/r.sock"
        settings = {"unixsocket": socket, "unixsocketperm": "777"}
        Path(folder).chmod(0o777)
        with redis_server(tmp_path, users=False, settings=settings) as server:
            database = "virtual_host" if scheme == "redis+socket" else "db"
            urls = f"{scheme}://{socket}?{database}=0", f"{scheme}://{socket}?{database}=1"
            with redis.Redis.from_url(server.url(1)) as store:
                store.set(PLACE, RECORD)

            with connect(*urls) as client:
                with pytest.raises(InvalidJob, match="k: wrong"):
                    client.result("job", timeout=180)
                assert client.enqueue(JOB)


def test_results_in_another_database_than_the_workers_are_found(
    connect: Callable[..., Any], stack: Stack, store: redis.Redis
) -> None:
    """Redis publishes to all its databases: the first answer that is only published says so."""
    client = connect(stack.redis.url(0), stack.redis.url(2))
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(client.result, "job", 180)
        wait_for(lambda: subscribed(store))
        refuse(store, "job")
        with pytest.raises(SettingsError, match=r"^result_backend .*not stored at .*, database 2: workers store"):
            waiting.result()
    wait_for(lambda: not subscribed(store))


@pytest.mark.parametrize("number", [0, 3])
def test_no_answer_names_the_place_that_was_looked_at(
    connect: Callable[..., Any], stack: Stack, broker: redis.Redis, number: int
) -> None:
    """The workers store results in another database: the error says which one this is, and what to compare it with."""
    where = broker.get_connection_kwargs()
    address = f"{where['host']}:{where['port']}"
    with pytest.raises(TimedOut) as raised:
        connect(stack.redis.url(0), stack.redis.url(number)).result("job", timeout=0.1)
    assert f"in the results at {address}, database {number}: " in raised.value.message
    assert "compare this with their CELERY_RESULT_BACKEND" in raised.value.message
    assert not [user for user, password in stack.redis.passwords.items() if password in raised.value.message]


def test_a_result_that_outlives_its_client_asks_for_nothing(connect: Callable[..., Any], tmp_path: Path) -> None:
    """Held by an error's traceback, it is collected when its Redis may be long gone."""
    with redis_server(tmp_path, users=False) as server:
        client = connect(server.url(0), server.url(1))
        with pytest.raises(TimedOut) as held:
            client.result("job", timeout=0.1)
        client.close()
    gc.collect()
    del held
    gc.collect()


REFUSED = "Redis refuses this user or password. Check both against users.acl of that Redis"


USES = [
    *(("broker_url", use) for use in ("enqueue", "call")),
    *(("result_backend", use) for use in ("enqueue", "call", "result", "progress", "forget")),
]


@pytest.mark.parametrize(("wrong", "use"), USES)
def test_a_password_that_redis_refuses_is_no_outage(
    connect: Callable[..., Any], stack: Stack, wrong: str, use: str
) -> None:
    """It stays wrong: the error names the argument, and nothing of the password."""
    urls = dict(zip(("broker_url", "result_backend"), stack.redis.urls("producer"), strict=True))
    urls[wrong] = urls[wrong].replace("producer:", "producer:x")
    with pytest.raises(SettingsError) as raised:
        getattr(connect(**urls), use)(JOB if use in {"enqueue", "call"} else "job")
    assert raised.value.message.startswith(f"{wrong} (CELERY_")
    assert raised.value.message.endswith(REFUSED)


@pytest.mark.parametrize("use", ["enqueue", "call", "result", "progress", "forget"])
def test_a_closed_client_says_so_before_it_looks_for_redis(connect: Callable[..., Any], use: str) -> None:
    """Which is away."""
    client = connect("redis://127.0.0.1:1/0")
    argument = JOB if use in {"enqueue", "call"} else "job"
    with pytest.raises(Unavailable, match=r"^broker_url .*: Redis is away"):
        getattr(client, use)(argument)
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        getattr(client, use)(argument)


def test_a_user_who_may_not_send_is_no_outage(connect: Callable[..., Any], stack: Stack) -> None:
    """Its rights stay as they are until somebody changes them."""
    said = r"^broker_url .*: this Redis user lacks a backend's permissions"
    client = connect(stack.redis.url(0, "flower"), stack.redis.url(1, "producer"))
    with pytest.raises(SettingsError, match=said):
        client.enqueue(JOB)
