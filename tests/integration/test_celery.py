"""The task through Celery's own machinery (its own test app and worker) on real Redis and Postgres."""

from __future__ import annotations

import contextlib
import json
import time
import tomllib
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from celery.contrib.testing.app import TestApp, setup_default_app
from celery.contrib.testing.worker import start_worker

from retrieval_client.contract.registry import TASKS
from worker.app import celery_settings
from worker.core.text import lexical
from worker.jobs.engine import Engine
from worker.queue import codec, results, tasks
from worker.queue.metrics import Metrics
from worker.settings import Settings, from_values
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery import Celery

    from worker.cli.devstack.stack import Stack

QUESTION = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()
ALICE = {"user_id": "alice"}


@pytest.fixture(scope="module")
def module_settings(stack: Stack, sample_template: str) -> Settings:
    # A clone of its own: a template can't be cloned while somebody is connected to it.
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE celery_tests TEMPLATE {sample_template}")
    values = tomllib.loads((config_folder() / "worker.toml").read_text())
    values |= {
        "database_connection_string": stack.postgres.dsn("celery_tests", "retrieval_worker"),
        "broker_url": stack.redis.url(2),
        "result_backend": stack.redis.url(3),
        "trust_queue": True,
    }
    return from_values(values)


@pytest.fixture(scope="module")
def app(module_settings: Settings) -> Iterator[Celery]:
    """Celery's own test app with the project's tasks, while a worker in this process serves it."""
    codec.install()
    served = TestApp(set_as_current=False, config=celery_settings(module_settings))
    with contextlib.closing(Engine(module_settings, time.perf_counter)) as engine, setup_default_app(served):
        served.loader.override_backends = results.OVERRIDES
        tasks.register(served, module_settings, lambda: engine, Metrics(module_settings.metrics))
        with start_worker(served, queues=("retrieval",), perform_ping_check=False, shutdown_timeout=180):
            yield served


def send(app: Celery, *args: Any, **kwargs: Any) -> Any:
    # This app has the task, and Celery would send its time limits along, which the contract refuses.
    limits = {"time_limit": None, "soft_time_limit": None}
    return app.send_task("retrieve_top_k", args, kwargs, queue="retrieval", argsrepr="(job)", **limits)


def test_a_job_is_answered_through_redis(app: Celery) -> None:
    """A stock Celery producer sends a dictionary and gets a dictionary."""
    answer = send(app, {"query_embedding": QUESTION, "principal": ALICE}).get(timeout=180)
    assert (answer["status"], len(answer["chunks"])) == ("ok", 15)


def test_a_repeat_is_byte_identical_but_for_its_trace(app: Celery) -> None:
    """The same job gives the same bytes."""
    stored = []
    for _ in range(3):
        sent = send(app, {"query_embedding": QUESTION, "principal": ALICE})
        sent.get(timeout=180)
        record = json.loads(app.backend.client.get(app.backend.get_key_for_task(sent.id)))
        record["result"].pop("trace")
        stored.append(json.dumps(record["result"]))
    assert len(set(stored)) == 1


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "only positional argument"),
        (({}, {}), {}, "only positional argument"),
        (({"query_embedding": QUESTION, "principal": ALICE},), {"k": 3}, "only positional argument"),
        (({"query_embedding": QUESTION[:-1], "principal": ALICE},), {}, "query_embedding: expected exactly 768"),
    ],
)
def test_a_wrong_job_fails_once_as_the_contract_says(
    app: Celery, args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    """`exc_type` is the error's name, `exc_message` a list of one sentence, and there is no stack trace."""
    sent = send(app, *args, **kwargs)
    sent.get(timeout=180, propagate=False)
    record = json.loads(app.backend.client.get(app.backend.get_key_for_task(sent.id)))
    assert record["status"] == "FAILURE"
    assert record["result"]["exc_type"] == "InvalidJob"
    (sentence,) = record["result"]["exc_message"]
    assert said in sentence
    assert record["traceback"] is None


def test_results_expire(app: Celery) -> None:
    """A result that is not fetched expires."""
    sent = send(app, {"query_embedding": QUESTION, "principal": ALICE})
    sent.get(timeout=180)
    left = app.backend.client.ttl(app.backend.get_key_for_task(sent.id))
    assert 0 < left <= 3600


def test_every_task_of_the_registry_has_a_handler(module_settings: Settings) -> None:
    """A task that is added without one fails here, and not at its first job."""
    with contextlib.closing(Engine(module_settings, time.perf_counter)) as engine:
        assert engine.handlers.keys() == {task.name for task in TASKS}
