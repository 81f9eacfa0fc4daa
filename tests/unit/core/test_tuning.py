from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.ranking.tuning import Example, LegList, Quality, _distance, tune

METHODS = ["weighted", "rrf"]
lists = st.permutations("abcde").map(lambda ids: ids[:4])
examples = st.lists(st.tuples(lists, lists, st.sets(st.sampled_from("abcdex"), max_size=2)), max_size=4)


def example(primary: str, contextual: str, used: str) -> Example:
    """Scores fall evenly from 1."""
    legs = [(name, tuple(ids)) for name, ids in (("primary", primary), ("contextual", contextual))]
    return Example(
        tuple(LegList(name, ids, tuple(1.0 - place / 8 for place in range(len(ids)))) for name, ids in legs),
        frozenset(used),
    )


def made(found: list[tuple[list[str], list[str], set[str]]]) -> list[Example]:
    return [
        example("".join(primary), "".join(contextual), "".join(sorted(used))) for primary, contextual, used in found
    ]


@pytest.mark.parametrize("method", METHODS)
def test_weight_goes_where_the_used_chunks_are(method: str) -> None:
    """The contextual leg has it first, the primary last: the nearest weights that put it first are proposed."""
    proposal = tune([example("abc", "xyz", "x")], {"primary": 0.8, "contextual": 0.4}, method=method, k=3)
    assert proposal.weights["contextual"] > proposal.weights["primary"]
    assert proposal.before.ndcg is not None
    assert proposal.before.ndcg < 1.0
    assert proposal.after == Quality(1.0, 1.0)


def test_of_equally_good_weights_the_nearest_are_proposed() -> None:
    """0.5 and 0.5 would leave the primary's first ahead; one step further is as good as the rest of the way."""
    proposal = tune([example("abc", "xyz", "x")], {"primary": 0.8, "contextual": 0.4}, k=3, steps=20)
    assert proposal.weights == {"contextual": 0.55, "primary": 0.45}


def test_the_nearest_weights_are_so_by_their_shares() -> None:
    """11 to 9 is 0.55 to 0.45: the next that put b before x are 0.7 to 0.3, and not the farthest from the nines."""
    proposal = tune([example("abc", "xyz", "b")], {"primary": 11.0, "contextual": 9.0}, k=2, steps=20)
    assert proposal.weights == {"contextual": 0.3, "primary": 0.7}


def test_no_rounding_error_chooses_between_equally_near_weights() -> None:
    """One step to either side is the same distance."""
    assert _distance((0.5, 0.5), (0.6, 0.4)) == _distance((0.7, 0.3), (0.6, 0.4))


def test_a_default_weight_is_judged_as_each_search_used_it() -> None:
    """The contextual leg, no nearer than the primary, had no weight: what looks best with it was not so before."""
    one, current = example("abc", "xyz", "x"), {"primary": 0.8, "contextual": 1.0}
    assert tune([one], current, k=1).before == Quality(1.0, 1.0)
    fitted = tune([one], current, k=1, fitted={"contextual"})
    assert fitted.before == Quality(0.0, 0.0)
    assert fitted.after == Quality(1.0, 1.0)


def test_recall_decides_between_equal_ndcg() -> None:
    """Either leg first is right in one of two; the primary's one is all of what was used, the other's a half."""
    found = [example("abc", "xyz", "a"), example("abc", "xyz", "xy")]
    proposal = tune(found, {"primary": 0.4, "contextual": 0.6}, k=1, steps=20)
    assert proposal.weights == {"contextual": 0.5, "primary": 0.5}  # equal values: the earlier leg is first
    assert (proposal.before, proposal.after) == (Quality(0.5, 0.25), Quality(0.5, 0.5))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "found", [[], [example("abc", "xyz", "")], [example("abc", "", "a")], [example("abc", "abc", "a")]]
)
def test_without_evidence_nothing_moves(method: str, found: list[Example]) -> None:
    """No feedback, feedback without a used chunk, or legs that agree: the current weights, as they are."""
    current = {"primary": 3.0, "contextual": 1.0}
    proposal = tune(found, current, method=method)
    assert proposal.weights == {name: current[name] for one in found[:1] for name in ("contextual", "primary")}
    assert proposal.before == proposal.after


def test_without_current_weights_the_methods_defaults_are_compared() -> None:
    """0.7 and 0.4 for scores, the same for all for ranks."""
    agreed = [example("abc", "abc", "a")]
    assert tune(agreed, {}).weights == {"primary": 0.7, "contextual": 0.4}
    assert tune(agreed, {}, method="rrf").weights == {"primary": 1.0, "contextual": 1.0}


@pytest.mark.parametrize("method", METHODS)
@given(found=examples, primary=st.integers(0, 10), seed=st.integers(0, 99))
def test_a_proposal_is_never_worse_and_never_by_chance(
    method: str, found: list[tuple[list[str], list[str], set[str]]], primary: int, seed: int
) -> None:
    """Proposed weights never score below the present ones, and are the same for any order of examples and weights."""
    current = {"primary": primary / 10, "contextual": 1 - primary / 10}
    proposal = tune(made(found), current, method=method, k=3, steps=5)
    shuffled = random.Random(seed).sample(made(found), len(found))
    assert tune(shuffled, dict(reversed(current.items())), method=method, k=3, steps=5) == proposal
    before, after = ((quality.ndcg or 0.0, quality.recall or 0.0) for quality in (proposal.before, proposal.after))
    assert after >= before
    if after == before:
        assert proposal.weights.items() <= current.items()
    else:
        assert math.fsum(proposal.weights.values()) == pytest.approx(1.0)


def test_three_legs_are_weighed_too() -> None:
    """Only the third leg has what was used first."""
    scores = (1.0, 0.5, 0.0)
    legs = [LegList(name, tuple(ids), scores) for name, ids in (("primary", "abc"), ("contextual", "bca"))]
    proposal = tune([Example((*legs, LegList("sparse", ("x", "y", "z"), scores)), frozenset("x"))], {}, k=1, steps=10)
    assert proposal.after == Quality(1.0, 1.0)
    assert proposal.weights["sparse"] > max(proposal.weights["primary"], proposal.weights["contextual"])
