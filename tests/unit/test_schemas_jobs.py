"""The schemas of jobs and messages: they take what the worker takes, but for the rules that they say in words."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import struct
import tomllib
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from celery import Celery
from kombu.transport.memory import Channel
from tests.raw_messages import raw_message

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import Filters, RetrieveHybrid, RetrieveTopK, RunPipeline, RunRef
from retrieval_client.contract.message import compose
from retrieval_client.contract.registry import TASKS, task_of
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.errors import InvalidJob, NotAuthorised
from retrieval_client.hashing import hash_chunk
from workbench.schemas import examples, objects
from workbench.schemas.envelopes import RULES_OF_MESSAGES, Headers, body_schema
from workbench.schemas.rules import RULES
from worker.core.citations.document import read_citations_json
from worker.core.ranking import vectors
from worker.core.shape import Bounds, check_shape
from worker.jobs.principal import as_principal
from worker.jobs.run_files import run_path
from worker.queue.broker.inspection import Refusal, Rules, inspect
from worker.settings import from_values
from worker.settings.base import config_folder

SCHEMAS = objects.schemas()
JOB_TYPES = {f"{task.name}.job": task.job for task in TASKS}
JUDGES = {name: jsonschema.Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
EXAMPLES = examples.examples()
JOBS = {name: example for name, example in EXAMPLES.items() if example[0] in JOB_TYPES}
JOB = EXAMPLES["retrieve_top_k.job"][1]
MESSAGE = EXAMPLES["message"][1]
_SECRETS = {"database_connection_string": "postgresql:///", "broker_url": "redis://localhost"}
SETTINGS = from_values({**tomllib.loads((config_folder() / "worker.toml").read_text()), **_SECRETS})


def changed(value: dict[str, Any], path: str, new: Any) -> dict[str, Any]:
    """A copy with another value at a path of field names."""
    value = copy.deepcopy(value)
    *parents, last = path.split(".")
    place = value
    for parent in parents:
        place = place.setdefault(parent, {})
    place[last] = new
    return value


def with_fields(job: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """A copy with other fields; `...` takes one away."""
    return {name: value for name, value in {**job, **fields}.items() if value is not ...}


def refusal(schema: str, job: dict[str, Any]) -> InvalidJob | None:
    """Return the worker's error for a job: of all checks that need the job and default settings only."""
    try:
        check_shape(job, Bounds())
        _check_further(parse_job(JOB_TYPES[schema], job))
    except InvalidJob as error:
        return error
    return None


def _check_further(job: Any) -> None:
    if job.principal is not None:
        with contextlib.suppress(NotAuthorised):  # a well-formed job without a caller
            as_principal(job.principal, SETTINGS, "principal")
    if isinstance(job, RetrieveTopK | RetrieveHybrid) and job.query_embedding is not None:
        vectors.decode(job.query_embedding)
    if isinstance(job, PinnedReplay) and job.citations is not None:
        read_citations_json(job.citations)
    if job.run is not None and (
        (isinstance(job, BuildCitations) and job.store) or (isinstance(job, RunPipeline) and job.mode == "lyrics")
    ):
        run_path(job.run)


# --- fields of jobs -----------------------------------------------------------------------------

RUN = {"subject_id": "s", "run_id": "r"}
WRONG = {str: 5, int: "5", float: "0.5", bool: 1, list: "x", dict: ["x"]}
"""Type of a value → a value of another type."""


@pytest.mark.parametrize(("schema", "job"), JOBS.values(), ids=JOBS)
def test_wrong_types_nulls_and_unknown_fields_are_refused(schema: str, job: dict[str, Any]) -> None:
    """Of every field of every example: by the schema, and by the worker."""
    wrong = [{**job, name: WRONG[type(value)]} for name, value in job.items()]
    nulls = [{**job, name: None} for name in job if name not in JOB_TYPES[schema].nullable]
    for refused in (*wrong, *nulls, {**job, "surprise": 1}):
        assert not JUDGES[schema].is_valid(refused), refused.keys()
        assert refusal(schema, refused)


@pytest.mark.parametrize(
    "path",
    [*(f"filters.{name}" for name in (*Filters.model_fields, "x")), *(f"run.{name}" for name in RunRef.model_fields)],
)
def test_nulls_and_unknown_fields_are_refused_inside_a_job(path: str) -> None:
    """An optional field may be absent, and may not be null."""
    job = {**JOB, "run": RUN}
    assert JUDGES["retrieve_top_k.job"].is_valid(job)
    assert refusal("retrieve_top_k.job", job) is None
    assert not JUDGES["retrieve_top_k.job"].is_valid(changed(job, path, None))
    assert refusal("retrieve_top_k.job", changed(job, path, None))


@pytest.mark.parametrize("k", [12, 10.0, -0.0, -5, 1e30, 10**400])
def test_any_integer_is_one_however_it_is_written(k: float) -> None:
    """A number without a fraction is an integer, whatever its size and spelling."""
    assert JUDGES["retrieve_top_k.job"].is_valid({**JOB, "k": k})
    assert parse_job(RetrieveTopK, {**JOB, "k": k}).clamped_k in range(10, 16)


@pytest.mark.parametrize(
    ("field", "value"),
    [("labels", {"S01": hash_chunk("a")}), ("labels", {"S1": "a"}), ("sections", {"a": "Verse 1"})],
)
def test_names_of_a_map_have_their_pattern(field: str, value: Any) -> None:
    """Those without it are refused, too."""
    job = {**EXAMPLES["build_citations.job.cite"][1], field: value}
    assert not JUDGES["build_citations.job"].is_valid(job)
    assert refusal("build_citations.job", job)


# --- rules in words -----------------------------------------------------------------------------


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else 1


def encoded(*values: float) -> str:
    return base64.b64encode(struct.pack("<768f", *values, *[0.0] * (768 - len(values)))).decode()


HASH, OTHER_HASH = hash_chunk("a text"), hash_chunk("another")
CITATION = {"chunk_hash": HASH, "source_id": "s1", "text": "a text", "weight": 1.0, "section": None, "page": 3.0}
DOCUMENT = {"by_section": {"unknown": [CITATION]}, "all_citations": [CITATION], "total_count": 1, "source_ids": ["s1"]}
DOCS, NOTES = {"corpus": "docs"}, {"corpus": "notes"}

Fields = dict[str, Any]


def of_claims(value: Any) -> Fields:
    return {"principal": {"user_id": "u1", "other": value}}


CASES: list[tuple[str, str, Fields, str, Fields]] = [
    ("principals", "retrieve_hybrid.job", {"principal": {}, "principal_token": "x"}, "", {"principal": {}}),
    ("claims", "run_pipeline.job", {"principal": {"user_id": 1.5}}, "principal.user_id", {"principal": {"user_id": 7}}),
    (
        "claims",
        "run_pipeline.job",
        {"principal": {"user_id": "x" * 513}},
        "principal.user_id",
        {"principal": {"user_id": "x" * 512}},
    ),
    (
        "claims",
        "run_pipeline.job",
        {"principal": {"roles": ["a"] * 1001}},
        "principal.roles",
        {"principal": {"roles": ["a"] * 1000}},
    ),
    ("text", "retrieve_hybrid.job", {"context": "x" * 1_000_001}, "context", {"context": "x" * 1_000_000}),
    ("text", "retrieve_hybrid.job", {"context": "a\0b"}, "context", {"context": "a b"}),
    ("text", "retrieve_hybrid.job", {"context": "a\ud800b"}, "context", {"context": "\U0001f3b5"}),
    ("text", "retrieve_hybrid.job", of_claims({"a\0": 1}), "principal.other.<key>", of_claims({"a": 1})),
    ("size", "retrieve_hybrid.job", of_claims([1] * 10_001), "principal.other", of_claims([1] * 10_000)),
    (
        "size",
        "retrieve_hybrid.job",
        of_claims({f"a{i}": 1 for i in range(1001)}),
        "principal.other",
        of_claims({f"a{i}": 1 for i in range(1000)}),
    ),
    ("size", "retrieve_hybrid.job", of_claims(nested(31)), f"principal.other{'[0]' * 21}[0…", of_claims(nested(30))),
    ("numbers", "retrieve_hybrid.job", of_claims(json.loads("1e400")), "principal.other", of_claims(1e308)),
    ("numbers", "retrieve_hybrid.job", of_claims(float("nan")), "principal.other", of_claims(10**400)),
    ("query", "retrieve_top_k.job", {"query_embedding": ...}, "query_embedding", {}),
    ("query", "retrieve_top_k.job", {"query_embeddings": [[1]]}, "", {}),
    ("batch", "retrieve_top_k.job.batch", {"run": RUN}, "", {}),
    ("direction", "retrieve_top_k.job", {"query_embedding": [0.0] * 768}, "query_embedding", {}),
    ("direction", "retrieve_hybrid.job", {"query_embedding": encoded(0.0)}, "query_embedding", {}),
    ("finite", "retrieve_top_k.job", {"query_embedding": encoded(1.0, float("nan"))}, "query_embedding[1]", {}),
    (
        "finite",
        "retrieve_hybrid.job",
        {"query_embedding": encoded(float("inf"))},
        "query_embedding[0]",
        {"query_embedding": encoded(1.0)},
    ),
    ("blank", "retrieve_hybrid.job", {"query": " \n\u3000"}, "query", {"query": " \u200b"}),
    ("legs", "retrieve_hybrid.job", {"legs": ["sparse", "sparse"]}, "legs", {"legs": ["sparse"]}),
    ("legs", "retrieve_hybrid.job", {"legs": ["contextual"]}, "legs", {"legs": ["contextual", "primary"]}),
    (
        "once",
        "retrieve_hybrid.job",
        {"searches": [DOCS, {**DOCS, "top_k": 2}]},
        "searches",
        {"searches": [DOCS, NOTES]},
    ),
    (
        "weightless",
        "retrieve_hybrid.job",
        {"context": "", "weights": {"primary": 0, "sparse": 0, "contextual": 1}},
        "weights",
        {"context": "bd", "weights": {"primary": 0, "sparse": 0, "contextual": 1}},
    ),
    ("question", "run_pipeline.job", {"question": ...}, "question", {}),
    ("blank", "run_pipeline.job", {"question": "\u2003"}, "question", {"question": "\u2003?"}),
    ("resume", "run_pipeline.job.resume", {"k": 5}, "", {"stop_after": "synthesize_context", "require_model": True}),
    ("resume", "run_pipeline.job.resume", {"run": RUN}, "", {"principal": ..., "principal_token": "x"}),
    ("once", "run_pipeline.job", {"searches": [DOCS, {**DOCS, "top_k": 2}]}, "searches", {"searches": [DOCS, NOTES]}),
    ("folder", "run_pipeline.job", {"mode": "lyrics", "run": {**RUN, "run_id": "a/b"}}, "run.run_id", {"run": RUN}),
    ("pins", "pinned_replay.job", {"required_chunk_hashes": ...}, "required_chunk_hashes", {}),
    ("pins", "pinned_replay.job", {"citations": DOCUMENT}, "", {"required_chunk_hashes": ..., "citations": DOCUMENT}),
    ("runs", "pinned_replay.job.runs", {"sources": []}, "", {}),
    ("runs", "pinned_replay.job.runs", {"run": RUN}, "", {}),
    (
        "document",
        "pinned_replay.job.run",
        {"citations": {**DOCUMENT, "total_count": 2}},
        "citations.total_count",
        {"citations": {**DOCUMENT, "total_count": 1.0}},
    ),
    (
        "document",
        "pinned_replay.job.run",
        {"citations": {**DOCUMENT, "more": 1}},
        "citations.more",
        {"citations": {**DOCUMENT, "conflicts": []}},
    ),
    ("records", "build_citations.job", {"records": ...}, "records", {}),
    ("records", "build_citations.job.cite", {"records": []}, "", {}),
    ("sections", "build_citations.job", {"sections": {HASH: "a"}}, "", {"records": ..., "cite": RUN, "run": ...}),
    ("folder", "build_citations.job", {"run": {**RUN, "subject_id": ".."}}, "run.subject_id", {"run": RUN}),
    (
        "folder",
        "build_citations.job",
        {"run": {**RUN, "run_id": "é" * 128}},
        "run.run_id",
        {"run": {**RUN, "run_id": "é" * 128}, "store": False},
    ),
    (
        "forms",
        "build_citations.job.cite",
        {"sections": {HASH: "one", HASH[7:]: "two"}},
        "sections",
        {"sections": {HASH: "one", OTHER_HASH[7:].upper(): "two"}},
    ),
]
"""Name of a rule, an example, fields that break only this rule, the path of the error, fields that keep it."""


def owner(schema: str, rule: str) -> Any:
    """The type that a rule of a job is of."""
    return next(kind for kind in JOB_TYPES[schema].__mro__ if rule in RULES.get(kind, {}))


@pytest.mark.parametrize(("rule", "example", "breaks", "path", "keeps"), CASES, ids=lambda value: str(value)[:24])
def test_a_rule_in_words_is_true(rule: str, example: str, breaks: Fields, path: str, keeps: Fields) -> None:
    """The schema takes a job that breaks the rule, and says so; the worker refuses it and takes one that keeps it."""
    schema, job = EXAMPLES[example]
    assert f"\n- {RULES[owner(schema, rule)][rule]}" in SCHEMAS[schema]["description"]
    assert JUDGES[schema].is_valid(with_fields(job, breaks))
    error = refusal(schema, with_fields(job, breaks))
    assert error is not None
    assert error.path == path
    assert refusal(schema, with_fields(job, keeps)) is None


def test_every_rule_in_words_has_a_case() -> None:
    """And every type of the rules is that of some job."""
    tried = {(owner(EXAMPLES[example][0], rule), rule) for rule, example, *_ in CASES}
    assert tried == {(kind, rule) for kind, sentences in RULES.items() for rule in sentences}


# --- messages -----------------------------------------------------------------------------------


def decoded_body(message: dict[str, Any]) -> Any:
    """A message's body as a worker reads it."""
    encoded = message["properties"].get("body_encoding") == "base64"
    return json.loads(base64.b64decode(message["body"]) if encoded else message["body"])


def check_message(message: dict[str, Any]) -> None:
    """The envelope, the body in it, and the job in that."""
    JUDGES["message"].validate(message)
    body = decoded_body(message)
    schema = body_schema(SCHEMAS["retrieve_top_k.job"] | {"$id": "job.json"})
    jsonschema.Draft202012Validator(schema).validate(body)


def test_message_example_holds_the_job():
    """The example's body is the example's job as the only positional argument."""
    check_message(MESSAGE)
    assert decoded_body(MESSAGE)[0] == [JOB]


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


INSPECTED = Rules(tasks=tuple(task.name for task in TASKS))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_TEXTS = (["x", "é" * 512, None], ["x" * 513, "", "a\x7f", 5])
_COUNTS = ([0, 2**31 - 1, None], [-1, 2**31, 1.5, True, "1"])
_TIMES = (["2026-01-31T12:00:00.250Z", None], [5, True])

HEADERS: dict[str, tuple[list[Any], list[Any]]] = {
    "task": ([task.name for task in TASKS], ["verify_runs", "celery.ping", "", None, 5]),
    "id": (["x", "é" * 512], [*_TEXTS[1], None]),
    **dict.fromkeys(("root_id", "parent_id", "group", "origin", "lang"), _TEXTS),
    **dict.fromkeys(("retries", "group_index", "replaced_task_nesting"), _COUNTS),
    **dict.fromkeys(("expires", "eta"), _TIMES),
    "timelimit": ([[None, None], None], [[5, None], [None], [0, 0], {}]),
    "compression": ([None], ["application/x-gzip", "", 5]),
    "ignore_result": ([True, False, None], [1, "true"]),
    "outage_seconds": ([0, 4.5, 86_400, None], [-1, 86_401, "1"]),
    "surprise": ([1, None, {}], []),
}
"""Header → values that are taken, values that are refused."""


def refused_message(message: dict[str, Any]) -> bool:
    """Whether the worker refuses a message; an expired one is valid."""
    found = inspect(json.dumps(message).encode(), INSPECTED, NOW)
    return isinstance(found, Refusal) and found.reason != "expired"


@pytest.mark.parametrize("name", HEADERS)
def test_headers_have_the_types_of_the_schema(name: str) -> None:
    """Those that it takes and no others are those that the worker takes."""
    for values, refused in zip(HEADERS[name], (False, True), strict=True):
        for value in values:
            message = changed(MESSAGE, f"headers.{name}", value)
            assert JUDGES["message"].is_valid(message) is not refused, value
            assert refused_message(message) is refused, value


def test_every_header_of_the_schema_is_tried() -> None:
    """One of the schema's without a value here would be unproven."""
    assert Headers.model_fields.keys() < HEADERS.keys()


@pytest.mark.parametrize(
    ("path", "value"),
    [("content-type", "application/x-python-serialize"), ("properties.priority", 1), ("headers", []), ("body", 5)],
)
def test_messages_that_workers_refuse(path: str, value: Any) -> None:
    """Pickle, priorities, and what is no message."""
    assert not JUDGES["message"].is_valid(changed(MESSAGE, path, value))
    assert refused_message(changed(MESSAGE, path, value))


@pytest.mark.parametrize(("path", "value"), [("delivery_info", {}), ("delivery_tag", None)])
def test_messages_that_cannot_be_delivered_again(path: str, value: Any) -> None:
    """The schema alone refuses what only kombu's own workers need."""
    assert not JUDGES["message"].is_valid(changed(MESSAGE, f"properties.{path}", value))


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        ("time", "headers.eta", "tomorrow"),
        ("time", "headers.expires", ""),
        ("printable", "headers.id", "a\u200b"),
        ("size", "headers.surprise", [0] * INSPECTED.max_values),
        ("size", "headers.surprise", "x" * INSPECTED.max_bytes),
    ],
)
def test_a_rule_of_messages_in_words_is_true(rule: str, path: str, value: Any) -> None:
    """The schema takes a message that breaks the rule, and says so; the worker refuses it."""
    assert RULES_OF_MESSAGES[rule] in SCHEMAS["message"]["description"]
    assert JUDGES["message"].is_valid(changed(MESSAGE, path, value))
    assert refused_message(changed(MESSAGE, path, value))


@pytest.mark.parametrize(
    "body",
    [
        [],
        [[{}]],
        [[], {}, {}],
        [[{}, {}], {}, {}],
        [[{}], {"k": 1}, {}],
        [[{}], {}, {"chord": {"task": "x"}}],
        {},
        None,
    ],
)
def test_bodies_that_workers_refuse(body: Any) -> None:
    """Other arity, keywords, further tasks."""
    assert not jsonschema.Draft202012Validator(body_schema({"type": "object"})).is_valid(body)
