"""The transport itself: which channel, which poller, and what an event loop does now and then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kombu.transport import redis as kombu_redis

from worker.queue.transport.channel import OVERDUE_SECONDS, PROMOTE_SECONDS, Channel
from worker.queue.transport.poller import ClaimingPoller

if TYPE_CHECKING:
    from worker.queue.transport.channel import Answer, IsAnswered
    from worker.queue.transport.qos import QoS


class Transport(kombu_redis.Transport):
    """Kombu's Redis transport, over claims.

    Attributes:
        answer: stores failures, each under its task's id; set by whoever consumes.
        is_answered: whether a task has ended already; set by whoever consumes.
        deliveries: what its consumer was delivered; set by whoever connects again after `leave`.
    """

    Channel = Channel
    answer: Answer | None = None
    is_answered: IsAnswered | None = None
    deliveries: QoS | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cycle = ClaimingPoller()  # type: ignore[assignment] # as kombu's own does
        self._timers: list[Any] = []

    def leave(self) -> QoS | None:
        """Give up a lost connection, and nothing that was delivered on it; what was, for the next one."""
        for channel in self.channels:
            channel.leave()
        return self.deliveries

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Have an event loop drive the claims."""
        others = {*loop.on_tick}
        super().register_with_event_loop(connection, loop)
        cycle: Any = self.cycle
        loop.on_tick &= others
        loop.on_tick.add(partial(cycle.on_tick, loop, self.on_readable))
        # Kombu's own timers are set by options made for other purposes; these two are what the holds are built on.
        for timer in self._timers:
            timer.cancel()
        works = ((PROMOTE_SECONDS, cycle.maybe_restore_messages), (OVERDUE_SECONDS, cycle.maybe_check_brpop_health))
        self._timers = [loop.call_repeatedly(seconds, work) for seconds, work in works]


class SecureTransport(Transport):
    """The same over TLS, for URLs that begin with ``rediss``; kombu shows them as such."""
