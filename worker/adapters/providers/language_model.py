"""From a prompt to a text: any server that speaks OpenAI's Responses API, or its Chat Completions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from worker.adapters.providers.openai_api import Provider, counted
from worker.core.prompting.costs import Tokens, unbilled
from worker.errors import SettingsError, Unavailable

if TYPE_CHECKING:
    from worker.core.prompting.costs import Paid
    from worker.settings import LanguageModelSettings

_SERVER = "the language model's server"

# Neither UTF-8 nor Postgres has a place for these, and JSON from a server may.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is asked.

    Attributes:
        instructions: what it is to do; ours or the operator's.
        text: what it is to do that with.
        previous_response_id: the answer that this one goes on from, where the server keeps answers.
        cache_key: of prompts that begin alike, for the provider's prompt cache; at most 64 characters.
        keep: whether the server is to keep the answer, so that another can go on from it.
        seed: for the server's sampling; None: its own.
        temperature: likewise.
    """

    instructions: str
    text: str
    previous_response_id: str | None = None
    cache_key: str | None = None
    keep: bool = False
    seed: int | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered.

    Attributes:
        text: the answer.
        response_id: the server's name for it; None where it has none to go on from.
    """

    text: str
    response_id: str | None


class LanguageModel(Protocol):
    """Answers prompts.

    Attributes:
        provider: who runs it, for traces and for who may go on from whose answers.
        name: which model.
    """

    provider: str
    name: str

    def complete(self, prompt: Prompt, paid: Paid = unbilled) -> Completion:
        """The answer to a prompt; ``paid`` is told of the call, also if its answer is none.

        Raises:
            Unavailable, SettingsError: its server failed, or refused.
        """


class OpenAIModel:
    """A model behind OpenAI's API.

    Args:
        settings: model, server, key and limits.
    """

    provider = "openai"

    def __init__(self, settings: LanguageModelSettings) -> None:
        self.name = settings.model
        self._settings = settings
        self._server = Provider(settings, "the language model openai", _SERVER)

    def complete(self, prompt: Prompt, paid: Paid = unbilled) -> Completion:
        """The answer to a prompt; ``paid`` is told of the call, also if its answer is none.

        Raises:
            Forgotten: the server has no such answer to go on from any more.
            Unavailable: the server did not answer in time, or answered nothing.
            SettingsError: it refused the request.
        """
        try:
            ask = self._respond if self._settings.api == "responses" else self._chat
            text, response_id = ask(prompt, paid)
            text = _UNSTORABLE.sub("", text)
        except (AttributeError, TypeError, ValueError):  # the client takes all with status 200 for an answer
            raise Unavailable(f"{_SERVER} answered something else than a text") from None
        if not text.strip():
            raise Unavailable(f"{_SERVER} answered nothing")
        return Completion(text, response_id)

    def _respond(self, prompt: Prompt, paid: Paid) -> tuple[str, str | None]:
        optional = {
            "previous_response_id": prompt.previous_response_id,
            "prompt_cache_key": prompt.cache_key,
            "prompt_cache_retention": self._settings.prompt_cache_retention if prompt.cache_key else None,
            "temperature": prompt.temperature,
            # The client's method knows no seed; servers that sample by one do.
            "extra_body": None if prompt.seed is None else {"seed": prompt.seed},
        }
        answer = self._server.call(
            lambda client: client.responses.create(
                model=self.name,
                instructions=prompt.instructions,
                input=prompt.text,
                max_output_tokens=self._settings.max_output_tokens,
                store=prompt.keep,
                **{name: value for name, value in optional.items() if value is not None},
            ),
            goes_on=prompt.previous_response_id is not None,
        )
        paid(self.provider, self.name, _tokens(answer.usage, "input", "output"))
        return answer.output_text, answer.id if prompt.keep else None

    def _chat(self, prompt: Prompt, paid: Paid) -> tuple[str, None]:
        optional = {"seed": prompt.seed, "temperature": prompt.temperature}
        answer = self._server.call(
            lambda client: client.chat.completions.create(
                model=self.name,
                messages=[
                    {"role": "system", "content": prompt.instructions},
                    {"role": "user", "content": prompt.text},
                ],
                max_tokens=self._settings.max_output_tokens,
                **{name: value for name, value in optional.items() if value is not None},
            )
        )
        paid(self.provider, self.name, _tokens(answer.usage, "prompt", "completion"))
        return answer.choices[0].message.content or "" if answer.choices else "", None


def _tokens(usage: Any, sent: str, made: str) -> Tokens:
    """What an answer took, as its API calls it; a server may count more tokens as cached than as sent."""
    count = counted(usage, f"{sent}_tokens")
    cached = counted(getattr(usage, f"{sent}_tokens_details", None), "cached_tokens")
    return Tokens(count, counted(usage, f"{made}_tokens"), min(cached or 0, count or 0))


def make(settings: LanguageModelSettings) -> LanguageModel | None:
    """The model that the settings name; None for none."""
    return OpenAIModel(settings) if settings.kind == "openai" else None


class MissingModel:
    """A model that can't be had; each job that asks it is told why.

    Args:
        name: which model.
        error: why.
    """

    provider = "none"

    def __init__(self, name: str, error: SettingsError) -> None:
        self.name = name
        self._message = error.message

    def complete(self, prompt: Prompt, paid: Paid = unbilled) -> Completion:
        """Raise the `SettingsError`."""
        del prompt, paid
        raise SettingsError(self._message)


def make_or_tell(settings: LanguageModelSettings) -> LanguageModel | None:
    """The model that the settings name, or one that tells who asks it why it can't be had; None for none."""
    try:
        return make(settings)
    except SettingsError as error:
        return MissingModel(settings.model, error)
