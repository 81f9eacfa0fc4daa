"""Queries of a `retrieve_hybrid` job: its corpora, query texts, vectors and legs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import LEGS, SCHEMA_VERSION
from retrieval_client.contract.jobs import HybridSearch
from retrieval_client.errors import InvalidJob, SettingsError
from worker.core import degraded
from worker.core.ranking.fusion import CONTRIBUTIONS, DEPTH
from worker.jobs.answer import filter_set
from worker.jobs.search import LegRequest, SearchTarget

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from retrieval_client.contract.jobs import RetrieveHybrid
    from retrieval_client.errors import RetrievalError
    from worker.adapters.postgres.search import Corpus
    from worker.core.ranking.vectors import Vector
    from worker.core.time_budget import TimeBudget
    from worker.jobs.corpora import Corpora
    from worker.model import FilterSet, Principal
    from worker.settings.searching import HybridSettings


@dataclass(frozen=True, slots=True)
class CorpusQuery:
    """Query of one corpus of a job: what the job wants, and what each leg searches."""

    wanted: HybridSearch
    target: SearchTarget

    @property
    def name(self) -> str:
        """Name of the corpus."""
        return self.target.corpus.name


@dataclass(frozen=True, slots=True)
class HybridRequest:
    """Validated job with its caller.

    Attributes:
        job: the job.
        fusion: the method that combines its legs.
        weights: weights of its legs; see `fusion_weights`.
        corpora: its query of each corpus.
        dimensions: number of dimensions of the corpora.
        vector: the embedding that the job brings; None: the worker embeds the query.
        caller: the caller.
    """

    job: RetrieveHybrid
    fusion: str
    weights: Mapping[str, float]
    corpora: Sequence[CorpusQuery]
    dimensions: int
    vector: Vector | None
    caller: Principal

    @property
    def needs_vector(self) -> bool:
        """Whether a vector of the query decides the answer; beside full text it only adds similarities."""
        return "primary" in self.job.legs or self.fusion == "similarity"


@dataclass(frozen=True, slots=True)
class QueryWording:
    """Text of a query.

    Attributes:
        text: the transformed query.
        embedded: what of it is embedded.
        keywords: keywords of the context.
        models: models used so far, with names and versions.
        budget: time left for the legs.
        error: error of the extraction of keywords, if it failed.
    """

    text: str
    embedded: str
    keywords: Sequence[str]
    models: Mapping[str, str]
    budget: TimeBudget
    error: RetrievalError | None = None

    @property
    def contextual_text(self) -> str | None:
        """Query text of the contextual leg; None without one."""
        return " ".join([self.embedded, *self.keywords]) if self.keywords else None

    def header(self, missing: Iterable[str] = ()) -> dict[str, Any]:
        """Return the answer's fields about the query, given the codes of what is missing."""
        return {
            "schema_version": SCHEMA_VERSION,
            "degraded": degraded.ordered(missing),
            "transformed_query": self.text,
            "context_keywords": list(self.keywords),
        }


@dataclass(frozen=True, slots=True)
class Queries:
    """Vectors of a query.

    Attributes:
        primary: vector of the query; None where full text goes on without one.
        contextual: vector of query and keywords; None without a contextual leg.
        models: models used, with names and versions.
        contextual_error: error of the contextual leg, if it failed.
    """

    primary: Vector | None
    contextual: Vector | None
    models: Mapping[str, str]
    contextual_error: RetrievalError | None = None

    @property
    def searched(self) -> bytes:
        """All vectors as little-endian float32."""
        vectors = [self.primary, self.contextual]
        return b"".join(vector.astype("<f4").tobytes() for vector in vectors if vector is not None)


def corpus_queries(job: RetrieveHybrid, corpora: Corpora, settings: HybridSettings) -> list[CorpusQuery]:
    """Return a job's query of each corpus; by the settings if the job names no searches.

    Raises:
        InvalidJob: a corpus or a filter is unknown, or neither job nor settings name searches.
        SettingsError: the job names no corpora, and the settings name an unknown one.
    """
    searches = job.searches or [HybridSearch(corpus=name, top_k=top_k) for name, top_k in settings.searches.items()]
    if not searches:
        raise InvalidJob("expected this field: the worker's setting hybrid.searches is empty", "searches")
    queries = []
    for i, search in enumerate(searches):
        if not job.searches and corpora.find(search.corpus) is None:
            raise SettingsError(
                f"hybrid.searches: there is no corpus {search.corpus}: name yours there, or in the job's searches"
            )
        corpus = corpora.get(search.corpus, f"searches[{i}].corpus")
        filters = _filters(corpus, search, f"searches[{i}]")
        # Merged by similarity, the numbers fetched are the legs' weights: half as many again, 7 for 5 and 4 for 3.
        k, weighted = search.clamped_top_k, (job.fusion or settings.fusion) == "weighted"
        fetch, extra = (max(k, DEPTH), 0) if weighted else (k, k // 2)
        full_text = "legs" in job.model_fields_set or corpus.settings.columns.text_search is not None
        queries.append(CorpusQuery(search, SearchTarget(corpus, filters, fetch, extra, full_text)))
    return queries


def fusion_weights(
    job: RetrieveHybrid, fusion: str, settings: HybridSettings, corpora: Iterable[CorpusQuery]
) -> dict[str, float]:
    """Return the weights of a job's legs: its own, else those of the settings; a missing leg has the method's default.

    Raises:
        InvalidJob: the method sums by weights, and all that count in a corpus are 0.
    """
    weights = settings.weights_of(fusion) | {str(leg): weight for leg, weight in (job.weights or {}).items()}
    for query in corpora if fusion in CONTRIBUTIONS else ():
        legs = [leg for leg in job.searching_legs if leg != "sparse" or query.target.full_text]
        if all(weights.get(leg) == 0 for leg in legs):
            raise InvalidJob(
                f"expected more than 0 for one of the legs that search {query.name} ({', '.join(legs)}): the setting "
                "hybrid.weights has 0 for those without one",
                "weights",
            )
    return weights


def _filters(corpus: Corpus, search: HybridSearch, path: str) -> FilterSet:
    """Return a search's filters; an error for a column that its corpus does not map names the search."""
    filters = filter_set(search.filters)
    try:
        corpus.statements.filters.check(filters)
    except InvalidJob as error:
        raise InvalidJob(error.expected, f"{path}.{error.path}") from None
    return filters


def leg_requests(job: RetrieveHybrid, text: str, queries: Queries) -> list[LegRequest]:
    """Return the legs that have a query, in order of precedence."""
    vectors = {"primary": queries.primary, "contextual": queries.contextual}
    return [
        LegRequest(
            name,
            "sparse" if name == "sparse" else "dense",
            text,
            vectors.get(name, queries.primary),
            without=degraded.CONTEXTUAL if name == "contextual" else "",
            web_search=job.web_search,
        )
        for name in LEGS
        if name in job.legs and (name == "sparse" or vectors[name] is not None)
    ]


def deciding(request: HybridRequest, wording: QueryWording) -> dict[str, Any]:
    """Return the parts of a request that can change its result, without the caller.

    The context, an editor's state, changes with every keystroke; only its keywords can change the result.
    """
    excluded_fields = {"principal", "principal_token", "min_lsn", "run", "query", "context", "transform"}
    return {
        **request.job.model_dump(mode="json", exclude=excluded_fields),
        "fusion": request.fusion,
        "full_text": [query.target.full_text for query in request.corpora],
        "words": [wording.text, wording.embedded],
        "keywords": list(wording.keywords),
    }
