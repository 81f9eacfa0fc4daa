"""Reuse of cached sources in `build_sources`: when it is allowed, and which requests are equal.

Only sources are cached, never an answer. The later stages run as usual, so the model answers each turn of a
conversation, and each turn is stored and can be continued like any other.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from worker.jobs.cache import CacheBounds
from worker.jobs.pipeline.queries import leg_names
from worker.jobs.recording import pins_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.jobs.cache import ResultCache, Slot
    from worker.jobs.pipeline.queries import QueryMaker
    from worker.jobs.pipeline.types import CorpusSearch, QueryRequest
    from worker.model import Candidate, Principal
    from worker.settings import ProfileSettings

TASK = "run_pipeline"


class Reuse:
    """Cache lookup for requests.

    Args:
        caching: the result cache.
        queries: determines what the queries of a request depend on.
    """

    def __init__(self, caching: ResultCache, queries: QueryMaker) -> None:
        self._caching = caching
        self._queries = queries

    def slot(
        self,
        request: QueryRequest,
        profile: ProfileSettings,
        searches: Sequence[CorpusSearch],
        k: int,
        asker: Principal,
    ) -> Slot | None:
        """Return the cache slot of a request's sources.

        Conversation, instructions and mode are not part of the key: they decide how the sources are used, not which
        ones are found. The search parameters of a mode are part of it, after they were resolved.

        Args:
            request: the request.
            profile: the search profile.
            searches: the corpora, with their filters.
            k: number of sources.
            asker: the caller.

        Returns:
            None if nothing is cached: see `ResultCache.slot`; if recency counts, because that ranking changes with
            time; or if extracting the context's keywords failed.

        Raises:
            Unavailable, TimedOut: see `ResultCache.slot`.
        """
        if profile.temporal is not None:
            return None
        queries = self._queries.made_of(request, profile)
        if queries is None:
            return None
        asked: dict[str, Any] = {
            "queries": queries,
            "profile": profile.model_dump(mode="json"),
            "searches": [asdict(search) for search in searches],
            "k": k,
            "pinned": request.pinned_chunks,
        }
        room = dict.fromkeys((search.corpus for search in searches), k + len(request.pinned_chunks))
        return self._caching.slot(TASK, asked, asker, CacheBounds(room, leg_names(profile)))


def keep(slot: Slot, candidates: Sequence[Candidate]) -> None:
    """Cache the candidates' ids, hashes and scores."""
    pins = pins_of([(candidate.corpus, candidate) for candidate in candidates])
    slot.keep(pins, [asdict(candidate.scores) for candidate in candidates], {})
