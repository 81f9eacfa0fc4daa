"""Full-text search: the sparse leg."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.adapters.postgres import Row, Statement
    from worker.adapters.search import Corpus, Found
    from worker.core.vectors import Vector
    from worker.model import FilterSet


@dataclass(frozen=True, slots=True)
class Matching:
    """The chunks that match a text best; see `worker.adapters.search.Search`.

    Attributes:
        corpus: where.
        text: what to look for, as a user types it.
        query: unit vector of the query, shape (768,): chunks get their similarity to it, too.
        k: how many.
        filters: what to narrow it to.
        vectors: bring the chunks' embeddings, too.
    """

    corpus: Corpus
    text: str
    query: Vector
    k: int
    filters: FilterSet
    vectors: bool = False

    def statements(self) -> list[Statement]:
        """See `Search`."""
        raise NotImplementedError

    def read(self, results: Sequence[list[Row]]) -> Found | None:
        """See `Search`."""
        raise NotImplementedError

    def exactly(self) -> Matching:
        """See `Search`."""
        return dataclasses.replace(self)
