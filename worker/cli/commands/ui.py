"""The command of the inspector in a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.commands.callers import Caller, Claims, Token, signer_of
from worker.cli.commands.runs import opened_for
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.inspector.terminal.desk import Answers
    from worker.jobs.engine import Engine
    from worker.settings import Settings


def ui(
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    by_queue: Annotated[
        bool, typer.Option("--queue", help="Have a worker answer questions, not this process; without --token.")
    ] = False,
) -> None:
    """Ask questions and look at runs, traces, citations and drift in this terminal, with the caller's permissions.

    Example: [bold]retrieval-worker ui --as alice[/bold]
    """
    try:
        from worker.inspector.terminal.app import Terminal
        from worker.inspector.terminal.desk import Desk
    except ImportError:
        raise WrongUsage("the inspector is not installed: pip install 'retrieval-worker[inspector]'") from None

    if by_queue and token:
        raise typer.BadParameter("a worker takes no token for the task inspect: give --as", param_hint="--queue")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUsage("ui needs a terminal; 'retrieval-worker report' writes a run as a file")
    with opened_for(caller, claims, token, with_queue=by_queue) as (engine, settings, visitor):
        ends_at = time.monotonic() + 60 * settings.inspector.session_minutes if token else None
        with _answers(engine, settings, by_queue=by_queue) as answers:
            desk = Desk(engine, visitor, answers, list(settings.modes), list(settings.profiles), ends_at)
            terminal = Terminal(desk)
            terminal.run()
    raise typer.Exit(terminal.return_code or 0)


@contextlib.contextmanager
def _answers(engine: Engine, settings: Settings, *, by_queue: bool) -> Iterator[Answers]:
    from retrieval_client import Client
    from worker.inspector.terminal.desk import SECONDS_TO_ANSWER, ByTheQueue, InThisProcess
    from worker.queue.overview import Overview
    from worker.settings.serving import QUEUES

    if not by_queue:
        yield InThisProcess(engine)
        return
    Overview(settings.broker_url.get_secret_value(), QUEUES).check()
    results = settings.result_backend or settings.broker_url
    urls = settings.broker_url.get_secret_value(), results.get_secret_value()
    with Client(*urls, signer_of(settings, SECONDS_TO_ANSWER)) as client:
        yield ByTheQueue(client)
