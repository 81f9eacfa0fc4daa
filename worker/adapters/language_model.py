"""From a prompt to a text: any server that speaks OpenAI's Responses API, or its Chat Completions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from worker.adapters.provider import client, provider_errors
from worker.errors import Unavailable

if TYPE_CHECKING:
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
    """

    instructions: str
    text: str
    previous_response_id: str | None = None
    cache_key: str | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered.

    Attributes:
        text: the answer.
        response_id: the server's name for it; None where it has none to go on from.
        input_tokens, cached_tokens, output_tokens: as the provider counts them; cached ones are among the input.
    """

    text: str
    response_id: str | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int


class LanguageModel(Protocol):
    """Answers prompts.

    Attributes:
        provider: who runs it, for traces and for who may go on from whose answers.
        name: which model.
    """

    provider: str
    name: str

    def complete(self, prompt: Prompt) -> Completion:
        """The answer to a prompt."""


class OpenAIModel:
    """A model behind OpenAI's API.

    Args:
        settings: model, server, key and limits.
    """

    provider = "openai"

    def __init__(self, settings: LanguageModelSettings) -> None:
        self.name = settings.model
        self._settings = settings
        self._client = client(settings, "the language model openai")

    def complete(self, prompt: Prompt) -> Completion:
        """The answer to a prompt.

        Raises:
            Unavailable: the server did not answer, or answered nothing.
            SettingsError: it refused the request.
        """
        try:
            with provider_errors(_SERVER):
                completion = self._respond(prompt) if self._settings.api == "responses" else self._chat(prompt)
            text = _UNSTORABLE.sub("", completion.text)
        except (AttributeError, TypeError, ValueError):  # the client takes all with status 200 for an answer
            raise Unavailable(f"{_SERVER} answered something else than a text") from None
        if not text.strip():
            raise Unavailable(f"{_SERVER} answered nothing")
        return replace(completion, text=text)

    def _respond(self, prompt: Prompt) -> Completion:
        optional = {
            "previous_response_id": prompt.previous_response_id,
            "prompt_cache_key": prompt.cache_key,
            "prompt_cache_retention": self._settings.prompt_cache_retention if prompt.cache_key else None,
        }
        answer = self._client.responses.create(
            model=self.name,
            instructions=prompt.instructions,
            input=prompt.text,
            max_output_tokens=self._settings.max_output_tokens,
            store=prompt.keep,
            **{name: value for name, value in optional.items() if value is not None},
        )
        usage = answer.usage
        details = getattr(usage, "input_tokens_details", None)
        return Completion(
            answer.output_text,
            answer.id if prompt.keep else None,
            _count(usage, "input_tokens"),
            _count(details, "cached_tokens"),
            _count(usage, "output_tokens"),
        )

    def _chat(self, prompt: Prompt) -> Completion:
        answer = self._client.chat.completions.create(
            model=self.name,
            messages=[
                {"role": "system", "content": prompt.instructions},
                {"role": "user", "content": prompt.text},
            ],
            max_tokens=self._settings.max_output_tokens,
        )
        details = getattr(answer.usage, "prompt_tokens_details", None)
        return Completion(
            answer.choices[0].message.content or "" if answer.choices else "",
            None,
            _count(answer.usage, "prompt_tokens"),
            _count(details, "cached_tokens"),
            _count(answer.usage, "completion_tokens"),
        )


def _count(usage: Any, name: str) -> int:
    """A count of tokens; 0 from a server that does not count."""
    return int(getattr(usage, name, None) or 0)


def make(settings: LanguageModelSettings) -> LanguageModel | None:
    """The model that the settings name; None for none."""
    return OpenAIModel(settings) if settings.kind == "openai" else None
