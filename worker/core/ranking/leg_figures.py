"""What each leg of a search over one corpus brought, in figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.core.ranking.measures import duplicate_rate, mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.core.ranking.fusion import RankedLeg
    from worker.model import Candidate


@dataclass(frozen=True, slots=True)
class LegFigures:
    """One leg.

    Attributes:
        leg: its name.
        count: how many chunks it found.
        top_similarity: the highest similarity that is known of them, ``None`` if none is.
        mean_similarity: their mean, ``None`` if none is known.
    """

    leg: str
    count: int
    top_similarity: float | None
    mean_similarity: float | None


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """All legs together.

    Attributes:
        legs: in their order.
        merged: how many chunks they found, each counted once.
        duplicates: how many of their hits another leg had as well.
        dedup_rate: ``duplicates`` as a share of all hits, 0-1; 0 if there was none.
    """

    legs: tuple[LegFigures, ...]
    merged: int
    duplicates: int
    dedup_rate: float


def figures(legs: Sequence[RankedLeg], merged: Sequence[Candidate]) -> SearchFigures:
    """The figures of one search.

    Args:
        legs: what was fused.
        merged: what came of it, before anything is cut.
    """
    found = sum(len(leg.candidates) for leg in legs)
    return SearchFigures(
        legs=tuple(map(_of_leg, legs)),
        merged=len(merged),
        duplicates=found - len(merged),
        dedup_rate=duplicate_rate(found, len(merged)),
    )


def _of_leg(leg: RankedLeg) -> LegFigures:
    known = [candidate.similarity for candidate in leg.candidates if candidate.similarity is not None]
    return LegFigures(leg.name, len(leg.candidates), max(known, default=None), mean(known))
