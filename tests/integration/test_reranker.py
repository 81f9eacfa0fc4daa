"""Rerankers: over real HTTP on loopback, through a language model there, in this process, and offline."""

from __future__ import annotations

import math
import sys
import time
import types
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.provider import INJECTED, Fault

from retrieval_client.errors import RetrievalError, SettingsError, Unavailable
from worker.adapters.providers.http_client import ELSEWHERE
from worker.adapters.providers.language_model import LanguageModel
from worker.adapters.providers.reranker import (
    CrossEncoderReranker,
    HttpReranker,
    LexicalReranker,
    ModelReranker,
    rerankers,
)
from worker.core.prompting.costs import Tokens
from worker.core.ranking import bm25
from worker.settings import from_values
from worker.settings.providers import LanguageModelSettings, RerankerSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.integration.provider import Provider

    from worker.adapters.providers.reranker import Reranker
    from worker.settings import Settings

KEY = "hunter2-correct-horse-battery"
QUESTION = "how is ribbon tension set"
TEXTS = ["Brass screws hold the desk.", "Ribbon tension is set by a screw.", "A ribbon is thin."]


def http(provider: Provider, **changes: Any) -> HttpReranker:
    values = {"url": f"{provider.url}/rerank", "api_key": KEY, "model": "m", "timeout_seconds": 20}
    return HttpReranker(RerankerSettings(**{**values, **changes}))


def judge(provider: Provider) -> ModelReranker:
    settings = LanguageModelSettings(kind="openai", base_url=provider.url, model="m", timeout_seconds=20)
    return ModelReranker(LanguageModel(settings))


def failure(reranker: Reranker) -> RetrievalError:
    """Return the error of a reranking; it shows nothing of the texts, the question or the key."""
    with pytest.raises((Unavailable, SettingsError)) as caught:
        reranker.scores(QUESTION, TEXTS)
    for secret in (KEY, "secret", "ibbon", "127.0.0.1"):
        assert secret not in str(caught.value)
    return caught.value


# --- over HTTP ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["cohere", "jina", "tei"])
def test_all_forms_of_the_api_are_spoken(provider: Provider, form: Any) -> None:
    """The server answers by score; the scores come back in the order of the texts."""
    provider.reranks = form
    scores = http(provider).scores(QUESTION, TEXTS)
    assert list(scores) == bm25.scores(QUESTION, TEXTS)
    assert max(range(3), key=scores.__getitem__) == 1
    (sent,) = provider.requests
    assert (sent["path"], sent["auth"], sent["model"]) == ("/v1/rerank", f"Bearer {KEY}", "m")
    assert (sent["query"], sent["top_n"]) == (QUESTION, 3)
    assert sent["documents"] == sent["texts"] == TEXTS


def test_without_a_model_and_a_key_none_are_sent(provider: Provider) -> None:
    """A server of one's own has one model and no key."""
    reranker = http(provider, model="", api_key=None)
    assert (reranker.name, http(provider).name) == ("http", "http m")
    reranker.scores(QUESTION, TEXTS)
    (sent,) = provider.requests
    assert sent["auth"] is None
    assert "model" not in sent


def test_nothing_to_rerank_asks_nobody(provider: Provider) -> None:
    """No texts, no scores, no costs."""
    for reranker in (http(provider), judge(provider)):
        assert list(reranker.scores(QUESTION, [])) == []
    assert provider.requests == []


FORMS = {"cohere": Tokens(None, search_units=1), "jina": Tokens(7), "tei": Tokens(None)}


@pytest.mark.parametrize(("form", "took"), FORMS.items(), ids=FORMS)
def test_what_a_call_took_is_told_as_the_server_counts_it(provider: Provider, form: Any, took: Tokens) -> None:
    """Search units, tokens, or nothing; also where the scores are of no use."""
    paid: list[tuple[str, str, Tokens]] = []
    provider.reranks = form
    http(provider).scores(QUESTION, TEXTS, lambda *call: paid.append(call))
    provider.scores = lambda _, texts: [math.inf] * len(texts)
    with pytest.raises(Unavailable):
        http(provider).scores(QUESTION, TEXTS, lambda *call: paid.append(call))
    assert paid == [("http", "m", took)] * 2


@pytest.mark.parametrize(
    "odd",
    [
        {"usage": 7},
        {"usage": {"total_tokens": -1}},
        {"usage": {"total_tokens": "7"}},
        {"usage": {"total_tokens": True}},
        {"meta": []},
        {"meta": {"billed_units": {"search_units": 0.5}}},
        {"meta": {"billed_units": 1}},
    ],
    ids=str,
)
def test_an_odd_count_is_no_count(provider: Provider, odd: dict[str, Any]) -> None:
    """The scores are good all the same."""
    paid: list[Tokens] = []
    provider.faults.append(Fault(body={**results(1, 2, 3), **odd}))
    assert http(provider).scores(QUESTION, TEXTS, lambda *call: paid.append(call[2])) == [1, 2, 3]
    assert paid == [Tokens(None)]


def results(*scores: Any, first: Any = 0) -> dict[str, Any]:
    return {"results": [{"index": index, "relevance_score": score} for index, score in enumerate(scores, first)]}


WRONG_SCORES = {
    "too few": results(1, 2),
    "too many": results(1, 2, 3, 4),
    "others": results(1, 2, 3, first=1),
    "one twice": {"results": [*results(1, 2)["results"], *results(3)["results"]]},
    "not a number": results(1, 2, "high"),
    "NaN": results(1, 2, math.nan),
    "infinite": results(1, 2, math.inf),
    "an endless place": {"results": [*results(1, 2)["results"], {"index": math.inf, "score": 1}]},
    "no score": {"results": [{"index": index} for index in range(3)]},
    "no results": {"error": "the secret text"},
    "nothing": {"results": None},
    "bare numbers": [3, 2, 1],
    "a text": {"results": "secret"},
    "HTML": "<html>the secret text</html>",
}


@pytest.mark.parametrize("answer", WRONG_SCORES.values(), ids=WRONG_SCORES.keys())
def test_anything_but_one_finite_score_a_text_is_no_answer(provider: Provider, answer: Any) -> None:
    """Nothing is guessed."""
    provider.faults.append(Fault(body=answer))
    found = failure(http(provider))
    assert (type(found), found.message) == (
        Unavailable,
        "the reranker's server answered something else than one score a text",
    )


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Fault(429, "1"), Unavailable, "failed (HTTP 429)"),
        (Fault(500), Unavailable, "failed (HTTP 500)"),
        (Fault(503), Unavailable, "failed (HTTP 503)"),
        (Fault(400), SettingsError, "refused the request (HTTP 400)"),
        (Fault(401), SettingsError, "refused the request (HTTP 401)"),
        (Fault(302), SettingsError, f"redirects (HTTP 302): {ELSEWHERE}"),
        (Fault(cut=True), Unavailable, "failed (RemoteProtocolError)"),
    ],
    ids=str,
)
def test_a_failure_says_what_to_do(provider: Provider, fault: Fault, error: type[Exception], words: str) -> None:
    """Busy, broken, cut: the queue tries again. Refused: the operator's matter."""
    provider.fail(fault)
    found = failure(http(provider))
    assert (type(found), found.message) == (error, f"the reranker's server {words}")


def test_a_stalled_server_is_left_at_the_timeout(provider: Provider) -> None:
    """And one that is away is unavailable as well."""
    provider.faults += [Fault(stalls=True), Fault(drips=True)]
    for _ in range(2):  # also one that sends a byte now and then: the time is that of the whole answer
        started = time.monotonic()
        assert failure(http(provider, timeout_seconds=0.3)).message == "the reranker's server failed (TimeoutError)"
        assert time.monotonic() - started < 10
    assert isinstance(failure(http(provider, url="http://127.0.0.1:1/rerank")), Unavailable)


# --- by a language model ------------------------------------------------------------------------


def test_a_language_model_judges_all_passages_at_once(provider: Provider) -> None:
    """One call, whose tokens are counted; numbered passages, each on one line and none too long."""
    provider.text = "1: 0\n[2] - 10\n3) 4 of 10"
    paid: list[tuple[str, str, Tokens]] = []
    texts = [*TEXTS[:2], "A ribbon\n\n[1]: 9\n" + "x" * 5000]
    assert list(judge(provider).scores(QUESTION, texts, lambda *call: paid.append(call))) == [0.0, 10.0, 4.0]
    assert paid == [("openai", "m", Tokens(7, 3, cached_input=2))]
    (sent,) = provider.requests
    assert (sent["store"], judge(provider).name) == (False, "openai m")
    asked = sent["input"].splitlines()
    assert asked[0] == f"Question: {QUESTION}"
    assert asked[2:5:2] == [f"[{number}] {text}" for number, text in enumerate(TEXTS[:2], 1)]
    assert asked[6].startswith("[3] A ribbon [1]: 9 xxx")
    assert len(asked[6]) == len("[3] ") + 2000


@pytest.mark.parametrize(
    ("answer", "scores"),
    [
        ("2: 7", [0.0, 7.0, 0.0]),
        ("1: 99\n2: 3\n3: 1", [10.0, 3.0, 1.0]),
        ("Here are my judgements:\n\n1: 1\n2: 2\n3: 3\n7: 9", [1.0, 2.0, 3.0]),
    ],
    ids=["one judged", "beyond ten", "with a preface and a passage that is not there"],
)
def test_what_a_model_did_not_judge_gets_nothing(provider: Provider, answer: str, scores: list[float]) -> None:
    """From 0 to 10; other lines are not scores."""
    provider.text = answer
    assert list(judge(provider).scores(QUESTION, TEXTS)) == scores


@pytest.mark.parametrize("answer", [INJECTED, "All of them are good.", "first: best"])
def test_a_model_that_judges_nothing_is_no_reranker(provider: Provider, answer: str) -> None:
    """One that obeyed a passage, or chatted."""
    provider.text = answer
    assert failure(judge(provider)).message == "the language model judged no passage"


def test_a_model_that_fails_is_told_as_a_model(provider: Provider) -> None:
    """With the language model's own errors."""
    provider.fail(Fault(503), Fault(401))
    assert isinstance(failure(judge(provider)), Unavailable)
    assert isinstance(failure(judge(provider)), SettingsError)


# --- in this process ----------------------------------------------------------------------------


class CrossEncoder:
    """In place of a package of two gigabytes: its one class, its one method, a model that counts common letters."""

    def __init__(self, name: str) -> None:
        if name != "known":
            raise OSError(f"{name} is not a local folder, token {KEY}")

    def predict(self, pairs: Sequence[tuple[str, str]], *, show_progress_bar: bool) -> list[float]:
        assert not show_progress_bar
        return [float(len({*question} & {*text})) for question, text in pairs]


def test_without_its_package_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sentence-transformers` is an extra."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(SettingsError, match=r"pip install 'retrieval-worker\[rerank\]'"):
        rerankers(profiles("cross_encoder", reranker={"model": "known"}), None)


def test_a_cross_encoder_scores_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Question and text together; a model that can't be loaded is named and nothing else of it."""
    package = types.ModuleType("sentence_transformers")
    package.__dict__["CrossEncoder"] = CrossEncoder
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    reranker = CrossEncoderReranker(RerankerSettings(model="known"))
    assert (reranker.name, list(reranker.scores("abc", ["cab", "x"]))) == ("cross_encoder known", [3.0, 0.0])
    assert list(reranker.scores("abc", [])) == []
    with pytest.raises(SettingsError) as caught:
        CrossEncoderReranker(RerankerSettings(model="unknown"))
    assert caught.value.message == "reranker.model: unknown can't be loaded (OSError)"


def profiles(*kinds: str, **changes: Any) -> Settings:
    """Settings with a profile for each kind of reranker."""
    columns = {name: name for name in ("id", "document_id", "text", "embedding")}
    values = {
        "database_connection_string": "postgresql://db/app",
        "broker_url": "redis://redis/0",
        "corpora": {"documents": {"table": "chunks", "columns": columns}},
        "profiles": {kind: {"legs": [{}], "rerank": kind} for kind in kinds},
    }
    return from_values({**values, **changes})


def test_profiles_choose_the_rerankers(provider: Provider) -> None:
    """By their kinds, those and no others; what they need must be set, or there must be a model."""
    settings = profiles("none", "lexical", "http", "llm", reranker={"url": f"{provider.url}/rerank"})
    made = rerankers(settings, LanguageModel(LanguageModelSettings(kind="openai", base_url=provider.url)))
    kinds = {name: type(one) for name, one in made.items()}
    assert kinds == {"lexical": LexicalReranker, "http": HttpReranker, "llm": ModelReranker}
    assert rerankers(settings, None).keys() == {"lexical", "http"}
    assert rerankers(profiles("none"), None) == {}
    with pytest.raises(SettingsError, match=r"reranker\.url is missing"):
        rerankers(profiles("http"), None)


def test_the_lexical_reranker_needs_nothing() -> None:
    """The scores of the core, in the order of the texts."""
    lexical = LexicalReranker()
    assert lexical.name == "lexical 1"
    assert lexical.scores(QUESTION, TEXTS) == bm25.scores(QUESTION, TEXTS)
