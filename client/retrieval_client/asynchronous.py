"""The client for asyncio: thousands of jobs may be waited for at once, over a few connections."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, overload

import redis
from redis import asyncio as redis_asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff
from redis.exceptions import RedisError
from typing_extensions import Self

from retrieval_client.connection import (
    BROKER,
    LOOK_SECONDS,
    OPTIONS,
    PAUSE_SECONDS,
    RETRIES,
    as_redis_reads,
    check_heard,
    place_of,
    refused,
)
from retrieval_client.contract.message import Record, compose_revoke, control_channel, record_key
from retrieval_client.jobs import (
    BaseClient,
    Outcome,
    Progress,
    Sent,
    Signer,
    TaskId,
    as_job,
    check_expiry,
    check_wait,
    is_news,
    new_id,
    progress_of,
    record_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from retrieval_client.contract.base import AnsweredBy, AnswerT
    from retrieval_client.contract.jobs import Job
    from retrieval_client.jobs import Claims

    Heard = asyncio.Queue[bytes | None]

CONNECTIONS = 16
"""Most connections to each Redis; who needs another one waits for it."""


class AsyncClient(BaseClient):
    """As `Client`, for one event loop; see `BaseClient` for its arguments.

    async with AsyncClient(broker_url, result_backend) as client:
        answer = await client.call(job)
    """

    def __init__(self, broker_url: str, result_backend: str | None = None, signer: Signer | None = None) -> None:
        super().__init__(broker_url, result_backend, signer)
        self._queues = _connected(broker_url)
        self._results = _connected(result_backend or broker_url)
        self.results_place = place_of(self._results.connection_pool.connection_kwargs)
        self._published = self._results.pubsub()
        self._listeners: dict[bytes, list[Heard]] = {}
        self._subscribing = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._reached_results = False

    async def enqueue(
        self,
        job: AnsweredBy[AnswerT],
        *,
        claims: Claims = None,
        task_id: str | None = None,
        expires: float | None = None,
    ) -> TaskId[AnswerT]:
        """Put a job on its queue; see `Client.enqueue`."""
        checked = as_job(job)
        made = new_id(checked, task_id)
        sent = self._composed(checked, claims, made, expires)
        if not self._reached_results:
            await self._look(made)
            self._reached_results = True
        await self._send(sent)
        return made

    @overload
    async def result(self, task_id: TaskId[AnswerT], timeout: float | None = None) -> AnswerT: ...
    @overload
    async def result(self, task_id: str, timeout: float | None = None) -> Any: ...
    async def result(self, task_id: str, timeout: float | None = None) -> Any:
        """Wait for a job's answer; see `Client.result`."""
        check_wait(timeout)
        async with self._listening(task_id) as heard:
            record = await self._wait(heard, task_id, timeout)
        return self._answer(task_id, record, timeout)

    @overload
    def results(
        self, task_ids: Iterable[TaskId[AnswerT]], timeout: float | None = None
    ) -> AsyncIterator[Outcome[AnswerT]]: ...
    @overload
    def results(self, task_ids: Iterable[str], timeout: float | None = None) -> AsyncIterator[Outcome[Any]]: ...
    async def results(self, task_ids: Iterable[str], timeout: float | None = None) -> AsyncIterator[Outcome[Any]]:
        """Wait for many jobs; yield how each ended, as they end; see `Client.results`."""
        check_wait(timeout)
        waits = [asyncio.create_task(self._ended(task_id, timeout)) for task_id in dict.fromkeys(task_ids)]
        try:
            for ended in asyncio.as_completed(waits):
                yield await ended
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    @overload
    async def call_many(
        self, jobs: Iterable[AnsweredBy[AnswerT]], *, claims: Claims = None, timeout: float | None = 30.0
    ) -> list[AnswerT]: ...
    @overload
    async def call_many(
        self, jobs: Iterable[Job], *, claims: Claims = None, timeout: float | None = 30.0
    ) -> list[Any]: ...
    async def call_many(self, jobs: Iterable[Any], *, claims: Claims = None, timeout: float | None = 30.0) -> list[Any]:
        """Enqueue jobs and wait for their answers, in the order of the jobs; see `Client.call_many`."""
        check_expiry(timeout)
        ids = [await self.enqueue(job, claims=claims, expires=timeout) for job in jobs]
        ended = {outcome.task_id: outcome async for outcome in self.results(ids, timeout)}
        return [ended[task_id].get() for task_id in ids]

    async def call(self, job: AnsweredBy[AnswerT], *, claims: Claims = None, timeout: float | None = 30.0) -> AnswerT:
        """Enqueue a job and wait for its answer; after ``timeout`` the job expires; see `Client.call`."""
        check_expiry(timeout)
        checked = as_job(job)
        task_id = new_id(checked)
        sent = self._composed(checked, claims, task_id, timeout)
        async with self._listening(task_id) as heard:
            await self._send(sent)
            record = await self._wait(heard, task_id, timeout)
        answer: AnswerT = self._answer(task_id, record, timeout)
        return answer

    async def progress(self, task_id: str) -> Progress:
        """Return the progress of a job; see `Client.progress`."""
        return progress_of(await self._look(task_id))

    async def watch(self, task_id: str, timeout: float | None = None) -> AsyncIterator[Progress]:
        """Yield the progress of a job as it changes; see `Client.watch`."""
        check_wait(timeout)
        before: Progress | None = None
        async with self._listening(task_id) as heard:
            async for record in self._records(heard, task_id, timeout):
                if record is not None and is_news(now := progress_of(record), before):
                    yield now
                    before = now

    async def cancel(self, task_id: str) -> None:
        """Ask the workers not to run a job that waits; see `Client.cancel`."""
        database = self._queues.connection_pool.connection_kwargs.get("db", 0)
        with self._reaching(BROKER), refused("cancel jobs: ask an operator to revoke it"):
            heard = await self._queues.publish(control_channel(database), compose_revoke(task_id))
        check_heard(heard)

    async def forget(self, task_id: str) -> None:
        """Delete a job's result before it expires; see `Client.forget`."""
        with self._reaching(self._results_setting), refused("delete results: they expire by themselves"):
            await self._results.delete(record_key(task_id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to Redis, as leaving its `async with` block does; a closed client stays closed."""
        if self._closed:
            return
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        await self._published.aclose()  # type: ignore[no-untyped-call] # redis-py has no types there
        await self._queues.aclose()
        await self._results.aclose()

    async def _send(self, sent: Sent) -> None:
        with self._reaching(BROKER):
            await self._queues.lpush(sent.queue, sent.message)

    @contextlib.asynccontextmanager
    async def _listening(self, task_id: str) -> AsyncIterator[Heard]:
        """Subscribe to a job's record, on the one connection that all jobs share."""
        channel, heard = record_key(task_id).encode(), asyncio.Queue[bytes | None]()
        try:
            with self._reaching(self._results_setting):
                async with self._subscribing:
                    listeners = self._listeners.setdefault(channel, [])
                    listeners.append(heard)
                    if len(listeners) == 1:
                        await self._published.subscribe(channel)
                    else:
                        heard.put_nowait(None)  # Subscribed already: nothing will confirm it.
                    self._reader = self._reader or asyncio.create_task(self._read())
            yield heard
        finally:
            await self._leave(channel, heard)

    async def _leave(self, channel: bytes, heard: Heard) -> None:
        """End a subscription, whatever became of it."""
        async with self._subscribing:
            listeners = self._listeners.get(channel, [])
            if heard not in listeners:
                return
            listeners.remove(heard)
            if not listeners:
                del self._listeners[channel]
                if not self._closed:
                    with contextlib.suppress(RedisError, OSError):
                        await self._published.unsubscribe(channel)

    @contextlib.contextmanager
    def _reaching(self, setting: str) -> Iterator[None]:
        """Speak to the Redis of a setting, and heed a cancellation that redis-py loses.

        Its `asyncio.wait_for` does so, until Python 3.12, if the cancellation comes together with the end of a write.
        """
        before = _cancellations()
        with super()._reaching(setting):
            yield
            if _cancellations() > before:
                raise asyncio.CancelledError

    async def _read(self) -> None:
        """Hand on what is published, and confirmations as None, for as long as the client is open."""
        while True:
            try:
                message = await self._published.get_message(timeout=LOOK_SECONDS)
            except (RedisError, OSError):
                # Whoever waits looks for itself, and hears there that Redis is away.
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if message is not None and message["type"] in {"subscribe", "message"}:
                data = message["data"] if message["type"] == "message" else None
                for heard in self._listeners.get(message["channel"], ()):
                    heard.put_nowait(data)

    async def _ended(self, task_id: str, timeout: float | None) -> Outcome[Any]:
        """Wait for the end of a job."""
        async with self._listening(task_id) as heard:
            record = await self._wait(heard, task_id, timeout)
        return self._outcome(task_id, record, timeout)

    async def _wait(self, heard: Heard, task_id: str, timeout: float | None) -> Record | None:
        """Wait for the end of a job; None: too late."""
        async for record in self._records(heard, task_id, timeout):
            if record is None or record.ended:
                return record
        return None

    async def _records(self, heard: Heard, task_id: str, timeout: float | None) -> AsyncIterator[Record | None]:
        """Yield a job's record: published, or stored, which is looked at from time to time; None at last: too late."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            data = await _next(heard, max(0.0, min(left, LOOK_SECONDS)))
            record = await self._look(task_id) if data is None else record_of(data)
            yield record
            if record.ended:
                return
            if left <= 0:
                yield None
                return

    async def _look(self, task_id: str) -> Record:
        """Read a job's record as it is stored."""
        with self._reaching(self._results_setting):
            return record_of(await self._results.get(record_key(task_id)))


def _cancellations() -> int:
    """Return how often the current task was cancelled; always 0 in Python 3.10, which does not count."""
    return getattr(asyncio.current_task(), "cancelling", int)()


async def _next(heard: Heard, seconds: float) -> bytes | None:
    """Wait for a record that is published; None: it is time to look."""
    # `asyncio.wait_for` loses a cancellation that comes together with what it waits for, until Python 3.12.
    later = asyncio.get_running_loop().call_later(seconds, heard.put_nowait, None)
    try:
        return await heard.get()
    finally:
        later.cancel()


def _connected(url: str) -> redis_asyncio.Redis:
    """Return Redis at a URL, which is connected to when it is first asked."""
    retry = Retry(ConstantBackoff(PAUSE_SECONDS), RETRIES)
    lost = [redis.ConnectionError, redis.TimeoutError]
    pool = redis_asyncio.BlockingConnectionPool.from_url(
        as_redis_reads(url), **OPTIONS, retry=retry, retry_on_error=lost, max_connections=CONNECTIONS
    )
    return redis_asyncio.Redis.from_pool(pool)
