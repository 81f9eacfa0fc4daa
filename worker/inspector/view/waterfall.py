"""Waterfall: the stages of an answer, one after the other, and below the search its parallel legs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from retrieval_client.contract.results import Trace

Timing = Literal["recorded", "reading"]


@dataclass(frozen=True, slots=True)
class Bar:
    """Stage or leg of an answer.

    Attributes:
        name: its name.
        is_leg: True for a leg, which runs beside others inside its stage.
        start_ms: its start, in milliseconds after the first stage began.
        duration_ms: its duration, as recorded.
        counts: its counts, in their order.
        remaining: candidates after it; None if unknown.
    """

    name: str
    is_leg: bool
    start_ms: float
    duration_ms: float
    counts: tuple[tuple[str, int], ...] = ()
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Stages of an answer.

    Attributes:
        bars: in order, each leg after its stage.
        total_ms: the sum of all stages.
        timing: ``reading`` if the times are those of reading a record again, because the record has none.
    """

    bars: tuple[Bar, ...] = ()
    total_ms: float = 0.0
    timing: Timing = "recorded"


def waterfall_of(trace: Trace, remaining: Mapping[str, int]) -> Waterfall:
    """Return the waterfall of a trace.

    Args:
        trace: the trace.
        remaining: stage → candidates after it, where that is known.
    """
    bars = tuple(_bars(trace, remaining))
    total = sum(bar.duration_ms for bar in bars if not bar.is_leg)
    return Waterfall(bars, round(total, 3), "reading" if trace.search.get("method") == "record" else "recorded")


def leg_times(search: Mapping[str, Any]) -> dict[str, float]:
    """Return leg → milliseconds, from the trace of a hybrid search or of the pipeline."""
    times = {leg["leg"]: leg["duration_ms"] for leg in _entries(search)}
    return {**times, **search.get("legs_ms", {})}


def leg_methods(search: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return leg → search method in each corpus."""
    methods = {leg["leg"]: leg.get("methods", ()) for leg in _entries(search)}
    return {leg: tuple(method_names) for leg, method_names in {**methods, **search.get("methods", {})}.items()}


def _entries(search: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    legs: Sequence[Mapping[str, Any]] = search.get("legs", ())
    return legs


def _bars(trace: Trace, remaining: Mapping[str, int]) -> Iterator[Bar]:
    start = 0.0
    for stage in trace.stages:
        counts = tuple(stage.counts.items())
        yield Bar(stage.stage, False, round(start, 3), stage.duration_ms, counts, remaining.get(stage.stage))
        if stage.stage == "search":
            for leg, took in leg_times(trace.search).items():
                yield Bar(leg, True, round(start, 3), took)
        start += stage.duration_ms
