"""The Python client's wait against a real Redis: what is stored is found, whether or not it was heard of."""

from __future__ import annotations

import contextlib
import gc
import json
import threading
import time
from typing import TYPE_CHECKING

import pytest
from celery.result import AsyncResult
from tests.waiting import wait_for

from worker.cli import devstack
from worker.client import Client, RetrieveTopK
from worker.errors import InvalidJob, SettingsError, TimedOut, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from worker.cli.devstack import Stack

PLACE = "celery-task-meta-job"
ANSWER = {"exc_type": "InvalidJob", "exc_message": ["k: wrong"], "exc_module": "worker.errors"}
RECORD = json.dumps({"task_id": "job", "status": "FAILURE", "result": ANSWER, "traceback": None, "children": []})


def test_an_answer_whose_publication_is_lost_is_found(stack: Stack, store: redis.Redis) -> None:
    """It is stored, and nothing is published: long before the timeout the client has it."""

    def keep_silently() -> None:
        wait_for(lambda: "cmdstat_get" in store.info("commandstats"))  # it has looked
        store.set(PLACE, RECORD)

    store.config_resetstat()
    silent = threading.Thread(target=keep_silently)
    with contextlib.closing(Client(stack.redis.url(0), stack.redis.url(1))) as client:
        silent.start()
        with pytest.raises(InvalidJob, match="k: wrong"):
            client.result("job", timeout=180)
        assert not silent.is_alive()
        silent.join()


def test_an_answer_that_does_not_come_is_waited_for_so_long(stack: Stack, store: redis.Redis) -> None:
    del store  # emptied
    with contextlib.closing(Client(stack.redis.url(0), stack.redis.url(1))) as client:
        before = time.monotonic()
        with pytest.raises(TimedOut, match=r"no answer within 1\.5 s"):
            client.result("job", timeout=1.5)
        assert time.monotonic() - before >= 1.5


def test_the_redis_that_is_away_is_named(stack: Stack) -> None:
    """Of the queues or of the results: a backend has two addresses to look at."""
    away, job = "redis://127.0.0.1:1/0", RetrieveTopK(query_embedding=[0.0] * 767 + [1.0])
    for urls, name in (
        (("", away), "result_backend (CELERY_RESULT_BACKEND)"),
        ((away, ""), "broker_url (CELERY_BROKER_URL)"),
    ):
        broker, results = (url or stack.redis.url(number) for number, url in enumerate(urls))
        with contextlib.closing(Client(broker, results)) as client, pytest.raises(Unavailable) as raised:
            client.enqueue(job)
        assert raised.value.message == f"{name}: Redis is away"


def test_nothing_is_kept_of_an_answer_that_did_not_come(stack: Stack, store: redis.Redis) -> None:
    """Celery would keep an object for each, and print a traceback for it when the interpreter ends."""
    del store  # emptied
    with Client(stack.redis.url(0), stack.redis.url(1)) as client:
        with pytest.raises(TimedOut):
            client.result("a job of this test alone", timeout=0.1)
        gc.collect()
        kept = [one.id for one in gc.get_objects() if isinstance(one, AsyncResult)]
    assert "a job of this test alone" not in kept


@pytest.mark.parametrize("number", [0, 3])
def test_no_answer_names_the_place_that_was_looked_at(stack: Stack, broker: redis.Redis, number: int) -> None:
    """The workers store results in another database: the error says which one this is, and what to compare it with."""
    where = broker.get_connection_kwargs()
    address = f"{where['host']}:{where['port']}"
    with (
        contextlib.closing(Client(stack.redis.url(0), stack.redis.url(number))) as client,
        pytest.raises(TimedOut) as raised,
    ):
        client.result("job", timeout=0.1)
    assert f"in the results at {address}, database {number}: " in raised.value.message
    assert "compare this with their CELERY_RESULT_BACKEND" in raised.value.message
    assert not [user for user, password in stack.redis.passwords.items() if password in raised.value.message]


def test_a_result_that_outlives_its_client_asks_for_nothing(tmp_path: Path) -> None:
    """Held by an error's traceback, it is collected when its Redis may be long gone."""
    with devstack.redis_server(tmp_path, users=False) as server:
        client = Client(server.url(0), server.url(1))
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
def test_a_password_that_redis_refuses_is_no_outage(stack: Stack, wrong: str, use: str) -> None:
    """It stays wrong: the error names the argument, and nothing of the password."""
    if not stack.redis.passwords:
        pytest.skip("this Redis has no users")
    urls = dict(zip(("broker_url", "result_backend"), stack.redis.urls("producer"), strict=True))
    urls[wrong] = urls[wrong].replace("producer:", "producer:x")
    argument = RetrieveTopK(query_embedding=[0.5]) if use in {"enqueue", "call"} else "job"
    with contextlib.closing(Client(**urls)) as client, pytest.raises(SettingsError) as raised:
        getattr(client, use)(argument)
    assert raised.value.message.startswith(f"{wrong} (CELERY_")
    assert raised.value.message.endswith(REFUSED)


def test_a_user_who_may_not_send_is_no_outage(stack: Stack) -> None:
    """Its rights stay as they are until somebody changes them."""
    if not stack.redis.passwords:
        pytest.skip("this Redis has no users")
    said = r"^broker_url .*: this Redis user lacks a backend's permissions"
    made = Client(stack.redis.url(0, "flower"), stack.redis.url(1, "producer"))
    with contextlib.closing(made) as client, pytest.raises(SettingsError, match=said):
        client.enqueue(RetrieveTopK(query_embedding=[0.5]))
