"""The fakes of `retrieval_client.testing`: everything of a client but Redis and the worker."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.clients import called_alike

import retrieval_client.testing
from retrieval_client import (
    AsyncClient,
    BuildCitations,
    Client,
    PinnedReplay,
    Progress,
    RecordFeedback,
    RetrieveHybrid,
    RetrieveTopK,
    RunPipeline,
    Signer,
    TopK,
    TopKBatch,
    encode_embedding,
)
from retrieval_client.contract.registry import TASKS
from retrieval_client.errors import InvalidJob, NotAuthorised, RetrievalError, TimedOut, Unavailable
from retrieval_client.jobs import is_news, reader_of
from retrieval_client.ledger import Ledger
from retrieval_client.testing import FakeAsyncClient, FakeClient, example_of
from workbench import schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from retrieval_client.contract.jobs import Job

VECTOR = [1.0] + [0.0] * 767
ALICE = {"user_id": "alice"}
JOB = RetrieveTopK(query_embedding=VECTOR, principal=ALICE)
RUN = {"subject_id": "s", "run_id": "r"}
JOBS: list[Job] = [
    JOB,
    RetrieveTopK(query_embeddings=[[1.0], [0.5]], principal=ALICE),
    RetrieveHybrid(query="a question", principal=ALICE),
    RunPipeline(question="a question", principal=ALICE),
    RecordFeedback(run=RUN, rating=1, principal=ALICE),
    PinnedReplay(required_chunk_hashes=["a" * 64], principal=ALICE),
    PinnedReplay(runs=[RUN], principal=ALICE),
    PinnedReplay(required_chunk_hashes=["a" * 64], sources=[]),
    BuildCitations(records=[], verify=False),
]


@pytest.fixture(params=[FakeClient, FakeAsyncClient], ids=["blocking", "asyncio"])
def fake(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes fakes of either client, which are called as the one that blocks."""
    with called_alike(request.param) as make:
        yield make


def test_the_examples_are_those_of_the_contract() -> None:
    """`make contract` writes them."""
    file = Path(retrieval_client.testing.__file__).with_name("examples.json")
    assert file.read_bytes() == schemas.client_examples()
    assert {task.name for task in TASKS} <= json.loads(file.read_bytes()).keys()


@pytest.mark.parametrize("job", JOBS, ids=lambda job: type(job).__name__)
def test_every_job_is_answered_by_the_example_of_its_form(fake: Callable[..., Any], job: Job) -> None:
    client = fake()
    (answer,) = client.call_many([job])
    assert answer == reader_of(None).validate_python(example_of(job))
    assert client.worker.jobs == [job]


def test_a_batch_has_an_answer_of_its_own(fake: Callable[..., Any]) -> None:
    assert isinstance(fake().call(RetrieveTopK(query_embeddings=[[1.0]], principal=ALICE)), TopKBatch)


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        *(
            (JOBS[number].model_copy(update={"principal": None}), "is not public: send a principal_token")
            for number in range(7)
        ),
        (BuildCitations(records=[]), "is not public"),
        (RetrieveTopK(query_embedding=VECTOR, principal={}), "is not public"),
        *(
            (
                kind(query_embedding=wrong, principal=ALICE),
                f"query_embedding: expected exactly 768 finite numbers, got {size}",
            )
            for kind in (RetrieveTopK, partial(RetrieveHybrid, query="a question"))
            for wrong, size in (
                (VECTOR[:-1], 767),
                (encode_embedding([0.5] * 769), 769),
                (encode_embedding([0.5] * 767), 767),
            )
        ),
    ],
)
def test_a_fake_refuses_what_a_worker_refuses(job: Job, sentence: str) -> None:
    """A job without a principal, and an embedding of another size, also where the test says what is answered."""
    with pytest.raises(RetrievalError, match=sentence):
        FakeClient({type(job): Unavailable("not asked")}).call_many([job])


def test_a_fake_answers_as_many_dimensions_as_it_is_told(fake: Callable[..., Any]) -> None:
    """And signed claims are a principal, and base64 is an embedding."""
    signer = Signer("a key of 32 bytes or more for HS256", "k1")
    job = RetrieveTopK(query_embedding=encode_embedding([0.5, 0.5]))
    assert fake(signer=signer, dimensions=2).call(job, claims=ALICE).chunks
    assert fake().call(RetrieveTopK(query_embedding=encode_embedding(VECTOR), principal=ALICE)).chunks


def test_a_test_says_what_is_answered(fake: Callable[..., Any]) -> None:
    """An answer, an error, or a function of the job; what is sent is checked as by a worker's client."""
    client = fake({RetrieveTopK: NotAuthorised("not this caller")})
    with pytest.raises(NotAuthorised, match="not this caller"):
        client.call(JOB)
    empty = TopK.model_validate({**example_of(JOB), "status": "empty", "chunks": []})
    client.worker.reply(RetrieveTopK, lambda job: empty if job.k == 12 else InvalidJob("expected 12", "k"))
    assert client.call(RetrieveTopK(query_embedding=VECTOR, k=12, principal=ALICE)).status == "empty"
    outcomes = [*client.results([client.enqueue(JOB), client.enqueue(JOB, task_id="known"), "unknown"], timeout=0)]
    assert [type(outcome.error) for outcome in outcomes].count(InvalidJob) == 2
    assert [outcome.task_id for outcome in outcomes if not outcome.ended] == ["unknown"]
    with pytest.raises(ValueError, match="claims"):
        client.enqueue(JOB, claims={"user_id": "alice"})
    with pytest.raises(TimedOut):
        client.result("unknown", timeout=0)
    assert [progress.state for progress in client.watch("known")] == ["FAILURE"]
    client.forget("known")
    assert client.progress("known").state == "PENDING"
    client.cancel("known")
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.call(JOB)


@pytest.mark.parametrize(("kind", "real"), [(FakeClient, Client), (FakeAsyncClient, AsyncClient)])
def test_a_client_is_made_from_the_environment(kind: Any, real: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the real classes; a fake takes no URLs."""
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)
    monkeypatch.delenv("CELERY_RESULT_BACKEND", raising=False)
    assert isinstance(kind.from_env(), real)
    with pytest.raises(ValueError, match="CELERY_BROKER_URL: expected the Redis URL"):
        real.from_env()
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://somewhere:1234/5")
    assert real.from_env().results_place == "somewhere:1234, database 5"
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "redis://elsewhere/6")
    assert real.from_env().results_place == "elsewhere:6379, database 6"


def test_ids_and_times_that_a_worker_refuses_are_not_sent(fake: Callable[..., Any]) -> None:
    """The sentence names them; a signer shows no key."""
    client = fake()
    for wrong in ("a\0b", "x" * 513, "\x1b[31m"):
        with pytest.raises(InvalidJob, match="task_id: expected 1 to 512 printable characters"):
            client.enqueue(JOB, task_id=wrong)
    for seconds in (1e300, True, "a", float("nan"), 0):
        with pytest.raises(ValueError, match="timeout: expected more than 0 seconds"):
            client.call(JOB, timeout=seconds)
    assert client.worker.jobs == []
    assert "secret" not in repr(Signer("secret", "k1"))


def test_numbers_and_keys_that_are_none_are_refused() -> None:
    """As they are encoded, and as they sign."""
    for wrong in ([[1.0], [2.0]], [float("nan")], [1e39], ["1"]):
        with pytest.raises(InvalidJob, match="query_embedding: expected"):
            encode_embedding(wrong)  # type: ignore[arg-type] # wrong on purpose
    for signer, told in (
        (Signer("no key in PEM", "k1", "RS256"), "key: expected a key of RS256"),
        (Signer(None, "k1"), "key: expected text, got NoneType"),  # type: ignore[arg-type] # wrong on purpose
        (Signer("short", "k1"), "key: expected a secret of at least 32 bytes"),
        (Signer("a" * 31 + " ", "k1"), "key: expected a secret of at least 32 bytes"),
    ):
        with pytest.raises(ValueError, match=told):
            FakeClient(signer=signer).call(JOB, claims={"user_id": "alice"})


def test_progress_that_is_heard_late_is_no_news() -> None:
    """It was looked at before; a retry begins again."""
    seen = [Progress("PENDING"), *(Progress("PROGRESS", "a", done, 9) for done in (3, 1, 3, 4)), Progress("STARTED")]
    seen += [Progress("RETRY"), Progress("PROGRESS", "a", 1, 9), Progress("SUCCESS")]
    told: list[Progress] = []
    for now in seen:
        if is_news(now, told[-1] if told else None):
            told.append(now)
    assert [(one.state, one.done) for one in told] == [
        ("PENDING", None),
        ("PROGRESS", 3),
        ("PROGRESS", 4),
        ("RETRY", None),
        ("PROGRESS", 1),
        ("SUCCESS", None),
    ]


def test_a_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("no database, but a text of some length " * 50)
    for path in (tmp_path / "broken", tmp_path / "no-folder" / "ledger"):
        with pytest.raises(ValueError, match=f"{path.name}: expected a ledger"):
            Ledger(path, FakeClient())


def test_a_ledger_is_for_its_user_alone(tmp_path: Path) -> None:
    """It has questions and claims; one in memory makes no file."""
    with Ledger(tmp_path / "ledger.sqlite", FakeClient()), Ledger(":memory:", FakeClient()):
        assert [(file.name, file.stat().st_mode & 0o777) for file in tmp_path.iterdir()] == [("ledger.sqlite", 0o600)]
    assert not Path(":memory:").exists()
