"""The local embedder: a sentence-embedding model in this process (extras `semantic` and `multilingual`)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieval_client.errors import Unavailable
from worker.adapters import logs
from worker.adapters.providers import local_model, multilingual_model
from worker.adapters.providers.onnx_encoder import OnnxEncoder
from worker.core.prompting.costs import unbilled
from worker.core.text.pooling import fitted
from worker.core.time_budget import TimeBudget
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from worker.core.prompting.costs import Paid
    from worker.settings.providers import EmbedderSettings

log = logs.logger("worker.embedder")

LONGEST = 32_768
"""Characters of a text that are read; its end is cut off, which bounds the time."""

LONGEST_QUERY = 2000
"""The same of a query, as of full-text search: a job waits for it, and no time limit ends it."""


class Encoder(Protocol):
    """A model's files, read and checked, and its engine; safe to use from several threads.

    Attributes:
        name: the model's name.
        version: changes when the vector of a text would change.
        sha256: SHA-256 of the weights, as hex.
        window: tokens that are read at once, without special ones and prefix; a longer text is read by windows.
    """

    name: str
    version: str
    sha256: str

    @property
    def window(self) -> int: ...  # noqa: D102 -- see above

    def load(self) -> None:
        """Load the weights, once.

        Raises:
            SettingsError: the files can't be loaded.
        """

    def encode(self, text: str, *, is_query: bool) -> NDArray[np.float64]:
        """Return the vector of a text, the mean of those of its windows; needs `load`."""

    def count(self, text: str) -> int:
        """Return the number of a text's tokens, without special ones."""

    def misreads(self, text: str) -> bool:
        """Return whether a text is not of the model's languages; False where that is not known."""


def encoder_of(settings: EmbedderSettings) -> Encoder:
    """Return the encoder of the model that the settings name, its files checked, its weights not loaded.

    Raises:
        SettingsError: see `worker.adapters.providers.local_model.read` and `multilingual_model.read`.
    """
    if settings.folder == multilingual_model.PACKAGE:
        return multilingual_model.read()
    return OnnxEncoder(local_model.read(settings))


class LocalEmbedder:
    """A model in this process, loaded once, by the first text or by `start`; safe to use from several threads.

    Each text is one run of the model. So its vector does not depend on the texts beside it, as it would by padding, and
    by the scale that an 8-bit model may compute over a whole batch; on one core a batch is not faster.

    Args:
        settings: folder or package.

    Raises:
        SettingsError: see `encoder_of`.

    Attributes:
        sha256: SHA-256 of the weights, as hex.
        encoder: the model.
        truncated: number of texts so far whose end was cut off.
    """

    def __init__(self, settings: EmbedderSettings) -> None:
        self.encoder = encoder_of(settings)
        self.name, self.version, self.sha256 = self.encoder.name, self.encoder.version, self.encoder.sha256
        self.truncated = 0
        self._is_loaded = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Load the model; call it in the process that embeds: an engine's threads do not survive a fork.

        Raises:
            SettingsError: the files can't be loaded.
        """
        with self._lock:
            if not self._is_loaded:
                self.encoder.load()
                self._is_loaded = True

    def embed(
        self,
        texts: Sequence[str],
        paid: Paid = unbilled,
        seconds: float | None = None,
        dimensions: int = DIMENSIONS,
        *,
        is_query: bool = False,
    ) -> NDArray[np.float32]:
        """Embed texts: shape (len(texts), dimensions), rows of unit length, padded with zeros; free.

        ``seconds``: time limit of the whole, looked at between texts. ``is_query``: by the model's prefix of queries.

        Raises:
            SettingsError: the files can't be loaded, or the model has more dimensions.
            Unavailable: the time is over.
        """
        del paid
        budget = None if seconds is None else TimeBudget(seconds, time.monotonic)
        rows = np.zeros((len(texts), dimensions), dtype=np.float32)
        for i, text in enumerate(texts):
            if i and budget is not None and not budget.left():
                raise Unavailable(f"the local embedder took longer than {seconds:g} s")
            rows[i] = self._embed(text, dimensions, is_query)
        return rows

    def _embed(self, text: str, dimensions: int, is_query: bool) -> NDArray[np.float32]:
        self.start()
        longest = LONGEST_QUERY if is_query else LONGEST
        if len(text) > longest:
            self._report_cut(longest)
        return fitted(self.encoder.encode(text[:longest], is_query=is_query), self.name, dimensions)

    def _report_cut(self, longest: int) -> None:
        if not self.truncated:
            log.warning("text truncated", embedder=self.name, characters=longest)
        self.truncated += 1


def misreads(embedder: object, text: str) -> bool:
    """Return whether a text is not of an embedder's languages; False where that is not known."""
    return isinstance(embedder, LocalEmbedder) and embedder.encoder.misreads(text[:LONGEST])
