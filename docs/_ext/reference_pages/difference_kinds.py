"""The table of the kinds of differences between a quote and its source, from the code that names them."""

from __future__ import annotations

from reference_pages.markdown import table
from worker.core.citations.quoting.differences import ACCEPTED, KINDS, NEVER_ACCEPTED


def kinds() -> str:
    """A table with an example of each, and whether a `normalised` quote may have it."""
    return table(
        ["kind", "what differs", "source", "quote", "accepted"],
        (
            (f"`{kind}`", words, _shown(source), _shown(quote), _accepted(kind))
            for kind, (words, source, quote) in KINDS.items()
        ),
    )


def _accepted(kind: str) -> str:
    return "yes" if kind in ACCEPTED else "never" if kind in NEVER_ACCEPTED else "no"


def _shown(text: str) -> str:
    r"""An example as code, with escapes for what is not seen.

    >>> _shown("pu\u200bmp")
    '`pu\\u200bmp`'
    """
    return f"`{repr(text)[1:-1]}`"
