"""Total order: every list is sorted by a key that no two of its items share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from worker.model import Candidate

INTEGER_TYPES = {"smallint": 16, "integer": 32, "bigint": 64}
"""Postgres' integer types, with their width in bits."""


def id_key(database_type: str) -> Callable[[str], Any]:
    """Return a sort key by which ids of a Postgres type compare in Python as in the database.

    Text compares by code point (``COLLATE "C"``); uuid as its lower-case hex; integers by value.

    >>> sorted(["10", "9"], key=id_key("bigint")), sorted(["10", "9"], key=id_key("text"))
    (['9', '10'], ['10', '9'])
    """
    return int if database_type in INTEGER_TYPES else str


def by_similarity(candidates: Iterable[Candidate], key: Callable[[str], Any]) -> list[Candidate]:
    """Sort candidates of one corpus in total order: similarity descending (unknown ones last), then chunk id."""
    return sorted(candidates, key=lambda candidate: (descending(candidate.similarity), key(candidate.chunk.id)))


def descending(score: float | None) -> float:
    """Return a sort key: higher is better, unknown is last.

    >>> sorted([0.1, None, 0.9], key=descending)
    [0.9, 0.1, None]
    """
    return math.inf if score is None else -score


def within_distance(candidates: Sequence[Candidate], max_distance: float | None) -> list[Candidate]:
    """Keep candidates whose cosine distance is at most ``max_distance``; an unknown distance is within no bound."""
    if max_distance is None:
        return list(candidates)
    return [
        candidate for candidate in candidates if candidate.distance is not None and candidate.distance <= max_distance
    ]
