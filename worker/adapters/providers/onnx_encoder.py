"""An encoder in ONNX: a tokenizer, and a model that onnxruntime runs (extra `semantic`)."""

from __future__ import annotations

import hashlib
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval_client.errors import SettingsError
from worker.core.text.legibility import LETTERS_PER_TOKEN, WordPieces, is_illegible, is_other_script, natural_words
from worker.core.text.pooling import mean_of_windows, pooled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from worker.adapters.providers.local_model import LocalModel

_AXES = 3
"""Of an output that has a vector for each token: texts, tokens, dimensions."""

_ENGLISH = "0f052197aac305fe42f378b5c61554b7bacb34b8be4af83fec2cfdcdffbc9973"
"""SHA-256 of the vocabulary of English BERT, one token a line; for others it is not known which words they lack."""


class OnnxEncoder:
    """See `worker.adapters.providers.local_embedder.Encoder`.

    Args:
        model: the files.
    """

    def __init__(self, model: LocalModel) -> None:
        self.name, self.version, self.sha256 = model.name, model.version, model.sha256
        self._model = model
        self._weights: bytes | None = model.weights
        self._session: Any = None
        self._inputs: list[str] = []

    @cached_property
    def _tokenizer(self) -> Any:
        return tokenizer_of(self._model)

    @cached_property
    def _is_english(self) -> bool:
        vocabulary = self._tokenizer.get_vocab()
        listed = "\n".join(sorted(vocabulary, key=vocabulary.__getitem__))
        return hashlib.sha256(listed.encode()).hexdigest() == _ENGLISH

    @property
    def window(self) -> int:
        """Tokens of a text that are read at once: special ones and the prefix take the others."""
        special: int = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        return self._model.max_tokens - special - self.count(self._model.passage_prefix)

    def load(self) -> None:
        """Load the weights, as they were checked, and drop the bytes."""
        assert self._weights is not None  # noqa: S101 -- for the type checker: loaded once
        self._session, self._inputs = _session(self._model.name, self._weights)
        self._weights = None
        _ = self._tokenizer

    def encode(self, text: str, *, is_query: bool) -> NDArray[np.float64]:
        """Return the vector of a text under the model's prefix, the mean of those of its windows."""
        prefix = self._model.query_prefix if is_query else self._model.passage_prefix
        encoded = self._tokenizer.encode(prefix + text)
        windows = [encoded, *encoded.overflowing]
        return mean_of_windows([self._pooled(window) for window in windows], [len(window.ids) for window in windows])

    def _pooled(self, encoded: Any) -> NDArray[np.float64]:
        """Run the model over one window."""
        inputs = {
            "input_ids": encoded.ids,
            "attention_mask": encoded.attention_mask,
            "token_type_ids": encoded.type_ids,
        }
        outputs = self._session.run(None, {name: np.array([inputs[name]], dtype=np.int64) for name in self._inputs})
        tokens = next(output for output in outputs if output.ndim == _AXES)[0]
        return pooled(tokens, self._model.pooling)

    def count(self, text: str) -> int:
        """Return the number of a text's tokens, those beyond the longest input included."""
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        return sum(len(encoding.ids) for encoding in (encoded, *encoded.overflowing))

    def misreads(self, text: str) -> bool:
        """Return whether the vocabulary lacks a text's words; of a long text, those of the longest input decide."""
        if not self._is_english or is_other_script(text):
            return self._is_english
        words = " ".join(natural_words(text))
        encoded = self._tokenizer.encode(words, add_special_tokens=False)
        unknown_token = self._tokenizer.token_to_id("[UNK]")
        end = encoded.offsets[-1][1] if encoded.offsets else 0
        letters = end - words.count(" ", 0, end)
        if unknown_token not in encoded.ids and letters >= LETTERS_PER_TOKEN * len(encoded.ids):
            return False  # as `is_illegible` would say, which looks at each word
        tokens: dict[int, list[int]] = {}
        for place, word in enumerate(encoded.word_ids):
            tokens.setdefault(word, []).append(place)
        return is_illegible(
            [
                WordPieces(
                    encoded.offsets[places[-1]][1] - encoded.offsets[places[0]][0],
                    len(places),
                    all(encoded.ids[place] != unknown_token for place in places),
                )
                for places in tokens.values()
            ]
        )


def _session(name: str, weights: bytes) -> tuple[Any, list[str]]:
    """Return the session over the bytes that were checked, and the names of its inputs."""
    # It would report its use to its maker, and write an identifier into the temporary folder.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime  # noqa: PLC0415 -- an extra: only who uses it installs it

    options = onnxruntime.SessionOptions()
    # A worker has a process for each core, and a text is a run of its own (docs/decisions/027).
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # it would keep the memory of the longest text
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 -- one class for each status code, without a common base
        raise SettingsError(f"the setting embedder.folder: onnxruntime can't load {name}: {error}") from None
    names = [model_input.name for model_input in session.get_inputs()]
    strange = {*names} - {"input_ids", "attention_mask", "token_type_ids"}
    if strange or not any(len(output.shape) == _AXES for output in session.get_outputs()):
        raise SettingsError(
            f"the setting embedder.folder: {name} is no text encoder that gives a vector for each token"
        )
    return session, names


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
