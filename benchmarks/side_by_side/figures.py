"""Figures of measured rounds: ratios with their spread, goals, and when a comparison must not be printed. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BARE, LISTS, ONE, SIXTEEN = "bare", "blmove", "one", "sixteen"
LANGCHAIN, LLAMAINDEX, NAIVE = "langchain", "llamaindex", "naive"

RECALL = 0.995
"""Each side must reach it, on average over the queries."""
RECALL_APART = 0.004
"""Sides whose recall differs by more are not compared: they don't do the same work."""


class Spread(NamedTuple):
    """A median with the lowest and the highest of what it is the median of."""

    median: float
    low: float
    high: float


@dataclass
class Measured:
    """Measurements of one side, over all rounds.

    Attributes:
        rates: queries a second, one for each round.
        latencies: milliseconds from asking to having the answer, one query at a time.
        recalls: recall@k of each query.
        ids: what was found for each query, nearest first.
        costs: per query, by name (see `costs.Usage`), one value for each round; bytes to Postgres once.
        memory: megabytes of a process (proportional share), at rest and after the rounds.
    """

    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)
    ids: list[list[str]] = field(default_factory=list)
    costs: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)

    def cost(self, name: str) -> float:
        """The median over the rounds; NaN where it was not counted."""
        values = self.costs.get(name)
        return statistics.median(values) if values else math.nan


def spread(values: Sequence[float]) -> Spread:
    """Median, lowest, highest.

    >>> spread([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.0, high=3.0)
    """
    return Spread(statistics.median(values), min(values), max(values))


def ratio(rates: Sequence[float], base_rates: Sequence[float]) -> Spread:
    """One side's rates divided by another's, round by round: a busy moment of the machine meets both.

    >>> ratio([2.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    Spread(median=2.0, low=2.0, high=3.0)
    """
    return spread([a / b for a, b in zip(rates, base_rates, strict=True)])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of the values does not exceed.

    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([1.0], 0.99)
    (2.0, 1.0)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def differences(sides: Mapping[str, Measured], k: int) -> list[str]:
    """Why these sides must not be compared; empty: they may.

    Each must have found ``k`` chunks for every query, at least `RECALL` of the nearest ones, and as many of them as
    the others. Sides that read one table with one index must have found the same chunks in the same order; only
    this worker, which searches again where an answer looks lost, may have found more.
    Peers have tables of their own, and an HNSW graph that is built again is another graph.
    """
    problems = []
    means = {name: statistics.fmean(side.recalls) for name, side in sides.items()}
    for name, side in sides.items():
        short = sum(len(ids) != k for ids in side.ids)
        if short:
            problems.append(f"{name}: {short} of {len(side.ids)} answers have not {k} chunks")
        if means[name] < RECALL:
            problems.append(f"{name}: recall {means[name]:.4f} is below {RECALL}")
    if means and max(means.values()) - min(means.values()) > RECALL_APART:
        apart = ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
        problems.append(f"recall differs by more than {RECALL_APART}: {apart}")
    for name in (LISTS, ONE, SIXTEEN, NAIVE):
        differing = (
            _others(sides[name], sides[BARE], may_be_better=name in {ONE, SIXTEEN}) if {BARE, name} <= {*sides} else 0
        )
        if differing:
            problems.append(f"{name}: {differing} of {len(sides[name].ids)} answers are not those of {BARE}")
    return problems


def _others(side: Measured, floor: Measured, *, may_be_better: bool) -> int:
    """How many of a side's answers are not the floor's."""
    answers = zip(side.ids, floor.ids, side.recalls, floor.recalls, strict=True)
    return sum(
        ids != floor_ids and not (may_be_better and side_recall > floor_recall)
        for ids, floor_ids, side_recall, floor_recall in answers
    )


# --- goals --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """Goal of one figure.

    Attributes:
        text: what is measured.
        bound: the figure's limit.
        at_least: whether the limit is the lowest or the highest that is wanted.
        unit: printed behind figures.
        value: what was measured, with its spread where there is one; None: not in this run.
        elsewhere: the command that measures it, where this one does not.
    """

    text: str
    bound: float
    at_least: bool
    unit: str
    value: Spread | float | None
    elsewhere: str = ""

    @property
    def measured(self) -> float | None:
        """The median."""
        return self.value.median if isinstance(self.value, Spread) else self.value

    @property
    def reached(self) -> bool | None:
        """True if the goal is met; None: not measured."""
        if self.measured is None:
            return None
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


def goals(sides: Mapping[str, Measured], curves: Mapping[str, Spread | float] | None = None) -> list[Goal]:
    """Every goal, with what this run says of it.

    Args:
        sides: what was measured side by side.
        curves: further figures by name, as `growth` makes them.
    """
    further = curves or {}

    def times(name: str, base: str) -> Spread | None:
        return ratio(sides[name].rates, sides[base].rates) if name in sides and base in sides else None

    def above_the_loop(name: str) -> float | None:
        return sides[name].cost("worker_ms") - sides[BARE].cost("worker_ms") if {name, BARE} <= sides.keys() else None

    waiting = None
    if {ONE, BARE} <= sides.keys():
        waiting = percentile(sides[ONE].latencies, 0.5) - percentile(sides[BARE].latencies, 0.5)
    return [
        Goal("one query per job ÷ LangChain in Celery", 2.3, True, " ×", times(ONE, LANGCHAIN)),
        Goal("16 per job ÷ bare psycopg loop", 0.90, True, " ×", times(SIXTEEN, BARE)),
        Goal("one query per job ÷ bare psycopg loop", 0.80, True, " ×", times(ONE, BARE)),
        Goal("one query per job ÷ bare Redis worker", 0.85, True, " ×", times(ONE, LISTS)),
        Goal("worker CPU above the bare loop, one per job", 0.5, False, " ms", above_the_loop(ONE)),
        Goal("worker CPU above the bare loop, 16 per job, per query", 0.4, False, " ms", above_the_loop(SIXTEEN)),
        Goal("enqueue → get, p50, less the query's own p50", 2.5, False, " ms", waiting),
        Goal("deterministic ties ÷ plain nearest-neighbour query", 1.10, False, " ×", further.get("ties")),
        Goal("recall@15 as shipped, mean", RECALL, True, "", further.get("recall_mean")),
        Goal("recall@15 as shipped, worst query", 0.80, True, "", further.get("recall_worst")),
        *(
            Goal(f"{percent} % visible: {label}", bound, at_least, unit, further.get(f"visible_{percent}_{name}"))
            for percent, times_bound in ((1, 1.5), (10, 2.0), (50, 2.0))
            for label, name, bound, at_least, unit in (
                ("rows of 15", "rows", 15.0, True, ""),
                ("recall", "recall", 0.99, True, ""),
                ("time ÷ unfiltered", "times", times_bound, False, " ×"),
            )
        ),
        Goal("embedding decode and check, times faster than json + pydantic", 12.0, True, " ×", further.get("decode")),
        Goal("`pinned_replay`, 1,000 hashes ÷ the statement", 1.4, False, " ×", None, "python -m benchmarks.pins"),
        Goal("`pinned_replay`, 15 hashes ÷ a round trip", 1.5, False, " ×", None, "python -m benchmarks.pins"),
        Goal(
            "`build_citations`, times faster than plain json", 15.0, True, " ×", None, "python -m benchmarks.citations"
        ),
        Goal("hybrid's four searches ÷ one", 2.5, False, " ×", None, "make bench-hybrid"),
    ]
