"""The plot of `benchmarks.quality`: nDCG@5 of each system with its interval. Needs the extra `bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from workbench.core.significance import Estimate


def plot(systems: Mapping[str, Sequence[Estimate]], sets: Sequence[str], path: Path) -> None:
    """Write the plot as SVG, one panel a set, one row a system; equal figures give equal bytes.

    Args:
        systems: by name, its figure on each set.
        sets: names of the sets.
        path: the file; its folder is made if there is none.
    """
    # Fixed ids and no date, so that the file changes only where a figure does.
    with mpl.rc_context({"svg.hashsalt": "quality", "svg.fonttype": "none", "font.size": 9}):
        canvas = Canvas(figsize=(11, 3.2), layout="constrained")
        for i, (name, axes) in enumerate(zip(sets, canvas.subplots(1, len(sets), sharey=True), strict=True)):
            figures = [of_sets[i] for of_sets in systems.values()]
            axes.errorbar(
                [figure.mean for figure in figures],
                range(len(figures)),
                xerr=[[f.mean - f.low for f in figures], [f.high - f.mean for f in figures]],
                fmt="o",
                markersize=4,
                linewidth=1,
                color="#1f5f8b",
            )
            axes.set_yticks(range(len(figures)), [system.replace("`", "") for system in systems])
            axes.set_xlim(0.15, 0.9)
            axes.set_xlabel("nDCG@5, mean and 95 % interval")
            axes.set_title(name)
            axes.grid(axis="x", linewidth=0.4)
        axes.invert_yaxis()
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, metadata={"Date": None, "Creator": None})
