"""Cache of `build_sources`: when it may be used, and which requests are equal.

Only sources are cached, never an answer. The later stages run as usual, so the model answers each turn of a
conversation, and each turn is stored and can be continued like any other.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from worker.jobs.cache import CacheBounds
from worker.jobs.pipeline.queries import leg_names

if TYPE_CHECKING:
    from worker.jobs.cache import ResultCache, Slot
    from worker.jobs.pipeline.plan import SearchPlan
    from worker.jobs.pipeline.queries import QueryMaker
    from worker.model import Principal

TASK = "run_pipeline"


def source_slot(caching: ResultCache, queries: QueryMaker, plan: SearchPlan, caller: Principal) -> Slot | None:
    """Return the cache slot of a request's sources.

    Conversation, instructions and mode are not part of the key: they decide how the sources are used, not which
    ones are found. The search parameters of a mode are part of it, after they were resolved.

    Args:
        caching: the result cache.
        queries: determines what the queries of a request depend on.
        plan: the request's plan.
        caller: the caller.

    Returns:
        None if nothing is cached: see `ResultCache.slot`; if recency counts, because that ranking changes with
        time; or if `QueryMaker.made_of` can't tell.

    Raises:
        Unavailable, TimedOut: see `ResultCache.slot`.
    """
    if plan.profile.temporal is not None:
        return None
    made_of = queries.made_of(plan)
    if made_of is None:
        return None
    pinned = plan.request.pinned_chunks
    job_fields: dict[str, Any] = {
        "queries": made_of,
        "profile": plan.profile.model_dump(mode="json"),
        "searches": [asdict(search) for search in plan.searches],
        "k": plan.k,
        "pinned": pinned,
    }
    room = dict.fromkeys((search.corpus for search in plan.searches), plan.k + len(pinned))
    return caching.slot(TASK, job_fields, caller, CacheBounds(room, leg_names(plan.profile)))
