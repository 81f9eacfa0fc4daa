"""Order: every list has a key that no two of its items share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from worker.model import Candidate

INTEGER_TYPES = {"smallint": 16, "integer": 32, "bigint": 64}
"""Postgres' integer types and their bits."""


def id_key(database_type: str) -> Callable[[str], Any]:
    """How ids of a Postgres type compare in Python as they do in the database.

    Text compares by code point (``COLLATE "C"``); uuid as its lower-case hex; integers by value.

    >>> sorted(["10", "9"], key=id_key("bigint")), sorted(["10", "9"], key=id_key("text"))
    (['9', '10'], ['10', '9'])
    """
    return int if database_type in INTEGER_TYPES else str


def by_similarity(candidates: Iterable[Candidate], key: Callable[[str], Any]) -> list[Candidate]:
    """Candidates of one corpus in total order: similarity descending, then chunk id."""
    return sorted(candidates, key=lambda candidate: (-candidate.similarity, key(candidate.chunk.id)))


def within_distance(candidates: Sequence[Candidate], max_distance: float | None) -> list[Candidate]:
    """Those whose cosine distance (1 - similarity) is at most ``max_distance``."""
    if max_distance is None:
        return list(candidates)
    return [candidate for candidate in candidates if 1.0 - candidate.similarity <= max_distance]
