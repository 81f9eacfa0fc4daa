"""Nearest-neighbour search, and the conversion of rows to chunks: the only way from a table to the model."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from retrieval_client.errors import SettingsError
from retrieval_client.hashing import HASH_VERSION, format_hash, hash_chunk
from worker.adapters.postgres.database import CallerRead
from worker.adapters.postgres.statements import MAX_WIDTH, Statements
from worker.core.ranking.total_order import by_similarity, id_key
from worker.model import Candidate, Chunk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.adapters.postgres.database import Database, Reader, Row, Statement
    from worker.core.ranking.vectors import Vector
    from worker.model import FilterSet, Principal
    from worker.settings.serving import Calibration, CorpusSettings, SearchSettings

_INDEX, _EXACT = "index", "exact"
_BLUR = 0.002
"""Largest error of the order by an index over halfvec, in cosine distance, where the column holds vectors.

Each number keeps 11 bits, so a vector turns by 2 ** -11 at most, and a query likewise."""
_LOST = 0.82
"""Ratio of the nearest to the farthest fetched distance above which an index's answer is searched again, wider.

A search of an HNSW graph that never entered the query's neighbourhood finds rows that are all about equally far. Such
answers had 0.84 to 0.95 in graphs as the reference schema builds them; one in sixteen right answers of real text has
as much, which costs time only (docs/vector-index.md)."""
_WIDER = 4
"""How much wider."""
_CHOICE = 6
"""Columns of `Statements.nearest` that describe the search; a chunk's columns follow them."""
_FIELDS = 8
"""Columns of every row that becomes a chunk; the mapped metadata columns follow them."""
_JSON = (str, int, dict, type(None))


@dataclass(frozen=True, slots=True)
class WordStatistics:
    """The statistics by which a full-text search ranked.

    Attributes:
        chunks: number of chunks that were counted.
        age_seconds: time since then.
        of_tenant: True if they are of the caller's tenant, False if of the whole corpus.
    """

    chunks: int
    age_seconds: int
    of_tenant: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of one search.

    Attributes:
        candidates: the best ``k``, in total order.
        method: ``index`` or ``exact``; of full text, ``all_words``, ``any_word``, ``rare_words`` (any of the rarer
            ones), ``common_words`` (none: each word is too common to be searched), ``no_words`` (it has none) or
            ``no_full_text`` (the corpus has none, and was not searched).
        fetched: number of candidates compared for the exact order.
        corpus_rows: rows of the corpus as Postgres estimates them; 0 if not asked.
        ef_search: HNSW's search width; 0 where no index was used.
        scores: the search's own score of each candidate, if that isn't the similarity.
        statistics: statistics of a full-text search; None without any: all words weighed the same.
    """

    candidates: list[Candidate]
    method: str
    fetched: int
    corpus_rows: int
    ef_search: int
    scores: Sequence[float] | None = None
    statistics: WordStatistics | None = None


class Search(Protocol):
    """One search of one corpus, to be run in a transaction together with others."""

    def statements(self) -> list[Statement]:
        """Return the statements to send."""

    def read(self, results: Sequence[list[Row]]) -> SearchResult | Search:
        """Read the result from the rows of each statement, or return the search that must be run instead."""


def search(
    database: Reader, principal: Principal, searches: Sequence[Search], timeout_seconds: float | None = None
) -> list[SearchResult]:
    """Run searches for one caller in one transaction and round trip.

    Further ones repeat the searches that an index could not decide: wider, then exactly.

    Args:
        database: the database that holds the corpora.
        principal: the caller.
        searches: searches of any corpora.
        timeout_seconds: time limit of each statement; default that of the settings.
    """
    outcomes = _run(database, principal, searches, timeout_seconds)
    while repeats := {i: outcome for i, outcome in enumerate(outcomes) if not isinstance(outcome, SearchResult)}:
        for i, outcome in zip(repeats, _run(database, principal, [*repeats.values()], timeout_seconds), strict=True):
            outcomes[i] = outcome
    return [outcome for outcome in outcomes if isinstance(outcome, SearchResult)]


def _run(
    database: Reader, principal: Principal, searches: Sequence[Search], timeout_seconds: float | None
) -> list[SearchResult | Search]:
    batches = [search.statements() for search in searches]
    targets = [getattr(search, "corpus", None) for search in searches]
    # A search without a named corpus may read any: all are checked.
    corpora = None if None in targets else dict.fromkeys(corpus.name for corpus in targets if corpus is not None)
    statements = [*chain.from_iterable(batches)]
    results = iter(database.read(principal, statements, timeout_seconds, searches=len(searches), corpora=corpora))
    return [search.read([*islice(results, len(batch))]) for search, batch in zip(searches, batches, strict=True)]


def search_each(
    database: Reader, requests: Sequence[tuple[Principal, VectorSearch]], timeout_seconds: float
) -> list[SearchResult | None]:
    """Run searches of several callers, each in a transaction of its own, in one round trip.

    Args:
        database: the database that holds the corpora.
        requests: caller and search.
        timeout_seconds: time limit of each statement.

    Returns:
        The result of each; None for one that failed, took too long, or that an index could not decide: `search` it.
    """
    reads = [CallerRead(caller, search.statements(), (search.corpus.name,)) for caller, search in requests]
    answers = database.read_each(reads, timeout_seconds)
    results = (None if rows is None else search.read(rows) for (_, search), rows in zip(requests, answers, strict=True))
    return [outcome if isinstance(outcome, SearchResult) else None for outcome in results]


@dataclass(frozen=True, slots=True)
class VectorSearch:
    """Search for the chunks nearest to a query; see `Search`.

    Attributes:
        corpus: the corpus to search.
        query: unit vector, shape (dimensions of the corpus,).
        k: number of chunks.
        filters: the filters of the search.
        exact: search without an index.
        vectors: also return the chunks' embeddings.
        wide: search the index wider than the settings say.
        with_text: leave out chunks without text, so that they take no place among the ``k``.
    """

    corpus: Corpus
    query: Vector
    k: int
    filters: FilterSet
    exact: bool = False
    vectors: bool = False
    wide: bool = False
    with_text: bool = False

    def statements(self) -> list[Statement]:
        """See `Search`."""
        return self.corpus.statements_of(self)

    def read(self, results: Sequence[list[Row]]) -> SearchResult | VectorSearch:
        """See `Search`."""
        if not self.exact:
            return self.corpus.found_by_plan(self, results[0])
        size, rows = results
        return self.corpus.found_exactly(self, size[0], rows)


class Corpus:
    """One corpus: its statements, and the conversion of its rows.

    Args:
        name: its name in the settings.
        settings: its table and columns.
        search: the settings that trade time for recall.
        types: types of its key columns, from the database.
        calibration: its measured search widths, if any.

    Attributes:
        name: as given.
        settings: as given.
        statements: its searches as SQL.
        key: compares chunk ids as the database does.
    """

    def __init__(
        self,
        name: str,
        settings: CorpusSettings,
        search: SearchSettings,
        types: CorpusTypes,
        calibration: Calibration | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.statements = Statements(name, settings, search, types, calibration)
        self.key = id_key(types.id)
        self._document_key = id_key(types.document_id)
        self._blur = _BLUR if types.index != types.embedding else 0.0

    # --- the search -----------------------------------------------------------------------------

    def nearest(
        self, database: Reader, principal: Principal, query: Vector, k: int, filters: FilterSet, *, exact: bool
    ) -> SearchResult:
        """Return the ``k`` nearest chunks that ``principal`` may see; see `search`."""
        return self.nearest_of_each(database, principal, [query], k, filters, exact=exact)[0]

    def nearest_of_each(
        self,
        database: Reader,
        principal: Principal,
        queries: Sequence[Vector],
        k: int,
        filters: FilterSet,
        *,
        exact: bool,
    ) -> list[SearchResult]:
        """Return the nearest chunks of several queries, in one round trip."""
        return search(database, principal, [VectorSearch(self, query, k, filters, exact=exact) for query in queries])

    def statements_of(self, search: VectorSearch) -> list[Statement]:
        """Compose the search; an exact one, which sets nothing of the index, begins with the size of the corpus."""
        statements = self.statements
        values = statements.values(search.query, search.k, search.filters)
        if search.exact:
            return [(statements.size, {}), (statements.exact(search.filters, search.vectors, search.with_text), values)]
        widen = _WIDER if search.wide else 1
        nearest = statements.nearest(search.filters, search.k, search.vectors, widen, search.with_text)
        return [(nearest, values)]

    def found_by_plan(self, search: VectorSearch, rows: Sequence[Row]) -> SearchResult | VectorSearch:
        """Read the result of index or exact search, or return the search that must decide.

        An exact one where the index returned fewer candidates than requested (it may not have reached all rows), and
        where a tie at the cut extends beyond the fetched rows (the plan would decide which of the tied chunks were
        seen); a wider one where nothing that was found is near.
        """
        corpus_rows, ef_search, exact, indexed, fetched, farthest = rows[0][:_CHOICE]
        candidates = self._candidates((row[_CHOICE:] for row in rows), search.vectors)
        if exact:
            return SearchResult(candidates, _EXACT, fetched, corpus_rows, 0)
        tied_past_fetch = len(candidates) == search.k and self._reaches(candidates[-1], farthest)
        if fetched < self.statements.over_fetch(search.k) or tied_past_fetch:
            return dataclasses.replace(search, exact=True)
        if not indexed:
            # Postgres compared every row, whatever the plan.
            return SearchResult(candidates, _EXACT, fetched, corpus_rows, 0)
        if ef_search < MAX_WIDTH and not search.wide and _distance(candidates[0]) > _LOST * farthest:
            return dataclasses.replace(search, wide=True)
        return SearchResult(candidates, _INDEX, fetched, corpus_rows, ef_search)

    def _reaches(self, candidate: Candidate, farthest: float) -> bool:
        """Return whether the index may have missed a chunk as near as this candidate."""
        return _distance(candidate) >= farthest - self._blur

    def found_exactly(self, search: VectorSearch, size: Row, rows: Sequence[Row]) -> SearchResult:
        """Read the result of exact search."""
        candidates = self._candidates(rows, search.vectors)
        return SearchResult(candidates, _EXACT, len(candidates), size[0], 0)

    # --- pins -----------------------------------------------------------------------------------

    def pinned(
        self, database: Database, principal: Principal, hashes: Collection[str], ids: Collection[str]
    ) -> list[Chunk]:
        """Return each visible chunk with one of the hashes or ids, once."""
        (rows,) = self._read(database, principal, self.statements.pinned, self.statements.pins(hashes, ids))
        chunks = self.chunks(rows)
        # A chunk is found twice only by its hash and its id.
        return list({chunk.id: chunk for chunk in chunks}.values()) if ids else chunks

    def chunks(self, rows: Iterable[Row]) -> list[Chunk]:
        """Convert rows of `Statements.pinned` to chunks, in their order."""
        return [self._chunk(row) for row in rows]

    def scan(self, database: Database, principal: Principal, limit: int) -> list[Chunk]:
        """Return the first chunks by id, for bare hashes in a corpus without a hash column."""
        (rows,) = self._read(database, principal, self.statements.scan, {"limit": limit})
        return [self._chunk(row) for row in rows]

    def around(self, database: Database, principal: Principal, chunk: tuple[str, str], each_side: int) -> list[Chunk]:
        """Return the visible chunks next to one, given by document and id, and itself, by page and id."""
        values = {"document": chunk[0], "chunk": chunk[1], "each_side": each_side}
        (rows,) = self._read(database, principal, self.statements.around, values)
        return self.chunks(rows)

    def fill(
        self, database: Database, principal: Principal, order: str, limit: int, without: Collection[str]
    ) -> list[Chunk]:
        """Return the first chunks by ``text`` or ``hash`` that have none of the hashes ``without``."""
        if limit <= 0:
            return []
        extra = 0 if self.has_hashes else len(without)
        values = {**self.statements.pins(without, ()), "limit": limit + extra}
        (rows,) = self._read(database, principal, self.statements.fill(order), values)
        return [chunk for chunk in map(self._chunk, rows) if chunk.chunk_hash not in without][:limit]

    def _read(
        self, database: Database, principal: Principal, query: bytes, values: Mapping[str, Any]
    ) -> list[list[Row]]:
        return database.read(principal, [(query, values)], corpora=[self.name])

    @property
    def has_hashes(self) -> bool:
        """True if a column of the table holds the chunks' hashes."""
        return self.settings.columns.chunk_hash is not None

    def order(self, chunk: Chunk) -> tuple[str, Any, Any]:
        """Return the sort key (corpus, document, chunk), the last two in the database's order."""
        return self.name, self._document_key(chunk.document_id), self.key(chunk.id)

    # --- rows to chunks -------------------------------------------------------------------------

    def candidate(self, row: Row, vectors: bool) -> Candidate:
        """Convert a row of (distance, vector or NULL, id, document_id, text, fields, metadata columns).

        Stored NULL and zero vectors have no distance (NULL, NaN), so the candidate has no similarity.
        """
        distance, vector = row[:2]
        return Candidate(
            self._chunk(row[2:]),
            None if distance is None or math.isnan(distance) else 1.0 - distance,
            corpus=self.name,
            embedding=vector.to_numpy() if vectors and vector is not None else None,
        )

    def _candidates(self, rows: Iterable[Row], vectors: bool) -> list[Candidate]:
        """Convert rows to candidates in total order, without those that have no similarity."""
        candidates = (self.candidate(row, vectors) for row in rows if row[0] is not None)
        return by_similarity((candidate for candidate in candidates if candidate.similarity is not None), self.key)

    def _chunk(self, row: Row) -> Chunk:
        chunk_id, document_id, text, page, section, coordinates, metadata, chunk_hash = row[:_FIELDS]
        if chunk_id is None or document_id is None:
            raise self._without("id" if chunk_id is None else "document_id")
        fields = (
            metadata if isinstance(metadata, dict) else {} if metadata is None else {"metadata": _in_json(metadata)}
        )
        if len(row) > _FIELDS:
            fields.update(zip(self.settings.metadata_columns, map(_in_json, row[_FIELDS:]), strict=True))
        text = "" if text is None else text
        return Chunk(
            id=str(chunk_id),
            document_id=str(document_id),
            text=text,
            page=page,
            section=section,
            coordinates=_in_json(coordinates),
            metadata=fields,
            chunk_hash=format_hash(chunk_hash) if chunk_hash is not None else hash_chunk(text),
            hash_version=HASH_VERSION,
        )

    def _without(self, field: str) -> SettingsError:
        """Return the error for a row without an id: it could neither be replayed nor cited."""
        column = getattr(self.settings.columns, field)
        return SettingsError(
            f"corpora.{self.name}.columns.{field}: a row of {self.settings.table} has no {column} (it is NULL): "
            "give it one and set the column NOT NULL, or map a view that leaves such rows out"
        )


def _distance(candidate: Candidate) -> float:
    """Return the cosine distance of a candidate that has a similarity."""
    return 1.0 - (candidate.similarity or 0.0)


def _in_json(value: Any) -> Any:
    """Convert a column's value to JSON: lists item by item, other types to text."""
    if isinstance(value, _JSON):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_in_json(item) for item in value]
    return str(value)
