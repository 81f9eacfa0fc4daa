"""Answers of models, embedders and rerankers are bounded, and no redirect takes a prompt elsewhere: real HTTP."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.site import drips, drips_headers, leads, says, serving

from retrieval_client.errors import RetrievalError, SettingsError, Unavailable
from worker.adapters.providers.embedder import OpenAIEmbedder
from worker.adapters.providers.http_client import MAX_BYTES
from worker.adapters.providers.language_model import LanguageModel, Prompt
from worker.adapters.providers.reranker import HttpReranker
from worker.settings.providers import EmbedderSettings, LanguageModelSettings, RerankerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.site import Page, Site, Visit

KEY, PROMPT = "hunter2-correct-horse-battery", "canary-4711"
MEGABYTE = 1_000_000
PATHS = ("/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/v1/rerank")


def _model(api: Any) -> Callable[..., Any]:
    def ask(url: str, **limits: Any) -> Any:
        settings = LanguageModelSettings(kind="openai", api=api, base_url=url, model="m", api_key=KEY, **limits)
        return LanguageModel(settings).complete(Prompt("Answer.", PROMPT))

    return ask


def _embed(url: str, **limits: Any) -> Any:
    settings = EmbedderSettings(kind="openai", base_url=url, model="m", api_key=KEY, **limits)
    return OpenAIEmbedder(settings).embed([PROMPT])


def _rerank(url: str, **limits: Any) -> Any:
    settings = RerankerSettings(url=f"{url}/rerank", model="m", api_key=KEY, **limits)
    return HttpReranker(settings).scores(PROMPT, [PROMPT])


ASKING = dict(zip(PATHS, (_model("responses"), _model("chat"), _embed, _rerank), strict=True))


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as one:
        yield one


@pytest.fixture
def elsewhere() -> Iterator[Site]:
    with serving() as one:
        for path in PATHS:
            one.pages[path] = says({})
        yield one


def ask(path: str, site: Site, page: Page, **limits: Any) -> RetrievalError:
    """Return the error of a request: one sentence that shows nothing of the prompt, the key or the answer."""
    site.pages[path] = page
    limits = {"timeout_seconds": 60, **limits}
    with pytest.raises(RetrievalError) as caught:
        ASKING[path](f"http://127.0.0.1:{site.port}/v1", **limits)
    for secret in (KEY, PROMPT, "127.0.0.1", "spam"):
        assert secret not in str(caught.value)
    return caught.value


@pytest.fixture(scope="module")
def packed() -> bytes:
    """A hundred megabytes in a hundred kilobytes."""
    return gzip.compress(b" " * 100 * MEGABYTE)


def _huge(visit: Visit) -> None:
    visit.head(Content_Type="application/json")
    for _ in range(1000):
        visit.body(b"spam" * 25_000)


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_that_is_too_long_is_left(site: Site, path: str) -> None:
    """Of 100 MB the worker takes a part, says so, and does not ask again."""
    error = ask(path, site, _huge)
    assert isinstance(error, Unavailable)
    assert str(error).endswith(f"server answered more than {MAX_BYTES} bytes")
    assert site.sent < 60 * MEGABYTE
    assert len(site.visits) == 1


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("path", PATHS)
def test_a_packed_answer_is_unpacked_up_to_its_limit(site: Site, packed: bytes, path: str, status: int) -> None:
    """100 MB in 100 kB, as an answer or as an error's text: what is held stays small."""
    tracemalloc.start()
    try:
        error = ask(path, site, says(packed, status, Content_Encoding="gzip"))
        assert tracemalloc.get_traced_memory()[1] < 60 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert f"more than {MAX_BYTES} bytes" in str(error) or f"(HTTP {status})" in str(error)
    assert len(site.visits) == 1


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("br", b"x"),
        ("zstd", b"x"),
        ("deflate", zlib.compress(b"{}")),
        ("gzip, gzip", gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0)),
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_an_encoding_that_was_not_asked_for_is_refused(site: Site, path: str, encoding: str, content: bytes) -> None:
    """Only gzip is asked for, so only gzip is unpacked."""
    error = ask(path, site, says(content, Content_Encoding=encoding))
    assert str(error).endswith("server answered in an encoding that was not requested")
    assert site.visits[0][1]["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize("path", PATHS)
def test_a_packed_answer_is_understood(site: Site, path: str) -> None:
    """A server that packs what it answers is read like one that does not."""
    good: dict[str, Any] = {
        "/v1/chat/completions": {"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]},
        "/v1/embeddings": {"data": [{"index": 0, "embedding": [1.0] * 768}]},
        "/v1/rerank": [{"index": 0, "score": 0.5}],
        "/v1/responses": {
            "id": "r",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}],
        },
    }
    site.pages[path] = says(gzip.compress(json.dumps(good[path]).encode()), Content_Encoding="gzip")
    assert ASKING[path](f"http://127.0.0.1:{site.port}/v1") is not None


@pytest.mark.parametrize("page", [says(b"[" * 500_000), says(b'{"a":' * 100_000), says(b"9" * 500_000)])
@pytest.mark.parametrize("path", PATHS)
def test_json_without_end_is_no_answer(site: Site, path: str, page: Page) -> None:
    """Nesting and digits that a parser can't take fail as the server's fault, not as ours."""
    assert isinstance(ask(path, site, page), Unavailable)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", PATHS)
def test_no_redirect_takes_a_prompt_elsewhere(site: Site, elsewhere: Site, path: str, status: int) -> None:
    """Neither to another server nor along the same one: the operator names the server that is asked."""
    for to in (f"http://127.0.0.1:{elsewhere.port}{path}", path.replace("v1", "v2")):
        error = ask(path, site, leads(to, status))
        assert isinstance(error, SettingsError)
        assert f"redirects (HTTP {status})" in str(error)
    assert elsewhere.visits == []
    assert [visited for visited, _ in site.visits] == [path] * 2


@pytest.mark.parametrize("page", [drips, drips_headers])
@pytest.mark.parametrize("path", PATHS)
def test_time_is_limited_to_the_last_byte(site: Site, path: str, page: Page) -> None:
    """A byte now and then, in the body or in headers, is no answer either."""
    begun = time.monotonic()
    assert isinstance(ask(path, site, page, timeout_seconds=0.5), Unavailable)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("path", PATHS)
def test_headers_are_bounded(site: Site, path: str) -> None:
    """A megabyte of headers is refused before all of it is read."""

    def page(visit: Visit) -> None:
        visit.head(200, X_More="x" * 50 * MEGABYTE)

    assert isinstance(ask(path, site, page), Unavailable)
