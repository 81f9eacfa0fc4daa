from __future__ import annotations

from typing import Any

import pytest

from worker.core.observations import Observation, of_job


def figures(**changes: Any) -> dict[str, Any]:
    """One corpus: the primary leg found three chunks, the second two, of which the primary had one."""
    return {
        "contextual": "used",
        "contextual_error": None,
        "primary_count": 3,
        "contextual_count": 2,
        "sparse_count": 0,
        "merged_count": 4,
        "duplicate_count": 1,
        "dedup_rate": 0.2,
        "top_similarity": {"primary": 0.75, "contextual": 0.5},
        "mean_similarity": {"primary": 0.5, "contextual": 0.25},
        **changes,
    }


def answer(metrics: dict[str, Any], search: dict[str, Any], stages: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """As far as metrics look at it, with texts that must not come out."""
    return {
        "transformed_query": "canary",
        "context_keywords": ["canary"],
        "results": {"docs": {"chunks": [{"chunk_id": "canary", "text": "canary"}]}},
        "metrics": metrics,
        "trace": {"stages": list(stages), "search": search, "models": {"embedder": "canary"}},
    }


def leg(name: str, milliseconds: float, *methods: str) -> dict[str, Any]:
    return {"leg": name, "duration_ms": milliseconds, "methods": list(methods)}


def test_a_job_is_one_try_and_its_duration() -> None:
    """A job without an answer adds no more, whatever failed."""
    assert list(of_job("retrieve_top_k", "InvalidJob", 0.002, None)) == [
        Observation("retrieval_jobs_total", ("retrieve_top_k", "InvalidJob"), 1),
        Observation("retrieval_job_duration_seconds", ("retrieve_top_k", "InvalidJob"), 0.002),
    ]


def test_stages_are_seconds() -> None:
    """An answer's stages follow, each under its task."""
    trace = {"stages": [{"stage": "search", "duration_ms": 12.5, "counts": {"found": 10}}], "search": {}}
    seen = list(of_job("pinned_replay", "ok", 0.02, {"chunks": [], "trace": trace}))[2:]
    assert seen == [Observation("retrieval_stage_duration_seconds", ("pinned_replay", "search"), 0.0125)]


def test_a_hybrid_search_adds_each_leg_of_each_corpus() -> None:
    """Durations by leg, the second leg's fate once, and counts and similarities by corpus and leg."""
    search = {"legs": [leg("primary", 4.0, "exact"), leg("contextual", 6.0, "index")]}
    seen = list(of_job("retrieve_hybrid", "ok", 0.01, answer({"docs": figures()}, search)))[2:]
    assert seen == [
        Observation("retrieval_leg_duration_seconds", ("primary",), 0.004),
        Observation("retrieval_leg_duration_seconds", ("contextual",), 0.006),
        Observation("retrieval_contextual_searches_total", ("used",), 1),
        Observation("retrieval_duplicate_results_total", ("docs",), 1),
        Observation("retrieval_leg_results_total", ("docs", "primary"), 3),
        Observation("retrieval_leg_top_similarity", ("docs", "primary"), 0.75),
        Observation("retrieval_leg_mean_similarity", ("docs", "primary"), 0.5),
        Observation("retrieval_leg_results_total", ("docs", "contextual"), 2),
        Observation("retrieval_leg_top_similarity", ("docs", "contextual"), 0.5),
        Observation("retrieval_leg_mean_similarity", ("docs", "contextual"), 0.25),
    ]


@pytest.mark.parametrize("state", ["hit", "miss"])
def test_an_answer_that_was_looked_for_in_the_cache_says_whether_it_was_there(state: str) -> None:
    """A hit searched nothing, so its figures are not counted again."""
    reported = answer({"docs": figures()}, {"method": "cache"})
    reported["trace"]["cache"] = state
    seen = list(of_job("retrieve_hybrid", "ok", 0.01, reported))[2:]
    assert seen == [Observation("retrieval_cache_lookups_total", ("retrieve_hybrid", state), 1)]


@pytest.mark.parametrize("state", ["skipped", "failed"])
def test_a_second_leg_that_did_not_answer_is_counted_once(state: str) -> None:
    """Over two corpora as well; a leg that failed has no duration."""
    legs = [leg("primary", 4.0, "exact", "exact"), *([leg("contextual", 0.0)] if state == "failed" else [])]
    alone = figures(contextual=state, top_similarity={"primary": 0.75}, mean_similarity={"primary": 0.5})
    seen = list(of_job("retrieve_hybrid", "ok", 0.01, answer({"docs": alone, "examples": alone}, {"legs": legs})))
    states = [each for each in seen if each.metric == "retrieval_contextual_searches_total"]
    assert states == [Observation("retrieval_contextual_searches_total", (state,), 1)]
    assert {each.labels for each in seen if each.metric == "retrieval_leg_duration_seconds"} == {("primary",)}


def test_an_unknown_similarity_is_not_a_number() -> None:
    """A leg that found nothing, or compares no vectors, adds its count and no similarity."""
    unknown = {"sparse": None}
    one = figures(sparse_count=2, top_similarity=unknown, mean_similarity=unknown)
    seen = list(of_job("retrieve_hybrid", "ok", 0.01, answer({"docs": one}, {"legs": [leg("sparse", 1.0, "any")]})))
    assert Observation("retrieval_leg_results_total", ("docs", "sparse"), 2) in seen
    assert not [each for each in seen if "similarity" in each.metric]


def test_an_answer_from_a_record_adds_no_search() -> None:
    """Its legs were counted when they ran; what is repeated is the job and its stages."""
    stage = {"stage": "record", "duration_ms": 1.0, "counts": {}}
    seen = list(of_job("retrieve_hybrid", "ok", 0.01, answer({"docs": figures()}, {"method": "record"}, (stage,))))
    assert [each.metric for each in seen] == [
        "retrieval_jobs_total",
        "retrieval_job_duration_seconds",
        "retrieval_stage_duration_seconds",
    ]
    assert "canary" not in repr(seen)
