from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_client.contract.jobs import RetrieveTopK
from worker.queue.summaries import summarise

CANARY = "canary-4711"


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ([{"k": 12, "query_embedding": [0.1]}], "(k, query_embedding)"),
        (({"query_embedding": [0.1], "k": 12},), "(k, query_embedding)"),
        ([{"k": 12, CANARY: 1, "x": 2}], "(k, +2)"),
        ([{CANARY: 1}], "(+1)"),
        ([{}], "()"),
        ([], "(no job)"),
        ([CANARY], "(no job)"),
        ([[CANARY]], "(no job)"),
        (None, "(no job)"),
        (CANARY, "(no job)"),
        ({CANARY: 1}, "(no job)"),
        (5, "(no job)"),
    ],
    ids=repr,
)
def test_arguments_are_shown_as_the_names_of_known_fields(args: Any, shown: str) -> None:
    """Names that the contract knows, sorted; of all others only how many there are."""
    assert summarise(args) == shown


texts = st.text(st.characters(), max_size=5).map(lambda text: CANARY + text)
values = st.recursive(
    texts | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8
)


@settings(max_examples=30)
@given(st.lists(st.dictionaries(texts | st.sampled_from([*RetrieveTopK.model_fields]), values) | values, max_size=3))
def test_a_summary_never_shows_a_value(args: list[Any]) -> None:
    """A summary of any arguments holds none of the job's values."""
    assert CANARY not in summarise(args)
    assert len(summarise(args)) < 200
