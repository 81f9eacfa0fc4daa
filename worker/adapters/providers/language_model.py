"""Language models: any server with OpenAI's Responses API or Chat Completions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.providers.http_client import Server, counted, field_of
from worker.core.prompting.costs import Tokens, unbilled

if TYPE_CHECKING:
    import httpx

    from worker.core.prompting.costs import Paid
    from worker.settings.providers import LanguageModelSettings

_SERVER = "the language model's server"

BAD_REQUEST, NOT_FOUND = 400, 404

# JSON from a server may hold these; UTF-8 or Postgres can't.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class UnknownAnswer(SettingsError):
    """The server no longer stores the answer to continue from: ask again without it."""


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


class LanguageModel:
    """A language model behind OpenAI's API.

    Args:
        settings: model, server, key and limits.

    Attributes:
        provider: its operator, for traces; only answers of the same provider can be continued.
        name: the model's name.
    """

    provider = "openai"

    def __init__(self, settings: LanguageModelSettings) -> None:
        self.name = settings.model
        self._settings = settings
        self._server = Server(_SERVER, settings.base_url, settings)

    def complete(self, prompt: Prompt, paid: Paid = unbilled) -> Completion:
        """Answer a prompt; ``paid`` is called with the usage, even if the answer is empty.

        Raises:
            UnknownAnswer: the server no longer stores the answer to continue from.
            Unavailable: the server did not answer in time, or with no text.
            SettingsError: it refused the request.
        """
        ask = self._respond if self._settings.api == "responses" else self._chat
        with self._server.reading("a text"):
            text, response_id = ask(prompt, paid)
            text = _UNSTORABLE.sub("", text)
        if not text.strip():
            raise Unavailable(f"{_SERVER} answered nothing")
        return Completion(text, response_id)

    def _respond(self, prompt: Prompt, paid: Paid) -> tuple[str, str | None]:
        body = {
            "instructions": prompt.instructions,
            "input": prompt.text,
            "max_output_tokens": self._settings.max_output_tokens,
            "store": prompt.keep,
            "previous_response_id": prompt.previous_response_id,
            "prompt_cache_key": prompt.cache_key,
            "prompt_cache_retention": self._settings.prompt_cache_retention if prompt.cache_key else None,
        }
        response = self._server.exchange("responses", self._request(body, prompt))
        if prompt.previous_response_id is not None and _is_forgotten(response):
            raise UnknownAnswer(f"{_SERVER} no longer stores the answer to continue from")
        reply = self._server.read(response)
        items = reply["output"]
        paid(self.provider, self.name, _tokens(reply, "input", "output"))
        contents = [content for item in items if item["type"] == "message" for content in item["content"]]
        text = "".join(content["text"] for content in contents if content["type"] == "output_text")
        return text, reply.get("id") if prompt.keep else None

    def _chat(self, prompt: Prompt, paid: Paid) -> tuple[str, None]:
        messages = [{"role": "system", "content": prompt.instructions}, {"role": "user", "content": prompt.text}]
        body = {"messages": messages, "max_tokens": self._settings.max_output_tokens}
        reply = self._server.post("chat/completions", self._request(body, prompt))
        choices = reply["choices"]
        paid(self.provider, self.name, _tokens(reply, "prompt", "completion"))
        return choices[0]["message"]["content"] or "" if choices else "", None

    def _request(self, body: dict[str, Any], prompt: Prompt) -> dict[str, Any]:
        """Return a request without the fields that are unset."""
        fields = {"model": self.name, **body, "seed": prompt.seed, "temperature": prompt.temperature}
        return {name: value for name, value in fields.items() if value is not None}


def _is_forgotten(response: httpx.Response) -> bool:
    """Return whether the earlier answer is unknown: OpenAI answers 400 with the field's name, others 404."""
    if response.status_code != BAD_REQUEST:
        return response.status_code == NOT_FOUND
    try:
        reply = response.json()
    except (ValueError, RecursionError):
        return False
    causes = [("param", "previous_response_id"), ("code", "previous_response_not_found")]
    return any(field_of(reply, "error", name) == cause for name, cause in causes)


def _tokens(reply: Any, input_name: str, output_name: str) -> Tokens:
    """Read a reply's usage by the API's field names; a server may count more cached tokens than sent ones."""
    count = counted(reply, "usage", f"{input_name}_tokens")
    cached = counted(reply, "usage", f"{input_name}_tokens_details", "cached_tokens")
    return Tokens(count, counted(reply, "usage", f"{output_name}_tokens"), min(cached or 0, count or 0))


def make(settings: LanguageModelSettings) -> LanguageModel | None:
    """Return the model that the settings name; None for none."""
    return LanguageModel(settings) if settings.kind == "openai" else None
