"""Embedders: the lexical one, a model in this process, and any server with OpenAI's `/v1/embeddings`."""

from __future__ import annotations

import base64
import math
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.providers.http_client import Server, counted
from worker.adapters.providers.local_embedder import LocalEmbedder
from worker.core.prompting.costs import Tokens, unbilled
from worker.core.text import lexical
from worker.core.text.pooling import fitted
from worker.core.time_budget import TimeBudget
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from worker.core.prompting.costs import Paid
    from worker.settings.providers import EmbedderSettings


BATCH_SIZE = 32
"""Texts of one request: as many as Text Embeddings Inference takes by default; other servers take more."""


class Embedder(Protocol):
    """An embedder of texts.

    Attributes:
        name: model's name, for traces and records.
        version: changes when the vector of a text would change.
    """

    name: str
    version: str

    def embed(
        self,
        texts: Sequence[str],
        paid: Paid = unbilled,
        seconds: float | None = None,
        dimensions: int = DIMENSIONS,
        *,
        is_query: bool = False,
    ) -> NDArray[np.float32]:
        """Embed texts: shape (len(texts), dimensions), rows of unit length; ``paid`` is called with each call's usage.

        ``seconds``: time limit of the whole, where it is below that of the settings. ``is_query``: the texts are
        queries, which some models tell from passages by a prefix.
        """


class LexicalEmbedder:
    """The offline default; see `worker.core.text.lexical`."""

    name = lexical.NAME
    version = lexical.VERSION

    def embed(
        self,
        texts: Sequence[str],
        paid: Paid = unbilled,
        seconds: float | None = None,
        dimensions: int = DIMENSIONS,
        *,
        is_query: bool = False,
    ) -> NDArray[np.float32]:
        """Embed texts: shape (len(texts), dimensions), rows of unit length; free, and takes almost no time."""
        del paid, seconds, is_query
        return lexical.embed(texts, dimensions)


class OpenAIEmbedder:
    """Any server with OpenAI's embeddings API.

    Args:
        settings: model, base URL, key and time limits.
    """

    provider = "openai"

    def __init__(self, settings: EmbedderSettings) -> None:
        self.name = settings.model
        self.version = settings.version
        self._settings = settings
        self._server = Server("the embeddings server", settings.base_url, settings)

    def embed(
        self,
        texts: Sequence[str],
        paid: Paid = unbilled,
        seconds: float | None = None,
        dimensions: int = DIMENSIONS,
        *,
        is_query: bool = False,
    ) -> NDArray[np.float32]:
        """Embed texts: shape (len(texts), dimensions), rows of unit length; shorter vectors are padded with zeros.

        ``paid`` is called with the usage of each batch, even if its answer can't be used.
        ``seconds``: time limit of the whole, where it is below that of the settings.

        Raises:
            SettingsError: the server refused the request, or its vectors have more dimensions.
            Unavailable: it did not answer, or not with one vector per text.
        """
        del is_query  # the API has no place for it
        budget = TimeBudget(math.inf if seconds is None else seconds, time.monotonic)
        batches = [
            self._batch(texts[i : i + BATCH_SIZE], paid, budget, dimensions) for i in range(0, len(texts), BATCH_SIZE)
        ]
        return np.concatenate(batches) if batches else np.zeros((0, dimensions), dtype=np.float32)

    def _batch(self, texts: Sequence[str], paid: Paid, budget: TimeBudget, dimensions: int) -> NDArray[np.float32]:
        body: dict[str, Any] = {"model": self.name, "input": list(texts), "encoding_format": "base64"}
        if self._settings.send_dimensions:
            body["dimensions"] = dimensions
        with self._server.reading("vectors"):
            reply = self._server.post("embeddings", body, budget.left())
            items = sorted(reply["data"], key=lambda item: item["index"])
            paid(self.provider, self.name, Tokens(counted(reply, "usage", "prompt_tokens")))
            vectors = [_vector(item["embedding"]) for item in items]
        if len(vectors) != len(texts):
            raise Unavailable(f"the embeddings server answered {len(vectors)} vectors for {len(texts)} texts")
        return np.stack([fitted(vector, self.name, dimensions) for vector in vectors])


def _vector(embedding: Any) -> NDArray[np.float64]:
    """Decode a server's vector: base64 as requested, or the list of a server that ignores `encoding_format`."""
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding), dtype="<f4").astype(np.float64)
    numbers = np.asarray(embedding)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
        raise TypeError
    return numbers.astype(np.float64)


class MissingEmbedder:
    """An embedder that can't be made; each call raises the reason.

    Args:
        name: the kind of the embedder.
        error: the reason.
    """

    version = "missing"

    def __init__(self, name: str, error: SettingsError) -> None:
        self.name = name
        self._message = error.message

    def embed(self, *_: Any, **__: Any) -> NDArray[np.float32]:
        """Raise the `SettingsError`."""
        raise SettingsError(self._message)


_NOT_CHOSEN = (
    "no embedder is chosen, so nothing answers a text: set [embedder] in the settings to the model that filled the "
    "tables; vectors, and full text alone, are answered without one"
)


def make(settings: EmbedderSettings) -> Embedder:
    """Return the embedder that the settings name.

    Raises:
        SettingsError: a local model is not there, or not the expected one.
    """
    if settings.kind == "local":
        return LocalEmbedder(settings)
    if settings.kind == "none":
        return MissingEmbedder(settings.kind, SettingsError(_NOT_CHOSEN))
    return OpenAIEmbedder(settings) if settings.kind == "openai" else LexicalEmbedder()


def make_started(settings: EmbedderSettings) -> Embedder:
    """Return the embedder that the settings name, a local model loaded; or a `MissingEmbedder` with the reason."""
    try:
        embedder = make(settings)
        if isinstance(embedder, LocalEmbedder):
            embedder.start()
    except SettingsError as error:
        return MissingEmbedder(settings.kind, error)
    return embedder
