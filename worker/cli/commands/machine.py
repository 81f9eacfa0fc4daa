"""Commands that run everything on one machine."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.cli.terminal import complain, console, styled

_VERSIONS = (16, 18)


def _known(version: int) -> int:
    if version not in _VERSIONS:
        raise typer.BadParameter(f"expected 16 or 18, got {version}", param_hint="--postgres")
    return version


def _bounds(autoscale: str) -> str:
    """Check what Celery would refuse again and again, in a worker that is restarted each time."""
    most, comma, least = autoscale.partition(",")
    if not (comma and most.isdecimal() and least.isdecimal() and 1 <= int(least) <= int(most)):
        raise typer.BadParameter("expected the maximum, a comma and the minimum, from 1: 4,1", param_hint="--autoscale")
    return autoscale


PostgresVersion = Annotated[
    int, typer.Option("--postgres", help="Major version of the embedded server: 16 or 18.", callback=_known)
]


def demo(postgres: PostgresVersion = 18) -> None:
    """Run jobs from message to answer on this machine, then stop everything.

    Starts Postgres and Redis, loads the sample corpora, starts a real worker, asks as two callers with different
    permissions, searches two corpora at once, and asks a question of each mode.

    Example: [bold]retrieval-worker demo[/bold]
    """
    from worker.cli import demo as demonstration

    demonstration.run(console, postgres_version=postgres)


def up(
    data: Annotated[Path, typer.Option(help="Folder of the servers' data.")] = Path(".state"),
    postgres: PostgresVersion = 18,
    autoscale: Annotated[
        str, typer.Option(help="Maximum and minimum number of worker processes.", callback=_bounds)
    ] = "4,1",
) -> None:
    """Keep Postgres, Redis, a worker and Flower running on this machine until Ctrl-C.

    A worker or Flower that exits is reported on standard error and restarted. If Postgres or Redis exits, that is
    reported and everything stops, with exit code 1.

    Example: [bold]retrieval-worker up --data .state --autoscale 8,2[/bold]
    """
    from worker.cli import demo as demonstration
    from worker.cli import devstack

    with contextlib.ExitStack() as running:
        stack = running.enter_context(devstack.stack(data.resolve(), postgres_version=postgres, durable=True))
        kind = demonstration.install_sample(stack, console).kind
        artifacts = stack.root / "artifacts"
        environment = devstack.worker_environment(
            stack, TRUST_QUEUE="true", ARTIFACTS__URL=str(artifacts), EMBEDDER__KIND=kind
        )
        log = stack.root / "worker.log"
        password = secrets.token_urlsafe(12)
        url, flower = devstack.flower_program(
            environment | stack.redis.environment("flower"),
            stack.root / "flower.log",
            user="admin",
            password=password,
        )
        supervisor = running.enter_context(devstack.supervisor(complain))
        supervisor.watch("Postgres", stack.postgres.process, stack.root / "postgres" / "postgres.log")
        supervisor.watch("Redis", stack.redis.process, stack.root / "redis" / "redis.log")
        supervisor.keep(devstack.worker_program(environment, log, f"--autoscale={autoscale}"))
        supervisor.keep(flower)
        _say_how(stack, url, password, log, devstack.lacks(), kind)
        supervisor.run()
        # It returns only after Postgres or Redis exited, which it has reported.
        raise typer.Exit(1)


def _say_how(stack: Any, url: str, password: str, log: Path, lacks: str, kind: str) -> None:
    broker, results = stack.redis.urls("producer")
    worker_broker, worker_results = stack.redis.urls("worker")
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
  export CELERY_BROKER_URL={broker} CELERY_RESULT_BACKEND={results} RETRIEVAL_WORKER_EMBEDDER__KIND={kind}
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
            ("Check it, or start another worker", "bold"),
            f""" (as Redis user worker, in a shell of its own: the user above only sends jobs)
  export CELERY_BROKER_URL={worker_broker} CELERY_RESULT_BACKEND={worker_results} RETRIEVAL_WORKER_EMBEDDER__KIND={kind}
  export DATABASE_CONNECTION_STRING={stack.postgres.dsn(user="retrieval_worker")} RETRIEVAL_WORKER_TRUST_QUEUE=true
  export RETRIEVAL_WORKER_ARTIFACTS__URL={stack.root / "artifacts"}
  retrieval-worker doctor
  celery -A worker.app worker -n another@%h -Q retrieval,pipeline --without-mingle --without-gossip
""",
        ),
        soft_wrap=True,
    )
