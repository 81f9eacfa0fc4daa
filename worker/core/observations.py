"""Numbers that a job adds to the worker's metrics; labels are names from the settings and from this project.

Nothing else of a job may become a label (no id, claim or text), nor anything a sender can choose: each new label value
is a new series in Prometheus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Observation(NamedTuple):
    """One number for one metric.

    Attributes:
        metric: name of the metric, as Prometheus receives it.
        labels: label values, in the order of the metric's definition.
        value: the increment of a counter or the observation of a histogram; durations in seconds.
    """

    metric: str
    labels: tuple[str, ...]
    value: float


def of_job(task: str, outcome: str, seconds: float, answer: Mapping[str, Any] | None) -> Iterator[Observation]:
    """Yield the observations of one job.

    Args:
        task: the task's name.
        outcome: ``ok``, ``delayed`` (it will be retried) or the class of its error.
        seconds: duration of this attempt.
        answer: the result in the contract's form; None if there is none.
    """
    yield Observation("retrieval_jobs_total", (task, outcome), 1)
    yield Observation("retrieval_job_duration_seconds", (task, outcome), seconds)
    trace = (answer or {}).get("trace", {})
    for stage in trace.get("stages", ()):
        yield Observation("retrieval_stage_duration_seconds", (task, stage["stage"]), stage["duration_ms"] / 1000)
    for missing in (answer or {}).get("degraded", ()):
        yield Observation("retrieval_degraded_answers_total", (task, missing), 1)
    if trace.get("cache") is not None:
        yield Observation("retrieval_cache_lookups_total", (task, trace["cache"]), 1)
    # An answer from a recorded run or the cache has no legs: they were counted when they were searched.
    if answer is not None and "legs" in trace.get("search", {}):
        yield from _of_search(answer["metrics"], trace["search"]["legs"])


def _of_search(metrics: Mapping[str, Mapping[str, Any]], legs: list[Mapping[str, Any]]) -> Iterator[Observation]:
    """Yield the observations of a hybrid search: legs, state of the contextual leg, results of each corpus."""
    for leg in legs:
        if not leg["methods"]:
            continue  # it failed: its duration is unknown
        yield Observation("retrieval_leg_duration_seconds", (leg["leg"],), leg["duration_ms"] / 1000)
    state = next(iter(metrics.values()))["contextual"]  # of the whole job, so the same for every corpus
    yield Observation("retrieval_contextual_searches_total", (state,), 1)
    for corpus, figures in metrics.items():
        yield from _of_corpus(corpus, figures)


def _of_corpus(corpus: str, figures: Mapping[str, Any]) -> Iterator[Observation]:
    yield Observation("retrieval_duplicate_results_total", (corpus,), figures["duplicate_count"])
    for leg in figures["top_similarity"]:
        yield Observation("retrieval_leg_results_total", (corpus, leg), figures[f"{leg}_count"])
        for kind in ("top", "mean"):
            similarity = figures[f"{kind}_similarity"][leg]
            if similarity is not None:
                yield Observation(f"retrieval_leg_{kind}_similarity", (corpus, leg), similarity)
