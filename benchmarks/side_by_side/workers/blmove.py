"""Side 2: the least that a Redis worker can do. `BLMOVE`, the plain query, the answer, and the job is taken off.

A job is JSON, ``{"id": ..., "embedding": base64 of 768 float32}``, in the list ``jobs``; its answer is pushed to
``reply:<id>``. What was being done when a process died stays in the list ``doing``.
"""

from __future__ import annotations

import base64
import os
import sys

import numpy as np
import orjson
import redis
import shared
from rows import FIELDS, Search

JOBS, DOING = "jobs", "doing"


def main() -> None:
    search = Search(shared.DSN, shared.CLAIMS, shared.K)
    client = redis.Redis.from_url(os.environ["BENCH_LISTS"], socket_timeout=None)  # it waits longer than the default
    print("ready", flush=True)
    while True:
        raw = client.blmove(JOBS, DOING, 5, "RIGHT", "LEFT")
        if raw is None:
            continue
        job = orjson.loads(raw)
        query = np.frombuffer(base64.b64decode(job["embedding"]), dtype="<f4")
        chunks = [dict(zip(FIELDS, row, strict=True)) for row in search.nearest(query)]
        reply = f"reply:{job['id']}"
        with client.pipeline(transaction=True) as pipe:
            pipe.rpush(reply, orjson.dumps({"chunks": chunks}))
            pipe.expire(reply, 3600)
            pipe.lrem(DOING, 1, raw)
            pipe.execute()


if __name__ == "__main__":
    sys.exit(main())
