"""Commands that run everything on one machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.adapters.terminal import complain, console, screen, styled

KIND = "EMBEDDER__KIND"


def _bounds(autoscale: str) -> str:
    """Check what Celery would refuse again and again, in a worker that is restarted each time."""
    maximum, comma, minimum = autoscale.partition(",")
    if not (comma and maximum.isdecimal() and minimum.isdecimal() and 1 <= int(minimum) <= int(maximum)):
        raise typer.BadParameter("expected the maximum, a comma and the minimum, from 1: 4,1", param_hint="--autoscale")
    return autoscale


def demo() -> None:
    """Run jobs from message to answer on this machine, then stop everything.

    Starts Postgres and Valkey, loads the sample corpora, starts a real worker, asks as two callers with different
    permissions, searches two corpora at once, and asks a question of each mode.

    Example: [bold]retrieval-worker demo[/bold]
    """
    from workbench import demo as demonstration

    demonstration.run(console)


def up(
    data: Annotated[Path, typer.Option(help="Folder of the servers' data.")] = Path(".state"),
    autoscale: Annotated[
        str, typer.Option(help="Maximum and minimum number of worker processes.", callback=_bounds)
    ] = "4,1",
) -> None:
    """Keep Postgres, Redis, a worker, the inspector and Flower running on this machine until Ctrl-C.

    The worker keeps the RETRIEVAL_WORKER_ settings of the environment, and uses the servers started here.

    A worker, the inspector or Flower is reported on standard error if it exits, and restarted. If Postgres or Redis
    exits, that is reported and everything stops, with exit code 1. Redis is the Valkey of the extra embedded, or the
    redis-server or valkey-server that the variable REDIS_SERVER names.

    Example: [bold]retrieval-worker up --data .state --autoscale 8,2[/bold]
    """
    from workbench import demo as demonstration
    from workbench.devstack.processes import reserved_port
    from workbench.devstack.stack import local_stack
    from workbench.devstack.supervisor import supervised
    from workbench.devstack.workers import (
        flower_program,
        inspector_program,
        own_settings,
        stack_environment,
        worker_program,
    )
    from worker.cli.signals import held_signals, interruptible
    from worker.settings import load_unconnected

    load_unconnected()  # wrong settings of the environment would restart the worker again and again
    own_environment = own_settings()
    _say_unused()
    with held_signals(), contextlib.ExitStack() as running:
        stack = running.enter_context(local_stack(data.resolve(), durable=True))
        kind = demonstration.install_sample(
            stack, console, load_unconnected().embedder, choose_kind=KIND not in own_environment
        ).kind
        shipped = {"TRUST_QUEUE": "true", "ARTIFACTS__URL": str(stack.root / "artifacts"), KIND: kind}
        environment = stack_environment(stack, **{**shipped, **own_environment})
        log = stack.root / "worker.log"
        password = secrets.token_urlsafe(12)
        url, flower = flower_program(
            environment | stack.redis.environment("flower"),
            stack.root / "flower.log",
            running.enter_context(reserved_port()),
            user="admin",
            password=password,
        )
        supervisor = running.enter_context(supervised(complain))
        supervisor.watch("Postgres", stack.postgres.process, stack.root / "postgres" / "postgres.log")
        supervisor.watch("Redis", stack.redis.process, stack.root / "redis" / "redis.log")
        supervisor.keep(worker_program(environment, log, f"--autoscale={autoscale}"))
        supervisor.keep(flower)
        inspector = inspector_program(
            environment | stack.redis.environment("inspector"),
            stack.root / "inspector.log",
            running.enter_context(reserved_port()),
            "alice",
        )
        pages = "pip install 'retrieval-worker[inspector]'"
        if inspector is not None:
            pages = f"{inspector[0]}  (as alice; for another user: retrieval-worker inspect --as bob)"
            supervisor.keep(inspector[1])
        with interruptible():
            _say_how(stack, url, password, log, {**shipped, **own_environment}, pages)
        supervisor.run()
        # It returns only after Postgres or Redis exited, which it has reported.
        raise typer.Exit(1)


def _say_unused() -> None:
    """Name the connections of the environment, which lead elsewhere."""
    from workbench.devstack.workers import CONNECTIONS

    unused = [name for name in CONNECTIONS if os.environ.get(name)]
    if unused:
        screen.print(
            f"not used: {', '.join(unused)} of the environment; the worker uses the servers started here",
            soft_wrap=True,
        )


def _say_how(stack: Any, url: str, password: str, log: Path, settings: dict[str, str], pages: str) -> None:
    trust, artifacts = (shlex.quote(settings[name]) for name in ("TRUST_QUEUE", "ARTIFACTS__URL"))
    embedder = " ".join(
        f"RETRIEVAL_WORKER_{name}={shlex.quote(value)}"
        for name, value in sorted(settings.items())
        if name.startswith("EMBEDDER__") and name != "EMBEDDER__API_KEY"  # a secret is not shown
    )
    broker, results = stack.redis.urls("producer")
    worker_broker, worker_results = stack.redis.urls("worker")
    console.print(
        styled(
            ("\nRunning", "bold"),
            f""" until Ctrl-C.
  Redis      {stack.redis.url(0)}  (results: {stack.redis.url(1)})
  Postgres   {stack.postgres.dsn()}
  Inspector  {pages}
  Flower     {url}  (admin / {password})
  log        {log}

""",
            ("Send a job", "bold"),
            f""" (any caller of the sample: alice, bob, carol)
  export CELERY_BROKER_URL={broker} CELERY_RESULT_BACKEND={results} {embedder}
  export DATABASE_CONNECTION_STRING={stack.postgres.dsn(user="retrieval_worker")} RETRIEVAL_WORKER_TRUST_QUEUE={trust}
  export MIGRATION_CONNECTION_STRING={stack.postgres.dsn()} RETRIEVAL_WORKER_ARTIFACTS__URL={artifacts}
  retrieval-worker query "What causes the hum on channel 18?" --as alice --record song-1 r1
  retrieval-worker ask "What causes the hum on channel 18?" --as alice --record desk r1
  retrieval-worker trace desk r1 --as alice
  retrieval-worker cite song-1 r1 --as alice --out citations.json
  retrieval-worker replay song-1 r1 --as alice --citations citations.json

or from Python
  from retrieval_client import Client, RunPipeline
  client = Client("{broker}", "{results}")
  client.call(RunPipeline(question="What causes the hum on channel 18?", principal={{"user_id": "alice"}})).answer

or in any language: docs/backends.md

""",
            ("Check it, or start another worker", "bold"),
            f""" (as Redis user worker, in a shell of its own: the user above only sends jobs)
  export CELERY_BROKER_URL={worker_broker} CELERY_RESULT_BACKEND={worker_results} {embedder}
  export DATABASE_CONNECTION_STRING={stack.postgres.dsn(user="retrieval_worker")} RETRIEVAL_WORKER_TRUST_QUEUE={trust}
  export RETRIEVAL_WORKER_ARTIFACTS__URL={artifacts}
  retrieval-worker doctor
  celery -A worker.app worker -n another@%h -Q retrieval,pipeline --without-mingle --without-gossip
""",
        ),
        soft_wrap=True,
    )
