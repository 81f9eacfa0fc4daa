"""LangChain's and LlamaIndex's vector stores: an environment of their own, and a table with the same rows."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psycopg import sql

from retrieval_client.errors import SettingsError
from synthetic.loading import build

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    from synthetic.loading import Progress

HERE = Path(__file__).parent
WORKERS = HERE / "workers"
ENVIRONMENTS = HERE.parent / ".peers"
VERSIONS = HERE / "peers.txt"
INSTALL_SECONDS = 900

SAMPLE = {"chunk_id": "@chunk@", "text": "@text@", "document": "@document@", "section": "@section@", "page": 987654321}
"""One chunk that the library writes itself; the other rows are made of what it wrote, with their own values."""


@dataclass(frozen=True, eq=False)
class Peer:
    """A library that keeps vectors in Postgres.

    Attributes:
        name: also of its queue, and of its module ``workers/of_<name>.py``.
        packages: what is installed, besides Celery.
        table: which it makes.
        metadata: the column in which it keeps what is neither text nor vector.
        columns: which are filled, and with what of ``public.document_chunks``; ``{metadata}`` is made of the sample.
        chunk_id: SQL of a row's chunk id.
    """

    name: str
    packages: tuple[str, ...]
    table: str
    metadata: str
    columns: Mapping[str, str]
    chunk_id: str


PEERS = (
    Peer(
        "langchain",
        ("langchain-postgres",),
        "langchain_chunks",
        "langchain_metadata",
        {
            "langchain_id": "gen_random_uuid()",
            "content": "text_content",
            "embedding": "embedding",
            "langchain_metadata": "{metadata}",
        },
        "langchain_metadata ->> 'chunk_id'",
    ),
    Peer(
        "llamaindex",
        ("llama-index-vector-stores-postgres",),
        "data_llamaindex_chunks",
        "metadata_",
        {"node_id": "id", "text": "text_content", "embedding": "embedding", "metadata_": "{metadata}"},
        "node_id",
    ),
)


# --- environments -------------------------------------------------------------------------------


def python_of(peer: Peer, folder: Path = ENVIRONMENTS) -> Path:
    """The interpreter of a peer's environment, which is made where there is none.

    Raises:
        SettingsError: it can't be installed here; the message has pip's last line.
    """
    key = hashlib.sha256(f"{sys.version}{peer.packages}".encode() + VERSIONS.read_bytes()).hexdigest()[:12]
    home = folder / f"{peer.name}-{key}"
    python = home / "bin" / "python"
    if (home / ".installed").exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(home)], peer)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(VERSIONS)]
    _run([*pip, "celery[redis]", "hiredis", *peer.packages], peer)
    (home / ".installed").touch()
    return python


def _run(command: list[str], peer: Peer, **environment: str) -> None:
    try:
        completed = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        raise SettingsError(f"{peer.name}: not done within {INSTALL_SECONDS} s") from None
    if completed.returncode:
        last_line = (completed.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SettingsError(f"{peer.name}: {last_line}")


# --- tables -------------------------------------------------------------------------------------


def load(admin: psycopg.Connection[Any], peer: Peer, make: Callable[[], None], source: str, progress: Progress) -> None:
    """Fill a peer's table with the rows of ``public.document_chunks``, unless it holds just these already.

    The library makes the table and writes one row; the others are copied into the same form, which takes seconds
    where the library would take the better part of an hour. The index is what the library would create, with the same
    parameters as the reference schema's, built at once.

    Args:
        admin: as a superuser, in autocommit mode.
        peer: whose table.
        make: has the library make the table and write `SAMPLE`; see `made_by_library`.
        source: says what ``public.document_chunks`` holds.
        progress: called for each step.
    """
    label = hashlib.sha256(f"{source}{peer}".encode() + VERSIONS.read_bytes()).hexdigest()
    (loaded,) = admin.execute("SELECT obj_description(to_regclass(%s), 'pg_class')", (peer.table,)).fetchone()
    if loaded == label:
        return
    progress(f"{peer.name}: copying rows", 0, None)
    admin.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(peer.table)))
    make()
    _copy(admin, peer)
    progress(f"{peer.name}: building the HNSW index", 0, None)
    rows, definition = admin.execute(
        """
        SELECT (SELECT count(*) FROM public.document_chunks),
               pg_get_indexdef('public.document_chunks_embedding_idx'::regclass)
        """
    ).fetchone()
    parameters = definition[definition.index("WITH") :]
    build(admin, f"CREATE INDEX ON {peer.table} USING hnsw (embedding vector_cosine_ops) {parameters}", rows)
    admin.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(peer.table)))
    # Last: a load that was interrupted is not taken for a whole one.
    admin.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(peer.table), label))


def made_by_library(peer: Peer, python: Path, url: str) -> None:
    """Let the library make its table and write `SAMPLE` into it.

    Args:
        peer: which.
        python: its interpreter.
        url: of the database.

    Raises:
        SettingsError: it can't.
    """
    unused = {"BENCH_BROKER": "redis://not-used", "BENCH_RESULTS": "redis://not-used"}
    _run([str(python), str(WORKERS / f"of_{peer.name}.py"), json.dumps(SAMPLE)], peer, BENCH_URL=url, **unused)


def _copy(admin: psycopg.Connection[Any], peer: Peer) -> None:
    """All rows in the form of the one that the library wrote; that one goes."""
    table, metadata = sql.Identifier(peer.table), sql.Identifier(peer.metadata)
    (written_metadata,) = admin.execute(sql.SQL("DELETE FROM {} RETURNING {}::text").format(table, metadata)).fetchone()
    metadata_of_row: sql.Composable = sql.Literal(written_metadata)
    values = {
        "chunk_id": "id",
        "document": "document_id",
        "section": "coalesce(section, '')",
        "page": "coalesce(page::text, 'null')",
    }
    for field, column in values.items():
        metadata_of_row = sql.SQL("replace({}, {}, {})").format(
            metadata_of_row, sql.Literal(str(SAMPLE[field])), sql.SQL(column)
        )
    cells = [
        sql.SQL(cell).format(metadata=sql.SQL("{}::json").format(metadata_of_row)) for cell in peer.columns.values()
    ]
    admin.execute(
        sql.SQL("INSERT INTO {} ({}) SELECT {} FROM public.document_chunks ORDER BY id").format(
            table, sql.SQL(", ").join(map(sql.Identifier, peer.columns)), sql.SQL(", ").join(cells)
        )
    )
