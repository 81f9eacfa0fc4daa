"""Rendering: views as HTML, by templates that the browser and the report share.

Every value is escaped, and every control, format or zero-width character in it is shown as a sign.
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from worker.core.text.visible import visible, visible_line
from worker.inspector.view.candidates import columns_of, where
from worker.inspector.view.quotes import quote_facts
from worker.inspector.view.wording import said, scale, scales, short

if TYPE_CHECKING:
    from collections.abc import Sequence


def _shown(value: Any) -> Any:
    """Return a value as templates show it; what templates themselves made stays as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def words(name: str | None) -> str:
    """Return a name on the wire as words: ``not_found`` as ``not found``."""
    return (name or "").replace("_", " ")


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with its digits, or nothing if it is unknown."""
    return "" if value is None else f"{value:.{digits}f}"


def exact(value: float | None) -> str:
    """Return a number with all of its digits."""
    return "unknown" if value is None else repr(value)


def percent(share: float | None) -> str:
    """Return a share, 0-1, in percent."""
    return "" if share is None else f"{round(100 * share)} %"


def moment(at: datetime | None) -> str:
    """Return a time to the second, with its zone."""
    return "" if at is None else at.isoformat(" ", "seconds")


def when(value: datetime | str) -> datetime | None:
    """Return a time, or one in ISO 8601, in its zone or else UTC; None for a text that is none."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


_UNITS: Sequence[tuple[int, str]] = ((86_400, "day"), (3600, "hour"), (60, "minute"))
_LONGEST_AGO = 30 * 86_400


def ago(at: datetime, current_time: datetime) -> str:
    """Return in words how long ago a time was; one before the last 30 days, or to come, is its day.

    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> [ago(at, at.replace(day=day, hour=hour)) for day, hour in ((1, 0), (1, 1), (3, 23), (31, 0))]
    ['just now', '1 hour ago', '2 days ago', '2026-01-01']
    """
    seconds = (current_time - at).total_seconds()
    if not 0 <= seconds < _LONGEST_AGO:
        return at.date().isoformat()
    for size, unit in _UNITS:
        if count := int(seconds // size):
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def web_address(text: object) -> str:
    """Return an address that a browser may be led to, nothing for any other text: it is a stored one.

    >>> web_address("https://a.example/b"), web_address("javascript:alert(1)"), web_address(None)
    ('https://a.example/b', '', '')
    """
    return text if isinstance(text, str) and _WEB_ADDRESS.fullmatch(text) else ""


_WEB_ADDRESS = re.compile(r"https?://[^\s\\<>\"'`{}|^\x00-\x1f\x7f-\uffff]{1,2000}")


def query(**parameters: str | None) -> str:
    """Return the query of a link; empty parameters are left out."""
    return urlencode({name: value for name, value in parameters.items() if value})


@functools.cache
def static(name: str) -> str:
    """Return a file of the package: style sheet, script."""
    return resources.files("worker.inspector").joinpath("static", name).read_text(encoding="utf-8")


@functools.cache
def make_environment() -> Environment:
    """Return the environment of the templates, which keeps them compiled."""
    environment = Environment(
        loader=PackageLoader("worker.inspector"),
        autoescape=True,
        auto_reload=False,  # a running server keeps the templates that its code fits
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        short=short,
        words=words,
        number=number,
        exact=exact,
        percent=percent,
        moment=moment,
        when=when,
        ago=ago,
        web_address=web_address,
        line=visible_line,
    )
    environment.globals.update(where=where, query=query, columns_of=columns_of, quote_facts=quote_facts)
    environment.globals.update(said=said, scale=scale, scales=scales)
    return environment
