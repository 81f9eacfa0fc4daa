"""Pieces: a text cut at the ends of the spans that mark it, and the difference of two texts by words."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from worker.core.text.spans import Span

T = TypeVar("T")

Change = Literal["same", "removed", "added"]

MOST_STEPS, MOST_STEPS_OF_A_PAGE = 200_000, 4_000_000
"""Most comparisons of words in a difference, and in all of a page: beyond them a text is shown as replaced, whole."""

_Stretch: TypeAlias = tuple[int, int, int]
"""Begin and end of equal words in the old text on a diagonal, and the diagonal that led there."""

_WORDS = re.compile(r"\S+\s*|\s+")

_LONGEST_WORD = 24
"""Characters; what is longer without white space, such as Chinese or a hash, may be cut anywhere."""

_END_OF_WORD, _START_OF_WORD = (re.compile(form % _LONGEST_WORD) for form in (r"\S{,%d}\s+", r"\s+\S{,%d}\Z"))


@dataclass(frozen=True, slots=True)
class Piece(Generic[T]):
    """Piece of a text between two ends of spans.

    Attributes:
        text: the piece; all pieces together are the text.
        start: its place in the text, in code points.
        marks: marks of the spans that cover it, in the order given.
    """

    text: str
    start: int
    marks: tuple[T, ...] = ()


@dataclass(frozen=True, slots=True)
class DiffPiece:
    """Piece of a word diff: in both texts, only in the old one, or only in the new one."""

    text: str
    change: Change


def cut(text: str, marked: Iterable[tuple[Span, T]], start: int = 0, end: int | None = None) -> tuple[Piece[T], ...]:
    """Cut a text at the ends of spans; spans may overlap, and what lies outside the text or is empty is ignored.

    >>> [(piece.text, piece.marks) for piece in cut("It hums.", [((3, 7), "quoted"), ((5, 8), "noted")])]
    [('It ', ()), ('hu', ('quoted',)), ('ms', ('quoted', 'noted')), ('.', ('noted',))]

    Args:
        text: the text.
        marked: spans in code points of the text, each with its mark.
        start: only from here.
        end: only up to here.
    """
    end = len(text) if end is None else min(end, len(text))
    inside = [(max(span_start, start), min(span_end, end), mark) for (span_start, span_end), mark in marked]
    inside = [span for span in inside if span[0] < span[1]]
    bounds = sorted(
        {start, end, *(span_start for span_start, _, _ in inside), *(span_end for _, span_end, _ in inside)}
    )
    opening: dict[int, list[int]] = {}
    for i, (span_start, _, _) in enumerate(inside):
        opening.setdefault(span_start, []).append(i)
    active: list[int] = []
    pieces: list[Piece[T]] = []
    for piece_start, piece_end in itertools.pairwise(bounds):
        active = sorted([*(i for i in active if inside[i][1] > piece_start), *opening.get(piece_start, [])])
        pieces.append(Piece(text[piece_start:piece_end], piece_start, tuple(inside[i][2] for i in active)))
    return tuple(pieces)


def window(pieces: Iterable[Piece[T]], start: int, end: int) -> tuple[Piece[T], ...]:
    """Return the pieces between two places of their text, in code points of it; those at the ends are cut."""
    cuts = ((piece, max(start - piece.start, 0), max(end - piece.start, 0)) for piece in pieces)
    texts = ((piece, cut_start, piece.text[cut_start:cut_end]) for piece, cut_start, cut_end in cuts)
    return tuple(replace(piece, text=text, start=piece.start + cut_start) for piece, cut_start, text in texts if text)


def whole_words(text: str, start: int, end: int) -> Span:
    """Return the places between which a part of a text has no cut word; in code points, within those given.

    >>> text = "Replace the fuse in me"
    >>> [text[slice(*whole_words(text, *places))] for places in ((0, 14), (0, 11), (4, 22), (8, 40))]
    ['Replace the', 'Replace the', 'the fuse in me', 'the fuse in me']
    """
    if start > 0 and not text[start - 1].isspace() and (cut_word := _END_OF_WORD.match(text, start, end)):
        start = cut_word.end()
    if end < len(text) and (cut_word := _START_OF_WORD.search(text, max(start, end - _LONGEST_WORD), end + 1)):
        end = cut_word.start()
    return start, end


def steps_each(differences: int) -> int:
    """Return the most steps of each of a page's differences."""
    return min(MOST_STEPS, MOST_STEPS_OF_A_PAGE // max(1, differences))


def word_diff(old: str, new: str, most_steps: int = MOST_STEPS) -> tuple[DiffPiece, ...]:
    """Return the difference of two texts by words; equal pieces show the new text's white space.

    >>> [(piece.change, piece.text) for piece in word_diff("a 50 Hz hum", "a 60 Hz  hum")]
    [('same', 'a '), ('removed', '50 '), ('added', '60 '), ('same', 'Hz  hum')]

    Args:
        old: the text before.
        new: the text after.
        most_steps: most comparisons of words; beyond it, all between the common beginning and end is replaced.
    """
    old_words, new_words = _WORDS.findall(old), _WORDS.findall(new)
    keys = [[word.strip() for word in words] for words in (old_words, new_words)]
    head, tail = _common(*keys)
    middle = [words[head : len(words) - tail] for words in keys]
    pieces: list[DiffPiece] = []
    _add(pieces, "same", new_words[:head])
    a, b = head, head
    for i, j in [*_common_words(middle[0], middle[1], most_steps), (len(middle[0]), len(middle[1]))]:
        _add(pieces, "removed", old_words[a : head + i])
        _add(pieces, "added", new_words[b : head + j])
        _add(pieces, "same", new_words[head + j : head + j + 1])
        a, b = head + i + 1, head + j + 1
    _add(pieces, "same", new_words[b:])
    return _merged(pieces)


def condensed(pieces: Sequence[DiffPiece], around: int = 120, longest: int = 2000) -> tuple[DiffPiece, ...]:
    """Shorten a diff for a page: what is the same to its ends, what changed to its beginning.

    Args:
        pieces: the diff.
        around: characters of a same piece to show at each end.
        longest: most characters of a changed piece.
    """
    return tuple(
        DiffPiece(ends(piece.text, around) if piece.change == "same" else _beginning(piece.text, longest), piece.change)
        for piece in pieces
    )


def ends(text: str, around: int) -> str:
    """Return the beginning and the end of a text, or all of a short one."""
    if len(text) <= 3 * around:
        return text
    beginning, end = whole_words(text, 0, around), whole_words(text, len(text) - around, len(text))
    return f"{text[slice(*beginning)]} … {text[slice(*end)]}"


def _beginning(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[slice(*whole_words(text, 0, longest))]} …"


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many words both have in common at their beginning, and after that at their end."""
    shortest = min(len(old), len(new))
    head = next((i for i in range(shortest) if old[i] != new[i]), shortest)
    remaining = shortest - head
    tail = next((i for i in range(remaining) if old[-1 - i] != new[-1 - i]), remaining)
    return head, tail


def _common_words(old: Sequence[str], new: Sequence[str], most_steps: int) -> list[tuple[int, int]]:
    """Return the places in both of a longest common subsequence, in order; none if that takes too many steps.

    The greedy algorithm of Myers (1986), "An O(ND) difference algorithm and its variations". `difflib` has no bound:
    it takes cubic time for words that repeat.
    """
    furthest = {1: 0}
    rounds: list[dict[int, _Stretch]] = []
    for changes in range(len(old) + len(new) + 1):
        rounds.append({})
        for k in range(-changes, changes + 1, 2):
            is_added = k == -changes or (k != changes and furthest[k - 1] < furthest[k + 1])
            start = end = furthest[k + 1] if is_added else furthest[k - 1] + 1
            while end < len(old) and end - k < len(new) and old[end] == new[end - k]:
                end += 1
            furthest[k] = end
            rounds[-1][k] = start, end, k + 1 if is_added else k - 1
            if end >= len(old) and end - k >= len(new):
                return _path_back(rounds, k)
            most_steps -= end - start + 1
        if most_steps < 0:
            break
    return []


def _path_back(rounds: Sequence[Mapping[int, _Stretch]], k: int) -> list[tuple[int, int]]:
    common: list[tuple[int, int]] = []
    for stretches in reversed(rounds):
        start, end, previous_diagonal = stretches[k]
        common += [(i, i - k) for i in range(end - 1, start - 1, -1)]
        k = previous_diagonal
    return common[::-1]


def _add(pieces: list[DiffPiece], change: Change, words: Sequence[str]) -> None:
    if words:
        pieces.append(DiffPiece("".join(words), change))


def _merged(pieces: Sequence[DiffPiece]) -> tuple[DiffPiece, ...]:
    merged: list[DiffPiece] = []
    for piece in pieces:
        if merged and merged[-1].change == piece.change:
            piece = DiffPiece(merged.pop().text + piece.text, piece.change)  # noqa: PLW2901 -- joined to the one before
        merged.append(piece)
    return tuple(merged)
