"""The OpenAI-compatible embedder against a real HTTP server on loopback."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.integration.provider import Fault

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.providers.embedder import BATCH_SIZE, LexicalEmbedder, OpenAIEmbedder, make
from worker.core.prompting.costs import Tokens
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from tests.integration.provider import Provider


def vector(text: str, dimensions: int = 768) -> list[float]:
    """Of no particular length."""
    values = np.random.default_rng(sum(map(ord, text))).standard_normal(dimensions) * 3
    return values.astype("<f4").tolist()


@pytest.fixture
def provider(provider: Provider) -> Provider:
    provider.embed = lambda texts: [vector(text) for text in texts]
    return provider


def embedder(provider: Provider, **changes: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder(EmbedderSettings(kind="openai", base_url=provider.url, model="m", api_key="k", **changes))


def test_texts_become_unit_vectors_in_their_order(provider: Provider) -> None:
    """Batches, base64, dimensions and the key are sent as documented; each text gets its own vector."""
    texts = [f"text {i}" for i in range(2 * BATCH_SIZE + 1)]
    vectors = embedder(provider).embed(texts)
    assert vectors.shape == (len(texts), 768)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    for text, found in zip(texts, vectors, strict=True):
        wanted = np.array(vector(text))
        assert np.allclose(found, wanted / np.linalg.norm(wanted), atol=1e-6)
    assert [len(request["input"]) for request in provider.requests] == [BATCH_SIZE, BATCH_SIZE, 1]
    first = provider.requests[0]
    assert (first["path"], first["auth"], first["model"]) == ("/v1/embeddings", "Bearer k", "m")
    assert (first["dimensions"], first["encoding_format"]) == (768, "base64")


def test_a_server_that_answers_lists_is_understood(provider: Provider) -> None:
    """Not every compatible server knows `encoding_format`."""
    provider.as_list = True
    assert np.allclose(np.linalg.norm(embedder(provider).embed(["a"]), axis=1), 1.0, atol=1e-6)


def test_a_smaller_model_is_padded_and_its_cosines_stay(provider: Provider) -> None:
    """Zeros at the end change no cosine."""
    provider.embed = lambda texts: [vector(text, 384) for text in texts]
    vectors = embedder(provider, send_dimensions=False).embed(["a", "b"])
    assert vectors.shape == (2, 768)
    assert not vectors[:, 384:].any()
    a, b = (np.array(vector(text, 384)) for text in "ab")
    assert float(vectors[0] @ vectors[1]) == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
    assert "dimensions" not in provider.requests[0]


def test_a_larger_model_is_refused(provider: Provider) -> None:
    """More than 768 dimensions is a matter of settings."""
    provider.embed = lambda texts: [vector(text, 1536) for text in texts]
    with pytest.raises(SettingsError, match="1536"):
        embedder(provider).embed(["a"])


@pytest.mark.parametrize(
    ("status", "error"), [(401, SettingsError), (400, SettingsError), (429, Unavailable), (503, Unavailable)]
)
def test_errors_are_classified_by_what_to_do(provider: Provider, status: int, error: type[Exception]) -> None:
    """Refused: mend the settings. Overloaded or broken: try later."""
    provider.status = status
    with pytest.raises(error):
        embedder(provider).embed(["secret text"])


def test_wrong_answers_are_unavailable_and_nothing_is_quoted(provider: Provider) -> None:
    """Too few vectors, a vector of zeros, no server at all."""
    provider.embed = lambda texts: [vector(text) for text in texts[:-1]]
    with pytest.raises(Unavailable, match="1 vectors for 2 texts") as caught:
        embedder(provider).embed(["secret text", "b"])
    assert "secret" not in str(caught.value)
    provider.embed = lambda texts: [[0.0] * 768 for _ in texts]
    with pytest.raises(Unavailable, match="without a direction"):
        embedder(provider).embed(["a"])
    nowhere = EmbedderSettings(kind="openai", base_url="http://127.0.0.1:1/v1", timeout_seconds=2)
    with pytest.raises(Unavailable):
        OpenAIEmbedder(nowhere).embed(["a"])


NO_NUMBERS: list[Any] = [[None], ["a"], [10**400], [[0.5]], {"a": 1}, 5]
NO_VECTORS = [
    *("<html>secret</html>", {}, {"data": 7}, {"data": [{"index": 0}]}, [1]),
    *({"data": [{"index": 0, "embedding": embedding}]} for embedding in NO_NUMBERS),
]


@pytest.mark.parametrize("body", NO_VECTORS, ids=lambda body: str(body)[:60])
def test_what_are_no_vectors_is_unavailable(provider: Provider, body: Any) -> None:
    """A server that answers something else with status 200, as proxies do."""
    provider.faults.append(Fault(body=body))
    with pytest.raises(Unavailable, match="answered something else than vectors") as caught:
        embedder(provider).embed(["a"])
    assert "secret" not in caught.value.message


def test_each_batch_is_told_as_soon_as_it_is_paid(provider: Provider) -> None:
    """With the server's count; also the one whose answer is of no use. The lexical embedder costs nothing."""
    paid: list[tuple[str, str, Tokens]] = []
    provider.count = len
    provider.embed = lambda texts: [[0.0] * 768 if text == "zero" else vector(text) for text in texts]
    with pytest.raises(Unavailable):
        embedder(provider).embed(
            ["a"] * BATCH_SIZE + ["zero"] * BATCH_SIZE + ["never"], lambda *call: paid.append(call)
        )
    assert paid == [("openai", "m", Tokens(BATCH_SIZE)), ("openai", "m", Tokens(4 * BATCH_SIZE))]
    provider.silent = True
    embedder(provider).embed(["a"], lambda *call: paid.append(call))
    assert paid[2:] == [("openai", "m", Tokens(None))]
    LexicalEmbedder().embed(["a"], lambda *call: paid.append(call))
    assert len(paid) == 3


def test_a_slow_server_is_left_at_the_timeout(provider: Provider) -> None:
    """Stalled, or a byte now and then: the time is that of the whole call."""
    for fault in (Fault(stalls=True), Fault(drips=True)):
        provider.faults.append(fault)
        started = time.monotonic()
        with pytest.raises(Unavailable, match="TimeoutError"):
            embedder(provider, timeout_seconds=0.3).embed(["a"])
        assert time.monotonic() - started < 10


def test_settings_choose_the_embedder(provider: Provider) -> None:
    """Lexical unless settings say otherwise; both have the same shape."""
    assert isinstance(make(EmbedderSettings()), LexicalEmbedder)
    assert make(EmbedderSettings()).embed(["a", "b"]).shape == embedder(provider).embed(["a", "b"]).shape
    assert embedder(provider).embed([]).shape == (0, 768)
