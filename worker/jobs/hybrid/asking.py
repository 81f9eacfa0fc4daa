"""Request of a `retrieve_hybrid` job: its corpora, query texts, vectors and legs."""

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
    """Query of one corpus of a job."""

    corpus: Corpus
    wanted: HybridSearch
    filters: FilterSet
    extra: int


@dataclass(frozen=True, slots=True)
class QueryWording:
    """Text of a query.

    Attributes:
        text: the transformed query.
        keywords: keywords of the context.
        models: models used so far, with names and versions.
        budget: time left for the legs.
        error: why the extraction of keywords failed.
    """

    text: str
    keywords: Sequence[str]
    models: Mapping[str, str]
    budget: TimeBudget
    error: RetrievalError | None = None

    @property
    def contextual_text(self) -> str | None:
        """Query text of the contextual leg; None without one."""
        return " ".join([self.text, *self.keywords]) if self.keywords else None

    def header(self) -> dict[str, Any]:
        """Return the answer's fields about the query."""
        return {
            "schema_version": SCHEMA_VERSION,
            "degraded": [],
            "transformed_query": self.text,
            "context_keywords": list(self.keywords),
        }


@dataclass(frozen=True, slots=True)
class Queries:
    """Vectors of a query.

    Attributes:
        text: the transformed query.
        primary: vector of the query.
        contextual: vector of query and keywords; None without a contextual leg.
        models: models used, with names and versions.
        contextual_error: why the contextual leg failed.
    """

    text: str
    primary: Vector
    contextual: Vector | None
    models: Mapping[str, str]
    contextual_error: RetrievalError | None = None


def asks_of(job: RetrieveHybrid, corpora: Corpora, settings: HybridSettings) -> list[CorpusQuery]:
    """Return a job's query of each corpus; by the settings if the job names no searches.

    Raises:
        InvalidJob: a corpus or a filter is unknown, or neither job nor settings name searches.
        SettingsError: the job names no corpora, and the settings name an unknown one.
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
    """Return a search's filters; an error for a column that its corpus does not map names the search."""
    filters = filter_set(search.filters)
    try:
        corpus.statements.filters.check(filters)
    except InvalidJob as error:
        raise InvalidJob(error.expected, f"{path}.{error.path}") from None
    return filters


def leg_of(name: str, job: RetrieveHybrid, asks: Sequence[CorpusQuery], queries: Queries) -> Leg | None:
    """Return a leg over every corpus; None if it has no query."""
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
    # The primary fetches more: under fusion by similarity this replaces a weight.
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
    """Return the parts of a job that can change its result, without the caller.

    The context, an editor's state, changes with every keystroke; only its keywords can change the result.
    """
    others = {"principal", "principal_token", "run", "query", "context", "transform"}
    return {**job.model_dump(mode="json", exclude=others), "words": wording.text, "keywords": list(wording.keywords)}
