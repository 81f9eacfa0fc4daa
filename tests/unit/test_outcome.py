"""Outcomes of delivered jobs, over an engine written for the test."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import kombu.exceptions
import pytest
import redis
import structlog
from celery.exceptions import SoftTimeLimitExceeded

from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import InternalError, InvalidJob, NotAuthorised, SettingsError, TimedOut, Unavailable
from worker.queue import codec
from worker.queue.broker.inspection import OUTAGE_HEADER, DeliveredJob
from worker.queue.metrics import Metrics
from worker.queue.outcome import Answers, Outcome
from worker.queue.together import AnsweredTogether

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.jobs.context import JobContext
    from worker.settings import Settings

CANARY = "canary-4711"
JOB = {"query_embedding": [0.5] * 768, "principal": {"user_id": "u1"}}


class Engine:
    """Stands at the seam to Postgres: answers with the caller, or raises the given error."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.failure = failure
        self.jobs: list[RetrieveTopK] = []

    def answer(self, job: RetrieveTopK, context: JobContext) -> dict[str, Any]:
        """One answer in the contract's form, as far as an outcome looks at it."""
        self.jobs.append(job)
        if self.failure is not None:
            raise self.failure
        asker = context.caller
        return {"status": "empty", "chunks": [], "owner": asker.owner if asker else None}


def answering(answer: Callable[..., Any], settings: Settings) -> Answers:
    """Answers every job by one function."""
    together = AnsweredTogether(settings, lambda: pytest.fail("no bundle here"))
    return Answers({"retrieve_top_k": (RetrieveTopK, answer)}, settings, Metrics(settings.metrics), together)


def tried(answers: Answers, headers: dict[str, Any], *args: Any, kwargs: Any = None) -> Outcome:
    """One try of a job, as it is delivered with these headers."""
    job = DeliveredJob("retrieve_top_k", "1", args or (JOB,), kwargs or {}, headers)
    return answers.outcome(job, 0.0, lambda *_: None)


@pytest.fixture
def run(make_settings: Callable[..., Settings]) -> Callable[..., Outcome]:
    """Runs a job with the arguments given."""

    def run_job(*args: Any, engine: Engine | None = None, kwargs: Any = None) -> Outcome:
        settings = make_settings(trust_queue=True, token_keys={"k1": "k" * 32}, worker={"max_outage_seconds": 0})
        job = DeliveredJob("retrieve_top_k", "1", args, kwargs or {}, {})
        return answering((engine or Engine()).answer, settings).outcome(job, 0.0, lambda *_: None)

    return run_job


@pytest.mark.parametrize("field", ["salary_of_bob", "filters.salary_of_bob", "filters.pages.salary_of_bob"])
def test_a_name_that_the_contract_does_not_know_is_not_logged(run: Callable[..., Outcome], field: str) -> None:
    """Its sender made it up, maybe of a text; the sender gets it in the error."""
    wrong: Any = {}
    for name in reversed(field.split(".")):
        wrong = {name: wrong}
    with structlog.testing.capture_logs() as lines:
        result = run({**JOB, **wrong})
    assert isinstance(result.result, InvalidJob)
    assert [line["event"] for line in lines] == ["job failed"]
    assert "salary" not in json.dumps(lines, default=str)


def test_a_job_is_answered_as_its_caller(run: Callable[..., Outcome]) -> None:
    """The engine gets the parsed job and its caller; its answer is the result."""
    engine = Engine()
    result = run({**JOB, "k": 12}, engine=engine)
    assert result.state == "SUCCESS"
    assert json.loads(codec.dumps(result.result)) == {"status": "empty", "chunks": [], "owner": "u1"}
    assert repr(result.result) == "<retrieve_top_k empty>"
    assert [job.k for job in engine.jobs] == [12]


@pytest.mark.parametrize(
    ("sent", "failure"),
    [
        ({"principal": {"user_id": {"a": 1}}}, InvalidJob),
        ({"principal_token": "no token"}, NotAuthorised),
    ],
)
def test_a_principal_that_is_none_is_refused_by_a_task_that_asks_for_none(
    run: Callable[..., Outcome], sent: dict[str, Any], failure: type[Exception]
) -> None:
    """Malformed or forged: nothing is answered, though the answer would be the same for every caller."""

    class ForAnyone(Engine):
        def answer(self, job: RetrieveTopK, context: JobContext) -> dict[str, Any]:
            del job, context
            return {"status": "empty", "chunks": []}

    result = run({"query_embedding": JOB["query_embedding"], **sent}, engine=ForAnyone())
    assert (result.state, type(result.result)) == ("FAILURE", failure)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((JOB, JOB), {}), ((JOB,), {CANARY: 1}), ((), {"job": JOB}), ((), JOB)],
    ids=["none", "two", "keyword too", "keyword only", "fields as keywords"],
)
def test_a_task_takes_one_positional_argument(
    run: Callable[..., Outcome], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Other arity, or any keyword, is an `InvalidJob`."""
    result = run(*args, kwargs=kwargs)
    assert (result.state, type(result.result)) == ("FAILURE", InvalidJob)
    assert str(result.result) == "expected the job object as the only positional argument, and no keyword arguments"


@pytest.mark.parametrize("argument", [None, [], [JOB], CANARY, 5], ids=lambda value: repr(value)[:9])
def test_an_argument_that_is_no_object_is_an_invalid_job(run: Callable[..., Outcome], argument: Any) -> None:
    """A list, a string: one sentence without any of it."""
    engine = Engine()
    result = run(argument, engine=engine)
    assert (result.state, type(result.result), engine.jobs) == ("FAILURE", InvalidJob, [])
    assert CANARY not in str(result.result)


def test_a_job_is_bounded_before_it_is_parsed(run: Callable[..., Outcome]) -> None:
    """Values that no job may hold are refused anywhere in it, also where the contract takes any JSON."""
    engine = Engine()
    result = run({**JOB, "filters": {"metadata": {"a": "\0"}}}, engine=engine)
    assert (result.state, type(result.result), engine.jobs) == ("FAILURE", InvalidJob, [])
    assert str(result.result) == "filters.metadata.a: expected text without U+0000"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (InvalidJob("expected another", "corpus"), InvalidJob),
        (NotAuthorised("nobody asks"), NotAuthorised),
        (SettingsError("no such table"), SettingsError),
        (TimedOut("too slow"), TimedOut),
        (InternalError("a fault"), InternalError),
        (Unavailable("Postgres is away"), Unavailable),
        (SoftTimeLimitExceeded(), TimedOut),
        (redis.ConnectionError(CANARY), Unavailable),
        (redis.OutOfMemoryError(CANARY), Unavailable),
        (kombu.exceptions.OperationalError(CANARY), Unavailable),
        (KeyError(CANARY), InternalError),
        (UnicodeEncodeError("utf-8", CANARY, 0, 1, CANARY), InternalError),
        (RecursionError(CANARY), InternalError),
        (MemoryError(CANARY), InternalError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_failure_is_of_the_contract(
    run: Callable[..., Outcome], raised: Exception, expected: type[Exception]
) -> None:
    """Deliberate errors pass; any other becomes one of the tree, without its own text."""
    result = run(JOB, engine=Engine(raised))
    assert (result.state, type(result.result)) == ("FAILURE", expected)
    assert CANARY not in str(result.result)
    assert len(result.result.args) == 1


@pytest.mark.parametrize(("outage", "tries"), [(300.0, range(14, 25)), (90.0, range(8, 13)), (0.0, range(1, 2))])
def test_a_job_is_tried_for_as_long_as_an_outage_may_last(
    make_settings: Callable[..., Settings], outage: float, tries: range
) -> None:
    """By the sum of its pauses, which its message carries: first soon, then at least twice a minute, never longer."""
    settings = make_settings(trust_queue=True, worker={"max_outage_seconds": outage})
    engine = Engine(Unavailable("Postgres is away"))
    answers = answering(engine.answer, settings)
    pauses: list[float] = []
    while (outcome := tried(answers, {"retries": len(pauses), OUTAGE_HEADER: sum(pauses)})).state == "RETRY":
        pauses.append(outcome.pause)
    assert len(engine.jobs) in tries
    assert sum(pauses) == pytest.approx(outage, abs=0.01)
    assert all(pause <= 30 for pause in pauses)
    assert all(pause < 1 for pause in pauses[:1])


def test_a_sender_can_only_shorten_how_long_its_job_is_tried(make_settings: Callable[..., Settings]) -> None:
    """Time that a sender claims counts as already waited; how often the job was tried decides nothing."""
    answers = answering(
        Engine(Unavailable("away")).answer, make_settings(trust_queue=True, worker={"max_outage_seconds": 10})
    )
    assert tried(answers, {OUTAGE_HEADER: 86_400}).state == "FAILURE"
    for headers in ({"retries": 2**31 - 1}, {OUTAGE_HEADER: 0}):
        again = tried(answers, headers)
        assert (again.state, 0 < again.pause <= 10) == ("RETRY", True)


@pytest.mark.parametrize("failure", [InvalidJob, KeyError, Unavailable], ids=lambda failure: failure.__name__)
def test_a_failed_job_leaves_hardly_anything_to_garbage_collection(
    make_settings: Callable[..., Settings], failure: type[Exception]
) -> None:
    """In a pool's process, which looks for garbage once in many jobs."""

    def fail(*_: Any) -> Any:
        raise failure("of this job")

    answers = answering(fail, make_settings(trust_queue=True))

    def run() -> int:
        gc.disable()
        try:
            tried(answers, {})
            return gc.collect()
        finally:
            gc.enable()

    gc.collect()
    gc.freeze()  # what there was before is looked at no more
    run()  # the first makes more, once
    assert run() < 100
