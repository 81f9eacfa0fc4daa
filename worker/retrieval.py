"""The engine: who asks, what is searched, in which order it comes out, where it is cut."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from worker.adapters.postgres import Database
from worker.adapters.search import Corpus
from worker.contract import SCHEMA_VERSION, Filters, RetrieveTopK
from worker.core import vectors
from worker.core.ranking import within_distance
from worker.core.trace import Tracer
from worker.errors import InvalidJob, NotAuthorised
from worker.model import NO_FILTERS, Candidate, FilterSet, Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from worker.adapters.search import Found
    from worker.settings import Settings

    Identify = Callable[[], Principal | None]

WORKER_VERSION = version("retrieval-worker")


class Retrieval:
    """Answers retrieval jobs from the corpora of the settings; one for a process.

    Args:
        settings: the worker's settings.
        clock: for the trace only; no result depends on it.

    Raises:
        SettingsError, Unavailable: see `worker.adapters.postgres.Database`.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._database = Database(settings)
        self._corpora = {
            name: Corpus(name, corpus, settings.search, self._database.types[name])
            for name, corpus in settings.corpora.items()
        }

    def close(self) -> None:
        """Close the connections to Postgres."""
        self._database.close()

    def top_k(self, job: RetrieveTopK, identify: Identify) -> dict[str, Any]:
        """Answer `retrieve_top_k`.

        Args:
            job: the validated job.
            identify: says who asks; called once, before anything is searched.

        Raises:
            InvalidJob: an embedding is wrong, the corpus is not known, or a filter is not mapped.
            NotAuthorised: nobody that this worker believes is asking, and the corpus is not public.
            Unavailable, TimedOut, SettingsError, InternalError: see `Database.read`.
        """
        corpus = self._corpus(job.corpus)
        filters = filter_set(job.filters)
        if job.query_embeddings is None:
            query = vectors.decode(job.query_embedding)
            return self._answer(job, corpus, filters, query, self._asker(corpus, identify))
        tracer = Tracer(self._clock)
        asker = self._asker(corpus, identify)
        with tracer.stage("batch") as counts:
            results = [self._answer_or_error(job, corpus, filters, i, asker) for i in range(len(job.query_embeddings))]
            counts |= {"queries": len(results), "failed": sum("error" in result for result in results)}
        return {"schema_version": SCHEMA_VERSION, "results": results, "trace": trace(tracer)}

    def _answer_or_error(
        self, job: RetrieveTopK, corpus: Corpus, filters: FilterSet, index: int, asker: Principal
    ) -> dict[str, Any]:
        """One query of a batch: what is wrong with it stays with it."""
        assert job.query_embeddings is not None  # noqa: S101 -- for the type checker: only batches come here
        try:
            query = vectors.decode(job.query_embeddings[index], f"query_embeddings[{index}]")
        except InvalidJob as error:
            return {"error": {"type": "InvalidJob", "path": error.path, "message": error.message}}
        return self._answer(job, corpus, filters, query, asker)

    def _answer(
        self, job: RetrieveTopK, corpus: Corpus, filters: FilterSet, query: vectors.Vector, asker: Principal
    ) -> dict[str, Any]:
        """One query from vector to answer."""
        tracer = Tracer(self._clock)
        k = job.clamped_k
        with tracer.stage("search") as counts:
            found = corpus.nearest(self._database, asker, query, k, filters, exact=job.exact)
            counts |= {"fetched": found.fetched, "found": len(found.candidates)}
        with tracer.stage("cut") as counts:
            max_distance = corpus.settings.max_distance if job.max_distance is None else job.max_distance
            kept = within_distance(found.candidates, max_distance)
            counts |= {"kept": len(kept), "beyond_max_distance": len(found.candidates) - len(kept)}
        return {
            "schema_version": SCHEMA_VERSION,
            "status": _status(len(kept), k),
            "short_reason": _short_reason(len(kept), k, len(found.candidates), filters),
            "k_requested": job.k,
            "k": k,
            "corpus": corpus.name,
            "chunks": _ranked(kept),
            "trace": trace(tracer, found),
        }

    def _corpus(self, name: str | None) -> Corpus:
        wanted = self._settings.default_corpus if name is None else name
        if wanted not in self._corpora:
            raise InvalidJob(f"expected one of {', '.join(self._corpora)}", "corpus")
        return self._corpora[wanted]

    def _asker(self, corpus: Corpus, identify: Identify) -> Principal:
        """Who asks: nobody is enough for a public corpus, and for no other."""
        try:
            asker = identify()
        except NotAuthorised:
            if not corpus.settings.public:
                raise
            asker = None
        if asker is None and not corpus.settings.public:
            raise NotAuthorised(
                f"the corpus {corpus.name} is not public: send a principal_token, "
                "or a principal where the worker trusts its queue"
            )
        return asker or self._nobody

    @property
    def _nobody(self) -> Principal:
        return Principal(settings=tuple((name, "") for name in self._settings.principal.settings.values()))


def filter_set(filters: Filters | None) -> FilterSet:
    """The contract's filters as the vocabulary's."""
    if filters is None:
        return NO_FILTERS
    lists = {
        name: tuple(values) if values is not None else None
        for name in ("document_ids", "sections", "pages", "path_contains", "ext_allow", "ext_deny")
        for values in [getattr(filters, name)]
    }
    return FilterSet(**lists, metadata=filters.metadata)


def trace(tracer: Tracer, found: Found | None = None) -> dict[str, Any]:
    """A result's `trace`."""
    search = (
        {}
        if found is None
        else {"method": found.method, "corpus_rows": found.corpus_rows, "ef_search": found.ef_search}
    )
    return {"stages": tracer.stages, "search": search, "models": {}, "worker_version": WORKER_VERSION}


def _status(kept: int, k: int) -> str:
    if kept == k:
        return "ok"
    return "short" if kept else "empty"


def _short_reason(kept: int, k: int, found: int, filters: FilterSet) -> str | None:
    """Why there are fewer than k: the first reason that applies."""
    if kept == k:
        return None
    if kept < found:
        return "max_distance"
    return "filters" if filters.given else "visible_rows"


def _ranked(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Candidates, in order, as the contract's chunks."""
    return [
        {
            "rank": rank,
            "chunk_id": candidate.chunk.id,
            "document_id": candidate.chunk.document_id,
            "text": candidate.chunk.text,
            "page": candidate.chunk.page,
            "section": candidate.chunk.section,
            "coordinates": candidate.chunk.coordinates,
            "metadata": candidate.chunk.metadata,
            "chunk_hash": candidate.chunk.chunk_hash,
            "hash_version": candidate.chunk.hash_version,
            "distance": 1.0 - candidate.similarity,
            "similarity_score": candidate.similarity,
        }
        for rank, candidate in enumerate(candidates, 1)
    ]
