"""Full-text search: the sparse leg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.adapters.postgres.fulltext_sql import best_matching
from worker.adapters.postgres.search import SearchResult
from worker.core.text.websearch import searchable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.adapters.postgres.database import Row, Statement
    from worker.adapters.postgres.search import Corpus
    from worker.core.ranking.vectors import Vector
    from worker.model import FilterSet

MAX_CHARACTERS = 2000
"""Maximum number of characters of a query.

Ranking compares each of its words with each chunk, and Postgres fails at some ten thousand words."""

_ALL_WORDS, _ANY_WORD = "all_words", "any_word"


@dataclass(frozen=True, slots=True)
class FullTextSearch:
    """Search for the chunks that match a text best; see `worker.adapters.postgres.search.Search`.

    It matches all words, in web search syntax (``"a phrase"``, ``or``, ``-without``); if no chunk has them all, any of
    them. `SearchResult.scores` are Postgres' ``ts_rank_cd``.

    Attributes:
        corpus: the corpus to search.
        text: the query as the user typed it.
        query: unit vector of the query, shape (768,): chunks get their similarity to it, too.
        k: number of chunks.
        filters: the filters of the search.
        vectors: also return the chunks' embeddings.
    """

    corpus: Corpus
    text: str
    query: Vector
    k: int
    filters: FilterSet
    vectors: bool = False

    def statements(self) -> list[Statement]:
        """See `Search`."""
        statements = self.corpus.statements
        values = {**statements.values(self.query, self.k, self.filters), "text": searchable(self.text, MAX_CHARACTERS)}
        return [(best_matching(statements, self.filters, self.vectors), values)]

    def read(self, results: Sequence[list[Row]]) -> SearchResult:
        """See `Search`; never None."""
        (rows,) = results
        method = _ANY_WORD if rows and rows[0][0] else _ALL_WORDS
        candidates = [self.corpus.candidate(row[2:], self.vectors) for row in rows]
        return SearchResult(candidates, method, len(rows), 0, 0, [float(row[1]) for row in rows])

    def exactly(self) -> FullTextSearch:
        """See `Search`; full-text search is always exact."""
        return self
