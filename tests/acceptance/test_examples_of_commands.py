"""The examples that `--help` of every command ends with, typed in one after another."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.command_line import command_line
from tests.waiting import wait_for

from reference_pages.commands import commands
from workbench.devstack.workers import celery_worker
from worker.cli.corpus_files import SAMPLES
from worker.core.text import lexical
from worker.queue.broker import dead_letters

from .bad_input_worker import body, message

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg
    import pytest
    import redis

    from workbench.devstack.stack import Stack

ROOT = Path(__file__).parents[2]
EXAMPLES = [example for command in commands() for example in command.examples]
GO_ON = {"demo", "up", "inspect", "ui"}
"""Commands that run servers or need a terminal; they have tests of their own."""
ENTRY = "1763762345678-0"
QUESTION = "What causes the hum on channel 18?"


def written_files(folder: Path) -> None:
    """Files that the examples name, as a user has them."""
    line = {"question": QUESTION, "relevant": ["handbook-desk-notes-006"], "caller": {"user_id": "alice"}}
    (folder / "queries.jsonl").write_text(json.dumps(line))
    (folder / "documents.json").write_bytes(SAMPLES["documents"].read_bytes())
    (folder / "lyrics.json").write_text("{}")
    (folder / "manuals").mkdir()
    (folder / "manuals" / "desk.md").write_text("# Hum\n\nThe desk hums.\n")
    np.save(folder / "queries.npy", lexical.embed([QUESTION, "add hi-hats"]))


def dead_entry(broker: redis.Redis) -> str:
    """The entry of a dead letter that may be sent again: of a task that no worker has."""
    broker.lpush("retrieval", message(str(uuid.uuid4()), body({}), {"task": "no_such_task"}))
    wait_for(lambda: [*dead_letters.every(broker, "retrieval")])
    return next(iter(dead_letters.every(broker, "retrieval"))).entry


def test_the_examples_of_all_commands_work(
    stack: Stack,
    broker: redis.Redis,
    admin: psycopg.Connection[Any],
    database: str,
    worker_environment: Callable[..., dict[str, str]],
    worker_log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 0 each, on the sample corpora, with what they name: files, a schema, a dead letter, a database."""
    environment = worker_environment(ARTIFACTS__URL=str(tmp_path / "artifacts"))
    written_files(tmp_path)
    admin.execute("CREATE SCHEMA shop")
    admin.execute("CREATE TABLE shop.items (id text PRIMARY KEY, text text NOT NULL, embedding vector(768) NOT NULL)")
    settings = tmp_path / "settings"
    typed = command_line(capsys, {**environment, "CELERY_BROKER_URL": stack.redis.url(0)})
    assert typed("init", str(settings)).returncode == 0
    done = []
    with celery_worker(environment, worker_log, "--concurrency=1"):
        for example in EXAMPLES:
            words = [word for word in shlex.split(example) if not re.match("[A-Z_]+=…", word)][1:]
            if words[0] in GO_ON:
                continue
            monkeypatch.chdir(ROOT if words[0] == "contract" else tmp_path)
            dsn, dropped = stack.postgres.dsn(database), ""
            if words[0] == "migrate":
                dropped = f"{database}_{len(done)}"
                admin.execute(f"CREATE DATABASE {dropped}")
                dsn = stack.postgres.dsn(dropped)
            real = {ENTRY: lambda: dead_entry(broker), "/etc/retrieval-worker": lambda: str(tmp_path / "more")}
            words = [real[word]() if word in real else dsn if "://" in word else word for word in words]
            config = {"RETRIEVAL_WORKER_CONFIG": str(settings / "worker.toml")} if "--write" in words else {}
            ended = typed(*words, MIGRATION_CONNECTION_STRING=dsn, **config)
            assert ended.returncode == 0, f"{example}: {ended.stdout}{ended.stderr}"
            done.append(words[0])
            if dropped:
                admin.execute(f"DROP DATABASE {dropped} WITH (FORCE)")
    assert len(done) >= 35
    written = ("citations.json", "desk-r1.html", "run.txt", "qrels.txt", "song-1-r1.json", "more/worker.toml")
    assert [name for name in written if not (tmp_path / name).exists()] == []
