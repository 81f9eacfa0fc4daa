"""The embedders that filled the corpora: recorded by `load`, and compared with the embedder of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg

from worker.adapters.postgres.catalog import identifier
from worker.adapters.postgres.database import connected, translated_errors
from worker.adapters.postgres.privileges import oid_of, sources
from worker.core.text.fingerprint import TEXTS, EmbedderIdentity, agree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.adapters.providers.embedder import Embedder
    from worker.settings import CorpusSettings, Settings

_IS_THERE = "SELECT to_regclass('retrieval.embedders') IS NOT NULL"

_STORED = "SELECT relation, name, version, dimensions, fingerprint FROM retrieval.embedders"

_STORE = """
INSERT INTO retrieval.embedders (relation, name, version, dimensions, fingerprint)
VALUES (%(relation)s, %(name)s, %(version)s, %(dimensions)s, %(fingerprint)s)
ON CONFLICT (relation) DO UPDATE SET name = excluded.name, version = excluded.version,
  dimensions = excluded.dimensions, fingerprint = excluded.fingerprint, loaded_at = now()
"""


def identity(embedder: Embedder, dimensions: int) -> EmbedderIdentity:
    """Return who an embedder is; it embeds three short texts.

    Raises:
        SettingsError, Unavailable: see the embedder.
    """
    return EmbedderIdentity(embedder.name, embedder.version, embedder.embed(TEXTS, dimensions=dimensions))


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
    connection.execute(_STORE, values)


def stored(connection: psycopg.Connection[Any], corpora: Mapping[str, CorpusSettings]) -> dict[str, EmbedderIdentity]:
    """Return the recorded embedder of each corpus that has one; a view has that of the table below it."""
    by_table = {oid_of(connection, table): one for table, one in stored_by_table(connection).items()}
    if not by_table:
        return {}
    found: dict[str, EmbedderIdentity] = {}
    for name, corpus in corpora.items():
        quoted = identifier(corpus.table).as_string(connection)
        below = sources(connection, quoted, corpus.columns.embedding, ("vector", "halfvec")) or {}
        tables = {oid_of(connection, quoted), *below} - {None}
        found.update((name, by_table[oid]) for oid in tables if oid in by_table)
    return found


def stored_by_table(connection: psycopg.Connection[Any]) -> dict[str, EmbedderIdentity]:
    """Return the recorded embedders by the names of the tables; none where the role may not read the records."""
    try:
        if connection.execute(_IS_THERE).fetchone() != (True,):
            return {}
        rows = connection.execute(_STORED).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        return {}
    return {
        table: EmbedderIdentity(name, version, np.frombuffer(fingerprint, "<f4").reshape(len(TEXTS), dimensions))
        for table, name, version, dimensions, fingerprint in rows
    }


def disagreement(embedder: Embedder, recorded: EmbedderIdentity) -> str | None:
    """Return why an embedder can't search what another one filled; None if it can.

    Only embedders that cost nothing are tried on the fixed texts; the others are compared by name and version.
    """
    if (embedder.name, embedder.version) == (recorded.name, recorded.version):
        return None
    if embedder.offline and agree(identity(embedder, recorded.dimensions).fingerprint, recorded.fingerprint):
        return None
    return (
        f"its vectors were made by the embedder {recorded}, and the settings name {embedder.name} {embedder.version}: "
        "set that one, or load the corpus again"
    )


def disagreements(settings: Settings, embedder: Embedder) -> dict[str, str]:
    """Return the corpora whose recorded embedder is another one, each with both names.

    Raises:
        SettingsError, Unavailable: Postgres refuses the connection, or does not answer.
    """
    dsn = settings.database_connection_string.get_secret_value()
    with translated_errors(), connected(dsn) as connection:
        recorded = stored(connection, settings.corpora)
    compared = {name: disagreement(embedder, one) for name, one in recorded.items()}
    return {name: why for name, why in compared.items() if why is not None}
