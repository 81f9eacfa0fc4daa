"""Nearest-neighbour search, and its rows as chunks: the one door between a table and the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.adapters.statements import Statements
from worker.core.hashing import HASH_VERSION, format_hash, hash_chunk
from worker.core.ranking import by_similarity, id_key
from worker.model import Candidate, Chunk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from worker.adapters.catalog import CorpusTypes
    from worker.adapters.postgres import Database, Row
    from worker.core.vectors import Vector
    from worker.model import FilterSet, Principal
    from worker.settings import CorpusSettings, SearchSettings

_INDEX, _EXACT = "index", "exact"
_FIELDS = 8
"""Columns of every row that is read as a chunk; the mapped metadata columns follow them."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one search found.

    Attributes:
        candidates: the best ``k``, in total order.
        method: ``index`` or ``exact``.
        fetched: candidates that were compared for the exact order.
        corpus_rows: rows of the corpus as Postgres estimates them.
        ef_search: HNSW's search width; 0 where no index was used.
    """

    candidates: list[Candidate]
    method: str
    fetched: int
    corpus_rows: int
    ef_search: int


class Corpus:
    """One corpus: its statements, and how its rows are read.

    Args:
        name: as in settings.
        settings: its table and columns.
        search: how to trade time for recall.
        types: types of its key columns, from the database.
    """

    def __init__(self, name: str, settings: CorpusSettings, search: SearchSettings, types: CorpusTypes) -> None:
        self.name = name
        self.settings = settings
        self._over_fetch = search.over_fetch
        self._statements = Statements(name, settings, search, types)
        self._key = id_key(types.id)
        self._document_key = id_key(types.document_id)

    # --- the search -----------------------------------------------------------------------------

    def nearest(
        self, database: Database, principal: Principal, query: Vector, k: int, filters: FilterSet, *, exact: bool
    ) -> Found:
        """The ``k`` nearest chunks that ``principal`` may see.

        Exact search takes over where the index came back with fewer candidates than were asked for (rows may
        be left that it did not reach), and where a tie at the cut reaches past what was fetched (which of the
        tied chunks were seen would be the plan's choice).
        """
        if not exact:
            found, complete = self._by_plan(database, principal, query, k, filters)
            if complete:
                return found
        return self._exactly(database, principal, query, k, filters)

    def _by_plan(
        self, database: Database, principal: Principal, query: Vector, k: int, filters: FilterSet
    ) -> tuple[Found, bool]:
        values = self._statements.values(query, k, filters)
        (header, rows) = database.read(
            principal, [(self._statements.plan, values), (self._statements.nearest(filters), values)]
        )
        corpus_rows, ef_search = header[0][:2]
        exact, fetched, farthest = rows[0][:3]
        candidates = self._candidates(row[3:] for row in rows)
        if exact:
            return Found(candidates, _EXACT, fetched, corpus_rows, 0), True
        tied_past_fetch = len(candidates) == k and 1.0 - candidates[-1].similarity >= farthest
        complete = fetched >= self._over_fetch and not tied_past_fetch
        return Found(candidates, _INDEX, fetched, corpus_rows, int(ef_search)), complete

    def _exactly(self, database: Database, principal: Principal, query: Vector, k: int, filters: FilterSet) -> Found:
        values = self._statements.values(query, k, filters)
        (header, rows) = database.read(
            principal, [(self._statements.plan, values), (self._statements.exact(filters), values)]
        )
        candidates = self._candidates(rows)
        return Found(candidates, _EXACT, len(candidates), header[0][0], 0)

    # --- pins -----------------------------------------------------------------------------------

    def pinned(
        self, database: Database, principal: Principal, hashes: Collection[str], ids: Collection[str]
    ) -> list[Chunk]:
        """Every chunk that ``principal`` may see which has one of the hashes or one of the ids, each once."""
        (rows,) = database.read(principal, [(self._statements.pinned, self._statements.pins(hashes, ids))])
        return list({chunk.id: chunk for chunk in map(self._chunk, rows)}.values())

    def scan(self, database: Database, principal: Principal, limit: int) -> list[Chunk]:
        """The first chunks by id, for bare hashes in a corpus without a hash column."""
        (rows,) = database.read(principal, [(self._statements.scan, {"limit": limit})])
        return [self._chunk(row) for row in rows]

    def fill(
        self, database: Database, principal: Principal, order: str, limit: int, without: Collection[str]
    ) -> list[Chunk]:
        """The first chunks by ``text`` or ``hash`` that have none of the hashes ``without``."""
        if limit <= 0:
            return []
        extra = 0 if self.has_hashes else len(without)
        values = {**self._statements.pins(without, ()), "limit": limit + extra}
        (rows,) = database.read(principal, [(self._statements.fill(order), values)])
        return [chunk for chunk in map(self._chunk, rows) if chunk.chunk_hash not in without][:limit]

    @property
    def has_hashes(self) -> bool:
        """Whether a column of the table holds the chunks' hashes."""
        return self.settings.columns.chunk_hash is not None

    def order(self, chunk: Chunk) -> tuple[Any, Any]:
        """(document, chunk) as the database orders them."""
        return self._document_key(chunk.document_id), self._key(chunk.id)

    # --- rows to chunks -------------------------------------------------------------------------

    def _candidates(self, rows: Iterable[Row]) -> list[Candidate]:
        """Rows of (distance, id, document_id, text, fields, metadata columns) in total order.

        Stored NULL and zero vectors have no distance (NULL, NaN) and are no candidates.
        """
        return by_similarity(
            (Candidate(self._chunk(row[1:]), 1.0 - row[0]) for row in rows if row[0] is not None and row[0] == row[0]),
            self._key,
        )

    def _chunk(self, row: Row) -> Chunk:
        chunk_id, document_id, text, page, section, coordinates, metadata, chunk_hash = row[:_FIELDS]
        named = metadata if isinstance(metadata, dict) else {} if metadata is None else {"metadata": metadata}
        if len(row) > _FIELDS:
            named.update(zip(self.settings.metadata_columns, row[_FIELDS:], strict=True))
        return Chunk(
            id=str(chunk_id),
            document_id=str(document_id),
            text=text,
            page=page,
            section=section,
            coordinates=coordinates,
            metadata=named,
            chunk_hash=format_hash(chunk_hash) if chunk_hash is not None else hash_chunk(text),
            hash_version=HASH_VERSION,
        )
