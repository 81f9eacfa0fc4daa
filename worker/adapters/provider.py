"""A server with OpenAI's API: the client for it, and its errors as ours."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from worker.errors import SettingsError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import SecretStr


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
        """Of one request."""

    @property
    def max_retries(self) -> int:
        """After 429, 5xx and lost connections; the client waits as `Retry-After` says."""


def client(settings: ProviderSettings, what: str) -> Any:
    """An `openai.OpenAI` for these settings.

    Args:
        settings: server, key and limits.
        what: needs it, for the error message.

    Raises:
        SettingsError: the package is not installed.
    """
    try:
        import openai  # noqa: PLC0415 -- an extra: only who uses it installs it
    except ImportError:
        raise SettingsError(f"{what} needs: pip install 'retrieval-worker[llm]'") from None
    return openai.OpenAI(
        api_key=settings.api_key.get_secret_value() if settings.api_key else "none",
        base_url=settings.base_url,
        timeout=settings.timeout_seconds,
        max_retries=settings.max_retries,
    )


@contextlib.contextmanager
def provider_errors(what: str) -> Iterator[None]:
    """The client's errors as ours; their text may quote what was sent, so only class and status are passed on.

    Raises:
        Unavailable: the server did not answer, or was busy, or failed.
        SettingsError: it refused the request: a key, a model or a field that it does not know.
    """
    import openai  # noqa: PLC0415 -- see `client`

    try:
        yield
    except (openai.APIConnectionError, openai.InternalServerError, openai.RateLimitError) as error:
        raise Unavailable(f"{what} failed ({type(error).__name__})") from None
    except openai.APIStatusError as error:
        raise SettingsError(f"{what} refused the request (HTTP {error.status_code})") from None
    except openai.OpenAIError as error:
        raise Unavailable(f"{what} failed ({type(error).__name__})") from None
