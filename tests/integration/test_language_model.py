"""Language models through the real client, against a server on loopback that behaves as a test says."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.provider import INJECTED, WRONG_LABELS, Fault

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.providers.http_client import RETRIES
from worker.adapters.providers.language_model import Completion, LanguageModel, Prompt, UnknownAnswer, make
from worker.core.prompting.costs import Tokens
from worker.settings.providers import LanguageModelSettings

if TYPE_CHECKING:
    from tests.integration.provider import Provider

    from retrieval_client.errors import RetrievalError

KEY = "hunter2-correct-horse-battery"
PROMPT = Prompt("Answer from the sources.", "[S1] The cutoff is 800 Hz.", cache_key="0" * 32)
APIS = ["responses", "chat"]


def model(provider: Provider, **changes: Any) -> LanguageModel:
    values = {"base_url": provider.url, "api_key": KEY, "model": "m", "timeout_seconds": 20}
    return LanguageModel(LanguageModelSettings(kind="openai", **{**values, **changes}))


def failure(model: LanguageModel, prompt: Prompt = PROMPT) -> RetrievalError:
    """Return the error of a prompt; it shows nothing of the prompt, the answer or the key."""
    with pytest.raises((Unavailable, SettingsError)) as caught:
        model.complete(prompt)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for secret in (KEY, "secret", prompt.text, prompt.instructions, "127.0.0.1", "<html>"):
        assert secret not in str(caught.value)
    assert caught.value.message.startswith("the language model's server ")
    return caught.value


def test_the_responses_api_is_asked_and_read(provider: Provider) -> None:
    """Instructions apart from the sources; what is not wanted is not sent; tokens as the provider counts them."""
    paid: list[tuple[str, str, Tokens]] = []
    completion = model(provider, max_output_tokens=99).complete(PROMPT, lambda *call: paid.append(call))
    assert completion == Completion("low-pass filter, cutoff", None)
    assert paid == [("openai", "m", Tokens(7, 3, cached_input=2))]
    (sent,) = provider.requests
    assert sent == {
        "path": "/v1/responses",
        "auth": f"Bearer {KEY}",
        "model": "m",
        "instructions": PROMPT.instructions,
        "input": PROMPT.text,
        "max_output_tokens": 99,
        "store": False,
        "prompt_cache_key": "0" * 32,
    }


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a_seed_and_a_temperature_are_passed_on(provider: Provider, api: str) -> None:
    """As the prompt has them, zero included; of what it does not say the server decides."""
    asked = model(provider, api=api)
    asked.complete(Prompt("i", "x", seed=0, temperature=0.0))
    asked.complete(PROMPT)
    sent, plain = provider.requests
    assert (sent["seed"], sent["temperature"]) == (0, 0.0)
    assert not {"seed", "temperature"} & plain.keys()


def test_an_answer_goes_on_from_one_that_the_server_keeps(provider: Provider) -> None:
    """Each turn names the one before; one that was not kept can't be gone on from."""
    asked = model(provider)
    first = asked.complete(Prompt("i", "one", keep=True))
    second = asked.complete(Prompt("i", "two", previous_response_id=first.response_id, keep=True))
    assert first.response_id is not None
    assert second.response_id not in {None, first.response_id}
    assert [(sent["store"], sent.get("previous_response_id")) for sent in provider.requests] == [
        (True, None),
        (True, first.response_id),
    ]


OPENAIS = {"message": "secret", "code": "previous_response_not_found", "param": "previous_response_id"}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(400, body={"error": OPENAIS}), UnknownAnswer),
        (Fault(404, body={"error": {"message": "secret", "code": 404, "param": None}}), UnknownAnswer),
        (Fault(404, body={"detail": ["secret"]}), UnknownAnswer),
        (Fault(400), SettingsError),
        (Fault(400, body={"error": {"message": "secret", "code": ["odd"], "param": {}}}), SettingsError),
        (Fault(400, body="<html>secret</html>"), SettingsError),
        (Fault(401, body={"error": OPENAIS}), SettingsError),
        (Fault(503, body={"error": OPENAIS}), Unavailable),
    ],
    ids=["OpenAI", "vLLM", "another", "another field", "an odd error", "no JSON", "no rights", "away"],
)
def test_a_server_that_has_forgotten_an_answer_is_told_from_one_that_refuses(
    provider: Provider, fault: Fault, error: type[Exception]
) -> None:
    """By status, code and field, never by words; and only where there is something to go on from."""
    provider.fail(fault, fault)
    assert type(failure(model(provider), replace(PROMPT, previous_response_id="resp_unknown"))) is error
    assert not isinstance(failure(model(provider)), UnknownAnswer)


def test_how_long_a_prompt_is_kept_is_said_with_its_key(provider: Provider) -> None:
    """Only where the settings say so, and only beside a key."""
    asked = model(provider, prompt_cache_retention="24h")
    asked.complete(PROMPT)
    asked.complete(Prompt("i", "x"))
    assert [sent.get("prompt_cache_retention") for sent in provider.requests] == ["24h", None]


def test_a_cache_key_that_is_too_long_is_refused_as_providers_do(provider: Provider) -> None:
    """So the server of the tests would notice one."""
    assert isinstance(failure(model(provider), Prompt("i", "x", cache_key="0" * 65)), SettingsError)


def test_chat_completions_are_asked_and_read(provider: Provider) -> None:
    """For servers without the other API: nothing to go on from, no cache key."""
    paid: list[tuple[str, str, Tokens]] = []
    completion = model(provider, api="chat", max_output_tokens=99).complete(PROMPT, lambda *call: paid.append(call))
    assert completion == Completion("low-pass filter, cutoff", None)
    assert paid == [("openai", "m", Tokens(7, 3))]
    (sent,) = provider.requests
    assert (sent["path"], sent["max_tokens"]) == ("/v1/chat/completions", 99)
    assert sent["messages"] == [
        {"role": "system", "content": PROMPT.instructions},
        {"role": "user", "content": PROMPT.text},
    ]
    assert not {"prompt_cache_key", "previous_response_id", "store"} & sent.keys()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("text", [WRONG_LABELS, INJECTED], ids=["wrong labels", "an injected instruction"])
def test_an_answer_is_data(provider: Provider, api: str, text: str) -> None:
    """Any answer of a model comes through unchanged, to be judged further up."""
    provider.text = text
    assert model(provider, api=api).complete(PROMPT).text == text


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        (Fault(400), SettingsError, "refused the request (HTTP 400)"),
        (Fault(401), SettingsError, "refused the request (HTTP 401)"),
        (Fault(404), SettingsError, "refused the request (HTTP 404)"),
        (Fault(429), Unavailable, "failed (HTTP 429)"),
        (Fault(500), Unavailable, "failed (HTTP 500)"),
        (Fault(503), Unavailable, "failed (HTTP 503)"),
        (Fault(cut=True), Unavailable, ""),
        (Fault(body="<html>Log in</html>"), Unavailable, "answered something else than a text"),
        (Fault(body={}), Unavailable, ""),
        (Fault(body=[1]), Unavailable, ""),
        (Fault(body={"output": 7, "choices": 7}), Unavailable, ""),
        (Fault(body={"output": [None], "choices": [None]}), Unavailable, ""),
        (Fault(body={"output": [], "choices": []}), Unavailable, "answered nothing"),
    ],
    ids=str,
)
def test_a_failure_says_what_to_do_and_quotes_nothing(
    provider: Provider, api: str, fault: Fault, error: type[Exception], words: str
) -> None:
    """Refused: mend the settings. Busy, broken, cut or no answer at all: the queue tries again."""
    provider.fail(fault)
    found = failure(model(provider, api=api))
    assert type(found) is error
    assert words in found.message


def test_an_answer_without_a_word_is_none(provider: Provider) -> None:
    """Blanks are no answer."""
    provider.text = " \n"
    assert failure(model(provider)).message == "the language model's server answered nothing"


@pytest.mark.parametrize("api", APIS)
def test_what_a_call_took_is_told_as_soon_as_it_is_paid(provider: Provider, api: str) -> None:
    """Tokens are counted also for a useless answer; those that the server does not count are unknown."""
    paid: list[Tokens] = []
    provider.text = " \n"
    asked = model(provider, api=api)
    for silent in (False, True):
        provider.silent = silent
        with pytest.raises(Unavailable, match="answered nothing"):
            asked.complete(PROMPT, lambda *call: paid.append(call[2]))
    assert paid == [Tokens(7, 3, 2 if api == "responses" else 0), Tokens(None, None)]


@pytest.mark.parametrize("api", APIS)
def test_a_stalled_server_is_left_at_the_timeout(provider: Provider, api: str) -> None:
    """Which is of the whole call: also where bytes come in now and then, and there is time for no other try."""
    for fault in (Fault(stalls=True), Fault(drips=True), Fault(429, "0.2")):
        provider.faults += [fault] * 9
        started = time.monotonic()
        found = failure(model(provider, api=api, timeout_seconds=0.3))
        assert (type(found), found.message.split("(")[1]) == (Unavailable, "TimeoutError)")
        assert time.monotonic() - started < 10
        provider.faults.clear()


@pytest.mark.parametrize("fault", [Fault(429, "1"), Fault(503, "1")], ids=["busy", "broken"])
def test_retry_after_is_waited_for(provider: Provider, fault: Fault) -> None:
    """A second, as the server asked, then the answer."""
    provider.faults.append(fault)
    started = time.monotonic()
    assert model(provider).complete(PROMPT).text == provider.text
    assert 1.0 <= time.monotonic() - started < 10
    assert len(provider.requests) == 2


def test_an_endless_retry_after_is_not_waited_for(provider: Provider) -> None:
    """A pause beyond the time of the call fails the job at once: the queue has its own pauses."""
    for pause in ("100", "3600"):
        provider.faults += [Fault(429, pause)] * 3
        started = time.monotonic()
        assert failure(model(provider)).message.endswith("(HTTP 429)")
        assert time.monotonic() - started < 10
        provider.faults.clear()
    assert len(provider.requests) == 2


@pytest.mark.parametrize("fault", [Fault(503, "0.01"), Fault(cut=True)], ids=["broken", "cut"])
def test_tries_are_bounded(provider: Provider, fault: Fault) -> None:
    """One more than the retries and no other."""
    provider.faults += [fault] * 9
    assert isinstance(failure(model(provider)), Unavailable)
    assert len(provider.requests) == 1 + RETRIES


def test_a_server_that_is_away_is_unavailable(provider: Provider) -> None:
    """A port on which no server listens."""
    assert isinstance(failure(model(provider, base_url="http://127.0.0.1:1/v1")), Unavailable)


def test_settings_choose_the_model(provider: Provider) -> None:
    """None unless they say otherwise."""
    assert make(LanguageModelSettings()) is None
    made = make(LanguageModelSettings(kind="openai", base_url=provider.url, model="m"))
    assert made is not None
    assert (made.provider, made.name) == ("openai", "m")
