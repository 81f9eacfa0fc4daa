"""Both clients called alike, so that the same tests run over both."""

from __future__ import annotations

import contextlib
import inspect
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from retrieval_client import AsyncClient, Client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    import redis


class Awaited:
    """A client for asyncio, to be called as one that blocks: from any thread, while its event loop runs in another."""

    def __init__(self, client: AsyncClient, portal: BlockingPortal) -> None:
        self._client, self._portal = client, portal

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._client, name)
        if inspect.iscoroutinefunction(member):
            return lambda *args, **options: self._portal.call(partial(member, *args, **options))
        if inspect.isasyncgenfunction(member):
            return lambda *args, **options: self._each(member(*args, **options))
        return member

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _each(self, items: AsyncGenerator[Any, None]) -> Iterator[Any]:
        try:
            while (item := self._portal.call(anext, items, None)) is not None:
                yield item
        finally:
            self._portal.call(items.aclose)


@contextlib.contextmanager
def called_alike(kind: type[Client | AsyncClient]) -> Iterator[Callable[..., Any]]:
    """Make clients of a kind that are called as the one that blocks; all are closed at the end."""
    with start_blocking_portal() as portal, contextlib.ExitStack() as clients:

        def make(*args: Any, **options: Any) -> Any:
            client = kind(*args, **options)
            return clients.enter_context(Awaited(client, portal) if isinstance(client, AsyncClient) else client)

        yield make


def refusal(name: str) -> str:
    """Return the record of a job that is refused in its own name."""
    return json.dumps({"status": "FAILURE", "result": {"exc_type": "InvalidJob", "exc_message": [name]}})


def refuse(store: redis.Redis, task_id: str, name: str = "") -> None:
    """Store and publish the record of a job that is refused in its own name, or in another."""
    key, record = f"celery-task-meta-{task_id}", refusal(name or task_id)
    store.set(key, record)
    store.publish(key, record)
