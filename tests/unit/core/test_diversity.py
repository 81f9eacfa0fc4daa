from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.ranking.diversity import (
    cut,
    diversified,
    marginal_order,
    per_corpus,
    per_document,
    stacked,
    with_text,
    without_duplicates,
)
from worker.model import Candidate, Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.core.ranking.diversity import Selection


def candidate(name: str, document: str = "d", text: str = "", corpus: str = "") -> Candidate:
    chunk = Chunk(name, document, text or name, None, None, None, {}, f"sha256:{text or name}", 1)
    return Candidate(chunk, 0.5, corpus=corpus)


def kept(selection: Selection) -> list[str]:
    return [one.chunk.id for one in selection.candidates]


def dropped(selection: Selection) -> list[tuple[str, str]]:
    return [(one.candidate.chunk.id, one.reason) for one in selection.dropped]


# --- maximal marginal relevance -----------------------------------------------------------------

# Unit vectors whose cosines are round; the query is (1, 0, 0), so that each relevance is the first component.
VECTORS = {"A": (0.8, 0.6, 0), "B": (0.8, 0.6, 0), "C": (0.6, -0.8, 0), "D": (0.8, -0.6, 0), "F": (0.6, 0, 0.8)}


def chosen(names: str, lambda_: float) -> str:
    vectors = np.array([VECTORS[name] for name in names])
    return "".join(names[place] for place in marginal_order(vectors[:, 0], vectors, lambda_))


@pytest.mark.parametrize(
    ("names", "lambda_", "order"),
    [
        # 1: A 0.40 (B too, later). 2: B 0.4 - 0.5 * 1 = -0.1, C 0.3 - 0.5 * 0 = 0.3.
        ("ABC", 0.5, "ACB"),
        # 2: B 0.56 - 0.3 * 1 = 0.26, C 0.42 - 0.3 * 0 = 0.42, D 0.56 - 0.3 * 0.28 = 0.476, F 0.42 - 0.3 * 0.48 = 0.276.
        # 3: B 0.26 (like A, not only like D: 0.28), C 0.42 - 0.3 * 0.96 = 0.132, F 0.42 - 0.3 * 0.48 = 0.276.
        # 4: B 0.26, C 0.132.
        ("ABCDF", 0.7, "ADFBC"),
        # Relevance alone: the incoming order breaks ties.
        ("ABCDF", 1.0, "ABDCF"),
        # Novelty alone. 1: the first. 2: C 0 (B -1, D -0.28, F -0.48). 3: F -0.48 (B -1, D -0.96). 4: D -0.96.
        ("ABCDF", 0.0, "ACFDB"),
    ],
)
def test_mmr_is_the_papers_formula(names: str, lambda_: float, order: str) -> None:
    """Carbonell 1998: the highest of lambda * relevance - (1 - lambda) * (highest cosine to what was chosen)."""
    assert chosen(names, lambda_) == order


@pytest.mark.parametrize("scale", [1e-30, 1e20])
def test_the_length_of_a_vector_is_nothing(scale: float) -> None:
    """Only the direction counts, also where a float32 could not square it."""
    vectors = np.array(list(VECTORS.values()), dtype=np.float32)
    alike = np.ones(5)
    assert [*marginal_order(alike, vectors * np.float32(scale), 0.3)] == [*marginal_order(alike, vectors, 0.3)]


def test_a_candidate_without_a_vector_is_like_nothing() -> None:
    """It is neither punished nor in anyone's way."""
    vectors = np.array([(1.0, 0.0), (0.0, 0.0), (1.0, 0.0)])
    assert [*marginal_order(np.array([1.0, 0.9, 1.0]), vectors, 0.5)] == [0, 1, 2]


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_every_choice_is_the_best_there_was(n: int, seed: int, lambda_: float) -> None:
    """By the formula, computed from scratch for each choice."""
    chance = np.random.default_rng(seed)
    vectors, relevance = chance.normal(size=(n, 4)), chance.random(n)

    def cosine(i: int, j: int) -> float:
        return float(vectors[i] @ vectors[j]) / math.hypot(*vectors[i]) / math.hypot(*vectors[j])

    def marginal(i: int, before: Sequence[int]) -> float:
        return lambda_ * float(relevance[i]) - (1 - lambda_) * max((cosine(i, j) for j in before), default=0.0)

    order = [*marginal_order(relevance, vectors, lambda_)]
    assert sorted(order) == [*range(n)]
    for place, choice in enumerate(order):
        before, rest = order[:place], order[place:]
        assert marginal(choice, before) >= max(marginal(i, before) for i in rest) - 1e-12


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_the_incoming_order_decides_only_between_equals(n: int, seed: int) -> None:
    """Another order of the same candidates gives the same choice: no sum depends on where a row stands."""
    chance = np.random.default_rng(seed)
    vectors, relevance = chance.normal(size=(n, 768)).astype(np.float32), chance.random(n)
    other = chance.permutation(n)
    there = marginal_order(relevance[other], vectors[other], 0.5)
    assert [other[place] for place in there] == [*marginal_order(relevance, vectors, 0.5)]


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_equals_come_in_their_incoming_order(n: int, seed: int) -> None:
    """The same vector many times over, with the same relevance: a rounding error never reorders them."""
    vectors = np.tile(np.random.default_rng(seed).normal(size=768), (n, 1))
    assert [*marginal_order(np.full(n, 0.3), vectors, 0.7)] == [*range(n)]


def test_vectors_are_stacked_in_order() -> None:
    """Zeros stand where there is none."""
    having = dataclasses.replace(candidate("a"), embedding=np.array([1, 2], dtype=np.float32))
    assert stacked([candidate("b"), having]).tolist() == [[0.0, 0.0], [1.0, 2.0]]
    assert stacked([candidate("b")]).shape == (1, 0)
    assert stacked([]).shape == (0, 0)
    assert [*marginal_order(np.ones(1), stacked([candidate("b")]), 0.5)] == [0]


# --- caps, duplicates, the cut ------------------------------------------------------------------


def test_at_most_so_many_of_a_document() -> None:
    """The best of each stay; a document is one of a corpus."""
    found = [candidate(name, document) for name, document in zip("abcdef", "xxyxyx", strict=True)]
    other = candidate("g", "x", corpus="examples")
    selection = per_document([*found, other], 2)
    assert kept(selection) == ["a", "b", "c", "e", "g"]
    assert dropped(selection) == [("d", "capped"), ("f", "capped")]


def test_the_first_of_several_that_say_the_same_stays() -> None:
    """Wherever the others stand."""
    found = [candidate("a", text="hum"), candidate("b", "e", "hum"), candidate("c"), candidate("d", text="hum")]
    selection = without_duplicates(found)
    assert (kept(selection), dropped(selection)) == (["a", "c"], [("b", "duplicate"), ("d", "duplicate")])


def test_at_most_so_many_of_a_corpus_that_has_a_bound() -> None:
    """Corpora without one, or with 0, keep all."""
    candidates = [candidate(f"{corpus}{i}", corpus=corpus) for i in range(3) for corpus in "abc"]
    selection = per_corpus(candidates, {"a": 1, "b": 0})
    assert kept(selection) == ["a0", "b0", "c0", "b1", "c1", "b2", "c2"]
    assert dropped(selection) == [("a1", "capped"), ("a2", "capped")]


def test_a_diversified_list_repeats_neither_itself_nor_what_is_ahead_of_it() -> None:
    """Duplicates go first, then the rest is reordered, then documents are capped; every reason is reported."""
    ahead = [candidate("pinned", "p", "said before")]
    found = [
        candidate("same", "d", "said before"),
        *(dataclasses.replace(candidate(name, "d"), embedding=np.array(VECTORS[name])) for name in "ABC"),
        candidate("other", "e"),
    ]
    selection = diversified(found, 0.0, 2, ahead)
    assert kept(selection) == ["A", "C", "other"]
    assert dropped(selection) == [("same", "duplicate"), ("B", "capped")]
    assert kept(diversified(found, 0.0, None, ahead)) == ["A", "C", "other", "B"]
    assert kept(diversified(found, 1.0, None)) == ["same", "A", "B", "C", "other"]


def test_only_what_will_be_kept_is_looked_at() -> None:
    """A copy is missed beyond the cut, where it is dropped in any case; before it none is."""
    found = [candidate(name, text=text) for name, text in zip("abcde", ("X", "x!", "Y", "Z", "z"), strict=True)]
    selection = diversified(found, 1.0, None, k=2)
    assert (kept(selection), dropped(selection)) == (["a", "c", "d", "e"], [("b", "near duplicate")])
    assert dropped(diversified(found, 1.0, None, k=3)) == [("b", "near duplicate")]
    assert dropped(diversified(found, 1.0, None, k=4)) == [("b", "near duplicate"), ("e", "near duplicate")]
    assert kept(diversified(found, 1.0, None, k=0)) == list("abcde")


def test_what_its_corpus_has_too_much_of_does_not_count_as_kept() -> None:
    """Otherwise the cut would find copies among what takes its place."""
    words = [("a", "X"), ("a", "Y"), ("a", "Z"), ("b", "V"), ("b", "v")]
    found = [dataclasses.replace(candidate(text, text=text), corpus=corpus) for corpus, text in words]
    selection = diversified(found, 1.0, None, k=3, most_per_corpus={"a": 1, "b": 0})
    assert kept(per_corpus(selection.candidates, {"a": 1, "b": 0})) == ["X", "V"]
    assert dropped(selection) == [("v", "near duplicate")]


@pytest.mark.parametrize("lambda_", [0.3, 0.7, 1.0])
def test_the_first_k_are_those_of_the_whole_list(lambda_: float) -> None:
    """However few are asked for: choosing stops early, it does not choose otherwise."""
    found = [
        dataclasses.replace(candidate(name, "d"), similarity=0.9 - i / 10, embedding=np.array(VECTORS[name]))
        for i, name in enumerate("ABC")
    ]
    whole = kept(diversified(found, lambda_, None))
    assert [kept(diversified(found, lambda_, None, k=k))[:k] for k in range(4)] == [whole[:k] for k in range(4)]


def test_relevance_alone_leaves_the_order_as_it_is() -> None:
    """Also one by recency, which no score of relevance has."""
    found = [dataclasses.replace(candidate(name), similarity=score) for name, score in (("old", 0.1), ("new", 0.9))]
    assert kept(diversified(found, 1.0, None)) == ["old", "new"]
    assert kept(diversified(found, 0.99, None)) == ["new", "old"]


@pytest.mark.parametrize(("k", "count"), [(0, 0), (2, 2), (3, 3), (9, 3)])
def test_what_is_beyond_k_is_said(k: int, count: int) -> None:
    """Nothing leaves without a reason."""
    selection = cut([candidate(name) for name in "abc"], k)
    assert kept(selection) == list("abc")[:count]
    assert dropped(selection) == [(name, "beyond k") for name in "abc"[count:]]


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("uvw"))), st.integers(1, 3))
def test_every_candidate_is_kept_or_dropped_once(found: list[tuple[str, str]], most: int) -> None:
    """In the incoming order on either side."""
    candidates = [candidate(str(i), document, text) for i, (document, text) in enumerate(found)]
    for selection in (without_duplicates(candidates), per_document(candidates, most), cut(candidates, most)):
        left = [one.candidate for one in selection.dropped]
        assert sorted([*selection.candidates, *left], key=lambda one: int(one.chunk.id)) == candidates
        assert list(selection.candidates) == [one for one in candidates if one in selection.candidates]
        assert left == [one for one in candidates if one in left]


def test_copies_in_other_case_and_punctuation_leave() -> None:
    """Of near duplicates the first stays, also where it is ahead of all others; one of another word is none."""
    text = "The ribbon is kept dry and upright (in the cupboard)."
    copies = [
        candidate(name, text=copy) for name, copy in zip("abcd", (text, text.upper(), text, text[:-2]), strict=True)
    ]
    assert dropped(diversified(copies, 1.0, None)) == [
        ("c", "duplicate"),
        ("b", "near duplicate"),
        ("d", "near duplicate"),
    ]
    assert dropped(diversified(copies[1:2], 1.0, None, copies[:1])) == [("b", "near duplicate")]
    others = [candidate(word, text=text.replace("dry", word)) for word in ("dry", "cool", "not dry", "4")]
    assert dropped(diversified(others, 1.0, None)) == []


def test_an_empty_text_takes_no_place() -> None:
    """White space is no text."""
    selection = with_text([candidate("a", text=" \n\t"), candidate("b", text="x")])
    assert (kept(selection), dropped(selection)) == (["b"], [("a", "empty")])
