"""The way of a job through `run_job`, called eagerly, over an engine written for the test."""

from __future__ import annotations

import gc
import itertools
import json
from typing import TYPE_CHECKING, Any

import kombu.exceptions
import pytest
import redis
import structlog
from celery import Celery
from celery.app.trace import trace_task
from celery.exceptions import Retry, SoftTimeLimitExceeded

from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import InternalError, InvalidJob, NotAuthorised, SettingsError, TimedOut, Unavailable
from worker.queue import codec
from worker.queue.outcome import Answers, outcome_of
from worker.queue.tasks import RetrievalTask, run_job
from worker.queue.together import AnsweredTogether

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery.result import EagerResult

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
        """One answer in the contract's form, as far as `run_job` looks at it."""
        self.jobs.append(job)
        if self.failure is not None:
            raise self.failure
        asker = context.caller
        return {"status": "empty", "chunks": [], "owner": asker.owner if asker else None}


def answering(answer: Callable[..., Any], settings: Settings) -> Answers:
    """Answers every job by one function."""
    together = AnsweredTogether(settings, lambda: pytest.fail("no bundle here"))
    return Answers({"retrieve_top_k": (RetrieveTopK, answer)}, settings, outcome_of, together)


@pytest.fixture
def run(make_settings: Callable[..., Settings]) -> Callable[..., EagerResult]:
    """Runs a task of ours in this process, with the arguments given."""

    def run_task(*args: Any, engine: Engine | None = None, kwargs: Any = None) -> EagerResult:
        settings = make_settings(trust_queue=True, token_keys={"k1": "k" * 32}, worker={"max_outage_seconds": 0})
        app = Celery(set_as_current=False, broker="memory://", backend="cache+memory://")
        held = engine or Engine()

        @app.task(bind=True, base=RetrievalTask, name="retrieve_top_k", shared=False)
        def task(self: RetrievalTask, *args: Any, **kwargs: Any) -> Any:
            return run_job(self, args, kwargs, answering(held.answer, settings))

        return task.apply(args, kwargs)

    return run_task


@pytest.mark.parametrize("field", ["salary_of_bob", "filters.salary_of_bob", "filters.pages.salary_of_bob"])
def test_a_name_that_the_contract_does_not_know_is_not_logged(run: Callable[..., EagerResult], field: str) -> None:
    """Its sender made it up, maybe of a text; the sender gets it in the error."""
    wrong: Any = {}
    for name in reversed(field.split(".")):
        wrong = {name: wrong}
    with structlog.testing.capture_logs() as lines:
        result = run({**JOB, **wrong})
    assert isinstance(result.result, InvalidJob)
    assert [line["event"] for line in lines] == ["job failed"]
    assert "salary" not in json.dumps(lines, default=str)


def test_a_job_is_answered_as_its_caller(run: Callable[..., EagerResult]) -> None:
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
    run: Callable[..., EagerResult], sent: dict[str, Any], failure: type[Exception]
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
    run: Callable[..., EagerResult], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Other arity, or any keyword, is an `InvalidJob`."""
    result = run(*args, kwargs=kwargs)
    assert (result.state, type(result.result)) == ("FAILURE", InvalidJob)
    assert str(result.result) == "expected the job object as the only positional argument, and no keyword arguments"


@pytest.mark.parametrize(
    "argument", [None, [], [JOB], CANARY, 5, codec.UnreadableBody()], ids=lambda value: repr(value)[:9]
)
def test_an_argument_that_is_no_object_is_an_invalid_job(run: Callable[..., EagerResult], argument: Any) -> None:
    """A list, a string, a body that could not be decoded: one sentence without any of it."""
    engine = Engine()
    result = run(argument, engine=engine)
    assert (result.state, type(result.result), engine.jobs) == ("FAILURE", InvalidJob, [])
    assert CANARY not in str(result.result)


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        (b"[", "malformed"),
        (b'"\xff"', "invalid UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 900_000, "too many digits"),
    ],
    ids=["malformed", "no UTF-8", "deep", "digits"],
)
def test_a_body_that_can_not_be_decoded_is_answered_with_what_may_be_wrong(
    run: Callable[..., EagerResult], job: bytes, cause: str
) -> None:
    """The causes that the sentence names are those that `codec.loads` meets."""
    [[argument], *_] = codec.loads(b"[[" + job + b"], {}, {}]")
    result = run(argument)
    assert (result.state, type(result.result)) == ("FAILURE", InvalidJob)
    assert cause in str(result.result)


def test_a_job_is_bounded_before_it_is_parsed(run: Callable[..., EagerResult]) -> None:
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
        (kombu.exceptions.OperationalError(CANARY), Unavailable),
        (KeyError(CANARY), InternalError),
        (UnicodeEncodeError("utf-8", CANARY, 0, 1, CANARY), InternalError),
        (RecursionError(CANARY), InternalError),
        (MemoryError(CANARY), InternalError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_failure_is_of_the_contract(
    run: Callable[..., EagerResult], raised: Exception, expected: type[Exception]
) -> None:
    """Deliberate errors pass; any other becomes one of the tree, without its own text."""
    result = run(JOB, engine=Engine(raised))
    assert (result.state, type(result.result)) == ("FAILURE", expected)
    assert CANARY not in str(result.result)
    assert len(result.result.args) == 1


def put_off(app: Celery, headers: dict[str, Any]) -> dict[str, Any] | None:
    """Run a job as it is delivered with these headers; those of the message by which it is put off, or none."""
    request = {"id": "1", "args": (JOB,), "kwargs": {}, "hostname": "here", "is_eager": False, **headers}
    trace_task(app.tasks["retrieve_top_k"], "1", (JOB,), {}, request, app=app)
    with app.connection_for_read() as connection, connection.SimpleQueue("tried") as queue:
        try:
            message = queue.get(block=False)
        except queue.Empty:
            return None
        message.ack()
        return {**message.headers, "delivery_info": {"exchange": "", "routing_key": "tried"}}


@pytest.mark.parametrize(("outage", "tries"), [(300.0, range(14, 25)), (90.0, range(8, 13)), (0.0, range(1, 2))])
def test_a_job_is_tried_for_as_long_as_an_outage_may_last(
    make_settings: Callable[..., Settings], outage: float, tries: range
) -> None:
    """By the sum of its pauses, which its message carries: first soon, then at least twice a minute, never longer."""
    app = Celery(set_as_current=False, broker="memory://", backend="cache+memory://")
    settings = make_settings(trust_queue=True, worker={"max_outage_seconds": outage})
    engine = Engine(Unavailable("Postgres is away"))

    @app.task(bind=True, base=RetrievalTask, name="retrieve_top_k", shared=False)
    def task(self: RetrievalTask, *args: Any, **kwargs: Any) -> Any:
        return run_job(self, args, kwargs, answering(engine.answer, settings))

    waited = [0.0]
    headers: dict[str, Any] | None = {"delivery_info": {"exchange": "", "routing_key": "tried"}}
    while (headers := put_off(app, headers)) is not None:
        waited.append(headers["outage_seconds"])
    pauses = [later - earlier for earlier, later in itertools.pairwise(waited)]
    assert len(engine.jobs) in tries
    assert waited[-1] == pytest.approx(outage, abs=0.01)
    assert all(pause <= 30 for pause in pauses)
    assert all(pause < 1 for pause in pauses[:1])
    app.close()


def test_a_sender_can_only_shorten_how_long_its_job_is_tried(make_settings: Callable[..., Settings]) -> None:
    """Time that a sender claims counts as already waited; how often the job was tried decides nothing."""
    app = Celery(set_as_current=False, broker="memory://", backend="cache+memory://")
    settings = make_settings(trust_queue=True, worker={"max_outage_seconds": 10})

    @app.task(bind=True, base=RetrievalTask, name="retrieve_top_k", shared=False)
    def task(self: RetrievalTask, *args: Any, **kwargs: Any) -> Any:
        return run_job(self, args, kwargs, answering(Engine(Unavailable("away")).answer, settings))

    sent = {"delivery_info": {"exchange": "", "routing_key": "tried"}}
    assert put_off(app, {**sent, "outage_seconds": 86_400}) is None
    for headers in ({"retries": 2**31 - 1}, {"outage_seconds": -5.0}, {"outage_seconds": "never"}):
        again = put_off(app, {**sent, **headers})
        assert again is not None
        assert 0 < again["outage_seconds"] <= 10
    app.close()


def test_a_job_that_can_not_be_put_off_goes_back_as_it_is(make_settings: Callable[..., Settings]) -> None:
    """The queue's Redis is away, too: that is no failure of the job."""
    app = Celery(set_as_current=False, broker="redis://127.0.0.1:1/0", backend="cache+memory://")
    app.conf.update(task_publish_retry=False, broker_transport_options={"max_retries": 1, "interval_start": 0})
    settings = make_settings(trust_queue=True)

    @app.task(bind=True, base=RetrievalTask, name="retrieve_top_k", shared=False)
    def task(self: RetrievalTask, *args: Any, **kwargs: Any) -> Any:
        return run_job(self, args, kwargs, answering(Engine(Unavailable("away")).answer, settings))

    request = {"id": "2", "args": (JOB,), "kwargs": {}, "hostname": "here", "is_eager": False, "delivery_info": {}}
    done = trace_task(task, "2", (JOB,), {}, request, app=app)
    assert (done.info.state, done.info.retval.requeue) == ("REJECTED", True)
    assert app.backend.get_state("2") == "PENDING"
    app.close()


@pytest.mark.parametrize("failure", [InvalidJob, KeyError, Unavailable], ids=lambda failure: failure.__name__)
def test_a_failed_job_leaves_hardly_anything_to_garbage_collection(
    make_settings: Callable[..., Settings], failure: type[Exception]
) -> None:
    """In a pool's process, which looks for garbage once in many jobs; Celery's note of where it failed is thousands."""
    app = Celery(set_as_current=False, broker="memory://", backend="cache+memory://")
    settings = make_settings(trust_queue=True)

    def fail(*_: Any) -> Any:
        raise failure("of this job")

    @app.task(bind=True, base=RetrievalTask, name="retrieve_top_k", shared=False)
    def task(self: RetrievalTask, *args: Any, **kwargs: Any) -> Any:
        return run_job(self, args, kwargs, answering(fail, settings))

    def run() -> int:
        request = {"id": "1", "args": (JOB,), "kwargs": {}, "hostname": "here", "is_eager": False, "delivery_info": {}}
        gc.disable()
        try:
            trace_task(app.tasks[task.name], "1", (JOB,), {}, request, app=app)
            return gc.collect()
        finally:
            gc.enable()

    gc.collect()
    gc.freeze()  # what there was before is looked at no more
    run()  # the first makes more, once
    assert run() < 100


def test_a_job_that_the_main_process_puts_off_is_put_off() -> None:
    """Where Redis was lost while it ran, Celery notes no place; an error here would leave the job revoked."""
    RetrievalTask().on_retry(Retry(message="cancelled by Celery"), "1", (JOB,), {}, None)
