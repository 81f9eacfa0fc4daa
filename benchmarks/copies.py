"""Copies of a text, judged as one item: a second copy says nothing new, and one that was left out is not missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.labelled_sets import K

from worker.core.ranking.measures import ndcg
from worker.core.ranking.near_duplicates import NearDuplicates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.labelled_sets import Found

    from workbench.evaluation.queries import LabelledQuery


def copies(findings: Sequence[Found]) -> dict[str, str]:
    """Chunk → the first chunk, by id, whose text is nearly the same; of all chunks that any leg found."""
    texts = {
        candidate.chunk.id: candidate.chunk.text
        for finding in findings
        for leg in finding.legs.values()
        for candidate in leg.candidates
    }
    first_copies = dict[str, str]()
    seen = NearDuplicates()
    for chunk in sorted(texts):
        first_copies[chunk] = chunk if seen.is_new(texts[chunk]) else _twin(texts[chunk], first_copies, texts)
    return first_copies


def _twin(text: str, first_copies: Mapping[str, str], texts: Mapping[str, str]) -> str:
    return next(chunk for chunk in first_copies if first_copies[chunk] == chunk and _alike(texts[chunk], text))


def _alike(text: str, other_text: str) -> bool:
    seen = NearDuplicates()
    return seen.is_new(text) and not seen.is_new(other_text)


def as_one(ranked: Sequence[str], query: LabelledQuery, first_copies: Mapping[str, str]) -> float:
    """nDCG@5 of a ranking, 0-1, with copies as one item: with their highest grade, and nothing when repeated."""
    grades = dict[str, float]()
    for chunk, grade in query.grades.items():
        item = first_copies.get(chunk, chunk)
        grades[item] = max(grade, grades.get(item, 0.0))
    items = [first_copies.get(chunk, chunk) for chunk in ranked]
    gains = [item if item not in items[:i] else f"{item} again" for i, item in enumerate(items)]
    return ndcg(gains, grades, K) or 0.0
