"""The schemas of docs/contract say what the worker does: both judge thousands of mutated jobs alike."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from retrieval_client.contract.base import Part, parse_job
from retrieval_client.contract.registry import TASKS
from workbench.schemas import examples, objects
from workbench.schemas.rules import UNSAID, WHITE_SPACE

from .mutated_jobs import (
    EXCEPTIONS,
    HASH,
    JOB_TYPES,
    NUL,
    VECTOR,
    _encoded,
    _nested,
    as_text,
    exception,
    judge,
    mutated_jobs,
    schema_takes,
    worker_refusal,
)

SEED, COUNT = 17, 2000
EXAMPLES = examples.examples()

NESTED = _nested(32, 1)
CITATION = {"chunk_hash": HASH, "source_id": "s1", "text": "a text", "weight": 1.0, "section": None, "page": 3.0}
DOCUMENT = {"by_section": {"unknown": [CITATION]}, "all_citations": [CITATION], "total_count": 1, "source_ids": ["s1"]}


def test_schemas_and_worker_agree_on_mutated_jobs():
    """Of 2,000 mutated jobs the schemas take those that the worker takes, but for what they say in words."""
    judged = [*judge(SEED, COUNT)]
    assert "\n".join(str(one) for one in judged if not one.agreed) == ""
    counts = Counter(one.refusal is None for one in judged)
    assert min(counts.values()) > COUNT / 5, "mutations of which nearly all are judged alike show nothing"
    assert {one.schema for one in judged if one.refusal is None} == {f"{task.name}.job" for task in TASKS}


def test_what_the_client_sends_is_valid():
    """A job that the Python client's types take is valid by its schema as the client writes it, and says the same."""
    for schema, text in [*mutated_jobs(SEED + 1, 600)]:
        if worker_refusal(schema, text) is None:
            job = parse_job(JOB_TYPES[schema], json.loads(text))
            sent = as_text(job.model_dump(mode="json", exclude_unset=True))
            assert schema_takes(schema, sent)
            assert parse_job(JOB_TYPES[schema], json.loads(sent)) == job


# --- what is said in words ----------------------------------------------------------------------


def test_exceptions_are_those_that_the_schemas_name():
    """Every rule that a schema says in words is one of the test's, and the other way round."""
    assert {name for unsaid in UNSAID.values() for name in unsaid} == set(EXCEPTIONS)


@pytest.mark.parametrize(
    ("name", "example", "change"),
    [
        ("surrogates", "retrieve_hybrid.job", {"query": "a\ud800b"}),
        ("surrogates", "run_pipeline.job", {"filters": {"metadata": {"\udfff": 1}}}),
        ("levels", "retrieve_hybrid.job", {"principal": {"other": NESTED}}),
        ("direction", "retrieve_top_k.job", {"query_embedding": [0.0, -0.0] * 384}),
        ("direction", "retrieve_hybrid.job", {"query_embedding": _encoded([0.0] * 768)}),
        ("finite", "retrieve_top_k.job", {"query_embedding": _encoded([float("nan"), *VECTOR[1:]])}),
        ("once", "retrieve_hybrid.job", {"searches": [{"corpus": "docs"}, {"corpus": "docs", "top_k": 2}]}),
        ("once", "run_pipeline.job", {"searches": [{"corpus": "docs"}, {"corpus": "docs"}]}),
        ("weightless", "retrieve_hybrid.job", {"context": "", "weights": {"primary": 0, "sparse": 0}}),
        ("document", "pinned_replay.job.run", {"citations": {**DOCUMENT, "total_count": 2}}),
        ("forms", "build_citations.job.cite", {"sections": {"AB" * 32: "one", f"sha256:{'ab' * 32}": "two"}}),
        ("folder", "build_citations.job", {"run": {"subject_id": "..", "run_id": "r1"}}),
        ("folder", "build_citations.job", {"run": {"subject_id": "song-1", "run_id": "é" * 128}}),
    ],
)
def test_what_a_schema_says_in_words_only(name, example, change):
    """The schema takes what it cannot tell, says so in its description, and the worker refuses it."""
    schema, job = EXAMPLES[example]
    text = as_text({**job, **change})
    assert schema_takes(schema, text)
    refusal = worker_refusal(schema, text)
    assert refusal is not None
    assert exception(schema, refusal) == name
    kind = next(task.job for task in TASKS if f"{task.name}.job" == schema)
    sentences = [unsaid[name] for base in kind.__mro__ for unsaid in [UNSAID.get(base, {})] if name in unsaid]
    assert all(sentence in objects.schemas()[schema]["description"] for sentence in sentences)
    assert sentences


# --- what no mutation may miss ------------------------------------------------------------------


def judged_alike(schema: str, job: dict[str, Any], *, taken: bool) -> bool:
    """Whether both judges take a job, or both refuse it, as they should."""
    text = as_text(job)
    return schema_takes(schema, text) is taken and (worker_refusal(schema, text) is None) is taken


@pytest.mark.parametrize("k", [10, 10.0, -0.0, 0, -5, 1e30, 10**40, 10**400])
def test_any_integer_is_one_however_it_is_written(k):
    """A number without a fraction is an integer, whatever its size and spelling, also in a recorded job."""
    for example in ("retrieve_top_k.job", "retrieve_top_k.job.run", "run_pipeline.job"):
        schema, job = EXAMPLES[example]
        assert judged_alike(schema, {**job, "k": k}, taken=True)


@pytest.mark.parametrize("k", [True, False, "10", 10.5, 1e400, -1e400, float("nan"), None, [10]])
def test_what_is_no_integer_is_refused(k):
    """Booleans, text, fractions, infinities, NaN and null are no integers to either."""
    schema, job = EXAMPLES["retrieve_top_k.job"]
    assert judged_alike(schema, {**job, "k": k}, taken=False)


@pytest.mark.parametrize("text", [NUL, f"a{NUL}", f"{NUL}a"])
def test_no_string_and_no_name_holds_nul(text):
    """U+0000 is refused in fields, in free JSON, and in the names of fields."""
    for change in (
        {"corpus": text},
        {"principal": {"user_id": text}},
        {"principal": {"user_id": "u1", "other": [{"deep": text}]}},
        {"principal": {"user_id": "u1", text: 1}},
        {"filters": {"metadata": {text: 1}}},
        {"filters": {"metadata": {"a": {"b": text}}}},
    ):
        schema, job = EXAMPLES["retrieve_top_k.job"]
        assert judged_alike(schema, {**job, **change}, taken=False)


@pytest.mark.parametrize("space", [chr(code) for code in WHITE_SPACE])
def test_a_question_is_more_than_white_space(space):
    """Only white space, as Python counts it, is no question, but a question may begin with it."""
    for example, name in (("run_pipeline.job", "question"), ("retrieve_hybrid.job", "query")):
        schema, job = EXAMPLES[example]
        assert judged_alike(schema, {**job, name: space * 3}, taken=False)
        assert judged_alike(schema, {**job, name: f"{space}?{space}"}, taken=True)


def test_a_citations_document_is_one_however_its_numbers_are_written():
    """A document read back by another JSON library is the same: 1.0 is 1, and true is not."""
    schema, job = EXAMPLES["pinned_replay.job.run"]
    assert judged_alike(schema, {**job, "citations": {**DOCUMENT, "total_count": 1.0}}, taken=True)
    listed = {"unknown": [{**CITATION, "weight": True}]}
    assert judged_alike(schema, {**job, "citations": {**DOCUMENT, "by_section": listed}}, taken=False)


def test_a_batch_is_taken_with_a_wrong_embedding_in_it():
    """A wrong query of a batch is its own error, and not the job's."""
    schema, job = EXAMPLES["retrieve_top_k.job.batch"]
    for wrong in ([], "AAAA", None, [True] * 768, {"a": 1}):
        assert judged_alike(schema, {**job, "query_embeddings": [_encoded(VECTOR), wrong]}, taken=True)


def test_every_type_of_the_rules_is_a_jobs():
    """Rules and sentences are of types that some job has."""
    assert all(issubclass(kind, Part) for kind in UNSAID)
