from __future__ import annotations

import dataclasses
import math
import random
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.ranking.fusion import (
    FUSIONS,
    MISREAD,
    OTHER_WEIGHT,
    RRF_K,
    USUAL_WORDS,
    RankedLeg,
    identity,
    min_max,
    rrf,
    similarity,
    weighted,
    weights_used,
)
from worker.core.ranking.total_order import id_key
from worker.model import Candidate, Chunk, LegScore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.core.ranking.fusion import Fusion

NAMES = ["primary", "contextual", "sparse"]
# Few values, so that ties are the rule; of a grid on which differences are exact, so that a rounding error is none.
scores = st.integers(-8, 8).map(lambda number: number / 8)
lists = st.dictionaries(st.integers(1, 9).map(str), scores, max_size=9)
searches = st.lists(lists, min_size=1, max_size=3)
weights = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 10).map(lambda number: number / 10))
methods = pytest.mark.parametrize("fuse", FUSIONS.values(), ids=FUSIONS.keys())


def candidate(chunk_id: str, score: float | None = None, corpus: str = "") -> Candidate:
    return Candidate(Chunk(chunk_id, "d", "text", None, None, None, {}, f"sha256:{chunk_id}", 1), score, corpus=corpus)


def leg(name: str, found: Mapping[str, float], corpus: str = "") -> RankedLeg:
    """A dense leg: its scores are the similarities."""
    pairs = [(candidate(chunk_id, score, corpus), score) for chunk_id, score in found.items()]
    return RankedLeg.scored(name, pairs, id_key("bigint"))


def legs(found: Sequence[Mapping[str, float]]) -> list[RankedLeg]:
    return [leg(name, one) for name, one in zip(NAMES, found, strict=False)]


def scored(
    name: str, found: Mapping[str, float], others: Mapping[str, float] | None = None, usual: float | None = None
) -> RankedLeg:
    """A leg that also knows its scores of what others list."""
    known = {("", chunk_id): score for chunk_id, score in (others or {}).items()}
    return dataclasses.replace(leg(name, found), unlisted=known, usual=usual)


def ids(candidates: Sequence[Candidate]) -> list[str]:
    return [one.chunk.id for one in candidates]


def fused(candidates: Sequence[Candidate]) -> dict[str, float | None]:
    return {one.chunk.id: one.scores.fused for one in candidates}


# --- examples -----------------------------------------------------------------------------------

PRIMARY = {"1": 0.95, "2": 0.90, "3": 0.85}
CONTEXTUAL = {"2": 0.88, "4": 0.87, "5": 0.82}


def test_similarity_merges_as_the_guide_does() -> None:
    """The primary's score of a duplicate wins, and everything is ordered by similarity."""
    merged = similarity([leg("primary", PRIMARY), leg("contextual", CONTEXTUAL)])
    assert [(one.chunk.id, one.similarity, one.scores.fused) for one in merged] == [
        ("1", 0.95, 0.95),
        ("2", 0.90, 0.90),
        ("4", 0.87, 0.87),
        ("3", 0.85, 0.85),
        ("5", 0.82, 0.82),
    ]
    assert merged[1].scores.legs == (LegScore("primary", 0.90, 2), LegScore("contextual", 0.88, 1))


def test_rrf_is_the_papers_formula() -> None:
    """Cormack 2009: the sum of 1 / (60 + rank) over the lists that have it, ranks from 1."""
    expected = {
        "2": Fraction(1, 62) + Fraction(1, 61),
        "1": Fraction(1, 61),
        "4": Fraction(1, 62),
        "3": Fraction(1, 63),
        "5": Fraction(1, 63),
    }
    merged = rrf([leg("primary", PRIMARY), leg("contextual", CONTEXTUAL)])
    assert ids(merged) == list(expected)  # 3 and 5 are equal: the primary's is first
    assert fused(merged) == pytest.approx({key: float(value) for key, value in expected.items()}, rel=1e-15)


def test_rrf_takes_weights() -> None:
    """Each leg's share is multiplied; a leg without a weight counts once."""
    merged = rrf([leg("primary", PRIMARY), leg("contextual", CONTEXTUAL)], {"contextual": 0.5})
    assert fused(merged)["2"] == pytest.approx(float(Fraction(1, 62) + Fraction(1, 122)), rel=1e-15)
    assert fused(merged)["4"] == pytest.approx(float(Fraction(1, 124)), rel=1e-15)


def test_rrf_takes_another_constant() -> None:
    """The smaller it is, the more the first ranks count."""
    merged = rrf([leg("primary", PRIMARY)], rrf_k=1)
    assert fused(merged)[ids(merged)[0]] == pytest.approx(1 / 2, rel=1e-15)


@pytest.mark.parametrize("name", ["contextual", "context"])
@pytest.mark.parametrize(("best", "share"), [(0.45, 0.0), (0.5, 0.0), (0.55, 0.5), (0.6, 1.0), (0.9, 1.0)])
def test_a_context_counts_by_how_much_nearer_it_brings_the_query(name: str, best: float, share: float) -> None:
    """The leg has the whole default weight from 0.1 of similarity on, and none where nothing is nearer than before."""
    lists = [leg("dense", {"1": 0.5, "2": 0.25}), leg(name, {"3": best, "4": 0.125})]
    assert weights_used("weighted", lists, {}) == pytest.approx({"dense": 0.7, name: OTHER_WEIGHT * share})


def test_a_weight_that_is_named_counts_in_full() -> None:
    """A context that brings nothing near is ranked as the caller wants it."""
    lists = [leg("primary", {"1": 0.5, "2": 0.25}), leg("contextual", {"3": 0.3, "4": 0.2})]
    assert weights_used("weighted", lists, {"contextual": 1}) == {"primary": 0.7, "contextual": 1}


@pytest.mark.parametrize(("method", "weight"), [("weighted", 0.7), ("rrf", 1.0)])
def test_legs_that_are_left_without_any_weight_have_their_defaults(method: str, weight: float) -> None:
    """The context, which alone had one, may have no keywords, or fail."""
    ranked = leg("primary", {"1": 0.5, "2": 0.25})
    weights = {"primary": 0, "contextual": 1}
    assert weights_used(method, [ranked], weights) == {"primary": weight}
    assert [candidate.scores.fused for candidate in FUSIONS[method]([ranked], weights, RRF_K)] != [0, 0]


@pytest.mark.parametrize("others", [[], [leg("primary", {})], [leg("sparse", {"1": 0.9})]])
def test_a_context_has_its_whole_weight_where_no_vector_leg_can_be_compared(others: list[RankedLeg]) -> None:
    """Words have scores of another unit."""
    lists = [*others, leg("contextual", {"3": 0.3, "4": 0.2})]
    assert weights_used("weighted", lists, {})["contextual"] == OTHER_WEIGHT


def test_a_context_is_compared_over_all_corpora() -> None:
    """A corpus in which nothing is near does not decide for the others."""
    lists = [leg("dense", {"1": 0.5}, "a"), leg("dense", {"1": 0.1}, "b"), leg("context", {"2": 0.1}, "a")]
    lists.append(leg("context", {"3": 0.55, "4": 0.2}, "b"))
    assert weights_used("weighted", lists, {})["context"] == pytest.approx(OTHER_WEIGHT / 2)


def test_weighted_compares_every_candidate_by_every_leg() -> None:
    """A leg's score of a chunk that only another leg lists counts as one of its own."""
    primary = scored("primary", {"1": 0.5, "2": 0.4}, {"3": 0.3})
    sparse = scored("sparse", {"3": 4.0, "2": 2.0}, {"1": 0.0})
    merged = weighted([primary, sparse], {"primary": 0.5, "sparse": 0.5})
    step = math.sqrt(1.5) / 2  # one of three equal steps is so many deviations
    assert fused(merged) == pytest.approx({"1": 0.0, "2": 0.0, "3": 0.0}, abs=1e-12)
    assert fused(weighted([primary, sparse], {"primary": 0.6, "sparse": 0.4})) == pytest.approx(
        {"1": 0.4 * step, "2": 0.0, "3": -0.4 * step}
    )
    assert merged[0].scores.legs == (LegScore("primary", 0.5, 1), LegScore("sparse", 0.0, 3))
    assert merged[2].scores.legs == (LegScore("primary", 0.3, 3), LegScore("sparse", 4.0, 1))


def test_a_leg_that_tells_nothing_apart_counts_little() -> None:
    """By the usual deviation, small differences stay small; by their own, they would count like any."""
    primary = scored("primary", {"1": 0.41, "2": 0.4}, usual=0.1)
    sparse = scored("sparse", {"2": 2.0, "1": 1.0}, usual=1.0)
    assert ids(weighted([primary, sparse])) == ["2", "1"]
    assert ids(weighted([scored("primary", {"1": 0.41, "2": 0.4}), scored("sparse", {"2": 2.0, "1": 1.0})])) == [
        "1",
        "2",
    ]


def test_a_wider_usual_deviation_of_one_corpus_makes_its_similarities_count_less() -> None:
    """Of a language that the embedder does not know; those of another corpus count as ever."""
    primary = [scored("primary", {"1": 0.5, "2": 0.3}, usual=0.1), scored("primary", {"3": 0.5, "4": 0.3}, usual=0.5)]
    assert fused(weighted(primary, {"primary": 1.0})) == pytest.approx({"1": 1.0, "3": 0.2, "4": -0.2, "2": -1.0})


def test_words_decide_where_the_embedder_does_not_know_the_language() -> None:
    """A chunk with a rare word of the query is before the nearest one, which is first elsewhere."""
    similarities, word = {"nearest": 0.6, "worded": 0.45}, {"worded": 3.0}
    for usual, first in ((0.07, "nearest"), (0.07 * MISREAD, "worded")):
        primary = RankedLeg.dense("primary", [candidate(*pair) for pair in similarities.items()], usual=usual)
        pairs = [(candidate(chunk_id, score), score) for chunk_id, score in word.items()]
        sparse = dataclasses.replace(RankedLeg.scored("sparse", pairs, str), unlisted={("", "nearest"): 0.0})
        assert ids(weighted([primary, dataclasses.replace(sparse, usual=USUAL_WORDS)]))[0] == first


def test_a_corpus_where_nothing_was_found_changes_no_other() -> None:
    """Nor one with none of the query's words, whose scores say nothing of how rare these are."""
    primary = scored("primary", {"1": 0.6, "2": 0.4}, usual=0.1)
    sparse = scored("sparse", {"2": 2.0, "1": 1.0}, usual=1.0)
    alone = fused(weighted([primary, sparse]))
    nothing, zero = leg("sparse", {}, "empty"), dataclasses.replace(sparse, candidates=(), scores=(), usual=0.5)
    wordless = dataclasses.replace(zero, unlisted={("wordless", "9"): 0.0})
    for others in ([nothing], [wordless], [zero]):
        for legs_of_words in ([sparse, *others], [*others, sparse]):
            assert fused(weighted([primary, *legs_of_words])) == alone


def test_a_chunk_with_the_whole_query_counts_more() -> None:
    """An identifier stands in one chunk, and vectors prefer another."""
    primary = scored("primary", {"1": 0.6, "2": 0.4}, usual=0.1)
    sparse = scored("sparse", {"2": 2.0, "1": 1.0}, usual=1.0)
    assert ids(weighted([primary, sparse])) == ["1", "2"]
    whole = dataclasses.replace(sparse, coverage={("", "2"): 1.0, ("", "1"): 0.25})
    assert ids(weighted([primary, whole])) == ["2", "1"]


def test_a_chunk_without_a_score_counts_as_the_lowest_of_its_leg() -> None:
    """As one without an embedding, or what another search has removed meanwhile."""
    merged = weighted([scored("primary", {"1": 0.5, "2": 0.25}), scored("sparse", {"3": 1.0}, {"1": 0.0, "2": 0.0})])
    assert fused(merged)["2"] == pytest.approx(fused(merged)["3"] - 0.3 * 3 / math.sqrt(2))  # type: ignore[operator] -- it has a score


@pytest.mark.parametrize(
    ("values", "normalised"),
    [([], []), ([0.3], [1.0]), ([-2.0, -2.0], [1.0, 1.0]), ([30.0, 20.0, 10.0], [1.0, 0.5, 0.0])],
)
def test_equal_scores_are_all_the_best_of_their_leg(values: list[float], normalised: list[float]) -> None:
    """A leg with one hit says as much for it as a leg says for its first of many."""
    assert min_max(values) == normalised


@methods
def test_equal_values_come_in_the_order_of_the_legs(fuse: Fusion) -> None:
    """The primary's first, then the rank: the id decides only inside a leg."""
    merged = fuse([leg("one", {"9": 0.5}), leg("two", {"2": 0.5, "1": 0.5})])
    assert ids(merged) == ["9", "1", "2"]


@methods
def test_one_id_in_two_corpora_is_two_chunks(fuse: Fusion) -> None:
    """Ids are unique within a corpus only; legs over several corpora may share a name."""
    merged = fuse([leg("primary", {"1": 0.5}, "docs"), leg("primary", {"1": 0.5}, "examples")], {})
    assert [identity(one) for one in merged] == [("docs", "1"), ("examples", "1")]
    assert [len(one.scores.legs) for one in merged] == [1, 1]


def test_what_one_leg_does_not_know_another_may() -> None:
    """A full-text search compares no vectors: the similarity is that of the first leg that did."""
    vector = np.ones(2, dtype=np.float32)
    known = dataclasses.replace(candidate("1", 0.5), embedding=vector)
    sparse = RankedLeg("sparse", (candidate("1"), candidate("2")), (0.3, 0.1))
    merged = rrf([sparse, RankedLeg.dense("primary", [known])])
    assert [one.similarity for one in merged] == [0.5, None]
    assert merged[0].embedding is vector


def test_an_unknown_similarity_is_merged_last() -> None:
    """A chunk found by its words alone has no similarity to be merged by, so it comes last."""
    sparse = RankedLeg("sparse", (candidate("7"), candidate("1")), (0.3, 0.1))
    merged = similarity([sparse, leg("primary", {"1": -1.0, "2": -0.5})])
    assert [(one.chunk.id, one.scores.fused) for one in merged] == [("2", -0.5), ("1", -1.0), ("7", None)]


def test_a_dense_leg_has_only_what_it_compared() -> None:
    """Its scores are the similarities."""
    dense = RankedLeg.dense("primary", [candidate("1", 0.5), candidate("2")])
    assert (ids(dense.candidates), dense.scores) == (["1"], (0.5,))


@pytest.mark.parametrize(
    ("chunk_ids", "values"),
    [(["1"], ()), ([], (1.0,)), (["1"], (float("nan"),)), (["1"], (float("inf"),)), (["1", "1"], (1.0, 0.5))],
)
def test_a_leg_that_is_no_ranked_list_is_refused(chunk_ids: list[str], values: tuple[float, ...]) -> None:
    """One finite score a candidate, each chunk once: anything else would have no total order."""
    with pytest.raises(ValueError, match="leg odd: expected"):
        RankedLeg("odd", tuple(map(candidate, chunk_ids)), values)


# --- properties ---------------------------------------------------------------------------------


@methods
@given(found=searches, given_weights=weights, seed=st.integers(0, 99))
def test_no_order_of_the_input_changes_anything(
    fuse: Fusion, found: list[dict[str, float]], given_weights: dict[str, float], seed: int
) -> None:
    """Rows in any order, weights in any order: the same list, scores and all, to the last bit."""
    chance = random.Random(seed)

    def shuffled(values: dict[str, float]) -> dict[str, float]:
        return dict(chance.sample(list(values.items()), len(values)))

    assert fuse(legs([shuffled(one) for one in found]), shuffled(given_weights)) == fuse(legs(found), given_weights)


@pytest.mark.parametrize("fuse", [rrf, weighted])
@given(found=searches, given_weights=weights, seed=st.integers(0, 99))
def test_the_order_of_the_legs_decides_only_between_equals(
    fuse: Fusion, found: list[dict[str, float]], given_weights: dict[str, float], seed: int
) -> None:
    """A sum is the same to the last bit whichever leg comes first."""
    in_order = legs(found)
    other = random.Random(seed).sample(in_order, len(in_order))
    assert fused(fuse(other, given_weights)) == fused(fuse(in_order, given_weights))


def test_a_sum_has_one_value_in_any_order() -> None:
    """1/61 + 1/61 + 1/62 from left to right is not 1/62 + 1/61 + 1/61: the sum is made before it is rounded."""
    in_order = legs([{"1": 0.5}, {"1": 0.5}, {"2": 0.75, "1": 0.5}])
    assert 1 / 61 + 1 / 61 + 1 / 62 != 1 / 62 + 1 / 61 + 1 / 61
    assert len({fused(rrf(other))["1"] for other in permutations(in_order)}) == 1


@methods
@given(found=searches, given_weights=weights)
def test_the_order_is_total_and_nothing_is_lost(
    fuse: Fusion, found: list[dict[str, float]], given_weights: dict[str, float]
) -> None:
    """Each chunk once; fused values fall; equals stand as the first leg that has them does."""
    merged = fuse(legs(found), given_weights)
    assert sorted(ids(merged)) == sorted(set().union(*found))

    def key(one: Candidate) -> tuple[float, int, int]:
        first = one.scores.legs[0]
        assert one.scores.fused is not None
        return -one.scores.fused, NAMES.index(first.leg), first.rank

    keys = [key(one) for one in merged]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@methods
@given(found=searches, given_weights=weights)
def test_what_the_legs_said_is_kept(
    fuse: Fusion, found: list[dict[str, float]], given_weights: dict[str, float]
) -> None:
    """Every leg's score and rank, and the similarity of the first leg that found it."""
    in_order = legs(found)
    for one in fuse(in_order, given_weights):
        said = [
            LegScore(leg.name, score, rank)
            for leg in in_order
            for rank, (other, score) in enumerate(zip(leg.candidates, leg.scores, strict=True), 1)
            if other.chunk.id == one.chunk.id
        ]
        assert list(one.scores.legs) == said
        assert one.similarity == said[0].score


@methods
@given(found=lists, given_weights=weights)
def test_an_empty_leg_costs_nothing(fuse: Fusion, found: dict[str, float], given_weights: dict[str, float]) -> None:
    """An empty editor: the primary alone, in its own order."""
    alone = fuse([leg("primary", found)], given_weights)
    assert fuse([leg("primary", found), leg("contextual", {})], given_weights) == alone
    assert fuse([leg("contextual", {}), leg("primary", found)], given_weights) == alone


def weighted_as_usual(legs: Sequence[RankedLeg], weights: Mapping[str, float]) -> list[Candidate]:
    """By deviations that do not depend on the candidates: one that rises would else bring others closer together."""
    return weighted([dataclasses.replace(one, usual=0.5) for one in legs], weights)


@pytest.mark.parametrize("fuse", [similarity, rrf, weighted_as_usual])
@given(found=st.lists(st.dictionaries(st.integers(1, 9).map(str), scores, min_size=1), min_size=1, max_size=3),
       given_weights=weights, data=st.data())  # fmt: skip
def test_a_better_place_in_a_leg_is_never_a_worse_one_in_the_end(
    fuse: Fusion, found: list[dict[str, float]], given_weights: dict[str, float], data: st.DataObject
) -> None:
    """Raising a chunk's score in one leg, and with it its rank, lets no other chunk pass it."""
    which = data.draw(st.integers(0, len(found) - 1))
    chunk_id = data.draw(st.sampled_from(sorted(found[which])))
    raised = [dict(one) for one in found]
    raised[which][chunk_id] = data.draw(scores.filter(lambda score: score >= found[which][chunk_id]))
    before = ids(fuse(legs(found), given_weights))
    after = ids(fuse(legs(raised), given_weights))
    behind = before[before.index(chunk_id) :]
    assert set(after[: after.index(chunk_id)]).isdisjoint(behind)


def test_lists_of_one_leg_over_several_corpora_are_scaled_together() -> None:
    """A corpus with nothing near does not get a first place for its best."""
    near = RankedLeg("dense", tuple(candidate(name) for name in "ab"), (0.9, 0.5))
    far = RankedLeg("dense", tuple(candidate(name) for name in "cd"), (0.2, 0.1))
    lists = [dataclasses.replace(one, usual=0.1) for one in (near, far)]
    assert fused(weighted(lists, {"dense": 1.0})) == pytest.approx({"a": 4.75, "b": 0.75, "c": -2.25, "d": -3.25})
