"""Marks of an elided quote: the words that each left out or put in, and whether these deny."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.findings import QuotedChunk, QuoteFinding

DESK = (
    "The desk may stay in service, but those channels should not carry quiet sources until they are repaired. "
    "The stereo bus measured a noise floor of −84 dBu, unweighted, from 20 Hz to 20 kHz."
)


def check(quote: str, text: str = DESK) -> QuoteFinding:
    return check_quote(quote, "own", [QuotedChunk.of("own", text)])


def left_out(finding: QuoteFinding, text: str = DESK) -> list[tuple[str, int, bool]]:
    return [(text[slice(*one.span)], one.words, one.denies) for one in finding.left_out]


def put_in(finding: QuoteFinding) -> list[tuple[str, str, bool]]:
    return [(one.text, one.replaces, one.denies) for one in finding.put_in]


# --- what was left out --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("The desk may stay … but those channels", [(" in service, ", 2, False)]),
        ("The desk may stay … carry quiet sources", [(" in service, but those channels should not ", 7, True)]),
        ("those channels should … until they are repaired", [(" not carry quiet sources ", 4, True)]),
        ("The stereo bus measured […] from 20 Hz to", [(" a noise floor of −84 dBu, unweighted, ", 7, True)]),
        ("The desk may … stay in service", [(" ", 0, False)]),
        ("… desk may stay ... but those channels [...] until they are …", [
            (" in service, ", 2, False),
            (" should not carry quiet sources ", 5, True),
        ]),
        ("… desk may stay …", []),
    ],
)  # fmt: skip
def test_each_mark_says_what_it_left_out(quote: str, expected: list[tuple[str, int, bool]]) -> None:
    """Where, how many words, and whether a denial, a limit or a number is among them."""
    finding = check(quote)
    assert (finding.verdict, left_out(finding)) == ("elided", expected)
    assert finding.denies == any(denies for _, _, denies in expected)


@pytest.mark.parametrize(
    ("text", "quote", "words", "denies"),
    [
        ("Die Pumpe darf bei Frost nicht im Freien laufen.", "Die Pumpe darf … im Freien laufen", 3, True),
        ("Die Pumpe darf bei starkem Frost im Freien laufen.", "Die Pumpe darf … im Freien laufen", 3, False),
        ("La pompe peut tourner sans huile pendant la nuit.", "La pompe peut … pendant la nuit", 3, True),
        ("La pompe peut tourner dehors pendant la nuit.", "La pompe peut … pendant la nuit", 2, False),
        (
            "Насос сегодня можно никогда не открывать без ключа и пароля.",
            "Насос сегодня можно … открывать без ключа",
            2,
            True,
        ),
        ("水泵可以连续运行，但不得超过规定的温度范围使用。", "水泵可以连续运行……规定的温度范围使用", 2, True),
        ("水泵可以连续运行，在夜间按照规定的温度范围使用。", "水泵可以连续运行……规定的温度范围使用", 2, False),
        ("يجوز أن تعمل المضخة ١٢ ساعة في الليل والنهار.", "يجوز أن تعمل … في الليل والنهار", 3, True),
        ("אין להשתמש במכשיר הישן ללא אישור בכתב של המנהל.", "אין להשתמש במכשיר … בכתב של המנהל", 3, True),
    ],
)
def test_denials_of_many_languages_are_told(text: str, quote: str, words: int, denies: bool) -> None:
    """An ellipsis over a denial stays elided and says so."""
    finding = check(quote, text)
    assert finding.verdict == "elided"
    assert [(one.words, one.denies) for one in finding.left_out] == [(words, denies)]


def test_parts_far_apart_say_how_far() -> None:
    """Nothing limits what a mark leaves out; the count of words says it."""
    text = "The desk may stay, " + "and so on " * 500 + "until they are repaired."
    finding = check("The desk may stay … until they are repaired", text)
    assert [one.words for one in finding.left_out] == [1500]


# --- what was put in ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("those channels [of the desk] should not", [("of the desk", "", False)]),
        ("until [the channels] are repaired", [("the channels", "they", False)]),
        ("[It] may stay in service", [("It", "", False)]),
        ("until they are repaired [emphasis added]", [("emphasis added", "", False)]),
        ("[t]he desk may stay", [("t", "T", False)]),
        ("in service, but [T]hose channels", [("T", "t", False)]),
        ("The desk [sic] may stay (sic!) in service", [("sic", "", False), ("sic!", "", False)]),
        ("[t]he desk may … until [the channels] are repaired [my emphasis]", [
            ("t", "T", False),
            ("the channels", "they", False),
            ("my emphasis", "", False),
        ]),
        ("The desk may stay in service", []),
    ],
)  # fmt: skip
def test_each_bracket_says_what_it_put_in(quote: str, expected: list[tuple[str, str, bool]]) -> None:
    """The words, and what of the chunk they stand for."""
    finding = check(quote)
    assert finding.verdict == ("elided" if expected else "verbatim")
    assert put_in(finding) == expected


def test_what_is_elsewhere_says_nothing_here() -> None:
    """Like spans, left out and put in are of the chunk that was named."""
    other = QuotedChunk.of("other", DESK)
    finding = check_quote("The desk may stay … carry quiet sources", "own", [QuotedChunk.of("own", "Nothing."), other])
    assert (finding.verdict, finding.left_out, finding.put_in, finding.denies) == ("misattributed", (), (), False)
    assert [len(place.left_out) for place in finding.places] == [1]


# --- properties ---------------------------------------------------------------------------------

WORDS = ["gain", "desk", "not", "seven", "12", "may", "channels", "sources", "hum", "repair", "nobody", "green", "bus"]


@given(st.lists(st.sampled_from(WORDS), min_size=8, max_size=24), st.data())
def test_parts_and_what_lies_between_are_the_whole(words: list[str], data: st.DataObject) -> None:
    """Spans of parts and of what was left out follow each other without a gap."""
    text = " ".join(words)
    first = data.draw(st.integers(3, len(words) - 4))
    second = data.draw(st.integers(first + 1, len(words) - 3))
    finding = check(" ".join(words[:first]) + " … " + " ".join(words[second:]), text)
    assert finding.verdict == "elided"
    spans = sorted([*finding.spans, *(one.span for one in finding.left_out)])
    assert all(one[1] == other[0] for one, other in itertools.pairwise(spans))
    for one in finding.left_out:
        between = text[slice(*one.span)].split()
        assert one.words == len(between)
        assert one.denies == any(word in {"not", "seven", "12", "may", "nobody"} for word in between)
