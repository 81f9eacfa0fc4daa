"""Query embeddings: a job's required texts in one call, optional ones in separate calls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from worker.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from worker.adapters.providers.embedder import Embedder
    from worker.core.prompting.costs import Paid
    from worker.core.ranking.vectors import Vector
    from worker.core.time_budget import TimeBudget
    from worker.errors import RetrievalError
    from worker.jobs.side_calls import SideCalls


class QueryEmbeddings:
    """Embedder of a job's texts.

    Args:
        embedder: the embedder.
        side_calls: runs the optional calls.
        refused: corpora that another embedder filled, each with both names.

    Attributes:
        name: the embedder's name and version, for traces.
    """

    def __init__(self, embedder: Embedder, side_calls: SideCalls, refused: Mapping[str, str]) -> None:
        self.name = f"{embedder.name} {embedder.version}"
        self._embedder = embedder
        self._side_calls = side_calls
        self._refused = refused

    def of(
        self,
        corpora: Iterable[str],
        needed: Sequence[str],
        optional: Mapping[str, Sequence[str]],
        budget: TimeBudget,
        paid: Paid,
        dimensions: int,
    ) -> tuple[Sequence[Vector], Mapping[str, Sequence[Vector] | RetrievalError]]:
        """Embed the needed texts for these corpora, and each optional group; return a group's vectors or its error.

        All calls run in parallel. No group shares a call, or its time, with another.

        Raises:
            SettingsError, Unavailable: the call for the needed texts failed, or took all of the budget; or another
                embedder filled one of the corpora.
        """
        refusal = self._refusal(corpora)
        if refusal is not None:
            if needed:
                raise refusal
            return [], dict.fromkeys((name for name, texts in optional.items() if texts), refusal)
        seconds = budget.share()
        calls = {
            name: self._side_calls.start(partial(self._embed, texts, seconds, dimensions))
            for name, texts in optional.items()
            if texts
        }
        vectors = [*self._embedder.embed(needed, paid, budget.left(), dimensions)] if needed else []
        waited = budget.left() - seconds
        return vectors, {name: call.outcome(paid, max(0.0, waited)) for name, call in calls.items()}

    def _refusal(self, corpora: Iterable[str]) -> SettingsError | None:
        """Return why texts can't be compared with one of the corpora: a distance to it would mean nothing."""
        found = next((name for name in corpora if name in self._refused), None)
        return None if found is None else SettingsError(f"the corpus {found}: {self._refused[found]}")

    def _embed(self, texts: Sequence[str], seconds: float, dimensions: int, paid: Paid) -> Sequence[Vector]:
        return [*self._embedder.embed(texts, paid, seconds, dimensions)]
