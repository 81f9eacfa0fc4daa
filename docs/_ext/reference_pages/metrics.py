"""The page of metrics: each with its type, labels and meaning, as Prometheus gets them."""

from __future__ import annotations

from reference_pages.markdown import definitions, prose
from worker.queue.metrics import DEFINITIONS, GAUGES


def page() -> str:
    """All metrics: what is counted, then what is read from Redis."""
    counted = [(each.name, each.kind.__name__.lower(), each.labels, each.meaning) for each in DEFINITIONS]
    read = [(each.name, "gauge", (each.label,), each.meaning) for each in GAUGES]
    return definitions(
        (name, [f"{kind}; labels {', '.join(f'`{label}`' for label in labels)}", prose(meaning)])
        for name, kind, labels, meaning in (*counted, *read)
    )
