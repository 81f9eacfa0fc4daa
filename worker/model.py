"""The vocabulary: the nouns that every layer speaks. Frozen, and importing nothing else of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

DIMENSIONS = 768
"""Length of every embedding, in the queries and in the corpora."""


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
class Candidate:
    """A chunk that a search proposes. ``similarity`` is cosine similarity in [-1, 1]: higher is better."""

    chunk: Chunk
    similarity: float


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
