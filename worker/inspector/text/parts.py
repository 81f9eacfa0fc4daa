"""Parts of every report: tables, verdicts, marked texts and word diffs, in their colours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rich.table import Table

from worker.adapters.terminal import ID_COLUMN, styled
from worker.inspector.view.wording import CHANGES, MARKS, QUIET, STYLES, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.text import Text

    from worker.inspector.view.pieces import DiffPiece, Piece
    from worker.inspector.view.wording import Kind


RANK: Mapping[str, Any] = {"style": QUIET, "justify": "right", "no_wrap": True}
NUMBER: Mapping[str, Any] = {"justify": "right", "no_wrap": True}
CHUNK: Mapping[str, Any] = {"style": "cyan", **ID_COLUMN}
WORD: Mapping[str, Any] = {"no_wrap": True}
LINE: Mapping[str, Any] = {"no_wrap": True, "ratio": 1}
FULL: Mapping[str, Any] = {"ratio": 1}
"""Options of columns: LINE is cut where FULL is wrapped, and both take the room that is there."""


def table_of(
    title: str | None, caption: str | None, *columns: tuple[str, Mapping[str, Any]], expand: bool = True
) -> Table:
    """Build a table without rows: its columns by name, each with its options."""
    table = Table(title=title, caption=caption, title_justify="left", expand=expand)
    for name, options in columns:
        table.add_column(name, **options)
    return table


def verdict_cell(kind: Kind, code: str) -> Text:
    """Return what is said of a verdict, in the colour of its tone."""
    verdict = said(kind, code)
    return styled((verdict.words, STYLES[verdict.tone]))


def fact_line(name: str, text: str, style: str = "") -> Text:
    """Return a fact with its name."""
    return styled((f"{name}: ", QUIET), (text, style))


def marked(pieces: Iterable[Piece[Any]], *, is_flat: bool = True) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text, each with the style of its first mark; ``is_flat``: on one line."""
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
