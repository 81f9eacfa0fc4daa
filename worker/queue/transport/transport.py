"""Transport: its channel, its poller, and its timers in an event loop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kombu.transport import redis as kombu_redis

from worker.queue.transport.channel import OVERDUE_SECONDS, PROMOTE_SECONDS, Channel
from worker.queue.transport.poller import ClaimingPoller

if TYPE_CHECKING:
    from worker.queue.transport.channel import Answer, IsAnswered, Pool
    from worker.queue.transport.qos import QoS


class Transport(kombu_redis.Transport):
    """Kombu's Redis transport, over claims.

    Attributes:
        answer: stores failures, each under its task id; set by the consumer.
        is_answered: returns whether a task has ended already; set by the consumer.
        deliveries: its consumer's deliveries; set by the consumer that reconnects after `leave`.
        pool: pool that runs jobs in bundles; set by the consumer.
    """

    Channel = Channel
    answer: Answer | None = None
    is_answered: IsAnswered | None = None
    deliveries: QoS | None = None
    pool: Pool | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cycle = ClaimingPoller()  # type: ignore[assignment] # as kombu's own does
        self._timers: list[Any] = []

    def leave(self) -> QoS | None:
        """Drop a lost connection, and return its deliveries for the next one."""
        for channel in self.channels:
            channel.leave()
        return self.deliveries

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Let an event loop drive the claims."""
        others = {*loop.on_tick}
        super().register_with_event_loop(connection, loop)
        cycle: Any = self.cycle
        loop.on_tick &= others
        loop.on_tick.add(partial(cycle.on_tick, loop, self.on_readable))
        # Kombu sets its own timers by options meant for other purposes; liveness depends on these two.
        for timer in self._timers:
            timer.cancel()
        works = ((PROMOTE_SECONDS, cycle.maybe_restore_messages), (OVERDUE_SECONDS, cycle.maybe_check_brpop_health))
        self._timers = [loop.call_repeatedly(seconds, work) for seconds, work in works]


class SecureTransport(Transport):
    """Transport over TLS, for URLs that begin with ``rediss``; kombu shows them as such."""
