"""Fingerprint of an embedder: three fixed texts, embedded. Two embedders agree if they put these in the same places."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEXTS = (
    "The ferry crosses the harbour every twenty minutes.",
    "SELECT id FROM chunks ORDER BY embedding <=> $1 LIMIT 15;",
    "How much does it cost to replace a broken microphone cable?",
)
"""Never changed: stored fingerprints are of these."""

AGREE = 0.95
"""Least cosine of two vectors of one model: 8-bit weights differ from full precision, and between processors."""


UNLIKE = 0.5
"""Cosine below which a text and its stored vector may be of two models: titles and prefixes leave more."""

ENOUGH = 4
"""Rows from which vectors of two models can be told apart."""


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """An embedder, as it is stored with the corpus that it filled.

    Attributes:
        name: the model's name.
        version: its version.
        fingerprint: the vectors of `TEXTS`, shape (3, dimensions).
    """

    name: str
    version: str
    fingerprint: NDArray[np.float32] = field(repr=False)

    @property
    def dimensions(self) -> int:
        """Number of dimensions of its vectors, padding included."""
        return int(self.fingerprint.shape[1])

    def __str__(self) -> str:
        """Return name and version."""
        return f"{self.name} {self.version}"


def cosines(vectors: NDArray[np.float32], other_vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the cosine of each row with the row of the same index; the shorter rows are padded, a zero row has 0.

    >>> cosines(np.array([[1.0, 0.0]], dtype="f4"), np.array([[2.0]], dtype="f4"))
    array([1.])
    """
    width = min(vectors.shape[1], other_vectors.shape[1])
    dots = (vectors[:, :width].astype(np.float64) * other_vectors[:, :width]).sum(axis=1)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1) * np.linalg.norm(
        other_vectors.astype(np.float64), axis=1
    )
    return np.asarray(np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0))


def agree(fingerprint: NDArray[np.float32], other_fingerprint: NDArray[np.float32]) -> bool:
    """Return whether two fingerprints are of one model.

    >>> agree(np.eye(3, 4, dtype="f4"), np.eye(3, dtype="f4")), agree(np.eye(3, dtype="f4"), -np.eye(3, dtype="f4"))
    (True, False)
    """
    return bool((cosines(fingerprint, other_fingerprint) >= AGREE).all())


def own_found(sentences: NDArray[np.float32], stored: NDArray[np.float32]) -> tuple[float, float]:
    """Return the share of sentences whose nearest stored vector is that of their own text, and how alike texts are.

    Shapes (rows, dimensions), with the same rows, two or more. The second number is the mean cosine of two texts.

    >>> own_found(np.eye(2, dtype="f4"), np.eye(2, dtype="f4"))
    (1.0, 0.0)
    """
    similarities, pairs = (
        np.array([cosines(np.broadcast_to(row, stored.shape), stored) for row in rows]) for rows in (sentences, stored)
    )
    count = len(stored)
    alike = (pairs.sum() - np.trace(pairs)) / (count * (count - 1))
    return float((similarities.argmax(axis=1) == np.arange(count)).mean()), float(alike)


def unrelated(own_vectors: NDArray[np.float32], stored: NDArray[np.float32]) -> bool:
    """Return whether stored vectors, or many of them, are of another model than one's own embeddings of their texts.

    One model leaves a text nearer to its own row than to the others, even if more than the text was embedded; rows that
    resemble each other are near in any case. Between two models neither holds. More than a third of such rows decide:
    then a table of which half was embedded again is found too. Fewer rows than `ENOUGH` tell nothing.
    Shapes (rows, dimensions), with the same rows.

    >>> own = np.eye(4, dtype="f4")
    >>> unrelated(own, own), unrelated(own, -own)
    (False, True)
    """
    near = cosines(own_vectors, stored)
    if len(near) < ENOUGH:
        return False
    similarities = np.array([cosines(np.broadcast_to(row, stored.shape), stored) for row in own_vectors])
    is_unlike = (near < UNLIKE) & (similarities.argmax(axis=1) != np.arange(len(near)))
    return bool(3 * is_unlike.sum() > len(near))
