"""The sample's public corpora, `docs` and `examples`, filled with clustered vectors: what hybrid searches at once."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql

from synthetic.loading import Index, build
from synthetic.progress import steps
from synthetic.stage import server_settings, settings_for
from synthetic.vectors import Dataset, chunk_id
from workbench.devstack.postgres import postgres_server
from worker.cli.loader import migrate
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from synthetic.loading import Progress
    from synthetic.vectors import Vectors
    from worker.settings import Settings

_TEXT = "the pattern plays one cycle after the filter opens and the delay repeats what was heard before, "


@dataclass(frozen=True)
class Table:
    """A corpus' table.

    Attributes:
        corpus: as in settings.
        name: of the table.
        columns: that are filled, in the order of `row`; the last is the vector.
        row: the values of a row's columns but for the vector.
        seed: of its vectors; each corpus has its own.
    """

    corpus: str
    name: str
    columns: tuple[str, ...]
    row: Callable[[int], tuple[str, ...]]
    seed: int


def _section(row: int) -> tuple[str, ...]:
    page = row // 10
    return chunk_id(row), f"Page {page}", f"/pages/{page}", f"Part {row % 10}", f"Page {page}. " + _TEXT * (3 + row % 3)


def _example(row: int) -> tuple[str, ...]:
    return chunk_id(row), f"Pattern {row}", _TEXT * (1 + row % 3), f'sound("bd*{row % 8}").fast({row % 4})', "/x"


TABLES = (
    Table(
        "docs",
        "public.doc_embeddings",
        ("id", "page_name", "page_url", "section_title", "content", "embedding"),
        _section,
        20,
    ),
    Table(
        "examples",
        "public.example_strudels",
        ("id", "title", "description", "code", "url", "embedding"),
        _example,
        21,
    ),
)


@contextlib.contextmanager
def two_corpora(rows: int, *, postgres_version: int, keep: Path | None) -> Iterator[tuple[Settings, str]]:
    """Start a server that holds both corpora, yield the settings of a worker of it and its version, stop it.

    Args:
        rows: of each corpus; a multiple of 1,000.
        postgres_version: 16 or 18.
        keep: where the server's data stays for the next time; None: a temporary folder.
    """
    with contextlib.ExitStack() as exits:
        if keep is None:
            folder = tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True)
            keep = Path(exits.enter_context(folder))
        server = exits.enter_context(
            postgres_server(keep.resolve(), version=postgres_version, settings=server_settings(2 * rows))
        )
        with psycopg.connect(server.dsn(), autocommit=True) as admin, steps() as progress:
            for table in TABLES:
                _load(admin, table, Dataset(rows, table.seed), progress)
            versions = admin.execute(
                "SELECT current_setting('server_version'), extversion FROM pg_extension WHERE extname = 'vector'"
            ).fetchone()
        yield settings_for(server.dsn(user="retrieval_worker")), "PostgreSQL {}, pgvector {}".format(*versions)


def _load(admin: psycopg.Connection[Any], table: Table, dataset: Dataset, progress: Progress) -> None:
    """Fill a table and index it, unless it holds just that already."""
    label = _label(table, dataset)
    (loaded,) = admin.execute("SELECT obj_description(to_regclass(%s), 'pg_class')", (table.name,)).fetchone()
    if loaded == label:
        return
    admin.execute(f"DROP TABLE IF EXISTS {table.name}")
    migrate(admin)
    register_vector(admin)
    # Built once over all rows, an HNSW index takes a tenth of the time of one that grows row by row.
    index = f"{table.name}_embedding_idx"
    (definition,) = admin.execute("SELECT pg_get_indexdef(%s::regclass)", (index,)).fetchone()
    admin.execute(f"DROP INDEX {index}")
    with admin.cursor().copy(f"COPY {table.name} ({', '.join(table.columns)}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types([*["text"] * (len(table.columns) - 1), "vector"])
        for first_row, vectors in dataset.blocks():
            progress(f"loading {table.corpus}", first_row, dataset.rows)
            for row, vector in enumerate(vectors, start=first_row):
                copy.write_row((*table.row(row), vector))
    progress(f"building the HNSW index of {table.corpus}", 0, None)
    build(admin, Index().of(definition), dataset.rows)
    progress(f"analysing {table.corpus}", 0, None)
    admin.execute(f"VACUUM (ANALYZE) {table.name}")
    # Last: a load that was interrupted is not taken for a whole one.
    admin.execute(f"COMMENT ON TABLE {table.name} IS {sql.Literal(label).as_string(admin)}")


def _label(table: Table, dataset: Dataset) -> str:
    """Everything that decides what the table holds: kept data is used again only where all of it is the same."""
    schema = hashlib.sha256((config_folder() / "schema.sql").read_bytes()).hexdigest()
    return orjson.dumps({"table": table.name, **asdict(dataset), "schema": schema}).decode()


def queries(rows: int, count: int) -> list[tuple[Vectors, Vectors]]:
    """Pairs of (intent, intent and context), ``count`` near rows of each corpus.

    The second lies from the first as a question from the same question with some more words: cosine similarity
    about 0.8.
    """
    pairs: list[tuple[Vectors, Vectors]] = []
    for table in TABLES:
        drawn = Dataset(rows, table.seed).queries(2 * count)
        intents, contexts = drawn[:count], drawn[count:]
        mixed = 0.8 * intents + 0.6 * contexts
        pairs += zip(intents, mixed / (mixed**2).sum(axis=1, keepdims=True) ** 0.5, strict=True)
    return pairs
