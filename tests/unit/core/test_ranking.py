from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.hashing import hash_chunk
from worker.core.ranking.total_order import by_similarity, id_key, within_distance
from worker.model import Candidate, Chunk

if TYPE_CHECKING:
    import random
    import uuid

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
bigints = st.integers(-(2**63), 2**63 - 1)
# Few values, so that ties are the rule.
similarities = st.sampled_from([1.0, 0.5, 0.5 - 2**-53, 0.0, -0.0, -1.0])


def candidate(chunk_id: str, similarity: float | None) -> Candidate:
    chunk = Chunk(chunk_id, "d", "text", None, None, None, {}, hash_chunk("text"), 1)
    return Candidate(chunk, similarity)


def ids(candidates: list[Candidate]) -> list[str]:
    return [item.chunk.id for item in candidates]


@given(
    st.dictionaries(texts, similarities, min_size=2),
    st.randoms(use_true_random=False),
)
def test_text_ids_give_one_order_for_any_permutation(found: dict[str, float], chance: random.Random) -> None:
    """Ties are broken by id, so the list is the same for any order that a plan produces."""
    candidates = [candidate(*item) for item in found.items()]
    expected = by_similarity(candidates, id_key("text"))
    chance.shuffle(candidates)
    assert by_similarity(candidates, id_key("text")) == expected
    assert len({(item.similarity, item.chunk.id) for item in expected}) == len(found)


@given(st.dictionaries(bigints, similarities, min_size=2), st.randoms(use_true_random=False))
def test_integer_ids_give_one_order_for_any_permutation(found: dict[int, float], chance: random.Random) -> None:
    """The same holds where the database compares ids by value."""
    candidates = [candidate(str(number), similarity) for number, similarity in found.items()]
    expected = by_similarity(candidates, id_key("bigint"))
    chance.shuffle(candidates)
    assert by_similarity(candidates, id_key("bigint")) == expected
    assert [(-item.similarity, int(item.chunk.id)) for item in expected] == sorted(
        (-similarity, number) for number, similarity in found.items()
    )


def test_higher_similarity_comes_first() -> None:
    """Higher is better, and the id decides only between equals."""
    found = [candidate("a", 0.1), candidate("c", 0.9), candidate("b", 0.9), candidate("d", -0.5)]
    assert ids(by_similarity(found, id_key("text"))) == ["b", "c", "a", "d"]


def test_an_unknown_similarity_comes_last_and_is_within_no_bound() -> None:
    """An uncompared chunk is no better than the farthest compared one; a bound keeps only those known to be near."""
    found = [candidate("a", None), candidate("c", -1.0), candidate("b", None)]
    assert ids(by_similarity(found, id_key("text"))) == ["c", "a", "b"]
    assert ids(within_distance(found, 2.0)) == ["c"]
    assert within_distance(found, None) == found


def test_zero_has_no_sign() -> None:
    """-0 and 0 are the same similarity: the id decides."""
    found = [candidate("b", 0.0), candidate("a", -0.0)]
    assert ids(by_similarity(found, id_key("text"))) == ["a", "b"]


@given(st.lists(texts, unique=True))
def test_text_compares_by_code_point(values: list[str]) -> None:
    """As `COLLATE "C"` does: by the bytes of UTF-8, which is by code point, never by locale or letter case."""
    assert sorted(values, key=id_key("text")) == sorted(values, key=str.encode)


@pytest.mark.parametrize("database_type", ["smallint", "integer", "bigint"])
def test_integers_compare_by_value(database_type: str) -> None:
    """9 comes before 10, and -1 before 0."""
    assert sorted(["10", "9", "-1", "0", "-10"], key=id_key(database_type)) == ["-10", "-1", "0", "9", "10"]


@given(st.lists(st.uuids(), unique=True))
def test_uuids_compare_as_their_bytes(values: list[uuid.UUID]) -> None:
    """Postgres compares the 16 bytes; lower-case hex has the same order."""
    assert sorted(map(str, values), key=id_key("uuid")) == [
        str(value) for value in sorted(values, key=lambda value: value.bytes)
    ]


@pytest.mark.parametrize(
    ("max_distance", "kept"),
    [
        (None, ["a", "b", "c", "d"]),
        (2.0, ["a", "b", "c", "d"]),
        (1.0, ["a", "b", "c"]),
        (0.5, ["a", "b"]),
        (0.4999, ["a"]),
        (0.0, ["a"]),
    ],
)
def test_the_distance_bound_is_inclusive(max_distance: float | None, kept: list[str]) -> None:
    """Chunks at exactly the bound stay, farther ones are left out, and the order is kept."""
    found = [candidate("a", 1.0), candidate("b", 0.5), candidate("c", 0.0), candidate("d", -1.0)]
    assert ids(within_distance(found, max_distance)) == kept
