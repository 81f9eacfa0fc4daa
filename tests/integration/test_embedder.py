"""The OpenAI-compatible embedder against a real HTTP server on loopback."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from worker.adapters.embedder import LexicalEmbedder, OpenAIEmbedder, make
from worker.errors import SettingsError, Unavailable
from worker.settings import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator


class Provider(ThreadingHTTPServer):
    """Speaks `/v1/embeddings`; a test says how."""

    dimensions = 768
    status = 200
    as_list = False
    zero = False
    short_by = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[dict[str, Any]] = []

    def vector(self, text: str) -> list[float]:
        seed = sum(map(ord, text))
        values = np.random.default_rng(seed).standard_normal(self.dimensions) * (0 if self.zero else 3)
        return values.astype("<f4").tolist()


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, "auth": self.headers["Authorization"], **asked})
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if self.server.status != 200:
            self.wfile.write(b'{"error": {"message": "no"}}')
            return
        data = [self._item(i, text) for i, text in enumerate(asked["input"])]
        # In reverse: the client must go by `index`.
        data = data[: len(data) - self.server.short_by][::-1]
        self.wfile.write(json.dumps({"object": "list", "data": data, "model": "m", "usage": {}}).encode())

    def _item(self, index: int, text: str) -> dict[str, Any]:
        vector: Any = self.server.vector(text)
        if not self.server.as_list:
            vector = base64.b64encode(np.array(vector, dtype="<f4").tobytes()).decode()
        return {"object": "embedding", "index": index, "embedding": vector}

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    server = Provider()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def embedder(provider: Provider, **changes: Any) -> OpenAIEmbedder:
    url = f"http://127.0.0.1:{provider.server_address[1]}/v1"
    return OpenAIEmbedder(
        EmbedderSettings(kind="openai", base_url=url, model="m", api_key="k", max_retries=0, **changes)
    )


def test_texts_become_unit_vectors_in_their_order(provider: Provider) -> None:
    """Batches, base64, dimensions and the key are sent as documented; each text gets its own vector."""
    texts = [f"text {i}" for i in range(5)]
    vectors = embedder(provider, batch_size=2).embed(texts)
    assert vectors.shape == (5, 768)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    for text, vector in zip(texts, vectors, strict=True):
        wanted = np.array(provider.vector(text))
        assert np.allclose(vector, wanted / np.linalg.norm(wanted), atol=1e-6)
    assert [len(request["input"]) for request in provider.requests] == [2, 2, 1]
    first = provider.requests[0]
    assert (first["path"], first["auth"], first["model"]) == ("/v1/embeddings", "Bearer k", "m")
    assert (first["dimensions"], first["encoding_format"]) == (768, "base64")


def test_a_server_that_answers_lists_is_understood(provider: Provider) -> None:
    """Not every compatible server knows `encoding_format`."""
    provider.as_list = True
    assert np.allclose(np.linalg.norm(embedder(provider).embed(["a"]), axis=1), 1.0, atol=1e-6)


def test_a_smaller_model_is_padded_and_its_cosines_stay(provider: Provider) -> None:
    """Zeros at the end change no cosine."""
    provider.dimensions = 384
    vectors = embedder(provider, send_dimensions=False).embed(["a", "b"])
    assert vectors.shape == (2, 768)
    assert not vectors[:, 384:].any()
    a, b = (np.array(provider.vector(text)) for text in "ab")
    assert float(vectors[0] @ vectors[1]) == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
    assert "dimensions" not in provider.requests[0]


def test_a_larger_model_is_refused(provider: Provider) -> None:
    """More than 768 dimensions is a matter of settings."""
    provider.dimensions = 1536
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
    provider.short_by = 1
    with pytest.raises(Unavailable, match="1 vectors for 2 texts") as caught:
        embedder(provider).embed(["secret text", "b"])
    assert "secret" not in str(caught.value)
    provider.short_by, provider.zero = 0, True
    with pytest.raises(Unavailable, match="without a direction"):
        embedder(provider).embed(["a"])
    nowhere = EmbedderSettings(kind="openai", base_url="http://127.0.0.1:1/v1", max_retries=0, timeout_seconds=2)
    with pytest.raises(Unavailable):
        OpenAIEmbedder(nowhere).embed(["a"])


def test_settings_choose_the_embedder(provider: Provider) -> None:
    """Lexical unless settings say otherwise; both have the same shape."""
    assert isinstance(make(EmbedderSettings()), LexicalEmbedder)
    assert make(EmbedderSettings()).embed(["a", "b"]).shape == embedder(provider).embed(["a", "b"]).shape
    assert embedder(provider).embed([]).shape == (0, 768)
