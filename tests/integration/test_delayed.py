"""Messages that run later wait in a real Redis, and nowhere else; Redis' clock says when their time has come."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kombu import Connection
from tests.waiting import wait_for

from chaos.clocks import library
from chaos.clocks import skewed as clock_environment
from worker.queue import remote_channel
from worker.queue.broker import delayed, keys
from worker.queue.broker.clock import ServerClock

from .claims import QUEUE, Worker, envelope, ids, places, stored_failures

if TYPE_CHECKING:
    import redis


def later(task_id: str, seconds: float = 300.0, **headers: str) -> bytes:
    """A message with a countdown in seconds."""
    return envelope(task_id, eta=(datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(), **headers)


def test_messages_that_run_later_wait_in_redis(url: str, broker: redis.Redis) -> None:
    """However many: none is held by a process, none is counted, and one that may run now is run."""
    broker.lpush(QUEUE, *(later(f"later-{number}") for number in range(500)), envelope("now"))
    with Worker(url) as worker:
        assert worker.take(1) == ["now"]
    assert places(broker) == {"delayed": 500}
    assert broker.hlen(keys.delayed_messages(QUEUE)) == 500
    assert not broker.exists(keys.deliveries(QUEUE))


def test_a_message_comes_when_it_is_due(url: str, broker: redis.Redis) -> None:
    """Not before, and soon after."""
    due = datetime.now(UTC) + timedelta(seconds=1)
    broker.lpush(QUEUE, envelope("job", eta=due.isoformat()))

    def has_come() -> bool:
        worker.maintain()
        return places(broker) == {"queue": 1}

    with Worker(url) as worker:
        worker.run(lambda: places(broker) == {"delayed": 1})
        wait_for(has_come)
        assert due <= redis_now(broker) < due + timedelta(seconds=5)
        assert worker.take(1) == ["job"]
    assert places(broker) == {}
    assert not broker.exists(keys.delayed_messages(QUEUE), keys.deliveries(QUEUE))


def delay(broker: redis.Redis, *messages: bytes) -> None:
    """Have messages wait whose time has come, in their order."""
    for number, message in enumerate(messages):
        broker.zadd(keys.delayed(QUEUE), {f"me:{number}": number})
        broker.hset(keys.delayed_messages(QUEUE), f"me:{number}", message)


def test_what_is_due_comes_in_its_order_and_in_parts(url: str, broker: redis.Redis) -> None:
    """The earliest first, behind those that wait; the keeper goes on until none is left."""
    expected = [f"{number}" for number in range(2 * delayed.AT_ONCE + 3)]
    delay(broker, *map(envelope, expected))
    broker.lpush(QUEUE, envelope("waiting"))
    assert delayed.promote(broker, QUEUE)
    assert ids(broker) == ["waiting", *expected[: delayed.AT_ONCE]]
    with Worker(url) as worker:
        worker.maintain()
    assert ids(broker) == ["waiting", *expected]
    assert places(broker) == {"queue": len(expected) + 1}


def test_what_would_expire_before_its_time_expires(url: str, broker: redis.Redis) -> None:
    """It could never run, so its sender need not wait."""
    soon = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    broker.lpush(QUEUE, later("never", expires=soon), later("in time", 30, expires=soon))
    with Worker(url) as worker:
        worker.run(lambda: places(broker) == {"dead": 1, "delayed": 1})
        assert {task_id: type(error).__name__ for task_id, error in stored_failures(broker).items()} == {
            "never": "DeadLettered"
        }


def test_a_full_redis_gives_back_what_it_has(broker: redis.Redis) -> None:
    """The messages only change their places, and come back from there: what is due, and what a process died of."""
    delay(broker, envelope("due"))
    broker.lpush(keys.deferred(QUEUE), envelope("deferred"))
    broker.config_set("maxmemory", "1")
    try:
        assert delayed.requeue_deferred(broker, QUEUE, 1) == 1
        delayed.promote(broker, QUEUE)
    finally:
        broker.config_set("maxmemory", "0")
    assert ids(broker) == ["deferred", "due"]
    assert places(broker) == {"queue": 2}


# --- clocks -----------------------------------------------------------------------------------------


def test_redis_time_is_known_without_asking_for_each_message(broker: redis.Redis) -> None:
    """Never ahead of it, and asked for again after a while."""
    passed = [100.0]
    clock = ServerClock(lambda: passed[0])
    before, known, after = redis_now(broker), clock.read(broker), redis_now(broker)
    assert before <= known <= after
    passed[0] += 1.0
    assert clock.read(broker) - known == timedelta(seconds=1)
    passed[0] += 1.5
    assert after <= clock.read(broker) <= redis_now(broker), "asked again"


def redis_now(client: redis.Redis) -> datetime:
    """Return the time by Redis' clock."""
    seconds, micros = client.time()
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=micros)


FAKETIME = library()
"""Preloaded, not by its command: the command names a semaphore by its process id, which may be left of another."""

SKEWED = """
import sys, time
from claims import *
with Worker(sys.argv[1]) as worker:
    worker.maintain()
    worker._process(int(sys.argv[2])).run()  # in this thread alone: libfaketime fails another one's pauses
    sys.stdout.write(f"\\nids {','.join(worker.ids)} {int(time.time())}\\n")  # at once: other threads log meanwhile
"""


def skewed(seconds: int, url: str, count: int) -> list[str]:
    """Return the first jobs of a worker whose clock is off by this much."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, **clock_environment(seconds, FAKETIME), "PYTHONPATH": path}
    command = [sys.executable, "-c", SKEWED, url, str(count)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("ids ")]  # beside what is logged
    _, task_ids, clock = line.split(" ")
    assert abs(int(clock) - time.time() - seconds) < 60, "its clock was not off"
    return task_ids.split(",")


@pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not here")
@pytest.mark.parametrize("seconds", [1200, -1200])
def test_a_worker_whose_clock_is_wrong_keeps_to_the_time_of_messages(
    url: str, broker: redis.Redis, seconds: int
) -> None:
    """Messages due or valid by Redis' time are run, others wait; an owner that was seen just now is not dead."""
    valid = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    broker.zadd(keys.OWNERS, {keys.inflight(QUEUE, "host-2"): broker.time()[0]})
    broker.lpush(keys.inflight(QUEUE, "host-2"), envelope("held by another"))
    broker.lpush(QUEUE, later("later"), later("due", -5), envelope("valid", expires=valid))
    assert skewed(seconds, url, 2) == ["due", "valid"]
    assert places(broker) == {"inflight": 1, "delayed": 1}


def test_a_purge_deletes_what_waits_as_well(url: str, broker: redis.Redis) -> None:
    """`celery purge`: what is due later, and what was deferred; what a process holds stays."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    for name in (QUEUE, keys.deferred(QUEUE), place):
        broker.lpush(name, envelope(name))
    broker.zadd(keys.delayed(QUEUE), {"tag": 1e12})
    broker.hset(keys.delayed_messages(QUEUE), "tag", envelope("later"))
    with Connection(url, transport=remote_channel.transport(url)) as connection:
        assert connection.default_channel.queue_purge(QUEUE) == 3
    assert broker.keys("retrieval*") == [place.encode()]
