"""The sides take turns: throughput and costs in rounds, latency query by query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from benchmarks.costs import megabytes
from benchmarks.side_by_side.figures import Measured
from benchmarks.side_by_side.sides import Failed
from benchmarks.truth import TIE, Distances

from synthetic.vectors import row_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.costs import Meter
    from benchmarks.side_by_side.sides import Side

    from synthetic.loading import Progress


def recall(ids: Sequence[str], distances: Distances, k: int) -> float:
    """Share of the ``k`` nearest that was found; a chunk as near as the k-th counts.

    Args:
        ids: chunk ids of an answer.
        distances: of the query to every row, shape (rows,).
        k: how many were wanted.
    """
    farthest = np.partition(distances, k - 1)[k - 1] + TIE
    return sum(bool(distances[row] <= farthest) for row in {row_of(chunk_id) for chunk_id in ids}) / k


def measure(
    sides: Mapping[str, Side],
    meter: Meter,
    distances: Distances,
    *,
    k: int,
    rounds: int,
    count: int,
    calls: int,
    progress: Progress,
) -> dict[str, Measured]:
    """Everything that is measured side by side.

    Args:
        sides: by name, in the order of the report.
        meter: counts what they use.
        distances: of each query to every row, shape (queries, rows).
        k: chunks wanted.
        rounds: how often each has its turn; who begins changes.
        count: queries of one turn; at least as many as there are different ones.
        calls: queries of each round that are asked one at a time.
        progress: called for each step.

    Raises:
        Failed: a side does not answer, or answers the same query in two ways.
    """
    measured = {name: Measured() for name in sides}
    names = list(sides)
    for i, (name, side) in enumerate(sides.items()):
        progress("warming up", i, len(sides))
        measured[name].ids = _answers(side, len(distances))
        measured[name].recalls = [recall(ids, row, k) for ids, row in zip(measured[name].ids, distances, strict=True)]
        side.call(0)
        measured[name].memory["at rest"] = megabytes(side.processes())
    for turn in range(rounds):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        for i, name in enumerate(order):
            progress("rounds", turn * len(names) + i, rounds * len(names))
            _turn(name, sides[name], measured[name], meter, count)
        for i in range(calls):
            progress("one query at a time", turn * calls + i, rounds * calls)
            for name in order:
                measured[name].latencies.append(sides[name].call((turn * calls + i) % len(distances)))
    progress("rounds", rounds * len(names), rounds * len(names))
    progress("one query at a time", rounds * calls, rounds * calls)
    for name, side in sides.items():
        measured[name].memory["after"] = megabytes(side.processes())
    return measured


def _answers(side: Side, count: int) -> list[list[str]]:
    side.prepare(count)
    side.run()
    return side.found()


def _turn(name: str, side: Side, measured: Measured, meter: Meter, count: int) -> None:
    """One side's turn: prepared before the clock runs, looked through after it."""
    side.prepare(count)
    usage_before = meter.read(side.processes())
    seconds = side.run()
    used = meter.settled(side.processes()).per_query(usage_before, count)
    measured.rates.append(count / seconds)
    for cost, value in used.items():
        measured.costs.setdefault(cost, []).append(value)
    query_count = len(measured.ids)
    if any(ids != measured.ids[i % query_count] for i, ids in enumerate(side.found())):
        raise Failed(f"{name}: a query was answered otherwise than before")
