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
        return len([difference for difference in self.differences if difference.kind not in accepted])


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
        first_sign, end_sign = source.sign_at(start), source.sign_at(start + len(quote.key))
        if first_sign is not None and end_sign is not None:
            spend(_STEPS_TO_COMPARE + 10 * len(quote.text))
            yield _passage(pair, (first_sign, end_sign), [((0, len(quote.places)), (first_sign, end_sign))], glued)
            candidates += 1
        patience -= len(quote.text) + 64
        if patience < 0 or candidates == _MOST_CANDIDATES:
            return
        start += 1


def _passage(pair: Pair, signs: Span, runs: Sequence[tuple[Span, Span]], glued: tuple[bool, bool]) -> Passage:
    """Return what differs between a quote and some signs of the source, of which runs have the same keys."""
    quote, source = pair
    begin, lead_differences = _lead(pair, signs[0]) if runs[0][0][0] == 0 else (source.places[signs[0]], [])
    differences, at = [], (0, begin)
    for quote_run, source_run in runs:
        if quote_run[0]:
            differences.append(
                _region(pair, (at[0], quote.places[quote_run[0]]), (at[1], source.places[source_run[0]]))
            )
        differences += compare(pair, quote_run, source_run)
        at = quote.sign_end(quote_run[1] - 1), source.sign_end(source_run[1] - 1)
    opening = [difference for difference in lead_differences if _is_quotation_mark(pair, difference)]
    if runs[-1][0][1] == len(quote.places):
        end, trail_differences = _trail(pair, signs[1], wrapped=bool(opening))
    else:
        end = source.sign_end(signs[1] - 1)
        trail_differences = [_region(pair, (at[0], len(quote.text)), (at[1], end))]
    if any(difference.kind == "typography" and not difference.source for difference in trail_differences):
        lead_differences = [
            difference._replace(kind="typography") if difference in opening else difference
            for difference in lead_differences
        ]
    cuts = [
        pair.difference("cut", (at, at), (place, place))
        for at, place, free in ((0, begin, glued[0]), (len(quote.text), end, glued[1]))
        if not free and source.is_cut(place)
    ]
    differences = with_order(merged(pair, [*lead_differences, *differences, *trail_differences]))
    differences = with_case(pair, differences, (begin, end), quote.places[0])
    return Passage(
        (begin, end), signs, tuple(sorted([*differences, *cuts], key=lambda difference: difference.quote_span))
    )


# --- what the quote has before its first and after its last sign ------------------------------------


def _is_quotation_mark(pair: Pair, difference: Difference) -> bool:
    """Return whether only the quote has something there, and that is one quotation mark."""
    return not difference.source and [sign.kind for sign in signs_of(pair.quote, difference.quote_span)] == [QUOTE]


def _lead(pair: Pair, sign: int) -> tuple[int, list[Difference]]:
    """Return where the passage begins, and what differs before its first sign."""
    quote, source = pair
    place, source_place = quote.places[0], source.places[sign]
    if not place:
        return source_place, []
    quote_signs = signs_of(quote, (0, place))
    source_signs = signs_of(source, (source.sign_end(sign - 1) if sign else 0, source_place))
    same = count_equal(quote_signs[::-1], source_signs[::-1])
    begin, at = (source_signs[-same].span[0], quote_signs[-same].span[0]) if same else (source_place, place)
    outer = _outer(pair, (0, at), begin, quote_signs[: len(quote_signs) - same]) if at else []
    return begin, [*outer, *(gap(pair, (at, place), (begin, source_place)) if same else ())]


def _trail(pair: Pair, sign: int, *, wrapped: bool) -> tuple[int, list[Difference]]:
    """Return where the passage ends, and what differs after its last sign."""
    quote, source = pair
    place, source_place = quote.sign_end(len(quote.places) - 1), source.sign_end(sign - 1)
    if place == len(quote.text):
        return source_place, []
    quote_signs = signs_of(quote, (place, len(quote.text)))
    limit = source.places[sign] if sign < len(source.places) else len(source.text)
    source_signs = signs_of(source, (source_place, limit))
    same = count_equal(quote_signs, source_signs)
    end, at = (source_signs[same - 1].span[1], quote_signs[same - 1].span[1]) if same else (source_place, place)
    differences = list(gap(pair, (place, at), (source_place, end))) if same else []
    extra_signs = quote_signs[same:]
    closing = extra_signs.pop() if wrapped and extra_signs and extra_signs[-1].kind == QUOTE else None
    if extra_signs:
        differences.append(
            _stop(pair, extra_signs, (at, closing.span[0] if closing else None), end, source_signs[same:])
        )
        at, end = differences[-1].quote_span[1], differences[-1].chunk_span[1]
    if closing:
        differences.append(pair.difference("typography", (at, closing.span[1]), (end, end)))
        at = closing.span[1]
    if at < len(quote.text):
        differences += _outer(pair, (at, len(quote.text)), end, [])
    return end, differences


_STOPS = frozenset({".", ",", ";", ":", "。", "।"})


def _stop(
    pair: Pair, extra_signs: Sequence[Sign], between: tuple[int, int | None], end: int, following: Sequence[Sign]
) -> Difference:
    """Return what the quote has at its end, and the source has not: a stop where a clause ends, or other signs."""
    signs_end = extra_signs[-1].span[1]
    is_end = not pair.quote.text[signs_end : between[1]].strip()
    span = between[0], (between[1] or len(pair.quote.text)) if is_end else signs_end
    is_question = pair.source.asks_in_greek(end) or pair.quote.asks_in_greek(between[0])
    if not is_question and len(extra_signs) == 1 and extra_signs[0].plain in _STOPS and pair.source.ends_clause(end):
        until = following[0].span[1] if following and following[0].span[0] == end else end
        return pair.difference("end_punctuation", span, (end, until))
    return pair.difference(kind_of_run(pair, extra_signs, [], span, (end, end)), span, (end, end))


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
        kind = "white_space" if any(char_class in BLANKS for char_class in classes) else "invisible"
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
        occurrences = places.get(key, ())
        for j in occurrences if len(occurrences) <= _FREQUENT else ():
            votes[(j - i) // _BAND] += 1
    if not votes:
        return None
    spend(len(words) * _BAND * 4)
    best = max(votes, key=lambda diagonal: (votes[diagonal] + votes.get(diagonal + 1, 0), -diagonal))
    pairs = _aligned(words, places, best * _BAND - _BAND, best * _BAND + 2 * _BAND)
    return _near(pair, pairs) if len(pairs) >= max(_FEWEST, (len(words) + 1) // 2) else None


def _near(pair: Pair, pairs: Sequence[tuple[int, int]]) -> Passage:
    """Return the passage of words in pairs, those of neighbours as one run."""
    words, source_words = pair.quote.words, pair.source.words
    # Words of the quote before the first that is found, and after the last, stand for as many of the source.
    first_word = max(0, pairs[0][1] - pairs[0][0])
    last_word = min(len(source_words) - 1, pairs[-1][1] + len(words) - 1 - pairs[-1][0])
    runs: list[tuple[Span, Span]] = []
    next_pair = None
    for i, j in pairs:
        begin = runs.pop() if (i, j) == next_pair else ((words[i], 0), (source_words[j], 0))
        runs.append(((begin[0][0], words[i + 1]), (begin[1][0], source_words[j + 1])))
        next_pair = i + 1, j + 1
    return _passage(pair, (source_words[first_word], source_words[last_word]), runs, (True, True))


def _aligned(quote_keys: Sequence[str], index: dict[str, list[int]], low: int, high: int) -> list[tuple[int, int]]:
    """Return the longest common subsequence within a band of diagonals, in pairs (Hunt and Szymanski, 1977)."""
    ends: list[int] = []
    chains: list[_Chain] = []
    for i, key in enumerate(quote_keys):
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
    link = chains[-1] if chains else None
    while link:
        pair, link = link
        pairs.append(pair)
    return pairs[::-1]


def _region(pair: Pair, quote_span: Span, source_span: Span) -> Difference:
    """Return the difference of words that are not the same, without the signs around them that are."""
    quoted_text, source_text = pair.quote.known[slice(*quote_span)], pair.source.known[slice(*source_span)]
    head = _count_same_signs(quoted_text, source_text)
    tail = _count_same_signs(quoted_text[head:][::-1], source_text[head:][::-1])
    return pair.difference(
        "words", (quote_span[0] + head, quote_span[1] - tail), (source_span[0] + head, source_span[1] - tail)
    )


def _count_same_signs(text: str, other_text: str) -> int:
    """Return how many characters from the first on are the same, and no letters or digits."""
    same = takewhile(lambda pair: pair[0] == pair[1] and not pair[0].isalnum(), zip(text, other_text, strict=False))
    return len([*same])
