"""Properties of every text: differences rebuild both, accepted ones leave all words as they are, nothing raises."""

from __future__ import annotations

import random
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from worker.core.citations.quoting import QuotedChunk, check_quote
from worker.core.citations.quoting.differences import ACCEPTED, KINDS
from worker.core.citations.quoting.reading import Reading

if TYPE_CHECKING:
    from worker.core.citations.quoting import Place, QuoteFinding

_PIECES = r"""
the pump NOT İstanbul ılık straße can't re-sign Müller tué ρgh год ё 5 −5 -3 1.5 1,250 ½ 10² x₂ ٢٥ ५ 12% 5°C $7 € 安全
ません ばか パ か゚ กำ ห้าม 한국 שָׁ क्षि ي، ﷺ ﬁn Ａ Ⅳ ① ㎏ ™ º × … ... . , ; : ? ! 。 । « » “ ” " ' ’ „ ( ) [ ] [S1] [x] [1]
[^2] ¹ † [sic] [a](b) ](c) ![ *a* ** __ _ ~~ ` `` ``` ~~~ # > - + | |- \ \* & &amp; &lt; &minus; &#8722; &shy;
&nbsp; &#0; &bogus; <b> </b> <br> <td> <sup>2</sup> <!-- --> <a href="x"> http://a.test/b – — ‐ − ¬ ± ≤ < = / @ ~
"""
PIECES = _PIECES.split()
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
PARTS = [*PIECES, *BLANKS]
seeds = st.integers(0, 2**64)


def pair_of(seed: int) -> tuple[str, str]:
    """Return a quote and a source: the quote is a part of it with up to three changes."""
    rng = random.Random(seed)
    source = "".join(rng.choice(PIECES) + rng.choice(BLANKS) for _ in range(rng.randint(1, 14)))
    start = rng.randrange(len(source))
    quote = source[start : rng.randint(start + 1, len(source))] if rng.random() < 0.7 else source
    for _ in range(rng.randint(0, 3)):
        at = rng.randint(0, len(quote))
        quote = quote[:at] + rng.choice(["", *PARTS]) + quote[at + rng.randint(0, 2) :]
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


@settings(max_examples=300)
@given(seeds)
def test_differences_rebuild_both_texts(seed: int) -> None:
    """Each difference names its characters and kind, in order, and nothing else differs."""
    quote, source = pair_of(seed)
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


@settings(max_examples=300)
@given(seeds)
def test_verdicts_follow_from_differences(seed: int) -> None:
    """Verbatim has none, normalised accepted ones only, altered at least one other; what is found is found again."""
    quote, source = pair_of(seed)
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


@settings(max_examples=300)
@given(seeds)
def test_accepted_quotes_have_the_same_words(seed: int) -> None:
    """The keys of all letters and digits are those of the passage, and every number has its digits and signs."""
    quote, source = pair_of(seed)
    finding = check(quote, source)
    if finding.verdict != "normalised":  # the characters of a verbatim one are the passage's own
        return
    passage = source[slice(*finding.places[0].spans[0])]
    read, other = Reading(source), Reading(quote)
    start, end = finding.places[0].spans[0]
    signs = [i for i, place in enumerate(read.places) if start <= place < end]
    assert "".join(read.key[read.key_starts[i] : read.key_starts[i + 1]] for i in signs) == other.key
    assert seen_signs(other, 0, len(quote)) == seen_signs(read, start, end), (quote, passage)


def seen_signs(reading: Reading, start: int, end: int) -> list[str]:
    """Return symbols, raised signs and dashes that a reader sees, without those of other glyphs."""
    seen = unicodedata.normalize("NFKC", reading.visible(start, end))
    return [c for c in seen if unicodedata.category(c) in ("Sm", "Sc") and c not in "|~`^×"]


@settings(max_examples=300)
@given(seeds)
def test_every_text_is_a_quote_of_itself(seed: int) -> None:
    """Any text, if a letter or digit of it is seen."""
    source = pair_of(seed)[1].strip()
    if Reading(source).places:
        assert check(source, f"A. {source}").verdict in ("verbatim", "normalised", "altered")
        assert check(source, source).verdict == "verbatim"


@settings(max_examples=100)
@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_raises(quote: str, source: str) -> None:
    """For any characters; and the same is said again."""
    assert check(quote, source) == check(quote, source)
    assert check(source, source + quote).verdict in ("verbatim", "normalised", "altered", "not_found", "elided")
