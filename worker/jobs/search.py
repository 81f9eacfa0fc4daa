"""Search: legs over several corpora in parallel, as ranked lists to be fused."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from retrieval_client.errors import RetrievalError
from worker.adapters.postgres.chunk_scores import ChunkScore, GivenChunks
from worker.adapters.postgres.fulltext import FullTextSearch, NoSearch
from worker.adapters.postgres.search import VectorSearch
from worker.core.ranking.fusion import USUAL_WORDS, RankedLeg
from worker.jobs.parallel_search import Leg, ScoredChunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
        full_text: False: no sparse leg searches it.
    """

    corpus: Corpus
    filters: FilterSet
    fetch: int
    extra: int = 0
    full_text: bool = True


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
        Leg(request.name, [_search(request, target, vectors) for target in targets], optional=bool(request.without))
        for request in requests
    ]
    return runner.run(caller, legs, deadline_seconds)


def scored_by_each(
    runner: ParallelSearch,
    caller: Principal,
    targets: Sequence[SearchTarget],
    requests: Sequence[LegRequest],
    leg_results: Sequence[LegResult],
    deadline_seconds: float,
    usual: Callable[[Iterable[str]], float | None],
) -> list[LegResult]:
    """Return the legs with their scores of what only other legs found, by one further statement a leg and corpus.

    Of a leg of vectors, a full-text search with the same vector has returned them already. A chunk without a word of
    the query has score 0; one without an embedding has no score in a leg of vectors.

    Args:
        runner: runs the statements in parallel.
        caller: the caller.
        targets: the corpora, in order of precedence.
        requests: the legs, in order of precedence.
        leg_results: the result of each.
        deadline_seconds: deadline of all scores.
        usual: usual deviation of similarities, by the texts that a leg found; None where none is known.

    Raises:
        RetrievalError: scores of a required leg failed; an optional one has failed then.
    """
    searched = [
        [_Scoring(request, target, result, usual) for target, result in zip(targets, leg.results or (), strict=False)]
        for request, leg in zip(requests, leg_results, strict=True)
    ]
    for i in range(len(targets)):
        of_corpus = [leg[i] for leg in searched if leg]
        for scoring in of_corpus:
            scoring.meet(of_corpus)
    unscored = [scoring for leg in searched for scoring in leg if scoring.missing]
    score_requests = [(scoring.chunks, bool(scoring.request.without)) for scoring in unscored]
    for scoring, outcome in zip(unscored, runner.score(caller, score_requests, deadline_seconds), strict=True):
        scoring.take(outcome)
    return [_scored(leg, scorings) for leg, scorings in zip(leg_results, searched, strict=True)]


def ranked_legs(leg_results: Sequence[LegResult], targets: Sequence[int]) -> list[RankedLeg]:
    """Return the ranked lists of legs over some of their targets, given by index; failed legs are left out."""
    return [
        _ranked(leg.name, leg.results[i], leg.scored[i] if leg.scored else None)
        for leg in leg_results
        if leg.results is not None
        for i in targets
    ]


def statistics_of(leg: LegResult) -> list[dict[str, Any] | None]:
    """Return the word statistics by which a sparse leg ranked, corpus by corpus; empty for another leg.

    None: the corpus has no statistics, so that all words weighed the same.
    """
    searches = [search for search in leg.results or () if search.scores is not None]
    return [None if search.statistics is None else asdict(search.statistics) for search in searches]


def _search(request: LegRequest, target: SearchTarget, vectors: bool) -> Search:
    fetch = target.fetch if request.without else target.fetch + target.extra
    if request.kind == "sparse" and not target.full_text:
        return NoSearch(target.corpus)
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


def _ranked(name: str, search_result: SearchResult, scored: ScoredChunks | None) -> RankedLeg:
    scores = {} if scored is None else {field.name: getattr(scored, field.name) for field in dataclasses.fields(scored)}
    if search_result.scores is None:
        return RankedLeg.dense(name, search_result.candidates, **scores)
    return RankedLeg(name, tuple(search_result.candidates), tuple(search_result.scores), **scores)


class _Scoring:
    """Scores by one leg of the candidates of one corpus, as they become known.

    Args:
        request: the leg.
        target: the corpus.
        search_result: what the leg found there.
        usual: usual deviation of similarities, by texts.

    Attributes:
        request: as given.
        candidates: what the leg found.
        missing: ids of the chunks to be scored.
        error: error of the scoring, if it failed.
    """

    def __init__(
        self,
        request: LegRequest,
        target: SearchTarget,
        search_result: SearchResult,
        usual: Callable[[Iterable[str]], float | None],
    ) -> None:
        self.request = request
        self.missing: list[str] = []
        self.error: RetrievalError | None = None
        self._corpus = target.corpus
        self._own = {candidate.chunk.id for candidate in search_result.candidates}
        self.candidates = search_result.candidates
        self._has_words = request.kind == "sparse" and target.full_text
        self._scores: dict[str, ChunkScore] = {}
        if request.kind == "dense":
            self._usual = usual(candidate.chunk.text for candidate in search_result.candidates)
        else:
            self._usual = USUAL_WORDS if search_result.statistics is not None else None

    @property
    def chunks(self) -> GivenChunks:
        """The chunks to be scored."""
        request = self.request
        query = request.text if request.kind == "sparse" or request.vector is None else request.vector
        return GivenChunks(self._corpus, self.missing, query, web_search=request.web_search)

    def meet(self, legs: Sequence[_Scoring]) -> None:
        """Note what all legs found: similarities to the same vector are known, other scores are missing."""
        chunk_ids = {candidate.chunk.id: None for leg in legs for candidate in leg.candidates}
        if self.request.kind == "sparse":
            self.missing = [*chunk_ids] if self._has_words and len(legs) > 1 else []
            return
        same = [leg for leg in legs if leg.request.vector is self.request.vector]
        for candidate in (candidate for leg in same for candidate in leg.candidates):
            if candidate.similarity is not None:
                self._scores[candidate.chunk.id] = ChunkScore(candidate.similarity)
        self.missing = [chunk_id for chunk_id in chunk_ids if chunk_id not in self._scores]

    def take(self, outcome: Mapping[str, ChunkScore] | RetrievalError) -> None:
        """Note the scores of the missing chunks, or why there are none."""
        if isinstance(outcome, RetrievalError):
            self.error = outcome
            return
        if self._has_words:
            self._scores |= dict.fromkeys(self.missing, ChunkScore(0.0))
        self._scores |= outcome

    def result(self) -> ScoredChunks:
        """Return what is known."""
        name = self._corpus.name
        return ScoredChunks(
            {(name, chunk_id): score.score for chunk_id, score in self._scores.items() if chunk_id not in self._own},
            {(name, chunk_id): score.coverage for chunk_id, score in self._scores.items() if score.coverage},
            self._usual,
        )


def _scored(leg: LegResult, scorings: Sequence[_Scoring]) -> LegResult:
    """Return a leg with its scores, or as failed."""
    error = next((scoring.error for scoring in scorings if scoring.error is not None), None)
    if error is not None:
        return dataclasses.replace(leg, results=None, error=error)
    return dataclasses.replace(leg, scored=[scoring.result() for scoring in scorings])
