"""The reference pages: Markdown made from the project's own types, code and messages.

A page under ``docs/reference``, and ``docs/quotes.md``, has a few written sentences and, between
``<!-- generated: NAME -->`` and ``<!-- end -->``, what `SECTIONS` makes. ``python -m reference_pages`` writes it
(`make contract`); a test compares.

- `markdown`: what all of them are written with.
- `json_schemas`: types, bounds and defaults in words.
- `settings`, `commands`, `metrics`, `log_events`, `error_codes`, `contract`: one page, or one page a task, each.
- `difference_kinds`: the table of docs/quotes.md.
- `links`: links that are right on a web view of the repository and mean nothing on the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from reference_pages import commands, contract, difference_kinds, error_codes, links, log_events, metrics, settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sphinx.application import Sphinx

_PLACE = re.compile(r"^<!-- generated: ([\w/]+) -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)

SECTIONS: dict[str, Callable[[], str]] = {
    "settings": settings.page,
    "commands": commands.page,
    "metrics": metrics.page,
    "log_events": log_events.page,
    "errors": error_codes.errors,
    "exit_codes": error_codes.exit_codes,
    "difference_kinds": difference_kinds.kinds,
    "envelopes": contract.envelopes,
    **{f"tasks/{name}": contract.maker(name) for name in contract.TASK_NAMES},
}
"""Generator of each name's content."""


def generated(name: str) -> str:
    """Return the content that replaces ``<!-- generated: NAME -->``, as Markdown.

    Raises:
        KeyError: nothing is generated under this name.
    """
    return SECTIONS[name]()


def completed(text: str) -> str:
    """A page with everything generated in its place, as it is made now."""
    return _PLACE.sub(lambda place: f"<!-- generated: {place[1]} -->\n\n{generated(place[1])}\n\n<!-- end -->", text)


def written(text: str) -> str:
    """A page without what is generated."""
    return _PLACE.sub("", text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Have Sphinx read every page as `links.adapted` leaves it."""
    docs = Path(app.srcdir)

    def read(_: Sphinx, page: str, content: list[str]) -> None:
        content[0] = links.adapted(content[0], (docs / page).parent, docs)

    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
