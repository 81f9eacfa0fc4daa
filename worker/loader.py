"""Loads documents into the reference schema: the sample corpus, or a backend's own file of the same form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.types.json import Jsonb

from worker.errors import SettingsError
from worker.settings import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from worker.adapters.embedder import Embedder

SAMPLE = Path(__file__).parent / "sample" / "documents.json"

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


def migrate(connection: psycopg.Connection[Any], *, records_only: bool = False) -> None:
    """Install or update the worker's records, and the reference schema, whole, in one transaction.

    Args:
        connection: of a role that may create roles, schemas and extensions.
        records_only: leave the reference schema out, for a backend with tables of its own.
    """
    with connection.transaction():
        connection.execute((config_folder() / "records.sql").read_bytes())
        if not records_only:
            connection.execute((config_folder() / "schema.sql").read_bytes())


def set_worker_password(connection: psycopg.Connection[Any], password: str) -> None:
    """Give the worker's role a password, hashed here, so that it is in no server log."""
    hashed = connection.pgconn.encrypt_password(password.encode(), b"retrieval_worker", b"scram-sha-256")
    connection.execute(sql.SQL("ALTER ROLE retrieval_worker PASSWORD {}").format(sql.Literal(hashed.decode())))


def read_documents(path: Path) -> list[dict[str, Any]]:
    """Documents of a JSON file (``{"documents": [...]}``; see worker/sample/documents.json).

    Raises:
        SettingsError: the file can't be read, or isn't of that form.
    """
    try:
        documents = json.loads(path.read_text(encoding="utf-8"))["documents"]
    except (OSError, ValueError, KeyError, TypeError):
        raise SettingsError(f'{path}: expected a JSON file with {{"documents": [...]}}') from None
    for i, document in enumerate(documents):
        missing = {"id", "owner", "chunks"} - document.keys()
        if missing:
            raise SettingsError(f"{path}: documents[{i}] has no {', '.join(sorted(missing))}")
    return list(documents)


def load_documents(
    connection: psycopg.Connection[Any],
    documents: Sequence[dict[str, Any]],
    embedder: Embedder,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Put documents, their grants and chunks into the reference schema; documents of the same id are replaced.

    Args:
        connection: of a role that may write there.
        documents: as `read_documents` gives them.
        embedder: makes the embeddings of chunks that bring none.
        progress: called with the number of chunks just written.

    Returns:
        How many chunks were written.
    """
    register_vector(connection)
    total = 0
    for document in documents:
        with connection.transaction():
            _load_document(connection, document, embedder)
        total += len(document["chunks"])
        progress(len(document["chunks"]))
    connection.execute("ANALYZE public.documents, public.document_chunks, public.document_grants")
    return total


def _load_document(connection: psycopg.Connection[Any], document: dict[str, Any], embedder: Embedder) -> None:
    row = {"title": "", "path": "", "kind": "", "tenant": None, **document}
    row["visibility"] = document.get("visibility") or ("public" if document.get("public") else "private")
    connection.execute(_DOCUMENT, row)
    connection.execute("DELETE FROM public.document_grants WHERE document_id = %s", (document["id"],))
    connection.execute("DELETE FROM public.document_chunks WHERE document_id = %s", (document["id"],))
    cursor = connection.cursor()
    cursor.executemany(_GRANT, [(document["id"], grantee) for grantee in document.get("grants", [])])
    cursor.executemany(_CHUNK, _chunk_rows(document, embedder))


def _chunk_rows(document: dict[str, Any], embedder: Embedder) -> list[dict[str, Any]]:
    chunks = document["chunks"]
    vectors = embedder.embed([chunk["text"] for chunk in chunks])
    return [
        {
            "id": chunk["id"],
            "document_id": document["id"],
            "text": chunk["text"],
            "page": chunk.get("page"),
            "section": chunk.get("section"),
            "coordinates": Jsonb(chunk["coordinates"]) if chunk.get("coordinates") is not None else None,
            "metadata": Jsonb({**document.get("metadata", {}), **chunk.get("metadata", {})}),
            "embedding": vector,
        }
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]
