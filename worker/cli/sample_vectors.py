"""The sample's vectors, computed beforehand: `load` takes them where the settings name the embedder that made them.

`python -m worker.cli.sample_vectors` writes them again, for other texts or another model.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from worker.adapters.providers.embedder import make
from worker.adapters.providers.local_embedder import LocalEmbedder
from worker.cli.corpus_files import EMBED_WITH, SAMPLES, read
from worker.core.prompting.costs import unbilled
from worker.core.text.fingerprint import TEXTS
from worker.core.text.pooling import fitted
from worker.model import DIMENSIONS
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from worker.adapters.providers.embedder import Embedder
    from worker.core.prompting.costs import Paid

FILE = Path(__file__).parent / "sample" / "vectors.json"


class SampleVectors:
    """An embedder that looks texts up among vectors of its own, and embeds only the others.

    Args:
        embedder: the embedder that made the vectors.
        vectors: by the texts' digests, as float16.
    """

    def __init__(self, embedder: Embedder, vectors: dict[str, NDArray[np.float16]]) -> None:
        self.name, self.version = embedder.name, embedder.version
        self._embedder = embedder
        self._vectors = vectors

    def embed(
        self,
        texts: Sequence[str],
        paid: Paid = unbilled,
        seconds: float | None = None,
        dimensions: int = DIMENSIONS,
        *,
        is_query: bool = False,
    ) -> NDArray[np.float32]:
        """Embed texts; see `Embedder.embed`."""
        stored_vectors = [self._vectors.get(_digest(text)) for text in texts]
        missing_texts = [text for text, vector in zip(texts, stored_vectors, strict=True) if vector is None]
        rest = iter(
            self._embedder.embed(missing_texts, paid, seconds, dimensions, is_query=is_query) if missing_texts else ()
        )
        rows = np.zeros((len(texts), dimensions), dtype=np.float32)
        for i, vector in enumerate(stored_vectors):
            rows[i] = next(rest) if vector is None else fitted(vector.astype(np.float64), self.name, dimensions)
        return rows


def known(embedder: Embedder) -> Embedder:
    """Return an embedder that need not compute the sample's vectors; unchanged if it is not the one that made them."""
    sample = _read()
    if (embedder.name, embedder.version) != (sample["name"], sample["version"]):
        return embedder
    rows = np.frombuffer(base64.b64decode(sample["vectors"]), dtype="<f2").reshape(len(sample["texts"]), -1)
    return SampleVectors(embedder, dict(zip(sample["texts"], rows, strict=True)))


def sample_texts() -> list[str]:
    """Return each text of the sample as it is embedded with the shipped settings, and those of the fingerprint."""
    files = [read(path) for path in SAMPLES.values()]
    chunks = [text for file in files for item in file.items for _, text in item.to_embed(EMBED_WITH[file.corpus])]
    return list(dict.fromkeys([*TEXTS, *chunks]))


def write(path: Path = FILE) -> None:
    """Embed the sample by the default local model, and write the vectors with the name, version and sum of it."""
    embedder = make(EmbedderSettings(kind="local"))
    assert isinstance(embedder, LocalEmbedder)  # noqa: S101 -- for the type checker
    texts = sample_texts()
    vectors = embedder.embed(texts)
    size = int(np.flatnonzero(vectors.any(axis=0))[-1]) + 1
    content = {
        "name": embedder.name,
        "version": embedder.version,
        "sha256": embedder.sha256,
        "texts": [_digest(text) for text in texts],
        "vectors": base64.b64encode(vectors[:, :size].astype("<f2").tobytes()).decode(),
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    _read.cache_clear()


@functools.cache
def _read() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    write()
