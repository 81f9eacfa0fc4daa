"""A part that can't be had: the task that needs it says so, and the others answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.registry import TASKS
from retrieval_client.errors import SettingsError
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.settings import Settings

MISSING = [
    ({"profiles": {"p": {"legs": [{"kind": "dense"}], "rerank": "http"}}}, r"reranker\.url"),
    ({"language_model": {"tokenizer": "/no/such/tokenizer.json"}}, "tokenizer"),
]


@pytest.mark.parametrize(("changes", "says"), MISSING, ids=["reranker", "tokenizer"])
def test_a_search_needs_no_part_of_the_pipeline(
    make_settings: Callable[..., Settings], database: str, changes: dict[str, Any], says: str
) -> None:
    """`retrieve_top_k` answers where a reranker or tokenizer is missing; `run_pipeline` names the setting."""
    settings = make_settings(database, **changes)
    engine = Engine(settings, time.perf_counter)
    try:
        query = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()
        caller = as_principal({"user_id": "alice"}, settings, "principal")
        answer = engine.retrieval.top_k(parse_job(RetrieveTopK, {"query_embedding": query}), JobContext(lambda: caller))
        assert answer["status"] == "ok"
        with pytest.raises(SettingsError, match=says):
            _ = engine.pipeline_jobs
    finally:
        engine.close()


def test_every_task_of_the_registry_has_a_handler(engine: Engine) -> None:
    """A task that is added without one fails here, and not at its first job."""
    assert engine.handlers.keys() == {task.name for task in TASKS}
