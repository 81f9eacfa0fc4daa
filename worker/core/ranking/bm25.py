"""Reranker without a model: Okapi BM25 of the query over the candidates' own texts.

Lexical and deterministic, the offline stand-in for a cross-encoder. Terms that are rare among the candidates count
most, so scores are comparable within one list of candidates only.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from worker.core.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

NAME, VERSION = "lexical", "1"

K1 = 1.2
"""Saturation of term frequency: the lower, the sooner repetitions stop counting."""

B = 0.75
"""Length normalisation, from 0 (none) to 1."""

_PLACES = 12
"""Decimal places of a score: the last bit of a logarithm may differ between machines."""


def scores(query: str, texts: Sequence[str]) -> list[float]:
    """Score each text against a query; 0 or more, 0 where they share no term.

    The sum over the query's distinct terms t of idf(t) * n * (K1 + 1) / (n + K1 * (1 - B + B * length / mean length)),
    where n counts t in the text and lengths are in terms. Robertson, Zaragoza: "The Probabilistic Relevance
    Framework: BM25 and Beyond", 2009; `idf` is never negative.

    >>> scores("ribbon tension", ["Ribbon tension and ribbon length", "A ribbon", "Brass screws"])
    [1.297179112645, 0.613394566982, 0.0]

    Args:
        query: any text.
        texts: of the candidates.

    Returns:
        One score per text, in their order, rounded to twelve decimal places.
    """
    query_terms = sorted({*terms(query)})
    counted = [Counter(terms(text)) for text in texts]
    rarity = idf(query_terms, counted)
    lengths = [term_counts.total() for term_counts in counted]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0

    def score(term_counts: Counter[str], length: int) -> float:
        saturation = K1 * (1.0 - B + B * length / mean)
        summands = (
            rarity[term] * term_counts[term] * (K1 + 1.0) / (term_counts[term] + saturation) for term in query_terms
        )
        return round(math.fsum(summands), _PLACES)

    return [score(term_counts, length) for term_counts, length in zip(counted, lengths, strict=True)]


def idf(query_terms: Iterable[str], texts: Sequence[Collection[str]]) -> Mapping[str, float]:
    """Return each term's inverse document frequency: ln(1 + (N - n + 0.5) / (n + 0.5)), always above 0."""
    counted = dict.fromkeys(query_terms, 0)
    for text in texts:
        for term in counted.keys() & text:
            counted[term] += 1
    return {term: math.log1p((len(texts) - n + 0.5) / (n + 0.5)) for term, n in counted.items()}
