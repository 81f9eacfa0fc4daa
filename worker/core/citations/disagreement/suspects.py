"""Suspects: the texts that are worth reading.

Reading is slow and most texts have nothing to do with each other. Sentences can only be alike if sums over
their words are equal, of what no inflection and no value changes: the first three letters, with y as i, and
nothing for words that may stand in a number, a date, a unit or a negation. The sums are made of all texts at
once, over pieces (up to each stop) that are sentences or parts of them, and alike in alike sentences unless
a stop stands inside a value in only one of the two (``3. May``, ``13 May``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from worker.core.citations.disagreement.words import PREFIX_LENGTH, WEIGHTLESS
from worker.core.text.normal_forms import normal_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from worker.core.text.spans import Span

    _Places = NDArray[np.intp]

_LETTERS = bytes(ord("i") if chr(i) in "yY" else ord(chr(i).lower()) if chr(i).isalpha() else 0 for i in range(128))
_LAST_ASCII = 127
_FOLD = _LETTERS + bytes(128)
_STOPS = b".!?"
_ENDS_WORD = np.array([i > _LAST_ASCII or chr(i) in "\0\t\n\v\f\r \"')]" for i in range(256)])
_IS_SMALL = np.array([chr(i) in "abcdefghijklmnopqrstuvwxyz" for i in range(256)])
_NEW_LINE = re.compile(
    rb"\n[ \t]*+(?:[#|][^\n]*+|(?=[\n\r>]|[-*+]\s|\xe2\x80[\xa2\x93]\s|\d{1,3}[.)]\s))",
)
_WORD_BYTES = 8
_PADDING = bytes(_WORD_BYTES)
_EACH_BYTE, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_PREFIX, _SHORT = np.uint64((1 << 8 * PREFIX_LENGTH) - 1), np.uint64(1 << 8 * (PREFIX_LENGTH - 1))
_SPREAD, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_TABLE_SHIFTS = (np.uint64(49), np.uint64(43))
_TABLE_MASK = np.uint64(0x7FFF)


def find_suspects(texts: Sequence[tuple[str, str]]) -> list[tuple[int, list[Span]]]:
    """Find those of some (source, text) with pieces much like one of another source and not the same; and where."""
    if len({source for source, _ in texts}) <= 1:
        return []
    blob, bounds = _joined([text for _, text in texts])
    sums, starts, ends = _pieces(blob, bounds)
    owners = np.searchsorted(bounds, starts, side="right") - 1
    starts, ends = _reach(starts, ends, owners, bounds)
    _, group, counts = np.unique(sums, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts[group] > 1)
    members: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    columns = (group[repeated], owners[repeated], starts[repeated], ends[repeated])
    for number, owner, start, end in zip(*(column.tolist() for column in columns), strict=True):
        members[number].append((owner, start, end))
    found: defaultdict[int, list[Span]] = defaultdict(list)
    for alike in members.values():
        sources = {texts[owner][0] for owner, _, _ in alike}
        if len(sources) > 1 and len({blob[start:end] for _, start, end in alike}) > 1:
            for owner, start, end in alike:
                found[owner].append((start, end))
    return [(i, _in_characters(texts[i][1], blob, bounds[i : i + 2], sorted(found[i]))) for i in sorted(found)]


def _reach(starts: _Places, ends: _Places, owners: _Places, bounds: _Places) -> tuple[_Places, _Places]:
    """Pieces with the weightless ones on both sides, which may be parts of the same sentences."""
    follows = np.append(False, owners[1:] == owners[:-1])
    before = np.where(follows, np.append(0, ends[:-1]), bounds[owners])
    after = np.where(np.append(follows[1:], False), np.append(starts[1:], 0), bounds[owners + 1])
    return before, after


def _in_characters(text: str, blob: bytes, bounds: _Places, spans: list[Span]) -> list[Span]:
    """Spans of the joined bytes as spans of a text; all of it where it was not joined as it is."""
    begin, end = bounds[0] + 1, bounds[1]
    places = np.maximum(np.array(spans) - begin, 0)
    if not text.isascii():
        joined = blob[begin:end]
        if joined != text.encode("utf-8", "surrogatepass"):
            return [(0, len(text))]
        begins_character = (np.frombuffer(joined, np.uint8) & 0xC0) != 0x80  # noqa: PLR2004 -- UTF-8
        places = np.append(0, np.cumsum(begins_character))[places]
    return [(start, end) for start, end in places.tolist()]


def _joined(texts: Sequence[str]) -> tuple[bytes, _Places]:
    """All texts, each after a new line, with padding after the last; where each begins, and where the last ends."""
    parts = [text.encode() if text.isascii() else _folded_bytes(text) for text in texts]
    bounds = np.cumsum([0, *map(len, parts)]) + np.arange(len(parts) + 1)
    return b"\n".join([b"", *parts]) + _PADDING, bounds


def _folded_bytes(text: str) -> bytes:
    """A text beyond ASCII in composed forms; one of another script in letters that stand for its own."""
    text = normal_form("NFKC", text.replace("\u00ad", ""))
    raw = text.encode("utf-8", "surrogatepass")
    return text.casefold().translate(_Transliteration()).encode() if len(raw) > _FOREIGN * len(text) else raw


class _Transliteration(dict[int, str]):
    """Some ASCII letter for every letter, so that other scripts have weight as well."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        # Capitals: before a small letter no sentence begins.
        plain = character.upper() if character.isascii() else chr(ord("A") + code % 26) if character.isalpha() else " "
        self[code] = ". " if character in "。！？" else plain
        return self[code]


_FOREIGN = 1.3
"""Bytes a character of a text that is not in Latin script, at least."""


# Large arrays are changed in place: the memory of a new one costs more than what is done in it.


def _pieces(blob: bytes, bounds: _Places) -> tuple[NDArray[np.uint64], _Places, _Places]:
    """Sum, start and end of each piece that weighs anything."""
    folded = blob.translate(_FOLD)
    letters = np.frombuffer(folded, np.uint8) != 0
    # The first byte is a new line, the last ones are padding: words begin and end inside.
    starts = np.flatnonzero(letters[1:] > letters[:-1])
    starts += 1
    weights = _weights(_words(folded, starts))
    cuts = _cuts(blob, bounds)
    first_words = np.searchsorted(starts, cuts)
    filled = np.flatnonzero(first_words[:-1] < first_words[1:])
    sums: NDArray[np.uint64] = np.add.reduceat(weights, first_words[filled]) if len(filled) else np.zeros(0, np.uint64)
    weighing = sums != 0
    return sums[weighing], cuts[filled][weighing], cuts[filled + 1][weighing]


def _words(folded: bytes, starts: _Places) -> NDArray[np.uint64]:
    """The letters of each word, up to eight, as one number; its lowest byte is the first letter."""
    at_each_byte = np.ndarray(len(folded) - _WORD_BYTES + 1, dtype="<u8", buffer=folded, strides=(1,))
    words: NDArray[np.uint64] = at_each_byte.take(starts)
    # Of the bytes that are zero, the lowest has the lowest high bit here; below it the word's letters are.
    ends = words - _EACH_BYTE
    ends &= ~words
    ends &= _HIGH_BITS
    ends &= -ends
    ends >>= np.uint64(7)
    ends -= np.uint64(1)
    words &= ends
    return words


def _weights(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return what each word adds to a sum, by its first letters: any order of the same words gives the same sum."""
    weights = words & _PREFIX
    weights *= _SPREAD
    weights ^= weights >> np.uint64(29)
    weights *= _MIX
    weightless = words < _SHORT
    spread = words * _SPREAD
    for shift, table in zip(_TABLE_SHIFTS, _TABLES, strict=True):
        places = spread >> shift
        places &= _TABLE_MASK
        weightless |= table.take(places.view(np.int64)) == words
    weights[weightless] = 0
    return weights


def _cuts(blob: bytes, bounds: _Places) -> _Places:
    """Return the places where pieces end and the next begin, the bounds of texts included."""
    data = np.frombuffer(blob, np.uint8)
    is_stop = data == _STOPS[0]
    for stop in _STOPS[1:]:
        is_stop |= data == stop
    stops = np.flatnonzero(is_stop)
    # "e.g. twice": before a small letter no sentence begins.
    stops = stops[_ENDS_WORD[data[stops + 1]] & ~_IS_SMALL[data[stops + 2]]]
    lines = [place for match in _NEW_LINE.finditer(blob, 0, int(bounds[-1])) for place in match.span()]
    cuts: _Places = np.concatenate([bounds, stops + 1, np.array(lines, np.intp)])
    cuts.sort(kind="stable")
    return cuts[np.diff(cuts, prepend=-1) > 0]


def _weightless_tables() -> tuple[NDArray[np.uint64], ...]:
    """Tables that hold each of these words at its place in one of them."""
    tables = tuple(np.zeros(int(_TABLE_MASK) + 1, np.uint64) for _ in _TABLE_SHIFTS)
    for form in sorted(WEIGHTLESS):
        folded = form.encode().translate(_FOLD).split(b"\0")[0][:_WORD_BYTES]
        word = np.uint64(int.from_bytes(folded, "little"))
        with np.errstate(over="ignore"):
            spread = word * _SPREAD
        for shift, table in zip(_TABLE_SHIFTS, tables, strict=True):
            place = (spread >> shift) & _TABLE_MASK
            if table[place] in {0, word}:
                table[place] = word
                break
        else:
            raise AssertionError(f"no place for {form}")
    return tables


_TABLES = _weightless_tables()
