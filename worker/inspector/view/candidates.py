"""Candidates: every chunk that a retrieval looked at, with its scores, and where and why it left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from worker.inspector.view.wording import SCORES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from retrieval_client.contract.results import FoundChunk, FusedChunk, RankedChunk

Place = tuple[str, str]
"""Corpus and chunk id: unique for each chunk."""

Outcome = Literal["kept", "withheld", "dropped"]
OUTCOMES: tuple[Outcome, ...] = ("kept", "withheld", "dropped")

WITHHELD = "changed, or no longer visible"
BEYOND_K = "beyond k, or left out by diversity"


@dataclass(frozen=True, slots=True)
class LegRank:
    """Rank of a chunk in a leg, from 1, and its score in the leg's own unit; higher is better."""

    leg: str
    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class StageRank:
    """Rank of a chunk after a stage, from 1, and its score by the last step that scored it."""

    stage: str
    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """Order of the candidates after a stage that changed it.

    Attributes:
        stage: the stage.
        places: the candidates, best first.
        scores: score of each, None where none is known.
    """

    stage: str
    places: tuple[Place, ...]
    scores: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Leg:
    """Result of one leg in one corpus.

    Attributes:
        corpus: the corpus.
        name: the leg.
        places: the chunks that it found with ranks and scores, best first.
        query: the text that it searched for; None if unknown.
        methods: its search methods.
        duration_ms: its duration; None if unknown.
    """

    corpus: str
    name: str
    places: tuple[tuple[str, LegRank], ...]
    query: str | None = None
    methods: tuple[str, ...] = ()
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class CandidateView:
    """Candidate of an answer.

    Attributes:
        corpus, chunk_id: identify it; corpus is ``""`` if the answer does not name it.
        outcome: ``kept``: in the answer; ``withheld``: recorded, but changed or no longer visible to this reader;
            ``dropped``: left before the answer.
        rank: rank in the answer, from 1; of a withheld one, in the record; None if dropped.
        stage: stage at which it left; None if kept.
        reason: reason why it left; None if kept.
        label: label in the context; None without one.
        document_id, title, page, section: its place; None if unknown; without a title, that is the document's id.
        text: its text; None unless kept.
        chunk_hash: hash of the text; None if dropped.
        similarity: cosine similarity to the query; None if unknown.
        fused, rerank, temporal: scores; None if there is none.
        legs: rank in each leg that found it.
        stages: rank after each stage that changed the order.
    """

    corpus: str
    chunk_id: str
    outcome: Outcome
    rank: int | None = None
    stage: str | None = None
    reason: str | None = None
    label: str | None = None
    document_id: str | None = None
    title: str | None = None
    page: int | None = None
    section: str | None = None
    text: str | None = None
    chunk_hash: str | None = None
    similarity: float | None = None
    fused: float | None = None
    rerank: float | None = None
    temporal: float | None = None
    legs: tuple[LegRank, ...] = ()
    stages: tuple[StageRank, ...] = ()

    @property
    def place(self) -> Place:
        """Corpus and chunk id."""
        return self.corpus, self.chunk_id


def kept_candidate(
    chunk: RankedChunk | FusedChunk,
    corpus: str,
    label: str | None = None,
    stages: Sequence[StageRank] = (),
    paths: Mapping[str, str] | None = None,
) -> CandidateView:
    """Return the candidate of a chunk of an answer."""
    scores = getattr(chunk, "scores", None)
    return CandidateView(
        corpus,
        chunk.chunk_id,
        "kept",
        rank=chunk.rank,
        label=label,
        document_id=chunk.document_id,
        title=title_of(chunk, corpus, paths or {}),
        page=chunk.page,
        section=chunk.section,
        text=chunk.text,
        chunk_hash=chunk.chunk_hash,
        similarity=chunk.similarity_score,
        fused=scores.fused if scores else None,
        rerank=scores.rerank if scores else None,
        temporal=scores.temporal if scores else None,
        legs=tuple(LegRank(leg.leg, leg.rank, leg.score) for leg in scores.legs) if scores else (),
        stages=tuple(stages),
    )


def in_order(candidates: Iterable[CandidateView], corpora: Sequence[str]) -> tuple[CandidateView, ...]:
    """Sort candidates totally: by outcome, corpus in the answer's order, rank, and chunk id.

    The rank of a dropped one is its rank after the last stage that ranked it.
    """
    position = {corpus: i for i, corpus in enumerate(corpora)}

    def key(candidate: CandidateView) -> tuple[int, int, str, float, str]:
        last_rank = candidate.stages[-1].rank if candidate.stages else float("inf")
        rank = last_rank if candidate.rank is None else candidate.rank
        return (
            OUTCOMES.index(candidate.outcome),
            position.get(candidate.corpus, len(position)),
            candidate.corpus,
            rank,
            candidate.chunk_id,
        )

    return tuple(sorted(candidates, key=key))


def stage_ranks(rankings: Iterable[Ranking]) -> dict[Place, list[StageRank]]:
    """Return the ranks of each candidate after each stage that changed the order or the scores."""
    ranks_by_place: dict[Place, list[StageRank]] = {}
    for ranking in changing(rankings):
        for rank, (place, score) in enumerate(zip(ranking.places, ranking.scores, strict=True), 1):
            ranks_by_place.setdefault(place, []).append(StageRank(ranking.stage, rank, score))
    return ranks_by_place


def changing(rankings: Iterable[Ranking]) -> list[Ranking]:
    """Return the rankings that differ from the one before."""
    changes: list[Ranking] = []
    previous_order: tuple[object, object] = ((), ())
    for ranking in rankings:
        order = (ranking.places, ranking.scores)
        if ranking.places and order != previous_order:
            changes.append(ranking)
            previous_order = order
    return changes


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a table of candidates: only those that say something.

    Attributes:
        scores: field and name of each score that a candidate has.
        stages: stages that ranked one, in order.
        has_several_corpora: True if the candidates are of several corpora.
    """

    scores: tuple[tuple[str, str], ...]
    stages: tuple[str, ...]
    has_several_corpora: bool


def columns_of(candidates: Sequence[CandidateView]) -> Columns:
    """Return the columns that a table of candidates needs."""
    scores = tuple(
        (field, name)
        for field, name in SCORES
        if any(getattr(candidate, field) is not None for candidate in candidates)
    )
    stages = dict.fromkeys(rank.stage for candidate in candidates for rank in candidate.stages)
    return Columns(scores, tuple(stages), len({candidate.corpus for candidate in candidates}) > 1)


def legs_of(candidates: Iterable[CandidateView]) -> tuple[Leg, ...]:
    """Return the legs as far as the candidates' own scores tell, in order of first appearance."""
    places_by_leg: dict[Place, list[tuple[str, LegRank]]] = {}
    for candidate in candidates:
        for leg in candidate.legs:
            places_by_leg.setdefault((candidate.corpus, leg.leg), []).append((candidate.chunk_id, leg))
    return tuple(
        Leg(corpus, name, tuple(sorted(places, key=lambda place: (place[1].rank, place[0]))))
        for (corpus, name), places in places_by_leg.items()
    )


def labels_by_place(source_labels: Mapping[str, Mapping[str, str]]) -> dict[Place, str]:
    """Return the label of each labelled chunk."""
    return {
        (name.get("corpus", ""), name["chunk_id"]): label for label, name in source_labels.items() if "chunk_id" in name
    }


def title_of(chunk: FoundChunk, corpus: str, paths: Mapping[str, str]) -> str:
    """Return the readable name of a chunk's document: a field of its metadata, else its id.

    Args:
        chunk: the chunk.
        corpus: its corpus.
        paths: corpus → name of that field.
    """
    title = chunk.metadata.get(paths.get(corpus, ""))
    return title if isinstance(title, str) and title else chunk.document_id


def where(page: int | None, section: str | None) -> str:
    """Return page and section as a reader writes them, as far as known.

    >>> where(3, "Faults"), where(None, None)
    ('p. 3, Faults', '')
    """
    return ", ".join(locator for locator in (None if page is None else f"p. {page}", section) if locator)
