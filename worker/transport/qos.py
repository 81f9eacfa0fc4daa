"""What was delivered and is not acknowledged, as kombu's consumers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis
from kombu.transport import redis as kombu_redis
from kombu.transport import virtual

from worker import observe
from worker.transport import keys, unacked

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.transport.inspection import Delivery, Refusal
    from worker.transport.unacked import Held

log = observe.logger("worker.transport")

BROKEN = (redis.RedisError, OSError)
"""After these it is not known what Redis has heard."""


class Message(virtual.Message):
    """A delivered message, its body decoded already."""

    def __init__(self, payload: dict[str, Any], channel: Any = None, **options: Any) -> None:
        super().__init__(payload, channel=channel, **options)
        content = payload.get("content")
        if content is not None:
            self._decoded_cache = content
            self.content_type, self.content_encoding = "application/json", "utf-8"


class QoS(kombu_redis.QoS):
    """What was delivered and not acknowledged: in Redis since the claim, here by tag."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._condemned: dict[str, Refusal] = {}
        self._blamed: set[str] = set()
        self._waiting: set[str] = set()

    def append(self, message: Message, delivery_tag: str) -> None:
        """Note a delivery; `Channel` has written it down already."""
        virtual.QoS.append(self, message, delivery_tag)

    def condemn(self, delivery_tag: str, refusal: Refusal) -> None:
        """Have a message end as a dead letter when it is acknowledged."""
        self._condemned[delivery_tag] = refusal

    def blame(self, delivery_tag: str) -> None:
        """Have a delivery count when the message is given back: its job began, and its process died unasked."""
        self._blamed.add(delivery_tag)

    def mark_waiting(self, delivery_tag: str) -> None:
        """Note that no idle process could take a job: if this worker dies meanwhile, the delivery does not count."""
        if delivery_tag not in self._delivered or delivery_tag in self._waiting:
            return
        self._waiting.add(delivery_tag)
        self._tell("a waiting job", unacked.mark_waiting, delivery_tag)

    def mark_begun(self, delivery_tag: str) -> None:
        """Note that a process takes a job now; nothing is asked of Redis for one that did not have to wait."""
        if delivery_tag in self._waiting:
            self._waiting.discard(delivery_tag)
            self._tell("a job that begins", unacked.mark_begun, delivery_tag)

    def _tell(self, what: str, mark: Callable[[redis.Redis, str], None], delivery_tag: str) -> None:
        """Mark a delivery, if Redis is there: a lost mark costs no more than a wrong count."""
        try:
            with self.channel.conn_or_acquire() as client:
                mark(client, delivery_tag)
        except BROKEN as error:
            log.warning("delivery not marked", what=what, error=type(error).__name__)

    def can_consume(self) -> bool:
        """Whether there is room for one more message."""
        held = len(self._delivered) - len(self._dirty) + self.channel.on_hand
        return not self.prefetch_count or held < self.prefetch_count

    def ack(self, delivery_tag: str) -> None:
        """Forget a message: its result is stored."""
        self.mark_begun(delivery_tag)
        self._blamed.discard(delivery_tag)
        refusal = self._condemned.pop(delivery_tag, None)
        done = self._done(delivery_tag)
        # Where Redis does not hear it, the message comes back; its place is free, also for the message that may come
        # in the same step.
        virtual.QoS.ack(self, delivery_tag)
        if refusal is not None:
            self.channel.bury_delivered(delivery_tag, refusal)
        elif done is not None:
            self.channel.acknowledge(done)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Give a message back behind all others, uncounted, or forget it.

        One that is blamed for the death of a process counts, is put off, and goes back in its turn; see
        `Channel.maintain`.
        """
        if not requeue:
            self.ack(delivery_tag)
            return
        self._condemned.pop(delivery_tag, None)
        blamed, queue = delivery_tag in self._blamed, self._queue_of(delivery_tag)
        self._blamed.discard(delivery_tag)
        self._waiting.discard(delivery_tag)
        try:
            with self.channel.conn_or_acquire() as client:
                if queue is None:
                    pass
                elif blamed:
                    unacked.put_off(client, delivery_tag, queue)
                else:
                    unacked.give_back(client, delivery_tag, queue, "LPUSH", uncounted=True)
        finally:
            virtual.QoS.ack(self, delivery_tag)  # as in `ack`: a full Redis refuses to put off

    def restore_unacked(self, client: Any = None) -> list[Any]:
        """Give back what nobody has begun with, or what this worker was told to end; it counts as not delivered."""
        self._flush()
        try:
            with self.channel.conn_or_acquire(client) as connected:
                for delivery_tag in reversed(self._delivered):
                    queue = self._queue_of(delivery_tag)
                    if queue is not None:
                        unacked.give_back(connected, delivery_tag, queue, "RPUSH", uncounted=True)
        except BROKEN as error:
            log.warning("deliveries not given back; they will be", error=type(error).__name__)
        self._delivered.clear()
        return []

    def restore_visible(self, *_: Any, **__: Any) -> None:
        """Give back deliveries of dead workers, and those that are overdue; see `Channel.maintain`."""

    def _queue_of(self, delivery_tag: str) -> str | None:
        """Where a delivery of this channel is from; None if it is none."""
        message = self._delivered.get(delivery_tag)
        return None if message is None else message.properties.get("queue")

    def _done(self, delivery_tag: str) -> unacked.Done | None:
        """What is known of a delivery of this channel."""
        message = self._delivered.get(delivery_tag)
        if message is None or "queue" not in message.properties:
            return None
        return unacked.Done(delivery_tag, message.properties["queue"], message.properties["digest"])


def payload(found: Delivery, claimed: Held, tag: str, count: int) -> dict[str, Any]:
    """A delivery in kombu's form."""
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
        },
    }
