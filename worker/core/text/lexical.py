"""Deterministic text embedding without a model: feature hashing of words and character n-grams.

Lexical, not semantic: texts are near each other if they share words or parts of words, whatever they mean.
The offline default (demo, tests); feature hashing as in Weinberger et al., "Feature Hashing for
Large Scale Multitask Learning", ICML 2009.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from worker.core.text.words import STOP_WORDS, WORD, folded
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NAME, VERSION = "lexical", "1"

_NGRAM_SIZES = (3, 4, 5)
_NGRAM_WEIGHT = 0.35


def embed(texts: Sequence[str], dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    """Embed texts.

    Returns:
        Shape (len(texts), dimensions), float32, each row of unit length; a text without a feature gets the first axis,
        so that no row is zero.
    """
    rows = np.zeros((len(texts), dimensions), dtype=np.float32)
    for i, text in enumerate(texts):
        rows[i] = _embed(text, dimensions)
    return rows


def _embed(text: str, dimensions: int) -> NDArray[np.float64]:
    weights = [0.0] * dimensions
    # Dictionaries keep insertion order, so sums are the same on every machine.
    for feature, weight in _features(text).items():
        position, sign = _bucket(feature, dimensions)
        weights[position] += sign * weight
    length = math.sqrt(math.fsum(weight * weight for weight in weights))
    if length == 0:
        weights[0] = length = 1.0
    return np.array(weights, dtype=np.float64) / length


def _features(text: str) -> dict[str, float]:
    """Return words weighted 1 + log(count), and the n-grams of each word with a smaller weight."""
    words = Counter(word for word in WORD.findall(folded(text, "NFKC")) if word not in STOP_WORDS)
    features: defaultdict[str, float] = defaultdict(float)
    for word, count in words.items():
        weight = 1.0 + math.log(count)
        features[f"w {word}"] += weight
        ngrams = _ngrams(word)
        for ngram in ngrams:
            features[f"n {ngram}"] += _NGRAM_WEIGHT * weight / math.sqrt(len(ngrams))
    return features


def _ngrams(word: str) -> list[str]:
    marked = f"<{word}>"
    return [marked[i : i + n] for n in _NGRAM_SIZES for i in range(len(marked) - n + 1)]


def _bucket(feature: str, dimensions: int) -> tuple[int, int]:
    """Return dimension and sign of a feature, by a hash that is the same in every process."""
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    return number % dimensions, 1 if number >> 63 else -1
