"""The project's own search, asked and timed by callers who see more or less, and judged by what it found."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from benchmarks.costs import cpu_seconds
from benchmarks.truth import brute_force, leaked, recall_against, recall_by_distance

from retrieval_client.errors import SettingsError
from synthetic.progress import steps
from synthetic.stage import CORPUS, Stage
from workbench.calibration import STEPS, Caller, CorpusCalibration, as_toml, calibration
from worker.adapters.postgres.search import Corpus
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from synthetic.loading import Progress
    from synthetic.vectors import Vectors
    from workbench.core.calibration import Goal
    from worker.adapters.postgres.search import SearchResult

K = 15
SHIPPED, EXACT, CALIBRATED = "", "exact", "calibrated"


@dataclass(frozen=True)
class Variant:
    """A way to search.

    Attributes:
        name: ``""`` for the shipped settings, ``exact``, or the setting that differs (``ef_search=200``).
        corpus: searches that way.
        exact: ask for exact search.
    """

    name: str
    corpus: Corpus
    exact: bool = False


@dataclass
class Answers:
    """Answers of one variant to one caller.

    Attributes:
        search_results: an answer for each query.
        ms: duration of each.
        postgres_ms: processor time of Postgres for each query, on average; 0 where it was not measured.
    """

    search_results: list[SearchResult] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    postgres_ms: float = 0.0


Runs = dict[tuple[int, str], Answers]


def ask(on: Stage, variants: Sequence[Variant], percents: Sequence[int], queries: Vectors) -> Runs:
    """Every query by every caller in every way.

    Those that use the index go first once to warm the caches, and take turns at each query, so that a busy
    moment of the machine favours none. Exact search reads the whole table, which would leave the
    processor's caches cold for the next one: it has a turn of its own.
    """
    by_plan = [(percent, variant) for percent in percents for variant in variants if not variant.exact]
    exactly = [(percent, variant) for percent in percents for variant in variants if variant.exact]
    with steps() as progress:
        _turns(on, "warming up", by_plan, queries, progress)
        runs = _turns(on, "searching", by_plan, queries, progress)
        _note_processor_time(on, runs, by_plan, queries, progress)
        _turns(on, "warming up for exact search", exactly, queries[:3], progress)
        return runs | _turns(on, "searching exactly", exactly, queries, progress)


def _turns(on: Stage, step: str, cases: Sequence[tuple[int, Variant]], queries: Vectors, progress: Progress) -> Runs:
    runs: Runs = {(percent, variant.name): Answers() for percent, variant in cases}
    for i, query in enumerate(queries):
        progress(step, i, len(queries))
        for percent, variant in cases:
            search_result, ms = _timed(on, variant, percent, query)
            runs[percent, variant.name].search_results.append(search_result)
            runs[percent, variant.name].ms.append(ms)
    progress(step, len(queries), len(queries))
    return runs


def _note_processor_time(
    on: Stage, runs: Runs, cases: Sequence[tuple[int, Variant]], queries: Vectors, progress: Progress
) -> None:
    """Ask all queries of a case in a row: processor time is counted in ticks, too coarse for one query."""
    server = psutil.Process(on.admin.info.backend_pid).ppid()
    for i, (percent, variant) in enumerate(cases):
        progress("processor time", i, len(cases))
        seconds_before = cpu_seconds(server)
        for query in queries:
            _timed(on, variant, percent, query)
        runs[percent, variant.name].postgres_ms = (cpu_seconds(server) - seconds_before) * 1000 / len(queries)
    progress("processor time", len(cases), len(cases))


def _timed(on: Stage, variant: Variant, percent: int, query: Vectors) -> tuple[SearchResult, float]:
    caller = on.caller(percent)
    started = time.perf_counter()
    search_result = variant.corpus.nearest(on.database, caller, query, K, NO_FILTERS, exact=variant.exact)
    return search_result, (time.perf_counter() - started) * 1000


def judge(on: Stage, runs: Runs, percent: int, name: str) -> dict[str, Any]:
    """One line of the result: how right one variant was for one caller, and how fast."""
    answers, exact = runs[percent, name], runs[percent, EXACT]
    visible = on.dataset.visible(percent)
    recalls = [
        recall_against(search_result.candidates, true.candidates)
        for search_result, true in zip(answers.search_results, exact.search_results, strict=True)
    ]
    lengths = [len(search_result.candidates) for search_result in answers.search_results]
    return {
        "visible_percent": percent,
        "variant": name,
        "rows_min": min(lengths),
        "rows_wanted": min(K, int(visible.sum())),
        "recall_mean": float(np.mean(recalls)),
        "recall_p1": float(np.percentile(recalls, 1)),
        "recall_worst": min(recalls),
        "by_index": sum(search_result.method == "index" for search_result in answers.search_results)
        / len(answers.search_results),
        # Of most searches: where nothing is near, a search is repeated wider.
        "ef_search": statistics.median_low(search_result.ef_search for search_result in answers.search_results),
        "median_ms": float(np.median(answers.ms)),
        "p99_ms": float(np.percentile(answers.ms, 99)),
        "postgres_ms": answers.postgres_ms,
        "exact_median_ms": float(np.median(exact.ms)),
        "leaked": sum(leaked(search_result.candidates, visible) for search_result in answers.search_results),
    }


def check_exact(on: Stage, runs: Runs, percents: Iterable[int], queries: Vectors) -> dict[int, float]:
    """Recall of the project's exact search against NumPy's brute force in float64, by percent visible."""
    distances = brute_force(on.dataset, queries)
    checked = {}
    for percent in percents:
        visible = on.dataset.visible(percent)
        exact = runs[percent, EXACT].search_results[: len(queries)]
        checked[percent] = float(
            np.mean(
                [
                    recall_by_distance(search_result.candidates, row, visible, K)
                    for search_result, row in zip(exact, distances, strict=True)
                ]
            )
        )
    return checked


@dataclass(frozen=True)
class Result:
    """Result of a run.

    Attributes:
        about: the corpus, the server and the settings that it was measured with.
        lines: one for each variant and caller; see `judge`.
        exact_recall: of the project's exact search against brute force, by percent visible.
    """

    about: Mapping[str, Any]
    lines: Sequence[Mapping[str, Any]]
    exact_recall: Mapping[int, float]

    @property
    def shipped(self) -> list[Mapping[str, Any]]:
        """The lines of the shipped settings."""
        return [line for line in self.lines if line["variant"] == SHIPPED]

    @property
    def judged(self) -> list[Mapping[str, Any]]:
        """The lines that the goals are for: the shipped settings, and a calibration's."""
        return [line for line in self.lines if line["variant"] in {SHIPPED, CALIBRATED}]


def measure(
    on: Stage,
    changes: Iterable[Mapping[str, float]],
    percents: Sequence[int],
    queries: int,
    check: int,
    further: Sequence[Variant] = (),
) -> Result:
    """Measure the shipped search settings, changed ones and further ways to search.

    Args:
        on: where.
        changes: search settings to change, one variant each.
        percents: the callers, by how much of the rows they see.
        queries: how many queries each is asked.
        check: how many of them are answered by brute force as well.
        further: what else to measure.
    """
    shipped = on.corpus()
    changed = [Variant(_name(change), on.corpus(**change)) for change in changes]
    by_plan, exactly = [Variant(SHIPPED, shipped), *changed, *further], Variant(EXACT, shipped, exact=True)
    query_vectors = on.dataset.queries(queries)
    runs = ask(on, [*by_plan, exactly], percents, query_vectors)
    lines = [judge(on, runs, percent, variant.name) for variant in by_plan for percent in percents]
    about = {
        "rows": on.dataset.rows,
        "seed": on.dataset.seed,
        "queries": queries,
        "cores": os.cpu_count(),
        **on.versions,
        "search": on.settings.search.model_dump(),
    }
    return Result(about, lines, check_exact(on, runs, percents, query_vectors[:check]) if check else {})


def calibrated(on: Stage, percents: Sequence[int], queries: int, goal: Goal) -> Variant:
    """Searched with what `retrieval-worker calibrate` would write, measured with queries of its own."""
    calibrating = CorpusCalibration(on.settings, CORPUS, timeout_seconds=600)
    try:
        callers = [Caller(f"{percent} % visible", on.caller(percent)) for percent in percents]
        shares = {caller: calibrating.visible(caller) / on.dataset.rows for caller in callers}
        sampled_queries = calibrating.sample(callers[0], queries, on.dataset.seed)
        with steps() as progress:
            counts: dict[str, int] = {}

            def count_step(caller: str, ef_search: int) -> None:
                step = f"calibrating: {caller}, " + (f"ef_search {ef_search}" if ef_search else "exact search")
                counts[step] = counts.get(step, 0) + 1
                progress(step, counts[step], len(sampled_queries))

            lines = [*calibrating.measure(shares, sampled_queries, STEPS, goal, count_step)]
        for line in lines:
            print(
                f"{line.caller}, ef_search {line.ef_search}: {line.quality}, {'reached' if line.reached else 'missed'}"
            )
        measured_calibration = calibration(calibrating.rows, [line for line in lines if line.enough])
    finally:
        calibrating.close()
    if measured_calibration is None:
        raise SettingsError("no caller's searches use the index: nothing to calibrate")
    print(as_toml({CORPUS: measured_calibration}))
    types = on.database.types[CORPUS]
    return Variant(
        CALIBRATED, Corpus(CORPUS, on.settings.corpora[CORPUS], on.settings.search, types, measured_calibration)
    )


def over_vector(on: Stage) -> Variant:
    """Searched by the index over vector, which the stage has as well."""
    (size,) = on.admin.execute("SELECT pg_size_pretty(pg_relation_size('document_chunks_vector_idx'))").fetchone()
    print(f"index over halfvec: {on.versions['index']}, over vector: {size}\n")
    types = dataclasses.replace(on.database.types[CORPUS], indexed=frozenset({"vector"}))
    return Variant("vector", Corpus(CORPUS, on.settings.corpora[CORPUS], on.settings.search, types))


def _name(change: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in change.items())
