"""Scores of given chunks: by the query's vector, or by its words.

A search lists its best chunks only. These statements score the chunks that another search listed, under the same
policies: a chunk that the caller may not see has no score, like one that is gone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from worker.adapters.postgres.fulltext import text_values
from worker.adapters.postgres.fulltext_sql import scores_of_given
from worker.core.text.codes import codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.postgres.database import Reader, Statement
    from worker.adapters.postgres.search import Corpus
    from worker.core.ranking.vectors import Vector
    from worker.model import Principal


class ChunkScore(NamedTuple):
    """Score of a chunk.

    Attributes:
        score: similarity or BM25 score; higher is better.
        coverage: how much of the query's words the chunk has, 0-1; 0 for similarities. See `scores_of_given`.
    """

    score: float
    coverage: float = 0.0


@dataclass(frozen=True, slots=True)
class GivenChunks:
    """Chunks of a corpus to be scored by a query.

    Attributes:
        corpus: their corpus.
        ids: their ids, as this corpus returned them.
        query: unit vector, shape (dimensions of the corpus,), or the text of a full-text search.
        web_search: the text is in web search syntax; else all its words count.
    """

    corpus: Corpus
    ids: Sequence[str]
    query: Vector | str
    web_search: bool = False

    def statement(self) -> Statement:
        """Return the statement to send; its rows are (id, cosine distance) or those of `scores_of_given`."""
        statements = self.corpus.statements
        values = statements.given_values(self.ids)
        if isinstance(self.query, str):
            text = text_values(self.query, web_search=self.web_search)
            named = {"names_code": bool(codes(str(text["text"]))), "k": len(self.ids)}
            return scores_of_given(statements), {**values, **text, **named}
        return statements.distances, {**values, "query": self.query}


def scores_of(
    database: Reader, principal: Principal, chunks: GivenChunks, timeout_seconds: float | None = None
) -> Mapping[str, ChunkScore]:
    """Return the scores of chunks by id.

    Without a score are chunks that ``principal`` may not see, without an embedding, or without any of the words.
    """
    (rows,) = database.read(principal, [chunks.statement()], timeout_seconds, corpora=[chunks.corpus.name])
    if isinstance(chunks.query, str):
        return {chunk_id: ChunkScore(*map(float, scores)) for chunk_id, *scores in rows}
    return {chunk_id: ChunkScore(1.0 - away) for chunk_id, away in rows if away is not None and not math.isnan(away)}
