"""A ledger: jobs on disk until each has its answer, for a backend that must have it. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import uuid
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from typing_extensions import Self

from retrieval_client.contract.base import parse_part
from retrieval_client.contract.registry import TASKS, task_of
from retrieval_client.errors import InternalError, NotAuthorised, TimedOut, Unavailable, as_error
from retrieval_client.jobs import Outcome, TaskId, as_job, reader_of, signed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from retrieval_client.blocking import Client
    from retrieval_client.contract.base import AnsweredBy
    from retrieval_client.jobs import Claims

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY,
    task TEXT NOT NULL,
    job TEXT NOT NULL,
    claims TEXT,
    sends INTEGER NOT NULL DEFAULT 0,   -- pushes that Redis has acknowledged
    sent_at REAL NOT NULL DEFAULT 0,    -- the last of them, in Unix seconds
    answer TEXT,                        -- JSON; null: none
    error TEXT                          -- JSON: class and sentence; null: none, or the job is open
)
"""
_WAIT_SECONDS = 1.0


class Ledger:
    """A file of jobs, each with its answer once there is one: it may be closed, or killed, and opened again.

    A job is sent again under its id until it has an answer: nothing is lost, and no job has two answers.

    Args:
        path: the SQLite file.
        client: sends the jobs and reads the answers.
        seconds: how long to wait for an answer before a job is sent again.
        sends: how often it is sent; then it is given up, as `TimedOut`.

    Raises:
        ValueError: the file is no ledger, or can't be made.
    """

    def __init__(self, path: str | PathLike[str], client: Client, *, seconds: float = 30.0, sends: int = 3) -> None:
        self._client, self._seconds, self._sends = client, seconds, sends
        try:
            self._rows = _opened(path)
        except sqlite3.Error as error:
            raise ValueError(
                f"{path}: expected a ledger, or the path of a new one in a folder that is there: {error}"
            ) from None

    def add(self, job: AnsweredBy[Any], *, claims: Claims = None, task_id: str | None = None) -> str:
        """Write a job into the ledger; return its id. Adding a known id changes nothing.

        Raises:
            InvalidJob: a field can't be written as JSON.
            ValueError: there are claims, and the client has no `Signer`.
        """
        checked, job_id = as_job(job), task_id or str(uuid.uuid4())
        signed(checked, claims, self._client.signer, job_id)  # so that what can't be signed is refused now
        row = (job_id, task_of(type(checked)).name, json.dumps(signed(checked, None, None, job_id)))
        claimed = None if claims is None else json.dumps(claims)
        self._rows.execute("INSERT OR IGNORE INTO jobs (id, task, job, claims) VALUES (?, ?, ?, ?)", (*row, claimed))
        return job_id

    def open(self) -> list[str]:
        """Return the ids of the jobs without an answer, in the order in which they were added."""
        return [row["id"] for row in self._open()]

    def outcome(self, task_id: str) -> Outcome[Any] | None:
        """Return how a job ended; None: it is open, or not known."""
        row = self._rows.execute("SELECT * FROM jobs WHERE id = ?", (task_id,)).fetchone()
        if row is None or (row["answer"] is None and row["error"] is None):
            return None
        if row["error"] is not None:
            return Outcome(task_id, error=as_error(json.loads(row["error"])))
        try:
            return Outcome(task_id, answer=reader_of(row["task"]).validate_json(row["answer"]))
        except ValidationError:
            return Outcome(task_id, error=InternalError("the answer in the ledger is none of its task"))

    def run(self) -> Iterator[Outcome[Any]]:
        """Send what is due, wait, send again, until every job has ended; yield how each ended, once it is on disk."""
        while rows := self._open():
            try:
                for row in rows:
                    self._send_if_due(row)
                yield from self._ended(self._open())
            except Unavailable:
                time.sleep(_WAIT_SECONDS)

    def close(self) -> None:
        """Close the file, as leaving its `with` block does."""
        self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> list[sqlite3.Row]:
        return self._rows.execute("SELECT * FROM jobs WHERE answer IS NULL AND error IS NULL ORDER BY rowid").fetchall()

    def _send_if_due(self, row: sqlite3.Row) -> None:
        current_time = time.time()
        # Also if the clock was set back.
        if row["sent_at"] <= current_time < row["sent_at"] + self._seconds or row["sends"] >= self._sends:
            return
        kind = _kind(row)
        claims = None if row["claims"] is None else json.loads(row["claims"])
        job: Any = parse_part(kind, json.loads(row["job"]))
        # Without `expires`: an old copy that expires would answer for a new one.
        self._client.enqueue(job, claims=claims, task_id=row["id"])
        self._rows.execute("UPDATE jobs SET sends = sends + 1, sent_at = ? WHERE id = ?", (time.time(), row["id"]))

    def _ended(self, rows: list[sqlite3.Row]) -> Iterator[Outcome[Any]]:
        """Wait a little; yield what has ended."""
        rows_by_id = {row["id"]: row for row in rows}
        ids: list[TaskId[Any]] = [TaskId(row["id"], _kind(row)) for row in rows]
        for outcome in self._client.results(ids, timeout=_WAIT_SECONDS):
            row = rows_by_id[outcome.task_id]
            if outcome.ended and not self._outlived_its_token(row, outcome):
                yield self._closed(outcome)
            elif isinstance(outcome.error, TimedOut) and not outcome.ended and self._was_sent_enough(row):
                yield self._closed(Outcome(row["id"], error=TimedOut(f"no answer to {self._sends} messages")))

    def _was_sent_enough(self, row: sqlite3.Row) -> bool:
        """Return whether the last of a job's messages has had its time."""
        return bool(row["sends"] >= self._sends and time.time() >= row["sent_at"] + self._seconds)

    def _outlived_its_token(self, row: sqlite3.Row, outcome: Outcome[Any]) -> bool:
        """Return whether a message waited longer than its token held: the next one brings a new token."""
        signer = self._client.signer
        if signer is None or row["claims"] is None or not isinstance(outcome.error, NotAuthorised):
            return False
        return bool(row["sends"] < self._sends and time.time() >= row["sent_at"] + signer.lifetime_seconds)

    def _closed(self, outcome: Outcome[Any]) -> Outcome[Any]:
        """Write the end of a job: the first that is written stays."""
        try:
            answer = None if outcome.answer is None else outcome.answer.model_dump_json()
        except ValueError:  # a text with half a character in it, or too deep: the next run would meet it again
            answer, outcome = None, Outcome(outcome.task_id, error=InternalError("its answer can't be written as JSON"))
        error = outcome.error
        error_json = (
            None if error is None else json.dumps({"exc_type": type(error).__name__, "exc_message": [error.message]})
        )
        self._rows.execute(
            "UPDATE jobs SET answer = ?, error = ? WHERE id = ? AND answer IS NULL AND error IS NULL",
            (answer, error_json, outcome.task_id),
        )
        return outcome


def _kind(row: sqlite3.Row) -> type[Any]:
    return next(task.job for task in TASKS if task.name == row["task"])


def _opened(path: str | PathLike[str]) -> sqlite3.Connection:
    """Open a file as a ledger; one that is none is closed again. May raise `sqlite3.Error`.

    A new one is made so that only this user can read it: it has questions, claims and answers.
    """
    if os.fspath(path) not in {"", ":memory:"}:
        with contextlib.suppress(OSError):  # of which sqlite3 says more
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    rows = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        rows.row_factory = sqlite3.Row
        rows.execute(_SCHEMA)
        rows.execute("SELECT id, task, job, claims, sends, sent_at, answer, error FROM jobs LIMIT 0")
    except BaseException:
        rows.close()
        raise
    return rows
