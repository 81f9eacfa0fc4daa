"""Redis transport for Celery that loses no message: `worker.queue.transport:Transport`, chosen by ``broker_transport``.

Stock kombu takes a message off its queue with ``BRPOP`` and records it as unacknowledged afterwards; a worker that dies
in between loses it. Here a message is always in one place in Redis, and moves to the next atomically:

    queue ─BLMOVE→ queue.inflight.<owner> ─script→ unacked ─acknowledged→ gone
      ↑                                 └────script→ queue.dead ←MULTI─┤
      └──────────script, when it is due── queue.delayed ←script────────┘

Modules, in reading order: `keys` (names in Redis), `inspection` (checks of a message), `excerpts` (too long messages),
`claim` (taking from the queue), `unacked` (delivered and requeued messages), `delayed` (messages not yet due), `owners`
(liveness), `dead_letters`, and `channel`, which combines them. Producers need none of it: any client that LPUSHes
Celery's messages works unchanged.
"""

from kombu.connection import resolve_aliases

from worker.queue.transport.transport import SecureTransport, Transport

__all__ = ["SECURE_TRANSPORT", "TRANSPORT", "SecureTransport", "Transport"]

TRANSPORT, SECURE_TRANSPORT = "worker.queue.transport:Transport", "worker.queue.transport:SecureTransport"
"""Values for ``broker_transport``: for URLs that begin with ``redis``, and with ``rediss``."""

# A connection's URL that is read back (Flower, Celery's banner) has its original scheme.
resolve_aliases.update({TRANSPORT: "redis", SECURE_TRANSPORT: "rediss"})
