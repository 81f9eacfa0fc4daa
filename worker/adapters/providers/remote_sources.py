"""Remote sources: search services over HTTP; their results are untrusted and their time is limited."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import jmespath
import orjson

from worker.adapters.providers.addresses import resolve
from worker.adapters.providers.http_client import Fetcher, UnusableResponse, within
from worker.core.text.cleaning import one_line
from worker.model import RemoteSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.providers.http_client import Resolve
    from worker.settings.providers import RemoteSettings

LONGEST = {"question": 1000, "title": 300, "url": 2000, "snippet": 2000, "metadata": 300}
"""Maximum characters of each part that is sent or kept."""

MOST_RESULTS = 5
"""Most results of a source: as many as a search takes of a corpus by default. A smaller ``k`` of the job counts."""

_MOST_METADATA = 20


@dataclass(frozen=True, slots=True)
class RemoteResults:
    """Results of remote sources.

    Attributes:
        sources: the results, in the order of the services, then in each service's order.
        failed: (service, reason) of those that failed; a reason names no URL and quotes nothing.
        skipped: service → number of its results without a URL or a snippet.
    """

    sources: tuple[RemoteSource, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def incomplete(self) -> list[str]:
        """Describe the skipped results for a trace."""
        return [f"{name}: {count} results without a URL or a snippet" for name, count in self.skipped.items()]


class RemoteSources:
    """Client of the services that settings name.

    Args:
        settings: settings of the services, by name.
        resolve: function that resolves hosts.
    """

    def __init__(self, settings: Mapping[str, RemoteSettings], resolve: Resolve = resolve) -> None:
        self._services = {name: _Service(name, service_settings) for name, service_settings in settings.items()}
        self._fetcher = Fetcher(resolve)

    def find(self, names: Sequence[str], question: str, k: int, seconds: float) -> RemoteResults:
        """Search the named services concurrently. One that fails or is late is reported and left out.

        Args:
            names: names in the settings, in the order of the answer.
            question: its first 1,000 characters are sent.
            k: number of results of each service; settings may lower it.
            seconds: for all of them; settings may give each one less.
        """
        services = [self._services[name] for name in dict.fromkeys(names)]
        if not services or k < 1:
            return RemoteResults()

        async def search_all() -> list[RemoteResults]:
            return await asyncio.gather(*(self._search(service, question, k, seconds) for service in services))

        service_results = within(None, search_all)
        return RemoteResults(
            tuple(source for service_result in service_results for source in service_result.sources),
            tuple(failure for service_result in service_results for failure in service_result.failed),
            {name: count for service_result in service_results for name, count in service_result.skipped.items()},
        )

    async def _search(self, service: _Service, question: str, k: int, seconds: float) -> RemoteResults:
        try:
            async with asyncio.timeout(min(seconds, service.settings.timeout_seconds)):
                content = await self._fetcher.get(service.url(question, k), service.settings)
            return service.read(content, k)
        except TimeoutError:
            reason = "did not answer in time"
        except UnusableResponse as error:
            reason = str(error)
        return RemoteResults(failed=((service.name, reason),))


class _Service:
    """One service: its request, and the reading of its response."""

    def __init__(self, name: str, settings: RemoteSettings) -> None:
        self.name = name
        self.settings = settings
        self._items = jmespath.compile(settings.items)
        self._fields = {
            field: jmespath.compile(expression)
            for field, expression in settings.fields.model_dump().items()
            if expression is not None
        }

    def url(self, question: str, k: int) -> str:
        """Return the URL of a request; the question only becomes part of the query string."""
        words = quote(question[: LONGEST["question"]], safe="", errors="replace")
        return self.settings.url.replace("{query}", words).replace("{k}", str(min(k, MOST_RESULTS)))

    def read(self, content: bytes, k: int) -> RemoteResults:
        """Read the first results of a response.

        Raises:
            UnusableResponse: it is not JSON, or has no list at the configured place.
        """
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            raise UnusableResponse("did not answer JSON") from None
        items = _search(self._items, answer)
        if not isinstance(items, list):
            raise UnusableResponse("answered no list of results where the settings say")
        # At most ``k``: each one costs time, and a service may ignore the requested number.
        parsed_items = [self._source(item) for item in items[: min(k, MOST_RESULTS)]]
        skipped = parsed_items.count(None)
        sources = tuple(source for source in parsed_items if source is not None)
        return RemoteResults(sources, (), {self.name: skipped} if skipped else {})

    def _source(self, item: Any) -> RemoteSource | None:
        fields = {field: _search(expression, item) for field, expression in self._fields.items()}
        url, snippet = _url(fields["url"]), _text(fields["snippet"], "snippet")
        if not url or not snippet:
            return None
        title, score, day = _text(fields["title"], "title"), _number(fields.get("score")), _date(fields.get("date"))
        return RemoteSource(self.name, title, url, snippet, score, day, _metadata(fields.get("metadata")))


def _search(expression: Any, data: Any) -> Any:
    """Evaluate an expression; None where the data is of another type than it expects."""
    try:
        return expression.search(data)
    except (ValueError, TypeError, ArithmeticError):
        return None


def _text(value: Any, field: str) -> str:
    return one_line(value, LONGEST[field]) if isinstance(value, str) else ""


def _url(value: Any) -> str:
    """Return a URL that a reader can open; ``""`` if it is cut or of another scheme."""
    if not isinstance(value, str) or len(value) > LONGEST["url"] or one_line(value, len(value)) != value:
        return ""
    try:
        split_url = urlsplit(value)
    except ValueError:
        return ""
    return value if split_url.scheme in {"http", "https"} and split_url.hostname and " " not in value else ""


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def _date(value: Any) -> str | None:
    """Return a date or a time in ISO 8601; None if it is neither."""
    for kind in (date, datetime):
        try:
            return kind.fromisoformat(value).isoformat()
        except (ValueError, TypeError):
            continue
    return None


def _metadata(value: Any) -> dict[str, Any]:
    """Return the fields that are texts, numbers or booleans; nested values are left out."""
    if not isinstance(value, dict):
        return {}
    plain = {one_line(name, 100): item for name, item in value.items() if isinstance(item, str | int | float)}
    return {
        name: one_line(item, LONGEST["metadata"]) if isinstance(item, str) else item
        for name, item in list(plain.items())[:_MOST_METADATA]
    }
