"""The plot of the comparison and of the curves. Needs the extra `bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from benchmarks.side_by_side.figures import BARE, LANGCHAIN, LISTS, LLAMAINDEX, NAIVE, ONE, SIXTEEN, percentile, spread
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
OURS, OTHERS = "#1f5f8b", "#9a9a9a"
IN_A_JOB, VISIBLE = "queries in one job", "visible share, %"
MARKS = ((0.5, "o"), (0.95, "|"), (0.99, "|"))
"""Percentiles of a latency, and how each is marked."""


def plot(sides: Mapping[str, Measured], growth: Growth, path: Path, vectors: str) -> None:
    """Write the plot as SVG, on a ground of its own for dark pages; equal figures give equal bytes.

    Args:
        sides: what was measured side by side.
        growth: curves; those that are missing leave their panel out.
        path: the file; its folder is made if there is none.
        vectors: how many of what, for the title.
    """
    curves = [
        (name, title, growth.curves[name])
        for name, title in (
            (IN_A_JOB, "Throughput by queries in a job"),
            (VISIBLE, "A search by what its caller sees"),
        )
        if name in growth.curves
    ]
    with mpl.rc_context({"svg.hashsalt": "side by side", "svg.fonttype": "none", "font.size": 9}):
        canvas = Canvas(figsize=(10, 6.4 if curves else 3.6), layout="constrained", facecolor="white")
        canvas.suptitle(f"This worker beside others: {vectors}")
        places = canvas.subplots(2 if curves else 1, 2, squeeze=False)
        axes = iter(places.flat)
        _throughput(next(axes), sides)
        _latency(next(axes), sides)
        for name, title, points in curves:
            _curve(next(axes), name, title, points)
        for unused in axes:
            unused.set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, metadata={"Date": None, "Creator": None})


def _colour(name: str) -> str:
    return OURS if name in {ONE, SIXTEEN} else OTHERS


def _throughput(axes: Axes, sides: Mapping[str, Measured]) -> None:
    marks = [spread(side.rates) for side in sides.values()]
    axes.barh(
        range(len(sides)),
        [mark.median for mark in marks],
        xerr=[[m.median - m.low for m in marks], [m.high - m.median for m in marks]],
        color=[_colour(name) for name in sides],
        error_kw={"linewidth": 1},
    )
    _name_sides(axes, [*sides])
    axes.set_title("Throughput while queries wait")
    axes.set_xlabel("queries a second: median, lowest and highest round")


def _latency(axes: Axes, sides: Mapping[str, Measured]) -> None:
    """Plot latencies of one query at a time; a job of sixteen is left out."""
    names = [name for name in sides if name != SIXTEEN]
    for place, name in enumerate(names):
        percentiles = [percentile(sides[name].latencies, share) for share, _ in MARKS]
        axes.plot(
            [percentiles[0], percentiles[-1]], [place, place], color=_colour(name), linewidth=2, solid_capstyle="butt"
        )
        for value, (_, marker) in zip(percentiles, MARKS, strict=True):
            axes.plot(value, place, marker, color=_colour(name), markersize=7, markeredgewidth=2)
    _name_sides(axes, names)
    axes.set_xlim(left=0)
    axes.set_title("Latency of one query at a time")
    axes.set_xlabel("ms: median, 95th and 99th percentile")


def _name_sides(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), [NAMES[name] for name in names])
    axes.invert_yaxis()
    axes.grid(axis="x", linewidth=0.4)
    axes.set_axisbelow(True)


def _curve(axes: Axes, name: str, title: str, points: Sequence[Point]) -> None:
    by_rate = any(point.rate for point in points)
    axes.plot([p.x for p in points], [p.rate if by_rate else p.ms for p in points], "o-", markersize=4, color=OURS)
    axes.set_xscale("log")
    axes.set_xticks([p.x for p in points], [f"{p.x:,g}" for p in points])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    axes.set_xlabel(name)
    axes.set_ylabel("queries a second" if by_rate else "median ms")
    axes.grid(linewidth=0.4)
