"""The reference schema filled with a dataset, and its HNSW index."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.types.json import Jsonb

from synthetic.many_chunks import OWNERS_POLICY
from synthetic.vectors import (
    CHUNK_SPREAD,
    CHUNKS_PER_DOCUMENT,
    DOCUMENT_SPREAD,
    FIELD_SPREAD,
    FIELDS,
    TOPIC_SPREAD,
    TOPICS,
    VISIBLE_PERCENT,
    chunk_id,
)
from worker.cli.loader import migrate
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from synthetic.vectors import Dataset, Vectors

    # Called with a step's name, how much of it is done, and of how much (None: unknown).
    Progress = Callable[[str, int, int | None], None]

LOTS = 100
"""Number of lots that documents belong to, in turn."""
TENANT = "everyone"
"""The tenant of every document: who belongs to it sees all rows."""

_OPENING = "Report {}, part {}, lot {}. "  # for full text: words that stand in few, in 10 % and in 1 % of the chunks
_TEXT = "the level of this signal chain was measured again after the filter had been replaced and logged, "

_INDEX = "public.document_chunks_embedding_idx"
_OVER_HALFVEC = "(((embedding)::halfvec(768)) halfvec_cosine_ops)"
"""As Postgres writes it."""
_CHUNKS = """
COPY public.document_chunks (id, document_id, text_content, page, section, metadata, embedding)
FROM STDIN (FORMAT BINARY)
"""
_CHUNK_TYPES = ["text", "text", "text", "int4", "text", "jsonb", "vector"]
_DOCUMENTS = """
COPY public.documents (id, title, path, owner_id, tenant_id, visibility) FROM STDIN
"""


@dataclass(frozen=True)
class Index:
    """The HNSW index.

    Attributes:
        m, ef_construction: its parameters; None: as in schema.sql.
        also_vector: build a second one over the vectors themselves, which plain queries use.
    """

    m: int | None = None
    ef_construction: int | None = None
    also_vector: bool = False

    def of(self, definition: str) -> str:
        """An index definition with these parameters instead of its own."""
        for name, value in {"m": self.m, "ef_construction": self.ef_construction}.items():
            if value is not None:
                definition = re.sub(rf"\b{name}='?\d+'?", f"{name}={int(value)}", definition)
        return definition

    def over_vector(self, definition: str) -> str:
        """The same index over the vectors themselves."""
        plain = self.of(definition).replace(_OVER_HALFVEC, "(embedding vector_cosine_ops)")
        return plain.replace("document_chunks_embedding_idx", "document_chunks_vector_idx")


def load(connection: psycopg.Connection[Any], dataset: Dataset, index: Index, progress: Progress) -> bool:
    """Fill the reference schema with a dataset, unless it holds just that already.

    Args:
        connection: as a superuser, in autocommit mode.
        dataset: what to load.
        index: how to index it.
        progress: called for each step.

    Returns:
        Whether anything was loaded.
    """
    if _loaded(connection) == _label(dataset, index):
        return False
    connection.execute("DROP TABLE IF EXISTS public.document_chunks, public.document_grants, public.documents")
    migrate(connection)
    register_vector(connection)
    # Built once over all rows, an HNSW index takes a tenth of the time of one that grows row by row. Its
    # definition stays schema.sql's.
    (definition,) = connection.execute("SELECT pg_get_indexdef(%s::regclass)", (_INDEX,)).fetchone()
    connection.execute(f"DROP INDEX {_INDEX}")
    _copy_documents(connection, dataset)
    _copy_chunks(connection, dataset, progress)
    progress("building the HNSW index", 0, None)
    build(connection, index.of(definition), dataset.rows)
    if index.also_vector:
        progress("building the HNSW index over vector", 0, None)
        build(connection, index.over_vector(definition), dataset.rows)
    progress("analysing", 0, None)
    connection.execute("VACUUM (ANALYZE) public.documents, public.document_chunks, public.document_grants")
    # Last: a load that was interrupted is not taken for a whole one.
    connection.execute(sql.SQL("COMMENT ON TABLE public.document_chunks IS {}").format(_label(dataset, index)))
    return True


def _loaded(connection: psycopg.Connection[Any]) -> str | None:
    (label,) = connection.execute(
        "SELECT obj_description(to_regclass('public.document_chunks'), 'pg_class')"
    ).fetchone()
    return label


def _label(dataset: Dataset, index: Index) -> str:
    """Everything that decides what the database holds: kept data is used again only where all of it is the same."""
    shape = (
        FIELDS,
        TOPICS,
        FIELD_SPREAD,
        TOPIC_SPREAD,
        DOCUMENT_SPREAD,
        CHUNK_SPREAD,
        VISIBLE_PERCENT,
        LOTS,
        _OPENING,
        _TEXT,
    )
    schema = hashlib.sha256((config_folder() / "schema.sql").read_bytes()).hexdigest()
    return orjson.dumps({**asdict(dataset), **asdict(index), "shape": shape, "schema": schema}).decode()


def _copy_documents(connection: psycopg.Connection[Any], dataset: Dataset) -> None:
    connection.execute(OWNERS_POLICY)
    with connection.cursor().copy(_DOCUMENTS) as copy:
        for i, owner in enumerate(dataset.owners):
            copy.write_row((_document_id(i), f"Report {i}", f"reports/{i % 50}/{i}.md", owner, TENANT, "tenant"))


def _copy_chunks(connection: psycopg.Connection[Any], dataset: Dataset, progress: Progress) -> None:
    with connection.cursor().copy(_CHUNKS) as copy:
        copy.set_types(_CHUNK_TYPES)
        for first_row, vectors in dataset.blocks():
            progress("loading chunks", first_row, dataset.rows)
            for row, vector in enumerate(vectors, start=first_row):
                copy.write_row(_chunk(row, vector))
    progress("loading chunks", dataset.rows, dataset.rows)


def _chunk(row: int, vector: Vectors) -> tuple[Any, ...]:
    document, place = divmod(row, CHUNKS_PER_DOCUMENT)
    text = _OPENING.format(document, place, document % LOTS) + _TEXT * (3 + row % 3)
    return (
        chunk_id(row),
        _document_id(document),
        text,
        place + 1,
        f"Part {place}",
        Jsonb({"row": row}),
        vector,
    )


def _document_id(document: int) -> str:
    return f"d{document:07d}"


def build(connection: psycopg.Connection[Any], definition: str, rows: int) -> None:
    """Build the index in memory: where it does not fit, pgvector goes on from disk, many times slower."""
    megabytes = max(256, rows * 8 // 1024)
    connection.execute(f"SET maintenance_work_mem = '{megabytes}MB'")
    connection.execute(f"SET max_parallel_maintenance_workers = {_builders(megabytes)}")
    connection.execute(definition)
    connection.execute("RESET maintenance_work_mem")


def _builders(megabytes: int) -> int:
    """Return the number of processes that help to build: they share the graph in /dev/shm, small in containers."""
    shared = Path("/dev/shm")  # noqa: S108 -- only its size is looked at
    if not shared.is_dir() or shutil.disk_usage(shared).free < megabytes * 1.2 * 2**20:
        return 0
    return min(7, (os.cpu_count() or 1) - 1)
