"""Kombu's poller of Redis connections, with claims in place of ``BRPOP``."""

from __future__ import annotations

from queue import Empty
from typing import TYPE_CHECKING, Any

from kombu.transport.redis import MultiChannelPoller

from worker.queue.transport.claim import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.queue.transport.channel import Channel


class ClaimingPoller(MultiChannelPoller):
    """Lets each channel claim while it has room, and hands it what came.

    Attributes:
        is_driven: by an event loop, which comes back to what is left over.
    """

    is_driven = False

    def on_poll_start(self) -> None:
        """Before the event loop waits.

        Who has just begun looks at once for what the dead hold: where all were killed, nobody else does. And a timer
        that comes a moment too early is no reason to look only the next time it comes.
        """
        for channel in list(self._channels):
            channel.maintain()
            channel.claim_more()
            if channel.active_fanout_queues:
                self._register_LISTEN(channel)

    def watch(self, channel: Channel, claim: Claim) -> None:
        """Have a claim's connection polled."""
        sock = claim.connection._sock  # noqa: SLF001 -- kombu's own way
        if self._chan_to_sock.get((channel, claim, claim)) is sock:
            return
        self._fd_to_chan[sock.fileno()] = (channel, claim)
        self._chan_to_sock[channel, claim, claim] = sock
        self.poller.register(sock, self.eventflags)

    def unwatch(self, connection: Any) -> None:
        """Stop polling a connection that is about to be closed."""
        for key, sock in list(self._chan_to_sock.items()):
            if key[1].connection is connection:
                del self._chan_to_sock[key]
                del self._fd_to_chan[sock.fileno()]
                self._unregister_from_poll(sock.fileno())

    def on_tick(self, loop: Any, on_readable: Callable[[int], Any]) -> None:
        """Before each turn of an event loop: kombu registers all connections again, here it is those that are new."""
        self.is_driven = True
        self.on_poll_start()
        for fileno in self._fd_to_chan:
            if fileno not in loop.readers:
                loop.add_reader(fileno, on_readable, fileno)
        for channel in list(self._channels):
            if channel.has_published:
                loop.call_soon(channel.listen_again)
        # A job has ended in this process (Celery's solo pool): its acknowledgement must not wait for the next event.
        if loop._ready:  # noqa: SLF001 -- nothing public tells it
            loop._waker.wake()  # noqa: SLF001 -- the same

    def on_readable(self, fileno: int) -> Any:
        """A connection has something to say."""
        channel, claim = self._fd_to_chan.get(fileno, (None, None))
        if isinstance(claim, Claim):
            return channel.on_claim(claim)
        return super().on_readable(fileno)

    def handle_event(self, fileno: int, event: int) -> Any:
        """The same, where there is no event loop but somebody who drains events, and waits on if there was none."""
        if isinstance(self._fd_to_chan.get(fileno, (None, None))[1], Claim):
            if not self.on_readable(fileno):
                raise Empty
            return True
        return super().handle_event(fileno, event)

    def maybe_restore_messages(self) -> None:
        """Put back what the dead and the late hold."""
        for channel in list(self._channels):
            channel.maintain()

    def on_poll_init(self, poller: Any) -> None:
        """The event loop's poller takes over."""
        self.poller = poller

    def maybe_check_brpop_health(self) -> None:
        """Drop connections whose answer is overdue: half-open ones never say so."""
        for channel in list(self._channels):
            channel.drop_silent_claims()
