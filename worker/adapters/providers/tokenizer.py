"""How many tokens a text is to a model: by its own tokenizer, from a file, without a network."""

from __future__ import annotations

import hashlib
from pathlib import Path

from worker.core.prompting.context import ESTIMATE, TokenCounter
from worker.errors import SettingsError


def token_counter(path: str | None) -> TokenCounter:
    """The counter of a model's tokenizer, through the package `tokenizers` (extra `tokenizer`).

    Args:
        path: its `tokenizer.json`, as models are published with; None: an estimate.

    Raises:
        SettingsError: the package is not installed, or the file is not there or no tokenizer.
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
    # A file may say that texts are cut or filled up; then every long text would count the same.
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return TokenCounter(f"{Path(path).name} sha256:{hashlib.sha256(content).hexdigest()[:12]}", count)
