"""Turns of callers: a lone job beside another caller's backlog, shares of 64 callers, and what turns cost.

python -m benchmarks.turns --backlog 100000 --write benchmarks/results
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import statistics
import time
import uuid
from collections import Counter
from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
import redis
import typer
from benchmarks.command import as_command
from benchmarks.quality import markdown
from benchmarks.side_by_side.figures import percentile
from rich.console import Console

from retrieval_client import Client, RetrieveTopK, encode_embedding
from retrieval_client.contract.message import compose
from retrieval_client.contract.registry import task_of
from retrieval_client.jobs import signed
from synthetic.loading import TENANT, Index
from synthetic.loading import load as load_dataset
from synthetic.progress import steps
from synthetic.vectors import Dataset
from workbench.devstack.stack import local_stack
from workbench.devstack.workers import celery_worker, stack_environment
from worker.queue.broker import keys, turns
from worker.queue.claims import Claims

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from workbench.devstack.stack import Stack

QUEUE, OWN_QUEUE = "retrieval", "pipeline"
LONE, LONE_ROUNDS = 300, 4
"""Lone jobs, one after another, of which each wait is measured; with and without a backlog in turns."""

OWN = ", by an idle worker on a queue of its own"
"""What a lone job takes beside it though it waits for no other: both cores are busy."""

SHARERS, SHARED = 64, 2000
AT_ONCE = 1000


class Load:
    """Jobs of any callers, and the worker that answers them, over a corpus."""

    def __init__(self, stack: Stack, dataset: Dataset) -> None:
        self._stack = stack
        self._queries = itertools.cycle(encode_embedding(query.tolist()) for query in dataset.queries(320))
        self.broker = redis.Redis.from_url(stack.redis.url(0))
        self.client = Client(*stack.redis.urls("producer"))

    def job(self, caller: int) -> RetrieveTopK:
        """A job of a caller, given by number."""
        principal = {"user_id": f"user-{caller:05d}", "tenant_id": TENANT}
        return RetrieveTopK(query_embedding=next(self._queries), principal=principal, k=15)

    def send(self, callers: Iterable[int]) -> None:
        """Send a job of each caller, in their order."""
        task = task_of(RetrieveTopK)
        messages = []
        for caller in callers:
            task_id = f"{caller:05d}-{uuid.uuid4()}"
            messages.append(compose(task, task_id, signed(self.job(caller), None, None, task_id), None))
        for first in range(0, len(messages), AT_ONCE):
            self.broker.lpush(QUEUE, *messages[first : first + AT_ONCE])

    def wait_until_empty(self) -> None:
        """Wait until nothing waits."""
        while turns.waiting(self.broker, QUEUE):
            time.sleep(0.02)

    def lone(self, queue: str = QUEUE) -> list[float]:
        """Milliseconds that each lone job of another caller takes, from its sending to its answer."""
        task, took = task_of(RetrieveTopK), []
        for _ in range(LONE):
            task_id = f"lone-{uuid.uuid4()}"
            message = compose(task, task_id, signed(self.job(99_999), None, None, task_id), None)
            start = time.perf_counter()
            self.broker.lpush(queue, message)
            self.client.result(task_id, timeout=600)
            took.append((time.perf_counter() - start) * 1000)
        return took

    def answered(self) -> Counter[str]:
        """How many jobs of each caller were answered."""
        prefix = b"celery-task-meta-"
        return Counter(key[len(prefix) :][:5].decode() for key in self.results().scan_iter(prefix + b"*", 10_000))

    def results(self) -> redis.Redis:
        """The Redis of the results."""
        return redis.Redis.from_url(self._stack.redis.url(1))

    @contextlib.contextmanager
    def worker(self, *, fair: bool) -> Iterator[None]:
        """A worker with a process for each core."""
        with self._worker(QUEUE, os.cpu_count() or 1, fair=fair):
            self.send([0] * 200)
            self.wait_until_empty()
            yield

    def idle_worker(self) -> contextlib.AbstractContextManager[Any]:
        """A worker that has a queue for itself."""
        return self._worker(OWN_QUEUE, 1, fair=True)

    def _worker(self, queue: str, processes: int, *, fair: bool) -> contextlib.AbstractContextManager[Any]:
        settings = {"TRUST_QUEUE": "true", "EMBEDDER__KIND": "lexical", "LOG__LEVEL": "WARNING"}
        environment = stack_environment(self._stack, WORKER__FAIR=f"{fair}".lower(), **settings)
        log = self._stack.root / f"turns-{queue}.log"
        return celery_worker(environment, log, f"--concurrency={processes}", queues=queue)

    def purge(self) -> None:
        """Forget all that waits in the queue."""
        self.broker.delete(QUEUE)
        turns.purge(self.broker, QUEUE)

    def clear(self) -> None:
        """Forget all that waits, and all answers."""
        self.broker.flushall()


def jobs_a_second(load: Load, callers: list[int], *, fair: bool) -> float:
    """How fast a worker empties a queue."""
    load.clear()
    with load.worker(fair=fair):
        start = time.perf_counter()
        load.send(callers)
        load.wait_until_empty()
        return len(callers) / (time.perf_counter() - start)


def ratios(load: Load, callers: list[int], rounds: int) -> list[float]:
    """Jobs a second with turns, divided by those without, of pairs of runs in turns."""
    found = []
    for number in range(rounds):
        pair = {fair: jobs_a_second(load, callers, fair=fair) for fair in (number % 2 == 0, number % 2 == 1)}
        found.append(pair[True] / pair[False])
    return found


def lone(load: Load, backlog: int) -> tuple[list[float], list[float], list[float], int]:
    """Milliseconds of lone jobs: alone, beside a backlog, beside it in a queue of their own; the least left of it."""
    alone, beside, waitless = [], [], []
    left = backlog
    with load.worker(fair=True), load.idle_worker():
        load.lone()
        for _ in range(LONE_ROUNDS):
            alone += load.lone()
            load.send([0] * backlog)
            beside += load.lone()
            waitless += load.lone(OWN_QUEUE)
            left = min(left, turns.waiting(load.broker, QUEUE))
            load.purge()
            load.wait_until_empty()
    return alone, beside, waitless, left


def shares(load: Load) -> float:
    """Largest difference to an equal share, after `SHARED` answers of callers who sent one to eight times as much."""
    load.clear()
    weights = [1 + caller % 8 for caller in range(SHARERS)]
    backlog = random.Random(7).choices(range(SHARERS), weights, k=SHARED * 10)  # noqa: S311 -- a shuffle
    with load.worker(fair=True):
        before = load.answered().total()
        load.send(backlog)
        while (counts := load.answered()).total() - before < SHARED:
            time.sleep(0.02)
        load.purge()
    counts["00000"] -= before
    equal = counts.total() / SHARERS
    return max(abs(count - equal) for count in counts.values()) / equal


def claim_microseconds(broker: redis.Redis, url: str, callers: int, backlog: int) -> float:
    """Time of a claim from a sorted backlog."""
    broker.flushall()
    each = max(1, backlog // callers)
    with broker.pipeline(transaction=False) as pipe:
        for number in range(callers):
            name = keys.caller(QUEUE, f"{number:016d}")
            pipe.zadd(keys.callers(QUEUE), {name: 0})
            for first in range(0, each, AT_ONCE):
                pipe.lpush(name, *([b"x" * 1000] * min(AT_ONCE, each - first)))
            if number % 1000 == 0 or each > AT_ONCE:
                pipe.execute()
        pipe.hset(keys.numbers(QUEUE), "sorted", each * callers)
        pipe.execute()
    with redis.Redis.from_url(url, socket_timeout=30) as client:
        claims = Claims(client, [QUEUE], "benchmark-1", lambda _: None, turn_of=lambda raw: raw[:1].decode())
        took = []
        for _ in range(300):
            start = time.perf_counter()
            claims.take(4)
            took.append((time.perf_counter() - start) * 1e6)
        claims.close()
    return statistics.median(took)


def main(
    rows: Annotated[int, typer.Option(help="Chunks in the corpus.", min=1_000)] = 100_000,
    backlog: Annotated[int, typer.Option(help="Jobs of one caller.", min=1_000)] = 100_000,
    jobs: Annotated[int, typer.Option(help="Jobs of a measurement of throughput.", min=100)] = 6_000,
    rounds: Annotated[int, typer.Option(help="Pairs of such measurements.", min=1)] = 6,
    only: Annotated[str, typer.Option(help="Of lone, shares, throughput, claims.")] = "lone,shares,throughput,claims",
    write: Annotated[Path | None, typer.Option(help="Write the table into this folder.", exists=True)] = None,
) -> None:
    """Measure what callers gain and what turns cost, all in one run."""
    dataset = Dataset(rows)
    rows_of_table: list[list[str]] = []
    with local_stack() as stack:
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin, steps() as progress:
            load_dataset(admin, dataset, Index(32, 200), progress)
        load = Load(stack, dataset)
        if "lone" in only:
            alone, beside, waitless, left = lone(load, backlog)
            for share, (name, waits) in itertools.product((0.5, 0.99), {"": beside, OWN: waitless}.items()):
                pair = percentile(waits, share), percentile(alone, share)
                row = f"lone job beside {backlog:,}{name}, p{share * 100:.0f}"
                rows_of_table.append([row, f"{pair[0]:.1f} ÷ {pair[1]:.1f} ms = {pair[0] / pair[1]:.2f}"])
            rows_of_table.append(["least that still waited after that", f"{left:,}"])
        if "shares" in only:
            rows_of_table.append([f"{SHARERS} callers after {SHARED} jobs, worst share", f"{shares(load):.1%}"])
        if "throughput" in only:
            for name, callers in {"one caller": 1, "four callers": 4, "10,000 callers": 10_000}.items():
                found = ratios(load, [number % callers for number in range(jobs)], rounds)
                figure = f"{statistics.median(found):.3f} ({min(found):.3f}–{max(found):.3f})"
                rows_of_table.append([f"jobs/s with turns ÷ without, {name}", figure])
        if "claims" in only:
            for callers, messages in (
                (1, 10_000),
                (100, 10_000),
                (10_000, 10_000),
                (10_000, 1_000_000),
                (1, 1_000_000),
            ):
                took = claim_microseconds(load.broker, stack.redis.url(0), callers, messages)
                rows_of_table.append([f"claim of 4, {callers:,} callers, {messages:,} messages", f"{took:.0f} µs"])
    text = markdown(["", "figure"], rows_of_table)
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
    if write is not None:
        (write / "turns.md").write_text(f"{rows:,} chunks.\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    as_command(main, "benchmarks.turns")
