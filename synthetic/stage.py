"""A server of its own, filled with a dataset, and the worker's view of it."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from pydantic import SecretStr, ValidationError

from retrieval_client.errors import SettingsError
from synthetic.loading import TENANT, Index, load
from synthetic.progress import steps
from synthetic.vectors import Dataset, owner_of
from workbench.calibration import fixed_width
from workbench.devstack.postgres import postgres_server
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.search import Corpus
from worker.model import Principal
from worker.settings import Settings, from_values, read_values
from worker.settings.base import config_folder
from worker.settings.serving import SearchSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from worker.settings.serving import Calibration

CORPUS = "documents"


@dataclass(frozen=True)
class Stage:
    """A database that holds a dataset.

    Attributes:
        dataset: what it holds.
        settings: as shipped, connected as the worker's own role.
        database: the worker's connections.
        admin: a superuser's connection, in autocommit mode.
        versions: of PostgreSQL and pgvector, sizes of the table and the index, and the index's parameters.
    """

    dataset: Dataset
    settings: Settings
    database: Database
    admin: psycopg.Connection[Any]
    versions: Mapping[str, str]

    def corpus(self, **search: Any) -> Corpus:
        """The corpus, searched with the shipped settings, some of them changed or with an `ef_search` of its own."""
        changed, width = changed_search(self.settings.search, **search)
        return Corpus(CORPUS, self.settings.corpora[CORPUS], changed, self.database.types[CORPUS], width)

    def caller(self, percent: int) -> Principal:
        """Return who sees this share of the rows, in percent: the tenant's member all, an owner what they own."""
        claims = {"tenant_id": TENANT} if percent == 100 else {"user_id": owner_of(percent)}
        mapping = self.settings.principal.settings
        return Principal(claims, tuple((setting, claims.get(name, "")) for name, setting in mapping.items()))


def changed_search(
    search: SearchSettings, ef_search: int | None = None, **changes: Any
) -> tuple[SearchSettings, Calibration | None]:
    """Search settings with some of them changed, and a calibration that fixes the width, if there is one.

    Raises:
        SettingsError: there is no such setting, or the value is out of its range.
    """
    try:
        width = None if ef_search is None else fixed_width(ef_search)
        return SearchSettings(**{**search.model_dump(), **changes}), width
    except ValidationError as error:
        problem = error.errors()[0]
        sentence = "there is no such setting" if problem["type"] == "extra_forbidden" else problem["msg"]
        raise SettingsError(f"search.{problem['loc'][0]}: {sentence}") from None


@contextlib.contextmanager
def stage(
    dataset: Dataset,
    index: Index,
    *,
    postgres_version: int,
    keep: Path | None,
    server: Mapping[str, str] | None = None,
) -> Iterator[Stage]:
    """Start a server, fill it, yield it, stop it.

    Args:
        dataset: what to load; a kept folder that holds it already is used as it is.
        index: how to index it.
        postgres_version: 16 or 18.
        keep: where the server's data stays for the next time; None: a temporary folder.
        server: settings of the server; default such as fit the dataset.
    """
    with contextlib.ExitStack() as exits:
        if keep is None:
            keep = Path(
                exits.enter_context(tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True))
            )
        settings_of_server = server or server_settings(dataset.rows)
        postgres = exits.enter_context(
            postgres_server(keep.resolve(), version=postgres_version, settings=settings_of_server)
        )
        admin = exits.enter_context(psycopg.connect(postgres.dsn(), autocommit=True))
        with steps() as progress:
            load(admin, dataset, index, progress)
        settings = settings_for(postgres.dsn(user="retrieval_worker"))
        database = Database(settings)
        exits.callback(database.close)
        yield Stage(dataset, settings, database, admin, _versions(admin))


def server_settings(rows: int) -> dict[str, str]:
    """Size the server for such a corpus: table, index (4 and 2 kB a row) and one over vector stay in its buffers."""
    return {"shared_buffers": f"{max(256, rows * 12 // 1024)}MB"}


def settings_for(dsn: str) -> Settings:
    """The shipped files; RETRIEVAL_WORKER_SEARCH__... in the environment changes search as it does for a worker."""
    values = read_values(config_folder() / "worker.toml")
    settings = from_values({**values, "database_connection_string": dsn, "broker_url": "redis://not-used"})
    # The environment outranks arguments, but a benchmark must never run on the database that it names.
    return settings.model_copy(update={"database_connection_string": SecretStr(dsn)})


def _versions(connection: psycopg.Connection[Any]) -> dict[str, str]:
    row = connection.execute(
        """
        SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
               pg_size_pretty(pg_table_size('public.document_chunks')),
               pg_size_pretty(pg_relation_size(indexrelid)),
               substring(pg_get_indexdef(indexrelid) FROM 'WITH (.*)')
          FROM pg_index WHERE indexrelid = 'public.document_chunks_embedding_idx'::regclass
        """
    ).fetchone()
    return dict(zip(("postgres", "pgvector", "table", "index", "hnsw"), row, strict=True))
