"""The plot of `benchmarks.quality`: nDCG@5 of each system with its interval. Needs the extra `bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from benchmarks.judged import CONTEXTUAL, EVERYWHERE, FUSED, PRIMARY, SPARSE
from matplotlib.figure import Figure as Canvas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.judged import Query, Results, System
    from matplotlib.axes import Axes

COLOURS = {"none": "#1f5f8b", "glossary": "#d9822b"}
BETWEEN = 0.18


def plot(by_transform: Mapping[str, Results], path: Path) -> None:
    """Write the plot as SVG; equal figures give equal bytes.

    Args:
        by_transform: what was judged.
        path: the file; its folder is made if there is none.
    """
    every = next(iter(by_transform.values()))
    # Fixed ids and no date, so that the file changes only where a figure does.
    with mpl.rc_context({"svg.hashsalt": "quality", "svg.fonttype": "none", "font.size": 9}):
        canvas = Canvas(figsize=(11, 4.6), layout="constrained")
        left, right = canvas.subplots(1, 2)
        _panel(left, by_transform, EVERYWHERE, every.queries, "every query")
        _panel(
            right, by_transform, (PRIMARY, CONTEXTUAL, SPARSE, *FUSED), every.with_keywords, "context says something"
        )
        left.legend(title="transform", loc="upper right", frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, metadata={"Date": None, "Creator": None})


def _panel(
    axes: Axes, by_transform: Mapping[str, Results], systems: Sequence[System], queries: Sequence[Query], title: str
) -> None:
    """One row a system, one mark a transformation."""
    for offset, (transform, results) in enumerate(by_transform.items()):
        figures = [results.judged[system].figure(queries, "ndcg") for system in systems]
        axes.errorbar(
            [figure.mean for figure in figures],
            [place + BETWEEN * (2 * offset - 1) for place in range(len(systems))],
            xerr=[[f.mean - f.low for f in figures], [f.high - f.mean for f in figures]],
            fmt="o",
            markersize=4,
            linewidth=1,
            color=COLOURS[transform],
            label=transform,
        )
    axes.set_yticks(range(len(systems)), [system.name for system in systems])
    axes.invert_yaxis()
    axes.set_xlim(0.2, 0.8)
    axes.set_xlabel("nDCG@5, mean and 95 % interval")
    axes.set_title(f"{title} ({len(queries)})")
    axes.grid(axis="x", linewidth=0.4)
