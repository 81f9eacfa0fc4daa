"""A real worker process that searches by meaning."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client import Client, Hybrid, RetrieveHybrid
from retrieval_client.contract.jobs import HybridSearch
from retrieval_client.errors import SettingsError
from workbench.devstack.workers import celery_worker
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.adapters.providers.local_embedder import LocalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import load
from worker.cli.sample_vectors import known
from worker.core.text.words import STOP_WORDS, WORD, folded
from worker.jobs.corpus_embedders import RECORDS_SECONDS
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

QUERY = "why do I hear nothing"


def words(text: str) -> set[str]:
    return {word for word in WORD.findall(folded(text, "NFKC")) if word not in STOP_WORDS}


def test_a_query_finds_a_chunk_with_which_it_shares_no_word(
    admin: psycopg.Connection[Any], client: Client, worker_environment: Callable[..., Any], worker_log: Path
) -> None:
    """By the vectors that `load` stored; a worker with the lexical embedder refuses them, naming both."""
    for file in SAMPLES.values():
        load(admin, read(file), known(LocalEmbedder(EmbedderSettings(kind="local"))))
    job = RetrieveHybrid(query=QUERY, legs=["primary"])
    with celery_worker(worker_environment(EMBEDDER__KIND="local"), worker_log, "--concurrency=2"):
        answer = client.call(job, timeout=60)
    assert isinstance(answer, Hybrid)
    first = answer.results["docs"].chunks[0]
    assert first.chunk_id == "docs-debugging-001"
    assert not words(QUERY) & words(first.text)
    with (
        celery_worker(worker_environment(), worker_log, "--concurrency=1"),
        pytest.raises(SettingsError, match=r"all-MiniLM-L6-v2-int8.*lexical 1"),
    ):
        client.call(job, timeout=60)


def test_a_running_worker_sees_who_filled_a_table(
    admin: psycopg.Connection[Any], client: Client, worker_environment: Callable[..., Any], worker_log: Path
) -> None:
    """Without a record by its vectors, and after `load` by the new record: it refuses, and searches again."""
    admin.execute("TRUNCATE retrieval.embedders")
    docs, model = read(SAMPLES["docs"]), known(LocalEmbedder(EmbedderSettings(kind="local")))
    job = RetrieveHybrid(query=QUERY, searches=[HybridSearch(corpus="docs", top_k=5)])
    with celery_worker(worker_environment(EMBEDDER__KIND="local"), worker_log, "--concurrency=1"):
        with pytest.raises(SettingsError, match=r"not recorded.*all-MiniLM-L6-v2-int8"):
            client.call(job, timeout=60)
        load(admin, docs, model)
        time.sleep(RECORDS_SECONDS)
        assert client.call(job, timeout=60)
        load(admin, docs, LexicalEmbedder())
        time.sleep(RECORDS_SECONDS)
        with pytest.raises(SettingsError, match=r"lexical 1.*all-MiniLM-L6-v2-int8"):
            client.call(job, timeout=60)
