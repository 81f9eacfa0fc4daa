"""Installs the schema, and loads files into its corpora: the sample's, or a backend's own of the same form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.types.json import Jsonb

from worker.settings import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    import psycopg
    from numpy.typing import NDArray

    from worker.adapters.providers.embedder import Embedder
    from worker.cli.corpus_files import CorpusFile, DocSection, Document, Example

    Vector = NDArray[np.float32]

_ITEMS_AT_ONCE = 64  # the embedder is asked for all their chunks in one call

_DOCUMENT = """
INSERT INTO public.documents (id, title, path, kind, owner_id, tenant_id, visibility)
VALUES (%(id)s, %(title)s, %(path)s, %(kind)s, %(owner)s, %(tenant)s, %(visibility)s)
ON CONFLICT (id) DO UPDATE SET title = excluded.title, path = excluded.path, kind = excluded.kind,
  owner_id = excluded.owner_id, tenant_id = excluded.tenant_id, visibility = excluded.visibility
"""

_GRANT = "INSERT INTO public.document_grants (document_id, grantee) VALUES (%s, %s)"

_CHUNK = """
INSERT INTO public.document_chunks (id, document_id, text_content, page, section, coordinates, metadata, embedding)
VALUES (%(id)s, %(document_id)s, %(text)s, %(page)s, %(section)s, %(coordinates)s, %(metadata)s, %(embedding)s)
"""

_SECTION = """
INSERT INTO public.doc_embeddings (id, page_name, page_url, section_title, content, metadata, embedding)
VALUES (%(id)s, %(page_name)s, %(page_url)s, %(section_title)s, %(content)s, %(metadata)s, %(embedding)s)
ON CONFLICT (id) DO UPDATE SET page_name = excluded.page_name, page_url = excluded.page_url,
  section_title = excluded.section_title, content = excluded.content, metadata = excluded.metadata,
  embedding = excluded.embedding
"""

_EXAMPLE = """
INSERT INTO public.example_strudels (id, title, description, code, tags, url, embedding)
VALUES (%(id)s, %(title)s, %(description)s, %(code)s, %(tags)s, %(url)s, %(embedding)s)
ON CONFLICT (id) DO UPDATE SET title = excluded.title, description = excluded.description, code = excluded.code,
  tags = excluded.tags, url = excluded.url, embedding = excluded.embedding
"""


LOCK_SECONDS = 10.0
"""How long `migrate` waits for a lock: what comes after it in the queue for that lock waits as well, searches too."""


def migrate(
    connection: psycopg.Connection[Any], *, records_only: bool = False, lock_seconds: float = LOCK_SECONDS
) -> None:
    """Install or update the worker's records, and the reference schema, whole, in one transaction.

    Args:
        connection: of a role that may create roles, schemas and extensions.
        records_only: leave the reference schema out, for a backend with tables of its own.
        lock_seconds: how long to wait for a lock that somebody else holds.

    Raises:
        psycopg.errors.LockNotAvailable: it was held for longer; nothing is changed.
    """
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (str(int(lock_seconds * 1000)),))
        connection.execute((config_folder() / "records.sql").read_bytes())
        if not records_only:
            connection.execute((config_folder() / "schema.sql").read_bytes())


def set_worker_password(connection: psycopg.Connection[Any], password: str) -> None:
    """Give the worker's role a password, hashed here, so that it is in no server log."""
    hashed = connection.pgconn.encrypt_password(password.encode(), b"retrieval_worker", b"scram-sha-256")
    connection.execute(sql.SQL("ALTER ROLE retrieval_worker PASSWORD {}").format(sql.Literal(hashed.decode())))


def load(
    connection: psycopg.Connection[Any],
    file: CorpusFile,
    embedder: Embedder,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Put a file's items into the reference tables of its corpus; items of the same id are replaced.

    Args:
        connection: of a role that may write there.
        file: as `worker.cli.corpus_files.read` gives it.
        embedder: makes the chunks' embeddings.
        progress: called with the number of chunks just written.

    Returns:
        How many chunks were written.
    """
    register_vector(connection)
    target = _TARGETS[file.corpus]
    for start in range(0, len(file.items), _ITEMS_AT_ONCE):
        items = file.items[start : start + _ITEMS_AT_ONCE]
        vectors = iter(embedder.embed([text for item in items for _, text in item.to_embed()]))
        for item in items:
            with connection.transaction(), connection.cursor() as cursor:
                written = target.store(cursor, item, vectors)
            progress(written)
    connection.execute(f"ANALYZE {target.tables}".encode())
    return file.chunks


def _store_document(cursor: psycopg.Cursor[Any], document: Document, vectors: Iterator[Vector]) -> int:
    visibility = document.visibility or ("public" if document.public else "private")
    cursor.execute(_DOCUMENT, {**document.model_dump(), "visibility": visibility})
    cursor.execute("DELETE FROM public.document_grants WHERE document_id = %s", (document.id,))
    cursor.execute("DELETE FROM public.document_chunks WHERE document_id = %s", (document.id,))
    cursor.executemany(_GRANT, [(document.id, grantee) for grantee in dict.fromkeys(document.grants)])
    # The path in each chunk as well: a citation names the document by it, and a chunk is all that a citation has.
    metadata = {"path": document.path, **document.metadata} if document.path else document.metadata
    cursor.executemany(
        _CHUNK,
        [
            {
                **chunk.model_dump(),
                "document_id": document.id,
                "coordinates": Jsonb(chunk.coordinates) if chunk.coordinates is not None else None,
                "metadata": Jsonb({**metadata, **chunk.metadata}),
                "embedding": next(vectors),
            }
            for chunk in document.chunks
        ],
    )
    return len(document.chunks)


def _store_section(cursor: psycopg.Cursor[Any], section: DocSection, vectors: Iterator[Vector]) -> int:
    cursor.execute(_SECTION, {**section.model_dump(), "metadata": Jsonb(section.metadata), "embedding": next(vectors)})
    return 1


def _store_example(cursor: psycopg.Cursor[Any], example: Example, vectors: Iterator[Vector]) -> int:
    cursor.execute(_EXAMPLE, {**example.model_dump(), "embedding": next(vectors)})
    return 1


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the items of a corpus go.

    Attributes:
        tables: what is analysed afterwards.
        store: writes one item with the next embeddings, one for each of its chunks; returns how many those were.
    """

    tables: str
    store: Callable[[psycopg.Cursor[Any], Any, Iterator[Vector]], int]


_TARGETS = {
    "documents": _Target("public.documents, public.document_chunks, public.document_grants", _store_document),
    "docs": _Target("public.doc_embeddings", _store_section),
    "examples": _Target("public.example_strudels", _store_example),
}
