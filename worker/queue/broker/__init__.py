"""The queue in Redis: where each message is, what may be done with it, and the names of all keys.

A message is in one place in Redis, and moves to the next atomically:

    queue ─claimed→ queue.inflight.<owner> ─acknowledged→ gone
      ↑                  │ script
      │                  ├──→ queue.delayed, queue.delayed.put_off ─script, when it is due─┐
      │                  └──→ queue.dead                                                   │
      └────────────────────────────────────────────────────────────────────────────────────┘

Modules, in reading order: `keys`, `inspection` (checks of a message), `excerpts` (too long messages), `delayed`,
`turns` (of callers), `owners` (liveness), `dead_letters`, `priorities`, `unacked` (what older workers hold);
`worker.queue.claims` combines them. Producers need none of it: any client that LPUSHes Celery's messages works.
"""
