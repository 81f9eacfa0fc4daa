"""Sections of an answer, under headings: lines that begin with ``#``."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADING = re.compile(
    r"""
    ^[ ]{0,3}\#{1,6}[ \t]+
    (?: (?P<mark>\*{1,3})(?P<emphasised>[^*\r\n]{1,200})(?P=mark) | (?P<plain>(?![#\s])[^\r\n]{1,200}?) )
    (?:[ \t]+\#+)?[ \t]*\r?$
    """,
    re.MULTILINE | re.VERBOSE,
)


class Headings:
    """Headings of an answer, with lookup of the section at a position."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self._headings = [*_HEADING.finditer(answer)]
        self._starts = [heading.start() for heading in self._headings]

    def at(self, position: int) -> str | None:
        """Return the heading of the section at a position of the answer; None before the first."""
        i = bisect_right(self._starts, position)
        return _name(self._headings[i - 1]) if i else None

    def sections(self) -> Iterator[tuple[str | None, str]]:
        r"""Yield each section's name and text, in order; text before the first heading has no name.

        >>> [*Headings("Take one\n## Verse 1\nIt hums\n\n## Chorus\nHum").sections()]
        [(None, 'Take one'), ('Verse 1', 'It hums'), ('Chorus', 'Hum')]
        """
        starts = [*self._starts, len(self._answer)]
        untitled = self._answer[: starts[0]].strip()
        if untitled:
            yield None, untitled
        for heading, end in zip(self._headings, starts[1:], strict=True):
            yield _name(heading), self._answer[heading.end() : end].strip()


def _name(heading: re.Match[str]) -> str:
    return heading["emphasised"] or heading["plain"]
