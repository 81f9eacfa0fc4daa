"""The command of the inspector in a terminal."""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.commands.callers import Caller, Claims, Token, signer_of
from worker.cli.commands.pipeline import answered
from worker.cli.commands.runs import opened_for
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval_client import PipelineAnswer, RunPipeline
    from worker.inspector.terminal.desk import Answers, Report
    from worker.jobs.engine import Engine
    from worker.model import Principal
    from worker.settings import Settings

SECONDS_TO_ANSWER = 300.0


def ui(
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    by_queue: Annotated[
        bool, typer.Option("--queue", help="Have a worker answer questions, not this process; without --token.")
    ] = False,
) -> None:
    """Ask questions, in a chat or single, and look at runs, traces, citations and drift, with the caller's permissions.

    Example: [bold]retrieval-worker ui --as alice[/bold]
    """
    from worker.inspector import SESSION_SECONDS

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
        ends_at = time.monotonic() + SESSION_SECONDS if token else None
        choices = {"mode": [*settings.modes], "profile": [*settings.profiles]}
        with _by_the_queue(settings) if by_queue else contextlib.nullcontext(in_this_process(engine)) as answers:
            terminal = Terminal(Desk(engine, visitor, answers, ends_at), choices)
            terminal.run()
    raise typer.Exit(terminal.return_code or 0)


def in_this_process(engine: Engine) -> Answers:
    """Return what answers questions by an engine of this process."""
    from retrieval_client import PipelineAnswer
    from worker.jobs.context import JobContext

    def answer(job: RunPipeline, caller: Principal, report: Report) -> PipelineAnswer:
        context = JobContext(lambda: caller, secrets.token_urlsafe(16), report)
        return PipelineAnswer.model_validate(engine.handlers["run_pipeline"](job, context))

    return answer


@contextlib.contextmanager
def _by_the_queue(settings: Settings) -> Iterator[Answers]:
    """Have a worker answer; without a signer it must trust its queue."""
    from retrieval_client import Client
    from worker.queue.overview import Overview
    from worker.settings.serving import QUEUES

    broker, results = (
        url.get_secret_value() for url in (settings.broker_url, settings.result_backend or settings.broker_url)
    )
    Overview(broker, QUEUES).check()
    with Client(broker, results, signer_of(settings, SECONDS_TO_ANSWER)) as client:

        def answer(job: RunPipeline, caller: Principal, report: Report) -> PipelineAnswer:
            claims = {name: [*value] if isinstance(value, tuple) else value for name, value in caller.claims.items()}
            return answered(client, job.model_copy(update={"principal": claims}), SECONDS_TO_ANSWER, report)

        yield answer
