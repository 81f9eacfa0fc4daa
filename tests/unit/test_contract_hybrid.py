from __future__ import annotations

from typing import Any

import pytest

from retrieval_client import Diversity
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from retrieval_client.errors import InvalidJob

SEARCH = {"corpus": "docs"}
CANARY = "canary-4711"


def accepted(**fields: Any) -> RetrieveHybrid:
    return parse_job(RetrieveHybrid, {"query": "add hi-hats", **fields})


def test_a_job_needs_its_query_only() -> None:
    """Everything else has a default: all three legs, fused as the settings say, over their searches."""
    job = accepted()
    assert (job.legs, job.fusion, job.rrf_k, job.weights) == (["primary", "contextual", "sparse"], None, 60, None)
    assert (job.context, job.searches, job.transform, job.diversity) == ("", None, "none", None)


@pytest.mark.parametrize(("top_k", "used"), [(-5, 1), (0, 1), (1, 1), (7, 7), (50, 50), (51, 50), (10**40, 50)])
def test_any_integer_top_k_is_clamped_and_kept(top_k: int, used: int) -> None:
    """It is brought to 1-50; what was asked for stays to be reported."""
    (search,) = accepted(searches=[{**SEARCH, "top_k": top_k}]).searches or []
    assert (search.top_k, search.clamped_top_k) == (top_k, used)


def test_lambda_is_a_word_of_python_and_of_the_wire() -> None:
    """The job has `lambda`, Python has `relevance`; the way back is the wire's."""
    job = accepted(diversity={"lambda": 0.25, "per_document": 2})
    assert job.diversity == Diversity(**{"lambda": 0.25}, per_document=2)
    assert job.model_dump(mode="json", exclude_unset=True)["diversity"] == {"lambda": 0.25, "per_document": 2}
    assert accepted(diversity=None).diversity is None


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"query": None}, "query: expected a value or no such field, got null"),
        ({"query": ""}, "query: expected at least 1 character"),
        ({"query": " \n\u3000"}, "query: expected more than white space"),
        ({"query": 5}, "query: expected a string"),
        ({"context": None}, "context: expected a value or no such field, got null"),
        ({"context": ["x"]}, "context: expected a string"),
        ({"searches": []}, "searches: expected at least 1 item"),
        ({"searches": [SEARCH] * 9}, "searches: expected at most 8 items"),
        ({"searches": [SEARCH, SEARCH]}, "searches: expected each one once"),
        ({"searches": [{}]}, "searches[0].corpus: expected this field"),
        ({"searches": [{**SEARCH, "top_k": 2.5}]}, "searches[0].top_k: expected an integer"),
        ({"searches": [{**SEARCH, "top_k": True}]}, "searches[0].top_k: expected an integer"),
        ({"searches": [{**SEARCH, "k": 3}]}, "searches[0].k: this field is not known"),
        ({"searches": [{**SEARCH, "filters": {"page": [1]}}]}, "searches[0].filters.page: this field is not known"),
        ({"legs": []}, "legs: expected at least 1 item"),
        (
            {"weights": {"primary": 0, "contextual": 0.0, "sparse": 0}},
            "weights: expected more than 0 for one of the legs at least",
        ),
        (
            {"legs": ["primary", "sparse"], "weights": {"primary": 0, "sparse": 0, "contextual": 1}},
            "weights: expected more than 0 for one of the legs at least",
        ),
        (
            {"weights": {"primary": 0, "sparse": 0}},
            "weights: expected more than 0 for one of the legs at least",
        ),
        (
            {"context": " ", "weights": {"primary": 0, "contextual": 1, "sparse": 0}},
            "weights: expected more than 0 for one of the",
        ),
        ({"legs": ["contextual"]}, "legs: expected primary or sparse beside contextual, which only widens them"),
        ({"legs": ["primary", "primary"]}, "legs: expected each one once"),
        ({"legs": ["pinned"]}, "legs[0]: expected 'primary', 'contextual' or 'sparse'"),
        ({"fusion": "sum"}, "fusion: expected 'similarity', 'rrf' or 'weighted'"),
        ({"rrf_k": 0}, "rrf_k: expected at least 1 and at most 1000000"),
        ({"weights": {"primary": -0.1}}, "weights.primary: expected at least 0 and at most 1000000"),
        ({"weights": {"primary": "1"}}, "weights.primary: expected a number"),
        ({"transform": CANARY}, "transform: expected 'none', 'glossary' or 'llm'"),
        ({"diversity": {"lambda": 1.5}}, "diversity.lambda: expected at least 0 and at most 1"),
        ({"diversity": {"relevance": 0.5}}, "diversity.relevance: this field is not known"),
        ({"diversity": {"per_document": 0}}, "diversity.per_document: expected at least 1 and at most 1000"),
        ({"k": 3}, "k: this field is not known"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_expected(fields: dict[str, Any], sentence: str) -> None:
    """The first problem, with its path; never the value."""
    with pytest.raises(InvalidJob) as caught:
        accepted(**fields)
    assert caught.value.message.startswith(sentence)
    assert CANARY not in caught.value.message


def test_a_weight_of_zero_is_taken_while_another_leg_counts() -> None:
    """The contextual leg counts where there is a context, and a leg without a weight has a default."""
    for fields in ({"context": "bd"}, {"legs": ["primary", "sparse"]}):
        assert accepted(weights={"primary": 0}, **fields).weights == {"primary": 0}


def test_weights_of_zero_are_taken_where_weights_have_no_effect() -> None:
    """Under `similarity`, which compares by the cosine."""
    weights = {"primary": 0, "contextual": 0, "sparse": 0}
    assert accepted(weights=weights, fusion="similarity").weights == weights


def test_a_job_without_a_query_is_refused() -> None:
    """Context alone says nothing of what is wanted."""
    with pytest.raises(InvalidJob, match="query: expected this field"):
        parse_job(RetrieveHybrid, {"context": 'sound("bd")'})
