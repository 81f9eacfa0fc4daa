"""The pipeline's nouns go to JSON and back without loss."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from worker.core.prompting.costs import CostEntry, Tokens
from worker.jobs.pipeline.types import (
    Citation,
    ContextPackage,
    CorpusSearch,
    DroppedCandidate,
    QueryRequest,
    QueryResponse,
    RemoteSource,
    RetrievalTrace,
    StageTrace,
    Turn,
    from_json,
    to_json,
)
from worker.model import Candidate, Chunk, FilterSet, LegScore, ScoreBreakdown

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
maybe = st.none() | texts
scores = st.none() | st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 10**9)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)


def several(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


legs = st.builds(LegScore, texts, st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 100))
breakdowns = st.builds(ScoreBreakdown, several(legs), scores, scores, scores)
chunks = st.builds(
    Chunk,
    id=texts,
    document_id=texts,
    text=texts,
    page=st.none() | st.integers(-(2**31), 2**31 - 1),
    section=maybe,
    coordinates=values,
    metadata=objects,
    chunk_hash=texts,
)
candidates = st.builds(Candidate, chunks, scores, breakdowns, texts)
filters = st.builds(FilterSet, document_ids=st.none() | several(texts), metadata=st.none() | objects)
searches = st.builds(CorpusSearch, texts, counts, filters)
requests = st.builds(
    QueryRequest,
    question=texts,
    profile=maybe,
    filters=filters,
    k=st.none() | st.integers(),
    starting_prompt=maybe,
    conversation_history=several(st.builds(Turn, st.sampled_from(["user", "assistant"]), texts)),
    chat_mode=st.sampled_from(["single", "chat"]),
    pinned_chunks=several(texts),
    context=texts,
    searches=several(searches),
)
costs = st.builds(
    CostEntry,
    st.sampled_from(["synthesis", "rerank", "hyde", "transform", "embed"]),
    texts,
    texts,
    st.builds(Tokens, st.none() | st.integers(1, 10**9), st.none() | counts),
    st.none() | st.decimals(0, 10**6, places=12),
)
remote = st.builds(RemoteSource, texts, texts, texts, texts, scores, maybe, objects)
places = st.tuples(texts, texts)
stages = st.builds(StageTrace, texts, st.floats(0, 1e9), st.dictionaries(texts, counts, max_size=2), several(places))
traces = st.builds(
    RetrievalTrace,
    stages=several(stages),
    left=several(st.builds(DroppedCandidate, texts, texts, texts, texts)),
    queries=st.dictionaries(texts, texts, max_size=2),
    hyde=several(texts),
    models=st.dictionaries(texts, texts, max_size=2),
    cache=st.sampled_from([None, "hit", "miss"]),
    warnings=several(texts),
)
labels = st.dictionaries(texts, st.dictionaries(texts, texts, max_size=2), max_size=2)
packages = st.builds(
    ContextPackage,
    request=requests,
    profile=texts,
    candidates=several(candidates),
    remote_sources=several(remote),
    source_labels=labels,
    costs=several(costs),
    degraded=several(texts),
    trace=traces,
    **dict.fromkeys(["package_id", "context_block", "starting_prompt", "conversation_id", "previous"], maybe),
)
citations = st.builds(Citation, texts, maybe, maybe, maybe, st.none() | counts, maybe, texts, maybe, maybe)
responses = st.builds(
    QueryResponse,
    status=st.sampled_from(["ok", "empty"]),
    answer=maybe,
    citations=several(citations),
    supported=several(st.none() | st.floats(0, 1)),
    unknown_labels=several(texts),
    unreadable_labels=several(texts),
    package=packages,
    conversation_id=maybe,
    response_id=maybe,
)


@given(st.one_of(filters, breakdowns, citations, traces, costs, remote, requests, packages, responses))
def test_every_type_comes_back_as_it_was(value: Any) -> None:
    """Equal, and written alike again."""
    written = to_json(value)
    again = from_json(type(value), written)
    assert again == value
    assert to_json(again) == written


@pytest.mark.parametrize(
    "kind",
    [
        Citation,
        ContextPackage,
        CorpusSearch,
        QueryRequest,
        QueryResponse,
        RetrievalTrace,
        StageTrace,
        Turn,
        DroppedCandidate,
    ],
)
def test_every_type_has_defaults_and_refuses_what_it_does_not_know(kind: type[Any]) -> None:
    """Nothing need be given, and nothing else can be."""
    assert from_json(kind, b"{}") == kind()
    with pytest.raises(ValidationError, match="nonsense"):
        from_json(kind, b'{"nonsense": 1}')
