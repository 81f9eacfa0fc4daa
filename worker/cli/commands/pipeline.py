"""Commands for the pipeline: ask a question; show the trace of a recorded answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.adapters.terminal import console, screen, styled, write_json, write_json_text
from worker.cli.commands.callers import (
    Caller,
    Claims,
    JobCaller,
    JobToken,
    Token,
    enqueue,
    naming_options,
    sent_as,
)
from worker.cli.commands.jobs import (
    AsJson,
    Backend,
    Broker,
    JsonDocument,
    Record,
    Timeout,
    answer_to,
    client_of,
    run_name,
    wanted_job,
)
from worker.cli.commands.runs import Run, Subject, name_of, opened_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrieval_client import Client
    from retrieval_client.contract.answers import PipelineAnswer
    from retrieval_client.contract.jobs import RunPipeline


def ask(
    question: Annotated[str, typer.Argument(help="The question.")],
    broker: Broker,
    backend: Backend = "",
    caller: JobCaller = "",
    claims: Claims = "",
    token: JobToken = "",
    mode: Annotated[str, typer.Option(help="A mode of the worker's settings; default their first.")] = "",
    profile: Annotated[str, typer.Option(help="A search profile of the settings; default the mode's.")] = "",
    context: Annotated[str, typer.Option(help="What the user is working on.")] = "",
    k: Annotated[int | None, typer.Option(min=1, max=50, help="Number of sources; default the mode's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the language model; recorded.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Temperature of the language model, 0 to 2; recorded.")
    ] = None,
    record: Record = None,
    chat: Annotated[bool, typer.Option("--chat", help="Begin or continue a conversation.")] = False,
    after: Annotated[str, typer.Option(metavar="RESPONSE_ID", help="Continue from this answer (implies --chat).")] = "",
    conversation: Annotated[str, typer.Option(metavar="ID", help="The conversation's name (implies --chat).")] = "",
    timeout: Timeout = 60.0,
    as_json: AsJson = False,
) -> None:
    """Enqueue one run_pipeline job and print the answer with its sources.

    Example: [bold]retrieval-worker ask "What causes the hum on channel 18?" --as alice --record desk r1[/bold]

    Example: [bold]retrieval-worker ask "add hi-hats" --mode code --context 'sound("bd*4")'[/bold]
    """
    from retrieval_client import RunPipeline
    from worker import settings
    from worker.inspector.text.pipeline_answer import answer_report, continue_line
    from worker.inspector.view.run import About, run_view

    sender = sent_as(caller, claims, token, timeout, required=False)
    job_fields: dict[str, Any] = {"question": question, **sender.fields}
    texts = {
        "mode": mode,
        "profile": profile,
        "context": context,
        "prior_response_id": after,
        "conversation_id": conversation,
    }
    job_fields |= {name: value for name, value in texts.items() if value}
    if chat or after or conversation:
        job_fields["chat_mode"] = "chat"
    numbers = {"k": k, "seed": seed, "temperature": temperature}
    job_fields |= {name: value for name, value in numbers.items() if value is not None}
    if record:
        job_fields["run"] = run_name(*record)
    accepted = settings.load_unconnected().citations.accepted
    client = client_of(broker, backend, sender.signer)
    with screen.status("waiting for a worker") as status:

        def report(stage: str, finished_stages: int, total: int) -> None:
            status.update(styled(f"{stage} ({finished_stages} of {total})"))

        with naming_options(sender):
            answer = answered(client, wanted_job(RunPipeline, job_fields), timeout, report)
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
    else:
        console.print(answer_report(run_view(answer, About(accepted=accepted))))
        if answer.response_id:
            console.print(continue_line(answer))


def answered(
    client: Client, job: RunPipeline, timeout: float, report: Callable[[str, int, int], None]
) -> PipelineAnswer:
    """Send a question and wait for its answer; report the worker's stage, its finished stages and all of them.

    Raises:
        RetrievalError: there is no answer.
    """
    from retrieval_client import PipelineAnswer

    task_id = enqueue(client, job, timeout)
    for where in client.watch(task_id, timeout):
        if where.stage is not None:
            report(where.stage, where.done or 0, where.total or 0)
    if not where.ended:
        raise client.no_answer(task_id, timeout, "pipeline")
    answer = answer_to(client, task_id, timeout)
    assert isinstance(answer, PipelineAnswer)  # noqa: S101 -- for the type checker: one question, one answer
    return answer


def trace(
    subject: Subject,
    run: Run,
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    step: Annotated[str, typer.Option(help="Only this step of the run.")] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Show all dropped candidates, not only the first few.")
    ] = False,
    as_json: JsonDocument = False,
) -> None:
    """Show the trace of a recorded answer: stages, candidates and scores after each, reasons of drops, costs.

    Reads the record with the worker's settings, without a queue; no text of a source is in it.

    Example: [bold]retrieval-worker trace desk r1 --as alice[/bold]
    """
    from worker.inspector.text.trace import trace_as_json, trace_report

    with opened_for(caller, claims, token) as (engine, _, principal):
        answer_traces = engine.pipeline_jobs.traces(name_of(subject, run, step), principal)
    if as_json:
        write_json({"traces": [trace_as_json(answer_trace) for answer_trace in answer_traces]})
        return
    for answer_trace in answer_traces:
        title = " / ".join(name for name in (subject, run, answer_trace.step) if name)
        console.print(trace_report(f"{title}, as {principal.owner}", answer_trace, everything=everything))
