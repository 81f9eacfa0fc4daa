"""Plan of a request's search: what its mode, its profile and the settings decide."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from retrieval_client.errors import InvalidJob, SettingsError
from worker.core.prompting.conversation import joined
from worker.core.ranking.fusion import CONTRIBUTIONS
from worker.jobs.pipeline.types import CorpusSearch
from worker.jobs.search import SearchTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.jobs.corpora import Corpora
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
        targets: the same corpora, to be searched.
        current_time: seconds since 1970; only recency depends on it.
        history: turns before the question, oldest first; empty where the profile ignores them.
    """

    request: QueryRequest
    mode: ModeSettings
    profile_name: str
    profile: ProfileSettings
    searches: Sequence[CorpusSearch]
    k: int
    targets: Sequence[SearchTarget]
    current_time: float
    history: Sequence[Turn] = ()

    @property
    def joined(self) -> list[str]:
        """The question joined with those before it; none for a fusion without weights."""
        earlier = [turn.content for turn in self.history if turn.role == "user"]
        return joined(self.request.question, earlier) if self.profile.fusion in CONTRIBUTIONS else []


def mode_of(request: QueryRequest, settings: Settings) -> tuple[str, ModeSettings]:
    """Return the mode of a request, by default the first of the settings, with its name.

    Raises:
        InvalidJob: the settings have no such mode.
        SettingsError: the settings have no mode at all.
    """
    if not settings.modes:
        raise SettingsError(
            "this worker has no modes, so it answers no run_pipeline: the shipped ones are for other corpora. "
            "Name yours in [modes.NAME] of the settings (docs/pipeline.md)"
        )
    name = request.mode or settings.default_mode
    if name not in settings.modes:
        raise InvalidJob(f"expected one of {', '.join(settings.modes)}", "mode")
    return name, settings.modes[name]


def plan_of(
    request: QueryRequest, settings: Settings, corpora: Corpora, current_time: float, history: Sequence[Turn] = ()
) -> SearchPlan:
    """Return the plan of a request; without a history, with its own.

    Raises:
        InvalidJob: the settings have no such profile or corpus.
        RetrievalError: see `mode_of`.
    """
    mode_name, mode = mode_of(request, settings)
    name = mode.profile if request.profile is None else request.profile
    if name not in settings.profiles:
        raise InvalidJob(f"expected one of {', '.join(settings.profiles)}", "profile")
    searches = request.searches or [CorpusSearch(corpus, top_k) for corpus, top_k in mode.corpora.items()]
    filtered = [
        search if search.filters.given else dataclasses.replace(search, filters=request.filters) for search in searches
    ]
    profile = settings.profiles[name]
    targets = [
        SearchTarget(corpora.get(search.corpus, f"searches[{i}].corpus"), search.filters, profile.fetch)
        for i, search in enumerate(filtered)
    ]
    k = mode.k if request.k is None else max(1, min(request.k, MAX_K))
    turns = (history or request.conversation_history) if profile.conversation else ()
    request = dataclasses.replace(request, mode=mode_name)
    return SearchPlan(request, mode, name, profile, filtered, k, targets, current_time, turns)
