from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.contract.base import DEFAULT_K, parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.results import TopK, TopKBatch
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.errors import InvalidJob
from worker.core.shape import Bounds, check_shape

QUERY = [0.5] * 768
CANARY = "canary-4711"


def accepted(**fields: Any) -> RetrieveTopK:
    return parse_job(RetrieveTopK, {"query_embedding": QUERY, **fields})


def refusal(data: Any) -> InvalidJob:
    with pytest.raises(InvalidJob) as caught:
        parse_job(RetrieveTopK, data)
    return caught.value


def test_a_job_needs_its_query_only() -> None:
    """Everything else has a default: 15 chunks of the first corpus, unfiltered."""
    job = accepted()
    assert (job.k, job.clamped_k, job.corpus, job.filters, job.max_distance) == (DEFAULT_K, 15, None, None, None)
    assert (job.exact, job.principal, job.principal_token, job.run) == (False, None, None, None)


@pytest.mark.parametrize(
    ("k", "used"),
    [(-(10**4000), 10), (-1, 10), (0, 10), (9, 10), (10, 10), (12, 12), (15, 15), (16, 15), (10**40, 15)],
    ids=["-huge", "-1", "0", "9", "10", "12", "15", "16", "huge"],
)
def test_any_integer_k_is_clamped_and_kept(k: int, used: int) -> None:
    """It is brought to 10-15; what was asked for stays to be reported."""
    job = accepted(k=k)
    assert (job.k, job.clamped_k) == (k, used)


@pytest.mark.parametrize("distance", [0, 2, 0.5, -0.0, 1])
def test_a_distance_within_its_range_is_accepted(distance: float) -> None:
    """Both ends of [0, 2], as an integer or with a fraction; -0 is a number."""
    assert accepted(max_distance=distance).max_distance == distance


def test_empty_filters_are_filters() -> None:
    """`[]` is kept apart from no filter at all."""
    filters = accepted(filters={"document_ids": [], "pages": []}).filters
    assert filters is not None
    assert (filters.document_ids, filters.pages, filters.sections) == ([], [], None)


def test_metadata_values_may_be_any_json() -> None:
    """Equality on keys: null, numbers, lists and objects are values to compare with."""
    metadata = {"a": None, "b": [1, {"c": "d"}], "'; DROP TABLE x; --": "e"}
    assert accepted(filters={"metadata": metadata}).filters.metadata == metadata  # type: ignore[union-attr] # it is given


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"k": True}, "k: expected an integer"),
        ({"k": 12.5}, "k: expected an integer"),
        ({"k": "12"}, "k: expected an integer"),
        ({"k": None}, "k: expected a value or no such field, got null"),
        ({"exact": 1}, "exact: expected true or false"),
        ({"exact": "true"}, "exact: expected true or false"),
        ({"corpus": 5}, "corpus: expected a string"),
        ({"max_distance": "0.5"}, "max_distance: expected a number"),
        ({"max_distance": True}, "max_distance: expected a number"),
        ({"max_distance": float("nan")}, "max_distance: expected a finite number"),
        ({"max_distance": -0.001}, "max_distance: expected at least 0 and at most 2"),
        ({"max_distance": 2.001}, "max_distance: expected at least 0 and at most 2"),
        ({"filters": []}, "filters: expected an object"),
        ({"filters": {"color": 1}}, "filters.color: this field is not known"),
        ({"filters": {"pages": 3}}, "filters.pages: expected a list"),
        ({"filters": {"pages": [3, "4"]}}, "filters.pages[1]: expected an integer"),
        ({"filters": {"pages": [3.5]}}, "filters.pages[0]: expected an integer"),
        (
            {"filters": {"pages": [2**31]}},
            "filters.pages[0]: expected at least -2147483648 and less than 2147483648",
        ),
        ({"filters": {"pages": None}}, "filters.pages: expected a value or no such field, got null"),
        ({"filters": {"document_ids": [1]}}, "filters.document_ids[0]: expected a string"),
        ({"filters": {"metadata": ["a"]}}, "filters.metadata: expected an object"),
        ({"run": {"subject_id": "s"}}, "run.run_id: expected this field"),
        ({"run": {"subject_id": "s", "run_id": "r", "reuse": 1}}, "run.reuse: expected true or false"),
        ({"principal": "alice"}, "principal: expected an object"),
        ({"principal_token": {}}, "principal_token: expected a string"),
        ({"some text": 1}, "<key>: this field is not known"),
        ({"K": 12}, "K: this field is not known"),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_a_wrong_field_is_named_with_what_was_expected(fields: dict[str, Any], sentence: str) -> None:
    """One sentence with the field's path; no type is coerced into another."""
    assert str(refusal({"query_embedding": QUERY, **fields})) == sentence


@pytest.mark.parametrize(
    ("fields", "path", "expected"),
    [
        ({"corpus": CANARY * 50}, "corpus", "at most 512 characters"),
        ({"filters": {"sections": [CANARY * 50]}}, "filters.sections[0]", "at most 512 characters"),
        ({"filters": {"document_ids": [CANARY] * 1001}}, "filters.document_ids", "at most 1000 items"),
        ({"filters": {"ext_deny": [CANARY] * 101}}, "filters.ext_deny", "at most 100 items"),
        ({"filters": {"metadata": dict.fromkeys(map(str, range(33)))}}, "filters.metadata", "at most 32 items"),
        ({"principal_token": CANARY * 2000}, "principal_token", "at most 16384 characters"),
        ({"run": {"subject_id": "", "run_id": "r"}}, "run.subject_id", "at least 1 character"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_limits_are_named_and_values_are_not(fields: dict[str, Any], path: str, expected: str) -> None:
    """Too long, too many, too few: the bound is in the sentence, the value never."""
    error = refusal({"query_embedding": QUERY, **fields})
    assert error.path == path
    assert expected in error.expected
    assert "canary" not in error.message


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "query_embedding: expected this field, or query_embeddings instead"),
        ({"query_embedding": None}, "query_embedding: expected a value or no such field, got null"),
        ({"query_embeddings": None}, "query_embeddings: expected a value or no such field, got null"),
        (
            {"query_embedding": QUERY, "query_embeddings": [QUERY]},
            "expected query_embedding or query_embeddings, got both",
        ),
        (
            {"query_embeddings": [QUERY], "run": {"subject_id": "s", "run_id": "r"}},
            "expected query_embeddings or run, got both",
        ),
        (
            {"query_embedding": QUERY, "principal": {}, "principal_token": "x"},
            "expected principal or principal_token, got both",
        ),
    ],
    ids=["neither", "null", "null batch", "both", "run and batch", "two principals"],
)
def test_fields_that_exclude_each_other_are_named(data: dict[str, Any], sentence: str) -> None:
    """Neither, both, or two that do not go together: the sentence says which."""
    assert str(refusal(data)) == sentence


RUN = {"subject_id": "s", "run_id": "r"}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            {"required_chunk_hashes": [CANARY]},
            "required_chunk_hashes[0]: expected 64 hex digits, with or without sha256: before them",
        ),
        ({"runs": [RUN], "run": RUN}, "expected runs or run, got both: several answers have no one record"),
        ({"runs": [RUN], "sources": []}, "expected runs or sources, got both: runs are of a corpus"),
        ({"citations": {}, "runs": [RUN]}, "expected one of required_chunk_hashes, runs and citations, got 2"),
    ],
    ids=["no hash", "run and runs", "sources and runs", "two kinds of pins"],
)
def test_what_is_wrong_with_a_replay_is_said(data: dict[str, Any], sentence: str) -> None:
    """Forms of hashes, and fields that exclude each other; a `run` is never silently ignored."""
    with pytest.raises(InvalidJob) as caught:
        parse_job(PinnedReplay, data)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("count", "bound"), [(0, "at least 1"), (65, "at most 64")])
def test_a_batch_has_one_to_64_queries(count: int, bound: str) -> None:
    """An empty batch asks nothing, and 65 are too many."""
    error = refusal({"query_embeddings": [QUERY] * count})
    assert error.path == "query_embeddings"
    assert bound in error.expected


def test_a_batch_of_64_is_accepted_whatever_its_entries_are() -> None:
    """A wrong query is that query's own error, later."""
    job = parse_job(RetrieveTopK, {"query_embeddings": [QUERY, "x", None, []] * 16})
    assert len(job.query_embeddings or ()) == 64


@pytest.mark.parametrize("data", [None, [], "x", 5, True, [{"query_embedding": QUERY}]], ids=repr)
def test_a_job_is_an_object(data: Any) -> None:
    """Anything else as the only argument is refused in one sentence."""
    assert str(refusal(data)) == "expected one job object as the only positional argument"


def test_a_refusal_keeps_its_path_on_the_way_through_a_pickle() -> None:
    """Prefork children hand exceptions to their parent: sentence and path arrive."""
    error = pickle.loads(pickle.dumps(refusal({"query_embedding": QUERY, "k": "x"})))  # noqa: S301 -- our own bytes
    assert (type(error), error.path, error.message) == (InvalidJob, "k", "k: expected an integer")


# --- any JSON ---------------------------------------------------------------------------------------

FIELDS = [*RetrieveTopK.model_fields, "pages", "metadata", "subject_id", "run_id", "document_ids", "nonsense"]
keys = st.sampled_from(FIELDS) | st.text(st.characters(), max_size=10)
texts = st.text(st.characters(), max_size=10).map(lambda text: CANARY + text) | st.just("")
leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=15
)
jobs = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, values))


def check(data: Any) -> RetrieveTopK | InvalidJob:
    try:
        check_shape(data, Bounds())
        return parse_job(RetrieveTopK, data)
    except InvalidJob as error:
        return error


@given(values | jobs)
def test_any_json_is_a_job_or_one_invalid_job(data: Any) -> None:
    """No JSON gets the validator to fail in another way, or to repeat a string that was in a value."""
    outcome = check(data)
    if isinstance(outcome, InvalidJob):
        assert CANARY not in outcome.message
        assert "\n" not in outcome.message
    else:
        assert data.items() >= outcome.model_dump(exclude_unset=True).items()


@given(jobs)
def test_a_job_with_a_query_reports_only_what_is_wrong(fields: dict[str, Any]) -> None:
    """A refused field is one that the job has: the path starts with it."""
    fields.pop("query_embeddings", None)
    outcome = check({**fields, "query_embedding": QUERY})
    if isinstance(outcome, InvalidJob) and outcome.path:
        assert outcome.path.split(".")[0].split("[")[0] in {*fields, "<key>"}


# --- results ----------------------------------------------------------------------------------------

ANSWER = {
    "schema_version": 1,
    "status": "empty",
    "short_reason": "filters",
    "k_requested": 10**40,
    "k": 15,
    "corpus": "documents",
    "chunks": [],
    "trace": {"stages": [], "worker_version": "9", "said_by_a_newer_worker": 1},
    "said_by_a_newer_worker": {},
}


def test_a_result_of_a_newer_worker_is_read() -> None:
    """Unknown fields of a result are left aside, so that workers can be renewed before backends."""
    answer = TopK.model_validate(json.loads(json.dumps(ANSWER)))
    assert (answer.status, answer.k_requested) == ("empty", 10**40)


def test_a_batch_holds_answers_and_errors_in_the_order_asked() -> None:
    """Each entry is a whole answer, or says why it has none."""
    failed = {"error": {"type": "InvalidJob", "path": "query_embeddings[1]", "message": "expected 768"}}
    batch = TopKBatch.model_validate({"schema_version": 1, "results": [ANSWER, failed], "trace": ANSWER["trace"]})
    assert [type(entry).__name__ for entry in batch.results] == ["TopK", "FailedQuery"]
