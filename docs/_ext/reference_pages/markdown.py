"""Markdown in the few forms that the reference pages need: any viewer of the repository shows them, the site too."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PAGE = re.compile(r"\bdocs/([\w-]+\.md)(#[\w-]+)?")
_LONGEST_STRING = 200


def prose(text: str, up: str = "..") -> str:
    """A docstring's words: its literals as Markdown has them, and the pages that it names as links.

    Args:
        text: the words.
        up: from the page to the root of the documentation.

    >>> prose("See ``k`` (docs/operations.md#cache).")
    'See `k` ([operations.md](../operations.md#cache)).'
    """
    return _PAGE.sub(lambda page: f"[{page[1]}]({up}/{page[1]}{page[2] or ''})", text.replace("``", "`"))


def code_block(language: str, text: str) -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```"


def definitions(entries: Iterable[tuple[str, Sequence[str]]]) -> str:
    """A list of terms, each with one or more paragraphs; a term is shown as code.

    >>> print(definitions([("k", ["integer", "How many."])]))
    - **`k`**: integer
    <BLANKLINE>
      How many.
    """
    return "\n\n".join(_definition(term, *paragraphs) for term, paragraphs in entries)


def _definition(term: str, *paragraphs: str) -> str:
    first, *more = paragraphs
    return "\n\n".join([f"- **`{term}`**: {first}", *(textwrap.indent(paragraph, "  ") for paragraph in more)])


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table.

    >>> print(table(["a", "b"], [["1", "x"]]))
    | a | b |
    | --- | --- |
    | 1 | x |
    """
    lines = [headings, ["---"] * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def json_block(value: Any) -> str:
    """A value as JSON; strings that are long, as base64 of an embedding is, are cut."""
    return code_block("json", json.dumps(_short(value), indent=2, ensure_ascii=False))


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_STRING:
        return f"{value[:24]}… ({len(value):,} characters)"
    if isinstance(value, list):
        return [_short(item) for item in value]
    if isinstance(value, dict):
        shown: Mapping[str, Any] = {name: _short(item) for name, item in value.items()}
        return shown
    return value
