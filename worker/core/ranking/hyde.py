"""Pooling for HyDE: one query embedding from the embeddings of several hypothetical documents.

Gao, Ma, Lin, Callan: "Precise Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023. The paper takes the mean
of the documents' embeddings and the query's own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def pooled(
    documents: Sequence[NDArray[np.floating[Any]]], query: NDArray[np.floating[Any]] | None = None
) -> NDArray[np.float32]:
    """Return the mean direction of embeddings: each is scaled to unit length first, and so is the mean.

    Sums are exact before they are rounded, so the order of the documents changes no bit.

    >>> pooled([np.array([2.0, 0.0]), np.array([0.0, 0.1])]).round(4).tolist()
    [0.707099974155426, 0.707099974155426]

    Args:
        documents: the hypothetical documents' embeddings, one or more, each of shape (d,).
        query: the query's own embedding, shape (d,), counted as one more document; ``None``: not counted.

    Returns:
        Shape (d,), float32, of unit length.

    Raises:
        ValueError: no document, differing shapes, a number that is not finite, an embedding of zeros, or embeddings
            that cancel out and so have no mean direction.
    """
    if not documents:
        raise ValueError("expected at least one embedding")
    rows = np.array([*documents, *([] if query is None else [query])], dtype=np.float64)
    units = np.array([_unit(row) for row in rows])
    mean = np.array([math.fsum(column) for column in units.T.tolist()]) / len(units)
    return _unit(mean).astype(np.float32)


def _unit(row: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale to unit length; by the largest component first, so that no square overflows or underflows."""
    largest = float(np.abs(row).max(initial=0.0))
    if not 0 < largest < math.inf:  # also true for NaN
        raise ValueError("expected embeddings of finite numbers with a direction")
    scaled = row / largest
    unit: NDArray[np.float64] = scaled / math.sqrt(math.fsum((scaled * scaled).tolist()))
    return unit
