"""Drift: the verdict on each pin of a run now, and the difference between the pinned text and the current one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.core.pins.pinning import RETURNED
from worker.inspector.view.pieces import DiffPiece, condensed, steps_each, word_diff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retrieval_client.contract.pinned import Pinned, Replay


@dataclass(frozen=True, slots=True)
class PinView:
    """Pin of a run.

    Attributes:
        chunk_hash: the pinned hash.
        verdict: its state now; see docs/runs.md.
        chunk_id, document_id: the chunk that answers it, or that was edited; None if missing.
        places: number of visible chunks with its text now.
        text: the current text; None if there is none to show.
        pinned_text: the pinned text, where a citations document has it.
        diff: words that changed since; empty unless it was edited and the pinned text is known.
    """

    chunk_hash: str
    verdict: str
    chunk_id: str | None
    document_id: str | None
    places: int
    text: str | None = None
    pinned_text: str | None = None
    diff: tuple[DiffPiece, ...] = ()

    @property
    def stands(self) -> bool:
        """True if its text is still there."""
        return self.verdict in RETURNED


@dataclass(frozen=True, slots=True)
class DriftView:
    """State of a run's pins now.

    Attributes:
        pins: in the order of the run.
        verdicts: verdict → number of pins, by name.
        digest: digest of the replay: two replays are the same if their digests are.
        matched, missing, filled: pins answered with a chunk and those that are not, and chunks that were not pinned.
    """

    pins: tuple[PinView, ...]
    verdicts: tuple[tuple[str, int], ...]
    digest: str
    matched: int
    missing: int
    filled: int

    @property
    def drifted(self) -> bool:
        """True if a pinned text is no longer there for this reader."""
        return any(not pin.stands for pin in self.pins)


def drift_view(
    replay: Replay, old_texts: Mapping[str, str] | None = None, new_texts: Mapping[str, str] | None = None
) -> DriftView:
    """Return the view of a replay.

    Args:
        replay: the answer of `pinned_replay`.
        old_texts: chunk hash → pinned text, where a citations document has it.
        new_texts: chunk hash → current text of edited chunks.
    """
    current = {**{chunk.chunk_hash: chunk.text for chunk in replay.chunks}, **(new_texts or {})}
    steps = steps_each(sum(pin.verdict == "edited" for pin in replay.pins))
    pins = tuple(_pin(pin, old_texts or {}, current, steps) for pin in replay.pins)
    names = sorted({pin.verdict for pin in pins})
    counts = tuple((name, sum(pin.verdict == name for pin in pins)) for name in names)
    return DriftView(pins, counts, replay.digest, replay.matched, replay.missing, replay.filled)


def _pin(pin: Pinned, old_texts: Mapping[str, str], current: Mapping[str, str], steps: int) -> PinView:
    old, new = old_texts.get(pin.chunk_hash), current.get(pin.found_hash or pin.chunk_hash)
    is_known = pin.verdict == "edited" and old is not None and new is not None
    diff = condensed(word_diff(old or "", new or "", steps)) if is_known else ()
    return PinView(pin.chunk_hash, pin.verdict, pin.chunk_id, pin.document_id, pin.places, new, old, diff)
