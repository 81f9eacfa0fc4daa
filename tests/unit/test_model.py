from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from worker.model import NO_FILTERS, Candidate, Chunk, FilterSet, LegScore, Principal, ScoreBreakdown

LISTS = ["document_ids", "sections", "pages", "path_contains", "ext_allow", "ext_deny"]


@pytest.mark.parametrize("name", [*LISTS, "metadata"])
def test_an_empty_filter_is_given(name: str) -> None:
    """`[]` and `{}` are filters; only the absence of all is none."""
    assert FilterSet(**{name: () if name in LISTS else {}}).given
    assert not NO_FILTERS.given


@pytest.mark.parametrize("value", [NO_FILTERS, Principal()], ids=lambda value: type(value).__name__)
def test_the_vocabulary_is_frozen(value: FilterSet | Principal) -> None:
    """Values that one layer hands to the next can't be changed on the way."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)


def test_nobody_asks_by_default() -> None:
    """A principal without claims owns nothing and states nothing."""
    assert (Principal().owner, Principal().settings, dict(Principal().claims)) == ("", (), {})


CHUNK = Chunk("c1", "d1", "text", None, None, None, {}, "sha256:1", 1)


def test_a_candidate_is_the_same_with_and_without_its_vector() -> None:
    """A vector is fetched only where a refinement needs it: it decides nothing, and is never shown."""
    bare = Candidate(CHUNK, 0.5)
    fetched = dataclasses.replace(bare, embedding=np.ones(3, dtype=np.float32))
    assert fetched == bare
    assert repr(fetched) == repr(bare)


@pytest.mark.parametrize(("similarity", "distance"), [(1.0, 0.0), (-1.0, 2.0), (0.75, 0.25), (None, None)])
def test_distance_is_one_minus_similarity(similarity: float | None, distance: float | None) -> None:
    """And unknown where the similarity is."""
    assert Candidate(CHUNK, similarity).distance == distance


def test_scores_have_the_contracts_form() -> None:
    """`dataclasses.asdict` gives the object that a result shows beside each chunk."""
    scores = ScoreBreakdown((LegScore("primary", 0.9, 1), LegScore("contextual", 0.8, 2)), fused=0.5)
    assert json.loads(json.dumps(dataclasses.asdict(scores))) == {
        "legs": [{"leg": "primary", "score": 0.9, "rank": 1}, {"leg": "contextual", "score": 0.8, "rank": 2}],
        "fused": 0.5,
        "rerank": None,
        "temporal": None,
    }
