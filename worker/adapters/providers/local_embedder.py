"""The local embedder: a sentence-embedding model in this process, through onnxruntime (extra `semantic`)."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters import logs
from worker.adapters.providers.local_model import read
from worker.core.prompting.costs import unbilled
from worker.core.text.pooling import fitted, pooled
from worker.core.time_budget import TimeBudget
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from worker.adapters.providers.local_model import LocalModel
    from worker.core.prompting.costs import Paid
    from worker.settings.providers import EmbedderSettings

    Run = Callable[[str], tuple[NDArray[np.floating], bool]]

log = logs.logger("worker.embedder")

_CHARACTERS_PER_TOKEN = 64
"""Text beyond so many characters for each token of the longest input is cut off before it is tokenized."""

_AXES = 3
"""Of an output that has a vector for each token: texts, tokens, dimensions."""


class LocalEmbedder:
    """A model in ONNX, loaded once, by the first text or by `start`; safe to use from several threads.

    Each text is one run of the model. So its vector does not depend on the texts beside it, as it would by padding, and
    by the scale that an 8-bit model may compute over a whole batch; on one core a batch is not faster.

    Args:
        settings: folder or package, checksum and threads.

    Raises:
        SettingsError: see `worker.adapters.providers.local_model.read`.

    Attributes:
        sha256: SHA-256 of the weights, as hex.
        truncated: number of texts so far whose end was cut off.
    """

    def __init__(self, settings: EmbedderSettings) -> None:
        model = read(settings)
        self.name, self.version, self.sha256 = model.name, model.version, model.sha256
        self.truncated = 0
        self._max_tokens, self._pooling, self._threads = model.max_tokens, model.pooling, settings.threads
        self._model: LocalModel | None = model
        self._run: Run | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Load the model; call it in the process that embeds: onnxruntime's threads do not survive a fork.

        Raises:
            SettingsError: the files can't be loaded.
        """
        with self._lock:
            if self._run is None and self._model is not None:
                self._run, self._model = _loaded(self._model, self._threads), None

    def embed(
        self,
        texts: Sequence[str],
        paid: Paid = unbilled,
        seconds: float | None = None,
        dimensions: int = DIMENSIONS,
    ) -> NDArray[np.float32]:
        """Embed texts: shape (len(texts), dimensions), rows of unit length, padded with zeros; free.

        ``seconds``: time limit of the whole, looked at between texts.

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
            rows[i] = self._embed(text, dimensions)
        return rows

    def _embed(self, text: str, dimensions: int) -> NDArray[np.float32]:
        self.start()
        assert self._run is not None  # noqa: S101 -- for the type checker: `start` sets it
        longest = self._max_tokens * _CHARACTERS_PER_TOKEN
        tokens, cut = self._run(text[:longest])
        if cut or len(text) > longest:
            self._report_cut()
        return fitted(pooled(tokens, self._pooling), self.name, dimensions)

    def _report_cut(self) -> None:
        if not self.truncated:
            log.warning("text truncated", embedder=self.name, max_tokens=self._max_tokens)
        self.truncated += 1


def _loaded(model: LocalModel, threads: int) -> Run:
    """Load a model; return the function that gives a text's token vectors, and whether its end was cut off."""
    session, names = _session(model, threads)
    tokenizer = tokenizer_of(model)

    def run(text: str) -> tuple[NDArray[np.floating], bool]:
        encoded = tokenizer.encode(text)
        inputs = {
            "input_ids": encoded.ids,
            "attention_mask": encoded.attention_mask,
            "token_type_ids": encoded.type_ids,
        }
        outputs = session.run(None, {name: np.array([inputs[name]], dtype=np.int64) for name in names})
        return next(output for output in outputs if output.ndim == _AXES)[0], bool(encoded.overflowing)

    return run


def _session(model: LocalModel, threads: int) -> tuple[Any, list[str]]:
    """Return the session over the bytes that were checked, and the names of its inputs."""
    # It would report its use to its maker, and write an identifier into the temporary folder.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime  # noqa: PLC0415 -- an extra: only who uses it installs it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_cpu_mem_arena = False  # it would keep the memory of the longest text
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model.weights, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 -- one class for each status code, without a common base
        raise SettingsError(f"the setting embedder.folder: onnxruntime can't load {model.name}: {error}") from None
    names = [found.name for found in session.get_inputs()]
    strange = {*names} - {"input_ids", "attention_mask", "token_type_ids"}
    if strange or not any(len(output.shape) == _AXES for output in session.get_outputs()):
        raise SettingsError(
            f"the setting embedder.folder: {model.name} is no text encoder that gives a vector for each token"
        )
    return session, names


def token_counter(settings: EmbedderSettings) -> tuple[Callable[[str], int], int]:
    """Return the counter of a model's tokens, and how many of a text it reads beside its special ones.

    Raises:
        SettingsError: see `worker.adapters.providers.local_model.read`.
    """
    model = read(settings)
    tokenizer = tokenizer_of(model)
    tokenizer.no_truncation()
    return (
        lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids),
        model.max_tokens - tokenizer.num_special_tokens_to_add(is_pair=False),
    )


def tokenizer_of(model: LocalModel) -> Any:
    """Return the model's tokenizer; a file may pad, or truncate to another length."""
    from tokenizers import Tokenizer  # noqa: PLC0415 -- an extra
    from tokenizers.implementations import BertWordPieceTokenizer  # type: ignore[attr-defined] # noqa: PLC0415 -- not listed in the package's types

    try:
        if isinstance(model.tokenizer, bytes):
            tokenizer: Any = Tokenizer.from_buffer(model.tokenizer)
        else:
            tokenizer = BertWordPieceTokenizer(str(model.tokenizer), lowercase=model.lowercase)
    except Exception:  # noqa: BLE001 -- the package has no class of its own for it
        raise SettingsError(f"the setting embedder.folder: the tokenizer of {model.name} can't be read") from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_tokens)
    return tokenizer
