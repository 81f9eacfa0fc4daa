"""Lines: styled text that a pane wraps; every untrusted text passes `plain` or `inline`, which show signs as signs.

Meaning is never in a colour alone: with NO_COLOR, words, underlines and strokes remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from worker.core.text.visible import visible, visible_line
from worker.inspector.rendering import short, words
from worker.inspector.view.wording import MARKS, STYLES, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from worker.inspector.view.pieces import DiffPiece, Piece
    from worker.inspector.view.run import Facts

HEADING, QUIET, ID, PROBLEM = "bold underline", "dim", "cyan", "bold red"
CITED, CURRENT = "bold cyan", "bold reverse"
QUOTED, DIFFERS = MARKS["quoted"], MARKS["differs"]
REMOVED, ADDED = "strike red", "bold underline green"

MOST = 20_000
"""Characters of one text that a pane shows."""

NAME = 60
"""Characters of an id or a name that a line shows."""


@dataclass(frozen=True, slots=True)
class Line:
    """Line of a pane, before it is wrapped.

    Attributes:
        text: the line, without a newline.
        indent: columns before each of its rows.
    """

    text: Text
    indent: int = 0


def plain(text: str, style: str = "") -> Text:
    r"""Return an untrusted text; its newlines stay.

    >>> plain("a\x1b[31m\tb").plain
    'a␛[31m    b'
    """
    return Text(visible(text).replace("\t", "    "), style)


def inline(text: str | None, length: int = NAME, style: str = "") -> Text:
    r"""Return an untrusted text on one line, cut to a length.

    >>> inline("song\n1\x07", 10).plain
    'song 1␇'
    """
    return Text(visible_line(short(text, length)), style)


def named(text: str | None, length: int = NAME) -> Text:
    r"""Return an id on one line: a newline in it is seen.

    >>> named("song\n1").plain
    'song␊1'
    """
    flat = visible_line((text or "")[: length + 1])
    return Text(flat if len(flat) <= length else flat[: length - 1] + "…", ID)


def badge(code: str | None, kind: str = "") -> Text:
    """Return what is said of a verdict or a status, in the colour of its tone.

    >>> badge("verbatim", "quote").plain
    'copied word for word'
    """
    verdict = said(kind, code or "")
    return inline(verdict.words, NAME, STYLES[verdict.tone])


def joined(*texts: Text | str | None, separator: str = "  ") -> Text:
    """Join the parts that are not empty."""
    return Text(separator).join(Text(text) if isinstance(text, str) else text for text in texts if text)


def heading(title: str, note: str = "") -> Line:
    """Return a heading of the program's own words, and a note beside it."""
    return Line(joined(Text(title, HEADING), Text(note, QUIET)))


def note(sentence: str, indent: int = 0) -> Line:
    """Return a quiet sentence of the program's own words."""
    return Line(Text(sentence, QUIET), indent)


BLANK = Line(Text())


def paragraphs(text: Text, indent: int = 0) -> Iterator[Line]:
    """Yield a text's lines."""
    for line in text.split("\n", allow_blank=True):
        yield Line(line, indent)


def marked(pieces: Iterable[Piece[Any]], longest: int = MOST) -> Text:
    """Return a text with what is marked in it: quoted, left out, differing, around a quote."""
    text, room = Text(), longest
    for piece in pieces:
        style = next((style for mark, style in MARKS.items() if mark in piece.marks), "")
        text.append_text(plain(piece.text[:room], style))
        room -= len(piece.text)
        if room < 0:
            return text.append(f" … {-room:,} more characters and what follows", QUIET)
    return text


def difference(pieces: Sequence[DiffPiece]) -> Text:
    """Return a word diff: removed words struck out between [- -], added ones underlined between {+ +}."""
    text = Text()
    for piece in pieces:
        if piece.change == "same":
            text.append_text(plain(piece.text))
            continue
        opening, closing, style = ("[-", "-]", REMOVED) if piece.change == "removed" else ("{+", "+}", ADDED)
        body = piece.text.rstrip()
        text.append(opening).append_text(plain(body, style)).append(closing + (" " if body != piece.text else ""))
    return text


def facts(pairs: Facts) -> Iterator[Line]:
    """Yield facts, all on one line."""
    if pairs:
        fact_texts = (joined(Text(words(name), QUIET), inline(value, 400), separator=" ") for name, value in pairs)
        yield Line(joined(*fact_texts, separator=" · "))


def more(count: int, noun: str, indent: int = 0) -> Iterator[Line]:
    """Yield the line that says how many are not shown."""
    if count > 0:
        yield note(f"… {count:,} more {noun}", indent)
