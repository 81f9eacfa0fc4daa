"""Which types of columns the worker handles: any other stops the start, so that no job meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from worker.core.ranking.total_order import INTEGER_TYPES
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from worker.settings import CorpusSettings

TEXTS = ("text", "character varying", "bpchar", "name")
"""Types of which Postgres orders by a collation what the driver reads as a string (`bpchar` is ``char(n)``)."""

EMBEDDINGS = ("vector", "halfvec")
_KEYS = (*TEXTS, *INTEGER_TYPES, "uuid")
_EXPECTED = {
    "id": _KEYS,
    "document_id": _KEYS,
    "text": TEXTS,
    "page": tuple(INTEGER_TYPES),
    "section": TEXTS,
    "chunk_hash": ("bytea",),
    "text_search": ("tsvector",),
    "path": TEXTS,
}
"""By field of `Columns`; `coordinates`, `metadata` and what metadata_columns name may have any type, see `is_json`."""

_MENDS = {
    "chunk_hash": "leave it out, or map a column GENERATED ALWAYS AS (retrieval.hash_chunk_v1(…)) STORED",
    "text_search": "leave it out, or map a column GENERATED ALWAYS AS (to_tsvector(…)) STORED",
}
_MEND = "change its type, or map a view that casts it"

_AS_THEY_ARE = frozenset(
    (*TEXTS, *INTEGER_TYPES, "real", "double precision", "numeric", "boolean", "uuid", "inet", "cidr", "json", "jsonb")
)
"""Types that the driver reads as something that JSON has, or whose text is what one expects."""


class ColumnType(NamedTuple):
    """The type of a column; below a domain, of what the domain is made of.

    Attributes:
        name: as Postgres writes it without a length (``text``, ``bigint``, ``vector``).
        modifier: of a vector: its dimensions; -1 without any.
        full: as its table declares it (``vector(384)``).
        nullable: whether Postgres itself lets a row have none; of a view always.
    """

    name: str
    modifier: int = -1
    full: str = ""
    nullable: bool = False

    @property
    def embedding(self) -> str:
        """``vector`` or ``halfvec``, in whatever schema pgvector is."""
        return self.name.rpartition(".")[2]

    @property
    def is_json(self) -> bool:
        """Whether the driver reads it as JSON has it; any other type, Postgres turns to JSON."""
        return self.name.removesuffix("[]") in _AS_THEY_ARE


def wrong_types(name: str, corpus: CorpusSettings, columns: Mapping[str, ColumnType]) -> Iterator[str]:
    """Say of each mapped column of a corpus that has a type which the worker does not handle what to do about it."""
    mapped = corpus.columns.model_dump(exclude_none=True)
    for field, expected in _EXPECTED.items():
        found = columns.get(mapped.get(field, ""))
        if found is not None and found.name not in expected:
            where = f"corpora.{name}.columns.{field}: {corpus.table}.{mapped[field]}"
            yield f"{where} is {found.full}, expected {_one_of(expected)}: {_MENDS.get(field, _MEND)}"
    embedding = columns.get(corpus.columns.embedding)
    if embedding is not None and not _is_comparable(embedding):
        yield (
            f"corpora.{name}.columns.embedding: {corpus.table}.{corpus.columns.embedding} is {embedding.full}, "
            f"expected vector({DIMENSIONS}) or halfvec({DIMENSIONS}): {_embedding_mend(embedding)}"
        )


def wrong_document_types(
    name: str, corpus: CorpusSettings, document_id: ColumnType | None, columns: Mapping[str, ColumnType]
) -> Iterator[str]:
    """Say the same of the table of documents, whose ids are compared with those that the chunks have."""
    documents = corpus.documents
    if documents is None:
        return
    path = columns.get(documents.path or "")
    if path is not None and path.name not in TEXTS:
        where = f"corpora.{name}.documents.path: {documents.table}.{documents.path}"
        yield f"{where} is {path.full}, expected {_one_of(TEXTS)}: {_MEND}"
    own = columns.get(documents.id)
    if own is not None and document_id is not None and _family(own) != _family(document_id):
        yield (
            f"corpora.{name}.documents.id: {documents.table}.{documents.id} is {own.full}, and columns.document_id "
            f"{corpus.table}.{corpus.columns.document_id} is {document_id.full}: Postgres can't compare them; {_MEND}"
        )


def _is_comparable(found: ColumnType) -> bool:
    """A column that Postgres lets have any number of dimensions is judged row by row."""
    return found.embedding in EMBEDDINGS and found.modifier in {DIMENSIONS, -1}


def _embedding_mend(found: ColumnType) -> str:
    if found.embedding not in EMBEDDINGS:
        return _MEND
    if found.modifier < DIMENSIONS:
        return "pad it with zeros, which keeps the cosine distance (docs/schema.md)"
    return f"embed with a model of at most {DIMENSIONS} dimensions"


def _family(found: ColumnType) -> str:
    """What Postgres compares without a cast."""
    return "text" if found.name in TEXTS else "integer" if found.name in INTEGER_TYPES else found.name


def _one_of(names: tuple[str, ...]) -> str:
    shown = ["char" if name == "bpchar" else name for name in names]
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
