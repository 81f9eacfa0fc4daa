"""Messages that run later wait in a real Redis, and nowhere else; Redis' clock says when their time has come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.clocks import library
from chaos.clocks import skewed as clock_environment
from worker.queue.transport import delayed, keys, unacked
from worker.queue.transport.clock import ServerClock

from .claims import QUEUE, Worker, declare_dead, envelope, ids, places, run_script

if TYPE_CHECKING:
    import redis


PLACE = keys.inflight(QUEUE, "me")


def later(task_id: str, seconds: float = 300.0, **headers: str) -> bytes:
    """A message with a countdown in seconds."""
    return envelope(task_id, eta=(datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(), **headers)


def make_due(client: redis.Redis) -> None:
    """Have the time come of all that wait."""
    for tag in client.zrange(keys.delayed(QUEUE), 0, -1):
        client.zadd(keys.delayed(QUEUE), {tag: 1})


def test_messages_that_run_later_wait_in_redis(url: str, broker: redis.Redis) -> None:
    """However many: none is held by a worker, and one that may run now is delivered."""
    broker.lpush(QUEUE, *(later(f"later-{number}") for number in range(1500)), envelope("now"))
    with Worker(url, prefetch=2) as worker:
        assert worker.take(1) == ["now"]
        assert places(broker) == {"delayed": 1500, "unacked": 1}
        assert broker.hlen(keys.delayed_messages(QUEUE)) == 1500
        assert broker.hkeys(keys.deliveries(QUEUE)) == [keys.digest(envelope("now")).encode()]
        assert list(worker.channel.qos._delivered) == [worker.got[0].delivery_tag]


def test_a_message_comes_when_it_is_due(url: str, broker: redis.Redis) -> None:
    """Not before, soon after, and without its time: Celery would wait for that itself."""
    due = datetime.now(UTC) + timedelta(seconds=1)
    broker.lpush(QUEUE, envelope("job", eta=due.isoformat()))
    with Worker(url) as worker:
        worker.drain(lambda: places(broker) == {"delayed": 1})
        worker.take(1)
        assert due <= redis_now(broker) < due + timedelta(seconds=5)
        assert worker.got[0].headers["eta"] is None
        worker.got[0].ack()
    assert places(broker) == {}
    assert not broker.exists(keys.delayed(QUEUE), keys.delayed_messages(QUEUE), keys.deliveries(QUEUE))


def test_a_message_that_comes_with_an_acknowledgement_waits_as_well(url: str, broker: redis.Redis) -> None:
    """Claimed and recorded in the same step, it is inspected later."""
    broker.lpush(QUEUE, envelope("first"), later("later"), envelope("second"))
    with Worker(url, prefetch=1) as worker:
        worker.take(1)
        worker.got[0].ack()
        assert worker.take(2) == ["first", "second"]
        assert places(broker) == {"delayed": 1, "unacked": 1}


def test_what_is_due_comes_in_its_order_and_in_parts(url: str, broker: redis.Redis) -> None:
    """The earliest first, behind those that wait."""
    count = 2 * delayed.AT_ONCE + 3
    broker.lpush(QUEUE, *(later(f"{number}", 300 + number) for number in reversed(range(count))))
    with Worker(url) as worker:
        worker.drain(lambda: places(broker) == {"delayed": count})
        worker.consumer.cancel()
        broker.lpush(QUEUE, envelope("waiting"))
        for number, tag in enumerate(broker.zrange(keys.delayed(QUEUE), 0, -1)):
            broker.zadd(keys.delayed(QUEUE), {tag: number})
        assert delayed.promote(broker, QUEUE)
        assert ids(broker) == ["waiting", *(f"{number}" for number in range(delayed.AT_ONCE))]


def test_many_that_are_due_at_once_all_come(url: str, broker: redis.Redis) -> None:
    """A worker goes on at its next turn until none is left."""
    count = 3 * delayed.AT_ONCE + 3
    broker.lpush(QUEUE, *(later(f"{number}", 2) for number in range(count)))
    with Worker(url) as worker:
        assert {*worker.take(count)} == {f"{number}" for number in range(count)}
        assert len(worker.got) == count


def test_a_worker_that_is_killed_loses_nothing_that_waits(url: str, broker: redis.Redis) -> None:
    """No worker holds it: it comes at its time, and counts as never delivered."""
    broker.lpush(QUEUE, later("job"))
    script = (
        "import os, signal, sys\nfrom claims import *\n"
        "worker = Worker(sys.argv[1])\n"
        "client = redis.Redis.from_url(sys.argv[1])\n"
        "worker.drain(lambda: places(client) == {'delayed': 1})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = run_script(script, url)
    assert done.returncode == -signal.SIGKILL, done.stderr
    declare_dead(broker)
    with Worker(url) as worker:
        worker.maintain()
        assert places(broker) == {"delayed": 1}
        make_due(broker)
        worker.maintain()
        assert places(broker) == {"queue": 1}
        assert not broker.exists(keys.deliveries(QUEUE))


def test_a_delay_whose_answer_is_lost_is_one_delay(broker: redis.Redis) -> None:
    """A client that missed the answer sends the whole again; nor does it delay what somebody else has given back."""
    message = envelope("job")
    broker.hset(keys.deliveries(QUEUE), keys.digest(message), 2)
    broker.lpush(PLACE, message)
    unacked.record(broker, "me:1", unacked.UnackedMessage(QUEUE, message), PLACE)
    for _ in range(2):
        delayed.delay(broker, "me:1", QUEUE, 5.0)
    assert broker.zrange(keys.delayed(QUEUE), 0, -1, withscores=True) == [(b"me:1", 5.0)]
    assert broker.hgetall(keys.delayed_messages(QUEUE)) == {b"me:1": message}
    assert broker.hvals(keys.deliveries(QUEUE)) == [b"2"]
    assert not broker.exists(keys.UNACKED, keys.UNACKED_INDEX)
    for _ in range(2):
        assert not delayed.promote(broker, QUEUE)
    assert broker.lrange(QUEUE, 0, -1) == [message]
    delayed.delay(broker, "me:1", QUEUE, 5.0)
    assert places(broker) == {"queue": 1}


def test_what_would_expire_before_its_time_expires(url: str, broker: redis.Redis) -> None:
    """It could never run, so its sender need not wait."""
    soon = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    broker.lpush(QUEUE, later("never", expires=soon), later("in time", 30, expires=soon))
    with Worker(url) as worker:
        worker.drain(lambda: "never" in worker.failures)
        worker.drain(lambda: places(broker) == {"dead": 1, "delayed": 1})
        assert type(worker.failures["never"]).__name__ == "DeadLettered"


def test_a_full_redis_delays_what_it_has(broker: redis.Redis) -> None:
    """The message only changes its place, and comes back from there."""
    message = envelope("job")
    broker.lpush(PLACE, message)
    unacked.record(broker, "me:1", unacked.UnackedMessage(QUEUE, message), PLACE)
    broker.config_set("maxmemory", "1")
    try:
        delayed.delay(broker, "me:1", QUEUE, 5.0)
        assert places(broker) == {"delayed": 1}
        delayed.promote(broker, QUEUE)
        assert places(broker) == {"queue": 1}
    finally:
        broker.config_set("maxmemory", "0")


def test_a_purge_deletes_what_waits_as_well(url: str, broker: redis.Redis) -> None:
    """A purge of a queue removes its delayed messages as well."""
    broker.lpush(QUEUE, later("later"), envelope("job"))
    with Worker(url) as worker:
        worker.take(1)
        worker.drain(lambda: places(broker) == {"delayed": 1, "unacked": 1})
        worker.consumer.cancel()
        worker.blame(worker.got[0])
        broker.lpush(QUEUE, envelope("waiting"))
        assert worker.channel.queue_purge(QUEUE) == 3
    assert places(broker) == {}
    assert not broker.exists(keys.delayed_messages(QUEUE))


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
import os, sys, time
from claims import *
worker = Worker(sys.argv[1], visibility_timeout=30)
for _ in range(3): worker.maintain()
worker.take(int(sys.argv[2]))
print(",".join(worker.ids), int(time.time()), flush=True)
os._exit(0)
"""


def skewed(seconds: int, url: str, take: int) -> list[str]:
    """Return the messages delivered to a worker whose clock is off by this much."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", SKEWED, url, str(take)]
    environment = {**os.environ, **clock_environment(seconds, FAKETIME), "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    taken, clock = done.stdout.splitlines()[-1].split(" ")
    assert abs(int(clock) - time.time() - seconds) < 60, "its clock was not off"
    return [name for name in taken.split(",") if name]


@pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not here")
@pytest.mark.parametrize("seconds", [1200, -1200])
def test_a_worker_whose_clock_is_wrong_takes_nothing_from_others(url: str, broker: redis.Redis, seconds: int) -> None:
    """Nor does what it holds look overdue to them: Redis' time decides, for what is overdue and for who is dead."""
    broker.lpush(QUEUE, envelope("held"))
    with Worker(url, visibility_timeout=30) as right:
        right.take(1)
        right.maintain()
        right.consumer.cancel()
        broker.lpush(QUEUE, envelope("other"))
        assert skewed(seconds, url, 1) == ["other"]
        right.maintain()
        assert places(broker) == {"unacked": 2}
        assert broker.hvals(keys.deliveries(QUEUE)) == [b"1", b"1"]
        now = broker.time()[0]
        assert all(abs(score - now) < 60 for _, score in broker.zrange(keys.UNACKED_INDEX, 0, -1, withscores=True))
        assert all(abs(score - now) < 60 for _, score in broker.zrange(keys.OWNERS, 0, -1, withscores=True))


@pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not here")
@pytest.mark.parametrize("seconds", [1200, -1200])
def test_a_worker_whose_clock_is_wrong_keeps_to_the_time_of_messages(
    url: str, broker: redis.Redis, seconds: int
) -> None:
    """Messages due or valid by Redis' time are delivered, others wait."""
    valid = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    broker.lpush(QUEUE, later("later"), later("due", -5), envelope("valid", expires=valid))
    assert skewed(seconds, url, 2) == ["due", "valid"]
    assert places(broker) == {"unacked": 2, "delayed": 1}
