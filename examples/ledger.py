"""A ledger of jobs: no job is lost, none is answered twice. Stock Celery sends, SQLite remembers.

    pip install 'celery[redis]' pyjwt rfc8785
    python ledger.py add < jobs.jsonl
    python ledger.py run

`add` writes jobs into the ledger and prints their ids. A line is `{"task": "retrieve_top_k", "job": {"query_embedding":
"…"}, "claims": {"user_id": "alice"}}`; it may bring an `id` of its own, and adding that again changes nothing. `run`
sends what is due, waits, sends again, until every job is closed; it may be killed and started again at any point.
Why it is made so: docs/backends.md.

CELERY_BROKER_URL, CELERY_RESULT_BACKEND: the two Redis databases. LEDGER: the SQLite file (ledger.sqlite).
LEDGER_SECONDS: how long to wait for an answer before a job is sent again (30). LEDGER_SENDS: how often it is sent (3).
TOKEN_KEY, TOKEN_KEY_ID: the secret (HS256) and its name (k1) for signed principals; without one they are sent plain,
for workers that trust their queue. LEDGER_TOKEN_SECONDS: how long a token holds (600).
"""

import json
import os
import re
import sqlite3
import sys
import time
import uuid
from hashlib import sha256

import jwt
import redis
import rfc8785
from celery import Celery
from kombu.exceptions import OperationalError

SECONDS = float(os.environ.get("LEDGER_SECONDS", "30"))
SENDS = int(os.environ.get("LEDGER_SENDS", "3"))
TOKEN_KEY = os.environ.get("TOKEN_KEY")
TOKEN_KEY_ID = os.environ.get("TOKEN_KEY_ID", "k1")
TOKEN_SECONDS = int(os.environ.get("LEDGER_TOKEN_SECONDS", "600"))
POLL_SECONDS = 0.05
# A half-open connection must not hang: a command that is not answered in time is tried again.
SOCKET = {"socket_timeout": 10, "socket_connect_timeout": 5, "socket_keepalive": True}
AWAY = (OperationalError, redis.RedisError, OSError)

SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY,
    task TEXT NOT NULL,
    job TEXT NOT NULL,
    claims TEXT NOT NULL,
    sends INTEGER NOT NULL DEFAULT 0,   -- pushes that Redis has acknowledged
    pushed_at REAL NOT NULL DEFAULT 0,  -- the last of them, in Unix seconds
    token_until REAL,                   -- when the first token that was sent ends
    status TEXT,                        -- null: open; else SUCCESS, FAILURE, REVOKED or GIVEN_UP
    record TEXT                         -- the answer as it stood in Redis, byte for byte
)
"""


class Ledger:
    """The known state of each job. Every method is one transaction, on disk before it returns."""

    def __init__(self, path):
        self._rows = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._rows.row_factory = sqlite3.Row
        self._rows.execute(SCHEMA)

    def add(self, task_id, task, job, claims):
        """A new job; nothing happens where the id is known."""
        row = (task_id, task, json.dumps(job), json.dumps(claims))
        self._rows.execute("INSERT OR IGNORE INTO jobs (id, task, job, claims) VALUES (?, ?, ?, ?)", row)

    def open(self):
        """The jobs without an answer."""
        return self._rows.execute("SELECT * FROM jobs WHERE status IS NULL ORDER BY rowid").fetchall()

    def pushed(self, task_id, now, token_until):
        """Redis has acknowledged a push."""
        self._rows.execute(
            "UPDATE jobs SET sends = sends + 1, pushed_at = ?, token_until = coalesce(token_until, ?) WHERE id = ?",
            (now, token_until, task_id),
        )

    def close(self, task_id, status, record):
        """The job's end: the first that is written stays."""
        self._rows.execute(
            "UPDATE jobs SET status = ?, record = ? WHERE id = ? AND status IS NULL", (status, record, task_id)
        )


def final(row, record, now):
    """The status of a record that is the answer to this row; None while there is none."""
    answer = json.loads(record) if record else {}
    status = answer.get("status")
    if status == "FAILURE" and answer["result"]["exc_type"] == "NotAuthorised" and ended(row["token_until"], now):
        return None  # of a message that waited longer than its token held: the next one brings a new token
    return status if status in {"SUCCESS", "FAILURE", "REVOKED"} else None


def ended(token_until, now):
    """Whether a token that was sent no longer holds."""
    return token_until is not None and now >= token_until


def due(row, now):
    """Whether to send: never pushed, or the answer's time is over (or the clock was set back)."""
    return not row["pushed_at"] <= now < row["pushed_at"] + SECONDS


def sign(job, claims, task, task_id, exp):
    """A token that lets these claims ask exactly this job, under this id."""
    bound = {"exp": exp, "aud": "retrieval-worker", "task": task, "jti": task_id}
    digest = sha256(rfc8785.dumps(job)).hexdigest()
    return jwt.encode({**claims, **bound, "args_sha256": digest}, TOKEN_KEY, "HS256", headers={"kid": TOKEN_KEY_ID})


def push(app, row, now):
    """Push a job, under its id, and return when its token ends; raises unless Redis has acknowledged it."""
    job, claims, until = json.loads(row["job"]), json.loads(row["claims"]), None
    if TOKEN_KEY:
        until = int(now) + TOKEN_SECONDS
        job["principal_token"] = sign(job, claims, row["task"], row["id"], until)
    elif claims:
        job["principal"] = claims
    queue = "pipeline" if row["task"] == "run_pipeline" else "retrieval"
    # No `expires`: an old copy that expires would answer for a new one. `argsrepr`: the message's headers would
    # repeat the job, its token included. `retry`: trying again is the ledger's.
    app.send_task(row["task"], [job], task_id=row["id"], queue=queue, argsrepr="(job)", kwargsrepr="{}", retry=False)
    return until


def step(ledger, app, results):
    """Read the answers that are there, and send what is due; returns how many jobs were given up."""
    given_up = 0
    rows = ledger.open()
    records = results.mget([f"celery-task-meta-{row['id']}" for row in rows]) if rows else []
    for row, record in zip(rows, records, strict=True):
        now = time.time()
        status = final(row, record, now)
        if status is None and due(row, now):
            if row["sends"] < SENDS:
                token_until = push(app, row, now)
                ledger.pushed(row["id"], time.time(), token_until)
                continue
            status, given_up = "GIVEN_UP", given_up + 1
        if status is not None:
            ledger.close(row["id"], status, record)
            print(row["id"], status, flush=True)
    return given_up


def run(ledger):
    """Until every job is closed; returns how many were given up."""
    app = Celery("ledger", set_as_current=False)
    app.backend_cls = "disabled://"  # answers are read with GET: nothing to subscribe to, nothing to lose
    app.conf.update(broker_url=os.environ["CELERY_BROKER_URL"], broker_transport_options=SOCKET)
    results = redis.Redis.from_url(os.environ["CELERY_RESULT_BACKEND"], decode_responses=True, **SOCKET)
    given_up = 0
    while ledger.open():
        try:
            given_up += step(ledger, app, results)
            time.sleep(POLL_SECONDS)
        except AWAY as error:
            print(f"ledger: Redis is away ({type(error).__name__}), trying again", file=sys.stderr, flush=True)
            time.sleep(1)
    return given_up


def add(ledger, lines):
    """One job a line; its id is printed once it is in the ledger, and so will be answered."""
    for number, line in enumerate(lines, 1):
        try:
            asked = json.loads(line)
            task, job, claims = asked["task"], asked["job"], asked.get("claims", {})
            task_id = asked.get("id") or str(uuid.uuid4())
            good = isinstance(task, str) and isinstance(job, dict) and isinstance(claims, dict)
            good = good and re.fullmatch("[0-9A-Za-z-]{1,64}", task_id)
            rfc8785.dumps(job)  # what has no canonical form (NaN) could never be signed
        except (ValueError, TypeError, KeyError):
            good = False
        if not good:
            sys.exit(f'ledger: line {number}: expected {{"task": "…", "job": {{…}}, "claims": {{…}}, "id": "a UUID"}}')
        ledger.add(task_id, task, job, claims)
        print(task_id, flush=True)


if __name__ == "__main__":
    jobs = Ledger(os.environ.get("LEDGER", "ledger.sqlite"))
    if sys.argv[1:] == ["add"]:
        add(jobs, sys.stdin)
    elif sys.argv[1:] == ["run"]:
        for name in ("CELERY_BROKER_URL", "CELERY_RESULT_BACKEND"):
            if not os.environ.get(name, "").startswith(("redis://", "rediss://")):
                sys.exit(f"ledger: {name}: expected redis://host:port/database")
        sys.exit(1 if run(jobs) else 0)
    else:
        sys.exit("usage: ledger.py add < jobs.jsonl | ledger.py run")
