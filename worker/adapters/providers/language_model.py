"""Language models: any server with OpenAI's Responses API or Chat Completions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.providers.openai_api import Provider, counted
from worker.core.prompting.costs import Tokens, unbilled

if TYPE_CHECKING:
    from worker.core.prompting.costs import Paid
    from worker.settings.providers import LanguageModelSettings

_SERVER = "the language model's server"

# JSON from a server may hold these; UTF-8 or Postgres can't.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of a language model.

    Attributes:
        instructions: the task; ours or the operator's.
        text: the input of the task.
        previous_response_id: the answer to continue from, where the server stores answers.
        cache_key: shared by prompts with the same beginning, for the provider's prompt cache; at most 64 characters.
        keep: True: the server stores the answer, so that another can continue from it.
        seed: seed of the server's sampling; None: the server's own.
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
    """A language model's answer.

    Attributes:
        text: the answer.
        response_id: the server's id to continue from; None if it has none.
    """

    text: str
    response_id: str | None


class LanguageModel(Protocol):
    """A language model that answers prompts.

    Attributes:
        provider: its operator, for traces; only answers of the same provider can be continued.
        name: the model's name.
    """

    provider: str
    name: str

    def complete(self, prompt: Prompt, paid: Paid = unbilled) -> Completion:
        """Answer a prompt; ``paid`` is called with the usage, even if the answer is empty.

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
        """Answer a prompt; ``paid`` is called with the usage, even if the answer is empty.

        Raises:
            UnknownAnswer: the server no longer stores the answer to continue from.
            Unavailable: the server did not answer in time, or with no text.
            SettingsError: it refused the request.
        """
        try:
            ask = self._respond if self._settings.api == "responses" else self._chat
            text, response_id = ask(prompt, paid)
            text = _UNSTORABLE.sub("", text)
        except (AttributeError, TypeError, ValueError):  # the client accepts any body with status 200
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
            # The client's method has no seed; some servers accept one.
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


def _tokens(usage: Any, input_name: str, output_name: str) -> Tokens:
    """Read an answer's usage by the API's field names; a server may count more cached tokens than sent ones."""
    count = counted(usage, f"{input_name}_tokens")
    cached = counted(getattr(usage, f"{input_name}_tokens_details", None), "cached_tokens")
    return Tokens(count, counted(usage, f"{output_name}_tokens"), min(cached or 0, count or 0))


def make(settings: LanguageModelSettings) -> LanguageModel | None:
    """Return the model that the settings name; None for none."""
    return OpenAIModel(settings) if settings.kind == "openai" else None


class MissingModel:
    """A model that is not installed; each call raises the reason.

    Args:
        name: the model's name.
        error: the reason.
    """

    provider = "none"

    def __init__(self, name: str, error: SettingsError) -> None:
        self.name = name
        self._message = error.message

    def complete(self, prompt: Prompt, paid: Paid = unbilled) -> Completion:
        """Raise the `SettingsError`."""
        del prompt, paid
        raise SettingsError(self._message)


def make_or_missing(settings: LanguageModelSettings) -> LanguageModel | None:
    """Return the model that the settings name, or a `MissingModel` with the reason; None for none."""
    try:
        return make(settings)
    except SettingsError as error:
        return MissingModel(settings.model, error)
