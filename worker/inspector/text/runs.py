"""Text of a list of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.adapters.terminal import id_cell, styled
from worker.inspector.text.parts import verdict_cell
from worker.inspector.view.wording import QUIET, said, short

if TYPE_CHECKING:
    from rich.text import Text

    from worker.adapters.postgres.run_list import ListedRun


def run_entry(run: ListedRun) -> Text:
    """Return a run on two lines: its name, time and state; its tasks and first question."""
    outcomes = [*filter(None, run.outcomes), *(["degraded"] if run.degraded else [])]
    states = [verdict_cell("status", outcome) for outcome in dict.fromkeys(outcomes)]
    names = (id_cell(run.subject_id), "cyan"), " / ", (id_cell(run.run_id), "cyan")
    created = (run.created_at.isoformat(" ", "seconds")[:19], QUIET)
    tasks = dict.fromkeys([*(said("", task).words for task in run.tasks), *filter(None, run.modes)])
    question = short(next(filter(None, run.questions), ""), 120)
    line = styled("  ").join([styled(*names), styled(created), *states, verdict_cell("drift", run.drift)])
    return line + styled(f"\n  {' · '.join(filter(None, (', '.join(tasks), question)))}")
