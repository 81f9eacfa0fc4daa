"""A message is in one place in a real Redis after a death between any two commands, and comes back from it."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
import redis
from kombu.asynchronous import Hub
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.waiting import wait_for

from worker.cli.devstack.redis import redis_server
from worker.queue.transport import keys, owners, unacked

from .claims import OTHER, QUEUE, RULES, Proxy, Worker, declare_dead, envelope, ids, places, run_script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worker.cli.devstack.stack import Stack


STEPS = ("claimed, unread", "claimed", "written down", "told", "answered")

# Claims one message in steps, and kills itself after one of them. Its owner is registered before the first.
VICTIM = """
import os, select, signal, sys, time
import redis
from claims import *
from worker.queue.transport import unacked
url, step = sys.argv[1:]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

worker = Worker(url)
client = redis.Redis.from_url(url)
channel, claim = worker.channel, worker.claim
claim.connect(client)
claim.start()
select.select([claim.connection._sock], [], [])
if step == "claimed, unread": die()
raw = claim.read()
if step == "claimed": die()
if step == "told":
    worker.connection.transport.answer = lambda *_: die()
    channel._settle(claim, [raw.replace(b"retrieve_top_k", b"unknown")], client)
if step == "written down":
    place = keys.inflight(claim.queue, claim.owner)
    unacked.record(client, keys.tag(claim.owner, 1), unacked.UnackedMessage(claim.queue, raw), place)
    die()
channel._settle(claim, [raw], client)
(message,) = worker.got
die()
"""


def victim(url: str, step: str) -> None:
    done = run_script(VICTIM, url, step)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("step", STEPS)
def test_a_worker_killed_between_two_steps_loses_nothing(url: str, broker: redis.Redis, step: str) -> None:
    """Wherever it was, the message is in one place, and the next worker gets it."""
    broker.lpush(QUEUE, envelope("job"))
    victim(url, step)
    where = "unacked" if step in {"written down", "told", "answered"} else "inflight"
    assert places(broker) == {where: 1}
    with Worker(url) as worker:
        worker.maintain()
        assert places(broker) == {where: 1}, "its owner still counts as alive"
        declare_dead(broker)
        worker.maintain()
        assert worker.take(1) == ["job"]
        worker.got[0].ack()
    assert places(broker) == {}


def test_a_dead_owner_is_found_without_help(url: str, broker: redis.Redis) -> None:
    """Its key is not renewed, and goes by itself."""
    broker.lpush(QUEUE, envelope("job"))
    victim(url, "claimed")
    (key,) = broker.keys("retrieval-worker.owner.*")
    assert 0 < broker.ttl(key) <= owners.LIFE_SECONDS
    with Worker(url) as worker:
        worker.drain(lambda: worker.ids == ["job"])


def test_a_new_worker_looks_for_the_dead_at_once(
    url: str, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any of its timers: if all workers were killed, no other one looks."""
    monkeypatch.setattr("worker.queue.transport.transport.OVERDUE_SECONDS", 3600)
    broker.lpush(QUEUE, envelope("job"))
    victim(url, "written down")
    declare_dead(broker)
    hub = Hub()
    with Worker(url, unacked_restore_interval=3600) as worker:
        worker.connection.register_with_event_loop(hub)
        wait_for(lambda: hub.run_once() or worker.ids == ["job"])
        hub.close()


def test_what_a_lost_connection_claimed_unread_comes_back_at_once(url: str, broker: redis.Redis) -> None:
    """Its own worker knows: it waits for no owner to expire, and looks again for what arrives late."""
    with Worker(url) as worker:
        worker.claim.connect(broker)
        lost = worker.claim.owner
        worker.claim.drop()
        for number in range(2):
            broker.lpush(keys.inflight(QUEUE, lost), envelope(str(number)))  # what its BLMOVE does
            worker.maintain()
            assert worker.take(number + 1) == [str(one) for one in range(number + 1)]
        assert broker.exists(keys.owner_key(lost))
        assert broker.hvals(keys.deliveries(QUEUE)) == [b"1", b"1"]


def test_what_came_unread_with_an_acknowledgement_comes_back_at_once(
    stack: Stack, proxy: Proxy, broker: redis.Redis
) -> None:
    """The answer was lost with its connection: the message belongs to this worker alone."""
    broker.lpush(QUEUE, envelope("first"), envelope("second"))
    with Worker(stack.redis.url(port=proxy.port), prefetch=1, socket_timeout=0.5) as worker:
        assert worker.take(1) == ["first"]
        proxy.mute.set()
        worker.got[0].ack()
        proxy.mute.clear()
        assert places(broker) == {"unacked": 1}
        # On a busy machine, a maintenance may meet the short timeout as well, and is postponed.
        worker.drain(lambda: worker.maintain() or len(worker.got) == 2)
        assert worker.ids == ["first", "second"]
        assert broker.hvals(keys.deliveries(QUEUE)) == [b"1"]


def test_a_recording_that_redis_made_and_nobody_heard_of_comes_back_at_once(
    stack: Stack, proxy: Proxy, broker: redis.Redis
) -> None:
    """Its owner lives for seconds after the lost reply; the job does not wait for its end."""
    broker.lpush(QUEUE, envelope("first"))
    with Worker(stack.redis.url(port=proxy.port), prefetch=1, socket_timeout=0.5) as worker:
        claim, channel = worker.claim, worker.channel
        claim.connect(channel.client)
        claim.start()
        raw = claim.read()
        assert raw is not None
        proxy.mute.set()
        with channel.conn_or_acquire() as client, pytest.raises((redis.RedisError, OSError)):
            channel._settle(claim, [raw], client)
        proxy.mute.clear()
        assert places(broker) == {"unacked": 1}
        worker.drain(lambda: worker.maintain() or len(worker.got) == 1)
        assert worker.ids == ["first"]
        assert broker.hvals(keys.deliveries(QUEUE)) == [b"1"]


def test_what_nobody_has_looked_at_outlives_its_connection_uncounted(url: str, broker: redis.Redis) -> None:
    """It came with an acknowledgement, and the connection was lost before the event loop had its turn."""
    broker.lpush(QUEUE, envelope("first"), envelope("second"))
    with Worker(url, prefetch=1) as before:
        assert before.take(1) == ["first"]
        before.got[0].ack()
        assert before.channel.on_hand == 1
        deliveries = before.connection.transport.leave()
        with Worker(url, prefetch=1, deliveries=deliveries) as after:
            after.maintain()
            assert after.take(1) == ["second"]
            assert broker.hvals(keys.deliveries(QUEUE)) == [b"1"]


def test_what_was_just_looked_at_is_not_forgotten_where_redis_goes_away(
    stack: Stack, proxy: Proxy, url: str, broker: redis.Redis
) -> None:
    """It was to be delayed, and Redis did not learn of it: it is requeued over the next connection, uncounted."""
    broker.lpush(QUEUE, envelope("first"), envelope("later", eta="2999-01-01T00:00:00+00:00"))
    with Worker(stack.redis.url(port=proxy.port), prefetch=1, socket_timeout=0.5) as before:
        assert before.take(1) == ["first"]
        before.got[0].ack()
        assert before.channel.on_hand == 1
        proxy.deaf.set()
        with pytest.raises((redis.RedisError, OSError)):
            before.channel.claim_more()
        deliveries = before.connection.transport.leave()
        assert len(deliveries.held) == 1
        with Worker(url, prefetch=1, deliveries=deliveries) as after:
            after.maintain()
            after.drain(lambda: places(broker) == {"delayed": 1})
            assert not broker.exists(keys.deliveries(QUEUE))


def test_a_job_outlives_its_connection(url: str, broker: redis.Redis) -> None:
    """Its owner stays alive until it has ended; its acknowledgement goes over the next connection."""
    broker.lpush(QUEUE, *(envelope(str(number)) for number in range(3)))
    with Worker(url, prefetch=2) as before:
        assert before.take(2) == ["0", "1"]
        held = {keys.owner_of(tag) for tag in before.channel.qos.held}
        deliveries = before.connection.transport.leave()
        before.connection.release()
        before.got[0].ack()
        assert broker.hlen(keys.UNACKED) == 2
        with Worker(url, prefetch=2, deliveries=deliveries) as worker:
            assert worker.take(1)  # one is still worked on, and one place is free
            assert broker.hlen(keys.UNACKED) == 2
            for _ in range(owners.LOOKS + 1):
                worker.maintain()
            assert all(broker.exists(keys.owner_key(owner)) for owner in held)
            before.got[1].ack()
            worker.got[0].ack()
            assert places(broker) == {}
            for _ in range(owners.LOOKS + 1):
                worker.maintain()
            assert not worker.channel._heart.left


def test_a_late_acknowledgement_does_nothing(url: str, broker: redis.Redis) -> None:
    """Another worker has the message by then; it stays counted, and unacknowledged."""
    broker.lpush(QUEUE, envelope("job"))
    with Worker(url) as silent, Worker(url) as other:
        assert silent.take(1) == ["job"]
        declare_dead(broker)
        other.maintain()
        assert other.take(1) == ["job"]
        silent.got[0].ack()
        assert places(broker) == {"unacked": 1}
        assert broker.hvals(keys.deliveries(QUEUE)) == [b"2"]
        other.got[0].ack()
        assert places(broker) == {}


def test_a_consumer_that_is_cancelled_on_top_of_a_claim_leaves_no_delivery_without_an_owner(
    url: str, broker: redis.Redis
) -> None:
    """Celery's handler of SIGQUIT cancels it while Redis has not answered yet: the message is requeued."""
    with Worker(url, QUEUE, OTHER) as worker:
        channel = worker.channel
        for claim in channel._claims.values():
            claim.connect(broker)
        broker.lpush(QUEUE, envelope("job"))
        broker.client_pause(1000, all=False)  # writes wait, and with them the script that takes and records
        before = signal.signal(signal.SIGALRM, lambda *_: worker.consumer.cancel())
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        channel.claim_more()
        signal.signal(signal.SIGALRM, before)
        assert worker.got == []
        assert channel._claims == {}
        assert places(broker) == {"queue": 1}
        assert broker.zcard(keys.OWNERS) == 0


def test_a_delivery_whose_owner_nobody_lists_comes_back(url: str, broker: redis.Redis) -> None:
    """The next maintenance of any worker finds the deliveries of one that is dead, and none of a living owner."""
    place = keys.inflight(QUEUE, "gone-1")
    broker.lpush(place, envelope("job"))
    unacked.record(broker, keys.tag("gone-1", 1), unacked.UnackedMessage(QUEUE, envelope("job")), place)
    broker.hset(keys.UNACKED, "of-a-stock-worker", b"[]")
    broker.zadd(keys.UNACKED_INDEX, {"of-a-stock-worker": time.time()})
    with Worker(url) as worker:
        worker.take(1)
        worker.maintain()
        assert (worker.ids, places(broker)) == (["job"], {"unacked": 2})


def test_an_owner_with_a_delivery_is_not_dropped(url: str, broker: redis.Redis) -> None:
    """One that its worker does not know of: it expires, and the message is requeued as a dead owner's."""
    with Worker(url) as worker:
        claim, heart = worker.claim, worker.channel._heart
        claim.connect(broker)
        place = keys.inflight(QUEUE, claim.owner)
        broker.lpush(place, envelope("job"))
        unacked.record(broker, keys.tag(claim.owner, 1), unacked.UnackedMessage(QUEUE, envelope("job")), place)
        heart.release(broker, QUEUE, claim.owner)
        heart.drop_idle(broker, ())
        assert broker.zcard(keys.OWNERS) == 1
        assert heart.left == {}


def test_an_owner_is_released_when_it_holds_nothing(url: str, broker: redis.Redis) -> None:
    """A worker that takes no more jobs and is killed while some run: these are a dead owner's, not forgotten."""
    broker.lpush(QUEUE, envelope("job"))
    with Worker(url) as worker:
        assert worker.take(1) == ["job"]
        owner = worker.claim.owner
        worker.consumer.cancel()
        assert broker.exists(keys.owner_key(owner))
        assert broker.zscore(keys.OWNERS, keys.inflight(QUEUE, owner)) is not None
        worker.got[0].ack()
    assert broker.keys("retrieval-worker.owner*") == []


def test_what_a_dead_worker_held_comes_back_in_order(url: str, broker: redis.Redis) -> None:
    """At the consuming end: what was taken first comes first, before what was sent later."""
    owner = "dead-1"
    broker.lpush(QUEUE, *(envelope(f"claimed-{i}") for i in range(3)))
    for _ in range(3):
        broker.lmove(QUEUE, keys.inflight(QUEUE, owner), "RIGHT", "LEFT")
    broker.zadd(keys.OWNERS, {keys.inflight(QUEUE, owner): time.time()})
    for number in range(3):
        broker.hset(keys.UNACKED, f"{owner}:{number}", unacked.pack(QUEUE, envelope(f"delivered-{number}")))
        broker.zadd(keys.UNACKED_INDEX, {f"{owner}:{number}": time.time() + number})
    broker.lpush(QUEUE, envelope("later"))
    with Worker(url) as worker:
        worker.maintain()
        assert ids(broker) == [f"delivered-{i}" for i in range(3)] + [f"claimed-{i}" for i in range(3)] + ["later"]


def test_what_a_dead_owner_had_claimed_counts_as_delivered(url: str, broker: redis.Redis) -> None:
    """It may have killed its worker before it was recorded: after that many claims it is not delivered any more."""
    broker.lpush(QUEUE, envelope("job"))
    with Worker(url) as other:
        for number in range(1, RULES.max_deliveries + 1):
            victim(url, "claimed")
            declare_dead(broker)
            other.maintain()
            assert broker.hvals(keys.deliveries(QUEUE)) == [str(number).encode()]
        other.drain(lambda: "job" in other.failures)
        assert other.got == []
    assert places(broker) == {"dead": 1}


# Dies of a message when it looks at it.
READER = """
import os, signal, sys
from claims import *
from worker.queue.transport import inspection
inspection.inspect = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Worker(sys.argv[1]).drain(lambda: False)
"""


def test_a_message_that_kills_whoever_reads_it_ends_as_a_dead_letter(url: str, broker: redis.Redis) -> None:
    """It counts before it is inspected; if the worker that should dead-letter it dies too, no one inspects it."""
    broker.lpush(QUEUE, envelope("killer"))
    for number in range(1, RULES.max_deliveries + 2):
        done = run_script(READER, url)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert places(broker) == {"unacked": 1}
        assert broker.hvals(keys.deliveries(QUEUE)) == [str(number).encode()]
        declare_dead(broker)
        with Worker(url, "another queue") as other:
            other.maintain()
    done = run_script(READER.replace("False", "redis.Redis.from_url(sys.argv[1]).xlen(keys.dead(QUEUE))"), url)
    assert done.returncode == 0, done.stderr
    assert places(broker) == {"dead": 1}


def test_a_dead_owner_s_list_is_looked_at_for_a_while(url: str, broker: redis.Redis) -> None:
    """A command of a half-open connection arrives late, in the list of an owner that was given up."""
    with Worker(url) as worker:
        worker.drain(lambda: worker.claim.since is not None)
        abandoned = worker.claim.owner
        worker.claim.drop()
        worker.drain(lambda: worker.claim.since is not None)
        assert worker.claim.owner != abandoned
        for _ in range(owners.LOOKS + 1):  # until its own worker lets it go
            worker.maintain()
        broker.delete(keys.owner_key(abandoned))
        worker.maintain()
        broker.lpush(keys.inflight(QUEUE, abandoned), envelope("straggler"))  # what the late BLMOVE does
        worker.maintain()
        assert worker.take(1) == ["straggler"]
        worker.maintain()
        assert broker.zscore(keys.OWNERS, keys.inflight(QUEUE, abandoned)) is not None
        broker.zadd(keys.OWNERS, {keys.inflight(QUEUE, abandoned): time.time() - owners.FORGET_SECONDS - 1})
        worker.maintain()
        assert broker.zscore(keys.OWNERS, keys.inflight(QUEUE, abandoned)) is None


def test_a_worker_that_counted_as_dead_does_not_deliver_what_was_taken_back(url: str, broker: redis.Redis) -> None:
    """It stood still between claiming and recording; meanwhile its list was requeued."""
    broker.lpush(QUEUE, envelope("job"))
    with Worker(url) as frozen, Worker(url) as other:
        client = broker
        frozen.claim.connect(client)
        raw = frozen.claim.take_now()
        declare_dead(broker)
        other.maintain()
        frozen.channel._settle(frozen.claim, raw, client)
        assert frozen.got == []
        assert other.take(1) == ["job"]
        assert places(broker) == {"unacked": 1}


def test_owners_stay_alive_while_the_main_thread_is_busy(url: str, broker: redis.Redis) -> None:
    """A job in the main process (Celery's solo pool) may take longer than an owner lives."""
    with Worker(url) as worker:
        worker.drain(lambda: worker.claim.since is not None)
        broker.expire(keys.owner_key(worker.claim.owner), 5)
        wait_for(lambda: int(str(broker.ttl(keys.owner_key(worker.claim.owner)))) > 6)


def test_a_renewal_that_failed_is_tried_again_at_once(
    stack: Stack, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when the next one is due: an owner's key expires after a few beats."""
    monkeypatch.setattr(owners, "BEAT_SECONDS", 0.1)
    proxy = Proxy(stack.redis.port)
    client = redis.Redis.from_url(stack.redis.url(port=proxy.port), socket_timeout=2, retry=Retry(NoBackoff(), 0))
    heart = owners.Heart(client, "here")
    heart.add(broker, QUEUE)
    try:
        proxy.await_connections(1)
        proxy.mute.set()
        monkeypatch.setattr(owners, "BEAT_SECONDS", 3600)  # a thread that has not asked yet gets no answer any more
        proxy.await_connections(2)
    finally:
        heart.stop()
        proxy.close()


@pytest.fixture
def proxy(stack: Stack) -> Iterator[Proxy]:
    """Between a worker and Redis."""
    between = Proxy(stack.redis.port)
    yield between
    between.close()


def test_an_acknowledgement_whose_answer_is_lost_is_said_again(stack: Stack, proxy: Proxy, broker: redis.Redis) -> None:
    """Repeating it does no harm; the message claimed in the same call is a dead owner's, and comes back."""
    broker.lpush(QUEUE, *(envelope(f"job-{i}") for i in range(2)))
    with Worker(stack.redis.url(port=proxy.port), prefetch=1, socket_timeout=1) as worker:
        worker.take(1)
        first = worker.claim.owner
        (done,) = broker.hkeys(keys.UNACKED)
        proxy.mute.set()  # open connections hear no answer any more; new ones do
        worker.got[0].ack()
        assert worker.claim.owner == ""
        assert not broker.hexists(keys.UNACKED, done)
        assert places(broker) == {"unacked": 1}
        broker.delete(keys.owner_key(first))
        worker.drain(lambda: worker.claim.owner != "")
        worker.maintain()
        assert worker.take(2) == ["job-0", "job-1"]
        worker.got[1].ack()
        assert places(broker) == {}


def test_an_acknowledgement_that_never_arrived_is_said_again(stack: Stack, proxy: Proxy, broker: redis.Redis) -> None:
    """Nor was the next message taken with it: the acknowledgement is repeated, the message left to the next claim."""
    broker.lpush(QUEUE, *(envelope(f"job-{i}") for i in range(2)))
    with Worker(stack.redis.url(port=proxy.port), prefetch=1, socket_timeout=1) as worker:
        worker.take(1)
        proxy.deaf.set()  # what is said on open connections is lost; new ones are heard
        worker.got[0].ack()
        worker.maintain()  # over a new connection, although others are open
        assert places(broker) == {"queue": 1}
        assert worker.take(2) == ["job-0", "job-1"]
        worker.got[1].ack()
        assert places(broker) == {}


def test_a_half_open_connection_loses_nothing(stack: Stack, broker: redis.Redis) -> None:
    """Redis moves a message and its answer never arrives: the connection is given up, and the message comes back."""
    proxy = Proxy(stack.redis.port)
    try:
        with Worker(stack.redis.url(port=proxy.port), socket_timeout=2) as worker:
            worker.drain(lambda: worker.claim.since is not None)
            first = worker.claim.owner
            proxy.mute.set()  # open connections hear no answer any more; new ones do
            broker.lpush(QUEUE, envelope("job"))
            wait_for(lambda: places(broker) == {"inflight": 1})
            worker.channel.connection.cycle.maybe_check_brpop_health()
            assert worker.claim.owner == first, "an answer may take its time"
            worker.claim.since -= 60
            worker.channel.connection.cycle.maybe_check_brpop_health()
            assert worker.claim.owner == ""
            worker.channel.pool.disconnect()
            declare_dead(broker)
            worker.maintain()
            assert worker.take(1) == ["job"]
    finally:
        proxy.close()


def test_redis_killed_after_a_claim_loses_nothing(tmp_path: Path) -> None:
    """With `appendfsync always` what Redis has answered is there when it is back."""
    with redis_server(tmp_path, durable=True) as first:
        client = redis.Redis.from_url(first.url())
        client.config_set("appendfsync", "always")
        client.lpush(QUEUE, envelope("delivered"), envelope("claimed"), envelope("waiting"))
        with Worker(first.url(), prefetch=1) as worker:
            assert worker.take(1) == ["delivered"]
            worker.claim.take_now()
            first.process.kill()
            first.process.wait()
            worker.got[0].ack()
    with redis_server(tmp_path, durable=True) as second:
        client = redis.Redis.from_url(second.url())
        assert places(client) == {"queue": 1, "unacked": 1, "inflight": 1}
        declare_dead(client)
        with Worker(second.url()) as worker:
            worker.maintain()
            assert sorted(worker.take(3)) == ["claimed", "delivered", "waiting"]
        client.close()
