"""Vectors that behave like embeddings, who may see them, and the reference schema filled with them.

Everything follows from a `Dataset`: the same rows and seed give the same vectors, owners and queries on any
machine with the same NumPy, block by block, so that 300,000 vectors need not be held at once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.types.json import Jsonb

from worker.cli.loader import migrate
from worker.errors import SettingsError
from worker.model import DIMENSIONS
from worker.settings import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    # Called with a step's name, how much of it is done, and of how much (None: unknown).
    Progress = Callable[[str, int, int | None], None]

Vectors = NDArray[np.float32]

BLOCK = 10_000
CHUNKS_PER_DOCUMENT = 10
FIELDS, TOPICS = 40, 2000
FIELD_SPREAD, TOPIC_SPREAD, DOCUMENT_SPREAD, CHUNK_SPREAD = 0.7, 0.7, 0.5, 0.5
"""How far fields lie from the origin, topics from their field, documents from their topic, chunks from their
document. Apart from its size, this decides how hard a corpus is: fewer and sharper topics are harder."""
QUERY_SPREAD = (0.2, 1.0)
"""How far queries lie from a chunk: from a rephrasing (cosine similarity 0.98) to a question about it (0.76)."""
VISIBLE_PERCENT = (1, 2, 5, 10, 20, 50)
"""For each of these there is a user who owns so many percent of the documents; together they are fewer than 100."""
LOTS = 100
"""Documents are of so many lots, in turn."""
TENANT = "everyone"
"""The tenant of every document: who belongs to it sees all rows."""

# Streams of random numbers that don't depend on one another: more queries must not change the vectors.
_OF_TOPICS, _OF_ROWS, _OF_QUERIES, _OF_OWNERS = range(4)

_OPENING = "Report {}, part {}, lot {}. "  # for full text: words that stand in few, in 10 % and in 1 % of the chunks
_TEXT = "the level of this signal chain was measured again after the filter had been replaced and logged, "


@dataclass(frozen=True)
class Index:
    """Parameters of the HNSW index; None: as in schema.sql."""

    m: int | None = None
    ef_construction: int | None = None

    def of(self, definition: str) -> str:
        """An index definition with these parameters instead of its own."""
        for name, value in asdict(self).items():
            if value is not None:
                definition = re.sub(rf"\b{name}='?\d+'?", f"{name}={int(value)}", definition)
        return definition


@dataclass(frozen=True)
class Dataset:
    """Clustered vectors of unit length, ten to a document.

    Fields have topics (few large ones, many small ones), topics have documents, documents have chunks; each
    lies near what it belongs to. Component i varies with standard deviation i ** -0.5, so that about 30
    directions carry most of the variance, and neighbourhoods have a dimension of 9 to 19, as text embeddings do.

    Attributes:
        rows: how many chunks; a multiple of 1,000, so that one percent of the documents is a whole number.
        seed: of everything that is random.
    """

    rows: int
    seed: int = 20

    def __post_init__(self) -> None:
        if self.rows < 1000 or self.rows % 1000:
            raise SettingsError(f"rows: expected a multiple of 1000, got {self.rows}")

    @property
    def documents(self) -> int:
        """How many documents."""
        return self.rows // CHUNKS_PER_DOCUMENT

    @cached_property
    def owners(self) -> list[str]:
        """The owner of each document: exact shares, spread over the topics at random."""
        owners = np.full(self.documents, "nobody", dtype="<U16")
        order = self._random(_OF_OWNERS).permutation(self.documents)
        start = 0
        for percent in VISIBLE_PERCENT:
            end = start + self.documents * percent // 100
            owners[order[start:end]] = owner_of(percent)
            start = end
        return owners.tolist()

    def visible(self, percent: int) -> NDArray[np.bool_]:
        """Which rows the caller who sees ``percent`` of them sees, shape (rows,)."""
        if percent == 100:
            return np.ones(self.rows, dtype=np.bool_)
        owned = np.array([owner == owner_of(percent) for owner in self.owners])
        return owned.repeat(CHUNKS_PER_DOCUMENT)

    def blocks(self) -> Iterator[tuple[int, Vectors]]:
        """(first row, vectors of shape (n, 768)) until all rows are made."""
        for first in range(0, self.rows, BLOCK):
            yield first, _unit(self._raw_block(first // BLOCK)[: self.rows - first])

    def queries(self, count: int) -> Vectors:
        """``count`` vectors near rows, but not equal to any, shape (count, 768)."""
        random = self._random(_OF_QUERIES)
        near = np.sort(random.choice(self.rows, count, replace=count > self.rows))
        sources = np.concatenate(
            [
                self._raw_block(block)[near[near // BLOCK == block] - block * BLOCK]
                for block in np.unique(near // BLOCK).tolist()
            ]
        )
        spread = random.uniform(*QUERY_SPREAD, (count, 1)).astype(np.float32)
        queries = _unit(sources + spread * self._noise(random, count))
        # By row the first queries would be neighbours in the table, and a sample of them no sample.
        return random.permutation(queries)

    def _raw_block(self, block: int) -> Vectors:
        """One block before it is scaled to unit length; whole, so that a row does not depend on ``rows``."""
        random = self._random(_OF_ROWS, block)
        documents = BLOCK // CHUNKS_PER_DOCUMENT
        popularity = np.arange(1, TOPICS + 1) ** -0.7
        topics = self._topics[random.choice(TOPICS, documents, p=popularity / popularity.sum())]
        centres = topics + DOCUMENT_SPREAD * self._noise(random, documents)
        return centres.repeat(CHUNKS_PER_DOCUMENT, axis=0) + CHUNK_SPREAD * self._noise(random, BLOCK)

    @cached_property
    def _topics(self) -> Vectors:
        random = self._random(_OF_TOPICS)
        fields = FIELD_SPREAD * self._noise(random, FIELDS)
        return fields[random.integers(0, FIELDS, TOPICS)] + TOPIC_SPREAD * self._noise(random, TOPICS)

    @staticmethod
    def _noise(random: np.random.Generator, count: int) -> Vectors:
        spectrum = np.arange(1, DIMENSIONS + 1, dtype=np.float32) ** np.float32(-0.5)
        return random.standard_normal((count, DIMENSIONS), dtype=np.float32) * spectrum

    def _random(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *stream])


def owner_of(percent: int) -> str:
    """The user who owns ``percent`` of the documents."""
    return f"owner-{percent}"


def chunk_id(row: int) -> str:
    """The id of a row's chunk."""
    return f"c{row:08d}"


def row_of(identifier: str) -> int:
    """The row of a chunk's id."""
    return int(identifier[1:])


def _unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


# --- the database -------------------------------------------------------------------------------

_INDEX = "public.document_chunks_embedding_idx"
_CHUNKS = """
COPY public.document_chunks (id, document_id, text_content, page, section, metadata, embedding)
FROM STDIN (FORMAT BINARY)
"""
_CHUNK_TYPES = ["text", "text", "text", "int4", "text", "jsonb", "vector"]
_DOCUMENTS = """
COPY public.documents (id, title, path, owner_id, tenant_id, visibility) FROM STDIN
"""


def load(connection: psycopg.Connection[Any], dataset: Dataset, index: Index, progress: Progress) -> bool:
    """Fill the reference schema with a dataset, unless it holds just that already.

    Args:
        connection: as a superuser, in autocommit mode.
        dataset: what to load.
        index: how to index it.
        progress: told of each step.

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
    with connection.cursor().copy(_DOCUMENTS) as copy:
        for i, owner in enumerate(dataset.owners):
            # "tenant" shows a document to callers of the tenant and to its owner: a caller without a tenant
            # sees what they own, as if it were private.
            copy.write_row((_document_id(i), f"Report {i}", f"reports/{i % 50}/{i}.md", owner, TENANT, "tenant"))


def _copy_chunks(connection: psycopg.Connection[Any], dataset: Dataset, progress: Progress) -> None:
    with connection.cursor().copy(_CHUNKS) as copy:
        copy.set_types(_CHUNK_TYPES)
        for first, vectors in dataset.blocks():
            progress("loading chunks", first, dataset.rows)
            for row, vector in enumerate(vectors, start=first):
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
    """How many processes may help to build: they share the graph in /dev/shm, which containers keep small."""
    shared = Path("/dev/shm")  # noqa: S108 -- only its size is looked at
    if not shared.is_dir() or shutil.disk_usage(shared).free < megabytes * 1.2 * 2**20:
        return 0
    return min(7, (os.cpu_count() or 1) - 1)
