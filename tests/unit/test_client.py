from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu import Connection

from worker import errors
from worker.client import (
    BuildCitations,
    Client,
    Diversity,
    Filters,
    PinnedReplay,
    RecordFeedback,
    RetrieveHybrid,
    RetrieveTopK,
    RunName,
    RunPipeline,
    Signer,
    _reader,
    encode_embedding,
)
from worker.client import _as_error as as_error
from worker.core.pins.canonical import canonical_sha256
from worker.core.ranking.vectors import decode

if TYPE_CHECKING:
    from worker.contract.base import Part

EXAMPLES = Path(__file__).parents[2] / "docs" / "contract" / "examples"
KEY = "a key of 32 bytes or more for HS256"
HEAVY = {"numpy", "psycopg", "psycopg_pool", "pgvector", "jwt", "orjson", "structlog", "typer", "rich"}


def test_a_backend_needs_neither_postgres_nor_numpy() -> None:
    """Importing the client brings Celery, pydantic and our contract into a backend, and nothing heavier."""
    script = "import json, sys, worker.client; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)
    assert HEAVY & {name.split(".")[0] for name in modules} == set()
    assert {name for name in modules if name.startswith("worker.")} == {
        "worker.client",
        "worker.contract",
        "worker.contract.answers",
        "worker.contract.base",
        "worker.contract.feedback",
        "worker.contract.jobs",
        "worker.contract.pinned",
        "worker.contract.ranges",
        "worker.contract.registry",
        "worker.contract.results",
        "worker.contract.run_jobs",
        "worker.core",
        "worker.core.pins",
        "worker.core.pins.canonical",
        "worker.core.pins.hashing",
        "worker.core.shape",
        "worker.errors",
        "worker.model",
    }


HASH = "sha256:" + 64 * "a"
RUN = {"subject_id": "song-1", "run_id": "r1"}
WRONG: dict[str, tuple[type[Part], dict[str, Any], str]] = {
    "no field": (RetrieveTopK, {}, "query_embedding: expected this field, or query_embeddings instead"),
    "unknown": (RetrieveTopK, {"query_embedding": [0.5], "wrong": 1}, "wrong: this field is not known"),
    "type": (RetrieveTopK, {"query_embedding": [0.5], "k": "12"}, "k: expected an integer"),
    "deep": (Filters, {"pages": [1, "2"]}, "pages[1]: expected an integer"),
    "null": (RetrieveHybrid, {"query": None}, "query: expected a value or no such field, got null"),
    "alias": (Diversity, {"lambda": 2}, "lambda: expected at least 0 and at most 1"),
    "part": (RetrieveTopK, {"query_embedding": [0.5], "run": RunName(**RUN)}, "run: expected RunRef, got RunName"),
    "rating": (RecordFeedback, {"run": RUN, "rating": 9}, "rating: expected at least -1 and at most 1"),
    "records": (BuildCitations, {}, "records: expected this field, or cite instead"),
    "weight": (
        BuildCitations,
        {"records": [{"source_id": "s", "text": "t"}]},
        "records[0].weight: expected this field",
    ),
    "pins": (PinnedReplay, {}, "required_chunk_hashes: expected this field, or run, runs or citations instead"),
    "hash": (
        PinnedReplay,
        {"required_chunk_hashes": [HASH, "beef"]},
        "required_chunk_hashes[1]: expected 64 hex digits, with or without sha256: before them",
    ),
    "question": (RunPipeline, {}, "question: expected this field, or resume instead"),
}


@pytest.mark.parametrize(("kind", "fields", "sentence"), WRONG.values(), ids=WRONG)
def test_a_wrong_job_is_refused_where_it_is_made(kind: type[Part], fields: dict[str, Any], sentence: str) -> None:
    """By the sentence that the worker would answer, as an error that is a ValueError too."""
    with pytest.raises(errors.InvalidJob) as raised:
        kind(**fields)
    assert isinstance(raised.value, ValueError)
    assert str(raised.value) == sentence


def test_a_part_inside_a_job_is_named_by_its_whole_path() -> None:
    """Parts are validated with their job, whether they come as objects or as dictionaries."""
    searches = [{"corpus": "docs", "filters": {"metadata": []}}]
    with pytest.raises(errors.InvalidJob, match=r"^searches\[0\]\.filters\.metadata: expected an object$"):
        RetrieveHybrid(query="hum", searches=searches)  # type: ignore[arg-type] # as JSON is


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=8, max_size=8).filter(any))
def test_an_encoded_embedding_is_what_the_worker_decodes(some: list[float]) -> None:
    """Base64 of little-endian float32, read back by the worker as the same direction."""
    numbers = some * 96
    encoded = encode_embedding(numbers)
    assert base64.b64decode(encoded) == struct.pack("<768f", *numbers)
    assert decode(encoded).tolist() == decode(numbers).tolist()


@pytest.mark.parametrize(
    ("example", "kind"),
    [
        ("retrieve_top_k.result.json", "TopK"),
        ("retrieve_top_k.result.batch.json", "TopKBatch"),
        ("pinned_replay.result.json", "Replay"),
        ("pinned_replay.result.runs.json", "ReplayBatch"),
        ("build_citations.result.json", "Citations"),
        ("retrieve_hybrid.result.json", "Hybrid"),
        ("run_pipeline.result.json", "PipelineAnswer"),
    ],
)
def test_an_answer_is_read_as_its_type(example: str, kind: str) -> None:
    """By its task, where the id knows it; else as the first type that it fits."""
    value = json.loads((EXAMPLES / example).read_text())
    of_task = _reader(example.split(".", maxsplit=1)[0])
    assert type(of_task.validate_python(value)).__name__ == kind
    assert type(_reader(None).validate_python(value)).__name__ == kind
    if "results" in value and kind != "Hybrid":
        failed = {"error": {"type": "InvalidJob", "path": "x", "message": "x: wrong"}}
        assert type(of_task.validate_python({**value, "results": [failed]})).__name__ == kind


def test_a_client_talks_to_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to what the environment names for the backend's own Celery app."""
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://environment:1/0")
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "redis://environment:1/1")
    for client, results in (
        (Client("redis://given:2/3"), "redis://given:2/3"),
        (Client("redis://given:2/3", "redis://given:2/4"), "redis://given:2/4"),
    ):
        app = client._app
        assert {app.connection_for_write().hostname, app.connection_for_read().hostname} == {"given"}
        assert app.backend.as_uri() == results
        client.close()


# --- tokens -----------------------------------------------------------------------------------------


def test_a_token_is_bound_to_its_job_and_names_its_key() -> None:
    """Audience, task, id, digest of the job and expiry are set by the signer, whatever the claims say."""
    job = {"query_embedding": "x", "k": 12}
    signer = Signer(KEY, "k1", lifetime_seconds=60)
    claims = {"user_id": "u1", "task": "forged", "exp": 1, "args_sha256": "forged"}
    token = signer.sign(job, claims, task="retrieve_top_k", task_id="id-1", now=4e9)
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "kid": "k1", "typ": "JWT"}
    assert jwt.decode(token, KEY, ["HS256"], audience="retrieval-worker") == {
        "user_id": "u1",
        "exp": 4_000_000_060,
        "aud": "retrieval-worker",
        "task": "retrieve_top_k",
        "jti": "id-1",
        "args_sha256": canonical_sha256(job),
    }


# --- sending ----------------------------------------------------------------------------------------


def sent(client: Client, job: RetrieveTopK, **options: Any) -> tuple[str, dict[str, Any], Any]:
    """Enqueue on kombu's in-memory transport; return the id, the headers and the body."""
    task_id = client.enqueue(job, **options)
    with Connection("memory://") as connection, connection.SimpleQueue("retrieval") as queue:
        message = queue.get(timeout=1)
        message.ack()
        return task_id, message.headers, message.payload


@pytest.fixture
def client() -> Client:
    """A client that signs, on a broker in memory."""
    return Client("memory://", "cache+memory://", Signer(KEY, "k1"))


def test_a_job_is_sent_as_the_contract_s_json(client: Client) -> None:
    """One positional argument: the fields that were set, to the queue of its task."""
    job = RetrieveTopK(query_embedding=[0.5], k=10**40, filters={"pages": [3]})  # type: ignore[arg-type] # as JSON is
    task_id, headers, (args, kwargs, _) = sent(client, job)
    assert (headers["task"], headers["id"]) == ("retrieve_top_k", task_id)
    assert (args, kwargs) == ([{"query_embedding": [0.5], "k": 10**40, "filters": {"pages": [3]}}], {})


def test_an_array_is_refused_in_the_words_of_its_remedy(client: Client) -> None:
    """An array of numpy is not JSON; nothing is sent."""
    for fields, sentence in (
        ({"query_embedding": np.zeros(768)}, "query_embedding: expected plain JSON: a list of numbers, or encode_emb"),
        ({"query_embedding": [0.5], "principal": {"u": object()}}, "principal: expected plain JSON"),
    ):
        with pytest.raises(errors.InvalidJob, match=f"^{sentence}"):
            client.enqueue(RetrieveTopK(**fields))


def test_a_message_shows_nothing_of_its_job(client: Client) -> None:
    """Headers that Celery fills for display are replaced, and no time limit is asked for."""
    job = RetrieveTopK(query_embedding=[0.5], corpus="canary")
    _, headers, _ = sent(client, job)
    assert (headers["argsrepr"], headers["kwargsrepr"]) == ("(job)", "{}")
    assert "canary" not in json.dumps(headers)
    assert not any(headers["timelimit"])


def test_claims_are_signed_into_the_job(client: Client) -> None:
    """The token's digest is over the job as sent, without the token."""
    _, headers, (args, _, _) = sent(client, RetrieveTopK(query_embedding=[0.5], k=12), claims={"user_id": "u1"})
    claims = jwt.decode(args[0].pop("principal_token"), KEY, ["HS256"], audience="retrieval-worker")
    assert (claims["jti"], claims["user_id"]) == (headers["id"], "u1")
    assert claims["args_sha256"] == canonical_sha256(args[0])


def test_an_id_of_one_s_own_is_kept(client: Client) -> None:
    """A job that is sent again under its id is the same delivery to the worker."""
    task_id, headers, _ = sent(client, RetrieveTopK(query_embedding=[0.5]), task_id="id-1", expires=60)
    assert (task_id, headers["id"]) == ("id-1", "id-1")
    assert headers["expires"]


def test_claims_without_a_signer_are_a_mistake_of_the_caller() -> None:
    """They would be lost silently otherwise."""
    with pytest.raises(ValueError, match="Signer"):
        Client("memory://").enqueue(RetrieveTopK(query_embedding=[0.5]), claims={"user_id": "u1"})


@pytest.mark.parametrize("backend", [None, "cache+memory://"], ids=["both away", "broker away"])
def test_a_redis_that_is_away_is_unavailable(backend: str | None) -> None:
    """A backend hears of it within seconds, in the words of the contract."""
    with pytest.raises(errors.Unavailable, match="Redis is away"):
        Client("redis://127.0.0.1:1/0", backend).enqueue(RetrieveTopK(query_embedding=[0.5]))


def test_progress_of_a_redis_that_is_away_is_unavailable() -> None:
    """A query for a job's state fails with the same message."""
    with pytest.raises(errors.Unavailable, match="Redis is away"):
        Client("redis://127.0.0.1:1/0").progress("a task")


@pytest.mark.parametrize("url", ["amqp://x", "http://x", "localhost:6379", "", "redis://h:port/0", "redis://[::1/0"])
def test_a_url_of_no_redis_is_refused_at_once(url: str) -> None:
    """The argument is named; the URL is not repeated, because it may hold a password."""
    for name, given_urls in (("broker_url", (url,)), ("result_backend", ("redis://h/0", url))):
        with pytest.raises(ValueError, match=f"^{name}: expected a URL like redis://user:password@host:6379/0"):
            Client(*given_urls)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf")])
def test_a_timeout_in_which_no_job_is_answered_is_refused(client: Client, timeout: float) -> None:
    """Nothing is sent."""
    with pytest.raises(ValueError, match=r"^timeout: expected more than 0 seconds, or None to wait without limit"):
        client.call(RetrieveTopK(query_embedding=[0.5]), timeout=timeout)
    with pytest.raises(ValueError, match=r"^timeout: expected seconds from 0"):
        client.result("a task", timeout=float("nan"))


def test_a_closed_client_says_so(client: Client) -> None:
    """Each method says so before it connects to anything; closing it again changes nothing."""
    client.close()
    client.close()
    for use in (
        lambda: client.enqueue(RetrieveTopK(query_embedding=[0.5])),
        lambda: client.call(RetrieveTopK(query_embedding=[0.5])),
        lambda: client.result("a task", timeout=0.1),
        lambda: client.progress("a task"),
        lambda: client.forget("a task"),
    ):
        with pytest.raises(RuntimeError, match=r"^the client is closed: make another one$"):
            use()


# --- failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["InvalidJob", "NotAuthorised", "Unavailable", "TimedOut", "DeadLettered"])
def test_a_failure_is_raised_as_the_class_it_names(name: str) -> None:
    """Whether Celery could rebuild the class or made one of that name, the caller gets ours."""
    ours = getattr(errors, name)
    rebuilt = type(name, (Exception,), {})("k: expected an integer")
    for error in (as_error(ours("k: expected an integer")), as_error(rebuilt)):
        assert type(error) is ours
        assert str(error) == "k: expected an integer"


@pytest.mark.parametrize("name", ["WorkerLostError", "RetrievalErrors", "annotations", "Exception"])
def test_any_other_failure_is_an_internal_error(name: str) -> None:
    """Its own words are not passed on: they are no part of the contract."""
    error = as_error(type(name, (Exception,), {})("canary"))
    assert type(error) is errors.InternalError
    assert "canary" not in str(error)
