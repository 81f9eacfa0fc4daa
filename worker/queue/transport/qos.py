"""Unacknowledged deliveries, as kombu's consumers see them."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import redis
from kombu.transport import redis as kombu_redis
from kombu.transport import virtual

from worker.adapters import logs
from worker.queue.transport import keys, unacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from worker.queue.transport.inspection import Delivery, Refusal
    from worker.queue.transport.owners import Heart
    from worker.queue.transport.unacked import UnackedMessage

log = logs.logger("worker.transport")

_UNLIMITED = 2**31

BROKEN = (redis.RedisError, OSError)
"""Errors after which it is not known what Redis has executed."""


class Message(virtual.Message):
    """Delivered message with a decoded body."""

    def __init__(self, payload: dict[str, Any], channel: Any = None, **options: Any) -> None:
        super().__init__(payload, channel=channel, **options)
        content = payload.get("content")
        if content is not None:
            self._decoded_cache = content
            self.content_type, self.content_encoding = "application/json", "utf-8"


class Commands(Protocol):
    """Commands to Redis that deliveries need of their channel; see `worker.queue.transport.channel.Channel`."""

    is_left: bool

    @property
    def on_hand(self) -> int:
        """Number of claimed messages that were not inspected yet."""

    @property
    def qos(self) -> Any:
        """The channel's own deliveries."""

    def conn_or_acquire(self) -> Any:
        """Return a client for non-blocking commands, as a context manager."""

    def suspect_connections(self) -> None:
        """Reconnect everything."""

    def acknowledge(self, done: Sequence[unacked.Acknowledgement]) -> None:
        """Acknowledge deliveries."""

    def dead_letter_delivered(self, tag: str, refusal: Refusal) -> None:
        """Dead-letter an unacknowledged message."""


class QoS(kombu_redis.QoS):
    """Unacknowledged deliveries: in Redis since the claim, here by tag.

    It belongs to the worker, not to a connection: a channel that begins to consume takes it over from a lost one.
    Commands that Redis does not receive, or refuses, are kept and sent again at the next maintenance.

    Attributes:
        channel: channel for commands to Redis.
        heart: keeps the owners of the deliveries alive; None until the first claim.
    """

    channel: Commands

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.heart: Heart | None = None
        self._owed: dict[str, Callable[[], object]] = {}
        self._condemned: dict[str, Refusal] = {}
        self._blamed: set[str] = set()
        self._apart: set[str] = set()
        self._waiting: set[str] = set()
        self._done_together: dict[str, unacked.Acknowledgement] | None = None

    def append(self, message: Message, delivery_tag: str) -> None:
        """Add a delivery that `Channel` has recorded as unacknowledged already."""
        virtual.QoS.append(self, message, delivery_tag)

    def dead_letter_on_ack(self, delivery_tag: str, refusal: Refusal) -> None:
        """Dead-letter a message when it is acknowledged."""
        self._condemned[delivery_tag] = refusal

    def blame(self, delivery_tag: str) -> None:
        """Count a delivery when the message is requeued: its job began, and its process died unrequested."""
        self._blamed.add(delivery_tag)

    def set_apart(self, delivery_tag: str) -> None:
        """Let a message run alone when it is requeued: it was in a bundle whose process died, perhaps of another."""
        self._apart.add(delivery_tag)

    def mark_waiting(self, delivery_tag: str) -> None:
        """Mark a job that waits for an idle process: if this worker dies meanwhile, the delivery does not count."""
        if delivery_tag not in self._delivered or delivery_tag in self._waiting:
            return
        self._waiting.add(delivery_tag)
        self._tell("a waiting job", unacked.mark_waiting, delivery_tag)

    def mark_begun(self, delivery_tag: str) -> None:
        """Mark a job that a process begins; no command is sent for a job that did not have to wait."""
        if delivery_tag in self._waiting:
            self._waiting.discard(delivery_tag)
            self._tell("a job that begins", unacked.mark_begun, delivery_tag)

    def _tell(self, what: str, mark: Callable[[redis.Redis, str], None], delivery_tag: str) -> None:
        """Mark a delivery if Redis is available: a lost mark only makes the count wrong."""
        try:
            with self.channel.conn_or_acquire() as client:
                mark(client, delivery_tag)
        except BROKEN as error:
            log.warning("delivery not marked", what=what, error=type(error).__name__)
            self.channel.suspect_connections()

    # --- from one connection to the next ------------------------------------------------------------

    @property
    def held(self) -> set[str]:
        """Tags of the deliveries that this worker is running, or has not settled in Redis yet."""
        return (self._delivered.keys() - self._dirty) | self._owed.keys() | (self._done_together or {}).keys()

    @property
    def holders(self) -> set[str]:
        """Owners of the held deliveries."""
        return {keys.owner_of(tag) for tag in self.held}

    def move_to(self, channel: Commands) -> None:
        """Continue on a new channel."""
        new = channel.qos
        new._on_collect.cancel()  # noqa: SLF001 -- kombu would keep it, to requeue its messages at the end
        self.prefetch_count, self.channel = new.prefetch_count, channel

    def requeue(self, delivery_tags: Iterable[str]) -> None:
        """Requeue deliveries that have not begun, at the front and uncounted, at the next maintenance."""
        for delivery_tag in delivery_tags:
            queue = self._queue_of(delivery_tag)
            if queue is not None:
                self.owe_requeue(delivery_tag, queue)
            self._forget(delivery_tag)

    def owe_requeue(self, delivery_tag: str, queue: str) -> None:
        """Requeue a delivery that was not inspected yet, at the next maintenance."""
        self._owed[delivery_tag] = partial(self._requeue, delivery_tag, queue, "RPUSH")

    def settle_owed(self) -> None:
        """Repeat commands that Redis has not received, or has refused."""
        for delivery_tag, say in list(self._owed.items()):
            with contextlib.suppress(redis.ResponseError):  # refused; another may not be
                say()
                del self._owed[delivery_tag]

    def _settle(self, delivery_tag: str, say: Callable[[], object]) -> None:
        """Settle a delivery in Redis, now or later; its place is free at once, also for the message taken with it."""
        self._forget(delivery_tag)
        try:
            say()
        except BROKEN as error:
            log.warning("delivery not settled yet", error=type(error).__name__)
            self.channel.suspect_connections()
            self._owed[delivery_tag] = say

    def _forget(self, delivery_tag: str) -> None:
        self._condemned.pop(delivery_tag, None)
        self._blamed.discard(delivery_tag)
        self._apart.discard(delivery_tag)
        self._waiting.discard(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)

    # --- how deliveries end -------------------------------------------------------------------------

    def can_consume(self) -> bool:
        """Return whether there is room for one more message."""
        return self.room() > 0

    def room(self, bundle: int = 1) -> int:
        """Return the number of further messages that the prefetch count allows, each place for ``bundle`` of them."""
        held = len(self._delivered) - len(self._dirty) + self.channel.on_hand
        return self.prefetch_count * bundle - held if self.prefetch_count else _UNLIMITED

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Acknowledge in one step what is acknowledged meanwhile."""
        if self._done_together is not None:
            yield
            return
        self._done_together = {}
        try:
            yield
        finally:
            done, self._done_together = [*self._done_together.values()], None
            self._acknowledge(done)

    def _acknowledge(self, done: Sequence[unacked.Acknowledgement]) -> None:
        """Acknowledge deliveries, now or later; their places are free already, also for those taken with them."""
        if not done:
            return
        try:
            self.channel.acknowledge(done)
        except BROKEN as error:
            log.warning("delivery not settled yet", error=type(error).__name__)
            self.channel.suspect_connections()
            for one in done:
                self._owed[one.tag] = partial(self._acknowledge_again, one)
        else:
            self._count(done)

    def _acknowledge_again(self, done: unacked.Acknowledgement) -> None:
        self.channel.acknowledge([done])
        self._count([done])

    def _count(self, done: Sequence[unacked.Acknowledgement]) -> None:
        if self.heart is not None:
            self.heart.ended.update(keys.owner_of(one.tag) for one in done)

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message whose result is stored, or dead-letter it if it is condemned."""
        self.mark_begun(delivery_tag)
        refusal, done = self._condemned.get(delivery_tag), self._done(delivery_tag)
        if refusal is not None:
            self._settle(delivery_tag, lambda: self.channel.dead_letter_delivered(delivery_tag, refusal))
        elif done is not None:
            self._forget(delivery_tag)
            if self._done_together is None:
                self._acknowledge([done])
            else:
                self._done_together[delivery_tag] = done
        else:
            self._forget(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Requeue a message behind all others, uncounted, or acknowledge it.

        One that is blamed for the death of a process counts, is deferred, and is requeued in its turn; see
        `Channel.maintain`.
        """
        if not requeue:
            self.ack(delivery_tag)
            return
        queue = self._queue_of(delivery_tag)
        if queue is None:
            self._forget(delivery_tag)
        elif delivery_tag in self._apart:
            self._settle(delivery_tag, partial(self._requeue, delivery_tag, queue, "RPUSH", alone=True))
        elif delivery_tag in self._blamed:
            self._settle(delivery_tag, partial(self._defer, delivery_tag, queue))
        else:
            self._settle(delivery_tag, partial(self._requeue, delivery_tag, queue, "LPUSH"))

    def _defer(self, delivery_tag: str, queue: str) -> None:
        with self.channel.conn_or_acquire() as client:
            unacked.delay(client, delivery_tag, queue)

    def _requeue(self, delivery_tag: str, queue: str, side: Literal["RPUSH", "LPUSH"], *, alone: bool = False) -> None:
        with self.channel.conn_or_acquire() as client:
            unacked.requeue(client, delivery_tag, queue, side, uncounted=True, alone=alone)

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Requeue unacknowledged messages at the end of the worker, not at the loss of a connection."""
        if self.channel.is_left:
            return
        if self._owed:
            self.restore_unacked()
        super().restore_unacked_once(stderr)

    def restore_unacked(self, client: Any = None) -> list[Any]:
        """Requeue, uncounted, messages that have not begun or whose job this worker was asked to stop."""
        del client
        self._flush()
        self.requeue(reversed(self._delivered))
        try:
            self.settle_owed()
        except BROKEN as error:
            log.warning("deliveries not requeued yet", error=type(error).__name__)
        self._owed.clear()
        self._flush()
        return []

    def restore_visible(self, *_: Any, **__: Any) -> None:
        """Do nothing: `Channel.maintain` requeues the deliveries of dead workers and defers overdue ones."""

    def _queue_of(self, delivery_tag: str) -> str | None:
        """Return the queue of a delivery; None if it is not a delivery of this channel."""
        message = self._delivered.get(delivery_tag)
        return None if message is None else message.properties.get("queue")

    def _done(self, delivery_tag: str) -> unacked.Acknowledgement | None:
        """Return the acknowledgement of a delivery; None if it is not a delivery of this channel."""
        message = self._delivered.get(delivery_tag)
        if message is None or "queue" not in message.properties:
            return None
        return unacked.Acknowledgement(delivery_tag, message.properties["queue"], message.properties["digest"])


def payload(
    found: Delivery, claimed: UnackedMessage, tag: str, count: int, ahead: float, *, alone: bool = False
) -> dict[str, Any]:
    """Return a delivery in kombu's form.

    Args:
        found: the checked message.
        claimed: its queue and bytes.
        tag: delivery tag.
        count: number of its deliveries, this one included.
        ahead: seconds by which Redis' clock is ahead of this machine's.
        alone: True: the job must not be in a bundle.
    """
    return {
        "body": found.body,
        "content": found.content,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": found.headers,
        "properties": {
            "correlation_id": found.id,
            "delivery_tag": tag,
            "delivery_info": {"exchange": "", "routing_key": claimed.queue, "redelivered": count > 1},
            "queue": claimed.queue,
            "digest": keys.digest(claimed.raw),
            "clock_ahead": ahead,
            "alone": alone,
        },
    }
