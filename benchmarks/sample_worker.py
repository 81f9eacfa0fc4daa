"""A worker over the sample corpus, and a job for it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from retrieval_client import RetrieveTopK, encode_embedding
from workbench.devstack.stack import local_stack
from workbench.devstack.workers import celery_worker, stack_environment
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import load, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class SampleWorker:
    """A running worker.

    Attributes:
        urls: the queues' Redis and that of the results, as a producer.
        admin_url: the queues' Redis, for all commands.
        job: a search that it answers.
    """

    urls: tuple[str, str]
    admin_url: str
    job: RetrieveTopK


@contextlib.contextmanager
def sample_worker(processes: int) -> Iterator[SampleWorker]:
    """Run servers and a worker of so many processes over the sample documents."""
    embedder = LexicalEmbedder()
    with local_stack() as stack:
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as connection:
            migrate(connection)
            load(connection, read(SAMPLES["documents"]), embedder)
        (query,) = embedder.embed(["What causes the hum on channel 18?"])
        job = RetrieveTopK(query_embedding=encode_embedding(query), k=10, principal={"user_id": "alice"})
        environment = stack_environment(stack, TRUST_QUEUE="true", EMBEDDER__KIND="lexical")
        with celery_worker(environment, stack.root / "worker.log", f"--concurrency={processes}"):
            queues, results = stack.redis.urls("producer")
            yield SampleWorker((queues, results), stack.redis.url(0), job)
