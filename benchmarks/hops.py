"""The way of one job alone: how long each hop takes, from call to answer, by the times that Redis gives its commands.

    python -m benchmarks.hops

`MONITOR` shows every command with the server's clock, which is the client's on this machine; the time of the search
itself is in the answer's trace. Watching costs Redis some microseconds a command: trust the shares.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import redis
import typer
from benchmarks.command import as_command
from benchmarks.sample_worker import sample_worker
from rich.console import Console
from rich.table import Table

from retrieval_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from retrieval_client import RetrieveTopK

WARM_UP = 20
HOPS = (
    "client: check, encode, send",
    "a process wakes, takes the job, decodes and checks it; encodes the answer, sends it",
    "the search itself, by the answer's trace",
    "Redis stores and publishes the answer",
    "client: receive, decode, return",
)


@dataclass(frozen=True)
class Command:
    """A command that Redis ran: when, in seconds of the Unix clock, and its text."""

    time: float
    text: str


class Watch:
    """Collects what Redis runs, in a thread of its own, until the connection ends."""

    def __init__(self, url: str) -> None:
        self.commands: list[Command] = []
        self._ready = threading.Event()
        threading.Thread(target=self._listen, args=(url,), daemon=True).start()
        self._ready.wait(10)

    def _listen(self, url: str) -> None:
        with redis.Redis.from_url(url).monitor() as monitor, contextlib.suppress(redis.ConnectionError):
            self._ready.set()
            for line in monitor.listen():
                self.commands.append(Command(line["time"], line["command"][:200]))

    def wait_for(self, moment: float) -> None:
        """Wait until a command after this moment was seen, for at most ten seconds."""
        until = time.monotonic() + 10
        while (not self.commands or self.commands[-1].time < moment) and time.monotonic() < until:
            time.sleep(0.05)

    def between(self, start: float, end: float) -> Iterator[Command]:
        """The commands of a span of time."""
        return (command for command in self.commands if start <= command.time <= end)


def hops(start: float, end: float, commands: Sequence[Command], job_ms: float) -> list[float]:
    """Milliseconds of each of `HOPS` of one job.

    Args:
        start: when it was called.
        end: when its answer was there.
        commands: what Redis ran meanwhile, in order.
        job_ms: the stages of its trace together.
    """
    sent_at = _first(commands, "LPUSH retrieval ")
    stored_at, published_at = _first(commands, "SETEX celery-task-meta"), _first(commands, "PUBLISH celery-task-meta")
    received_at = max(
        command.time for command in commands if command.time <= stored_at and command.text.startswith("EVAL")
    )
    spans = [
        1000 * span for span in (sent_at - start, received_at - sent_at, published_at - received_at, end - published_at)
    ]
    return [spans[0], spans[1] - job_ms, job_ms, *spans[2:]]


def _first(commands: Sequence[Command], beginning: str) -> float:
    return next(command.time for command in commands if command.text.startswith(beginning))


def measure(client: Client, watch: Watch, job: RetrieveTopK, jobs: int) -> list[list[float]]:
    """The hops of so many jobs, one after another; the first `WARM_UP` do not count."""
    times: list[tuple[float, float, float]] = []
    for _ in range(WARM_UP + jobs):
        start = time.time()
        answer = client.call(job)
        times.append((start, time.time(), sum(stage.duration_ms for stage in answer.trace.stages)))
    watch.wait_for(times[-1][1])
    return [hops(start, end, [*watch.between(start, end)], job_ms) for start, end, job_ms in times[WARM_UP:]]


def main(jobs: Annotated[int, typer.Option(help="Jobs to measure.", min=10)] = 300) -> None:
    """Print the median of each hop of a lone job, over the sample corpus and a worker of one process."""
    with sample_worker(1) as running, Client(*running.urls) as client:
        hops_by_job = measure(client, Watch(running.admin_url), running.job, jobs)
    table = Table("hop of a lone job", "median ms", "p95")
    for name, values in [
        *zip(HOPS, zip(*hops_by_job, strict=True), strict=True),
        ("all", [sum(job_hops) for job_hops in hops_by_job]),
    ]:
        table.add_row(name, f"{statistics.median(values):.2f}", f"{sorted(values)[int(len(values) * 0.95)]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    as_command(main, "benchmarks.hops")
