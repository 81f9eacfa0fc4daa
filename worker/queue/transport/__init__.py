"""A Redis transport for Celery that loses nothing: `worker.queue.transport:Transport`, chosen by ``broker_transport``.

Stock kombu takes a message off its queue with ``BRPOP`` and writes it down afterwards; what dies in between loses it.
Here a message is always in one place in Redis, and goes from one to the next in one step:

    queue ─BLMOVE→ queue.inflight.<owner> ─script→ unacked ─acknowledged→ gone
      ↑                                 └────script→ queue.dead ←MULTI─┤
      └──────────script, when it is due── queue.delayed ←script────────┘

What to read, in order: `keys` (the places), `inspection` (what a message must be), `excerpts` (what is too long),
`claim` (off the queue), `unacked` (delivered, and given back), `delayed` (not yet), `owners` (who is alive),
`dead_letters`, and `channel`, which puts them together. Producers need none of it: whatever LPUSHes Celery's messages
works unchanged.
"""

from kombu.connection import resolve_aliases

from worker.queue.transport.transport import SecureTransport, Transport

__all__ = ["SECURE_TRANSPORT", "TRANSPORT", "SecureTransport", "Transport"]

TRANSPORT, SECURE_TRANSPORT = "worker.queue.transport:Transport", "worker.queue.transport:SecureTransport"
"""For ``broker_transport``: of URLs that begin with ``redis`` and with ``rediss``."""

# Whoever reads a connection's URL back (Flower, Celery's banner) finds the scheme that it was made from.
resolve_aliases.update({TRANSPORT: "redis", SECURE_TRANSPORT: "rediss"})
