"""The plot of the comparison and of the curves. Needs the extra `bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from benchmarks.side_by_side.figures import BARE, LANGCHAIN, LISTS, LLAMAINDEX, NAIVE, ONE, SIXTEEN, spread
from matplotlib.figure import Figure as Canvas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.side_by_side.figures import Measured
    from benchmarks.side_by_side.growth import Growth, Point
    from matplotlib.axes import Axes

NAMES = {
    BARE: "bare loop",
    LISTS: "bare BLMOVE",
    ONE: "this worker, 1 per job",
    SIXTEEN: "this worker, 16 per job",
    LANGCHAIN: "LangChain",
    LLAMAINDEX: "LlamaIndex",
    NAIVE: "naive",
}
OURS, OTHERS, LINES = "#1f5f8b", "#b8b8b8", ("#1f5f8b", "#d9822b", "#5a9367")


def plot(sides: Mapping[str, Measured], growth: Growth, path: Path) -> None:
    """Write the plot as SVG; equal figures give equal bytes.

    Args:
        sides: what was measured side by side.
        growth: curves; those that are missing leave no panel.
        path: the file; its folder is made if there is none.
    """
    panels = 3 + len(growth.curves)
    columns = 3
    rows = -(-panels // columns)
    with mpl.rc_context({"svg.hashsalt": "side by side", "svg.fonttype": "none", "font.size": 9}):
        canvas = Canvas(figsize=(12, 3.4 * rows), layout="constrained")
        axes = iter(canvas.subplots(rows, columns, squeeze=False).flat)
        _throughput(next(axes), sides)
        _latency(next(axes), sides)
        _recall(next(axes), growth.ef)
        for name, points in growth.curves.items():
            _curve(next(axes), name, points)
        for unused in axes:
            unused.set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, metadata={"Date": None, "Creator": None})


def _colour(name: str) -> str:
    return OURS if name in {ONE, SIXTEEN} else OTHERS


def _throughput(axes: Axes, sides: Mapping[str, Measured]) -> None:
    marks = [spread(one.rates) for one in sides.values()]
    axes.barh(
        range(len(sides)),
        [mark.median for mark in marks],
        xerr=[[m.median - m.low for m in marks], [m.high - m.median for m in marks]],
        color=[_colour(name) for name in sides],
        error_kw={"linewidth": 1},
    )
    axes.set_yticks(range(len(sides)), [NAMES[name] for name in sides])
    axes.invert_yaxis()
    axes.set_xlabel("queries a second (lowest to highest round)")
    axes.grid(axis="x", linewidth=0.4)


def _latency(axes: Axes, sides: Mapping[str, Measured]) -> None:
    """Plot latencies of one query at a time; a job of sixteen is left out."""
    for name, one in sides.items():
        if name == SIXTEEN:
            continue
        ordered = sorted(one.latencies)
        shares = [(i + 1) / len(ordered) for i in range(len(ordered))]
        axes.plot(ordered, shares, label=NAMES[name], linewidth=1.8 if name == ONE else 1)
    axes.set_xscale("log")
    axes.set_xlabel("ms from asking to the answer, one at a time")
    axes.set_ylabel("share of queries")
    axes.legend(frameon=False, fontsize=7)
    axes.grid(linewidth=0.4)


def _recall(axes: Axes, tables: Mapping[str, Sequence[Point]]) -> None:
    for (table, points), colour in zip(tables.items(), LINES, strict=False):
        axes.plot([p.ms for p in points], [p.recall for p in points], "o-", markersize=3, label=table, color=colour)
        for point in points:
            axes.annotate(f"{point.x:g}", (point.ms, point.recall), fontsize=6)
    axes.set_xlabel("ms of the plain query (marks: ef_search)")
    axes.set_ylabel("recall@15")
    axes.legend(frameon=False, fontsize=7)
    axes.grid(linewidth=0.4)


def _curve(axes: Axes, name: str, points: Sequence[Point]) -> None:
    by_rate = any(point.rate for point in points)
    axes.plot([p.x for p in points], [p.rate if by_rate else p.ms for p in points], "o-", markersize=3, color=OURS)
    axes.set_xscale("log")
    axes.set_xticks([p.x for p in points], [f"{p.x:,g}" for p in points])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel(name)
    axes.set_ylabel("queries a second" if by_rate else "median ms")
    axes.grid(linewidth=0.4)
