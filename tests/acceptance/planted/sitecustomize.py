"""Bugs that a worker gets if this folder is on PYTHONPATH, and PLANTED_BUG names one of them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from retrieval_client.errors import Unavailable
from worker.queue import records
from worker.queue.broker import keys
from worker.queue.claims import Tidier
from worker.queue.processes.process import Process
from worker.queue.records import RecordStore

_answer, _put = Process._answer, RecordStore.put
_last: list[records.Record] = []


def acknowledge_first(process: Any, *words: Any) -> None:
    """Acknowledge before the outcome is stored, and long enough before for any kill to meet it."""
    process._claims.acknowledge()
    time.sleep(0.2)
    _answer(process, *words)


def put_twice(store: Any, put_records: Any) -> set[str]:
    """Replace the outcome that was stored before this one."""
    for record in _last:
        failure = records.compose(record.task_id, "FAILURE", Unavailable("planted"))
        store._client.set(records.record_key(record.task_id), failure.value)
    _last[:] = put_records[:1]
    return _put(store, put_records)


def forget(tidier: Any, place: str, *_: Any) -> int:
    """Forget a dead owner without requeueing what it holds."""
    tidier._client.zrem(keys.OWNERS, place)
    return 0


BUGS: dict[str, tuple[Any, str, Any]] = {
    "acknowledge first": (Process, "_answer", acknowledge_first),
    "store twice": (RecordStore, "put", put_twice),
    "forget an owner": (Tidier, "tidy", forget),
}
if "celery" in sys.orig_argv:
    setattr(*BUGS[os.environ["PLANTED_BUG"]])
