"""Plan of a request's search: what its mode, its profile and the settings decide."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from retrieval_client.errors import InvalidJob, SettingsError
from worker.core.prompting.conversation import joined
from worker.core.ranking.fusion import CONTRIBUTIONS
from worker.jobs.pipeline.types import CorpusSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.jobs.pipeline.types import QueryRequest, Turn
    from worker.settings import Settings
    from worker.settings.searching import ModeSettings, ProfileSettings

MAX_K = 50


@dataclasses.dataclass(frozen=True, slots=True)
class SearchPlan:
    """Request with its search parameters.

    Attributes:
        request: the request, with the name of its mode.
        mode: its mode.
        profile_name: name of its profile.
        profile: its profile.
        searches: the corpora, in order of precedence; their own filters override the request's.
        k: number of sources.
        history: turns before the question, oldest first; empty where the profile ignores them.
    """

    request: QueryRequest
    mode: ModeSettings
    profile_name: str
    profile: ProfileSettings
    searches: Sequence[CorpusSearch]
    k: int
    history: Sequence[Turn] = ()

    @property
    def joined(self) -> list[str]:
        """The question joined with those before it; none for a fusion without weights."""
        earlier = [turn.content for turn in self.history if turn.role == "user"]
        return joined(self.request.question, earlier) if self.profile.fusion in CONTRIBUTIONS else []


def plan_of(request: QueryRequest, settings: Settings, history: Sequence[Turn] = ()) -> SearchPlan:
    """Return the plan of a request; without a history, with its own.

    Raises:
        InvalidJob: the settings have no such mode or profile.
        SettingsError: the settings have no mode at all.
    """
    request = dataclasses.replace(request, mode=request.mode or settings.default_mode)
    mode = settings.modes.get(request.mode)
    if mode is None and not settings.modes:
        raise SettingsError(
            "this worker has no modes, so it answers no run_pipeline: the shipped ones are for other corpora. "
            "Name yours in [modes.NAME] of the settings (docs/pipeline.md)"
        )
    if mode is None:
        raise InvalidJob(f"expected one of {', '.join(settings.modes)}", "mode")
    name = mode.profile if request.profile is None else request.profile
    if name not in settings.profiles:
        raise InvalidJob(f"expected one of {', '.join(settings.profiles)}", "profile")
    searches = request.searches or [CorpusSearch(corpus, top_k) for corpus, top_k in mode.corpora.items()]
    filtered = [
        search if search.filters.given else dataclasses.replace(search, filters=request.filters) for search in searches
    ]
    k = mode.k if request.k is None else max(1, min(request.k, MAX_K))
    profile = settings.profiles[name]
    turns = (history or request.conversation_history) if profile.conversation else ()
    return SearchPlan(request, mode, name, profile, filtered, k, turns)
