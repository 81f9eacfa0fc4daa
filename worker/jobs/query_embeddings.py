"""Query embeddings: a job's required texts in one call, optional ones in separate calls."""

from __future__ import annotations

from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from worker.adapters.providers.local_embedder import misreads
from worker.core.ranking.fusion import MISREAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from retrieval_client.errors import RetrievalError
    from worker.adapters.providers.embedder import Embedder
    from worker.core.prompting.costs import Paid
    from worker.core.ranking.vectors import Vector
    from worker.core.time_budget import TimeBudget
    from worker.jobs.corpus_embedders import CorpusEmbedders
    from worker.jobs.side_calls import SideCalls
    from worker.model import Principal


PASSAGES = "hyde"
"""Name of the optional texts that are like passages, not like queries."""

_NEAREST, _JUDGED = 3, 300
"""Passages that show their corpus's language, and characters of each."""


class QueryEmbeddings:
    """Embedder of a job's texts.

    Args:
        embedder: the embedder.
        side_calls: runs the optional calls.
        filled: compares the embedder with those that filled the corpora.
        usual: usual deviation of the embedder's similarities; None where none is known.

    Attributes:
        name: the embedder's name and version, for traces.
    """

    def __init__(
        self, embedder: Embedder, side_calls: SideCalls, filled: CorpusEmbedders, usual: float | None = None
    ) -> None:
        self.name = f"{embedder.name} {embedder.version}"
        self._embedder = embedder
        self._side_calls = side_calls
        self._filled = filled
        self._usual = usual

    def of(
        self,
        corpora: Sequence[str],
        caller: Principal,
        needed: Sequence[str],
        optional: Mapping[str, Sequence[str]],
        budget: TimeBudget,
        paid: Paid,
        dimensions: int,
    ) -> tuple[Sequence[Vector], Mapping[str, Sequence[Vector] | RetrievalError]]:
        """Embed the needed texts for these corpora, and each optional group; return a group's vectors or its error.

        A corpus may first be compared by rows of the caller. All calls run in parallel. No group shares a call, or its
        time, with another.

        Raises:
            SettingsError, Unavailable: the call for the needed texts failed, or took all of the budget; or another
                embedder filled one of the corpora.
        """
        if needed:
            self._filled.check(corpora, caller, paid, budget.left())
        seconds = budget.share()
        calls = {
            name: self._side_calls.start(
                partial(self._embed, corpora, caller, texts, seconds, dimensions, is_query=name != PASSAGES)
            )
            for name, texts in optional.items()
            if texts
        }
        vectors = self._embed(corpora, caller, needed, budget.left(), dimensions, paid) if needed else []
        waited = budget.left() - seconds
        return vectors, {name: call.outcome(paid, max(0.0, waited)) for name, call in calls.items()}

    def _embed(
        self,
        corpora: Sequence[str],
        caller: Principal,
        texts: Sequence[str],
        seconds: float,
        dimensions: int,
        paid: Paid,
        *,
        is_query: bool = True,
    ) -> Sequence[Vector]:
        self._filled.check(corpora, caller, paid, seconds)
        return [*self._embedder.embed(texts, paid, seconds, dimensions, is_query=is_query)]

    def language_of(self, question: str) -> LanguageCheck:
        """Return the check of a question's language, and of the passages that are found for it."""
        return LanguageCheck(self._embedder, question, self._usual)


class LanguageCheck:
    """Check of one question and its nearest passages against the embedder's languages; it reads each text once.

    Args:
        embedder: the embedder.
        question: the question, as it is embedded.
        usual: as of `QueryEmbeddings`.
    """

    def __init__(self, embedder: Embedder, question: str, usual: float | None) -> None:
        self._question = question
        self._usual = usual
        self._misreads = cache(partial(misreads, embedder))

    def usual(self, passages: Iterable[str]) -> float | None:
        """Return the usual deviation of the question's similarities to passages, the nearest first.

        It is wider, so that they count less, where the embedder does not know the language. None where none is known.
        """
        if self._usual is None or not self.misread(passages):
            return self._usual
        return self._usual * MISREAD

    def misread(self, passages: Iterable[str]) -> list[str]:
        """Return which of the question and the nearest passages, most of them, are not of the embedder's languages."""
        nearest = [passage[:_JUDGED] for passage in islice(passages, _NEAREST)]
        foreign = sum(map(self._misreads, nearest))
        verdicts = {"question": self._misreads(self._question), "chunks": 2 * foreign > len(nearest)}
        return [name for name, is_misread in verdicts.items() if is_misread]
