"""A server with OpenAI's API: the client for it, what it counts, and its errors as ours."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from worker.adapters.providers.bodies import ACCEPTED, ELSEWHERE, Refused, read_body
from worker.adapters.providers.deadline import within
from worker.core.prompting.costs import MOST_TOKENS
from worker.errors import SettingsError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pydantic import SecretStr


BAD_REQUEST, NOT_FOUND = 400, 404


class Forgotten(SettingsError):
    """The server has no such answer to go on from any more: ask anew, without it."""


class ProviderSettings(Protocol):
    """What the settings of an embedder and of a language model have in common."""

    @property
    def base_url(self) -> str | None:
        """The server; None for OpenAI's own."""

    @property
    def api_key(self) -> SecretStr | None:
        """Its key."""

    @property
    def timeout_seconds(self) -> float:
        """Of one call, with its retries and their pauses."""

    @property
    def max_retries(self) -> int:
        """After 429, 5xx and lost connections; the client waits as `Retry-After` says."""

    @property
    def max_bytes(self) -> int:
        """Of an answer, packed and unpacked."""


class Provider:
    """Calls of a server with OpenAI's API, each within its time.

    Args:
        settings: server, key and limits.
        what: needs it, for the error message.
        server: how errors call the server.

    Raises:
        SettingsError: the package is not installed.
    """

    def __init__(self, settings: ProviderSettings, what: str, server: str) -> None:
        try:
            import openai  # noqa: PLC0415 -- an extra: only who uses it installs it
        except ImportError:
            raise SettingsError(f"{what} needs: pip install 'retrieval-worker[llm]'") from None
        self._server = server
        self._seconds = settings.timeout_seconds
        self._client = openai.AsyncOpenAI(
            api_key=settings.api_key.get_secret_value() if settings.api_key else "none",
            base_url=settings.base_url,
            timeout=None,
            max_retries=settings.max_retries,
            http_client=_bounded_client(openai, settings.max_bytes, self._impatient),
        )

    def call(
        self, make: Callable[[Any], Coroutine[Any, Any, Any]], goes_on: bool = False, seconds: float | None = None
    ) -> Any:
        """What a call answers.

        The text of the client's errors may quote what was sent, so only their class and status are passed on.

        Args:
            make: the call, of the client.
            goes_on: it names an earlier answer that it goes on from.
            seconds: for the call, where that is less than the settings allow.

        Raises:
            Forgotten: the server has no such earlier answer.
            Unavailable: it did not answer in time, or was busy, or failed.
            SettingsError: it refused the request: a key, a model or a field that it does not know.
        """
        import openai  # noqa: PLC0415 -- see above

        try:
            patience = self._seconds if seconds is None else min(seconds, self._seconds)
            return within(patience, lambda: make(self._client))
        except (TimeoutError, openai.APIConnectionError, openai.InternalServerError, openai.RateLimitError) as error:
            raise Unavailable(f"{self._server} failed ({type(error).__name__})") from None
        except openai.APIStatusError as error:
            if goes_on and _is_forgotten(error):
                raise Forgotten(f"{self._server} has forgotten the answer to go on from") from None
            if error.status_code < BAD_REQUEST:
                raise SettingsError(f"{self._server} redirects (HTTP {error.status_code}): {ELSEWHERE}") from None
            raise SettingsError(f"{self._server} refused the request (HTTP {error.status_code})") from None
        except (RecursionError, ValueError):  # of the client's JSON parser: nested without end, a number of a megabyte
            raise Unavailable(f"{self._server} answered JSON that can't be read") from None
        except openai.OpenAIError as error:
            if isinstance(error.__cause__, Refused):
                raise Unavailable(f"{self._server} {error.__cause__}") from None
            raise Unavailable(f"{self._server} failed ({type(error).__name__})") from None

    async def _impatient(self, response: Any) -> None:
        """Don't wait for a server that asks for more time than a call has: the queue has pauses of its own."""
        with contextlib.suppress(ValueError):  # the header may be a date as well; the call's time bounds that
            if float(response.headers.get("Retry-After", "0")) >= self._seconds:
                response.headers["x-should-retry"] = "false"  # which the client obeys


def _bounded_client(openai: Any, most: int, on_answer: Callable[[Any], Coroutine[Any, Any, None]]) -> Any:
    """Make the HTTP client of OpenAI's: it reads no more than so many bytes of an answer, and follows no redirect.

    A redirect would take the prompt to another server, and the key as well if it is the same host.
    """

    class Bounded(openai.DefaultAsyncHttpxClient):  # type: ignore[misc] # the package is an extra
        async def send(self, request: Any, **options: Any) -> Any:
            answer = await super().send(request, **{**options, "stream": True})
            try:
                content = await read_body(answer, most)
            except Refused as refused:
                raise openai.OpenAIError(str(refused)) from refused  # which the client does not try again
            finally:
                await answer.aclose()
            of_the_body = {"content-encoding", "content-length", "transfer-encoding"}
            headers = [(name, value) for name, value in answer.headers.multi_items() if name.lower() not in of_the_body]
            return type(answer)(answer.status_code, headers=headers, content=content, request=request)

    return Bounded(timeout=None, follow_redirects=False, headers=ACCEPTED, event_hooks={"response": [on_answer]})


def _is_forgotten(error: Any) -> bool:
    """OpenAI says 400 and names the field, others 404; of a model that is not there they will say so again."""
    named: bool = error.param == "previous_response_id" or error.code == "previous_response_not_found"
    status: int = error.status_code
    return status == NOT_FOUND or (status == BAD_REQUEST and named)


def counted(usage: Any, name: str) -> int | None:
    """A count of a server's answer; None from one that does not count, or can't."""
    count = usage.get(name) if isinstance(usage, dict) else getattr(usage, name, None)
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_TOKENS else None
