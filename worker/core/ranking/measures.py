"""Measures of a ranked list against relevance judgements, and of the overlap of several lists.

A measure is ``None`` where it is undefined (nothing relevant, nothing found); `mean` leaves those out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

HashableT = TypeVar("HashableT", bound="Hashable")


_TITLES = {"ndcg": "nDCG", "mrr": "MRR"}


def measure_title(measure: str) -> str:
    """Return a measure's name for people.

    >>> measure_title("ndcg@10"), measure_title("recall@5"), measure_title("mrr")
    ('nDCG@10', 'recall@5', 'MRR')
    """
    name, at, k = measure.partition("@")
    return f"{_TITLES.get(name, name)}{at}{k}"


def recall(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float | None:
    """Return the share of relevant items among the first ``k``, 0-1; ``None`` if nothing is relevant.

    >>> recall(["a", "b", "c"], {"a", "c"}, 2)
    0.5
    """
    relevant_items = set(relevant)
    return len(relevant_items & set(ranked[:k])) / len(relevant_items) if relevant_items else None


def precision(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float | None:
    """Return the share of ``k`` that is relevant items among the first ``k``, 0-1; ``None`` if nothing is relevant.

    A shorter list counts as one filled up with irrelevant items, as trec_eval's P_k does.

    >>> precision(["a", "b", "c"], {"a", "c", "d"}, 2), precision(["a"], {"a"}, 4)
    (0.5, 0.25)
    """
    relevant_items = set(relevant)
    return len(relevant_items & set(ranked[:k])) / k if relevant_items else None


def reciprocal_rank(ranked: Sequence[Hashable], relevant: Collection[Hashable]) -> float | None:
    """Return 1 / the rank of the first relevant item, ranks from 1; 0 without one, ``None`` if nothing is relevant.

    Its mean over queries is MRR. Voorhees: "The TREC-8 Question Answering Track Report", TREC 1999; trec_eval's
    recip_rank.

    >>> reciprocal_rank(["a", "b", "c"], {"b", "c"}), reciprocal_rank(["a"], {"x"})
    (0.5, 0.0)
    """
    relevant_items = set(relevant)
    first_rank = next((rank for rank, item in enumerate(ranked, 1) if item in relevant_items), None)
    return None if not relevant_items else 0.0 if first_rank is None else 1 / first_rank


def ndcg(ranked: Sequence[HashableT], gains: Mapping[HashableT, float], k: int) -> float | None:
    """Return the normalised discounted cumulative gain of the first ``k``, 0-1; ``None`` if nothing has a gain.

    The sum of gain / log2(1 + rank), ranks from 1, over the same sum for the judged items in ideal order. Järvelin,
    Kekäläinen: "Cumulated Gain-Based Evaluation of IR Techniques", TOIS 2002, with the discount of trec_eval.

    Args:
        ranked: best first, each once.
        gains: gain of each judged item, 0 or more (1 for yes/no judgements); unjudged items have none.
        k: cut-off rank, 1 or more.

    >>> ndcg(["b", "a"], {"a": 2.0, "b": 1.0}, 2)
    0.8597186998521972
    """
    ideal = _discounted(sorted(gains.values(), reverse=True)[:k])
    return _discounted([gains.get(item, 0.0) for item in ranked[:k]]) / ideal if ideal > 0 else None


def measured(
    ranked: Sequence[str], grades: Mapping[str, float], cut_offs: Iterable[int], relevant_from: float = 1
) -> dict[str, float] | None:
    """Return every measure of one ranking by name, in the order of `names_of`; ``None`` if nothing is relevant.

    Args:
        ranked: best first, each once.
        grades: grade of each judged item, 0 or more; they are the gains of nDCG.
        cut_offs: values of k, each 1 or more.
        relevant_from: lowest grade that recall, precision and the reciprocal rank count as relevant, more than 0.

    >>> measured(["b", "a"], {"a": 2, "c": 1}, [1])
    {'recall@1': 0.0, 'precision@1': 0.0, 'ndcg@1': 0.0, 'mrr': 0.5}
    """
    relevant = {item for item, grade in grades.items() if grade >= relevant_from}
    ks = tuple(cut_offs)
    values = [
        *(recall(ranked, relevant, k) for k in ks),
        *(precision(ranked, relevant, k) for k in ks),
        *(ndcg(ranked, grades, k) for k in ks),
        reciprocal_rank(ranked, relevant),
    ]
    defined = [value for value in values if value is not None]
    return dict(zip(names_of(ks), defined, strict=True)) if relevant else None


def names_of(cut_offs: Iterable[int]) -> tuple[str, ...]:
    """Return the names of the measures.

    >>> names_of([5])
    ('recall@5', 'precision@5', 'ndcg@5', 'mrr')
    """
    ks = tuple(cut_offs)
    return (*(f"{measure}@{k}" for measure in ("recall", "precision", "ndcg") for k in ks), "mrr")


def duplicate_rate(hit_count: int, distinct: int) -> float:
    """Return the share of several lists' hits that are duplicates, 0-1; 0 if nothing was found."""
    return (hit_count - distinct) / hit_count if hit_count else 0.0


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the defined values, exactly summed; ``None`` if none is defined.

    >>> mean([0.5, None, 1.0]), mean([None])
    (0.75, None)
    """
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


def _discounted(gains: Iterable[float]) -> float:
    return math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, 1))
