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
    refuse_other_pool,
    refuse_unsafe_start,
    rules,
)
from worker.queue.remote_channel import SecureTransport, Transport

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


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_the_worker_knows_what_a_message_must_be(make_settings: Callable[..., Settings], scheme: str) -> None:
    """One transport serves every URL of Redis; the tasks of the contract are taken and no other."""
    settings = make_settings(broker_url=f"{scheme}://one/0", worker={"max_deliveries": 3})
    served = symbol_by_name(celery_settings(settings)["broker_transport"])
    assert issubclass(served, Transport)
    assert issubclass(served, SecureTransport) == (scheme == "rediss")
    known = rules(settings)
    assert {*known.tasks} <= CONTRACT
    assert (known.max_deliveries, known.callbacks) == (3, False)
    assert known.max_bytes == settings.limits.max_message


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
    """Every task that a message can name is in the contract; Celery itself runs none."""
    tasks = create_app(make_settings()).tasks
    ours = {name for name in tasks if not name.startswith("celery.")}
    assert {"retrieve_top_k"} <= ours <= CONTRACT
    with pytest.raises(NotImplementedError, match="processes answer jobs"):
        tasks["retrieve_top_k"]({})


def test_a_job_that_the_app_sends_has_no_time_limit(make_settings: Callable[..., Settings]) -> None:
    """It would be refused for it: the next one of a chain, and beat's."""
    app = create_app(make_settings())
    task = app.tasks["retrieve_top_k"]
    assert (task.time_limit, task.soft_time_limit, app.conf.task_time_limit) == (None, None, None)


@pytest.mark.parametrize("name", ["gevent", "solo", "threads"])
def test_another_pool_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one sentence, and with the exit code of wrong settings; its package need not be installed for it."""
    pool = type("TaskPool", (), {"__module__": f"celery.concurrency.{name}"})
    with pytest.raises(SystemExit, match="78"):
        refuse_other_pool(pool)
    assert f"--pool={name}: " in capsys.readouterr().err


def test_our_own_pool_is_not(make_settings: Callable[..., Settings]) -> None:
    """As the settings name it."""
    refuse_other_pool(celery_settings(make_settings())["worker_pool"])


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
