"""Figures of each leg of a search over one corpus."""

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
    """Figures of one leg.

    Attributes:
        leg: the leg's name.
        count: number of chunks found.
        top_similarity: highest known similarity; ``None`` if none is known.
        mean_similarity: mean of the known similarities; ``None`` if none is known.
    """

    leg: str
    count: int
    top_similarity: float | None
    mean_similarity: float | None


@dataclass(frozen=True, slots=True)
class SearchFigures:
    """Figures of all legs together.

    Attributes:
        legs: figures of each leg, in their order.
        merged: number of distinct chunks found.
        duplicates: number of hits beyond the first of each chunk.
        dedup_rate: ``duplicates`` as a share of all hits, 0-1; 0 if there are none.
    """

    legs: tuple[LegFigures, ...]
    merged: int
    duplicates: int
    dedup_rate: float


def figures(legs: Sequence[RankedLeg], merged: Sequence[Candidate]) -> SearchFigures:
    """Return the figures of one search.

    Args:
        legs: the fused legs.
        merged: the fused candidates, before any cut.
    """
    hit_count = sum(len(leg.candidates) for leg in legs)
    return SearchFigures(
        legs=tuple(map(_of_leg, legs)),
        merged=len(merged),
        duplicates=hit_count - len(merged),
        dedup_rate=duplicate_rate(hit_count, len(merged)),
    )


def _of_leg(leg: RankedLeg) -> LegFigures:
    similarities = [candidate.similarity for candidate in leg.candidates if candidate.similarity is not None]
    return LegFigures(leg.name, len(leg.candidates), max(similarities, default=None), mean(similarities))
