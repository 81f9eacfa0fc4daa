"""Codes in a text, such as `INC-4711`, `ISO 9001` or `4.2.1`: names that no other wording stands for.

A code is its pieces, each of letters or of digits, however they are joined: `INC-4711`, `inc 4711` and `INC4711` are
one. A text names a code where its pieces stand in a row and nothing makes them part of a longer one: `E-401` is named
neither by `E-4010` nor by `E-401-B`. The number of a word and a number (`HTTP 502`) stands for both where it labels a
line or a cell, ends a clause ("with error 502."), or stands near the word: not in "every 502 hours".
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from worker.core.text.normal_forms import normal_form
from worker.core.text.words import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 16
"""Codes of a text that are looked for: each costs time over every source."""
MOST_PIECES = 16
"""Pieces of a code; a run of more is none, because each of its pieces costs time at each place of a source."""

# Latin, Greek, Cyrillic. In other scripts endings or whole sentences follow without a blank.
_LETTERS = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u03ff\u0400-\u04ff"
_RUN = re.compile(rf"[{_LETTERS}0-9][{_LETTERS}0-9._/:-]*+")
_DATES_AND_AMOUNTS = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}|\d{1,3}(?:\.\d{3})+|(?:1\d|20)\d\d-(?:1\d|20)\d\d")
_IS_CODE = re.compile(
    rf"[^{_LETTERS}]*+[{_LETTERS}]\D*+\d"  # a letter before a digit: `INC-4711`, `v7.3`, `0x6C79`; no amount (`12mm`)
    r"|\d++(?:\.\d++){2}"  # a version or an address: `4.2.1`, `10.20.30.40`
    r"|(?:\d++[._/:-]){3}\d"
    r"|\d{3,}+-\d{3,}+$"  # `2024-0118`
)
_CAPITALS = re.compile(
    r"(?<![^\W_])((?:[A-Z]/)?[A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f]{1,6}) "
    r"(\d{2,}+(?:-\d++)*)(?![.:/-]?\w)"
)
_NO_NAMES = STOP_WORDS | {"ad", "bc", "ce", "bce", "am", "pm", "usd", "eur", "gbp", "chf"}
"""Words in capitals before a number that are no code with it."""

_PIECE = re.compile(rf"[{_LETTERS}]+|[^\W\d_{_LETTERS}]+|\d+")
_JOINS = re.compile(r"[._/:-]*+| |-[ \t]*+\n?[ \t]*+")  # a line of a paragraph that Markdown joined ends in a space
_DASHES = str.maketrans(dict.fromkeys(map(ord, "\u2010\u2012\u2013\u2014\u2015\u2212"), "-"))
"""Dashes that Word and typesetters put in the place of a hyphen; NFKC has folded the others."""

_LABEL_START = re.compile(r"[|\n][ \t>*_`#+-]*+\Z")
_LOOK_BACK = 16
"""Most characters between the begin of a line or a cell and the number that labels it."""
_CLAUSE_END = re.compile(r"[,;:!?)\n]|\.(?!\d)|\Z")
_LEAST_WORD = 4
"""Letters of a word before a number that is no name in capitals itself."""
_NEAR = 3
"""Pieces between a word and a number that belong together though not joined: `HTTP status code 502`, `48 V DC`."""
_CONTINUES = {"", "-", ".", "_"}
_LONGEST_SUFFIX = 2
"""Letters of a piece that makes a code a longer one, as B in `E-401-B`; a word joined to a code does not."""


class Code(NamedTuple):
    """A code that a text names.

    Attributes:
        pieces: its pieces, folded.
        written: as it is written there.
        number: of a word and a number with a space between (`HTTP 502`), the pieces of the number; empty of any other.
    """

    pieces: tuple[str, ...]
    written: str
    number: tuple[str, ...] = ()


def codes(text: str) -> frozenset[Code]:
    """Return the first codes that a text names, at most `MOST`, each once.

    >>> sorted(code.written for code in codes("Is INC-4711 older than v7.3, a 12mm bolt at 10.20.30.40 or 2025-05-01?"))
    ['10.20.30.40', 'INC-4711', 'v7.3']
    """
    text = _unified(text)
    runs = [run.rstrip("._/:-") for run in _RUN.findall(text)]
    runs = [run for run in runs if _IS_CODE.match(run) and not _DATES_AND_AMOUNTS.fullmatch(run)]
    text_codes = [Code(_pieces(run), run) for run in runs]
    if text != text.upper():
        pairs = [match for match in _CAPITALS.findall(text) if match[0].casefold() not in _NO_NAMES]
        text_codes += [Code(_pieces(" ".join(pair)), " ".join(pair), _pieces(pair[1])) for pair in pairs]
    by_pieces = {code.pieces: code for code in reversed(text_codes) if len(code.pieces) <= MOST_PIECES}
    return frozenset(islice(reversed(by_pieces.values()), MOST))


def named(text: str, asked_codes: Iterable[Code]) -> frozenset[Code]:
    """Return the codes of ``asked_codes`` that a text names, in any writing; linear in the text.

    >>> text = "Tickets INC 4711, INC-47110 and step 12; the HTTP error 502, every 90 days"
    >>> sorted(code.written for code in named(text, codes("Are INC-4711, INC-47, P-12, HTTP 502 and DIN 90 named?")))
    ['HTTP 502', 'INC-4711']
    """
    by_first: dict[str, list[tuple[tuple[str, ...], Code]]] = {}
    for code in asked_codes:
        for pieces in filter(None, (code.pieces, code.number)):
            by_first.setdefault(pieces[0], []).append((pieces, code))
    if not by_first:
        return frozenset()
    text = _unified(text).casefold()
    places = [(match[0], match.start(), match.end()) for match in _PIECE.finditer(text)]
    return frozenset(
        code
        for i, (piece, _, __) in enumerate(places)
        for pieces, code in by_first.get(piece, ())
        if _stands_at(pieces, i, places, text)
        and (pieces == code.pieces or len(pieces) > 1 or _stands_for(code, i, places, text))
    )


_NUMBER = re.compile(r"\d{1,3}(?>(?: \d{3})+)(?!\d)|\d++(?>(?:[.,:/-]\d++)*)")
_GROUPED = re.compile(r"\d{1,3}([., ])\d{3}(?:\1\d{3})*")
_ZEROS = re.compile(r"[.,]0$")


def numbers(text: str) -> dict[str, None]:
    """Return the numbers that a text names, in order, each once; a decimal, a date or a version is one number.

    >>> [*numbers("Is form No. 6 of 2024-11-15 on port 8,444 or 12 000, or 1.4404 in version 4.0?")]
    ['6', '2024-11-15', '8444', '12000', '1.4404', '4']
    """
    return dict.fromkeys(_written_once(number) for number in _NUMBER.findall(_unified(text)))


def _written_once(number: str) -> str:
    """Return a number without marks between its thousands, and without a decimal that is zero."""
    if _GROUPED.fullmatch(number):
        return re.sub("[., ]", "", number)
    return _ZEROS.sub("", number)


def without_codes(text: str, text_codes: Iterable[Code]) -> str:
    """Return a text with a space for each of its codes, as `codes` found them."""
    text = _unified(text)
    for code in sorted(text_codes, key=lambda code: (-len(code.written), code.written)):
        text = text.replace(code.written, " ")
    return text


def _stands_at(pieces: tuple[str, ...], i: int, places: list[tuple[str, int, int]], text: str) -> bool:
    end = i + len(pieces)
    if tuple(piece for piece, _, __ in places[i:end]) != pieces:
        return False
    joins = (text[places[j][2] : places[j + 1][1]] for j in range(i, end - 1))
    return (
        all(_JOINS.fullmatch(join) for join in joins)
        and not (i > 0 and places[i - 1][0] != "v" and _extends(places, text, i - 1, i - 1, pieces))
        and not (end < len(places) and _extends(places, text, end - 1, end, pieces))
    )


def _stands_for(code: Code, i: int, places: list[tuple[str, int, int]], text: str) -> bool:
    """Return whether a number stands for a whole code: as a label, or with the code's words near it in its line."""
    start = places[i][1]
    text_before = text[start - _LOOK_BACK : start] if start > _LOOK_BACK else f"\n{text[:start]}"
    if _LABEL_START.search(text_before):
        return True
    word, end = places[i - 1][0], places[i][2]
    # "error 502." but neither "SAE 30." nor "every 30 days".
    if i > 0 and len(word) >= _LEAST_WORD and word.isalpha() and _CLAUSE_END.match(text, end):
        return True
    near = range(max(0, i - _NEAR), min(len(places), i + _NEAR + 1))
    in_line = {places[j][0] for j in near if "\n" not in text[places[min(i, j)][2] : places[max(i, j)][1]]}
    return in_line.issuperset(code.pieces[: -len(code.number)])


def _unified(text: str) -> str:
    return normal_form("NFKC", text).translate(_DASHES)


def _extends(places: list[tuple[str, int, int]], text: str, end: int, beside: int, pieces: tuple[str, ...]) -> bool:
    """Return whether the piece at ``beside``, joined after ``end`` to the next one, makes a code longer."""
    piece, join = places[beside][0], text[places[end][2] : places[end + 1][1]]
    if join not in _CONTINUES:
        return False
    is_script = piece.isascii() or not all(part.isascii() for part in pieces)
    return piece.isdigit() or (len(piece) <= _LONGEST_SUFFIX and is_script)


def _pieces(run: str) -> tuple[str, ...]:
    """Return the pieces of a code, without the v of a version."""
    pieces = tuple(_PIECE.findall(run.casefold()))
    return pieces[1:] if pieces[0] == "v" and pieces[1:2] and pieces[1].isdigit() else pieces
