from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import kombu.serialization
import pytest
from celery import signals
from kombu.utils.imports import symbol_by_name

from worker.app import (
    CONFIGURATION_EXIT_CODE,
    celery_settings,
    create_app,
    refuse_unsafe_pool,
    refuse_unsafe_start,
)
from worker.queue.request import QuietConsumer
from worker.queue.tasks import RetrievalTask
from worker.queue.transport import SecureTransport, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.settings import Settings


@pytest.fixture(autouse=True)
def _kombu_s_own_json() -> Iterator[None]:
    """An app installs its JSON for the process; other tests start from kombu's."""
    yield
    kombu.serialization.register_json()


def test_only_json_comes_in(make_settings: Callable[..., Settings]) -> None:
    """Pickle and every other serializer are refused, in tasks and in results."""
    conf = create_app(make_settings()).conf
    assert (conf.accept_content, conf.result_accept_content) == (["json"], ["json"])
    assert (conf.task_serializer, conf.result_serializer) == ("json", "json")


def test_a_job_is_acknowledged_once_it_is_answered(make_settings: Callable[..., Settings]) -> None:
    """Late, and given back where its process was lost: at least once."""
    app = create_app(make_settings())
    task = app.tasks["retrieve_top_k"]
    assert (task.acks_late, task.reject_on_worker_lost, app.conf.task_acks_on_failure_or_timeout) == (True,) * 3


def test_an_unacknowledged_job_comes_back_after_the_longest_one_ends(make_settings: Callable[..., Settings]) -> None:
    """The visibility timeout is longer than the hard limit, which is longer than the soft one."""
    conf = celery_settings(make_settings())
    visibility = conf["broker_transport_options"]["visibility_timeout"]
    assert conf["task_soft_time_limit"] < conf["task_time_limit"] < visibility


def test_a_fork_collects_nothing_of_start_up(make_settings: Callable[..., Settings]) -> None:
    """Celery collects garbage before each fork, while no job is handed out: start-up's objects are left out of it."""
    create_app(make_settings())
    gc.unfreeze()
    try:
        signals.worker_before_create_process.send(sender=None)
        frozen = gc.get_freeze_count()
        assert frozen > len(gc.get_objects())
        signals.worker_before_create_process.send(sender=None)
        assert gc.get_freeze_count() <= frozen, "frozen once: what comes later may be garbage"
    finally:
        gc.unfreeze()


def test_results_go_to_the_broker_unless_settings_say_otherwise(make_settings: Callable[..., Settings]) -> None:
    """One Redis is enough; a second one is used where it is named."""
    one = celery_settings(make_settings(broker_url="redis://one/0"))
    two = celery_settings(make_settings(broker_url="redis://one/0", result_backend="redis://two/1"))
    assert (one["result_backend"], two["result_backend"]) == ("redis://one/0", "redis://two/1")


def test_the_consumer_and_requests_are_the_quiet_ones(make_settings: Callable[..., Settings]) -> None:
    """Celery's consumer and request are replaced wherever they could print a message."""
    app = create_app(make_settings())
    assert app.conf.worker_consumer == f"{QuietConsumer.__module__}:{QuietConsumer.__name__}"
    assert app.tasks["retrieve_top_k"].Request == "worker.queue.request:QuietRequest"


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_the_transport_knows_what_a_message_must_be(make_settings: Callable[..., Settings], scheme: str) -> None:
    """The one that loses nothing serves every URL of Redis, and takes the tasks of the contract and no other."""
    settings = make_settings(broker_url=f"{scheme}://one/0", worker={"max_deliveries": 3})
    conf = celery_settings(settings)
    served = symbol_by_name(conf["broker_transport"])
    assert issubclass(served, Transport)
    assert issubclass(served, SecureTransport) == (scheme == "rediss")
    rules = conf["broker_transport_options"]["rules"]
    assert {*rules.tasks} <= CONTRACT
    assert (rules.max_deliveries, rules.callbacks) == (3, False)
    assert rules.max_bytes == settings.limits.max_message


CONTRACT = {
    "retrieve_top_k",
    "pinned_replay",
    "build_citations",
    "retrieve_hybrid",
    "run_pipeline",
    "record_feedback",
    "verify_runs",
}


def test_tasks_are_those_of_the_contract(make_settings: Callable[..., Settings]) -> None:
    """Every task that a message can name is in the contract, and has what all have in common."""
    tasks = create_app(make_settings()).tasks
    ours = {name for name, task in tasks.items() if isinstance(task, RetrievalTask)}
    assert {"retrieve_top_k"} <= ours <= CONTRACT


def test_two_apps_of_one_process_share_no_task(make_settings: Callable[..., Settings]) -> None:
    """Each app answers by its own settings, whichever was made first."""
    apps = [create_app(make_settings(limits={"max_keys": bound})) for bound in (16, 32)]
    for app in apps:
        app.conf.update(task_time_limit=None, task_soft_time_limit=None)  # eager calls have none
    job = {str(i): i for i in range(50)}
    refusals = [str(app.tasks["retrieve_top_k"].apply((job,)).result) for app in apps]
    assert refusals == ["expected at most 16 fields, got 50", "expected at most 32 fields, got 50"]


@pytest.mark.parametrize("name", ["gevent", "eventlet"])
def test_a_pool_of_greenlets_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one sentence, and with the exit code of wrong settings; neither need be installed for it."""
    pool = type("TaskPool", (), {"__module__": f"celery.concurrency.{name}"})
    with pytest.raises(SystemExit, match="78"):
        refuse_unsafe_pool(pool)
    assert f"--pool={name}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "warns"),
    [("prefork", False), ("worker.queue.pool:TaskPool", False), ("solo", True), ("threads", True)],
)
def test_other_pools_are_not(name: str, warns: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """The worker starts, and reports the guarantees that they do not keep."""
    refuse_unsafe_pool(name)
    said = "".join(capsys.readouterr())
    assert ("no time limits of jobs" in said) == warns


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"token_keys": {"k1": " "}}, "RETRIEVAL_WORKER_TOKEN_KEYS: the key k1: "),
        ({"language_model": {"kind": "openai"}}, "RETRIEVAL_WORKER_LANGUAGE_MODEL__API_KEY is missing"),
    ],
)
def test_what_would_fail_each_time_stops_the_start(
    make_settings: Callable[..., Settings], capsys: pytest.CaptureFixture[str], changes: dict[str, Any], said: str
) -> None:
    """A key that checks no token, a model that can't be had: 78 and a sentence, before any server is asked."""
    with pytest.raises(SystemExit) as stopped:
        refuse_unsafe_start(make_settings(**changes))
    assert stopped.value.code == CONFIGURATION_EXIT_CODE
    assert capsys.readouterr().err.startswith(f"retrieval-worker: {said}")
