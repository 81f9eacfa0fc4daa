"""Parts of the site that its pages share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

    from worker.inspector.evaluations import Evaluations
    from worker.inspector.reading import RunViews
    from worker.inspector.web.asking import Asking
    from worker.inspector.web.visits import Attempts, NamedVisitor, Sessions
    from worker.jobs.engine import Engine
    from worker.queue.overview import Overview
    from worker.settings import Settings


@dataclass(frozen=True, slots=True)
class Site:
    """Parts that the pages share.

    Attributes:
        settings: the worker's settings.
        views: views of recorded runs.
        engine: answers questions, and checks.
        asking: questions in work.
        overview: the queues, and which tokens signed in.
        evaluations: reports of `evaluate`.
        sessions: who is signed in.
        attempts: bound on attempts to sign in.
        templates: the templates.
        root: prefix of every address, ``""`` for none.
        visitor: the only visitor, on a loopback address; None: visitors sign in with tokens.
        is_secure: True if pages are served by TLS.
    """

    settings: Settings
    views: RunViews
    engine: Engine
    asking: Asking
    overview: Overview
    evaluations: Evaluations
    sessions: Sessions
    attempts: Attempts
    templates: Environment
    root: str
    visitor: NamedVisitor | None
    is_secure: bool
