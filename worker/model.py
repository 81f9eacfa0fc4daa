"""The vocabulary: the nouns that every layer speaks. Frozen, and importing nothing else of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

DIMENSIONS = 768
"""Length of every embedding, in the queries and in the corpora."""

LegName = Literal["primary", "contextual", "sparse"]
LEGS: tuple[LegName, ...] = get_args(LegName)
"""The legs in their order of precedence: of two that rank a chunk alike, the earlier one's order stands."""


class Chunk(NamedTuple):
    """A piece of a document, as a corpus holds it. A tuple: frozen too, and made twice as fast as a dataclass.

    Attributes:
        id: the chunk's id as a string, whatever its type in the database.
        document_id: the document ("source") it was cut from, as a string.
        text: what it says.
        page: page number where the corpus has one.
        section: heading it stands under.
        coordinates: where on the page, in whatever form the backend stores.
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
    """How one leg judged a chunk.

    Attributes:
        leg: the leg's name.
        score: in the leg's own unit; higher is better.
        rank: its place in the leg, from 1.
    """

    leg: str
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """Why a candidate stands where it stands; ``dataclasses.asdict`` gives its form in the contract.

    Attributes:
        legs: of every leg that found it, in the order of the legs.
        fused: what the fusion made of them; ``None`` before it, and where it had nothing to go by.
        rerank: a reranker's score, or ``None``.
        temporal: how recent it is, by the profile's half-life, or ``None``.
    """

    legs: tuple[LegScore, ...] = ()
    fused: float | None = None
    rerank: float | None = None
    temporal: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that a search proposes.

    Attributes:
        chunk: the chunk.
        similarity: cosine similarity to the query, in [-1, 1]: higher is better. ``None`` where nothing compared
            the vectors (a full-text search of chunks without one): after all that are known. Fusion keeps it.
        scores: what each leg and each later step made of it.
        corpus: where it was found, ``""`` if only one corpus is searched. Ids are unique within a corpus.
        embedding: the chunk's vector, shape (768,), only where a refinement needs it. What a candidate is does
            not depend on it.
    """

    chunk: Chunk
    similarity: float | None
    scores: ScoreBreakdown = ScoreBreakdown()
    corpus: str = ""
    embedding: NDArray[np.floating[Any]] | None = field(default=None, compare=False, repr=False)

    @property
    def distance(self) -> float | None:
        """Cosine distance (1 - similarity), or ``None`` where the similarity is unknown."""
        return None if self.similarity is None else 1.0 - self.similarity


@dataclass(frozen=True, slots=True)
class FilterSet:
    """What a caller narrows a search to. ``None``: no such filter; an empty tuple: nothing matches it.

    Attributes:
        document_ids: only chunks of these documents.
        sections: only chunks in one of these sections.
        pages: only chunks on one of these pages.
        path_contains: only documents whose path has one of these in it, as written.
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
        """Whether any filter was given at all."""
        return any(getattr(self, name) is not None for name in self.__slots__)

    @property
    def matches_nothing(self) -> bool:
        """Whether an empty list among the filters rules out every chunk."""
        allowing = (self.document_ids, self.sections, self.pages, self.path_contains, self.ext_allow)
        return any(values == () for values in allowing)


NO_FILTERS = FilterSet()


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

    Attributes:
        claims: the mapped claims as the worker believes them; lists as tuples.
        settings: (Postgres setting, value) for **every** mapped claim, ``''`` where the claim is absent,
            so that nothing of an earlier caller can stand on a connection.
        owner: value of the owner claim, ``''`` for nobody.
    """

    claims: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[tuple[str, str], ...] = ()
    owner: str = ""
