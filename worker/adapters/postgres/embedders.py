"""The embedders that filled the corpora: recorded by `load`, and compared with the embedder of the settings."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql

from worker.adapters.postgres.catalog import identifier
from worker.adapters.postgres.database import connected, translated_errors
from worker.adapters.postgres.privileges import oid_of, sources
from worker.adapters.postgres.sql import blocks
from worker.core.prompting.costs import unbilled
from worker.core.text.embedded_text import under_headings
from worker.core.text.fingerprint import TEXTS, EmbedderIdentity, agree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from worker.adapters.postgres.database import Database
    from worker.adapters.providers.embedder import Embedder
    from worker.core.prompting.costs import Paid
    from worker.model import Principal
    from worker.settings import Settings
    from worker.settings.serving import CorpusSettings

_SQL = blocks("embedders")
_IS_THERE = _SQL["is_there"]
_SELECT_EMBEDDERS = _SQL["select_embedders"]
_UPSERT_EMBEDDER = _SQL["upsert_embedder"]

# Both ends of the ids, by their index: a table whose embedder was changed half way has rows of both. Who sees few rows
# has all of them in the first end, and is spared a second walk through the index.
_SAMPLE = """
WITH first AS MATERIALIZED ({visible} ORDER BY {chunk_id} LIMIT {end}),
last AS ({visible} AND (SELECT count(*) FROM first) = {end} ORDER BY {chunk_id} DESC LIMIT {end}),
chosen AS (
  SELECT id, hashtextextended(id::text, 0) AS place
    FROM (SELECT * FROM first UNION SELECT * FROM last) AS ends ORDER BY place, id LIMIT {rows}
)
SELECT {text}::text, {embedding}::real[]{columns} FROM {table} JOIN chosen ON {chunk_id} = chosen.id
 ORDER BY place, chosen.id
"""

_VISIBLE = r"""
SELECT {chunk_id} AS id FROM {table}
 WHERE {embedding} IS NOT NULL AND (octet_length({text}::text) > 256 OR {text}::text ~ '\S')
"""

SAMPLED = 8
"""Default rows of a sample, chosen by a hash of their ids from the `_END` first and last ones."""

_END = 100

_CHARACTERS = 2000
_SAMPLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StoredSample:
    """Some rows of a corpus.

    Attributes:
        texts: what `corpora.NAME.embed_with` says was embedded.
        vectors: the stored vectors, shape (len(texts), dimensions).
        lengths: characters of each text; of a long one, ``texts`` has the beginning.
    """

    texts: Sequence[str]
    vectors: NDArray[np.float32]
    lengths: Sequence[int] = ()


def sample(connection: psycopg.Connection[Any], corpus: CorpusSettings, rows: int = SAMPLED) -> StoredSample:
    """Return rows that are visible without a caller; none where the policies show none, or fail."""
    visible_rows: list[tuple[Any, ...]] = []
    with contextlib.suppress(psycopg.Error):
        visible_rows = connection.execute(_sample_of(corpus, rows)).fetchall()
    return _sampled(visible_rows)


def sample_for(
    database: Database, settings: Settings, name: str, caller: Principal, seconds: float, rows: int = SAMPLED
) -> StoredSample:
    """Return rows of a corpus that a caller may see.

    Raises:
        Unavailable: Postgres does not answer.
        TimedOut: they can't be read in a second.
        SettingsError, InternalError: the table can't be read.
    """
    statement = _sample_of(settings.corpora[name], rows).as_bytes(None)
    (visible_rows,) = database.read(caller, [(statement, {})], min(seconds, _SAMPLE_SECONDS), corpora=[name])
    return _sampled(visible_rows)


def _sample_of(corpus: CorpusSettings, rows: int) -> sql.Composed:
    names = {
        "text": sql.Identifier("c", corpus.columns.text),
        "embedding": sql.Identifier("c", corpus.columns.embedding),
        "table": sql.SQL("{} AS c").format(identifier(corpus.table)),
        "chunk_id": sql.Identifier("c", corpus.columns.id),
    }
    return sql.SQL(_SAMPLE).format(
        visible=sql.SQL(_VISIBLE).format(**names),
        columns=sql.Composed([sql.SQL(", ") + sql.Identifier("c", column) for column in corpus.embed_with]),
        end=_END,
        rows=rows,
        **names,
    )


def _sampled(rows: Sequence[tuple[Any, ...]]) -> StoredSample:
    """Return the rows whose vector is not zero, one of each text.

    Long texts are cut, which bounds what embedding costs. What begins alike is then one text with several vectors, of
    which one at most can be its own: more would tell of the cut, not of the embedder.
    """
    vectors = [row for row in rows if any(row[1]) and len(row[1]) == len(rows[0][1])]
    by_text = {under_headings(text[:_CHARACTERS], values): (vector, len(text)) for text, vector, *values in vectors}
    stored = np.array([vector for vector, _ in by_text.values()], dtype=np.float32)
    return StoredSample([*by_text], stored, [length for _, length in by_text.values()])


def identity(
    embedder: Embedder, dimensions: int, paid: Paid = unbilled, seconds: float | None = None
) -> EmbedderIdentity:
    """Return who an embedder is; it embeds three short texts, within ``seconds``.

    Raises:
        SettingsError, Unavailable: see the embedder.
    """
    return EmbedderIdentity(embedder.name, embedder.version, embedder.embed(TEXTS, paid, seconds, dimensions))


def store(connection: psycopg.Connection[Any], table: str, embedder: EmbedderIdentity) -> None:
    """Record who filled a table, for a role that may write there; not where an older `migrate` made no place for it."""
    if connection.execute(_IS_THERE).fetchone() != (True,):
        return
    values = {
        "relation": table,
        "name": embedder.name,
        "version": embedder.version,
        "dimensions": embedder.dimensions,
        "fingerprint": embedder.fingerprint.astype("<f4").tobytes(),
    }
    connection.execute(_UPSERT_EMBEDDER, values)


def stored(connection: psycopg.Connection[Any], corpora: Mapping[str, CorpusSettings]) -> dict[str, EmbedderIdentity]:
    """Return the recorded embedder of each corpus that has one; a view has that of the table below it."""
    by_table = {oid_of(connection, table): identity for table, identity in stored_by_table(connection).items()}
    if not by_table:
        return {}
    identities: dict[str, EmbedderIdentity] = {}
    for name, corpus in corpora.items():
        quoted = identifier(corpus.table).as_string(connection)
        below = sources(connection, quoted, corpus.columns.embedding, ("vector", "halfvec")) or {}
        tables = {oid_of(connection, quoted), *below} - {None}
        identities.update((name, by_table[oid]) for oid in tables if oid in by_table)
    return identities


def stored_by_table(connection: psycopg.Connection[Any]) -> dict[str, EmbedderIdentity]:
    """Return the recorded embedders by the names of the tables; none where the role may not read the records."""
    try:
        if connection.execute(_IS_THERE).fetchone() != (True,):
            return {}
        rows = connection.execute(_SELECT_EMBEDDERS).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        return {}
    return {
        table: EmbedderIdentity(name, version, np.frombuffer(fingerprint, "<f4").reshape(len(TEXTS), dimensions))
        for table, name, version, dimensions, fingerprint in rows
    }


def is_named(embedder: Embedder, recorded: EmbedderIdentity) -> bool:
    """Return whether an embedder has the recorded name and version."""
    return (embedder.name, embedder.version) == (recorded.name, recorded.version)


def disagreement(embedder: Embedder, recorded: EmbedderIdentity) -> str | None:
    """Return why an embedder can't go on with what another one filled; None if it can, by name or by its vectors.

    Raises:
        SettingsError, Unavailable: see the embedder.
    """
    if is_named(embedder, recorded) or agree(identity(embedder, recorded.dimensions).fingerprint, recorded.fingerprint):
        return None
    return difference(embedder, recorded)


def difference(embedder: Embedder, recorded: EmbedderIdentity) -> str:
    """Return the sentence that names both embedders, where they do not agree."""
    return (
        f"its vectors were made by the embedder {recorded}, and those of {embedder.name} {embedder.version}, which the "
        "settings name, are others: set that one, or load the corpus again"
    )


def foreign(embedder: Embedder, stored_vectors: NDArray[np.float32]) -> str:
    """Return the sentence for a table whose vectors the embedder of the settings did not make."""
    used = int(np.flatnonzero(stored_vectors.any(axis=0))[-1]) + 1
    return (
        f"its vectors, or many, were made by an embedder that is not recorded, of {used} dimensions, and those of "
        f"{embedder.name} {embedder.version}, which the settings name, are others: set the one that filled the table, "
        "or compare_embedder = false if you know that they agree"
    )


def recorded_embedders(settings: Settings) -> dict[str, EmbedderIdentity]:
    """Return the recorded embedder of each corpus that has one, read on a connection of its own.

    Raises:
        SettingsError, Unavailable: Postgres refuses the connection, or does not answer.
    """
    dsn = settings.database_connection_string.get_secret_value()
    with translated_errors(), connected(dsn) as connection:
        return stored(connection, settings.corpora)
