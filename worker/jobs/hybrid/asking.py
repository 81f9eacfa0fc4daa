"""What a `retrieve_hybrid` job asks: of which corpora, in which words and vectors, by which legs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.adapters.postgres.fulltext import Matching
from worker.adapters.postgres.search import Nearest
from worker.contract import SCHEMA_VERSION, HybridSearch
from worker.errors import InvalidJob, SettingsError
from worker.jobs.answer import filter_set
from worker.jobs.parallel_search import Leg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.postgres.search import Corpus, Search
    from worker.contract import RetrieveHybrid
    from worker.core.ranking.vectors import Vector
    from worker.core.time_budget import TimeBudget
    from worker.errors import RetrievalError
    from worker.jobs.corpora import Corpora
    from worker.model import FilterSet
    from worker.settings import HybridSettings

DEFAULT_EXTRA = 2


@dataclass(frozen=True, slots=True)
class CorpusQuery:
    """One corpus of a job, with what is wanted of it."""

    corpus: Corpus
    wanted: HybridSearch
    filters: FilterSet
    extra: int


@dataclass(frozen=True, slots=True)
class QueryWording:
    """What is searched for, in words.

    Attributes:
        text: the query, transformed.
        keywords: what the context adds to it.
        models: what took part so far, and its name and version.
        budget: the time that the legs have, from here on.
        error: why there are no keywords though there should be.
    """

    text: str
    keywords: Sequence[str]
    models: Mapping[str, str]
    budget: TimeBudget
    error: RetrievalError | None = None

    @property
    def contextual_text(self) -> str | None:
        """What the contextual leg looks for; None where there is no such search."""
        return " ".join([self.text, *self.keywords]) if self.keywords else None

    def header(self) -> dict[str, Any]:
        """What an answer says of it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "degraded": [],
            "transformed_query": self.text,
            "context_keywords": list(self.keywords),
        }


@dataclass(frozen=True, slots=True)
class Queries:
    """What is searched for.

    Attributes:
        text: the query, transformed.
        primary: the query's vector.
        contextual: that of query and keywords; None where there is no such search.
        models: what took part, and its name and version.
        contextual_error: why there is none though there should be.
    """

    text: str
    primary: Vector
    contextual: Vector | None
    models: Mapping[str, str]
    contextual_error: RetrievalError | None = None


def asks_of(job: RetrieveHybrid, corpora: Corpora, settings: HybridSettings) -> list[CorpusQuery]:
    """What a job asks of each corpus; without a word of that, what the settings say.

    Raises:
        InvalidJob: a corpus or a filter that is not there.
        SettingsError: the job names no corpora, and the settings name one that is not there.
    """
    wanted = job.searches or [HybridSearch(corpus=search.corpus, top_k=search.top_k) for search in settings.searches]
    if not wanted:
        raise InvalidJob("expected this field: the settings name no searches", "searches")
    asks = []
    for i, search in enumerate(wanted):
        if not job.searches and corpora.find(search.corpus) is None:
            raise SettingsError(
                f"hybrid.searches: there is no corpus {search.corpus}: name yours there, or in the job's searches"
            )
        corpus = corpora.get(search.corpus, f"searches[{i}].corpus")
        extra = settings.extra.get(corpus.name, DEFAULT_EXTRA)
        asks.append(CorpusQuery(corpus, search, _filters(corpus, search, f"searches[{i}]"), extra))
    return asks


def _filters(corpus: Corpus, search: HybridSearch, path: str) -> FilterSet:
    """A search's filters; one on a column that its corpus does not map is named with the search it stands in."""
    filters = filter_set(search.filters)
    try:
        corpus.statements.filters.check(filters)
    except InvalidJob as error:
        raise InvalidJob(error.expected, f"{path}.{error.path}") from None
    return filters


def leg_of(name: str, job: RetrieveHybrid, asks: Sequence[CorpusQuery], queries: Queries) -> Leg | None:
    """A leg over every corpus; None where it has nothing to search for."""
    bring_vectors = job.diversity is not None
    searches: list[Search]
    if name == "sparse":
        searches = [
            Matching(ask.corpus, queries.text, queries.primary, _fetch(ask), ask.filters, vectors=bring_vectors)
            for ask in asks
        ]
        return Leg(name, searches)
    query = queries.primary if name == "primary" else queries.contextual
    if query is None:
        return None
    # The primary fetches more: that, not a weight, is how much it counts where similarity decides.
    searches = [
        Nearest(
            ask.corpus,
            query,
            _fetch(ask) if name == "primary" else ask.wanted.clamped_top_k,
            ask.filters,
            vectors=bring_vectors,
        )
        for ask in asks
    ]
    return Leg(name, searches, optional=name == "contextual")


def _fetch(ask: CorpusQuery) -> int:
    return ask.wanted.clamped_top_k + ask.extra


def deciding(job: RetrieveHybrid, wording: QueryWording) -> dict[str, Any]:
    """What of a job can change its answer, but who asks.

    An editor's state changes with every key; what can change the answer are the words that are made of it.
    """
    others = {"principal", "principal_token", "run", "query", "context", "transform"}
    return {**job.model_dump(mode="json", exclude=others), "words": wording.text, "keywords": list(wording.keywords)}
