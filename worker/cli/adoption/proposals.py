"""From tables with vectors to corpora: which column is what, whether a view is needed, who may see a row. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.adapters.postgres.column_types import INDEXED_DIMENSIONS, TEXTS
from worker.cli.adoption.tables import JSON, LANGCHAIN_EMBEDDINGS, VECTORS
from worker.core.ranking.total_order import INTEGER_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from worker.cli.adoption.tables import Collection, Column, Reference, Table, VectorTable

LANGCHAIN_OLD, LANGCHAIN, LLAMAINDEX, OWN = "LangChain PGVector", "LangChain PGVectorStore", "LlamaIndex", "own table"

_IDS = (*TEXTS, *INTEGER_TYPES, "uuid")
_PAGES = (*INTEGER_TYPES, *TEXTS)

_TEXT_NAMES = ("text", "content", "chunk_text", "text_content", "page_content", "body", "chunk", "document", "passage")
_DOCUMENT_NAMES = ("document_id", "doc_id", "ref_doc_id", "source_id", "file_id", "article_id", "parent_id", "source")
_PAGE_NAMES = ("page", "page_number", "page_no", "page_label")
_SECTION_NAMES = ("section", "section_title", "heading", "header")
_PATH_NAMES = ("path", "file_path", "source", "file_name", "filename", "url")
_METADATA_NAMES = ("metadata", "metadata_", "langchain_metadata", "cmetadata", "meta", "attributes", "properties")
_CALLERS = {
    "tenant_id": ("tenant_id", "tenant", "org_id", "organization_id", "account_id", "workspace_id", "company_id"),
    "user_id": ("user_id", "owner_id", "owner", "created_by", "author_id"),
}
"""Claim → columns or keys of metadata that may hold it."""

_LLAMAINDEX_OWN = ("_node_content", "_node_type")
"""Keys of metadata in which LlamaIndex keeps each node a second time."""


@dataclass(frozen=True, slots=True)
class Value:
    """Source of a field of a corpus.

    Attributes:
        sql: an expression over the table, whose alias is ``c``.
        column: the column, if it is one that the worker reads as it is.
    """

    sql: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A policy to choose.

    Attributes:
        claim: the claim that it compares.
        condition: its condition, on the table of chunks.
        indexed: what an index makes it fast by, as SQL; empty for none.
        reference: the foreign key it goes by, if another table says who may see a row.
        there: its condition on that table.
    """

    claim: str
    condition: str
    indexed: str = ""
    reference: Reference | None = None
    there: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A table, or a collection in it, as a corpus.

    Attributes:
        corpus: name of the corpus.
        origin: what wrote the table.
        source: the table.
        fields: field of `Columns` → what it reads.
        extra: columns that appear in `metadata`.
        dimensions: of its embeddings.
        index: type of the HNSW index's vectors; None where no index holds them.
        embedded: what an index is built on, as SQL.
        reasons: why a view is needed; none: the corpus reads the table itself.
        where: condition of the view; empty for all rows.
        choices: policies to choose from.
        notes: what to know before using it.
    """

    corpus: str
    origin: str
    source: VectorTable
    fields: Mapping[str, Value]
    extra: Mapping[str, str]
    dimensions: int
    index: str | None
    embedded: str
    reasons: tuple[str, ...]
    where: str
    choices: tuple[Choice, ...]
    notes: tuple[str, ...]

    @property
    def has_index(self) -> bool:
        """True if the table has the index."""
        return self.index in self.source.indexes

    @property
    def view(self) -> str | None:
        """Name of the view; None if none is needed."""
        return f"{self.corpus}_chunks" if self.reasons else None

    @property
    def relation(self) -> str:
        """Name that the settings give: of the view, or of the table."""
        return f"{self.source.table.schema}.{self.view or self.source.table.name}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A table, or a column of it, that can't be a corpus as it is."""

    table: str
    reason: str


def proposals(tables: Iterable[VectorTable]) -> tuple[list[Proposal], list[Skipped]]:
    """Return a corpus for each table, collection or column of vectors; and what can't be one, with the reason."""
    made: list[Proposal] = []
    skipped: list[Skipped] = []
    for table in tables:
        for one in _of_table(table, {proposal.corpus for proposal in made}):
            if isinstance(one, Proposal):
                made.append(one)
            else:
                skipped.append(one)
    return made, skipped


def _of_table(source: VectorTable, taken: set[str]) -> Iterator[Proposal | Skipped]:
    if source.not_read:
        yield Skipped(source.table.quoted, source.not_read)
        return
    names = [source.table.schema, source.table.name]
    if any("." in name for name in names):
        yield Skipped(source.table.quoted, "its name has a dot, which the settings can't write: make a view of it")
        return
    described = source.table, *(reference.table for reference in source.references)
    written = (text for table in described for text in (table.quoted, *(column.name for column in table.columns)))
    if not all(map(str.isprintable, written)):  # would end a comment of the SQL file
        yield Skipped(source.table.quoted, "a name has a control character: make a view of it")
        return
    embeddings = [column for column in source.table.columns if column.type in VECTORS]
    for embedding in embeddings:
        parts: Sequence[Collection | None] = source.collections or (None,)
        for part in parts:
            suffix = f"_{embedding.name}" if len(embeddings) > 1 else ""
            base = part.name if part else source.table.name.removeprefix("data_")
            name = _free(_slug(base + suffix), taken)
            one = _proposal(source, embedding, part, name)
            if isinstance(one, Proposal):
                taken.add(name)
            yield one


def _slug(text: str) -> str:
    """Return a name for a corpus and a view.

    >>> _slug("My manuals (2024)"), _slug("2024"), _slug("日本")
    ('my_manuals_2024', 'corpus_2024', 'corpus')
    """
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40]
    return plain if re.match(r"[a-z]", plain) else f"corpus_{plain}".rstrip("_")


def _free(name: str, taken: set[str]) -> str:
    return next(one for one in (name, *(f"{name}_{n}" for n in range(2, 10_000))) if one not in taken)


def _proposal(source: VectorTable, embedding: Column, collection: Collection | None, name: str) -> Proposal | Skipped:
    origin = _origin(source)
    label = f"{source.table.quoted}.{embedding.quoted}" + (f", collection {collection.name}" if collection else "")
    sizes = collection.dimensions if collection else source.dimensions[embedding.name]
    if not sizes:
        return Skipped(label, "it has no vectors yet, and its type names no dimensions: fill it, then adopt it")
    if len(sizes) > 1:
        return Skipped(label, f"its vectors have {_listed(sizes)} dimensions: a corpus has one number of them")
    metadata = _metadata_column(source)
    text = _text_column(source)
    if text is None:
        return Skipped(label, "it has no column of text")
    identity = _identity(source)
    if identity is None:
        return Skipped(label, "no primary key, and no unique index without NULL, names a row: add one")
    (size,) = sizes
    reasons: list[str] = []
    fields = {"id": identity, "document_id": _document_id(source, metadata, identity), "text": text}
    fields["embedding"] = _embedding(embedding, size, source)
    fields |= _optional(source, metadata, origin, {one.column for one in fields.values()})
    if collection:
        reasons.append("one table holds all collections")
    reasons += [f"{field} is {value.sql}" for field, value in fields.items() if value.column is None]
    used = {value.column for value in fields.values()}
    extra = {
        column.name: column.name
        for column in source.table.columns
        if column.name not in used and column.type in _SCALARS and column.name not in source.table.key
    }
    return Proposal(
        name,
        origin,
        source,
        fields,
        extra if origin == LANGCHAIN else {},
        size,
        *_index(embedding, size, source),
        tuple(reasons),
        f"c.collection_id = '{collection.id}'" if collection else "",
        tuple(_choices(source, metadata)),
        tuple(_notes(source, size, text)),
    )


_SCALARS = (*_IDS, "boolean", "date", "numeric", "real", "double precision", "timestamp with time zone")


def _listed(sizes: Sequence[int]) -> str:
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"


def _origin(source: VectorTable) -> str:
    names = source.columns.keys()
    if source.table.name == LANGCHAIN_EMBEDDINGS and "collection_id" in names:
        return LANGCHAIN_OLD
    if {"langchain_id", "content", "embedding"} <= names:
        return LANGCHAIN
    if {"id", "text", "metadata_", "node_id", "embedding"} <= names:
        return LLAMAINDEX
    return OWN


# --- the columns --------------------------------------------------------------------------------


def _named(source: VectorTable, names: Sequence[str], types: Sequence[str]) -> Column | None:
    """Return the column of the first of these names that is there with one of these types."""
    by_name = {snake_case(column.name): column for column in source.table.columns if column.type in types}
    return next((by_name[name] for name in names if name in by_name), None)


def snake_case(name: str) -> str:
    """Return a name as the lists above have it, however it is written.

    >>> snake_case("tenantId"), snake_case("Tenant ID"), snake_case("tenant_id")
    ('tenant_id', 'tenant_id', 'tenant_id')
    """
    return re.sub(r"[ -]", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).lower()


def _plain(column: Column) -> Value:
    return Value(f"c.{column.quoted}", column.name)


def _text_column(source: VectorTable) -> Value | None:
    """Return the column of the texts: by its name, else the one with the longest texts."""
    other = {*_DOCUMENT_NAMES, *_PAGE_NAMES, *_SECTION_NAMES, *_PATH_NAMES, *map(snake_case, source.table.key)}
    other |= {name for names in _CALLERS.values() for name in names}
    texts = [column for column in source.table.columns if column.type in TEXTS and snake_case(column.name) not in other]
    named = _named(source, _TEXT_NAMES, TEXTS)
    found = named or max(texts, key=lambda column: source.lengths.get(column.name, 0.0), default=None)
    return _plain(found) if found else None


def _metadata_column(source: VectorTable) -> Column | None:
    objects = [column for column in source.table.columns if column.type in JSON]
    return _named(source, _METADATA_NAMES, JSON) or next((one for one in objects if source.keys.get(one.name)), None)


def _identity(source: VectorTable) -> Value | None:
    """Return what names a chunk: the key, or its columns joined. Of LlamaIndex's, a node's id may be there twice."""
    columns = [source.columns[name] for name in source.table.key]
    if len(columns) == 1 and columns[0].type in _IDS:
        return _plain(columns[0])
    if not columns:
        return None
    return Value(" || ':' || ".join(f"c.{column.quoted}::text" for column in columns))


def _document_id(source: VectorTable, metadata: Column | None, identity: Value) -> Value:
    """Return a column with the document's id, else a key of metadata with it, else the chunk's own id."""
    referring = [one.column for one in source.references if one.column != "collection_id"]
    names = [*(name for name in _DOCUMENT_NAMES if name in source.columns), *referring]
    column = next((source.columns[name] for name in names if source.columns[name].type in _IDS), None)
    if column is not None:
        return _plain(column)
    key = _key(source, metadata, (*_DOCUMENT_NAMES[:3], *_PATH_NAMES))
    if metadata is None or key is None:
        return identity
    return Value(f"coalesce({_entry(metadata, key)}, ({identity.sql})::text)")


def _embedding(column: Column, size: int, source: VectorTable) -> Value:
    if column.modifier > 0:
        return _plain(column)
    return Value(f"c.{column.quoted}::{source.pgvector}.{column.type}({size})")


def _optional(source: VectorTable, metadata: Column | None, origin: str, used: set[str | None]) -> dict[str, Value]:
    """Return the fields that a table may have, each from a column or from a key of metadata."""
    found: dict[str, Value] = {}
    wanted: dict[str, tuple[Sequence[str], Sequence[str], Callable[[str], str]]] = {
        "page": (_PAGE_NAMES, _PAGES, _number),
        "section": (_SECTION_NAMES, TEXTS, str),
        "path": (_PATH_NAMES, TEXTS, str),
    }
    for field, (names, types, cast) in wanted.items():
        column = _named(source, names, types)
        key = _key(source, metadata, names)
        if column is not None and column.name not in used:
            found[field] = _plain(column)
        elif metadata is not None and key is not None:
            found[field] = Value(cast(_entry(metadata, key)))
    if metadata is not None:
        found["metadata"] = _metadata(metadata, origin)
    words = next((one for one in source.table.columns if one.type == "tsvector"), None)
    hashes = _named(source, ("chunk_hash",), ("bytea",))
    return found | {
        field: _plain(column) for field, column in {"text_search": words, "chunk_hash": hashes}.items() if column
    }


def _metadata(column: Column, origin: str) -> Value:
    if origin != LLAMAINDEX:
        return _plain(column)
    kept = " - ".join([f"c.{column.quoted}::jsonb", *(f"'{key}'" for key in _LLAMAINDEX_OWN)])
    return Value(f"({kept})")


def _key(source: VectorTable, metadata: Column | None, names: Sequence[str]) -> str | None:
    keys = source.keys.get(metadata.name, ()) if metadata else ()
    by_name = {snake_case(key): key for key in reversed(keys)}
    return next((by_name[name] for name in names if name in by_name), None)


def _entry(metadata: Column, key: str, alias: str = "c.") -> str:
    return f"{alias}{metadata.quoted} ->> '{key}'"


def _number(text: str) -> str:
    return f"CASE WHEN {text} ~ '^[0-9]{{1,9}}$' THEN ({text})::integer END"


# --- index and policies -------------------------------------------------------------------------


def _index(embedding: Column, size: int, source: VectorTable) -> tuple[str | None, str]:
    """Return the type of the HNSW index, as there is one or as one can be built, and what it is built on."""
    types = source.pgvector
    own = embedding.quoted if embedding.modifier > 0 else f"({embedding.quoted}::{types}.{embedding.type}({size}))"
    if _of_several_dimensions(source):
        return None, own
    if embedding.type == "halfvec" or "vector" in source.indexes:
        return (embedding.type if size <= INDEXED_DIMENSIONS[embedding.type] else None), own
    if size <= INDEXED_DIMENSIONS["vector"] and "halfvec" not in source.indexes:
        return "vector", own
    sized = "" if embedding.modifier > 0 else f"::{types}.vector({size})"
    halved = f"({embedding.quoted}{sized}::{types}.halfvec({size}))"
    return ("halfvec" if size <= INDEXED_DIMENSIONS["halfvec"] else None), halved


def _choices(source: VectorTable, metadata: Column | None) -> Iterator[Choice]:
    for claim, names in _CALLERS.items():
        column = _named(source, names, _IDS)
        key = _key(source, metadata, names)
        if column is not None:
            yield Choice(claim, _same(_of(source.table, column), column.type, claim), column.quoted)
        elif metadata is not None and key is not None:
            entry = _entry(metadata, key, f"{source.table.quoted}.")
            yield Choice(claim, _same(f"({entry})", "text", claim), f"({_entry(metadata, key, '')})")
        else:
            yield from _by_reference(source, claim, names)


def _by_reference(source: VectorTable, claim: str, names: Sequence[str]) -> Iterator[Choice]:
    """Yield the policy by a table that the chunks refer to, which says whose they are."""
    for reference in source.references:
        if reference.table.quoted == source.table.quoted:
            continue  # a policy can't read its own table
        other = {snake_case(column.name): column for column in reference.table.columns if column.type in _IDS}
        column = next((other[name] for name in names if name in other), None)
        if column is not None:
            own = _of(source.table, source.columns[reference.column])
            target = _of(reference.table, next(one for one in reference.table.columns if one.name == reference.target))
            # The same rows are visible in both tables, as the other one's own policy decides.
            condition = f"EXISTS (SELECT FROM {reference.table.quoted} WHERE {target} = {own} OFFSET 0)"
            yield Choice(claim, condition, "", reference, _same(_of(reference.table, column), column.type, claim))
            return


def _of(table: Table, column: Column) -> str:
    """Return a column by its table's full name: a bare one could be that of another table of a sub-select."""
    return f"{table.quoted}.{column.quoted}"


def _same(value: str, kind: str, claim: str) -> str:
    cast = "" if kind in TEXTS else f"::{kind}"
    return f"{value} = (SELECT nullif(current_setting('app.{claim}', true), ''){cast})"


def _notes(source: VectorTable, size: int, text: Value) -> Iterator[str]:
    if text.column is not None and snake_case(text.column) not in _TEXT_NAMES:
        yield f"the text is {text.column}, because its texts are the longest: check it"
    if size > INDEXED_DIMENSIONS["halfvec"]:
        yield f"no HNSW index holds {size:,} dimensions: every search compares all visible rows"
    if _of_several_dimensions(source):
        yield "collections of several dimensions share the table, so no index holds all rows: searches compare each"
    if source.table.row_security:
        yield f"row-level security is on, with {source.table.policies} policies: they decide"


def _of_several_dimensions(source: VectorTable) -> bool:
    return len({size for one in source.collections for size in one.dimensions}) > 1


def documents_of(proposal: Proposal) -> tuple[Table, Reference] | None:
    """Return the table that the document's id refers to, if policies of its own can protect it."""
    column = proposal.fields["document_id"].column
    for reference in proposal.source.references:
        if reference.column == column:
            return reference.table, reference
    return None
