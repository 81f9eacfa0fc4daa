"""Client of servers with OpenAI's API: calls, usage counts and errors."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.providers.bodies import ACCEPTED, ELSEWHERE, UnusableResponse, read_body
from worker.adapters.providers.deadline import within
from worker.core.prompting.costs import MOST_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pydantic import SecretStr


BAD_REQUEST, NOT_FOUND = 400, 404


class UnknownAnswer(SettingsError):
    """The server no longer stores the answer to continue from: ask again without it."""


class ProviderSettings(Protocol):
    """Settings that embedders and language models have in common."""

    @property
    def base_url(self) -> str | None:
        """URL of the server; None for OpenAI's own."""

    @property
    def api_key(self) -> SecretStr | None:
        """API key of the server."""

    @property
    def timeout_seconds(self) -> float:
        """Time limit of one call, with its retries and their pauses."""

    @property
    def max_retries(self) -> int:
        """Maximum retries after 429, 5xx and lost connections; the client obeys `Retry-After`."""

    @property
    def max_bytes(self) -> int:
        """Maximum size of an answer, compressed and decompressed."""


class Provider:
    """A server with OpenAI's API; each call has a time limit.

    Args:
        settings: server, key and limits.
        setting_name: the setting that needs it, for the error message.
        server: the server's name in errors.

    Raises:
        SettingsError: the package is not installed.
    """

    def __init__(self, settings: ProviderSettings, setting_name: str, server: str) -> None:
        try:
            import openai  # noqa: PLC0415 -- an extra: only who uses it installs it
        except ImportError:
            raise SettingsError(f"{setting_name} needs: pip install 'retrieval-worker[llm]'") from None
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
        """Make a call and return its answer.

        The text of the client's errors may quote the request, so only their class and status are passed on.

        Args:
            make: function that makes the call with the client.
            goes_on: True if it names an earlier answer to continue from.
            seconds: time limit of the call, where it is below that of the settings.

        Raises:
            UnknownAnswer: the server no longer stores the earlier answer.
            Unavailable: it did not answer in time, or was busy, or failed.
            SettingsError: it refused the request: the key, the model or a field is unknown.
        """
        import openai  # noqa: PLC0415 -- see above

        try:
            patience = self._seconds if seconds is None else min(seconds, self._seconds)
            return within(patience, lambda: make(self._client))
        except (TimeoutError, openai.APIConnectionError, openai.InternalServerError, openai.RateLimitError) as error:
            raise Unavailable(f"{self._server} failed ({type(error).__name__})") from None
        except openai.APIStatusError as error:
            if goes_on and _is_forgotten(error):
                raise UnknownAnswer(f"{self._server} no longer stores the answer to continue from") from None
            if error.status_code < BAD_REQUEST:
                raise SettingsError(f"{self._server} redirects (HTTP {error.status_code}): {ELSEWHERE}") from None
            raise SettingsError(f"{self._server} refused the request (HTTP {error.status_code})") from None
        except (RecursionError, ValueError, OverflowError):  # of the client: nested too deep, numbers too long or large
            raise Unavailable(f"{self._server} answered JSON that can't be read") from None
        except openai.OpenAIError as error:
            if isinstance(error.__cause__, UnusableResponse):
                raise Unavailable(f"{self._server} {error.__cause__}") from None
            raise Unavailable(f"{self._server} failed ({type(error).__name__})") from None

    async def _impatient(self, response: Any) -> None:
        """Disable a retry that the server delays beyond the call's time limit: the queue has its own pauses."""
        with contextlib.suppress(ValueError):  # the header may be a date as well; the call's time bounds that
            if float(response.headers.get("Retry-After", "0")) >= self._seconds:
                response.headers["x-should-retry"] = "false"  # which the client obeys


def _bounded_client(openai: Any, byte_limit: int, on_answer: Callable[[Any], Coroutine[Any, Any, None]]) -> Any:
    """Create the HTTP client for OpenAI's: it reads at most ``byte_limit`` bytes of an answer and follows no redirect.

    A redirect would take the prompt to another server, and the key as well if it is the same host.
    """

    class Bounded(openai.DefaultAsyncHttpxClient):  # type: ignore[misc] # the package is an extra
        async def send(self, request: Any, **options: Any) -> Any:
            answer = await super().send(request, **{**options, "stream": True})
            try:
                content = await read_body(answer, byte_limit)
            except UnusableResponse as refused:
                raise openai.OpenAIError(str(refused)) from refused  # which the client does not try again
            finally:
                await answer.aclose()
            of_the_body = {"content-encoding", "content-length", "transfer-encoding"}
            headers = [(name, value) for name, value in answer.headers.multi_items() if name.lower() not in of_the_body]
            return type(answer)(answer.status_code, headers=headers, content=content, request=request)

    return Bounded(timeout=None, follow_redirects=False, headers=ACCEPTED, event_hooks={"response": [on_answer]})


def _is_forgotten(error: Any) -> bool:
    """Return whether the earlier answer is unknown: OpenAI answers 400 with the field's name, others 404."""
    is_named: bool = error.param == "previous_response_id" or error.code == "previous_response_not_found"
    status: int = error.status_code
    return status == NOT_FOUND or (status == BAD_REQUEST and is_named)


def counted(usage: Any, name: str) -> int | None:
    """Read a count of a server's answer; None if it is missing or invalid."""
    count = usage.get(name) if isinstance(usage, dict) else getattr(usage, name, None)
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_TOKENS else None
