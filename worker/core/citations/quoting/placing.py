"""Where a quote stands: the passage whose signs have the quote's keys in order, or else the nearest one by words."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.budget import spend
from worker.core.citations.quoting.characters import BLANKS, QUOTE
from worker.core.citations.quoting.differences import (
    Difference,
    Pair,
    compare,
    count_equal,
    gap,
    kind_of_run,
    merged,
    says_other,
    signs_of,
    with_case,
    with_order,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from worker.core.citations.quoting.differences import Sign
    from worker.core.text.spans import Span


class Passage(NamedTuple):
    """A part of a source that a quote, or a part of one, may be of.

    Attributes:
        span: in code points of the source.
        signs: the numbers of its signs, the last excluded.
        differences: all between the two, in order.
    """

    span: Span
    signs: Span
    differences: tuple[Difference, ...]

    def unaccepted(self, accepted: AbstractSet[str]) -> int:
        """Return how many differences are of other kinds."""
        return len([one for one in self.differences if one.kind not in accepted])


_PATIENCE, _MOST_CANDIDATES = 4, 64
"""Candidates are compared for as long as that is so many times the source; and so many of them."""
_STEPS_TO_COMPARE = 400
"""Steps that it takes to compare one, besides ten for each of its characters."""


def passages(pair: Pair, within: Span, *, glued: tuple[bool, bool] = (False, False)) -> Iterator[Passage]:
    """Yield the places where the quote's keys stand, in order, between two signs of the source.

    Args:
        pair: the quote, or a part of it, and the source.
        within: signs of the source, the last excluded.
        glued: whether the quote may begin, and end, inside a word: an editor's bracket stands there.
    """
    quote, source = pair
    start, end = source.key_starts[within[0]], source.key_starts[within[1]]
    patience, candidates = _PATIENCE * (len(source.text) + 256), 0
    while (start := source.key.find(quote.key, start, end)) >= 0:
        first, last = source.sign_at(start), source.sign_at(start + len(quote.key))
        if first is not None and last is not None:
            spend(_STEPS_TO_COMPARE + 10 * len(quote.text))
            yield _passage(pair, (first, last), [((0, len(quote.places)), (first, last))], glued)
            candidates += 1
        patience -= len(quote.text) + 64
        if patience < 0 or candidates == _MOST_CANDIDATES:
            return
        start += 1


def _passage(pair: Pair, signs: Span, runs: Sequence[tuple[Span, Span]], glued: tuple[bool, bool]) -> Passage:
    """Return what differs between a quote and some signs of the source, of which runs have the same keys."""
    quote, source = pair
    begin, before = _lead(pair, signs[0]) if runs[0][0][0] == 0 else (source.places[signs[0]], [])
    found, at = [], (0, begin)
    for asked, other in runs:
        if asked[0]:
            found.append(_region(pair, (at[0], quote.places[asked[0]]), (at[1], source.places[other[0]])))
        found += compare(pair, asked, other)
        at = quote.sign_end(asked[1] - 1), source.sign_end(other[1] - 1)
    opening = [one for one in before if _is_quotation_mark(pair, one)]
    if runs[-1][0][1] == len(quote.places):
        end, after = _trail(pair, signs[1], wrapped=bool(opening))
    else:
        end = source.sign_end(signs[1] - 1)
        after = [_region(pair, (at[0], len(quote.text)), (at[1], end))]
    if any(one.kind == "typography" and not one.source for one in after):
        before = [one._replace(kind="typography") if one in opening else one for one in before]
    cuts = [
        pair.difference("cut", (at, at), (place, place))
        for at, place, free in ((0, begin, glued[0]), (len(quote.text), end, glued[1]))
        if not free and source.is_cut(place)
    ]
    found = with_order(merged(pair, [*before, *found, *after]))
    found = with_case(pair, found, (begin, end), quote.places[0])
    return Passage((begin, end), signs, tuple(sorted([*found, *cuts], key=lambda one: one.quote_span)))


# --- what the quote has before its first and after its last sign ------------------------------------


def _is_quotation_mark(pair: Pair, one: Difference) -> bool:
    """Return whether only the quote has something there, and that is one quotation mark."""
    return not one.source and [sign.kind for sign in signs_of(pair.quote, one.quote_span)] == [QUOTE]


def _lead(pair: Pair, sign: int) -> tuple[int, list[Difference]]:
    """Return where the passage begins, and what differs before its first sign."""
    quote, source = pair
    place, other = quote.places[0], source.places[sign]
    if not place:
        return other, []
    asked = signs_of(quote, (0, place))
    found = signs_of(source, (source.sign_end(sign - 1) if sign else 0, other))
    same = count_equal(asked[::-1], found[::-1])
    begin, at = (found[-same].span[0], asked[-same].span[0]) if same else (other, place)
    outer = _outer(pair, (0, at), begin, asked[: len(asked) - same]) if at else []
    return begin, [*outer, *(gap(pair, (at, place), (begin, other)) if same else ())]


def _trail(pair: Pair, sign: int, *, wrapped: bool) -> tuple[int, list[Difference]]:
    """Return where the passage ends, and what differs after its last sign."""
    quote, source = pair
    place, other = quote.sign_end(len(quote.places) - 1), source.sign_end(sign - 1)
    if place == len(quote.text):
        return other, []
    asked = signs_of(quote, (place, len(quote.text)))
    limit = source.places[sign] if sign < len(source.places) else len(source.text)
    found = signs_of(source, (other, limit))
    same = count_equal(asked, found)
    end, at = (found[same - 1].span[1], asked[same - 1].span[1]) if same else (other, place)
    differences = list(gap(pair, (place, at), (other, end))) if same else []
    left = asked[same:]
    closing = left.pop() if wrapped and left and left[-1].kind == QUOTE else None
    if left:
        differences.append(_stop(pair, left, (at, closing.span[0] if closing else None), end, found[same:]))
        at, end = differences[-1].quote_span[1], differences[-1].chunk_span[1]
    if closing:
        differences.append(pair.difference("typography", (at, closing.span[1]), (end, end)))
        at = closing.span[1]
    if at < len(quote.text):
        differences += _outer(pair, (at, len(quote.text)), end, [])
    return end, differences


_STOPS = frozenset({".", ",", ";", ":", "。", "।"})


def _stop(
    pair: Pair, left: Sequence[Sign], between: tuple[int, int | None], end: int, following: Sequence[Sign]
) -> Difference:
    """Return what the quote has at its end, and the source has not: a stop where a clause ends, or other signs."""
    last = left[-1].span[1]
    is_end = not pair.quote.text[last : between[1]].strip()
    span = between[0], (between[1] or len(pair.quote.text)) if is_end else last
    is_question = pair.source.asks_in_greek(end) or pair.quote.asks_in_greek(between[0])
    if not is_question and len(left) == 1 and left[0].plain in _STOPS and pair.source.ends_clause(end):
        until = following[0].span[1] if following and following[0].span[0] == end else end
        return pair.difference("end_punctuation", span, (end, until))
    return pair.difference(kind_of_run(pair, left, [], span, (end, end)), span, (end, end))


def _outer(pair: Pair, span: Span, place: int, signs: Sequence[Sign]) -> list[Difference]:
    """Return a difference of what only the quote has outside."""
    classes = pair.quote.classes[slice(*span)]
    near = pair.source.text[max(0, place - (span[1] - span[0])) : place + span[1] - span[0]]
    if signs:
        kind = kind_of_run(pair, signs, [], span, (place, place))
    elif says_other(pair.quote.text[slice(*span)], near):
        kind = "words"
    elif "M" in classes or "B" in classes:
        kind = "markup"
    else:
        kind = "white_space" if any(one in BLANKS for one in classes) else "invisible"
    return [pair.difference(kind, span, (place, place))]


# --- the nearest passage ------------------------------------------------------------------------------

_Chain = tuple[tuple[int, int], "_Chain | None"]
"""Words in pairs, from the last one back."""
_FREQUENT, _BAND, _FEWEST, _MOST_WORDS = 16, 24, 3, 4000


def nearest(pair: Pair) -> Passage | None:
    """Return the passage that has most of the quote's words in order; None if it has less than half of them.

    Linear: words that are frequent are no anchors, and only a band around the best diagonal is compared.
    """
    words, places = pair.quote.word_keys, pair.source.word_places
    if len(words) > _MOST_WORDS:
        return None
    votes: Counter[int] = Counter()
    for i, key in enumerate(words):
        found = places.get(key, ())
        for j in found if len(found) <= _FREQUENT else ():
            votes[(j - i) // _BAND] += 1
    if not votes:
        return None
    spend(len(words) * _BAND * 4)
    best = max(votes, key=lambda one: (votes[one] + votes.get(one + 1, 0), -one))
    pairs = _aligned(words, places, best * _BAND - _BAND, best * _BAND + 2 * _BAND)
    return _near(pair, pairs) if len(pairs) >= max(_FEWEST, (len(words) + 1) // 2) else None


def _near(pair: Pair, pairs: Sequence[tuple[int, int]]) -> Passage:
    """Return the passage of words in pairs, those of neighbours as one run."""
    words, others = pair.quote.words, pair.source.words
    # Words of the quote before the first that is found, and after the last, stand for as many of the source.
    first = max(0, pairs[0][1] - pairs[0][0])
    last = min(len(others) - 1, pairs[-1][1] + len(words) - 1 - pairs[-1][0])
    runs: list[tuple[Span, Span]] = []
    next_pair = None
    for i, j in pairs:
        begin = runs.pop() if (i, j) == next_pair else ((words[i], 0), (others[j], 0))
        runs.append(((begin[0][0], words[i + 1]), (begin[1][0], others[j + 1])))
        next_pair = i + 1, j + 1
    return _passage(pair, (others[first], others[last]), runs, (True, True))


def _aligned(asked: Sequence[str], index: dict[str, list[int]], low: int, high: int) -> list[tuple[int, int]]:
    """Return the longest common subsequence within a band of diagonals, in pairs (Hunt and Szymanski, 1977)."""
    ends: list[int] = []
    chains: list[_Chain] = []
    for i, key in enumerate(asked):
        places = index.get(key, ())
        for j in reversed(places[bisect_left(places, i + low) : bisect_right(places, i + high)]):
            length = bisect_left(ends, j)
            chain = (i, j), chains[length - 1] if length else None
            if length == len(ends):
                ends.append(j)
                chains.append(chain)
            else:
                ends[length], chains[length] = j, chain
    pairs = []
    last = chains[-1] if chains else None
    while last:
        pair, last = last
        pairs.append(pair)
    return pairs[::-1]


def _region(pair: Pair, asked: Span, found: Span) -> Difference:
    """Return the difference of words that are not the same, without the signs around them that are."""
    one, other = pair.quote.known[slice(*asked)], pair.source.known[slice(*found)]
    head = _count_same_signs(one, other)
    tail = _count_same_signs(one[head:][::-1], other[head:][::-1])
    return pair.difference("words", (asked[0] + head, asked[1] - tail), (found[0] + head, found[1] - tail))


def _count_same_signs(one: str, other: str) -> int:
    """Return how many characters from the first on are the same, and no letters or digits."""
    same = takewhile(lambda pair: pair[0] == pair[1] and not pair[0].isalnum(), zip(one, other, strict=False))
    return len([*same])
