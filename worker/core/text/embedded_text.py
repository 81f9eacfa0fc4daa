"""The text that is embedded for a chunk: its own, under the titles that say what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS = " › "
"""Between the headings of a section that says the way down to it: ``Lathe › Maximum speed``."""


def under_headings(text: str, values: Sequence[Any]) -> str:
    r"""Join a text to the values of columns such as page and section titles; a list is one heading.

    >>> under_headings("Turn it up.", ["Mixer", None, ["gain", "level"]])
    'Mixer > gain, level\n\nTurn it up.'
    >>> under_headings("Turn it up.", [])
    'Turn it up.'
    """
    headings = [", ".join(map(str, value)) if isinstance(value, list) else str(value or "") for value in values]
    joined = " > ".join(filter(None, headings))
    return f"{joined}\n\n{text}" if joined else text
