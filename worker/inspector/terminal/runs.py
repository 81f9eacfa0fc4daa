"""Runs: one entry of the list, and the filter as it is typed."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from rich.text import Text

from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.run_list import RunFilter
from worker.inspector.rendering import moment, words
from worker.inspector.terminal.lines import QUIET, badge, inline, joined, named

if TYPE_CHECKING:
    from worker.adapters.postgres.run_list import ListedRun

FILTERS = {
    "subject": "subject_id",
    "task": "task",
    "mode": "mode",
    "outcome": "outcome",
    "drift": "drift",
    "from": "since",
    "to": "until",
}
"""Word before the colon → field of `RunFilter`."""


def run_entry(run: ListedRun) -> Text:
    """Return a run of the list, on two lines: name, time and state; tasks and question."""
    outcomes = (badge(outcome, "status") for outcome in dict.fromkeys(filter(None, run.outcomes)))
    degraded = badge("degraded", "status") if run.degraded else None
    name = joined(named(run.subject_id, 24), named(run.run_id, 24), separator=" / ")
    state = joined(name, Text(moment(run.created_at)[:19], QUIET), *outcomes, degraded, badge(run.drift, "drift"))
    question = next(filter(None, run.questions), "")
    tasks = ", ".join(map(words, dict.fromkeys(run.tasks)))
    modes = ", ".join(dict.fromkeys(filter(None, run.modes)))
    return joined(
        state, joined("  " + tasks, inline(modes, 40), inline(question, 120), separator=" · "), separator="\n"
    )


def run_filter(typed: str) -> RunFilter:
    """Return the filter of a line such as ``subject:song-1 drift:drifted from:2026-01-31``.

    A word without a colon is a subject; a value with blanks stands in no filter.

    >>> run_filter("song-1 drift:same").subject_id
    'song-1'

    Raises:
        InvalidJob: a word before a colon is none of `FILTERS`, or a day is not one.
    """
    fields: dict[str, Any] = {}
    for word in typed.split():
        name, colon, value = word.partition(":")
        if colon and name not in FILTERS:
            raise InvalidJob(f"expected one of {', '.join(f'{filter_name}:' for filter_name in FILTERS)}", "filter")
        field = FILTERS[name] if colon else "subject_id"
        fields[field] = _day(value) if field in {"since", "until"} else (value if colon else name) or None
    return RunFilter(**fields)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidJob("expected a day such as 2026-01-31", "filter") from None
