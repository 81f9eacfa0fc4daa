"""A job's texts as vectors: what it needs in one call, what it can go on without in calls of their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.providers.embedder import Embedder
    from worker.core.prompting.costs import Paid
    from worker.core.ranking.vectors import Vector
    from worker.core.time_budget import TimeBudget
    from worker.errors import RetrievalError
    from worker.jobs.side_calls import SideCalls


class QueryEmbeddings:
    """Embeds the texts of jobs.

    Args:
        embedder: makes vectors.
        side_calls: makes the calls that may fail.

    Attributes:
        name: the embedder's name and version, for traces.
    """

    def __init__(self, embedder: Embedder, side_calls: SideCalls) -> None:
        self.name = f"{embedder.name} {embedder.version}"
        self._embedder = embedder
        self._side_calls = side_calls

    def of(
        self, needed: Sequence[str], optional: Mapping[str, Sequence[str]], budget: TimeBudget, paid: Paid
    ) -> tuple[Sequence[Vector], Mapping[str, Sequence[Vector] | RetrievalError]]:
        """The vectors of the texts that are needed, and of each optional group its own or why there are none.

        All calls run at the same time. None shares a call, or its time, with another group.

        Raises:
            SettingsError, Unavailable: the call of the needed ones failed, or took all of the budget.
        """
        seconds = budget.share()
        calls = {
            name: self._side_calls.start(partial(self._embed, texts, seconds))
            for name, texts in optional.items()
            if texts
        }
        vectors = [*self._embedder.embed(needed, paid, budget.left())] if needed else []
        waited = budget.left() - seconds
        return vectors, {name: call.outcome(paid, max(0.0, waited)) for name, call in calls.items()}

    def _embed(self, texts: Sequence[str], seconds: float, paid: Paid) -> Sequence[Vector]:
        return [*self._embedder.embed(texts, paid, seconds)]
