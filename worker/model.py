"""The vocabulary: the types that all layers share. They are frozen, and this module imports nothing else of ours."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- the pipeline's JSON reads FilterSet's annotations
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSIONS = 768
"""Length of an embedding, where the settings of its corpus name no other."""


class Chunk(NamedTuple):
    """A chunk of a document in a corpus. A tuple: frozen too, and created twice as fast as a dataclass.

    Attributes:
        id: the chunk's id as a string, whatever its type in the database.
        document_id: the id of its document ("source"), as a string.
        text: its text.
        page: page number, if the corpus has one.
        section: its heading.
        coordinates: place on the page, in the backend's own form.
        metadata: the metadata column, and mapped columns without a field of their own.
        chunk_hash: ``sha256:`` + hex, by normaliser ``hash_version``.
        hash_version: the normaliser of ``chunk_hash``.
    """

    id: str
    document_id: str
    text: str
    page: int | None
    section: str | None
    coordinates: Any
    metadata: Mapping[str, Any]
    chunk_hash: str
    hash_version: int


@dataclass(frozen=True, slots=True)
class LegScore:
    """Score of a chunk in one leg.

    Attributes:
        leg: the leg's name.
        score: score in the leg's own unit; higher is better.
        rank: its rank in the leg, from 1.
    """

    leg: str
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """Scores that determine a candidate's rank; ``dataclasses.asdict`` gives its form in the contract.

    Attributes:
        legs: scores of each leg that found it, in the order of the legs.
        fused: score of the fusion; ``None`` before it, and if it has no value.
        rerank: score of the rerank stage: the reranker's or its convex sum with the fused one, or ``None``.
        temporal: recency by the profile's half-life, or ``None``.
    """

    legs: tuple[LegScore, ...] = ()
    fused: float | None = None
    rerank: float | None = None
    temporal: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk found by a search.

    Attributes:
        chunk: the chunk.
        similarity: cosine similarity to the query, in [-1, 1]: higher is better. ``None`` if the vectors were not
            compared (a full-text search of chunks without one): sorted last. Fusion keeps it.
        scores: scores of each leg and each later stage.
        corpus: its corpus, ``""`` if only one corpus is searched. Ids are unique within a corpus.
        embedding: the chunk's vector, shape (dimensions,), only if a refinement needs it; not compared.
    """

    chunk: Chunk
    similarity: float | None
    scores: ScoreBreakdown = ScoreBreakdown()
    corpus: str = ""
    embedding: NDArray[np.floating[Any]] | None = field(default=None, compare=False, repr=False)

    @property
    def distance(self) -> float | None:
        """Cosine distance (1 - similarity), or ``None`` if the similarity is unknown."""
        return None if self.similarity is None else 1.0 - self.similarity


@dataclass(frozen=True, slots=True)
class FilterSet:
    """Filters of a search. ``None``: no such filter; an empty tuple: nothing matches it.

    Attributes:
        document_ids: only chunks of these documents.
        sections: only chunks in one of these sections.
        pages: only chunks on one of these pages.
        path_contains: only documents whose path contains one of these, case-sensitive.
        ext_allow: only documents whose path ends with one of these extensions, in any letter case.
        ext_deny: no documents whose path ends with one of these; an empty tuple denies none.
        metadata: only chunks whose metadata holds exactly this JSON value at each of these keys.
    """

    document_ids: tuple[str, ...] | None = None
    sections: tuple[str, ...] | None = None
    pages: tuple[int, ...] | None = None
    path_contains: tuple[str, ...] | None = None
    ext_allow: tuple[str, ...] | None = None
    ext_deny: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None

    @property
    def given(self) -> bool:
        """True if any filter was given."""
        return any(getattr(self, name) is not None for name in self.__slots__)


NO_FILTERS = FilterSet()


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a job.

    Attributes:
        claims: the mapped claims, trusted or verified; lists as tuples.
        settings: (Postgres setting, value) for **every** mapped claim, ``''`` if the claim is absent, so that no value
            of an earlier caller remains on a connection.
        owner: value of the owner claim, ``''`` without one.
        min_lsn: position in Postgres' WAL that a server must have replayed before it is asked for this job, or None.
    """

    claims: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[tuple[str, str], ...] = ()
    owner: str = ""
    min_lsn: str | None = None


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """A result of a remote source.

    Attributes:
        provider: the source's name in the settings.
        title: its title.
        url: its URL.
        snippet: its text.
        score: the source's own score, or None.
        date: its date as the source reports it, or None.
        metadata: further fields that the settings map.
    """

    provider: str = ""
    title: str = ""
    url: str = ""
    snippet: str = ""
    score: float | None = None
    date: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
