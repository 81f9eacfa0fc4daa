"""Commands that send a job to a worker and show its answer."""

from __future__ import annotations

import json
import time
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import typer

from worker.cli.terminal import console, write_json_text
from worker.cli.usage import WrongUsage
from worker.errors import DeadLettered, InternalError, InvalidJob, SettingsError

if TYPE_CHECKING:
    from worker.client import Client, TaskId
    from worker.contract.base import AnsweredBy, AnswerT, JobT

LONGEST_WAIT = 7 * 86_400


def _seconds(given: float) -> float:
    if not 0 < given <= LONGEST_WAIT:  # a NaN as well
        raise typer.BadParameter(f"expected more than 0 seconds, at most {LONGEST_WAIT}", param_hint="--timeout")
    return given


def _words(given: str) -> str:
    if not given.strip():  # an embedder would make a vector of it
        raise typer.BadParameter("expected at least one word", param_hint="question")
    return given


Broker = Annotated[str, typer.Option(envvar="CELERY_BROKER_URL", help="Redis of the queue.")]
Backend = Annotated[str, typer.Option(envvar="CELERY_RESULT_BACKEND", help="Redis of the results.")]
Caller = Annotated[
    str,
    typer.Option("--as", help="user_id of the caller, or all claims as JSON (the worker must trust its queue)."),
]
CallerOrNone = Annotated[
    str, typer.Option("--as", help="user_id of the caller, or all claims as JSON; none: public corpora only.")
]
Timeout = Annotated[float, typer.Option(help="Seconds to wait.", callback=_seconds)]
Record = Annotated[
    tuple[str, str] | None, typer.Option("--record", metavar="SUBJECT RUN", help="Record it as this run.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as received.")]

JsonDocument = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object per run on standard output.")]


def client_of(broker: str, backend: str) -> Client:
    """Create the client of a queue.

    Raises:
        SettingsError: a URL is wrong.
    """
    from worker.client import Client

    check_url(broker, "--broker (CELERY_BROKER_URL)")
    if backend:
        check_url(backend, "--backend (CELERY_RESULT_BACKEND)", queue=False)
    return Client(broker, backend or None)


def send(client: Client, job: AnsweredBy[AnswerT], timeout: float) -> AnswerT:
    """Send a job that expires after the time, and wait for its answer; see `answer_to`."""
    return answer_to(client, client.enqueue(job, expires=timeout), timeout)


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


def claims_of(caller: str) -> dict[str, Any]:
    """Return the caller's claims from `--as`: the `user_id`, or a JSON object of claims.

    >>> claims_of("alice"), claims_of('{"tenant_id": "t1"}')
    ({'user_id': 'alice'}, {'tenant_id': 't1'})
    """
    if not caller.startswith("{"):
        return {"user_id": caller}
    return json_claims(caller, "--as")


def json_claims(text: str, option: str) -> dict[str, Any]:
    """Return claims from a JSON object."""
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise typer.BadParameter('expected a JSON object: \'{"user_id": "u1"}\'', param_hint=option)
    return given


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
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        database = parts.path.strip("/")
        known = parts.scheme in {"redis", "rediss"} and parts.port != 0 and (database.isdecimal() or not database)
    except ValueError:  # brackets, an invalid port, a host that no name server accepts
        known = False
    if not known:
        raise SettingsError(f"{name}: expected redis://[user:password@]host[:port][/database], or rediss:// for TLS")
    if not _has_known_options(url) or (queue and not has_tls_options_only(url)):
        raise SettingsError(f"{name}: {UNSUPPORTED}")


_TLS_CHECKS = {"none", "optional", "required", "CERT_NONE", "CERT_OPTIONAL", "CERT_REQUIRED"}


def _has_known_options(url: str) -> bool:
    """Return whether a connection accepts all options of a URL, without opening one."""
    import redis

    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if parts.scheme == "rediss" and options.pop("ssl_cert_reqs", "none") not in _TLS_CHECKS:
        return False
    try:
        pool = redis.ConnectionPool.from_url(parts._replace(query=urlencode(options)).geturl())
        pool.make_connection()
    except (ValueError, TypeError, redis.RedisError):
        return False
    return True


def query(
    question: Annotated[str, typer.Argument(help="The query; embedded as the settings say.", callback=_words)],
    broker: Broker,
    caller: Caller,
    backend: Backend = "",
    corpus: Annotated[str, typer.Option(help="A corpus of the worker's settings; default its first.")] = "",
    record: Record = None,
    k: Annotated[int, typer.Option(help="Number of chunks (10 to 15).")] = 15,
    timeout: Timeout = 30.0,
    as_json: AsJson = False,
) -> None:
    """Enqueue one retrieve_top_k job and print its answer.

    Example: [bold]retrieval-worker query "hum on channel 18" --as alice --record song-1 r1[/bold]
    """
    from worker import settings
    from worker.adapters.providers import embedder
    from worker.cli.demo import as_table
    from worker.cli.reports.answers import QUESTION_WIDTH, short
    from worker.client import RetrieveTopK, TopK, encode_embedding
    from worker.model import DIMENSIONS

    loaded = settings.load_unconnected()
    known = loaded.corpora.get(corpus or loaded.default_corpus)  # the worker's settings may have others
    dimensions = DIMENSIONS if known is None else known.dimensions
    vector = embedder.make(loaded.embedder).embed([question], dimensions=dimensions)[0].tolist()
    wanted: dict[str, Any] = {"query_embedding": encode_embedding(vector), "principal": claims_of(caller), "k": k}
    if corpus:
        wanted["corpus"] = corpus
    if record:
        wanted["run"] = run_name(*record)
    job = wanted_job(RetrieveTopK, wanted)
    start = time.perf_counter()
    answer = send(client_of(broker, backend), job, timeout)
    assert isinstance(answer, TopK)  # noqa: S101 -- for the type checker: one query, one answer
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
    else:
        milliseconds = (time.perf_counter() - start) * 1000
        console.print(as_table(short(question, QUESTION_WIDTH), answer, milliseconds, shown=answer.k))


def search(
    question: Annotated[str, typer.Argument(help="The query.")],
    broker: Broker,
    backend: Backend = "",
    caller: CallerOrNone = "",
    context: Annotated[str, typer.Option(help="What the user is working on: its keywords widen a second search.")] = "",
    corpus: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=K]", help="A corpus and its number of chunks; repeat for more.")
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
    from worker.cli.reports import answers
    from worker.client import Hybrid, RetrieveHybrid

    wanted: dict[str, Any] = {"query": question, "context": context, "transform": transform}
    if fusion:
        wanted["fusion"] = fusion
    if caller:
        wanted["principal"] = claims_of(caller)
    if corpus:
        wanted["searches"] = [_search(name) for name in corpus]
    if leg:
        wanted["legs"] = leg
    if record:
        wanted["run"] = run_name(*record)
    answer = send(client_of(broker, backend), wanted_job(RetrieveHybrid, wanted), timeout)
    assert isinstance(answer, Hybrid)  # noqa: S101 -- for the type checker: one query, one answer
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
        return
    console.print(answers.hybrid_header(answer))
    for name, result in answer.results.items():
        if result.chunks:
            console.print(answers.hybrid_table(name, result, answer.metrics[name]))
        else:
            console.print(answers.nothing_found(name, answer), soft_wrap=True)


def wanted_job(kind: type[JobT], fields: dict[str, Any]) -> JobT:
    """Return the job that the options of a command describe.

    Raises:
        WrongUsage: a value isn't one that the job may have.
    """
    from worker.contract.base import parse_job

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
    caller: Caller,
    backend: Backend = "",
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
    from worker.cli.reports import answers
    from worker.client import BuildCitations, Citations
    from worker.core.citations.document import CONFLICTS

    cite = {**run_name(subject, run, step), "what": "cited" if cited else "retrieved"}
    job = wanted_job(BuildCitations, {"principal": claims_of(caller), "cite": cite, "run": run_name(subject, run)})
    answer = send(client_of(broker, backend), job, timeout)
    assert isinstance(answer, Citations)  # noqa: S101 -- for the type checker: one run, one answer
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
    else:
        console.print(answers.citations_table(f"{subject} / {run}, as {caller}", answer))
        if answer.conflicts:
            console.print(answers.conflicts_table(answer))
    if out is not None:
        answers.write_document(out, {**answer.citations, CONFLICTS: answer.conflicts})


def replay(
    subject: Annotated[str, typer.Argument(help="subject_id of the run.")],
    run: Annotated[str, typer.Argument(help="run_id of the run.")],
    broker: Broker,
    caller: Caller,
    backend: Backend = "",
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
    from worker.cli.reports import answers
    from worker.client import PinnedReplay, Replay

    old_texts = answers.texts_of(answers.read_document(citations)) if citations else {}
    client, principal = client_of(broker, backend), claims_of(caller)
    job = wanted_job(PinnedReplay, {"principal": principal, "run": run_name(subject, run, step)})
    answer = send(client, job, timeout)
    assert isinstance(answer, Replay)  # noqa: S101 -- for the type checker: one run, one answer
    if as_json:
        write_json_text(answer.model_dump_json(indent=1))
    else:
        edited = [pin.found_hash for pin in answer.pins if pin.verdict == "edited" and pin.found_hash]
        now = send(client, PinnedReplay(principal=principal, required_chunk_hashes=edited), timeout)
        assert isinstance(now, Replay)  # noqa: S101 -- for the type checker: the same
        new_texts = {chunk.chunk_hash: chunk.text for chunk in [*answer.chunks, *now.chunks]}
        console.print(answers.replay_table(f"{subject} / {run}, as {caller}", answer, old_texts, new_texts))
    if any(pin.verdict in {"edited", "missing"} for pin in answer.pins):
        raise typer.Exit(1)
