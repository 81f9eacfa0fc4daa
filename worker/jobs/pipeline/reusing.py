"""What `build_sources` found for an equal question: when it may be taken again, and what makes questions equal.

Only the sources are kept, never an answer. The stages after this one run as they would have, so that each turn of a
conversation is answered by the model, kept, and gone on from like any other.
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
    """Finds what was found before.

    Args:
        caching: where it is kept.
        queries: knows what the queries of a request are made of.
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
        """Where what a request finds is kept.

        Conversation, instructions and mode are not in the key: they decide what is made of the sources, not which
        ones they are. What a mode says of searching is, as it was resolved.

        Args:
            request: what is asked.
            profile: how it is searched.
            searches: the corpora, with their filters.
            k: how many sources.
            asker: who asks.

        Returns:
            None where nothing is kept: see `ResultCache.slot`; where recency counts, because that ranking is of its
            moment; and where the context's keywords can't be had.

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
    """Keep what was found: ids, hashes and scores."""
    pins = pins_of([(candidate.corpus, candidate) for candidate in candidates])
    slot.keep(pins, [asdict(candidate.scores) for candidate in candidates], {})
