"""Installation of the schema, and loading of files into its corpora: the samples, or a backend's own."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from worker.adapters.postgres import embedders
from worker.adapters.postgres.column_types import INDEXED_DIMENSIONS, fits_in_line
from worker.adapters.postgres.ownership import check_owners, vector_schema
from worker.adapters.postgres.sql import blocks
from worker.adapters.postgres.text_statistics import refresh
from worker.cli.corpus_files import EMBED_WITH, Document
from worker.cli.usage import WrongUsage
from worker.core.text.embedded_text import under_headings
from worker.model import DIMENSIONS
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    import psycopg
    from numpy.typing import NDArray

    from worker.adapters.providers.embedder import Embedder
    from worker.cli.corpus_files import AnyItem, CorpusFile, DocumentChunk
    from worker.settings.serving import CorpusSettings

    Vector = NDArray[np.float32]

_CORES = os.cpu_count() or 1
_CHUNKS_AT_ONCE = 64  # are embedded, and committed
_SHARE = -(-_CHUNKS_AT_ONCE // min(_CORES, 8))
"""Of them, what is embedded in one call: a local model uses one core for each."""

_SQL = blocks("loader")
_UPSERT_DOCUMENT = _SQL["upsert_document"]
_INSERT_GRANT = _SQL["insert_grant"]
_INSERT_CHUNK = _SQL["insert_chunk"]
_SELECT_CHUNKS = _SQL["select_chunks"]
_UPDATE_PLACE = _SQL["update_place"]
_SELECT_DOCUMENTS_BELOW = _SQL["select_documents_below"]
_SELECT_DOCUMENTS_OF_CHUNKS = _SQL["select_documents_of_chunks"]
_DELETE_DOCUMENTS = _SQL["delete_documents"]
_DELETE_GRANTS = _SQL["delete_grants"]
_DELETE_CHUNKS = _SQL["delete_chunks"]
_DELETE_OTHER_CHUNKS = _SQL["delete_other_chunks"]
_UPSERT_SECTION = _SQL["upsert_section"]
_UPSERT_EXAMPLE = _SQL["upsert_example"]
_DIMENSIONS_OF = _SQL["dimensions_of"]
_LANGUAGES = _SQL["languages"]
_WORDS = _SQL["words"]
_FOLDS = _SQL["folds"]
_IS_COUNTED = _SQL["is_counted"]

_OVER_HALFVEC = b"((embedding::public.halfvec(%d)) public.halfvec_cosine_ops)" % DIMENSIONS
_PGVECTOR = re.compile(rb"public\.(?=(?:half)?vec(?:tor)?[(_])")

_LANGUAGE = "english"


LOCK_SECONDS = 10.0
"""Seconds that `migrate` waits for a lock: sessions behind it in the lock's queue, also searches, wait as well."""


def migrate(
    connection: psycopg.Connection[Any],
    *,
    records_only: bool = False,
    lock_seconds: float = LOCK_SECONDS,
    dimensions: int | None = None,
    index: str | None = None,
    language: str | None = None,
) -> list[str]:
    """Install or update the worker's records and the reference schema in one transaction.

    Args:
        connection: a connection of a role that may create roles, schemas and extensions.
        records_only: leave the reference schema out, for a backend with tables of its own.
        lock_seconds: seconds to wait for a lock of another session.
        dimensions: of the reference tables' embeddings; default those they have, 768 for new ones.
        index: what the HNSW indexes of new tables are over, ``halfvec`` or ``vector``; default ``halfvec``.
        language: of the words of new tables; default ``english``.

    Returns:
        What remains to be done to the tables and statistics that were there, in this order.

    Raises:
        psycopg.errors.LockNotAvailable: the lock was held longer; nothing is changed.
        SettingsError: another role owns some of what would be updated; nothing is changed.
        WrongUsage: the tables hold embeddings of other dimensions, or Postgres does not know the language; nothing is
            changed.
    """
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (str(int(lock_seconds * 1000)),))
        # Made first: a schema that another role makes meanwhile is seen by the check.
        connection.execute("CREATE SCHEMA IF NOT EXISTS retrieval")
        check_owners(connection, () if records_only else _TABLES)
        folded = connection.execute(_FOLDS).fetchone() == (True,)
        connection.execute((config_folder() / "records.sql").read_bytes())
        if not records_only:
            size, words = _dimensions_to_install(connection, dimensions), _known_language(connection, language)
            pgvector = vector_schema(connection) or "public"
            connection.execute(reference_schema(size, index or "halfvec", pgvector, words))
        return _remaining(connection, records_only=records_only, folded=folded, language=language)


def _remaining(
    connection: psycopg.Connection[Any], *, records_only: bool, folded: bool, language: str | None
) -> list[str]:
    """Return what `migrate` leaves to be done, which writes no table again and counts no words.

    Args:
        connection: as of `migrate`.
        records_only: as of `migrate`.
        folded: whether texts without a column of words were folded before.
        language: as of `migrate`.
    """
    stored = [] if records_only else connection.execute(_WORDS, ([*REFERENCE_TABLES],)).fetchall()
    unfolded = [table for table, _, _, is_folded in stored if not is_folded]
    other_language_tables = [
        (table, columns, stored_language)
        for table, columns, stored_language, _ in stored
        if language and stored_language not in {None, language}
    ]
    remaining = []
    if unfolded or (not folded and connection.execute(_IS_COUNTED).fetchone() == (True,)):
        remaining += ["replace the workers of the older version, which does not fold accents in questions"]
        if unfolded:
            remaining += [f"run the ALTER TABLE that 'retrieval-worker doctor' names for {', '.join(unfolded)}"]
        remaining += ["run 'retrieval-worker statistics', because words were counted with their accents"]
    remaining += [
        f"{table} keeps the words of {stored_language}: where they should be of {language}, stop the workers, run "
        f"ALTER TABLE {table} {columns}, then 'retrieval-worker migrate --language {language}', set the language of "
        "its corpus, and run 'retrieval-worker statistics'"
        for table, columns, stored_language in other_language_tables
    ]
    return remaining


def reference_schema(
    dimensions: int, index: str = "halfvec", pgvector: str = "public", language: str = _LANGUAGE
) -> bytes:
    """Return the reference schema for embeddings of these dimensions: above 2,000 they are ``halfvec``.

    Args:
        dimensions: of the embeddings.
        index: what the HNSW indexes are over: ``halfvec`` or ``vector``.
        pgvector: schema of pgvector, as SQL.
        language: of the words, as small letters and underscores.

    >>> [line.split(b" WITH")[0] for line in reference_schema(2001).splitlines() if b"USING hnsw" in line][0]
    b'      USING hnsw (embedding public.halfvec_cosine_ops)'
    """
    kind = b"vector" if dimensions <= INDEXED_DIMENSIONS["vector"] else b"halfvec"
    schema = (config_folder() / "schema.sql").read_bytes()
    if kind.decode() == index:
        schema = schema.replace(_OVER_HALFVEC, b"(embedding public.%b_cosine_ops)" % kind)
    schema = schema.replace(b"halfvec(%d)" % DIMENSIONS, b"halfvec(%d)" % dimensions)
    schema = schema.replace(b" public.vector(%d)" % DIMENSIONS, b" public.%b(%d)" % (kind, dimensions))
    schema = schema.replace(f"'retrieval.{_LANGUAGE}'".encode(), f"'retrieval.{language}'".encode())
    schema = _PGVECTOR.sub(lambda _: pgvector.encode() + b".", schema)
    if fits_in_line(kind.decode(), dimensions):
        return schema
    return schema.replace(b"COLUMN embedding SET STORAGE PLAIN", b"COLUMN embedding SET STORAGE EXTERNAL")


def _known_language(connection: psycopg.Connection[Any], language: str | None) -> str:
    languages = [name for (name,) in connection.execute(_LANGUAGES).fetchall()]
    if language is not None and language not in languages:
        raise WrongUsage(f"--language {language}: expected one of {', '.join(languages)}")
    return language or _LANGUAGE


def _dimensions_to_install(connection: psycopg.Connection[Any], requested_dimensions: int | None) -> int:
    stored = {target.table: dimensions_of(connection, target.table) for target in _TARGETS.values()}
    installed = {table: size for table, size in stored.items() if size is not None}
    if requested_dimensions is None:
        return next(iter(installed.values()), DIMENSIONS)
    for table, size in installed.items():
        if size != requested_dimensions:
            raise WrongUsage(
                f"--dimensions {requested_dimensions}: {table} holds embeddings of {size} dimensions: leave the option "
                "out, or drop the reference tables, migrate and load again"
            )
    return requested_dimensions


def dimensions_of(connection: psycopg.Connection[Any], table: str) -> int | None:
    """Return the dimensions of a reference table's embeddings; None if there is no such table."""
    row = connection.execute(_DIMENSIONS_OF, (table,)).fetchone()
    return row[0] if row else None


def set_worker_password(connection: psycopg.Connection[Any], password: str) -> None:
    """Set the password of the worker's role, hashed here, so that it is in no server log."""
    hashed = connection.pgconn.encrypt_password(password.encode(), b"retrieval_worker", b"scram-sha-256")
    connection.execute(sql.SQL("ALTER ROLE retrieval_worker PASSWORD {}").format(sql.Literal(hashed.decode())))


def load(
    connection: psycopg.Connection[Any],
    file: CorpusFile,
    embedder: Embedder,
    progress: Callable[[int], None] = lambda _: None,
    embed_with: Mapping[str, Sequence[str]] = EMBED_WITH,
    *,
    embed_unchanged: bool = False,
) -> int:
    """Put a file's items into the reference tables of its corpus; items of the same id are replaced.

    The embedder is recorded with the corpus: a worker with another one refuses to search it by text. Chunks of
    documents that are there, of the same embedder and text, keep their rows and embeddings, so a second call goes on
    where a first was interrupted.

    Args:
        connection: a connection of a role that may write there.
        file: a file from `worker.cli.corpus_files.read`.
        embedder: makes the chunks' embeddings.
        progress: called with the number of chunks just written.
        embed_with: by corpus, the columns that are joined to a text when it is embedded.
        embed_unchanged: embed unchanged chunks as well.

    Returns:
        Number of chunks written.

    Raises:
        WrongUsage: see `check_chunk_ids`; nothing is written.
    """
    check_chunk_ids(connection, [file])
    with connection.transaction():
        types = vector_schema(connection) or "public"
        connection.execute(f"SET LOCAL search_path = pg_catalog, {types}, pg_temp".encode())
        register_vector(connection)
    target, columns = _TARGETS[file.corpus], embed_with.get(file.corpus, ())
    dimensions = dimensions_of(connection, target.table) or DIMENSIONS
    recorded = embedders.stored_by_table(connection).get(target.table)
    if recorded is None and connection.execute(target.remaining.encode(), ([],)).fetchone() == (False,):
        # An interrupted load goes on where it was: its rows are known to be of this embedder.
        recorded = embedders.identity(embedder, dimensions)
        embedders.store(connection, target.table, recorded)
    is_same = not embed_unchanged and recorded is not None and embedders.disagreement(embedder, recorded) is None
    with ThreadPoolExecutor(_CORES) as pool:
        for batch in _batches(_writes(connection, file, columns, reuse=is_same)):
            texts = [text for write in batch for text in write.texts]
            shares = [texts[start : start + _SHARE] for start in range(0, len(texts), _SHARE)]
            vectors = iter([*chain.from_iterable(pool.map(partial(embedder.embed, dimensions=dimensions), shares))])
            for write in batch:
                with connection.transaction(), connection.cursor() as cursor:
                    target.store(cursor, write, vectors)
                progress(write.chunks)
    connection.execute(f"ANALYZE {target.tables}".encode())
    embedders.store(connection, target.table, embedders.identity(embedder, dimensions))
    return file.chunks


@dataclass(frozen=True, slots=True)
class _Write:
    """One transaction of a load: an item, or some chunks of a long document.

    Attributes:
        item: the item.
        embedded: positions of its chunks that get an embedding.
        texts: what is embedded for them.
        chunks: number of chunks that are done with it.
        is_last: whether the item is whole with it.
    """

    item: AnyItem
    embedded: Sequence[int]
    texts: Sequence[str]
    chunks: int
    is_last: bool = True


def _writes(
    connection: psycopg.Connection[Any], file: CorpusFile, columns: Sequence[str], *, reuse: bool
) -> Iterator[_Write]:
    """Yield the writes of a file, each of at most `_CHUNKS_AT_ONCE` embeddings; ``reuse``: of what changed only."""
    for item in file.items:
        texts = [text for _, text in item.to_embed(columns)]
        changed = [*range(len(texts))]
        if reuse and isinstance(item, Document):
            same = _embedded_texts(connection, item.id, columns)
            changed = [i for i, chunk in enumerate(item.chunks) if same.get(chunk.id) != (chunk.text, texts[i])]
        starts = range(0, max(len(changed), 1), _CHUNKS_AT_ONCE)
        for start in starts:
            positions, is_last = changed[start : start + _CHUNKS_AT_ONCE], start == starts[-1]
            chunk_count = len(positions) + (len(texts) - len(changed) if is_last else 0)
            yield _Write(item, positions, [texts[i] for i in positions], chunk_count, is_last)


def _embedded_texts(
    connection: psycopg.Connection[Any], document_id: str, columns: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return the text of each stored chunk of a document, and what was embedded for it."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_SELECT_CHUNKS, (document_id,)).fetchall()
    return {
        row["id"]: (row["text"], under_headings(row["text"], [row.get(column) for column in columns])) for row in rows
    }


def _batches(writes: Iterable[_Write]) -> Iterator[list[_Write]]:
    """Yield writes together whose texts are embedded in one call."""
    batch: list[_Write] = []
    for write in writes:
        if batch and sum(len(batched_write.texts) for batched_write in batch) + len(write.texts) > _CHUNKS_AT_ONCE:
            yield batch
            batch = []
        batch.append(write)
    if batch:
        yield batch


def check_rights(connection: psycopg.Connection[Any], root: str, owner: str, tenant: str | None) -> list[str]:
    """Return the ids of the stored documents of a folder or file, if all are the same owner's.

    Args:
        connection: a connection of a role that sees every row.
        root: name of the folder, which begins their ids, or the id of the file's document.
        owner: who is to own the documents.
        tenant: of the owner.

    Raises:
        WrongUsage: one is another's.
    """
    folder, *_ = root.split("/")
    rows = connection.execute(_SELECT_DOCUMENTS_BELOW, (f"{root}/", root)).fetchall()
    for document_id, stored_owner, stored_tenant in rows:
        if (stored_owner, stored_tenant) != (owner, tenant):
            of_tenant = f" of the tenant {stored_tenant}" if stored_tenant else ""
            raise WrongUsage(
                f"the document {document_id} belongs to {stored_owner}{of_tenant}: rename the folder {folder}, which "
                "begins the ids of its documents; nothing is loaded"
            )
    return [row[0] for row in rows]


def delete_documents(connection: psycopg.Connection[Any], ids: Sequence[str]) -> None:
    """Delete documents with their chunks and grants."""
    connection.execute(_DELETE_DOCUMENTS, (list(ids),))


def columns_to_embed(corpora: Mapping[str, CorpusSettings]) -> dict[str, Sequence[str]]:
    """Return, by reference corpus, the columns that the settings of its table join to a text when it is embedded."""
    by_table = {corpus.table: corpus.embed_with for corpus in corpora.values()}
    return {name: by_table.get(target.table, EMBED_WITH[name]) for name, target in _TARGETS.items()}


def check_embedders(connection: psycopg.Connection[Any], files: Sequence[CorpusFile], embedder: Embedder) -> None:
    """Check that the files would not mix their vectors with those of another embedder.

    Raises:
        WrongUsage: a corpus has rows of another embedder that the files do not replace; nothing is written.
    """
    recorded = embedders.stored_by_table(connection)
    for corpus in remaining_rows(connection, files):
        recorded_identity = recorded.get(_TARGETS[corpus].table)
        difference = None if recorded_identity is None else embedders.disagreement(embedder, recorded_identity)
        if difference is not None:
            raise WrongUsage(f"the corpus {corpus} has rows that these files do not replace: {difference}")


def stored_embedders(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Return the names of the recorded embedders of the reference corpora."""
    recorded = embedders.stored_by_table(connection)
    return {name: recorded[target.table].name for name, target in _TARGETS.items() if target.table in recorded}


def remaining_rows(connection: psycopg.Connection[Any], files: Sequence[CorpusFile]) -> list[str]:
    """Return the corpora that have rows which the files do not replace."""
    replaced: dict[str, list[str]] = {}
    for file in files:
        replaced.setdefault(file.corpus, []).extend(item.id for item in file.items)
    return [
        corpus
        for corpus, ids in replaced.items()
        if connection.execute(_TARGETS[corpus].remaining.encode(), (ids,)).fetchone() == (True,)
    ]


def count_words(
    connection: psycopg.Connection[Any], corpora: Mapping[str, CorpusSettings], files: Iterable[CorpusFile]
) -> None:
    """Refresh the word statistics of the corpora that read the reference tables of these files.

    Args:
        connection: a connection, in autocommit mode, of a role that sees every row.
        corpora: the corpora of the settings, by name.
        files: files that were loaded.
    """
    loaded = {_TARGETS[file.corpus].table for file in files}
    for name, corpus in corpora.items():
        if corpus.table in loaded:
            refresh(connection, name, corpus)


def check_chunk_ids(connection: psycopg.Connection[Any], files: Iterable[CorpusFile]) -> None:
    """Check that no chunk of a document has the id of another document's chunk.

    A document that is loaded gives its old chunks up, so one that comes after it may take their ids.

    Raises:
        WrongUsage: a chunk id is taken; the message names both documents.
    """
    documents = [item for file in files for item in file.items if isinstance(item, Document)]
    ids = [chunk_id for document in documents for chunk_id, _ in document.to_embed()]
    stored = dict(connection.execute(_SELECT_DOCUMENTS_OF_CHUNKS, (ids,)).fetchall()) if ids else {}
    loaded_holders: dict[str, str] = {}
    loaded: set[str] = set()
    for document in documents:
        loaded.add(document.id)
        for chunk_id, _ in document.to_embed():
            holder = loaded_holders.get(chunk_id) or stored.get(chunk_id, document.id)
            if holder != document.id and (chunk_id in loaded_holders or holder not in loaded):
                raise WrongUsage(
                    f"the chunk id {chunk_id} of the document {document.id} belongs to the document {holder}: give it "
                    "another id; nothing is loaded"
                )
            loaded_holders[chunk_id] = document.id


def _store_document(cursor: psycopg.Cursor[Any], write: _Write, vectors: Iterator[Vector]) -> None:
    document: Any = write.item
    visibility = document.visibility or ("public" if document.public else "private")
    cursor.execute(_UPSERT_DOCUMENT, {**document.model_dump(), "visibility": visibility})
    cursor.execute(_DELETE_GRANTS, (document.id,))
    cursor.executemany(_INSERT_GRANT, [(document.id, grantee) for grantee in dict.fromkeys(document.grants)])
    rows = [_chunk_row(document, chunk) for chunk in document.chunks]
    ids = [row["id"] for row in rows]
    new = [rows[i] for i in write.embedded]
    cursor.execute(_DELETE_CHUNKS, (document.id, [row["id"] for row in new]))
    if write.is_last:
        cursor.execute(_DELETE_OTHER_CHUNKS, (document.id, ids))
        cursor.execute(_SELECT_CHUNKS, (document.id,))
        stored = {chunk_id: place for chunk_id, _, *place in cursor}
        moved = [row for row in rows if row["id"] in stored and stored[row["id"]] != _place(row)]
        cursor.executemany(_UPDATE_PLACE, moved)
    cursor.executemany(_INSERT_CHUNK, [{**row, "embedding": next(vectors)} for row in new])


def _chunk_row(document: Document, chunk: DocumentChunk) -> dict[str, Any]:
    # The path in each chunk as well: a citation has only its chunk, and names the document by its path.
    metadata = {"path": document.path, **document.metadata} if document.path else document.metadata
    return {
        **chunk.model_dump(),
        "document_id": document.id,
        "coordinates": Jsonb(chunk.coordinates) if chunk.coordinates is not None else None,
        "metadata": Jsonb({**metadata, **chunk.metadata}),
    }


def _place(row: Mapping[str, Any]) -> list[Any]:
    """Return page, section, coordinates and metadata of a row as they are read."""
    coordinates = row["coordinates"] and row["coordinates"].obj
    return [row["page"], row["section"], coordinates, row["metadata"].obj]


def _store_section(cursor: psycopg.Cursor[Any], write: _Write, vectors: Iterator[Vector]) -> None:
    section: Any = write.item
    cursor.execute(
        _UPSERT_SECTION, {**section.model_dump(), "metadata": Jsonb(section.metadata), "embedding": next(vectors)}
    )


def _store_example(cursor: psycopg.Cursor[Any], write: _Write, vectors: Iterator[Vector]) -> None:
    cursor.execute(_UPSERT_EXAMPLE, {**write.item.model_dump(), "embedding": next(vectors)})


@dataclass(frozen=True, slots=True)
class _Target:
    """Storage of a corpus's items.

    Attributes:
        table: the table of chunks.
        tables: the tables to analyse afterwards.
        key: the column of the table with the item's id.
        store: writes an item, or a part of it, with the next embeddings, one for each text.
    """

    table: str
    tables: str
    key: str
    store: Callable[[psycopg.Cursor[Any], _Write, Iterator[Vector]], None]

    @property
    def remaining(self) -> str:
        """Statement that says whether there are rows of other items than those given."""
        return f"SELECT EXISTS (SELECT FROM {self.table} WHERE {self.key} <> ALL (%s))"  # noqa: S608 -- names of ours


_TARGETS = {
    "documents": _Target(
        "public.document_chunks",
        "public.documents, public.document_chunks, public.document_grants",
        "document_id",
        _store_document,
    ),
    "docs": _Target("public.doc_embeddings", "public.doc_embeddings", "id", _store_section),
    "examples": _Target("public.example_strudels", "public.example_strudels", "id", _store_example),
}

REFERENCE_TABLES = tuple(target.table for target in _TARGETS.values())
"""The reference schema's tables of embeddings."""
_TABLES = (*REFERENCE_TABLES, "public.documents", "public.document_grants")
