"""Report: a run as one self-contained HTML page, to be sent to a reviewer."""

from __future__ import annotations

import shlex
from importlib.metadata import version
from typing import TYPE_CHECKING

from markupsafe import Markup

from worker.inspector.rendering import make_environment, static

if TYPE_CHECKING:
    from datetime import datetime

    from retrieval_client.contract.run_jobs import RunName
    from worker.inspector.reading import RunViews
    from worker.model import Principal

MOST_CANDIDATES, MOST_CONFLICTS = 500, 200
"""Most candidates of an answer and conflicts of a run that a report lists."""


def report_html(views: RunViews, caller: Principal, name: RunName, at: datetime) -> str:
    """Return the report of a run, read with the caller's current permissions.

    Args:
        views: views of recorded runs.
        caller: the caller.
        name: the run.
        at: the time, for the footer.

    Raises:
        InvalidJob: the caller has no such run.
    """
    page = views.run(caller, name)
    template = make_environment().get_template("report.html")
    return template.render(
        name=name,
        views=page.views,
        citations=views.citations(caller, name),
        drift=views.drift(caller, name),
        style=Markup(static("inspector.css")),  # noqa: S704 -- the package's own file
        browser=False,
        root="",
        most_candidates=MOST_CANDIDATES,
        most_conflicts=MOST_CONFLICTS,
        version=version("retrieval-worker"),
        at=at,
        quoted_name=shlex.join([name.subject_id, name.run_id]),
    )
