"""`retrieve_top_k`: the nearest chunks of one corpus, in total order, cut at k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieval_client.contract.base import SCHEMA_VERSION
from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.search import VectorSearch, search_each
from worker.core.ranking import vectors
from worker.core.ranking.total_order import within_distance
from worker.core.trace import Tracer
from worker.jobs.answer import batch_summary, filter_set, ranked, trace
from worker.jobs.recording import RecordedAnswer, pins_of
from worker.jobs.stored_candidates import of_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from retrieval_client.contract.jobs import RetrieveTopK
    from worker.adapters.postgres.database import Reader
    from worker.adapters.postgres.runs import Record
    from worker.adapters.postgres.search import Corpus, SearchResult
    from worker.jobs.answer import Summary
    from worker.jobs.context import JobContext
    from worker.jobs.corpora import Corpora
    from worker.jobs.recording import Recording
    from worker.model import Candidate, FilterSet, Principal

TASK = "retrieve_top_k"


_AT_ONCE = 16
"""Queries of a batch per round trip: more would gain little, and take longer to reply."""


_NOT_BUNDLED = {"exact", "run", "query_embeddings"}
"""Fields of jobs that take long by nature, or write."""


class _CutAnswer(NamedTuple):
    """Answer, its fields besides chunks and trace, and its candidates."""

    answer: dict[str, Any]
    header: dict[str, Any]
    candidates: list[Candidate]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSearch:
    """Job of one query, checked, whose caller is known.

    Attributes:
        job: the job.
        corpus: the corpus to search.
        filters: the filters of the search.
        query: unit vector, shape (dimensions of the corpus,).
        caller: the caller.
    """

    job: RetrieveTopK
    corpus: Corpus
    filters: FilterSet
    query: vectors.Vector
    caller: Principal

    @property
    def search(self) -> VectorSearch:
        """The search."""
        return VectorSearch(self.corpus, self.query, self.job.clamped_k, self.filters, exact=self.job.exact)


class Retrieval:
    """Handler of `retrieve_top_k` jobs.

    Args:
        corpora: the corpora.
        searched: the database for searches; records are read from the corpora's own database.
        recording: answers recorded jobs once.
        clock: for the trace only; no result depends on it.
    """

    def __init__(self, corpora: Corpora, searched: Reader, recording: Recording, clock: Callable[[], float]) -> None:
        self._corpora = corpora
        self._searched = searched
        self._recording = recording
        self._clock = clock

    def top_k(self, job: RetrieveTopK, context: JobContext) -> dict[str, Any]:
        """Answer `retrieve_top_k`.

        Args:
            job: the validated job.
            context: identifies the caller, before any search.

        Raises:
            InvalidJob: an embedding is wrong, the corpus is unknown, or a filter is not mapped.
            NotAuthorised: the token is missing or invalid, and the corpus is not public.
            Unavailable, TimedOut, SettingsError, InternalError: see `Database.read`.
        """
        corpus = self._corpora.get(job.corpus)
        filters = filter_set(job.filters)
        if job.query_embeddings is not None:
            return self._batch(job, corpus, filters, self._corpora.caller_of(corpus, context))
        query = vectors.decode(job.query_embedding, dimensions=corpus.settings.dimensions)
        caller = self._corpora.caller_of(corpus, context)
        if job.run is None:
            return self._one(job, corpus, filters, query, caller).answer
        return self._recording.answer(
            TASK,
            job,
            caller,
            make=lambda: _made(self._one(job, corpus, filters, query, caller), query),
            replay=lambda record: self.from_record(record, caller),
        )

    def prepare(self, job: RetrieveTopK, context: JobContext) -> PreparedSearch:
        """Check a job of one query, to be answered together with others; raises as `top_k` does."""
        corpus = self._corpora.get(job.corpus)
        query = vectors.decode(job.query_embedding, dimensions=corpus.settings.dimensions)
        return PreparedSearch(job, corpus, filter_set(job.filters), query, self._corpora.caller_of(corpus, context))

    def answer_each(self, prepared: Sequence[PreparedSearch], timeout_seconds: float) -> list[dict[str, Any] | None]:
        """Answer jobs of several callers in one round trip; each trace gets an equal share of the search time.

        Args:
            prepared: the jobs.
            timeout_seconds: time limit of each search.

        Returns:
            The answers; None for a job that `top_k` must answer, see `search_each`.
        """
        started = self._clock()
        search_results = search_each(
            self._searched, [(query.caller, query.search) for query in prepared], timeout_seconds
        )
        seconds = (self._clock() - started) / len(prepared)
        return [
            None if result is None else self._cut(query.job, query.corpus, query.filters, result, seconds).answer
            for query, result in zip(prepared, search_results, strict=True)
        ]

    def _batch(self, job: RetrieveTopK, corpus: Corpus, filters: FilterSet, caller: Principal) -> dict[str, Any]:
        tracer = Tracer(self._clock)
        with tracer.stage("batch") as counts:
            size = corpus.settings.dimensions
            decoded = [_decoded(value, i, size) for i, value in enumerate(job.query_embeddings or [])]
            queries = [query for query in decoded if not isinstance(query, InvalidJob)]
            answers = iter(
                [
                    cut.answer
                    for group in _groups(queries)
                    for cut in self._together(job, corpus, filters, group, caller)
                ]
            )
            results = [_failed(query) if isinstance(query, InvalidJob) else next(answers) for query in decoded]
            counts |= {"queries": len(results), "failed": len(decoded) - len(queries)}
        return {"schema_version": SCHEMA_VERSION, "degraded": [], "results": results, "trace": trace(tracer)}

    def _one(
        self, job: RetrieveTopK, corpus: Corpus, filters: FilterSet, query: vectors.Vector, caller: Principal
    ) -> _CutAnswer:
        """Answer one query."""
        return self._together(job, corpus, filters, [query], caller)[0]

    def _together(
        self,
        job: RetrieveTopK,
        corpus: Corpus,
        filters: FilterSet,
        queries: Sequence[vectors.Vector],
        caller: Principal,
    ) -> list[_CutAnswer]:
        """Answer several queries in one round trip; each trace gets an equal share of the search time."""
        started = self._clock()
        searches = corpus.nearest_of_each(self._searched, caller, queries, job.clamped_k, filters, exact=job.exact)
        seconds = (self._clock() - started) / len(queries)
        return [self._cut(job, corpus, filters, search, seconds) for search in searches]

    def _cut(
        self, job: RetrieveTopK, corpus: Corpus, filters: FilterSet, search_result: SearchResult, seconds: float
    ) -> _CutAnswer:
        """Make a query's answer from the chunks found."""
        tracer = Tracer(self._clock)
        tracer.add("search", seconds, {"fetched": search_result.fetched, "found": len(search_result.candidates)})
        k = job.clamped_k
        with tracer.stage("cut") as counts:
            max_distance = corpus.settings.max_distance if job.max_distance is None else job.max_distance
            candidates = within_distance(search_result.candidates, max_distance)
            counts |= {"kept": len(candidates), "beyond_max_distance": len(search_result.candidates) - len(candidates)}
        header = {
            "schema_version": SCHEMA_VERSION,
            "degraded": [],
            "status": _status(len(candidates), k),
            "short_reason": _short_reason(len(candidates), k, len(search_result.candidates), filters),
            "k_requested": job.k,
            "k": k,
            "corpus": corpus.name,
        }
        search: dict[str, Any] = {"method": search_result.method}
        if corpus.settings.public:  # both are of all rows, also hidden ones
            search |= {"corpus_rows": search_result.corpus_rows, "ef_search": search_result.ef_search}
        return _CutAnswer({**header, "chunks": ranked(candidates), "trace": trace(tracer, search)}, header, candidates)

    def from_record(self, record: Record, caller: Principal) -> dict[str, Any]:
        """Return the recorded answer with current permissions; changed or hidden chunks are left out and reported."""
        tracer = Tracer(self._clock)
        header = dict(record.answer)
        header.setdefault("degraded", [])  # missing in records of earlier versions
        with tracer.stage("record") as counts:
            candidates = self._corpora.unchanged(caller, of_record(record.pins))
            counts |= {"recorded": len(record.pins), "kept": len(candidates)}
        if len(candidates) < len(record.pins):
            header["status"] = _status(len(candidates), header["k"])
            header["short_reason"] = header["short_reason"] or "changed"
        return {**header, "chunks": ranked(candidates), "trace": trace(tracer, {"method": "record"})}


def _made(cut: _CutAnswer, query: vectors.Vector) -> RecordedAnswer:
    """Return an answer with its recorded part."""
    return RecordedAnswer(
        cut.answer, cut.header, pins_of(cut.candidates), query_embedding=query.astype("<f4").tobytes()
    )


def _decoded(value: Any, i: int, dimensions: int) -> vectors.Vector | InvalidJob:
    """Decode a query of a batch; return its error rather than raise it."""
    try:
        return vectors.decode(value, f"query_embeddings[{i}]", dimensions)
    except InvalidJob as error:
        return error


def _groups(queries: Sequence[vectors.Vector]) -> list[Sequence[vectors.Vector]]:
    return [queries[i : i + _AT_ONCE] for i in range(0, len(queries), _AT_ONCE)]


def _failed(error: InvalidJob) -> dict[str, Any]:
    return {"error": {"type": "InvalidJob", "path": error.path, "message": error.message}}


def _status(chunk_count: int, k: int) -> str:
    if chunk_count == k:
        return "ok"
    return "short" if chunk_count else "empty"


def _short_reason(chunk_count: int, k: int, candidate_count: int, filters: FilterSet) -> str | None:
    """Return the first reason that applies for fewer than k chunks."""
    if chunk_count == k:
        return None
    if chunk_count < candidate_count:
        return "max_distance"
    return "filters" if filters.given else "visible_rows"


def may_be_bundled(raw: Any) -> bool:
    """Return whether a job, as sent, may be answered together with others: one query, by index, not recorded."""
    return isinstance(raw, dict) and "query_embedding" in raw and not _NOT_BUNDLED & raw.keys()


def summary(answer: Mapping[str, Any]) -> Summary:
    """Return the number of chunks in an answer, and its status."""
    if "results" in answer:
        return batch_summary(answer)
    return len(answer["chunks"]), str(answer["status"])
