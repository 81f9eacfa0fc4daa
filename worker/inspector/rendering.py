"""Rendering: views as HTML, by templates that the browser and the report share.

Every value is escaped, and every control, format or zero-width character in it is shown as a sign.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from worker.core.text.visible import visible, visible_line
from worker.inspector.view.candidates import columns_of, where
from worker.inspector.view.wording import said, scale, scales

if TYPE_CHECKING:
    from datetime import datetime

SHOWN = 280
"""Characters of a candidate's text in a table."""


def _shown(value: Any) -> Any:
    """Return a value as templates show it; what templates themselves made stays as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def short(text: str | None, length: int = SHOWN) -> str:
    """Return a text on one line, cut to a length."""
    flat = " ".join((text or "")[: 4 * length].split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


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
        line=visible_line,
    )
    environment.globals.update(where=where, query=query, columns_of=columns_of, said=said, scale=scale, scales=scales)
    return environment
