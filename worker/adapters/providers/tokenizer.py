"""Token counts of texts by a model's own tokenizer, from a file, without a network."""

from __future__ import annotations

import hashlib
from pathlib import Path

from retrieval_client.errors import SettingsError
from worker.core.prompting.context import ESTIMATE, TokenCounter


def token_counter(path: str | None) -> TokenCounter:
    """Return the counter of a model's tokenizer, through the package `tokenizers` (extra `tokenizer`).

    Args:
        path: its published `tokenizer.json`; None: an estimate.

    Raises:
        SettingsError: the package is not installed, or the file is missing or not a tokenizer.
    """
    if path is None:
        return ESTIMATE
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 -- an extra: only who uses it installs it
    except ImportError:
        raise SettingsError(
            "the setting language_model.tokenizer needs: pip install 'retrieval-worker[tokenizer]'"
        ) from None
    try:
        content = Path(path).read_bytes()
        tokenizer = Tokenizer.from_buffer(content)
    except OSError as error:
        raise SettingsError(f"the setting language_model.tokenizer: {path} can't be read ({error.strerror})") from None
    except Exception:  # noqa: BLE001 -- the package has no class of its own for it
        raise SettingsError(
            f"the setting language_model.tokenizer: expected a tokenizer.json of the package tokenizers: {path}"
        ) from None
    # A file may enable truncation or padding; then every long text would have the same count.
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return TokenCounter(f"{Path(path).name} sha256:{hashlib.sha256(content).hexdigest()[:12]}", count)
