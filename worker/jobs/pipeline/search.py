"""Search of the pipeline: a profile's legs over several corpora in parallel, fused into one list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.adapters.postgres.fulltext import Matching
from worker.adapters.postgres.search import Nearest
from worker.core.ranking.fusion import FUSIONS, RankedLeg
from worker.jobs.parallel_search import Leg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.postgres.search import Corpus, Found, Search
    from worker.core.ranking.vectors import Vector
    from worker.jobs.parallel_search import LegFound, ParallelSearch
    from worker.model import Candidate, FilterSet, Principal


@dataclass(frozen=True, slots=True)
class Where:
    """Corpus to search, with filters."""

    corpus: Corpus
    filters: FilterSet


@dataclass(frozen=True, slots=True)
class LegRequest:
    """Leg to run over every corpus.

    Attributes:
        name: its name in scores and traces.
        kind: ``dense`` or ``sparse``.
        text: query of a sparse leg.
        vector: query of a dense leg; a sparse leg computes similarities to it.
        weight: its weight in a weighted fusion.
        without: degradation code if it fails; "" for a required leg.
    """

    name: str
    kind: str
    text: str
    vector: Vector
    weight: float = 1.0
    without: str = ""


@dataclass(frozen=True, slots=True)
class FusedResult:
    """Fused result of the legs.

    Attributes:
        candidates: candidates of all corpora, best first, uncut.
        results: result of each leg, by name.
    """

    candidates: Sequence[Candidate]
    results: Mapping[str, LegFound]


def find(
    legs: ParallelSearch,
    asker: Principal,
    where: Sequence[Where],
    wanted: Sequence[LegRequest],
    fusion: str,
    fetch: int,
    deadline_seconds: float,
    *,
    vectors: bool,
) -> FusedResult:
    """Run legs over corpora and fuse what they find.

    Args:
        legs: runs the legs in parallel.
        asker: the caller.
        where: the corpora, in order of precedence.
        wanted: the legs, in order of precedence.
        fusion: see `worker.core.ranking.fusion.FUSIONS`.
        fetch: number of candidates per leg and corpus.
        deadline_seconds: deadline of all legs.
        vectors: whether to fetch the chunks' embeddings, too.

    Raises:
        RetrievalError: a required leg failed.
    """
    plans = [_leg(one, where, fetch, vectors) for one in wanted]
    results = legs.run(asker, plans, deadline_seconds)
    lists = [
        _ranked(one.name, result.found[i])
        for one, result in zip(wanted, results, strict=True)
        if result.found is not None
        for i in range(len(where))
    ]
    merged = FUSIONS[fusion](lists, {one.name: one.weight for one in wanted})
    return FusedResult(merged, {one.name: result for one, result in zip(wanted, results, strict=True)})


def _leg(wanted: LegRequest, where: Sequence[Where], fetch: int, vectors: bool) -> Leg:
    searches: list[Search]
    if wanted.kind == "sparse":
        searches = [
            Matching(place.corpus, wanted.text, wanted.vector, fetch, place.filters, vectors=vectors) for place in where
        ]
    else:
        searches = [Nearest(place.corpus, wanted.vector, fetch, place.filters, vectors=vectors) for place in where]
    return Leg(wanted.name, searches, bool(wanted.without))


def _ranked(name: str, found: Found) -> RankedLeg:
    if found.scores is None:
        return RankedLeg.dense(name, found.candidates)
    return RankedLeg(name, tuple(found.candidates), tuple(found.scores))
