"""The cache of `run_pipeline` through real worker processes."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING, Any

from tests.integration.provider import Provider, provider_that_says

from retrieval_client import Client, PipelineAnswer, RunPipeline
from workbench.devstack.processes import free_port
from workbench.devstack.workers import celery_worker
from worker.core.prompting.prompts import prompt_cache_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Environment = Callable[..., dict[str, str]]

SAID = "A dried-out 470 µF supply capacitor is the likely cause [S1]."
ALICE = {"user_id": "alice"}
TURNS = ["What causes the 50 Hz hum on channel 18?", "Which capacitor is it?", "And what does it cost?"]

provider = provider_that_says(SAID)


def call(client: Client, **fields: Any) -> PipelineAnswer:
    answer = client.call(RunPipeline.model_validate({"principal": ALICE, **fields}), timeout=180)
    assert isinstance(answer, PipelineAnswer)
    return answer


def test_a_chain_goes_on_over_a_hit_in_another_process(
    client: Client, provider: Provider, worker_environment: Environment, worker_log: Path
) -> None:
    """Three turns, the first a hit on what an earlier process found; what the model words in full is not cached."""
    port = free_port()
    environment = worker_environment(
        CACHE__TASKS='["run_pipeline"]',
        METRICS__PORT=str(port),
        LANGUAGE_MODEL__KIND="openai",
        LANGUAGE_MODEL__MODEL="m",
        LANGUAGE_MODEL__BASE_URL=provider.url,
    )
    chat = {"chat_mode": "chat", "conversation_id": "c1"}
    with celery_worker(environment, worker_log, "--concurrency=1"):
        found = call(client, question=TURNS[0], stop_after="build_sources")
    with celery_worker(environment, worker_log, "--concurrency=1"):
        first = call(client, question=TURNS[0], **chat)
        second = call(client, question=TURNS[1], prior_response_id=first.response_id, **chat)
        third = call(client, question=TURNS[2], prior_response_id=second.response_id, **chat)
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=180).read().decode()
    assert [answer.trace.cache for answer in (found, first, second, third)] == ["miss", "hit", None, None]
    assert first.package.candidates == found.package.candidates
    answering = [sent for sent in provider.requests if "prompt_cache_key" in sent]
    assert [sent.get("previous_response_id") for sent in answering] == [None, "resp_1", "resp_2"]
    key = prompt_cache_key("alice", "openai", "m", "grounded", "c1")
    assert [sent["prompt_cache_key"] for sent in answering] == [key] * 3
    assert third.trace.warnings == []
    assert 'retrieval_cache_lookups_total{state="hit",task="run_pipeline"} 1.0' in text
