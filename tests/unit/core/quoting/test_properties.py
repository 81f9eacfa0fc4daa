"""What holds for every text: differences rebuild both, accepted ones leave all words as they are, nothing raises."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from worker.core.citations.quoting import QuotedChunk, check_quote
from worker.core.citations.quoting.differences import ACCEPTED, KINDS
from worker.core.citations.quoting.reading import Reading

if TYPE_CHECKING:
    from worker.core.citations.quoting import Place, QuoteFinding

PIECES = [
    "the",
    "pump",
    "NOT",
    "İstanbul",
    "ılık",
    "straße",
    "can't",
    "re-sign",
    "Müller",
    "tué",
    "ρgh",
    "год",
    "ё",
    "5",
    "−5",
    "-3",
    "1.5",
    "1,250",
    "½",
    "10²",
    "x₂",
    "٢٥",
    "५",
    "12%",
    "5°C",
    "$7",
    "€",
    "安全",
    "ません",
    "ばか",
    "パ",
    "か゚",
    "กำ",
    "ห้าม",
    "한국",
    "שָׁ",
    "क्षि",
    "ي،",
    "ﷺ",
    "ﬁn",
    "Ａ",
    "Ⅳ",
    "①",
    "㎏",
    "™",
    "º",
    "×",
    "…",
    "...",
    ".",
    ",",
    ";",
    ":",
    "?",
    "!",
    "。",
    "।",
    "«",
    "»",
    "“",
    "”",
    '"',
    "'",
    "’",
    "„",
    "(",
    ")",
    "[",
    "]",
    "[S1]",
    "[x]",
    "[1]",
    "[^2]",
    "¹",
    "†",
    "[sic]",
    "[a](b)",
    "](c)",
    "![",
    "*a*",
    "**",
    "__",
    "_",
    "~~",
    "`",
    "``",
    "```",
    "~~~",
    "#",
    ">",
    "-",
    "+",
    "|",
    "|-",
    "\\",
    "\\*",
    "&",
    "&amp;",
    "&lt;",
    "&minus;",
    "&#8722;",
    "&shy;",
    "&nbsp;",
    "&#0;",
    "&bogus;",
    "<b>",
    "</b>",
    "<br>",
    "<td>",
    "<sup>2</sup>",
    "<!--",
    "-->",
    "<a",
    'href="x">',
    "http://a.test/b",
    "–",
    "—",
    "‐",
    "−",
    "¬",
    "±",
    "≤",
    "<",
    "=",
    "/",
    "@",
    "~",
]
BLANKS = [
    " ",
    "  ",
    "\n",
    "\n\n",
    "\t",
    "",
    "\u00a0",
    "\u200b",
    "\u00ad",
    "-\n",
    "\u2028",
    "\u202e",
    "\u2062",
    "\u0301",
]
piece = st.sampled_from(PIECES) | st.characters()
text = st.lists(st.tuples(piece, st.sampled_from(BLANKS)), max_size=12).map(lambda parts: "".join(map("".join, parts)))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    """Return a quote and a source: the quote is a part of it with up to three changes."""
    source = draw(text)
    start = draw(st.integers(0, len(source)))
    quote = source[start : draw(st.integers(start, len(source)))]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(quote)))
        quote = (
            quote[:at]
            + draw(st.one_of(st.just(""), piece, st.sampled_from(BLANKS)))
            + quote[at + draw(st.integers(0, 2)) :]
        )
    return quote, source


def check(quote: str, source: str) -> QuoteFinding:
    """Return the finding of a quote in one chunk."""
    return check_quote(quote, "own", [QuotedChunk.of("own", source)])


def rebuilt(place: Place, source: str) -> str:
    """Return the passage with each difference as the quote has it."""
    parts, at = [], place.spans[0][0]
    for one in place.differences:
        parts += [source[at : one.chunk_span[0]], one.quoted]
        at = one.chunk_span[1]
    return "".join([*parts, source[at : place.spans[0][1]]])


@settings(max_examples=400, deadline=None)
@given(pairs())
def test_differences_rebuild_both_texts(pair: tuple[str, str]) -> None:
    """Each difference names its characters and kind, in order, and nothing else differs."""
    quote, source = pair
    finding = check(quote, source)
    for place in finding.places:
        for one in place.differences:
            assert one.kind in KINDS
            assert (one.quoted, one.source) == (quote[slice(*one.quote_span)], source[slice(*one.chunk_span)])
        for last, one in pairwise(place.differences):
            assert last.quote_span[1] <= one.quote_span[0]
            assert last.chunk_span[1] <= one.chunk_span[0] or place.verdict == "elided"
        assert all(0 <= start <= end <= len(source) for start, end in place.spans)
        if place.verdict != "elided":
            assert rebuilt(place, source) == quote


@settings(max_examples=400, deadline=None)
@given(pairs())
def test_verdicts_follow_from_differences(pair: tuple[str, str]) -> None:
    """Verbatim has none, normalised accepted ones only, altered at least one other; what is found is found again."""
    quote, source = pair
    finding = check(quote, source)
    kinds = {one.kind for place in finding.places for one in place.differences}
    if finding.verdict == "verbatim":
        assert not kinds
        assert source[slice(*finding.places[0].spans[0])] == quote
    if finding.verdict in ("normalised", "elided"):
        assert kinds <= ACCEPTED
    if finding.verdict == "normalised":
        assert kinds
    if finding.verdict == "altered":
        assert kinds - ACCEPTED
    assert check(quote, source) == finding


@settings(max_examples=400, deadline=None)
@given(pairs())
def test_accepted_quotes_have_the_same_words(pair: tuple[str, str]) -> None:
    """The keys of all letters and digits are those of the passage, and every number has its digits and signs."""
    quote, source = pair
    finding = check(quote, source)
    assume(finding.verdict in ("verbatim", "normalised"))
    passage = source[slice(*finding.places[0].spans[0])]
    read, other = Reading.of(source), Reading.of(quote)
    start, end = finding.places[0].spans[0]
    signs = [i for i, place in enumerate(read.places) if start <= place < end]
    assert "".join(read.key[read.key_starts[i] : read.key_starts[i + 1]] for i in signs) == other.key
    assert seen_signs(other, 0, len(quote)) == seen_signs(read, start, end), (quote, passage)


def seen_signs(reading: Reading, start: int, end: int) -> list[str]:
    """Return symbols, raised signs and dashes that a reader sees, without those of other glyphs."""
    seen = unicodedata.normalize("NFKC", reading.visible(start, end))
    return [c for c in seen if unicodedata.category(c) in ("Sm", "Sc") and c not in "|~`^×"]


@settings(max_examples=300, deadline=None)
@given(text)
def test_every_part_at_word_boundaries_is_found(source: str) -> None:
    """A text is a verbatim quote of itself, whatever it is, if a letter or digit of it is seen."""
    stripped = source.strip()
    assume(Reading.of(source).places and Reading.of(stripped).places)
    assert check(stripped, source).verdict in ("verbatim", "normalised")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_raises(quote: str, source: str) -> None:
    """Whatever the characters are; and the same is said again."""
    assert check(quote, source) == check(quote, source)
    assert check(source, source + quote).verdict in ("verbatim", "normalised", "altered", "not_found", "elided")
