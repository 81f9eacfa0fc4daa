"""Passages of one page and one section each, as readers make them of a file, and its title."""

from __future__ import annotations

import re
from typing import NamedTuple

KINDS = {
    ".pdf": "pdf",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".text": "text",
}
"""Kinds of documents by the endings of their names, in small letters."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class UnreadableError(Exception):
    """A file can't be read; the message is the reason, as the end of a sentence."""


class Passage(NamedTuple):
    """A piece of a document's text.

    Attributes:
        text: as a person copies it; paragraphs have a blank line between them where the file says where they end.
        page: its page, from 1.
        section: the heading that it stands under, below higher ones if the file says which: ``Lathe › Care``.
    """

    text: str
    page: int | None = None
    section: str | None = None


class Content(NamedTuple):
    """Content of a file.

    Attributes:
        title: its title; empty if it names none.
        passages: in the file's order.
        empty_pages: number of pages without text, as scanned ones are.
    """

    title: str
    passages: list[Passage]
    empty_pages: int = 0


def cleaned(text: str) -> str:
    """Remove control characters, which Postgres or a terminal could not take."""
    return _CONTROLS.sub("", text)
