"""CPU of a pipeline question in a worker's process, by what it is spent on: settings as shipped, the local model.

    python -m benchmarks.pipeline_overhead --write benchmarks/results
    python -m benchmarks.pipeline_overhead --set FOLDER --profile

No language model answers, so the answers are sentences of the sources. CPU is that of all threads of the process; with
a worker around it, also what Celery and Redis' messages take.
"""

from __future__ import annotations

import contextlib
import cProfile
import io
import itertools
import pstats
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 -- typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from benchmarks.command import as_command
from benchmarks.costs import cpu_seconds
from benchmarks.labelled_sets import CALLER, SAMPLES, SETS, LabelledSet, loaded
from rich.console import Console

from retrieval_client import Client
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RunPipeline
from workbench import demo
from workbench.devstack.stack import local_stack
from workbench.devstack.workers import celery_worker, stack_environment
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine, spare_collections
from worker.queue.codec import JobResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.evaluation.queries import LabelledQuery

    Figures = Mapping[str, Sequence[float]]

GOAL_MS = 25.0
PARTS = (
    "embedding of the question",
    "searches, scores, fusion",
    "near duplicates, cut",
    "package",
    "`synthesize_context`",
    "`execute`",
    "stored, in the contract's form",
    "job read, answer written",
)
WHOLE, HYBRID = "whole", "`retrieve_hybrid`, whole"
_STAGES = {"query": PARTS[0], "search": PARTS[1], "remote": PARTS[3], "execute": PARTS[5]}
WARM_UP = 10

console = Console(width=150)


class Laps:
    """CPU time of this process, in milliseconds, by the names of what it began with."""

    def __init__(self) -> None:
        self.ms: defaultdict[str, float] = defaultdict(float)
        self._name, self._since = PARTS[7], time.process_time()

    def begin(self, name: str, *_: int) -> None:
        """End what runs, and begin with something else."""
        now = time.process_time()
        self.ms[self._name] += (now - self._since) * 1000
        self._name, self._since = name, now

    def move(self, ms: float, source: str, target: str) -> None:
        """Count some time elsewhere."""
        self.ms[source] -= ms
        self.ms[target] += ms


@dataclass(frozen=True)
class Kind:
    """Kind of questions.

    Attributes:
        name: in the table.
        jobs: of the questions.
    """

    name: str
    jobs: Sequence[Mapping[str, Any]]


def kinds(labelled: LabelledSet) -> Iterator[Kind]:
    """The questions of a set: as they are, three in one, in an editor, and as the second of a conversation."""
    queries = labelled.queries
    yield Kind("questions", [_job(query) for query in queries])
    several = [queries[i : i + 3] for i in range(0, len(queries) - 2, 3)]
    yield Kind("three in one", [_job(some[0], " ".join(query.question for query in some)) for some in several])
    earlier = [[{"role": "user", "content": one.question}] for one in queries]
    turns = itertools.pairwise(zip(queries, earlier, strict=True))
    yield Kind("second questions", [_job(query, conversation_history=turn) for (_, turn), (query, _) in turns])
    if (labelled.folder / "contexts.jsonl").is_file():
        yield Kind("in an editor", [_job(one, mode="code", context=one.context) for one in labelled.contexts])


def _job(query: LabelledQuery, question: str = "", **more: Any) -> dict[str, Any]:
    search = {"corpus": query.corpus or "documents", "top_k": 8}
    return {"question": question or query.question, "mode": "grounded", "searches": [search], **more}


def pipeline_ms(engine: Engine, job: Mapping[str, Any]) -> dict[str, float]:
    """Milliseconds of a question, by part."""
    laps = Laps()
    answer = engine.pipeline_jobs.answer(parse_job(RunPipeline, job), JobContext(lambda: CALLER, report=_named(laps)))
    laps.begin(PARTS[7])
    JobResult(answer, "")
    laps.begin("")
    durations = {stage["stage"]: stage["duration_ms"] for stage in answer["trace"]["stages"]}
    laps.move(durations["synthesize_context"], PARTS[3], PARTS[4])
    laps.move(laps.ms[PARTS[5]] - durations["execute"], PARTS[5], PARTS[6])
    return {**laps.ms, WHOLE: sum(laps.ms.values())}


def _named(laps: Laps) -> Any:
    """A report of stages that names their parts."""
    return lambda stage, *_: laps.begin(_STAGES.get(stage, PARTS[2]))


def hybrid_ms(engine: Engine, job: Mapping[str, Any]) -> float:
    """Milliseconds of the same question as `retrieve_hybrid`."""
    started = time.process_time()
    asked = {"query": job["question"], "searches": job["searches"], "context": job.get("context", "")}
    JobResult(engine.hybrid.retrieve(parse_job(RetrieveHybrid, asked), JobContext(lambda: CALLER)), "")
    return (time.process_time() - started) * 1000


def measured(engine: Engine, jobs: Sequence[Mapping[str, Any]]) -> Figures:
    """Milliseconds of each question, by part."""
    for job in jobs[:WARM_UP]:
        pipeline_ms(engine, job)
        hybrid_ms(engine, job)
    figures: defaultdict[str, list[float]] = defaultdict(list)
    for job in jobs:
        for part, ms in pipeline_ms(engine, job).items():
            figures[part].append(ms)
        figures[HYBRID].append(hybrid_ms(engine, job))
    return figures


@contextlib.contextmanager
def engine_of(labelled: LabelledSet) -> Iterator[Engine]:
    """An engine over a set, whose durations are CPU time, as a worker's process has it."""
    with loaded(labelled) as settings:
        engine = Engine(settings, time.process_time)
        spare_collections()
        try:
            yield engine
        finally:
            engine.close()


def worker_ms(rounds: int) -> float:
    """Milliseconds of CPU that a worker with one process takes for a question over the sample corpus."""
    with local_stack() as stack:
        kind = demo.install_sample(stack, Console(stderr=True)).kind
        environment = stack_environment(stack, TRUST_QUEUE="true", EMBEDDER__KIND=kind)
        jobs = [RunPipeline(**_job(query), principal={"user_id": "alice"}) for query in SAMPLES.queries]
        with (
            celery_worker(environment, stack.root / "worker.log", "--concurrency=1") as worker,
            Client(*stack.redis.urls("producer")) as client,
        ):
            for job in jobs[:WARM_UP]:
                client.call(job)
            before = cpu_seconds(worker.pid)
            for job in jobs * rounds:
                client.call(job)
            return (cpu_seconds(worker.pid) - before) * 1000 / (len(jobs) * rounds)


def table(columns: Mapping[str, Figures]) -> str:
    """Means by part, which add up, in Markdown."""
    rows = [["---", *["--:"] * len(columns)]]
    rows += [[part, *(f"{statistics.fmean(one[part]):.1f}" for one in columns.values())] for part in (*PARTS, WHOLE)]
    rows.append(["whole, p95", *(f"{statistics.quantiles(one[WHOLE], n=20)[-1]:.1f}" for one in columns.values())])
    rows.append([HYBRID, *(f"{statistics.fmean(one[HYBRID]):.1f}" for one in columns.values())])
    headings = ["ms of CPU, mean", *(f"{name} ({len(one[WHOLE])})" for name, one in columns.items())]
    return "\n".join("| " + " | ".join(row) + " |" for row in [headings, *rows])


def profiled(engine: Engine, jobs: Sequence[Mapping[str, Any]]) -> str:
    """The functions that take most of the time, over all questions."""
    profiler = cProfile.Profile(time.thread_time)
    profiler.enable()
    for job in jobs:
        pipeline_ms(engine, job)
    profiler.disable()
    text = io.StringIO()
    for order in ("cumulative", "tottime"):
        pstats.Stats(profiler, stream=text).sort_stats(order).print_stats(70)
    return text.getvalue()


def main(
    folder: Annotated[
        Path | None,
        typer.Option("--set", help="A set of yours: corpus.json and queries.jsonl.", exists=True, file_okay=False),
    ] = None,
    most: Annotated[int, typer.Option("--questions", help="Most questions of a kind.", min=20)] = 200,
    profile: Annotated[bool, typer.Option(help="Show what the time of the questions goes to.")] = False,
    write: Annotated[
        Path | None, typer.Option("--write", help="Write pipeline_cpu.md into this folder.", file_okay=False)
    ] = None,
) -> None:
    """Measure; exit code 1 where a question of a set costs more than its goal."""
    sets = SETS if folder is None else [LabelledSet(folder.name, folder, (folder / "corpus.json",))]
    parts, means = [], []
    for labelled in sets:
        with engine_of(labelled) as engine:
            asked = {kind.name: kind.jobs[:most] for kind in kinds(labelled)}
            columns = {name: measured(engine, jobs) for name, jobs in asked.items() if jobs}
            if profile:
                console.print(profiled(engine, asked["questions"]), markup=False, highlight=False)
        means.append(statistics.fmean(columns["questions"][WHOLE]))
        parts += [f"### {labelled.name}", table(columns)]
        console.print("\n\n".join(parts[-2:]), markup=False, highlight=False)
    if folder is None:
        parts.insert(0, f"A whole worker of one process, sample corpus: **{worker_ms(2):.1f} ms** a question.")
        console.print(parts[0])
    if write is not None:
        title = f"Goal: {GOAL_MS:g} ms of CPU a question (`python -m benchmarks.pipeline_overhead`)."
        (write / "pipeline_cpu.md").write_text("\n\n".join([title, *parts]) + "\n", encoding="utf-8")
    if max(means) > GOAL_MS:
        raise typer.Exit(1)


if __name__ == "__main__":
    as_command(main, "benchmarks.pipeline_overhead")
