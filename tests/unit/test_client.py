from __future__ import annotations

import ast
import base64
import contextlib
import inspect
import json
import struct
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jwt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blocking_client
import retrieval_client
import worker.client
from retrieval_client import (
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
    encode_embedding,
    errors,
)
from retrieval_client.canonical import canonical_sha256
from retrieval_client.contract.base import Part, parse_part
from retrieval_client.contract.jobs import HybridSearch, Message, RunRef, TopKFields
from retrieval_client.contract.run_jobs import CitedChunk, CitedRun, InlineSource, Quote, ReplayFields
from retrieval_client.jobs import as_error, reader_of
from worker import errors as former_errors
from worker.core.ranking.vectors import decode

EXAMPLES = Path(__file__).parents[2] / "docs" / "contract" / "examples"
KEY = "a key of 32 bytes or more for HS256"
HEAVY = {"celery", "kombu", "numpy", "psycopg", "psycopg_pool", "pgvector", "jwt", "orjson", "structlog", "rich"}


def test_a_backend_needs_neither_postgres_nor_numpy() -> None:
    """Importing the client brings redis, pydantic and our contract into a backend, and nothing heavier."""
    script = "import json, sys, retrieval_client; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = json.loads(done.stdout)
    assert HEAVY & {name.split(".")[0] for name in modules} == set()
    assert {name for name in modules if name.split(".")[0] == "worker"} == set()


def test_the_client_that_blocks_is_generated() -> None:
    """`make contract` writes it from the one for asyncio, which is changed by hand."""
    source = blocking_client.SOURCE.read_text(encoding="utf-8")
    assert blocking_client.TARGET.read_text(encoding="utf-8") == blocking_client.blocking(source)


def test_the_former_name_of_the_client_gives_the_same() -> None:
    """`worker.client` and `worker.errors` are in programs, and in records as `exc_module`."""
    assert {name: getattr(worker.client, name) for name in retrieval_client.__all__} == {
        name: getattr(retrieval_client, name) for name in retrieval_client.__all__
    }
    assert former_errors.InvalidJob is retrieval_client.errors.InvalidJob


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


LEAST: dict[type[Part], dict[str, Any]] = {
    BuildCitations: {"records": []},
    CitedChunk: {"source_id": "s", "text": "t", "weight": 1},
    CitedRun: RUN,
    Diversity: {},
    Filters: {},
    HybridSearch: {"corpus": "docs"},
    InlineSource: {},
    Message: {"role": "user", "content": "hum"},
    PinnedReplay: {"required_chunk_hashes": [HASH]},
    Quote: {"chunk_hash": HASH, "quote": "hum"},
    RecordFeedback: {"run": RUN},
    RetrieveHybrid: {"query": "hum"},
    RetrieveTopK: {"query_embedding": [0.5]},
    RunName: RUN,
    RunPipeline: {"question": "hum"},
    RunRef: RUN,
}
"""The fewest fields of each job and each part of one."""


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, field.alias or name) for kind in LEAST for name, field in kind.model_fields.items()],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_none_in_python_is_an_absent_field(kind: type[Part], name: str) -> None:
    """Of each optional field, also where null means something; on the wire null stays what it was."""
    least = LEAST[kind]
    if name not in least:
        made = kind(**least, **{name: None})
        assert made == kind(**least)
        assert name not in made.model_dump(mode="json", exclude_unset=True) or name in kind.nullable
        assert parse_part(kind, made.model_dump(mode="json", exclude_unset=True)) == made
        with pytest.raises(errors.InvalidJob) if name not in kind.nullable else contextlib.nullcontext():
            parse_part(kind, {**least, name: None})


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
    of_task = reader_of(example.split(".", maxsplit=1)[0])
    assert type(of_task.validate_python(value)).__name__ == kind
    assert type(reader_of(None).validate_python(value)).__name__ == kind
    if "results" in value and kind != "Hybrid":
        failed = {"error": {"type": "InvalidJob", "path": "x", "message": "x: wrong"}}
        assert type(of_task.validate_python({**value, "results": [failed]})).__name__ == kind


def test_a_client_talks_to_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to what the environment names for the backend's own Celery app."""
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://environment:1/0")
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "redis://environment:1/1")
    for client, results in (
        (Client("redis://given:2/3"), "given:2, database 3"),
        (Client("redis://given:2/3", "redis://given:2/4"), "given:2, database 4"),
        (Client("redis+socket:///run/redis.sock?virtual_host=5"), "/run/redis.sock, database 5"),
    ):
        assert client.results_place == results
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


@pytest.fixture
def client() -> Client:
    """A client that signs, of a Redis that is away."""
    return Client("redis://127.0.0.1:1/0", signer=Signer(KEY, "k1"))


def test_an_array_is_refused_in_the_words_of_its_remedy(client: Client) -> None:
    """An array of numpy is not JSON; nothing is sent."""
    for fields, sentence in (
        ({"query_embedding": np.zeros(768)}, "query_embedding: expected plain JSON: a list of numbers, or encode_emb"),
        ({"query_embedding": [0.5], "principal": {"u": object()}}, "principal: expected plain JSON"),
    ):
        with pytest.raises(errors.InvalidJob, match=f"^{sentence}"):
            client.enqueue(RetrieveTopK(**fields))


def test_claims_without_a_signer_are_a_mistake_of_the_caller() -> None:
    """They would be lost silently otherwise."""
    with pytest.raises(ValueError, match="Signer"):
        Client("redis://127.0.0.1:1/0").enqueue(RetrieveTopK(query_embedding=[0.5]), claims={"user_id": "u1"})


def test_a_redis_that_is_away_is_unavailable(client: Client) -> None:
    """A backend hears of it within seconds, in the words of the contract."""
    for use in (client.enqueue, client.call):
        with pytest.raises(errors.Unavailable, match="Redis is away"):
            use(RetrieveTopK(query_embedding=[0.5]))


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
@pytest.mark.parametrize("message", [["k: expected an integer"], "k: expected an integer"])
def test_a_failure_is_raised_as_the_class_it_names(name: str, message: object) -> None:
    """With the sentence of the record, which is a list where Celery wrote it."""
    error = as_error({"exc_type": name, "exc_message": message, "exc_module": "worker.errors"})
    assert type(error) is getattr(errors, name)
    assert str(error) == "k: expected an integer"


@pytest.mark.parametrize("name", ["WorkerLostError", "RetrievalErrors", "annotations", "Exception", "cleandoc", None])
def test_any_other_failure_is_an_internal_error(name: str | None) -> None:
    """Its own words are not passed on: they are no part of the contract."""
    error = as_error({"exc_type": name, "exc_message": ["canary"], "exc_module": "celery"})
    assert type(error) is errors.InternalError
    assert "canary" not in str(error)
    assert type(as_error("canary")) is type(as_error(None)) is errors.InternalError


@pytest.mark.parametrize(("kind", "shared"), [(RetrieveTopK, TopKFields), (PinnedReplay, ReplayFields)])
def test_type_checkers_know_every_field(kind, shared):
    """Of a job with two forms: the fields that both may have, and those that decide which answer it has."""
    nodes = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind))))
    forms = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    named = {argument.arg for form in forms for argument in form.args.kwonlyargs}
    assert named | shared.__optional_keys__ == kind.model_fields.keys()
    assert not named & shared.__optional_keys__
