"""Text as of one version of Unicode: characters that it does not have, numbers and letter case."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import unicode_tables

from worker.core.citations.answering import check_answer
from worker.core.citations.quoting import QuotedChunk, QuoteFinding, check_quote
from worker.core.citations.quoting.differences import NEVER_ACCEPTED
from worker.core.text import unicode_data
from worker.core.text.unicode_data import cased, is_numeric, known, unknown
from worker.core.text.websearch import searchable

NEW, OTHER_NEW = "\U0001fae8", "\U0001fae9"
"""Emoji of Unicode 15.0 and 16.0."""

_HARD = f"ab {NEW}{OTHER_NEW}\U0005fae8\u0378\U0002ebf0\U0006ebf0\U000e01f0\U000801f0"
ANY_TEXT = st.text() | st.text(_HARD, max_size=9)


def check(quote: str, text: str) -> QuoteFinding:
    """The finding for a quote in its own chunk, with no other."""
    return check_quote(quote, "own", [QuotedChunk.of("own", text)])


def is_refused(finding: QuoteFinding) -> bool:
    """Return whether a quote has other signs than its source, which no setting accepts."""
    kinds = {one.kind for one in finding.place.differences} if finding.place else set()
    return finding.verdict == "altered" and bool(kinds & NEVER_ACCEPTED)


def test_a_numeral_of_a_later_version_is_no_number() -> None:
    """京 became a number in Unicode 15.1: the quote would begin inside one on Python 3.13 alone."""
    assert check("五輪は延期された", "2021年の東京五輪は延期された。").verdict == "verbatim"
    assert [*map(is_numeric, "两京俩倆拐洞皕秭鈎钩")] == [False] * 10


def test_letter_case_is_that_of_the_version() -> None:
    """Modifier letters that are small letters since Unicode 15.0, and small letters with a capital since 16.0."""
    assert [letter for letter in "ჼꟲꟳꟴꭩ" if cased(letter).islower()] == []
    assert cased("Aჼ").isupper()
    assert [letter for letter in "ƛɤ" if not cased(letter).islower() or cased(letter).upper() != cased(letter)] == []


@pytest.mark.parametrize("new", [NEW, "\u0378", "\U0002ebf0", "\U000e01f0", "\U0010ffff", "\U00050000"])
def test_a_quote_with_a_character_that_the_version_lacks_is_found(new: str) -> None:
    """As it stands in the chunk, and with accepted differences; the spans are those of the chunk's own text."""
    text = f"Now: the desk {new} hums at 50 Hz."
    for quote, verdict in ((f"the desk {new} hums", "verbatim"), (f"THE  DESK {new} HUMS", "normalised")):
        finding = check(quote, text)
        assert finding.verdict == verdict
        assert finding.place
        assert finding.place.spans == ((5, 20),)


@pytest.mark.parametrize("other", [OTHER_NEW, "\U0005fae8", "\u0378", "\U0010ffff", "x", "🎚"])
def test_another_character_is_no_such_character(other: str) -> None:
    """Not even the code point that stands for it inside, which no version assigns."""
    for one, two in ((NEW, other), (other, NEW)):
        assert is_refused(check(f"the desk {one} hums at night", f"Now the desk {two} hums at night."))


def test_a_chunk_with_both_has_neither_found_for_the_other() -> None:
    """A quote is refused where it could be taken for what it is not, verbatim too; without the other it is found."""
    text = "the desk \U0005fae8 hums, the desk \U0001fae8 buzzes"
    assert is_refused(check("desk \U0001fae8 hums", text))
    assert is_refused(check("hums \U0001fae8 and \U0005fae8", "it hums \U0005fae8 and \U0001fae8"))
    assert check("desk \U0005fae8 hums", "the desk \U0005fae8 hums").verdict == "verbatim"


def test_words_put_in_have_their_own_characters() -> None:
    """Nothing that is told of a quote has what stands for others inside."""
    place = check(f"[Anna{NEW}] had a room with a desk", "Anna sang in May. She had a room with a desk.").place
    assert place
    assert [one.text for one in place.put_in] == [f"Anna{NEW}"]


def test_texts_that_are_returned_keep_their_characters() -> None:
    """A quote in an answer, and the input of a full-text search."""
    report = check_answer(f"It “hums {NEW} at night” [S1].", {"S1": f"The desk hums {NEW} at night."})
    assert report.sentences[0].quotes[-1].quote == f"hums {NEW} at night"
    assert searchable(f"hi-hat -{NEW} & {NEW}", 100) == f'"hi-hat" -"{NEW}" "{NEW}"'


@given(ANY_TEXT)
def test_stand_ins_keep_the_places_of_all_characters(text: str) -> None:
    """A text is as long with them, and what is known already stays."""
    stood_in = known(text)
    assert len(stood_in) == len(text)
    assert known(stood_in) == stood_in
    assert all(one == other or one in unknown(text) for one, other in zip(text, stood_in, strict=True))


@given(ANY_TEXT, ANY_TEXT)
def test_texts_that_differ_are_told_apart(one: str, other: str) -> None:
    """By their stand-ins, unless a text has one of the code points that are stand-ins themselves."""
    if one != other and known(one) == known(other):
        unknown_characters = unknown(one) | unknown(other)
        assert len({*map(known, unknown_characters)}) < len(unknown_characters)


def test_every_character_that_this_python_lacks_is_unknown() -> None:
    """And what stands for others has no version: later versions of Unicode only add characters."""
    lacking = {chr(code) for code in unicode_tables.CODES if unicodedata.category(chr(code)) == "Cn"}
    not_known = unknown("".join(map(chr, unicode_tables.CODES)))
    assert lacking <= not_known
    assert {unicodedata.category(character) for character in known("".join(not_known))} == {"Cn"}


@pytest.mark.skipif(unicodedata.unidata_version != unicode_data.VERSION, reason="another version of Unicode")
def test_the_tables_are_those_that_the_command_writes() -> None:
    """On the Python whose version of Unicode they have."""
    assert unicode_data._RUNS.split() == unicode_tables.runs().split()
    assert unicode_data._NUMERALS.split() == unicode_tables.numerals().split()
    assigned = [chr(code) for code in unicode_tables.CODES if unicodedata.category(chr(code)) != "Cn"]
    assert unknown("".join(assigned)) == frozenset()
