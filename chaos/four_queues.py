"""Four queues under the same faults, jobs and workers; their histories judged by `chaos.check`, into one table.

All of them run from an environment of Python 3.13 with this project and ``celery-redis-plus[redis]``, where Debian's
``rabbitmq-server`` is installed, its service stopped: each run starts a server of its own.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from importlib import metadata
from platform import python_version
from statistics import median
from typing import TYPE_CHECKING, Any

import redis
from celery import Celery

from chaos.brokers import BROKERS, NAMED_BY, VISIBILITY_SECONDS
from chaos.check import judge_file
from chaos.corpus import Corpus
from chaos.history import History
from chaos.jobs import QUEUE, Questions
from chaos.ledger import Ledger
from chaos.oracle import Oracle
from chaos.plan import Counts, plan
from chaos.producer import Producer
from chaos.run import Run
from chaos.stage import RunOptions, stage
from chaos.watcher import Watcher, executions, holdings
from retrieval_client.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from chaos.brokers import Broker
    from chaos.scene import Scene

FAULTS = Counts(worker_kills=10, redis_kills=4, freezes=6)
BURSTS, BURST = 3, 300
WARM_UP = 30
PATIENCE_SECONDS = 170.0
"""The slowest of them redelivers a dead worker's messages within 136 s."""
AGAIN_SECONDS = 0.2


class CeleryProducer(Producer):
    """Sends jobs as a backend with Celery does, each once."""

    def __init__(self, broker: Broker, scene: Scene, questions: Questions, jobs: int, ledger: Ledger) -> None:
        super().__init__(scene.results, questions, jobs, ledger, most_open=jobs)
        self._settings = {"broker_url": scene.redis.url(0, "producer"), **broker.settings}
        self._app = self._connect()

    def _connect(self) -> Any:
        app = Celery(set_as_current=False)
        app.conf.update(self._settings)
        return app

    def _submit(self, questions: list[Any]) -> int:
        acknowledged = 0
        for question in questions:
            self._ledger.history.invoke(question)
            try:
                self._app.send_task(question.task, [question.job], task_id=question.task_id, queue=QUEUE, retry=False)
            except Exception:  # noqa: BLE001 -- whatever the broker's client raises: the job may be queued or not
                self._note([question], None)
                self._app = self._connect()
                self._stopped.wait(AGAIN_SECONDS)
            else:
                self._note([question], time.monotonic())
                acknowledged += 1
        return acknowledged


class _Run(Run):
    """Goes on with the next fault while a queue has not recovered: that takes some of them minutes."""

    recovery_seconds = 10.0

    def warm_up(self) -> float:
        """Return how many jobs a second are sent and answered, once all workers are ready.

        Raises:
            SettingsError: one does not start, or a job is not answered, though nothing failed yet.
        """
        fleet = self.scene.fleet
        if not self._wait(lambda: all(worker.is_ready for worker in fleet.workers) or bool(fleet.crashes), 60.0):
            raise SettingsError("a worker is not ready within a minute")
        if fleet.crashes:
            raise SettingsError(f"a worker ended at its start: {fleet.crashes[0]}")
        self._answer(WARM_UP)
        return median(BURST / self._answer(BURST) for _ in range(BURSTS))

    def _answer(self, count: int) -> float:
        started = time.monotonic()
        self.producer.burst(count)
        if not self._wait(lambda: not self.ledger.open, PATIENCE_SECONDS):
            raise SettingsError(f"{len(self.ledger.open)} of {count} jobs are not answered, before any fault")
        return time.monotonic() - started

    def _redis_is_empty(self) -> bool:
        return True


def run_queue(name: str, seed: int, jobs: int, folder: Path, progress: Callable[[int, str], None]) -> None:
    """Run one queue; its history and figures are written into the folder.

    Raises:
        SettingsError: a server or the workers do not start.
    """
    broker, oracle = BROKERS[name], Oracle(Corpus())
    warm_up_jobs = WARM_UP + BURSTS * BURST
    transport = "reliable" if name == "ours" else "stock"
    options = RunOptions(warm_up_jobs + jobs, seed, FAULTS, transport, patience=PATIENCE_SECONDS, own_results=True)
    with (
        (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file,
        stage(options, oracle.corpus, None, {NAMED_BY: name}, proxied=False, broker=broker.server) as scene,
    ):
        ledger, questions = Ledger(History(file)), Questions(seed, oracle)
        producer = CeleryProducer(broker, scene, questions, options.jobs, ledger)
        producer.allow(0)
        with Watcher(scene.results, ledger, oracle) as watcher, producer:
            faults = plan(seed, jobs, options.workers, FAULTS)
            faults = tuple(replace(fault, after=fault.after + warm_up_jobs) for fault in faults)
            run = _Run(options, scene, ledger, producer, watcher, progress, faults)
            throughput = run.warm_up()
            run.go()
            producer.stop()
            scene.fleet.stop()
            watcher.finish()
        repeated_runs = sum(count - 1 for count in executions(scene.fleet.logs).values())
        figures = {"again": repeated_runs, "held": _still_held(scene, ledger), "throughput": throughput, "seed": seed}
        packages = [f"{name} {metadata.version(name)}" for name in ("celery", *broker.packages)]
        figures["on"] = ", ".join([scene.redis.version, *packages, f"Python {python_version()}"])
    figures["date"] = time.strftime("%Y-%m-%d")
    (folder / f"{name}.json").write_text(json.dumps(figures), encoding="utf-8")


def _still_held(scene: Scene, ledger: Ledger) -> str:
    """Return how many jobs without outcome the broker still has, if it can be asked."""
    try:
        return str(len(set().union(*holdings(scene.redis)) & {*ledger.open}))
    except redis.RedisError:
        return "–"


def table(folder: Path) -> Iterator[str]:
    """Yield the lines of the page: all queues that have run in the folder.

    Raises:
        SettingsError: none has.
    """
    ran = {name: folder / f"{name}.json" for name in BROKERS if (folder / f"{name}.json").exists()}
    if not ran:
        raise SettingsError(f"no queue has run in {folder}: there is nothing to compare")
    yield "| queue | jobs | lost | still queued | wrong | second differs | run again | recovery p50 | p99 | jobs/s |"
    yield f"| --- |{' ---: |' * 9}"
    for name, file in ran.items():
        run_figures, verdict = json.loads(file.read_text(encoding="utf-8")), judge_file(str(folder / f"{name}.jsonl"))
        count, violations = verdict.figures, verdict.violations
        times = [f"{count[percentile]:.1f} s" for percentile in ("p50", "p99")]
        numbers = (
            count["jobs"],
            violations["lost"],
            run_figures["held"],
            violations["wrong"] + violations["foreign"],
            violations["second differs"],
        )
        cells = [*map(str, numbers), str(run_figures["again"]), *times, f"{run_figures['throughput']:.0f}"]
        yield f"| {BROKERS[name].title} | {' | '.join(cells)} |"
    yield ""
    kinds = f"{FAULTS.worker_kills} killed workers, {FAULTS.redis_kills} killed brokers, {FAULTS.freezes} frozen ones"
    yield f"The same jobs, workers (3 × 2 processes) and faults: {kinds} of both."
    yield f"{run_figures['date']}, seed {run_figures['seed']}, two cores: `python -m chaos queues`."
    yield ""
    yield f"- **Lost**: acknowledged, and without outcome {PATIENCE_SECONDS:.0f} s after the last outcome of any job;"
    yield "  **still queued**: those of them that the broker has."
    yield "- **Recovery**: from a fault's begin until each job that was open then, and is not lost, has its outcome."
    yield "- **Run again**: runs of a job after its first, from the workers' logs."
    yield "- **jobs/s**: before the faults; beside other work on the machine, it differs twofold from run to run."
    yield "- The others have `task_acks_late` and `task_reject_on_worker_lost`; RabbitMQ has publisher confirms. Those"
    yield f"  on Redis have {VISIBILITY_SECONDS} s of visibility timeout, not 3,600 and 300. Redis syncs each write."
    yield ""
    yield "In their own words:"
    yield ""
    for name, file in ran.items():
        broker, on = BROKERS[name], json.loads(file.read_text(encoding="utf-8"))["on"]
        yield f"- {broker.title} ({on}): “{broker.promise}” ({broker.source})"
