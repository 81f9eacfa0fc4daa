"""Where a quote stands: the passage whose signs have the quote's keys in order, or else the nearest one by words."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.budget import spend
from worker.core.citations.quoting.characters import BLANKS, QUOTE, UNSEEN, UNSPACED, WITHIN
from worker.core.citations.quoting.differences import (
    Difference,
    Pair,
    compare,
    gap,
    kind_beside_digits,
    kind_of_run,
    merged,
    says_other,
    signs_of,
    with_case,
    with_order,
)
from worker.core.text.unicode_data import known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from worker.core.citations.quoting.differences import Sign
    from worker.core.citations.quoting.reading import Reading, Span


@dataclass(frozen=True, slots=True)
class Passage:
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
        return sum(one.kind not in accepted for one in self.differences)


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
    quote, source = pair.quote, pair.source
    starts, length = source.key_starts, len(quote.key)
    start, end = starts[within[0]], starts[within[1]]
    patience, candidates = _PATIENCE * (len(source.text) + 256), 0
    while (start := source.key.find(quote.key, start, end)) >= 0:
        first, last = bisect_left(starts, start), bisect_left(starts, start + length)
        if starts[first] == start and starts[last] == start + length:
            spend(_STEPS_TO_COMPARE + 10 * len(quote.text))
            yield _passage(pair, (first, last), glued)
            candidates += 1
        patience -= len(quote.text) + 64
        if patience < 0 or candidates == _MOST_CANDIDATES:
            return
        start += 1


def _passage(pair: Pair, signs: Span, glued: tuple[bool, bool]) -> Passage:
    quote, source = pair.quote, pair.source
    inner = list(compare(pair, (0, len(quote.places)), signs))
    begin, before = _lead(pair, signs[0])
    opening = [one for one in before if _is_quotation_mark(pair, one)]
    end, after = _trail(pair, signs[1], wrapped=bool(opening))
    if any(one.kind == "typography" and not one.source for one in after):
        before = [_as_typography(one) if one in opening else one for one in before]
    cuts = [
        pair.difference("cut", (at, at), (place, place))
        for at, place, free in ((0, begin, glued[0]), (len(quote.text), end, glued[1]))
        if not free and source.is_cut(place)
    ]
    found = merged(pair, [*before, *inner, *after])
    found = with_case(pair, found, (begin, end), quote.places[0])
    ordered = sorted([*found, *cuts], key=lambda one: one.quote_span)
    return Passage((begin, end), signs, tuple(ordered))


def _is_quotation_mark(pair: Pair, one: Difference) -> bool:
    """Return whether only the quote has something there, and that is one quotation mark."""
    return not one.source and [sign.kind for sign in signs_of(pair.quote, one.quote_span)] == [QUOTE]


def _as_typography(one: Difference) -> Difference:
    return Difference("typography", one.quoted, one.source, one.quote_span, one.chunk_span)


# --- what the quote has before its first and after its last sign ------------------------------------


def _lead(pair: Pair, sign: int) -> tuple[int, list[Difference]]:
    """Return where the passage begins, and what differs before its first sign."""
    quote, source = pair.quote, pair.source
    place, other = quote.places[0], source.places[sign]
    asked = signs_of(quote, (0, place))
    found = signs_of(source, (source.sign_end(sign - 1) if sign else 0, other))
    same = 0
    while same < min(len(asked), len(found)) and asked[-1 - same].plain == found[-1 - same].plain:
        same += 1
    begin, at = (found[-same].span[0], asked[-same].span[0]) if same else (other, place)
    differences = list(gap(pair, (at, place), (begin, other))) if same else []
    if at:
        differences[:0] = _outer(pair, (0, at), begin, asked[: len(asked) - same])
    return begin, differences


def _trail(pair: Pair, sign: int, *, wrapped: bool) -> tuple[int, list[Difference]]:
    """Return where the passage ends, and what differs after its last sign."""
    quote, source = pair.quote, pair.source
    place, other = quote.sign_end(len(quote.places) - 1), source.sign_end(sign - 1)
    asked = signs_of(quote, (place, len(quote.text)))
    limit = source.places[sign] if sign < len(source.places) else len(source.text)
    found = signs_of(source, (other, limit))
    same = 0
    while same < min(len(asked), len(found)) and asked[same].plain == found[same].plain:
        same += 1
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
    if not is_question and pair.source.ends_clause(end) and len(left) == 1 and left[0].plain in _STOPS:
        until = following[0].span[1] if following and following[0].span[0] == end else end
        return pair.difference("end_punctuation", span, (end, until))
    return pair.difference(kind_of_run(left, []), span, (end, end))


def _outer(pair: Pair, span: Span, place: int, signs: Sequence[Sign]) -> list[Difference]:
    """Return a difference of what only the quote has outside."""
    classes = pair.quote.classes[slice(*span)]
    near = pair.source.text[max(0, place - (span[1] - span[0])) : place + span[1] - span[0]]
    if signs:
        kind = kind_beside_digits(pair, kind_of_run(signs, []), span, (place, place))
    elif says_other(pair.quote.text[slice(*span)], near):
        kind = "words"
    elif "M" in classes or "B" in classes:
        kind = "markup"
    else:
        kind = "white_space" if any(one in BLANKS for one in classes) else "invisible"
    return [pair.difference(kind, span, (place, place))]


# --- the nearest passage ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, by the numbers of their signs; in scripts without spaces each sign is one."""

    keys: list[str]
    signs: list[Span]

    @classmethod
    def of(cls, reading: Reading) -> Words:
        """Return the words of a text."""
        keys, signs, starts = [], [], reading.key_starts
        first, count, places, classes = 0, len(reading.places), reading.places, reading.classes
        for i in range(1, count + 1):
            if i == count or places[i] - places[i - 1] > 1 or UNSPACED in classes[places[i - 1] : places[i] + 1]:
                if i < count and not _is_edge(reading, i):
                    continue
                keys.append(reading.key[starts[first] : starts[i]])
                signs.append((first, i))
                first = i
        return cls(keys, signs)


def _is_edge(reading: Reading, sign: int) -> bool:
    """Return whether a word begins with a sign."""
    place, classes = reading.places[sign], reading.classes
    if classes[place] == UNSPACED or classes[reading.places[sign - 1]] == UNSPACED:
        return True
    return any(one not in UNSEEN and one not in (WITHIN, "m") for one in classes[reading.places[sign - 1] + 1 : place])


_FREQUENT, _BAND, _FEWEST, _MOST_WORDS = 16, 24, 3, 4000


def nearest(pair: Pair, asked: Words, known: Words, index: dict[str, list[int]]) -> Passage | None:
    """Return the passage that has most of the quote's words in order; None if it has less than half of them.

    Linear: words that are frequent are no anchors, and only a band around the best diagonal is compared.
    """
    if len(asked.keys) > _MOST_WORDS:
        return None
    votes: Counter[int] = Counter()
    for i, key in enumerate(asked.keys):
        places = index.get(key, ())
        if len(places) <= _FREQUENT:
            for j in places:
                votes[(j - i) // _BAND] += 1
    if not votes:
        return None
    spend(len(asked.keys) * _BAND * 4)
    best = max(votes, key=lambda one: (votes[one] + votes.get(one + 1, 0), -one))
    pairs = _aligned(asked.keys, index, best * _BAND - _BAND, best * _BAND + 2 * _BAND)
    if len(pairs) < max(_FEWEST, (len(asked.keys) + 1) // 2):
        return None
    return _near_passage(pair, asked, known, pairs)


def _aligned(asked: Sequence[str], index: dict[str, list[int]], low: int, high: int) -> list[tuple[int, int]]:
    """Return the longest common subsequence within a band of diagonals, in pairs (Hunt and Szymanski, 1977)."""
    ends: list[int] = []
    chains: list[_Chain] = []
    for i, key in enumerate(asked):
        places = index.get(key, ())
        for j in reversed(places[bisect_left(places, i + low) : bisect_right(places, i + high)]):
            length = bisect_left(ends, j)
            chain = _Chain((i, j), chains[length - 1] if length else None)
            ends[length : length + 1], chains[length : length + 1] = [j], [chain]
    pairs = []
    last = chains[-1] if chains else None
    while last:
        pairs.append(last.pair)
        last = last.before
    return pairs[::-1]


class _Chain(NamedTuple):
    """Words in pairs, from the last one back."""

    pair: tuple[int, int]
    before: _Chain | None


def _near_passage(pair: Pair, asked: Words, known: Words, pairs: Sequence[tuple[int, int]]) -> Passage:
    """Return what differs, word by word; equal words are compared as everywhere."""
    quote, source = pair.quote, pair.source
    # Words of the quote before the first that is found, and after the last, stand for as many of the source.
    first = max(0, pairs[0][1] - pairs[0][0])
    last = min(len(known.keys), pairs[-1][1] + len(asked.keys) - pairs[-1][0])
    signs = known.signs[first][0], known.signs[last - 1][1]
    begin, found = (source.places[signs[0]], []) if pairs[0][0] else _lead(pair, signs[0])
    before, at = (0, begin), (0, first)
    for i, j in pairs:
        place, other = quote.places[asked.signs[i][0]], source.places[known.signs[j][0]]
        if (i, j) != at:
            found.append(_region(pair, (before[0], place), (before[1], other)))
        elif i:
            found += gap(pair, (before[0], place), (before[1], other))
        found += compare(pair, asked.signs[i], known.signs[j])
        before = quote.sign_end(asked.signs[i][1] - 1), source.sign_end(known.signs[j][1] - 1)
        at = i + 1, j + 1
    if at[0] == len(asked.keys):
        end, after = _trail(pair, signs[1], wrapped=False)
        found += after
    else:
        end = source.sign_end(signs[1] - 1)
        found.append(_region(pair, (before[0], len(quote.text)), (before[1], end)))
    found = with_case(pair, with_order(merged(pair, found)), (begin, end), quote.places[0])
    return Passage((begin, end), signs, tuple(found))


def _region(pair: Pair, asked: Span, found: Span) -> Difference:
    """Return the difference of words that are not the same, without the signs around them that are."""
    one, other = known(pair.quote.text[slice(*asked)]), known(pair.source.text[slice(*found)])
    head = 0
    while head < min(len(one), len(other)) and one[head] == other[head] and not one[head].isalnum():
        head += 1
    tail = 0
    most = min(len(one), len(other)) - head
    while tail < most and one[-1 - tail] == other[-1 - tail] and not one[-1 - tail].isalnum():
        tail += 1
    return pair.difference("words", (asked[0] + head, asked[1] - tail), (found[0] + head, found[1] - tail))
