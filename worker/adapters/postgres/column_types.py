"""Column types that the worker handles; any other stops the start, so that no job fails on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from worker.core.ranking.total_order import INTEGER_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from worker.settings.serving import CorpusSettings

TEXTS = ("text", "character varying", "bpchar", "name")
"""Types that the driver reads as strings and Postgres orders by a collation (`bpchar` is ``char(n)``)."""

EMBEDDINGS = ("vector", "halfvec")
INDEXED_DIMENSIONS = {"vector": 2000, "halfvec": 4000}
"""Most dimensions that an HNSW index of pgvector holds, by type of its vectors."""

DIMENSION_BYTES = {"vector": 4, "halfvec": 2}
"""Type of an embedding → bytes of a dimension."""

_LONGEST_IN_LINE = 7200
"""Bytes of an embedding beside which a row's other values still fit into a page of 8,192, as pointers at least."""
_KEYS = (*TEXTS, *INTEGER_TYPES, "uuid")
_EXPECTED = {
    "id": _KEYS,
    "document_id": _KEYS,
    "text": TEXTS,
    "page": (*INTEGER_TYPES, *TEXTS),
    "section": TEXTS,
    "chunk_hash": ("bytea",),
    "text_search": ("tsvector",),
    "path": TEXTS,
}
"""By field of `Columns`; `coordinates`, `metadata` and the metadata_columns may have any type, see `is_json`."""

_FIXES = {
    "chunk_hash": "leave it out, or map a column GENERATED ALWAYS AS (retrieval.hash_chunk_v1(…)) STORED",
    "text_search": "leave it out, or map a column GENERATED ALWAYS AS (to_tsvector(…)) STORED",
}
_SIGNATURE = "bit(2048)"
_FIX = "change its type, or map a view that casts it"

_AS_THEY_ARE = frozenset(
    (*TEXTS, *INTEGER_TYPES, "real", "double precision", "numeric", "boolean", "uuid", "inet", "cidr", "json", "jsonb")
)
"""Types that the driver reads as a JSON value, or whose text is the expected one."""


class ColumnType(NamedTuple):
    """The type of a column; of a domain, its base type.

    Attributes:
        name: its name in Postgres, without a length (``text``, ``bigint``, ``vector``).
        modifier: dimensions of a vector; -1 without any.
        full: the type as the table declares it (``vector(384)``).
        nullable: True if Postgres allows NULL; always for a view.
    """

    name: str
    modifier: int = -1
    full: str = ""
    nullable: bool = False

    @property
    def embedding(self) -> str:
        """Name of the vector type, ``vector`` or ``halfvec``, without pgvector's schema."""
        return self.name.rpartition(".")[2]

    @property
    def is_text(self) -> bool:
        """True if the driver reads its values as strings."""
        return self.name in TEXTS

    @property
    def is_json(self) -> bool:
        """True if the driver reads its values as JSON values; Postgres converts any other type to JSON."""
        return self.name.removesuffix("[]") in _AS_THEY_ARE


def fits_in_line(kind: str, dimensions: int) -> bool:
    """Return whether embeddings of this type can be stored in the row (``STORAGE PLAIN``).

    >>> fits_in_line("vector", 1536), fits_in_line("vector", 2000), fits_in_line("halfvec", 3072)
    (True, False, True)
    """
    return DIMENSION_BYTES[kind] * dimensions <= _LONGEST_IN_LINE


def wrong_types(name: str, corpus: CorpusSettings, columns: Mapping[str, ColumnType]) -> Iterator[str]:
    """Yield a problem, with its fix, for each mapped column of a corpus whose type the worker does not handle."""
    mapped = corpus.columns.model_dump(exclude_none=True)
    for field, expected in _EXPECTED.items():
        column = columns.get(mapped.get(field, ""))
        if column is not None and column.name not in expected:
            where = f"corpora.{name}.columns.{field}: {corpus.table}.{mapped[field]}"
            yield f"{where} is {column.full}, expected {_one_of(expected)}: {_FIXES.get(field, _FIX)}"
    signature = columns.get(corpus.columns.text_signature or "")
    if signature is not None and signature.full != _SIGNATURE:
        yield (
            f"corpora.{name}.columns.text_signature: {corpus.table}.{corpus.columns.text_signature} is "
            f"{signature.full}, expected {_SIGNATURE}: leave it out, or map a column GENERATED ALWAYS AS "
            "(retrieval.text_signature(…)) STORED"
        )
    embedding = columns.get(corpus.columns.embedding)
    if embedding is not None and not _is_comparable(embedding, corpus.dimensions):
        yield (
            f"corpora.{name}.columns.embedding: {corpus.table}.{corpus.columns.embedding} is {embedding.full}, "
            f"expected vector({corpus.dimensions}) or halfvec({corpus.dimensions}): {_embedding_fix(embedding, name)}"
        )


def wrong_document_types(
    name: str, corpus: CorpusSettings, document_id: ColumnType | None, columns: Mapping[str, ColumnType]
) -> Iterator[str]:
    """Yield the same for the table of documents, whose ids are compared with the chunks' document ids."""
    documents = corpus.documents
    if documents is None:
        return
    path = columns.get(documents.path or "")
    if path is not None and path.name not in TEXTS:
        where = f"corpora.{name}.documents.path: {documents.table}.{documents.path}"
        yield f"{where} is {path.full}, expected {_one_of(TEXTS)}: {_FIX}"
    column = columns.get(documents.id)
    if column is not None and document_id is not None and _family(column) != _family(document_id):
        yield (
            f"corpora.{name}.documents.id: {documents.table}.{documents.id} is {column.full}, and columns.document_id "
            f"{corpus.table}.{corpus.columns.document_id} is {document_id.full}: Postgres can't compare them; {_FIX}"
        )


def _is_comparable(column: ColumnType, dimensions: int) -> bool:
    """Return whether embeddings can be compared; a column of any number of dimensions is judged row by row."""
    return column.embedding in EMBEDDINGS and column.modifier in {dimensions, -1}


def _embedding_fix(column: ColumnType, corpus: str) -> str:
    if column.embedding not in EMBEDDINGS:
        return _FIX
    return f"set corpora.{corpus}.dimensions = {column.modifier} (docs/schema.md)"


def _family(column: ColumnType) -> str:
    """Return the group of types that Postgres compares without a cast."""
    return "text" if column.name in TEXTS else "integer" if column.name in INTEGER_TYPES else column.name


def _one_of(names: tuple[str, ...]) -> str:
    type_names = ["char" if name == "bpchar" else name for name in names]
    return " or ".join([", ".join(type_names[:-1]), type_names[-1]] if len(type_names) > 1 else type_names)
