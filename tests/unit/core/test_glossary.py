from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.text.glossary import Glossary

TABLE = {
    "hi-hats": ["hi-hat", "percussion", "drums", "rhythm"],
    "hats": ["headgear"],
    "kick": ["bd", "drums"],
    "c++": ["compiler"],
    "open hi-hats pattern": ["oh"],
    "Straße": ["road"],
}


@pytest.mark.parametrize(
    ("query", "expanded"),
    [
        ("add hi-hats", "add hi-hats, hi-hat, percussion, drums, rhythm"),
        ("add HI HATS", "add HI HATS, hi-hat, percussion, drums, rhythm"),
        ("hats off", "hats off, headgear"),
        ("hi-hats, then hats", "hi-hats, then hats, hi-hat, percussion, drums, rhythm, headgear"),
        ("hats, then hi-hats", "hats, then hi-hats, headgear, hi-hat, percussion, drums, rhythm"),
        ("kick and hi-hats", "kick and hi-hats, bd, drums, hi-hat, percussion, rhythm"),
        ("kick kick", "kick kick, bd, drums"),
        ("an open hi-hats pattern", "an open hi-hats pattern, oh"),
        ("an open hi-hats pattern of oh", "an open hi-hats pattern of oh"),
        ("open hi-hats", "open hi-hats, hi-hat, percussion, drums, rhythm"),
        ("use c++!", "use c++!, compiler"),
        ("STRASSE", "STRASSE, road"),
        ("kicks", "kicks"),
        ("use c+", "use c+"),
        ("what hi-hatsy thing", "what hi-hatsy thing"),
        ("  Nothing of it ", "  Nothing of it "),
        ("", ""),
    ],
)
def test_words_are_added_for_terms(query: str, expanded: str) -> None:
    """Whole words in any case, the longest first; a query without a term, or with its words, stays."""
    assert Glossary(TABLE).expand(query) == expanded


def test_a_longer_term_is_found_before_one_that_begins_earlier() -> None:
    """Of two terms that share a word, the one that says more is meant."""
    glossary = Glossary({"a b": ["short"], "b c d": ["long"]})
    assert glossary.expand("a b c d") == "a b c d, long"
    assert glossary.expand("a b c") == "a b c, short"


@given(
    st.lists(st.sampled_from(["hi", "hats", "kick", "hi-hats", "open", "pattern", "c", "++", "x", "Hats"]), max_size=8),
    st.integers(0, 99),
)
def test_the_order_of_the_table_changes_nothing(query: list[str], seed: int) -> None:
    """Also where two spellings of a term contradict each other."""
    table = {**TABLE, "Hats": ["caps"], "HI hats": ["cymbals"]}
    shuffled = dict(random.Random(seed).sample(list(table.items()), len(table)))
    assert Glossary(shuffled).expand(" ".join(query)) == Glossary(table).expand(" ".join(query))


@pytest.mark.parametrize("table", [{}, {"": ["x"]}, {"-": ["x"]}, {" ": ["x"]}, {"kick": []}])
def test_a_term_without_words_changes_nothing(table: dict[str, list[str]]) -> None:
    """On either side of the table."""
    assert Glossary(table).expand("a - kick") == "a - kick"
