"""The cross-encoder with the real `sentence-transformers`, on a tiny model of random weights that is made here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import HUM, ask

from retrieval_client.errors import SettingsError
from worker.adapters.providers.reranker import CrossEncoderReranker
from worker.jobs.engine import Engine
from worker.settings.providers import RerankerSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from worker.settings import Settings

missing = "the extra rerank is not installed (two gigabytes): pip install 'retrieval-worker[rerank]'"
pytest.importorskip("sentence_transformers", reason=missing)
torch = pytest.importorskip("torch", reason=missing)
transformers = pytest.importorskip("transformers", reason=missing)

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] what causes the hum on channel ribbon tension is set by a screw brass 18 50 hz"
QUESTION = "what causes the hum"
TEXTS = ["ribbon tension is set by a brass screw", "the hum on channel 18", "hum " * 500]


def tiny(folder: Path, labels: int = 1, seed: int = 7) -> str:
    """A BERT of two layers; saved, so that nothing is downloaded."""
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS.split()))
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        vocab_size=len(WORDS.split()),
        max_position_embeddings=64,
        initializer_range=1.0,
        num_labels=labels,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    return str(folder)


def by_hand(folder: str, question: str, text: str) -> float:
    """The same model without the package between: the sigmoid of its one logit."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    pair = tokenizer(question, text, truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        return float(torch.sigmoid(model(**pair).logits[0, 0]))


def test_pairs_are_scored_as_the_model_scores_them(tmp_path: Path) -> None:
    """Question and text together, in the order of the texts, a long one cut; the same each time."""
    folder = tiny(tmp_path / "model")
    reranker = CrossEncoderReranker(RerankerSettings(model=folder))
    scores = reranker.scores(QUESTION, TEXTS)
    assert scores == pytest.approx([by_hand(folder, QUESTION, text) for text in TEXTS], abs=1e-5)
    assert len({round(score, 4) for score in scores}) == 3
    assert list(CrossEncoderReranker(RerankerSettings(model=folder)).scores(QUESTION, TEXTS)) == list(scores)
    assert all(isinstance(score, float) for score in scores)
    assert list(reranker.scores(QUESTION, [])) == []


def test_a_model_that_classifies_is_no_reranker(tmp_path: Path) -> None:
    """Several scores a pair have no order."""
    reranker = CrossEncoderReranker(RerankerSettings(model=tiny(tmp_path / "model", labels=3)))
    with pytest.raises(SettingsError, match=r"reranker\.model: expected one score a pair"):
        reranker.scores(QUESTION, TEXTS)


def test_a_folder_without_a_model_stops_the_start(tmp_path: Path) -> None:
    """There is none, or something else is in it."""
    (tmp_path / "empty").mkdir()
    for name in ("empty", "none"):
        with pytest.raises(SettingsError, match=r"reranker\.model: .* can't be loaded"):
            CrossEncoderReranker(RerankerSettings(model=str(tmp_path / name)))


def test_a_profile_reranks_with_it(make_settings: Callable[..., Settings], database: str, tmp_path: Path) -> None:
    """Candidates come in the order of its scores, and the trace names it."""
    folder = tiny(tmp_path / "model")
    profile = {"legs": [{"kind": "dense"}], "rerank": "cross_encoder"}
    settings = make_settings(database, reranker={"model": folder}, profiles={"judged": profile})
    engine = Engine(settings, time.perf_counter)
    answer: dict[str, Any] = ask(engine, question=HUM, profile="judged")
    engine.close()
    scores = [chunk["scores"]["rerank"] for chunk in answer["package"]["candidates"]]
    assert scores == sorted(scores, reverse=True)
    assert len({*scores}) > 1
    assert answer["trace"]["models"]["rerank"] == f"cross_encoder {folder}"
    assert answer["trace"]["warnings"] == []
