"""The timeline: jobs done per second, with the faults marked. Needs the extra `bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Canvas

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.plan import Kind
    from chaos.run import Outcome

COLOURS = {"workers": "#d9822b", "Redis": "#b3312c", "Postgres": "#1f5f8b", "network": "#6a3d9a"}
MOST_BINS = 600


def family(kind: Kind) -> str:
    """Return the target of a kind of fault."""
    if kind.on_redis:
        return "Redis"
    if kind.on_postgres:
        return "Postgres"
    return "network" if kind.on_network else "workers"


def plot(outcome: Outcome, path: Path) -> None:
    """Write the timeline as SVG.

    Args:
        outcome: the run.
        path: the file; its folder is made if there is none.
    """
    width = max(1.0, outcome.seconds / MOST_BINS)
    edges = np.arange(0.0, outcome.seconds + width, width)
    counts, _ = np.histogram(np.array(outcome.answer_times) - outcome.started, edges)
    with mpl.rc_context({"svg.hashsalt": "chaos", "svg.fonttype": "none", "font.size": 9}):
        canvas = Canvas(figsize=(11, 4.2), layout="constrained")
        upper, lower = canvas.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        upper.fill_between(edges[:-1], counts / width, step="post", color="#8c8c8c", linewidth=0)
        upper.set_title("Jobs that end while processes, servers and links fail")
        upper.set_ylabel("jobs done per second")
        upper.set_ylim(bottom=0)
        for place, (name, colour) in enumerate(COLOURS.items()):
            records = [record for record in outcome.fault_records if family(record.fault.kind) == name]
            starts = [record.began - outcome.started for record in records]
            lasting = [max(record.ended - record.began, width / 2) for record in records]
            lower.broken_barh([*zip(starts, lasting, strict=True)], (place - 0.4, 0.8), color=colour, alpha=0.8)
        lower.set_yticks(range(len(COLOURS)), list(COLOURS))
        lower.invert_yaxis()
        lower.set_xlabel("seconds")
        lower.set_xlim(0, outcome.seconds)
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, metadata={"Date": None, "Creator": None})
