"""Search: legs over several corpora in parallel, as ranked lists to be fused."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from worker.adapters.postgres.fulltext import FullTextSearch
from worker.adapters.postgres.search import VectorSearch
from worker.core.ranking.fusion import RankedLeg
from worker.jobs.parallel_search import Leg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.adapters.postgres.search import Corpus, Search, SearchResult
    from worker.core.ranking.vectors import Vector
    from worker.jobs.parallel_search import LegResult, ParallelSearch
    from worker.model import FilterSet, Principal


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """Corpus to search.

    Attributes:
        corpus: the corpus.
        filters: filters of every leg.
        fetch: number of candidates that each leg fetches.
        extra: number that a required leg fetches in addition: under fusion by similarity this replaces a weight.
    """

    corpus: Corpus
    filters: FilterSet
    fetch: int
    extra: int = 0


@dataclass(frozen=True, slots=True)
class LegRequest:
    """Leg to run over every corpus.

    Attributes:
        name: its name in scores and traces.
        kind: ``dense`` or ``sparse``.
        text: query of a sparse leg.
        vector: query of a dense leg; a sparse leg computes similarities to it, without one none.
        weight: its weight in a weighted fusion, unless the job names weights; None: the method's default.
        without: degradation code if it fails; "" for a required leg.
        web_search: a sparse leg reads its text in web search syntax.
    """

    name: str
    kind: str
    text: str
    vector: Vector | None
    weight: float | None = None
    without: str = ""
    web_search: bool = False


def search_legs(
    runner: ParallelSearch,
    caller: Principal,
    targets: Sequence[SearchTarget],
    requests: Sequence[LegRequest],
    deadline_seconds: float,
    *,
    vectors: bool,
) -> list[LegResult]:
    """Run legs over corpora.

    Args:
        runner: runs the legs in parallel.
        caller: the caller.
        targets: the corpora, in order of precedence.
        requests: the legs, in order of precedence.
        deadline_seconds: deadline of all legs.
        vectors: whether to fetch the chunks' embeddings, too.

    Raises:
        RetrievalError: a required leg failed.
    """
    legs = [
        Leg(one.name, [_search(one, target, vectors) for target in targets], optional=bool(one.without))
        for one in requests
    ]
    return runner.run(caller, legs, deadline_seconds)


def ranked_legs(found: Sequence[LegResult], targets: Sequence[int]) -> list[RankedLeg]:
    """Return the ranked lists of legs over some of their targets, given by index; failed legs are left out."""
    return [_ranked(leg.name, leg.found[i]) for leg in found if leg.found is not None for i in targets]


def statistics_of(leg: LegResult) -> list[dict[str, Any] | None]:
    """Return the word statistics by which a sparse leg ranked, corpus by corpus; empty for another leg.

    None: the corpus has no statistics, so that all words weighed the same.
    """
    searches = [found for found in leg.found or () if found.scores is not None]
    return [None if found.statistics is None else asdict(found.statistics) for found in searches]


def _search(request: LegRequest, target: SearchTarget, vectors: bool) -> Search:
    fetch = target.fetch if request.without else target.fetch + target.extra
    if request.kind == "sparse":
        return FullTextSearch(
            target.corpus,
            request.text,
            request.vector,
            fetch,
            target.filters,
            vectors=vectors,
            with_text=True,
            web_search=request.web_search,
        )
    if request.vector is None:
        raise ValueError(f"leg {request.name}: expected a vector")
    return VectorSearch(target.corpus, request.vector, fetch, target.filters, vectors=vectors, with_text=True)


def _ranked(name: str, found: SearchResult) -> RankedLeg:
    if found.scores is None:
        return RankedLeg.dense(name, found.candidates)
    return RankedLeg(name, tuple(found.candidates), tuple(found.scores))
