"""Commands that run everything on one machine."""

from __future__ import annotations

import contextlib
import secrets
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.terminal import console, styled

PostgresVersion = Annotated[int, typer.Option("--postgres", help="Major version of the embedded server: 16 or 18.")]


def demo(postgres: PostgresVersion = 18) -> None:
    """Show the whole way of a job on this machine, then stop everything.

    Starts Postgres and Redis, loads the sample corpora, starts a real worker, asks as two callers with different
    rights, searches two corpora at once, and asks a question of each mode.

    Example: [bold]retrieval-worker demo[/bold]
    """
    from worker import demo as demonstration

    demonstration.run(console, postgres_version=postgres)


def up(
    data: Annotated[Path, typer.Option(help="Where the servers keep their data.")] = Path(".state"),
    postgres: PostgresVersion = 18,
    autoscale: Annotated[str, typer.Option(help="Most and fewest worker processes.")] = "4,1",
) -> None:
    """Keep Postgres, Redis, a worker and Flower running on this machine until Ctrl-C.

    Example: [bold]retrieval-worker up --data .state --autoscale 8,2[/bold]
    """
    from worker import demo as demonstration
    from worker import devstack

    with contextlib.ExitStack() as running:
        stack = running.enter_context(devstack.stack(data.resolve(), postgres_version=postgres, durable=True))
        demonstration.install_sample(stack, console)
        artifacts = stack.root / "artifacts"
        environment = devstack.worker_environment(stack, TRUST_QUEUE="true", ARTIFACTS__URL=str(artifacts))
        log = stack.root / "worker.log"
        running.enter_context(devstack.celery_worker(environment, log, f"--autoscale={autoscale}"))
        password = secrets.token_urlsafe(12)
        url = running.enter_context(
            devstack.flower(
                environment | stack.redis.environment("flower"),
                stack.root / "flower.log",
                user="admin",
                password=password,
            )
        )
        _say_how(stack, url, password, log, devstack.lacks())
        threading.Event().wait()


def _say_how(stack: Any, url: str, password: str, log: Path, lacks: str) -> None:
    broker, results = stack.redis.urls("producer")
    missing = f"\n             {lacks}" if lacks else ""
    console.print(
        styled(
            ("\nRunning", "bold"),
            f""" until Ctrl-C.
  Redis      {stack.redis.url(0)}  (results: {stack.redis.url(1)}){missing}
  Postgres   {stack.postgres.dsn()}
  Flower     {url}  (admin / {password})
  log        {log}

""",
            ("Send a job", "bold"),
            f""" (any caller of the sample: alice, bob, carol)
  export CELERY_BROKER_URL={broker} CELERY_RESULT_BACKEND={results}
  export DATABASE_CONNECTION_STRING={stack.postgres.dsn(user="retrieval_worker")} RETRIEVAL_WORKER_TRUST_QUEUE=true
  export MIGRATION_CONNECTION_STRING={stack.postgres.dsn()} RETRIEVAL_WORKER_ARTIFACTS__URL={stack.root / "artifacts"}
  retrieval-worker query "What causes the hum on channel 18?" --as alice --record song-1 r1
  retrieval-worker ask "What causes the hum on channel 18?" --as alice --record desk r1
  retrieval-worker trace desk r1 --as alice
  retrieval-worker cite song-1 r1 --as alice --out citations.json
  retrieval-worker replay song-1 r1 --as alice --citations citations.json

or from Python
  from worker.client import Client, RetrieveTopK, encode_embedding
  client = Client("{broker}", "{results}")
  client.call(RetrieveTopK(query_embedding=encode_embedding(vector), principal={{"user_id": "alice"}}))

or in any language: docs/backends.md
""",
        ),
        soft_wrap=True,
    )
