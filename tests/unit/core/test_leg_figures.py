from __future__ import annotations

import pytest

from worker.core.ranking.fusion import RankedLeg, similarity
from worker.core.ranking.leg_figures import LegFigures, SearchFigures, figures
from worker.model import Candidate, Chunk


def candidate(chunk_id: str, score: float | None = None) -> Candidate:
    return Candidate(Chunk(chunk_id, "d", "text", None, None, None, {}, f"sha256:{chunk_id}", 1), score)


def leg(name: str, **found: float) -> RankedLeg:
    return RankedLeg.dense(name, [candidate(chunk_id, score) for chunk_id, score in found.items()])


def test_the_figures_of_a_search() -> None:
    """Hits of each leg, what is left once each chunk counts once, and how near each leg came."""
    legs = [leg("primary", one=0.75, two=0.5, three=0.25), leg("contextual", two=0.5, four=0.25)]
    assert figures(legs, similarity(legs)) == SearchFigures(
        legs=(LegFigures("primary", 3, 0.75, 0.5), LegFigures("contextual", 2, 0.5, 0.375)),
        merged=4,
        duplicates=1,
        dedup_rate=pytest.approx(0.2),
    )


def test_an_empty_leg_has_no_similarity() -> None:
    """None, and not a zero that a mean over jobs would take for a bad match."""
    legs = [leg("primary"), leg("contextual")]
    empty = (LegFigures("primary", 0, None, None), LegFigures("contextual", 0, None, None))
    assert figures(legs, similarity(legs)) == SearchFigures(empty, 0, 0, 0.0)


def test_only_known_similarities_are_counted() -> None:
    """A full-text search's best match need not be its nearest."""
    sparse = RankedLeg("sparse", (candidate("a"), candidate("b", 0.25), candidate("c", 0.75)), (3.0, 2.0, 1.0))
    assert figures([sparse], similarity([sparse])).legs == (LegFigures("sparse", 3, 0.75, 0.5),)
