"""Drift: the verdict on each pin now, and what changed by words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from worker.inspector.terminal.lines import (
    BLANK,
    QUIET,
    Line,
    badge,
    difference,
    heading,
    inline,
    joined,
    more,
    named,
    note,
    paragraphs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.inspector.view.drift import DriftView, PinView

MOST_PINS = 500


def drift_lines(view: DriftView | None) -> list[Line]:
    """Return the lines of a run's drift."""
    if view is None:
        return [note("This run recorded no chunks.")]
    counts = (inline(f"{count} {verdict}") for verdict, count in view.verdicts)
    return [
        heading("Drift"),
        Line(joined(badge("drifted" if view.drifted else "same", "drift"), *counts)),
        Line(joined(Text("digest", QUIET), named(view.digest, 100), separator=" ")),
        BLANK,
        *(line for pin in view.pins[:MOST_PINS] for line in _pin(pin)),
        *more(len(view.pins) - MOST_PINS, "pins"),
        note(
            "The words of then are those of the run's stored citations document, if it has one. "
            "A text with very many changes is shown as replaced, whole."
        ),
    ]


def _pin(pin: PinView) -> Iterator[Line]:
    places = f"{pin.places} places" if pin.places > 1 else ""
    yield Line(joined(badge(pin.verdict, "pin"), named(pin.chunk_id or f"{pin.chunk_hash[:19]}…", 100), places))
    if pin.diff:
        yield from paragraphs(difference(pin.diff), 4)
    elif pin.text is not None:
        yield Line(inline(pin.text, 280, QUIET), 4)
    else:
        yield note("gone, or not visible to you", 4)
