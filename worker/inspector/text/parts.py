"""Parts of every report: verdicts, marked texts and word diffs, in their colours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from worker.adapters.terminal import styled
from worker.inspector.view.wording import CHANGES, MARKS, QUIET, STYLES, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text

    from worker.inspector.view.pieces import DiffPiece, Piece
    from worker.inspector.view.wording import Kind


def verdict_cell(kind: Kind, code: str) -> Text:
    """Return what is said of a verdict, in the colour of its tone."""
    verdict = said(kind, code)
    return styled((verdict.words, STYLES[verdict.tone]))


def fact_line(name: str, text: str, style: str = "") -> Text:
    """Return a fact with its name."""
    return styled((f"{name}: ", QUIET), (text, style))


def marked(pieces: Iterable[Piece[Any]], *, is_flat: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text, each with the style of its first mark.

    Args:
        pieces: the pieces.
        is_flat: True for a text on one line.
    """
    for piece in pieces:
        style = next((style for mark, style in MARKS.items() if mark in piece.marks), "")
        yield re.sub(r"\s+", " ", piece.text) if is_flat else piece.text, style


def difference(pieces: Iterable[DiffPiece]) -> Text:
    """Return a coloured word diff in git's notation: [-removed-], {+added+}."""
    fragments: list[str | tuple[str, str]] = []
    for piece in pieces:
        form, style = CHANGES[piece.change]
        fragments += [(form.format(" ".join(piece.text.split())), style), " "]
    return styled(*fragments)
