"""The site of an operator who adopts tables: a database of an application, and the commands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.settings import Settings, from_values, read_values

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from tests.command_line import Command

    from workbench.devstack.stack import Stack


@dataclass
class Site:
    """A database with tables, and the commands of an operator.

    Attributes:
        url: of the database, as its owner.
        admin: a connection to it.
        run: runs a command.
        folder: to work in.
    """

    url: str
    admin: psycopg.Connection[Any]
    run: Command
    folder: Path
    stack: Stack

    def adopt(self) -> dict[str, Any]:
        """Install the records and adopt all tables, with the first two commands; return what the second one says."""
        for command in (("migrate", "--records-only"), ("adopt", "--out", str(self.folder / "adopted"), "--json")):
            done = self.run(*command, MIGRATION_CONNECTION_STRING=self.url)
            assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def choose(self, *chosen: str, everybody: bool = False, hidden: tuple[str, ...] = ()) -> None:
        """Run tables.sql with the choices of these claims, or of everybody, of columns that hide, and every index."""
        text = (self.folder / "adopted" / "tables.sql").read_text()
        parts = re.split(r"(?m)^(?=-- Choice: |-- Without an HNSW index|-- Columns that|-- ={12} )", text)
        wanted = [f"claim {claim}." for claim in chosen] + (["every caller"] if everybody else [])
        wanted += [f".{column}, " for column in hidden] + ["Without an HNSW index"]
        taken = [
            re.sub(r"(?m)^--(?=\S)", "", part) if any(one in part.split("\n", 1)[0] for one in wanted) else part
            for part in parts
        ]
        for statement in re.split(r";\n", "".join(taken)):
            if re.sub(r"(?m)^--.*$", "", statement).strip():
                self.admin.execute(statement.encode())
        self.admin.execute("RESET search_path")

    def settings(self, **changes: Any) -> Settings:
        """The settings of worker.toml, as they are written but for those of the place."""
        place = {
            "database_connection_string": re.sub(r"//[^@]*@", "//retrieval_worker@", self.url),
            "broker_url": self.stack.redis.url(0),
            "result_backend": self.stack.redis.url(1),
            "trust_queue": True,
        }
        return from_values(read_values(self.folder / "adopted" / "worker.toml") | place | changes)
