"""Poller of Redis connections: kombu's, with claims in place of ``BRPOP``."""

from __future__ import annotations

from queue import Empty
from typing import TYPE_CHECKING, Any

from kombu.transport.redis import MultiChannelPoller

from worker.queue.transport.claim import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.queue.transport.channel import Channel


class ClaimingPoller(MultiChannelPoller):
    """Poller that lets each channel claim while it has room, and passes it the replies.

    Attributes:
        is_driven: True if an event loop drives it, which continues later with what is left over.
    """

    is_driven = False

    def on_poll_start(self) -> None:
        """Run due maintenance and claim, before the event loop waits.

        A worker that has just started checks for dead workers' messages at once: if all were killed, no other does. It
        also makes up for a timer that fires a moment too early.
        """
        for channel in list(self._channels):
            channel.maintain()
            channel.claim_more()
            if channel.active_fanout_queues:
                self._register_LISTEN(channel)

    def watch(self, channel: Channel, claim: Claim) -> None:
        """Poll a claim's connection."""
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
        """Prepare each iteration of an event loop: kombu registers all connections again, here only new ones."""
        self.is_driven = True
        self.on_poll_start()
        for fileno in self._fd_to_chan:
            if fileno not in loop.readers:
                loop.add_reader(fileno, on_readable, fileno)
        for channel in list(self._channels):
            if channel.has_published:
                loop.call_soon(channel.listen_again)
        # If a job ended in this process (Celery's solo pool), its acknowledgement must not wait for the next event.
        if loop._ready:  # noqa: SLF001 -- no public API
            loop._waker.wake()  # noqa: SLF001 -- the same

    def on_readable(self, fileno: int) -> Any:
        """Read a connection that is readable."""
        channel, claim = self._fd_to_chan.get(fileno, (None, None))
        if isinstance(claim, Claim):
            return channel.on_claim(claim)
        return super().on_readable(fileno)

    def handle_event(self, fileno: int, event: int) -> Any:
        """Do the same without an event loop, for a caller that drains events; raise `Empty` if there was no message."""
        if isinstance(self._fd_to_chan.get(fileno, (None, None))[1], Claim):
            if not self.on_readable(fileno):
                raise Empty
            return True
        return super().handle_event(fileno, event)

    def maybe_restore_messages(self) -> None:
        """Run the channels' maintenance; see `Channel.maintain`."""
        for channel in list(self._channels):
            channel.maintain()

    def on_poll_init(self, poller: Any) -> None:
        """Use the event loop's poller."""
        self.poller = poller

    def maybe_check_brpop_health(self) -> None:
        """Drop connections whose reply is overdue: half-open ones report no error."""
        for channel in list(self._channels):
            channel.drop_silent_claims()
