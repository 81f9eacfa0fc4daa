"""From tables with vectors to corpora: which column is what, whether a view is needed, who may see a row. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.adoption.tables import JSON, LANGCHAIN_EMBEDDINGS, STATES, VECTORS, snake_case
from worker.adapters.postgres.column_types import INDEXED_DIMENSIONS, TEXTS
from worker.core.ranking.total_order import INTEGER_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from workbench.adoption.tables import Collection, Column, Reference, Table, VectorTable

LANGCHAIN_OLD, LANGCHAIN, LLAMAINDEX, OWN = "LangChain PGVector", "LangChain PGVectorStore", "LlamaIndex", "own table"

_IDS = (*TEXTS, *INTEGER_TYPES, "uuid")
_PAGES = (*INTEGER_TYPES, *TEXTS)

_TEXT_NAMES = ("text", "content", "chunk_text", "text_content", "page_content", "body", "chunk", "document", "passage")
_DOCUMENT_NAMES = ("document_id", "doc_id", "ref_doc_id", "source_id", "file_id", "article_id", "parent_id", "source")
_PAGE_NAMES = ("page", "page_number", "page_no", "page_label")
_SECTION_NAMES = ("section", "section_title", "heading", "header")
_SOURCE_URI = "x_amz_bedrock_kb_source_uri"
_PATH_NAMES = ("path", "file_path", "source", "file_name", "filename", "url", _SOURCE_URI)
_TITLES = ("title", "name", "file_name", "filename", "subject")
_URLS = ("source_url", "url", "link", "uri")
_PATHS = ("path", "file_path", "storage_path", "source")
_METADATA_NAMES = (
    *("metadata", "metadata_", "langchain_metadata", "cmetadata", "meta", "meta_data", "vmetadata", "attributes"),
    *("properties", "custom_metadata"),
)
_TENANT = "tenant_id"
_CALLERS = {
    _TENANT: (
        *("tenant_id", "tenant", "org_id", "organization_id", "organisation_id", "account_id", "workspace_id"),
        *("workspace", "company_id", "customer_id", "team_id"),
    ),
    "user_id": (
        *("user_id", "owner_id", "owner", "created_by", "created_by_id", "author_id", "uploaded_by"),
        "uploaded_by_id",
    ),
}
"""Claim → columns or keys of metadata that may hold it; the tenant's first."""

_HIDE_WHERE_SET = ("deleted_at", "archived_at", "removed_at", "hidden_at", "trashed_at", "revoked_at", "discarded_at")
_HIDE_WHERE_TRUE = (
    *("is_deleted", "deleted", "is_private", "private", "is_hidden", "hidden", "is_archived", "archived", "is_draft"),
    *("draft", "is_removed", "removed", "is_confidential", "confidential", "is_disabled", "disabled"),
)
_SHOW_WHERE_TRUE = (
    *("is_public", "public", "is_published", "published", "is_active", "active", "is_visible", "visible"),
    *("is_approved", "approved", "is_enabled", "enabled"),
)
"""Columns that may mean that a row is hidden, as `STATES`."""
_SHOWN_STATES = ("published", "public", "active", "approved", "ready", "live", "visible")

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
class Policy:
    """A policy of the worker's role.

    Attributes:
        table: its table.
        name: its name.
        condition: its condition, as SQL.
        follows: True if it shows a document where one of its chunks is visible.
    """

    table: Table
    name: str
    condition: str
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Policies to choose together.

    Attributes:
        claim: the claim that they compare; empty for none: every caller sees all rows.
        policies: one on the table of chunks, and one on each table that is read for them.
        indexed: what an index makes them fast by, as SQL; empty for none.
        value: the value that the claim is compared with, as SQL over the table ``c``, and ``d``.
        reference: the foreign key to ``d``, if another table says who may see a row.
        within: the choice by tenant whose conditions hold as well: users of two tenants may have one id.
    """

    claim: str
    policies: tuple[Policy, ...]
    indexed: str = ""
    value: str = ""
    reference: Reference | None = None
    within: Choice | None = None


@dataclass(frozen=True, slots=True)
class Hidden:
    """A column that may mean that a row is hidden.

    Attributes:
        table: its table.
        column: the column.
        visible_where: condition of the rows that are not hidden, as SQL; empty where none can be guessed.
    """

    table: Table
    column: Column
    visible_where: str


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
        hiding: columns that may mean hidden, of the table and of its documents.
        documents: the foreign key to the table of documents, if it has one.
        joined: field of `metadata` → what a view reads of the table of documents, ``d``, for it.
        path_field: field of `metadata` that names the document.
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
    hiding: tuple[Hidden, ...]
    documents: Reference | None
    joined: Mapping[str, Value]
    path_field: str | None
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
        """Name that the settings give, of the view or of the table, as psql shows it."""
        return f"{self.schema}.{self.view}" if self.view else self.source.table.quoted

    @property
    def schema(self) -> str:
        """Schema of both, as SQL."""
        return self.source.table.quoted.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A table, or a column of it, that can't be a corpus as it is."""

    table: str
    reason: str


def proposals(tables: Iterable[VectorTable]) -> tuple[list[Proposal], list[Skipped]]:
    """Return a corpus for each table, collection or column of vectors; and what can't be one, with the reason."""
    proposed: list[Proposal] = []
    skipped: list[Skipped] = []
    for table in tables:
        for outcome in _of_table(table, {proposal.corpus for proposal in proposed}):
            if isinstance(outcome, Proposal):
                proposed.append(outcome)
            else:
                skipped.append(outcome)
    return proposed, skipped


def _of_table(source: VectorTable, taken_names: set[str]) -> Iterator[Proposal | Skipped]:
    if source.not_read:
        yield Skipped(source.table.quoted, source.not_read)
        return
    names = [source.table.schema, source.table.name]
    if any("." in name for name in names):
        yield Skipped(source.table.quoted, "its name has a dot, which the settings can't write: make a view of it")
        return
    described = source.table, *(reference.table for reference in source.references)
    written_names = (text for table in described for text in (table.quoted, *(column.name for column in table.columns)))
    if not all(map(str.isprintable, written_names)):  # would end a comment of the SQL file
        yield Skipped(source.table.quoted, "a name has a control character: make a view of it")
        return
    embeddings = [column for column in source.table.columns if column.type in VECTORS]
    for embedding in embeddings:
        collections: Sequence[Collection | None] = source.collections or (None,)
        for collection in collections:
            suffix = f"_{embedding.name}" if len(embeddings) > 1 else ""
            base = collection.name if collection else source.table.name.removeprefix("data_")
            name = _free(_slug(base + suffix), taken_names)
            outcome = _proposal(source, embedding, collection, name)
            if isinstance(outcome, Proposal):
                taken_names.add(name)
            yield outcome


def _slug(text: str) -> str:
    """Return a name for a corpus and a view.

    >>> _slug("My manuals (2024)"), _slug("2024"), _slug("日本")
    ('my_manuals_2024', 'corpus_2024', 'corpus')
    """
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:40]
    return plain if re.match(r"[a-z]", plain) else f"corpus_{plain}".rstrip("_")


def _free(name: str, taken_names: set[str]) -> str:
    return next(
        free_name for free_name in (name, *(f"{name}_{n}" for n in range(2, 10_000))) if free_name not in taken_names
    )


def _proposal(source: VectorTable, embedding: Column, collection: Collection | None, name: str) -> Proposal | Skipped:
    origin = _origin(source)
    label = f"{source.table.quoted}.{embedding.quoted}" + (f", collection {collection.name}" if collection else "")
    sizes = collection.dimensions if collection else source.dimensions[embedding.name]
    if not sizes:
        return Skipped(label, "it has no vectors yet, and its type names no dimensions: fill it, then adopt it")
    if len(sizes) > 1:
        return Skipped(label, f"its vectors have {_listed(sizes)} dimensions: a corpus has one number of them")
    metadata = _metadata_column(source)
    text = _text_column(source, metadata)
    if text is None:
        return Skipped(label, "it has no column of text")
    identity = _identity(source)
    if identity is None:
        return Skipped(label, "no primary key, and no unique index without NULL, names a row: add one")
    (size,) = sizes
    reasons: list[str] = []
    fields = {"id": identity, "document_id": _document_id(source, metadata, identity), "text": text}
    fields["embedding"] = _embedding(embedding, size, source)
    fields |= _optional(source, metadata, origin, {value.column for value in fields.values()})
    documents = _documents(source, fields["document_id"])
    joined = _of_documents(documents)
    if collection:
        reasons.append("one table holds all collections")
    reasons += [f"{field} is {value.sql}" for field, value in fields.items() if value.column is None]
    if joined and documents:
        reasons.append(f"{documents.table.quoted} has the {_listed([*joined])} of the documents")
    used = {value.column for value in fields.values()}
    extra = {
        column.name: column.name
        for column in source.table.columns
        if column.name not in used and column.type in _SCALARS and column.name not in source.table.key
    }
    if origin != LANGCHAIN:
        naming_columns = (_named_column(source, names, TEXTS) for names in (_TITLES, _URLS, _PATHS))
        extra = {
            column.name: column.name
            for column in naming_columns
            if column is not None and column.name not in {text.column, *joined}
        }
    return Proposal(
        name,
        origin,
        source,
        fields,
        extra,
        size,
        *_index(embedding, size, source),
        tuple(reasons),
        f"c.collection_id = '{collection.id}'" if collection else "",
        tuple(_choices(source, metadata, documents, name)),
        tuple(_hiding(source, documents)),
        documents,
        joined,
        _path_field(source, metadata, joined, extra),
        tuple(_notes(source, size, text, documents if joined else None)),
    )


_SCALARS = (*_IDS, "boolean", "date", "numeric", "real", "double precision", "timestamp with time zone")


def _listed(entries: Sequence[object]) -> str:
    """Return a list in words.

    >>> _listed([384, 768, 1536]), _listed(["title"])
    ('384, 768 and 1536', 'title')
    """
    return " and ".join(filter(None, [", ".join(map(str, entries[:-1])), str(entries[-1])]))


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


def _named_column(source: VectorTable, names: Sequence[str], types: Sequence[str]) -> Column | None:
    """Return the column of the first of these names that is there with one of these types."""
    by_name = {snake_case(column.name): column for column in source.table.columns if column.type in types}
    return next((by_name[name] for name in names if name in by_name), None)


def _plain(column: Column) -> Value:
    return Value(f"c.{column.quoted}", column.name)


def _text_column(source: VectorTable, metadata: Column | None) -> Value | None:
    """Return the column of the texts by its name, else a key of metadata, else the column with the longest texts."""
    reserved_names = {*_DOCUMENT_NAMES, *_PAGE_NAMES, *_SECTION_NAMES, *_PATH_NAMES, *map(snake_case, source.table.key)}
    reserved_names |= {name for names in _CALLERS.values() for name in names}
    texts = [
        column
        for column in source.table.columns
        if column.type in TEXTS and snake_case(column.name) not in reserved_names
    ]
    named_column = _named_column(source, _TEXT_NAMES, TEXTS)
    key = _key(source, metadata, (*_TEXT_NAMES, "data"))
    if metadata is not None and key is not None and named_column is None:
        return Value(_entry(metadata, key))
    text_column = named_column or max(texts, key=lambda column: source.lengths.get(column.name, 0.0), default=None)
    return _plain(text_column) if text_column else None


def _metadata_column(source: VectorTable) -> Column | None:
    objects = [column for column in source.table.columns if column.type in JSON]
    return _named_column(source, _METADATA_NAMES, JSON) or next(
        (json_column for json_column in objects if source.keys.get(json_column.name)), None
    )


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
    callers = {name for names in _CALLERS.values() for name in names}
    referring = [
        reference.column
        for reference in source.references
        if reference.table.quoted != source.table.quoted
        and snake_case(reference.column) not in {"collection_id", *callers}
    ]
    names = [*(name for name in _DOCUMENT_NAMES if name in source.columns), *referring]
    column = next((source.columns[name] for name in names if source.columns[name].type in _IDS), None)
    if column is not None:
        return _plain(column)
    key = _key(source, metadata, (*_DOCUMENT_NAMES[:3], *_PATH_NAMES))
    if metadata is None or key is None:
        return identity
    return Value(f"coalesce({_entry(metadata, key)}, ({identity.sql})::text)")


def _documents(source: VectorTable, document_id: Value) -> Reference | None:
    """Return the foreign key by which chunks name their document."""
    references = (reference for reference in source.references if reference.table.quoted != source.table.quoted)
    foreign_key = next((reference for reference in references if reference.column == document_id.column), None)
    decided = source.table.row_security and source.table.policies  # no choice is left that could protect it, too
    return None if foreign_key is None or (decided and not foreign_key.table.row_security) else foreign_key


def _of_documents(documents: Reference | None) -> dict[str, Value]:
    """Return title, URL and path of a document, by the names that they have in `metadata`."""
    if documents is None:
        return {}
    texts = {snake_case(column.name): column for column in documents.table.columns if column.type in TEXTS}
    texts.pop(snake_case(documents.target), None)
    column_names = (next((name for name in names if name in texts), None) for names in (_TITLES, _URLS, _PATHS))
    return {name: Value(f"d.{texts[name].quoted}") for name in column_names if name is not None}


def _path_field(
    source: VectorTable, metadata: Column | None, joined: Mapping[str, Value], extra: Mapping[str, str]
) -> str | None:
    """Return the field of `metadata` that names a document best: a title, else an address, else a path."""
    for names in (_TITLES, _URLS, _PATHS, _PATH_NAMES):
        for name in names:
            extra_name = next((column_name for column_name in extra if snake_case(column_name) == name), None)
            field = name if name in joined else extra_name or _key(source, metadata, (name,))
            if field is not None:
                return field
    return None


def _embedding(column: Column, size: int, source: VectorTable) -> Value:
    if column.modifier > 0:
        return _plain(column)
    return Value(f"c.{column.quoted}::{source.pgvector}.{column.type}({size})")


def _optional(source: VectorTable, metadata: Column | None, origin: str, used: set[str | None]) -> dict[str, Value]:
    """Return the fields that a table may have, each from a column or from a key of metadata."""
    fields: dict[str, Value] = {}
    field_sources: dict[str, tuple[Sequence[str], Sequence[str], Callable[[str], str]]] = {
        "page": (_PAGE_NAMES, _PAGES, _number),
        "section": (_SECTION_NAMES, TEXTS, str),
        "path": (_PATH_NAMES, TEXTS, str),
    }
    for field, (names, types, cast) in field_sources.items():
        column = _named_column(source, names, types)
        key = _key(source, metadata, names)
        if column is not None and column.name not in used:
            fields[field] = _plain(column)
        elif metadata is not None and key is not None:
            fields[field] = Value(cast(_entry(metadata, key)))
    if metadata is not None:
        fields["metadata"] = _metadata(metadata, origin)
    words = next((table_column for table_column in source.table.columns if table_column.type == "tsvector"), None)
    hashes = _named_column(source, ("chunk_hash",), ("bytea",))
    return fields | {
        field: _plain(column) for field, column in {"text_search": words, "chunk_hash": hashes}.items() if column
    }


def _metadata(column: Column, origin: str) -> Value:
    if origin != LLAMAINDEX:
        return _plain(column)
    expression = " - ".join([f"c.{column.quoted}::jsonb", *(f"'{key}'" for key in _LLAMAINDEX_OWN)])
    return Value(f"({expression})")


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
    embedding_sql = (
        embedding.quoted if embedding.modifier > 0 else f"({embedding.quoted}::{types}.{embedding.type}({size}))"
    )
    if _of_several_dimensions(source):
        return None, embedding_sql
    if embedding.type == "halfvec" or "vector" in source.indexes:
        return (embedding.type if size <= INDEXED_DIMENSIONS[embedding.type] else None), embedding_sql
    if size <= INDEXED_DIMENSIONS["vector"] and "halfvec" not in source.indexes:
        return "vector", embedding_sql
    sized = "" if embedding.modifier > 0 else f"::{types}.vector({size})"
    halved = f"({embedding.quoted}{sized}::{types}.halfvec({size}))"
    return ("halfvec" if size <= INDEXED_DIMENSIONS["halfvec"] else None), halved


def _choices(
    source: VectorTable, metadata: Column | None, documents: Reference | None, corpus: str
) -> Iterator[Choice]:
    tenant = None
    for choice in _by_claims(source, metadata, documents, corpus):
        yield choice if tenant is None else _within(choice, tenant)
        tenant = choice if choice.claim == _TENANT else tenant
    read_tables = [source.table, *([documents.table] if documents else [])]
    yield Choice("", tuple(Policy(table, "retrieval_everybody", "true") for table in read_tables))


def _within(choice: Choice, tenant: Choice) -> Choice:
    """Return a choice with the conditions of the tenant's, on every table of the two."""
    tenant_policies = {policy.table.quoted: policy for policy in tenant.policies}
    policies = [_combined(policy, tenant_policies.pop(policy.table.quoted, None)) for policy in choice.policies]
    return replace(choice, policies=(*policies, *tenant_policies.values()), within=tenant)


def _combined(policy: Policy, tenant_policy: Policy | None) -> Policy:
    """Return the policy that both decide; one that follows the chunks has both already, and would read in a circle."""
    if tenant_policy is None or tenant_policy.follows or tenant_policy.condition == policy.condition:
        return policy
    if policy.follows:
        return replace(tenant_policy, name=policy.name)
    return replace(policy, condition=f"{policy.condition} AND {tenant_policy.condition}")


def _by_claims(
    source: VectorTable, metadata: Column | None, documents: Reference | None, corpus: str
) -> Iterator[Choice]:
    """Yield the policies by one claim each, the tenant's first."""
    for claim, names in _CALLERS.items():
        column = _named_column(source, names, _IDS)
        key = _key(source, metadata, names)
        if column is not None:
            same, indexed = _same(_qualified(source.table, column), column.type, claim), column.quoted
            yield _by_own(source, documents, corpus, claim, same, indexed, f"c.{column.quoted}")
        elif metadata is not None and key is not None:
            entry = _entry(metadata, key, f"{source.table.quoted}.")
            same, indexed = _same(f"({entry})", "text", claim), f"({_entry(metadata, key, '')})"
            yield _by_own(source, documents, corpus, claim, same, indexed, _entry(metadata, key))
        else:
            yield from _by_reference(source, documents, claim, names)


def _by_own(
    source: VectorTable, documents: Reference | None, corpus: str, claim: str, same: str, indexed: str, value: str
) -> Choice:
    """Return the policy by a column, or a key of metadata, of the chunks; their documents follow."""
    chunk_policy = Policy(source.table, f"retrieval_by_{claim}", same)
    if documents is None:
        return Choice(claim, (chunk_policy,), indexed, value)
    column = _caller_column(documents.table, _CALLERS[claim])
    if column is not None:
        follow = Policy(
            documents.table, chunk_policy.name, _same(_qualified(documents.table, column), column.type, claim)
        )
    else:
        chunk = _qualified(source.table, source.columns[documents.column])
        seen = f"EXISTS (SELECT FROM {source.table.quoted} WHERE {chunk} = {_target(documents)} OFFSET 0)"
        follow = Policy(documents.table, f"retrieval_of_{corpus}", seen, follows=True)
    return Choice(claim, (chunk_policy, follow), indexed, value)


def _by_reference(
    source: VectorTable, documents: Reference | None, claim: str, names: Sequence[str]
) -> Iterator[Choice]:
    """Yield the policy by a table that the chunks refer to, which says whose they are: first that of documents."""
    for reference in sorted(source.references, key=lambda foreign_key: foreign_key is not documents):
        if reference.table.quoted == source.table.quoted:
            continue  # a policy can't read its own table
        column = _caller_column(reference.table, names)
        if column is None:
            continue
        # The same rows are visible in both tables, as the other one's own policy decides.
        seen = _seen(source, reference)
        reference_policy = Policy(
            reference.table, f"retrieval_by_{claim}", _same(_qualified(reference.table, column), column.type, claim)
        )
        policies = [reference_policy, Policy(source.table, reference_policy.name, seen)]
        if documents is not None and documents.table.quoted != reference.table.quoted:
            chunk = _qualified(source.table, source.columns[documents.column])
            follow = f"EXISTS (SELECT FROM {source.table.quoted} WHERE {chunk} = {_target(documents)} OFFSET 0)"
            policies.append(Policy(documents.table, reference_policy.name, follow, follows=True))
        yield Choice(claim, tuple(policies), "", f"d.{column.quoted}", reference)
        return


def _caller_column(table: Table, names: Sequence[str]) -> Column | None:
    columns = {snake_case(column.name): column for column in table.columns if column.type in _IDS}
    return next((columns[name] for name in names if name in columns), None)


def _seen(source: VectorTable, reference: Reference) -> str:
    """Return the condition that the row that a chunk refers to is visible."""
    referring_column = _qualified(source.table, source.columns[reference.column])
    return f"EXISTS (SELECT FROM {reference.table.quoted} WHERE {_target(reference)} = {referring_column} OFFSET 0)"


def _target(reference: Reference) -> str:
    return _qualified(
        reference.table, next(column for column in reference.table.columns if column.name == reference.target)
    )


def _hiding(source: VectorTable, documents: Reference | None) -> Iterator[Hidden]:
    """Yield the columns that may mean that a row is hidden."""
    for table in (source.table, *([documents.table] if documents else [])):
        for column in table.columns:
            name, value = snake_case(column.name), _qualified(table, column)
            if name in _HIDE_WHERE_SET:
                yield Hidden(table, column, f"{value} IS NULL")
            elif name in _HIDE_WHERE_TRUE:
                yield Hidden(table, column, f"{value} IS NOT TRUE" if column.type == "boolean" else "")
            elif name in _SHOW_WHERE_TRUE:
                yield Hidden(table, column, f"{value} IS TRUE" if column.type == "boolean" else "")
            elif name in STATES:
                yield Hidden(table, column, _of_state(value, table.states.get(column.name, ())))


def _of_state(value: str, states: Sequence[str]) -> str:
    """Return the condition that a state is one that sounds visible; empty where none does.

    >>> _of_state("docs.status", ["draft", "Published"])
    "docs.status IN ('Published')"
    """
    visible_states = ", ".join(f"'{state}'" for state in states if state.lower() in _SHOWN_STATES)
    return f"{value} IN ({visible_states})" if visible_states else ""


def _qualified(table: Table, column: Column) -> str:
    """Return a column by its table's full name: a bare one could be that of another table of a sub-select."""
    return f"{table.quoted}.{column.quoted}"


def _same(value: str, kind: str, claim: str) -> str:
    cast = "" if kind in TEXTS else f"::{kind}"
    return f"{value} = (SELECT nullif(current_setting('app.{claim}', true), ''){cast})"


def _notes(source: VectorTable, size: int, text: Value, joined: Reference | None) -> Iterator[str]:
    if joined is not None:
        yield f"chunks whose document is not in {joined.table.quoted}, or not visible, are left out"
    if text.column is not None and snake_case(text.column) not in _TEXT_NAMES:
        yield f"the text is {text.column}, because its texts are the longest: check it"
    if size > INDEXED_DIMENSIONS["halfvec"]:
        yield f"no HNSW index holds {size:,} dimensions: every search compares all visible rows"
    if _of_several_dimensions(source):
        yield "collections of several dimensions share the table, so no index holds all rows: searches compare each"
    if source.table.row_security and source.table.policies:
        yield f"row-level security is on, with {source.table.policies} policies: they decide"


def _of_several_dimensions(source: VectorTable) -> bool:
    return len({size for collection in source.collections for size in collection.dimensions}) > 1
