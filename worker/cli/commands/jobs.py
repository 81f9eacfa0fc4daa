"""Commands that send a job to a worker and show its answer."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import typer

from retrieval_client.errors import DeadLettered, InternalError, InvalidJob, RetrievalError, SettingsError
from worker.adapters.terminal import console, write_json_text
from worker.cli.commands.callers import Claims, JobCaller, JobToken, SentAs, enqueue, naming_options, sent_as
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retrieval_client import Client, Replay, Signer, TaskId
    from retrieval_client.contract.base import AnsweredBy, AnswerT, JobT
    from worker.adapters.providers.embedder import Embedder
    from worker.settings import Settings

LONGEST_WAIT = 7 * 86_400


def _seconds(seconds: float) -> float:
    if not 0 < seconds <= LONGEST_WAIT:  # a NaN as well
        raise typer.BadParameter(f"expected more than 0 seconds, at most {LONGEST_WAIT}", param_hint="--timeout")
    return seconds


def _words(text: str) -> str:
    if not text.strip():  # an embedder would make a vector of it
        raise typer.BadParameter("expected at least one word", param_hint="question")
    return text


Broker = Annotated[str, typer.Option(envvar="CELERY_BROKER_URL", help="Redis of the queue.")]
Backend = Annotated[str, typer.Option(envvar="CELERY_RESULT_BACKEND", help="Redis of the results.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait.", callback=_seconds)]
Record = Annotated[
    tuple[str, str] | None, typer.Option("--record", metavar="SUBJECT RUN", help="Record it as this run.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as received.")]

JsonDocument = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object per run on standard output.")]


def client_of(broker: str, backend: str, signer: Signer | None = None) -> Client:
    """Create the client of a queue; with a signer it signs the claims of jobs that `send` sends.

    Raises:
        SettingsError: a URL is wrong.
    """
    from retrieval_client import Client

    check_url(broker, "--broker (CELERY_BROKER_URL)")
    if backend:
        check_url(backend, "--backend (CELERY_RESULT_BACKEND)", queue=False)
    return Client(broker, backend or None, signer)


def send(client: Client, job: AnsweredBy[AnswerT], timeout: float) -> AnswerT:
    """Send a job that expires after the time, and wait for its answer; see `answer_to`."""
    return answer_to(client, enqueue(client, job, timeout), timeout)


def answer_to(client: Client, task_id: TaskId[AnswerT], timeout: float) -> AnswerT:
    """Wait for an answer.

    Raises:
        RetrievalError: as `Client.result`; it names the task where more is to be seen: a dead letter, a log.
    """
    try:
        return client.result(task_id, timeout)
    except DeadLettered as error:
        raise DeadLettered(f"no answer within {timeout:g} s: {error.message} (task id {task_id})") from None
    except InternalError as error:
        raise InternalError(f"{error.message} (task id {task_id})") from None


def check_url(url: str, name: str, *, queue: bool = True) -> None:
    """Check a Redis URL before libraries fail on it.

    Args:
        url: the URL.
        name: its name for people.
        queue: True: of queues; False: of results, which may have more options.

    Raises:
        SettingsError: it is wrong; the message does not repeat it, because it may hold a password.
    """
    from worker.adapters.redis_refusals import SURROUNDED, UNSUPPORTED, has_tls_options_only, is_surrounded

    if is_surrounded(url):
        raise SettingsError(f"{name}: {SURROUNDED}")
    try:
        url_parts = urlsplit(url)
        (url_parts.hostname or "").encode("idna")
        database = url_parts.path.strip("/")
        is_redis_url = (
            url_parts.scheme in {"redis", "rediss"} and url_parts.port != 0 and (database.isdecimal() or not database)
        )
    except ValueError:  # brackets, an invalid port, a host that no name server accepts
        is_redis_url = False
    if not is_redis_url:
        raise SettingsError(f"{name}: expected redis://[user:password@]host[:port][/database], or rediss:// for TLS")
    if not _has_known_options(url) or (queue and not has_tls_options_only(url)):
        raise SettingsError(f"{name}: {UNSUPPORTED}")


_TLS_CHECKS = {"none", "optional", "required", "CERT_NONE", "CERT_OPTIONAL", "CERT_REQUIRED"}


def _has_known_options(url: str) -> bool:
    """Return whether a connection accepts all options of a URL, without opening one."""
    import redis

    url_parts = urlsplit(url)
    options = dict(parse_qsl(url_parts.query))
    if url_parts.scheme == "rediss" and options.pop("ssl_cert_reqs", "none") not in _TLS_CHECKS:
        return False
    try:
        pool = redis.ConnectionPool.from_url(url_parts._replace(query=urlencode(options)).geturl())
        pool.make_connection()
    except (ValueError, TypeError, redis.RedisError):
        return False
    return True


def query(
    question: Annotated[str, typer.Argument(help="The query; embedded as the settings say.", callback=_words)],
    broker: Broker,
    backend: Backend = "",
    caller: JobCaller = "",
    claims: Claims = "",
    token: JobToken = "",
    corpus: Annotated[str, typer.Option(help="A corpus of the worker's settings; default its first.")] = "",
    record: Record = None,
    k: Annotated[int, typer.Option(help="Number of chunks (10 to 15).")] = 15,
    timeout: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Enqueue one retrieve_top_k job and print its answer.

    The question is embedded here, not in the worker. Where DATABASE_CONNECTION_STRING is set, the embedder is compared
    with the one that filled the corpus, as a worker does for a text; otherwise nothing tells whether they agree.

    Example: [bold]retrieval-worker query "hum on channel 18" --as alice --record song-1 r1[/bold]
    """
    from retrieval_client import RetrieveTopK, TopK, encode_embedding
    from worker import settings
    from worker.adapters.providers import embedder
    from worker.inspector.text.answers import top_k_table
    from worker.inspector.view.wording import QUESTION_WIDTH, short
    from worker.model import DIMENSIONS

    loaded = settings.load_unconnected()
    name = corpus or loaded.default_corpus
    corpus_settings = loaded.corpora.get(name)  # the worker's settings may have others
    sender = sent_as(
        caller, claims, token, timeout, required=corpus_settings is not None and not corpus_settings.public
    )
    dimensions = DIMENSIONS if corpus_settings is None else corpus_settings.dimensions
    model = embedder.make(loaded.embedder)
    vector = model.embed([question], dimensions=dimensions, is_query=True)[0].tolist()
    if corpus_settings is not None and loaded.names_database:
        _check_embedder(loaded, name, model, sender)
    job_fields: dict[str, Any] = {"query_embedding": encode_embedding(vector), "k": k, **sender.fields}
    if corpus:
        job_fields["corpus"] = corpus
    if record:
        job_fields["run"] = run_name(*record)
    job = wanted_job(RetrieveTopK, job_fields)
    start = time.perf_counter()
    with naming_options(sender):
        answer = send(client_of(broker, backend, sender.signer), job, timeout)
    assert isinstance(answer, TopK)  # noqa: S101 -- for the type checker: one query, one answer
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
    else:
        milliseconds = (time.perf_counter() - start) * 1000
        console.print(top_k_table(short(question, QUESTION_WIDTH), answer, milliseconds, answer.k, loaded.paths))


def _check_embedder(settings: Settings, corpus: str, embedder: Embedder, sender: SentAs) -> None:
    """Compare an embedder with the one that filled a corpus; a database that can't be asked from here says nothing.

    Raises:
        SettingsError: they do not agree; the message names both.
        Unavailable: the embedder can't be compared now.
    """
    from worker.adapters.postgres.database import Database
    from worker.core.prompting.costs import unbilled
    from worker.jobs.corpora import anonymous
    from worker.jobs.corpus_embedders import compared_with
    from worker.jobs.principal import as_principal

    claims = sender.fields.get("principal")
    with contextlib.ExitStack() as stack:
        try:
            caller = anonymous(settings) if claims is None else as_principal(claims, settings, "principal")
            database = stack.enter_context(contextlib.closing(Database(settings)))
        except RetrievalError:  # the job itself will say it
            return
        seconds = settings.embedder.timeout_seconds
        compared_with(embedder, settings, database).check([corpus], caller, unbilled, seconds)


def search(
    question: Annotated[str, typer.Argument(help="The query.")],
    broker: Broker,
    backend: Backend = "",
    caller: JobCaller = "",
    claims: Claims = "",
    token: JobToken = "",
    context: Annotated[str, typer.Option(help="What the user is working on: its keywords widen a second search.")] = "",
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=K]",
            help="A corpus and its number of chunks; repeat for more. Default only the worker's hybrid.searches: docs "
            "and examples, as shipped.",
        ),
    ] = None,
    leg: Annotated[list[str] | None, typer.Option(help="primary, contextual, sparse; repeat for more.")] = None,
    fusion: Annotated[str, typer.Option(help="similarity, rrf or weighted; default the worker's hybrid.fusion.")] = "",
    transform: Annotated[str, typer.Option(help="none, glossary or llm.")] = "none",
    record: Record = None,
    timeout: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Enqueue one retrieve_hybrid job and print its answer.

    Example: [bold]retrieval-worker search "add hi-hats" --context 'sound("bd").fast(2)' --transform glossary[/bold]
    """
    from retrieval_client import Hybrid, RetrieveHybrid
    from worker import settings
    from worker.inspector.text.answers import hybrid_report

    sender = sent_as(caller, claims, token, timeout, required=False)
    job_fields: dict[str, Any] = {"query": question, "context": context, "transform": transform, **sender.fields}
    if fusion:
        job_fields["fusion"] = fusion
    if corpus:
        job_fields["searches"] = [_search(name) for name in corpus]
    if leg:
        job_fields["legs"] = leg
    if record:
        job_fields["run"] = run_name(*record)
    paths = settings.load_unconnected().paths
    with naming_options(sender):
        answer = send(client_of(broker, backend, sender.signer), wanted_job(RetrieveHybrid, job_fields), timeout)
    assert isinstance(answer, Hybrid)  # noqa: S101 -- for the type checker: one query, one answer
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
    else:
        console.print(hybrid_report(answer, paths))


def wanted_job(kind: type[JobT], fields: dict[str, Any]) -> JobT:
    """Return the job that the options of a command describe.

    Raises:
        WrongUsage: a value isn't one that the job may have.
    """
    from retrieval_client.contract.base import parse_job

    try:
        return parse_job(kind, fields)
    except InvalidJob as error:
        raise WrongUsage(error.message) from None


def _search(text: str) -> dict[str, Any]:
    name, _, k = text.partition("=")
    if not k:
        return {"corpus": name}
    if not k.isdecimal():
        raise typer.BadParameter(f"expected NAME=K with a number, got {text}", param_hint="--corpus")
    return {"corpus": name, "top_k": int(k)}


def run_name(subject: str, run: str, step: str = "") -> dict[str, str]:
    """Return a run's name as a job has it."""
    return {"subject_id": subject, "run_id": run, **({"step": step} if step else {})}


def cite(
    subject: Annotated[str, typer.Argument(help="subject_id of the run.")],
    run: Annotated[str, typer.Argument(help="run_id of the run.")],
    broker: Broker,
    backend: Backend = "",
    caller: JobCaller = "",
    claims: Claims = "",
    token: JobToken = "",
    step: Annotated[str, typer.Option(help="Only this step of the run.")] = "",
    cited: Annotated[bool, typer.Option("--cited", help="Only what the run's answer cites.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the citations document to this file.")] = None,
    timeout: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Cite a recorded run: check its chunks against the sources and store the run's citations.json.

    Shows each chunk, and each conflict between chunks with its place and difference.

    Example: [bold]retrieval-worker cite song-1 r1 --as alice --out citations.json[/bold]
    """
    from retrieval_client import BuildCitations, Citations
    from worker.cli.citation_files import write_document
    from worker.core.citations.document import CONFLICTS
    from worker.inspector.text.answers import citations_table, conflicts_table
    from worker.inspector.view.citations import citations_view

    cite = {**run_name(subject, run, step), "what": "cited" if cited else "retrieved"}
    sender = sent_as(caller, claims, token, timeout)
    job = wanted_job(BuildCitations, {"cite": cite, "run": run_name(subject, run), **sender.fields})
    answer = send(client_of(broker, backend, sender.signer), job, timeout)
    assert isinstance(answer, Citations)  # noqa: S101 -- for the type checker: one run, one answer
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
    else:
        view = citations_view(answer)
        console.print(citations_table(f"{subject} / {run}, as {sender.name}", view))
        if view.conflicts:
            console.print(conflicts_table(view))
    if out is not None:
        write_document(out, {**answer.citations, CONFLICTS: answer.conflicts})


def replay(
    subject: Annotated[str, typer.Argument(help="subject_id of the run.")],
    run: Annotated[str, typer.Argument(help="run_id of the run.")],
    broker: Broker,
    backend: Backend = "",
    caller: JobCaller = "",
    claims: Claims = "",
    token: JobToken = "",
    step: Annotated[str, typer.Option(help="Only this step of the run.")] = "",
    citations: Annotated[
        Path | None, typer.Option(help="The run's citations.json: shows the changed words of edited chunks.")
    ] = None,
    timeout: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Replay a recorded run and show the verdict of each chunk. Exit code 1 if any is edited or missing.

    Example: [bold]retrieval-worker replay song-1 r1 --as alice --citations citations.json[/bold]
    """
    from retrieval_client import PinnedReplay, Replay
    from worker.cli.citation_files import read_document
    from worker.inspector.text.answers import replay_table
    from worker.inspector.view.drift import drift_view

    cited = read_document(citations).get("all_citations", []) if citations else []
    old_texts = {citation["chunk_hash"]: citation["text"] for citation in cited}
    sender = sent_as(caller, claims, token, timeout)
    client = client_of(broker, backend, sender.signer)
    job = wanted_job(PinnedReplay, {"run": run_name(subject, run, step), **sender.fields})
    answer = send(client, job, timeout)
    assert isinstance(answer, Replay)  # noqa: S101 -- for the type checker: one run, one answer
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
    else:
        new_texts = {} if sender.is_for_one_job else _edited_texts(client, answer, sender.fields, timeout)
        console.print(replay_table(f"{subject} / {run}, as {sender.name}", drift_view(answer, old_texts, new_texts)))
    if any(pin.verdict in {"edited", "missing"} for pin in answer.pins):
        raise typer.Exit(1)


def _edited_texts(client: Client, replayed: Replay, caller: Mapping[str, Any], timeout: float) -> dict[str, str]:
    """Fetch the texts that stand where a run's pins were edited: a second job."""
    from retrieval_client import PinnedReplay, Replay

    edited = [pin.found_hash for pin in replayed.pins if pin.verdict == "edited" and pin.found_hash]
    current_replay = send(client, wanted_job(PinnedReplay, {"required_chunk_hashes": edited, **caller}), timeout)
    assert isinstance(current_replay, Replay)  # noqa: S101 -- for the type checker: one list, one answer
    return {chunk.chunk_hash: chunk.text for chunk in current_replay.chunks}


def feedback(
    subject: Annotated[str, typer.Argument(help="subject_id of the run.")],
    run: Annotated[str, typer.Argument(help="run_id of the run.")],
    broker: Broker,
    backend: Backend = "",
    caller: JobCaller = "",
    claims: Claims = "",
    token: JobToken = "",
    step: Annotated[str, typer.Option(help="Only of this step of the run.")] = "",
    used: Annotated[
        list[str] | None, typer.Option(metavar="HASH", help="Hash of a chunk that was used; repeat for more.")
    ] = None,
    not_used: Annotated[
        list[str] | None, typer.Option(metavar="HASH", help="Hash of a chunk that was not used; repeat for more.")
    ] = None,
    rating: Annotated[int | None, typer.Option(min=-1, max=1, help="-1, 0 or 1: of the answer.")] = None,
    note: Annotated[str, typer.Option(help="A remark.")] = "",
    timeout: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Enqueue one record_feedback job: which chunks of a recorded run were used, and how good its answer was.

    The latest feedback counts; [bold]tune[/bold] learns from it. Exit code 1 if the run does not have one of the
    chunks; the others are recorded. [bold]runs used[/bold] does the same without a worker, and takes chunk ids too.

    Example: [bold]retrieval-worker feedback song-1 r1 --used
    sha256:59a29a0cf2ff6da019c53bc6e1539556f13a3a6ed736dc4f4bac7309fe58e2df --rating 1 --as alice[/bold]
    """
    from retrieval_client import RecordFeedback

    feedback_options = {"used": used, "not_used": not_used, "rating": rating, "note": note or None}
    feedback_fields = {name: value for name, value in feedback_options.items() if value is not None}
    if not feedback_fields:
        raise typer.BadParameter("give --used, --not-used, --rating or --note")
    sender = sent_as(caller, claims, token, timeout)
    job = wanted_job(RecordFeedback, {"run": run_name(subject, run, step), **feedback_fields, **sender.fields})
    answer = send(client_of(broker, backend, sender.signer), job, timeout)
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
    else:
        chunks = f"{answer.recorded} chunk{'' if answer.recorded == 1 else 's'}"
        console.print(f"{subject} / {run}, as {sender.name}: feedback on {chunks} recorded")
        for chunk_hash in answer.unknown:
            console.print(f"not a chunk of the run: {chunk_hash}", soft_wrap=True)
    if answer.unknown:
        raise typer.Exit(1)
