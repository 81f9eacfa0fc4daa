"""A primary and its streaming standby, each behind a link that can be cut."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any

import psycopg
from tests import prebuilt
from tests.acceptance.half_open import Link, socket_link
from tests.waiting import wait_for

from workbench.devstack.postgres import base_backup, postgres_server
from workbench.devstack.processes import stop
from worker.adapters.postgres.replication import LAG
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import load, migrate
from worker.settings import Settings, from_values, read_values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.devstack.postgres import Postgres

SECONDS = 180.0
PORT = ".s.PGSQL.5432"


class Server:
    """A Postgres, and the link that leads to it.

    Attributes:
        running: the server.
        link: on a loopback port that stays the same.
    """

    def __init__(self, running: Postgres, link: Link) -> None:
        self.running = running
        self.link = link

    @contextlib.contextmanager
    def admin(self) -> Iterator[psycopg.Connection[Any]]:
        """A superuser's connection, past the link."""
        with psycopg.connect(self.running.dsn(), autocommit=True) as connection:
            yield connection

    def execute(self, statement: str) -> Any:
        """The first value that a superuser's statement gives, if any."""
        with self.admin() as connection:
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

    def end(self) -> None:
        """At once, as a crash would."""
        self.link.refuse(True)
        stop(self.running.process, signal.SIGQUIT)


class Pair:
    """A primary and a standby.

    Attributes:
        primary: with the schema and the sample documents.
        standby: its copy.
    """

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary = primary
        self.standby = standby

    def dsn(self, target: str, user: str = "retrieval_worker") -> str:
        """A connection string that names both, the primary first, and says which is wanted."""
        first, second = self.primary.link.port, self.standby.link.port
        hosts = f"127.0.0.1:{first},127.0.0.1:{second}"
        return f"postgresql://{user}@{hosts}/postgres?target_session_attrs={target}"

    def settings(self, **changes: Any) -> Settings:
        """As shipped, but trusting the queue; writing to the primary, searching the standby."""
        values = read_values() | {
            "database_connection_string": self.dsn("primary"),
            "database_read_connection_string": self.dsn("prefer-standby"),
            "broker_url": "redis://127.0.0.1:1",
            "trust_queue": True,
        }
        return from_values(values | changes)

    def write(self, statement: str) -> None:
        """A superuser's write on the primary."""
        self.primary.execute(statement)

    def hold_back(self) -> None:
        """From now on the standby receives and shows nothing new."""
        self.catch_up()
        self.standby.execute("SELECT pg_wal_replay_pause()")
        wait_for(lambda: self.standby.execute("SELECT pg_get_wal_replay_pause_state()") == "paused")

    def catch_up(self) -> None:
        """Return once the standby shows all that the primary has written."""
        self.standby.execute("SELECT CASE WHEN pg_is_wal_replay_paused() THEN pg_wal_replay_resume() END")
        written = self.primary.execute("SELECT pg_current_wal_lsn()")
        wait_for(lambda: self.standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{written}'"))
        wait_for(lambda: self.standby.execute(LAG[0].decode()) == 0)


def _fill(server: Postgres) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        migrate(connection)
        load(connection, read(SAMPLES["documents"]), LexicalEmbedder())


@contextlib.contextmanager
def pair(root: Path, version: int) -> Iterator[Pair]:
    """Both servers, until the end of the block."""
    with contextlib.ExitStack() as exits:
        # What is committed is sent: the default of a throw-away server would let it wait.
        settings = {"synchronous_commit": "on"}
        primary = exits.enter_context(
            prebuilt.postgres(root / "primary", "documents", _fill, version=version, settings=settings)
        )
        base_backup(primary, root / "standby")
        standby = exits.enter_context(postgres_server(root / "standby", version=version))
        links = [exits.enter_context(socket_link(str(one.socket_dir / PORT))) for one in (primary, standby)]
        yield Pair(Server(primary, links[0]), Server(standby, links[1]))
