"""The records of jobs as Redis publishes them, to those that wait: by one connection in an event loop, one a thread.

A lost connection is never mended, but replaced; what was published meanwhile is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

import redis

from retrieval_client.connection import LOOK_SECONDS, PAUSE_SECONDS
from retrieval_client.contract.message import record_key, task_id_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from redis import asyncio as redis_asyncio
    from redis.asyncio.client import PubSub as AsyncPubSub
    from redis.client import PubSub

    Published = tuple[str, bytes]


def _channels(task_ids: Iterable[str]) -> set[bytes]:
    return {record_key(task_id).encode() for task_id in task_ids}


class AsyncListener:
    """A wait for some jobs.

    Attributes:
        unconfirmed: channels that Redis has not confirmed: what ended before is stored when it has confirmed them all.
    """

    def __init__(self, subscription: AsyncSubscription, channels: set[bytes]) -> None:
        self._subscription = subscription
        self._queue: asyncio.Queue[Published | None] = asyncio.Queue()
        self.unconfirmed = channels
        self.wake()

    def wake(self) -> None:
        """Have it look, once Redis has confirmed all its channels."""
        if not self.unconfirmed:
            self._queue.put_nowait(None)

    def publish(self, task_id: str, record: bytes) -> None:
        """Hand it a record."""
        self._queue.put_nowait((task_id, record))

    async def next(self, seconds: float) -> Published | None:
        """Wait for a record that is published; None: it is time to look.

        Raises:
            redis.ConnectionError: there is no connection, nor was the last attempt to make one successful.
        """
        # `asyncio.wait_for` loses a cancellation that comes together with what it waits for, until Python 3.12.
        timer = asyncio.get_running_loop().call_later(seconds, self._queue.put_nowait, None)
        try:
            published = await self._queue.get()
        finally:
            timer.cancel()
        if published is None:
            self._subscription.check()
        return published


class AsyncSubscription:
    """The subscription of a client, on the connection that all its waits share.

    One task writes to that connection and one reads, and both end with it: whatever redis-py raises stays there.
    """

    def __init__(self, connections: redis_asyncio.Redis) -> None:
        """Take connections that are not made again when they are lost: this subscribes again."""
        self._connections = connections
        self._listeners: dict[bytes, list[AsyncListener]] = {}
        self._confirmed: set[bytes] = set()
        self._changed: set[bytes] = set()
        self._wake = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._loss: Exception | None = None
        self._losses = 0
        self._closed = False

    @contextlib.contextmanager
    def listening(self, task_ids: Iterable[str]) -> Iterator[AsyncListener]:
        """Listen to the records of jobs."""
        channels = _channels(task_ids)
        listener = AsyncListener(self, channels - self._confirmed)
        for channel in channels:
            self._listeners.setdefault(channel, []).append(listener)
        self._change(channels)
        try:
            yield listener
        finally:
            self._leave(listener, channels)

    def check(self) -> None:
        """Raise `redis.ConnectionError` while a connection that was lost can't be replaced."""
        if self._losses > 1:
            raise redis.ConnectionError("the subscription is lost") from self._loss

    async def close(self) -> None:
        """End the connection, and wake those that wait."""
        self._closed = True
        if self._owner is not None:
            self._owner.cancel()
            self._wake.set()
            await asyncio.gather(self._owner, return_exceptions=True)
        for listener in {listener for listeners in self._listeners.values() for listener in listeners}:
            listener.unconfirmed.clear()
            listener.wake()
        await self._connections.aclose()

    def _leave(self, listener: AsyncListener, channels: set[bytes]) -> None:
        for channel in channels:
            listeners = self._listeners[channel]
            listeners.remove(listener)
            if not listeners:
                del self._listeners[channel]
        self._change(channels)

    def _change(self, channels: set[bytes]) -> None:
        """Have the owner subscribe and unsubscribe."""
        self._changed |= channels
        self._wake.set()
        if not self._closed and (self._owner is None or self._owner.done()):
            self._owner = asyncio.create_task(self._own())

    async def _own(self) -> None:
        """Keep a connection that is subscribed, as long as the client is open."""
        while not self._closed:
            published = self._connections.pubsub()
            try:
                await self._use(published)
            except Exception as loss:  # noqa: BLE001 -- redis-py raises RuntimeError and AttributeError as well
                self._loss, self._losses = loss, self._losses + 1
            with contextlib.suppress(Exception):
                await published.aclose()  # type: ignore[no-untyped-call] # redis-py has no types there
            if self._losses > 1:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _use(self, published: AsyncPubSub) -> None:
        """Subscribe a new connection to all that is listened to, and to each change, until it is lost."""
        await published.connect()  # type: ignore[no-untyped-call] # redis-py has no types there
        self._begin_again()
        reading = asyncio.create_task(self._read(published))
        reading.add_done_callback(lambda _: self._wake.set())
        subscribed: set[bytes] = set()
        try:
            while not (reading.done() or self._closed):
                await self._write(published, subscribed)
                await self._wake.wait()
        finally:
            reading.cancel()
            await asyncio.wait([reading], timeout=PAUSE_SECONDS)
        if not reading.cancelled():
            raise reading.result()

    def _begin_again(self) -> None:
        """Forget what the connection before was subscribed to."""
        self._confirmed.clear()
        self._changed = {*self._listeners}
        for channel, listeners in self._listeners.items():
            for listener in listeners:
                listener.unconfirmed.add(channel)

    async def _write(self, published: AsyncPubSub, subscribed: set[bytes]) -> None:
        """Subscribe to what is new, unsubscribe from what nobody listens to any more."""
        self._wake.clear()
        changed, self._changed = self._changed, set()
        new = {channel for channel in changed if channel in self._listeners} - subscribed
        old = {channel for channel in changed if channel not in self._listeners} & subscribed
        subscribed ^= new | old
        self._confirmed -= old
        if new:
            await published.subscribe(*new)
        if old:
            await published.unsubscribe(*old)

    async def _read(self, published: AsyncPubSub) -> Exception:
        """Hand on what is published, and what is confirmed; return the error that ends the connection."""
        try:
            while True:
                message = await published.get_message(timeout=LOOK_SECONDS)
                self._losses = 0
                if message is not None:
                    self._hand_on(message)
        except Exception as error:  # noqa: BLE001 -- as in `_own`
            return error

    def _hand_on(self, message: dict[str, Any]) -> None:
        channel = message["channel"]
        if message["type"] == "message":
            for listener in self._listeners.get(channel, ()):
                listener.publish(task_id_of(channel), message["data"])
        elif message["type"] == "subscribe":
            self._confirmed.add(channel)
            for listener in self._listeners.get(channel, ()):
                listener.unconfirmed.discard(channel)
                listener.wake()


class Listener:
    """A wait of a thread for some jobs, on a connection that is its own meanwhile."""

    def __init__(self, subscription: Subscription, channels: set[bytes]) -> None:
        self._subscription = subscription
        self._channels = channels
        self._unconfirmed = {*channels}
        self._lost = False
        self._published: PubSub | None = None

    def next(self, seconds: float) -> Published | None:
        """Wait for a record that is published; None: it is time to look.

        Raises:
            redis.RedisError: there is no connection, nor was the last attempt to make one successful.
        """
        until = time.monotonic() + seconds
        while message := self._message(max(0.0, until - time.monotonic())):
            channel = message["channel"]
            if channel in self._channels and message["type"] == "message":
                return task_id_of(channel), message["data"]
            if channel in self._unconfirmed and message["type"] == "subscribe":
                self._lost = False
                self._unconfirmed.discard(channel)
                if not self._unconfirmed:
                    break
        return None

    def leave(self) -> None:
        """Unsubscribe; the connection is kept for the next wait."""
        published, self._published = self._published, None
        if published is not None:
            try:
                published.unsubscribe()  # type: ignore[no-untyped-call] # redis-py has no types there
            except (redis.RedisError, OSError):
                published.close()
            else:
                self._subscription.give_back(published)

    def drop(self) -> None:
        """End the connection."""
        published, self._published = self._published, None
        if published is not None:
            published.close()

    def _message(self, seconds: float) -> Any:
        try:
            return self._subscribed().get_message(timeout=seconds)
        except (redis.RedisError, OSError):
            self.drop()
            if self._lost:
                time.sleep(min(seconds, PAUSE_SECONDS))
                raise
            self._lost = True
            return None

    def _subscribed(self) -> PubSub:
        if self._published is None:
            self._published = self._subscription.take()
            self._unconfirmed = {*self._channels}
            self._published.subscribe(*self._channels)
        return self._published


class Subscription:
    """The connections of a client by which its threads listen: each its own, used again by the next wait."""

    def __init__(self, connections: redis.Redis) -> None:
        """Take connections that are not made again when they are lost: a listener subscribes again."""
        self._connections = connections
        self._idle: list[PubSub] = []
        self._process = os.getpid()
        self._closed = False

    @contextlib.contextmanager
    def listening(self, task_ids: Iterable[str]) -> Iterator[Listener]:
        """Listen to the records of jobs."""
        listener = Listener(self, _channels(task_ids))
        try:
            yield listener
        except BaseException:
            listener.drop()
            raise
        listener.leave()

    def take(self) -> PubSub:
        """Return a connection, if possible one that is idle."""
        if self._process != os.getpid():
            # Connections of the process that this one was forked from are its own.
            self._idle, self._process = [], os.getpid()
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        published: PubSub = self._connections.pubsub()  # type: ignore[no-untyped-call] # redis-py has no types there
        return published

    def give_back(self, published: PubSub) -> None:
        """Keep a connection for the next wait."""
        if self._closed:
            published.close()
        else:
            self._idle.append(published)

    def close(self) -> None:
        """End all connections."""
        self._closed = True
        idle, self._idle = self._idle, []
        for published in idle:
            published.close()
        self._connections.close()
