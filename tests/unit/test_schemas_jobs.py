"""The schemas accept exactly the jobs and messages that the worker accepts."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import jsonschema
import pytest
from celery import Celery
from hypothesis import given
from hypothesis import strategies as st
from kombu.transport.memory import Channel
from tests.raw_messages import raw_message
from tests.unit.mutated_jobs import dimensions_of

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import Filters, RetrieveTopK, RunRef
from retrieval_client.contract.message import compose
from retrieval_client.contract.registry import task_of
from retrieval_client.errors import InvalidJob
from workbench.schemas import examples, objects
from workbench.schemas.envelopes import body_schema
from worker.core.ranking import vectors

SCHEMAS = objects.schemas()
EXAMPLES = examples.examples()
JOB = EXAMPLES["retrieve_top_k.job"][1]
MINIMAL = {"query_embedding": examples.example_embedding()}
JOB_SCHEMA = jsonschema.Draft202012Validator(SCHEMAS["retrieve_top_k.job"])
MESSAGE_SCHEMA = jsonschema.Draft202012Validator(SCHEMAS["message"])


def changed(value: dict[str, Any], path: str, new: Any) -> dict[str, Any]:
    """A copy with another value at a path of field names."""
    value = copy.deepcopy(value)
    *parents, last = path.split(".")
    place = value
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = new
    return value


def worker_takes(job: dict[str, Any]) -> bool:
    """Whether the worker would search for this job; a wrong query of a batch is that query's own error."""
    try:
        parsed = parse_job(RetrieveTopK, job)
        if parsed.query_embeddings is None:
            vectors.decode(parsed.query_embedding, dimensions=dimensions_of(parsed.query_embedding))
    except InvalidJob:
        return False
    return True


# --- jobs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *RetrieveTopK.model_fields,
        *(f"filters.{name}" for name in Filters.model_fields),
        *(f"run.{name}" for name in RunRef.model_fields),
    ],
)
def test_null_is_refused_in_jobs(path):
    """An optional field of a job may be absent, and may not be null: the schema and the worker agree."""
    run = {"run": {"subject_id": "s", "run_id": "r"}} if path.startswith("run.") else {}
    job = {**MINIMAL, **run}
    assert JOB_SCHEMA.is_valid(job)
    assert worker_takes(job)
    assert not JOB_SCHEMA.is_valid(changed(job, path, None))
    assert not worker_takes(changed(job, path, None))


@pytest.mark.parametrize("path", ["surprise", "filters.surprise", "run.surprise"])
def test_unknown_fields_are_refused_in_jobs(path):
    """An unknown field is refused at every level, by the schema and by the worker."""
    job = changed({**MINIMAL, "run": {"subject_id": "s", "run_id": "r"}}, path, 1)
    assert not JOB_SCHEMA.is_valid(job)
    assert not worker_takes(job)


@given(st.integers())
def test_k_may_be_any_integer(k):
    """Any integer is a good ``k``: clamping is the worker's business."""
    job = {**MINIMAL, "k": k}
    assert JOB_SCHEMA.is_valid(job)
    assert worker_takes(job)


def test_k_of_any_size():
    """Integers beyond 64 bits are integers."""
    for k in (10**40, -(10**40)):
        assert JOB_SCHEMA.is_valid({**MINIMAL, "k": k})
        assert parse_job(RetrieveTopK, {**MINIMAL, "k": k}).clamped_k in (10, 15)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param({}, id="no query"),
        pytest.param({**MINIMAL, "query_embeddings": [examples.example_embedding()]}, id="both kinds of query"),
        pytest.param(
            {"query_embeddings": [examples.example_embedding()], "run": {"subject_id": "s", "run_id": "r"}},
            id="batch with run",
        ),
        pytest.param({**MINIMAL, "principal": {}, "principal_token": "x"}, id="both kinds of principal"),
        pytest.param({"query_embeddings": []}, id="empty batch"),
        pytest.param({"query_embeddings": [examples.example_embedding()] * 65}, id="batch too large"),
    ],
)
def test_rules_across_fields(job):
    """The schema has the rules that the types' validators apply across fields."""
    assert not JOB_SCHEMA.is_valid(job)
    assert not worker_takes(job)


POOL = {
    "query_embedding": [
        examples.example_embedding(),
        [0.5, 1] * 384,
        [0.5] * 767,
        [True, *[0.5] * 767],
        ["0.5"] * 768,
        "AAAA",
        None,
        5,
    ],
    "query_embeddings": [[examples.example_embedding(), [1] * 768], [], [[]], examples.example_embedding(), None],
    "k": [12, 0, -5, 10**30, True, "12", 12.5, None],
    "corpus": ["documents", "", "x" * 512, "x" * 513, 7, None],
    "exact": [True, False, 1, "true", None],
    "max_distance": [0, 0.5, 2, 2.001, -0.1, True, "1", None],
    "principal": [{"user_id": "u1"}, {}, {"roles": ["a", "b"], "other": None}, "u1", [], None],
    "principal_token": ["x", "x" * 16_384, "x" * 16_385, 5, None],
    "run": [
        {"subject_id": "s", "run_id": "r"},
        {"subject_id": "s", "run_id": "r", "step": "t", "reuse": True},
        {"subject_id": "s"},
        {"subject_id": "", "run_id": "r"},
        {"subject_id": "s", "run_id": "r", "reuse": 1},
        {"subject_id": "s", "run_id": "r", "more": 1},
        "r",
    ],
    "filters": [
        {},
        {"document_ids": [], "sections": ["a"], "pages": [-1, 2**31 - 1], "metadata": {"a": None}},
        {"pages": [2**31]},
        {"pages": [-(2**31) - 1]},
        {"pages": ["1"]},
        {"pages": 1},
        {"document_ids": [1]},
        {"document_ids": ["x" * 513]},
        {"sections": ["a"] * 1000},
        {"sections": ["a"] * 1001},
        {"path_contains": ["a"] * 101},
        {"ext_allow": [None]},
        {"ext_deny": "pdf"},
        {"metadata": {str(i): i for i in range(33)}},
        {"metadata": []},
        {"surprise": []},
        [],
    ],
    "surprise": [1],
}


@given(st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in POOL.items()}))
def test_schema_and_worker_agree(job):
    """The schema takes exactly the jobs that the worker takes, for any combination of fields."""
    assert JOB_SCHEMA.is_valid(job) == worker_takes(job)


@pytest.mark.parametrize(("field", "value"), [(name, value) for name, values in POOL.items() for value in values])
def test_schema_and_worker_agree_on_each_value(field, value):
    """The same, for each value of the pool in a job that is good without it."""
    job = {**({} if field.startswith("query") else MINIMAL), field: value}
    assert JOB_SCHEMA.is_valid(job) == worker_takes(job)


# --- messages -----------------------------------------------------------------------------------


def decoded_body(message: dict[str, Any]) -> Any:
    """A message's body as a worker reads it."""
    encoded = message["properties"].get("body_encoding") == "base64"
    return json.loads(base64.b64decode(message["body"]) if encoded else message["body"])


def check_message(message: dict[str, Any]) -> None:
    """The envelope, the body in it, and the job in that."""
    MESSAGE_SCHEMA.validate(message)
    body = decoded_body(message)
    schema = body_schema(SCHEMAS["retrieve_top_k.job"] | {"$id": "job.json"})
    jsonschema.Draft202012Validator(schema).validate(body)


def test_message_example_holds_the_job():
    """The example's body is the example's job as the only positional argument."""
    message = EXAMPLES["message"][1]
    check_message(message)
    assert decoded_body(message)[0] == [JOB]


def test_message_of_a_backend_without_celery_is_valid():
    """A raw message is valid against the schema."""
    check_message(json.loads(raw_message(JOB)))


def test_message_of_celery_is_valid():
    """Messages that a Celery app sends, as a backend with one does, are valid against the schema."""
    sender = Celery("backend", broker="memory://", set_as_current=False)
    sender.send_task("retrieve_top_k", (JOB,), queue="retrieval", expires=60)
    check_message(json.loads(json.dumps(Channel.queues["retrieval"].get_nowait())))


@pytest.mark.parametrize("expires", [None, "2026-11-24T12:00:00+00:00"])
def test_message_of_the_client_is_valid(expires):
    """The Python client's own, which says no less than Celery's."""
    check_message(json.loads(compose(task_of(RetrieveTopK), "id-1", JOB, expires)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("headers.timelimit", [5, None]),
        ("headers.compression", "application/x-gzip"),
        ("headers.task", "rm"),
        ("content-type", "application/x-python-serialize"),
        ("properties.delivery_info", {}),
        ("properties.delivery_tag", None),
    ],
)
def test_messages_that_workers_refuse(path, value):
    """Time limits, compression, pickle, unknown tasks and undeliverable messages are not the contract's."""
    assert not MESSAGE_SCHEMA.is_valid(changed(EXAMPLES["message"][1], path, value))
