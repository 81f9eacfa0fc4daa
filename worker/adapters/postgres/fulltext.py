"""Full-text search: the sparse leg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.adapters.postgres.fulltext_sql import STATE, best_matching
from worker.adapters.postgres.search import SearchResult, WordStatistics
from worker.core.text.websearch import beginning, phrases, searchable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.adapters.postgres.database import Row, Statement
    from worker.adapters.postgres.search import Corpus
    from worker.core.ranking.vectors import Vector
    from worker.model import FilterSet

MAX_CHARACTERS = 2000
"""Maximum number of characters of a query.

Ranking compares each of its words with each chunk, and Postgres fails at some ten thousand words."""

_ALL_WORDS, _ANY_WORD, _RARE_WORDS, _COMMON_WORDS = "all_words", "any_word", "rare_words", "common_words"
_NO_WORDS, _NO_FULL_TEXT = "no_words", "no_full_text"


def text_values(text: str, *, web_search: bool) -> dict[str, str | bool | None]:
    """Return the parameters of a statement that searches for a text; see `FullTextSearch`."""
    if not web_search:
        return {"text": beginning(text, MAX_CHARACTERS), "phrases": None, "web_search": False}
    return {"text": searchable(text, MAX_CHARACTERS), "phrases": phrases(text, MAX_CHARACTERS), "web_search": True}


@dataclass(frozen=True, slots=True)
class FullTextSearch:
    """Search for the chunks that match a text best; see `worker.adapters.postgres.search.Search`.

    It matches all words; if no chunk has them all, or too few have the many words of a question, any of them, or any of
    the rarer ones where all would match too many. Phrases of a web search, and what it excludes, hold all the same.
    `SearchResult.scores` are BM25's, see `worker.adapters.postgres.fulltext_sql`.

    Attributes:
        corpus: the corpus to search.
        text: the query as the user typed it.
        query: unit vector of the query, shape (dimensions of the corpus,): chunks get their similarity to it, too;
            None: they get none.
        k: number of chunks.
        filters: the filters of the search.
        vectors: also return the chunks' embeddings.
        with_text: leave out chunks without text, so that they take no place among the ``k``.
        web_search: the text is in web search syntax (``"a phrase"``, ``or``, ``-without``); else all its words count.
    """

    corpus: Corpus
    text: str
    query: Vector | None
    k: int
    filters: FilterSet
    vectors: bool = False
    with_text: bool = False
    web_search: bool = False

    def statements(self) -> list[Statement]:
        """See `Search`."""
        statements = self.corpus.statements
        values = statements.values(self.query, self.k, self.filters)
        text = text_values(self.text, web_search=self.web_search)
        return [(best_matching(statements, self.filters, self.vectors, self.with_text), {**values, **text})]

    def read(self, results: Sequence[list[Row]]) -> SearchResult:
        """See `Search`; full-text search is always exact."""
        (rows,) = results
        words, searched, chunks, of_tenant, age, *_ = rows[0]
        found = [row[STATE - 2 :] for row in rows if row[STATE - 2] is not None]
        candidates = [self.corpus.candidate(row[2:], self.vectors) for row in found]
        return SearchResult(
            candidates,
            _method(words, searched, found[0][0] if found else None),
            len(found),
            0,
            0,
            [float(row[1]) for row in found],
            None if chunks is None else WordStatistics(chunks, age, of_tenant),
        )


@dataclass(frozen=True, slots=True)
class NoSearch:
    """Nothing instead of a full-text search, for a corpus without full text; see `Search`."""

    corpus: Corpus

    def statements(self) -> list[Statement]:
        """See `Search`."""
        return []

    def read(self, results: Sequence[list[Row]]) -> SearchResult:
        """See `Search`."""
        del results
        return SearchResult([], _NO_FULL_TEXT, 0, 0, 0, scores=[])


def _method(words: int, searched: int, loosely: bool | None) -> str:
    """Name the words that were searched: of a query of ``words``, which matched loosely, not at all (None), or whole.

    >>> _method(3, 3, False), _method(3, 3, True), _method(3, 2, True), _method(3, 3, None), _method(3, 0, None)
    ('all_words', 'any_word', 'rare_words', 'all_words', 'common_words')
    >>> _method(0, 0, None)
    'no_words'
    """
    if not words:
        return _NO_WORDS
    if loosely is False or (loosely is None and searched == words):
        return _ALL_WORDS
    if searched == words:
        return _ANY_WORD
    return _RARE_WORDS if searched else _COMMON_WORDS
