"""The transport against a real Redis: what comes, in which order, and what is given back."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from kombu import Connection, Producer
from kombu.asynchronous import Hub

from worker.queue.transport import keys, unacked
from worker.queue.transport.channel import AT_A_STRETCH, DEFERRED_PER_PROCESS, OTHERS_BETWEEN, OVERDUE_AT_ONCE
from worker.queue.transport.claim import BURST, BURST_BYTES

from .claims import OTHER, QUEUE, RULES, Worker, declare_dead, envelope, ids, places, run_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis


# --- the usual way ----------------------------------------------------------------------------------


def test_a_message_is_delivered_and_leaves_nothing(url: str, broker: redis.Redis) -> None:
    """Oldest first; while it is worked on it is in `unacked`, byte for byte; acknowledged, it is nowhere."""
    sent = [envelope(f"job-{i}") for i in range(5)]
    broker.lpush(QUEUE, *sent)
    with Worker(url) as worker:
        assert worker.take(5) == [f"job-{i}" for i in range(5)]
        assert places(broker) == {"unacked": 5}
        assert sorted(unacked.unpack(entry).raw for entry in broker.hvals(keys.UNACKED)) == sent
        assert broker.zcard(keys.UNACKED_INDEX) == 5
        for message in worker.got:
            message.ack()
        assert places(broker) == {}
    left = {key.decode() for key in broker.keys("*")}
    assert {key for key in left if not key.startswith("_kombu")} == set()


def test_messages_of_stock_producers_are_delivered(url: str) -> None:
    """Kombu's own Redis transport on the other side: its envelope, its base64 body."""
    with Connection(url) as stock, Worker(url) as worker:
        for number in range(3):
            Producer(stock).publish(
                [[{"k": number}], {}, {}],
                routing_key=QUEUE,
                headers={"id": f"job-{number}", "task": "retrieve_top_k"},
                serializer="json",
            )
        worker.take(3)
        assert [message.payload[0] for message in worker.got] == [[{"k": number}] for number in range(3)]


def test_the_delivery_tag_of_a_sender_does_not_matter(url: str, broker: redis.Redis) -> None:
    """Kombu would overwrite one unacknowledged message with the next."""
    broker.lpush(QUEUE, *(envelope(f"job-{i}") for i in range(3)))
    with Worker(url) as worker:
        worker.take(3)
        assert len({message.delivery_tag for message in worker.got}) == 3
        assert broker.hlen(keys.UNACKED) == 3


def test_two_queues_are_served_in_turns(url: str, broker: redis.Redis) -> None:
    """With room for one message at a time neither waits for the other, and none is taken too early."""
    for queue in (QUEUE, OTHER):
        broker.lpush(queue, *(envelope(f"{queue}-{i}") for i in range(10)))
    with Worker(url, QUEUE, OTHER, prefetch=1) as worker:
        for count in range(1, 21):
            worker.take(count)
            assert broker.hlen(keys.UNACKED) == 1
            worker.got[-1].ack()
        order = [task_id.partition("-")[0] for task_id in worker.ids]
    assert order in ([QUEUE, OTHER] * 10, [OTHER, QUEUE] * 10)


def test_a_message_that_comes_when_there_is_no_room_goes_back(url: str, broker: redis.Redis) -> None:
    """Both queues are waited at; the second message is for another worker."""
    with Worker(url, QUEUE, OTHER, prefetch=1) as busy, Worker(url, QUEUE, OTHER, prefetch=1) as idle:
        busy.drain(lambda: all(claim.since is not None for claim in busy.channel._claims.values()))
        broker.lpush(QUEUE, envelope("first"))
        broker.lpush(OTHER, envelope("second"))
        busy.drain(lambda: (broker.llen(OTHER) == 1 and len(busy.got) == 1) or len(busy.got) + broker.llen(QUEUE) == 2)
        left = {"first", "second"} - {*busy.ids}
        assert idle.take(1) == [*left]


# --- a flood of what is refused ---------------------------------------------------------------------


def test_a_flood_of_refused_messages_is_taken_many_at_a_time(url: str, broker: redis.Redis) -> None:
    """The good ones among them come in their order, no more than there is room for."""
    sent = [envelope(f"{number}", task="unknown" if number % 10 else "retrieve_top_k") for number in range(300)]
    broker.lpush(QUEUE, *sent)
    with Worker(url, prefetch=1) as worker:
        most = 0
        for count in range(1, 31):
            worker.take(count)
            assert broker.hlen(keys.UNACKED) == 1
            most = max(most, worker.claim.burst)
            worker.got[-1].ack()
        worker.drain(lambda: broker.xlen(keys.dead(QUEUE)) == 270)
        assert worker.ids == [f"{number}" for number in range(0, 300, 10)]
    assert worker.failures.keys() == {f"{number}" for number in range(300) if number % 10}
    assert places(broker) == {"dead": 270}
    assert most > 5


def test_what_is_taken_at_a_time_is_bounded_and_soon_little_again(url: str, broker: redis.Redis) -> None:
    """A flood makes it more, step by step; the first good message that comes alone makes it one."""
    broker.lpush(QUEUE, *(envelope(f"{number}", task="unknown") for number in range(3000)))
    with Worker(url) as worker:
        worker.drain(lambda: worker.claim.burst == BURST)
        worker.drain(lambda: broker.xlen(keys.dead(QUEUE)) == 3000)
        broker.lpush(QUEUE, envelope("good"))
        worker.take(1)
        assert worker.claim.burst == 1


def test_a_burst_of_large_messages_is_taken_in_parts(url: str, broker: redis.Redis) -> None:
    """However many small ones were refused before: a worker holds at most that many bytes and one message."""
    large = [b"rubbish %d " % number + b"x" * (BURST_BYTES // 2) for number in range(5)]
    broker.lpush(QUEUE, *large)
    with Worker(url) as worker:
        worker.claim.connect(broker)
        worker.claim.settled(taken=50, refused=50)
        assert worker.claim.take_now() == large[:2]


def test_a_flood_leaves_the_event_loop_its_turn(url: str, broker: redis.Redis) -> None:
    """Ends of jobs are still processed, and so is a request to stop."""
    for queue in (QUEUE, OTHER):
        broker.lpush(queue, *(envelope(f"{queue}-{number}", task="unknown") for number in range(2 * AT_A_STRETCH)))
    with Worker(url, QUEUE, OTHER) as worker:
        worker.channel.claim_more()
        dead_lettered = broker.xlen(keys.dead(QUEUE)) + broker.xlen(keys.dead(OTHER))
        assert AT_A_STRETCH <= dead_lettered < AT_A_STRETCH + BURST


def test_failures_that_can_not_be_stored_are_tried_one_by_one(url: str, broker: redis.Redis) -> None:
    """A failure that cannot be stored does not keep the others from being stored."""

    def particular(failures: Any) -> None:
        if any(task_id == "odd" for task_id, _ in failures):
            raise ValueError
        worker.failures.update(failures)

    refused = [*(f"before-{number}" for number in range(3)), "odd", *(f"after-{number}" for number in range(3))]
    broker.lpush(QUEUE, *(envelope(name, task="unknown") for name in refused))
    with Worker(url) as worker:
        worker.connection.transport.answer = particular
        worker.claim.settled(taken=len(refused), refused=len(refused))
        worker.drain(lambda: len(worker.failures) == len(refused) - 1)
        worker.drain(lambda: places(broker) == {"queue": 1, "dead": len(refused) - 1})
        assert ids(broker) == ["odd"]


@pytest.mark.parametrize("priority", [1, 9])
def test_priorities_are_refused(url: str, broker: redis.Redis, priority: int) -> None:
    """Also those that stock producers write to lists that no worker reads; their senders get a failure."""
    with Connection(url) as stock, Worker(url) as worker:
        for number in (priority, 0):
            Producer(stock).publish(
                [[{}], {}, {}],
                routing_key=QUEUE,
                priority=number,
                headers={"id": f"priority-{number}", "task": "retrieve_top_k"},
            )
        worker.maintain()
        worker.drain(lambda: f"priority-{priority}" in worker.failures)
        assert worker.take(1) == ["priority-0"]
    assert worker.failures[f"priority-{priority}"].message == "properties.priority: expected no priority"
    assert places(broker) == {"queue": 1, "dead": 1}


# --- given back -------------------------------------------------------------------------------------


def test_a_polite_stop_gives_back_what_nobody_began_with(url: str, broker: redis.Redis) -> None:
    """To the front, in order, and it does not count as a delivery: restarts never make a dead letter."""
    broker.lpush(QUEUE, *(envelope(f"job-{i}") for i in range(3)))
    for _ in range(RULES.max_deliveries + 3):
        with Worker(url) as worker:
            worker.take(3)
        assert ids(broker) == ["job-0", "job-1", "job-2"]
    assert broker.exists(keys.deliveries(QUEUE), keys.UNACKED, keys.UNACKED_INDEX, keys.OWNERS) == 0
    assert broker.keys("retrieval-worker.owner.*") == []


def test_a_cancelled_consumer_takes_nothing_more(url: str, broker: redis.Redis) -> None:
    """A message that its waiting command still receives is requeued at once, not when the worker ends."""
    with Worker(url) as worker:
        worker.drain(lambda: worker.claim.since is not None)
        worker.consumer.cancel()
        broker.lpush(QUEUE, envelope("job"))
        assert places(broker) == {"queue": 1}


def test_a_job_whose_process_dies_each_time_is_given_up(url: str, broker: redis.Redis) -> None:
    """After as many deliveries as settings allow; behind those that wait; its sender gets a failure."""
    broker.lpush(QUEUE, envelope("poison"), envelope("healthy"))
    with Worker(url, prefetch=1) as worker:
        worker.take(1)
        worker.blame(worker.got[0])
        assert places(broker) == {"queue": 1, "put off": 1}
        assert worker.take(2) == ["poison", "healthy"]
        worker.got[1].ack()
        for count in (3, 4):
            worker.maintain()
            worker.take(count)
            worker.blame(worker.got[-1])
        worker.maintain()
        worker.drain(lambda: "poison" in worker.failures)
        assert worker.ids.count("poison") == RULES.max_deliveries
        assert "delivered 4 times" in worker.failures["poison"].message
        assert places(broker) == {"dead": 1}
        assert [message.delivery_info["redelivered"] for message in worker.got] == [False, False, True, True]


def counted(client: redis.Redis) -> dict[bytes, bytes]:
    """How often the messages of the queue count as delivered."""
    counts: Any = client.hgetall(keys.deliveries(QUEUE))
    return counts


def test_what_a_living_worker_gives_back_is_not_counted(url: str, broker: redis.Redis) -> None:
    """Its result could not be stored, or its process ended before it began: no number of times makes a dead letter."""
    broker.lpush(QUEUE, envelope("job"))
    with Worker(url) as worker:
        for count in range(1, RULES.max_deliveries + 3):
            worker.take(count)
            worker.got[-1].reject(requeue=True)
            assert counted(broker) == {}
        assert places(broker) == {"queue": 1}


def test_a_blamed_job_counts_though_its_result_comes_after_all(url: str, broker: redis.Redis) -> None:
    """A blamed message that is acknowledged is done; the next one of its id starts from zero."""
    broker.lpush(QUEUE, envelope("job"))
    with Worker(url) as worker:
        worker.take(1)
        worker.channel.qos.blame(worker.got[0].delivery_tag)
        worker.got[0].ack()
        assert counted(broker) == {}
        assert places(broker) == {}


def test_a_job_that_waited_in_a_dead_worker_is_not_counted(url: str, broker: redis.Redis) -> None:
    """No process could take it, so it can't have killed its worker; one that had begun meanwhile may have."""
    broker.lpush(QUEUE, *(envelope(name) for name in ("begun at once", "waited, began", "waited")))
    with Worker(url) as killed, Worker(url) as other:
        killed.take(3)
        _, began, waited = (message.delivery_tag for message in killed.got)
        for tag in (began, waited):
            killed.channel.qos.mark_waiting(tag)
        killed.channel.qos.mark_begun(began)
        declare_dead(broker)
        other.maintain()
        assert ids(broker) == ["begun at once", "waited, began", "waited"]
    assert counted(broker) == {
        keys.digest(envelope(name)).encode(): b"1" for name in ("begun at once", "waited, began")
    }
    assert not broker.exists(keys.WAITING)


def test_a_mark_leaves_with_its_delivery(url: str, broker: redis.Redis) -> None:
    """However a waiting job ends; nor can one be marked that has gone."""
    broker.lpush(QUEUE, *(envelope(f"job-{number}") for number in range(3)))
    with Worker(url) as worker:
        worker.take(3)
        tags = [message.delivery_tag for message in worker.got]
        for tag in tags[:2]:
            worker.channel.qos.mark_waiting(tag)
        assert broker.smembers(keys.WAITING) == {tag.encode() for tag in tags[:2]}
        worker.got[0].ack()
        worker.got[1].reject(requeue=True)
        unacked.requeue(broker, tags[2], QUEUE, "LPUSH")
        worker.channel.qos.mark_waiting(tags[2])
        assert not broker.exists(keys.WAITING)


def test_jobs_whose_processes_died_go_back_a_few_at_a_time(url: str, broker: redis.Redis) -> None:
    """Any worker of their queue lets them back, in their order, behind those that wait: while some do, one for many."""
    most, others = DEFERRED_PER_PROCESS, OTHERS_BETWEEN
    poisoned = [f"poison-{i}" for i in range(most + 2)]
    broker.lpush(QUEUE, *map(envelope, poisoned))
    with Worker(url) as worker, Worker(url, prefetch=1) as other:
        worker.take(len(poisoned))
        worker.consumer.cancel()
        worker.blame(*worker.got)
        assert places(broker) == {"put off": most + 2}
        broker.lpush(QUEUE, *(envelope(f"healthy-{number}") for number in range(others + 3)))
        other.maintain()
        assert broker.llen(keys.deferred(QUEUE)) == most + 2, "others wait"
        for count in range(1, others + 1):
            other.take(count)
            other.got[count - 1].ack()
        for _ in range(2):
            other.maintain()
            assert ids(broker)[-2:] == [f"healthy-{others + 2}", poisoned[0]], "one for so many others"
        broker.delete(QUEUE)
        other.maintain()
        assert ids(broker) == poisoned[1 : most + 1], "none waits"
        worker.connection.release()
        assert ids(broker) == poisoned[1 : most + 1], "what was put off is not given back twice"
    assert {counted(broker)[keys.digest(envelope(name)).encode()] for name in poisoned} == {b"1"}


def test_what_is_put_off_in_a_busy_queue_keeps_none_of_another_from_coming_back(url: str, broker: redis.Redis) -> None:
    """An empty queue costs nothing, however many messages are put off elsewhere."""
    broker.lpush(QUEUE, *(envelope(f"busy-{number}") for number in range(70)))
    broker.lpush(OTHER, envelope("idle"))
    with Worker(url) as busy, Worker(url, OTHER) as idle:
        busy.take(70)
        idle.take(1)
        for worker in (busy, idle):
            worker.consumer.cancel()
            worker.blame(*worker.got)
        broker.lpush(QUEUE, envelope("healthy"))
        with Worker(url, QUEUE, OTHER) as third:
            third.maintain()
            assert places(broker) == {"queue": 1, "put off": 70}
            assert ids(broker, OTHER) == ["idle"]


def test_what_is_overdue_in_one_queue_keeps_none_of_another_from_coming_back(url: str, broker: redis.Redis) -> None:
    """Each queue has its own turn with its own."""
    broker.lpush(QUEUE, *(envelope(f"busy-{number}") for number in range(OVERDUE_AT_ONCE + 6)))
    broker.lpush(OTHER, envelope("idle"))
    with Worker(url, QUEUE, OTHER) as hanging, Worker(url, QUEUE, OTHER) as other:
        hanging.take(OVERDUE_AT_ONCE + 7)
        hanging.consumer.cancel()
        for tag in broker.zrange(keys.UNACKED_INDEX, 0, -1):
            late = 1 if unacked.held(broker, tag.decode()) == unacked.UnackedMessage(OTHER, envelope("idle")) else 0
            broker.zadd(keys.UNACKED_INDEX, {tag: late})
        broker.lpush(QUEUE, envelope("healthy"))
        for _ in range(2):
            other.maintain()
        assert places(broker) == {"queue": 1, "put off": OVERDUE_AT_ONCE + 6}
        assert ids(broker, OTHER) == ["idle"]


def test_messages_under_one_id_are_counted_each(url: str, broker: redis.Redis) -> None:
    """A backend may send a job again while it is still worked on: none of its messages is blamed for the others."""
    copies = [envelope("job", parent_id=f"copy-{number}") for number in range(RULES.max_deliveries + 2)]
    broker.lpush(QUEUE, *copies)
    with Worker(url) as worker:
        assert worker.take(len(copies)) == ["job"] * len(copies)
        assert not worker.failures
        worker.got[0].ack()
        assert broker.hlen(keys.deliveries(QUEUE)) == len(copies) - 1


def test_an_overdue_delivery_comes_back(url: str, broker: redis.Redis) -> None:
    """Its worker lives but has forgotten it: after the visibility timeout somebody else gets it."""
    broker.lpush(QUEUE, envelope("job"))
    with Worker(url) as hanging, Worker(url, visibility_timeout=100) as other:
        hanging.take(1)
        other.maintain()
        assert places(broker) == {"unacked": 1}
        (tag,) = broker.hkeys(keys.UNACKED)
        broker.zadd(keys.UNACKED_INDEX, {tag: time.time() - 101})
        other.maintain()
        assert other.take(1) == ["job"]
        hanging.got[0].ack()  # too late, and no harm
        assert places(broker) == {"unacked": 1}


def test_every_step_is_one_transaction(url: str, broker: redis.Redis) -> None:
    """Acknowledged, dead-lettered before and after its delivery: Redis does all of a step, or none of it.

    A delivery is recorded, acknowledged and requeued by a script: that is one step already.
    """
    broker.hset(keys.deliveries(QUEUE), keys.digest(envelope("poison")), RULES.max_deliveries)
    with broker.monitor() as monitor, Worker(url) as worker:
        broker.lpush(QUEUE, envelope("unknown", task="unknown"), envelope("poison"), envelope("job"))
        assert worker.take(1) == ["job"]
        worker.drain(lambda: broker.xlen(keys.dead(QUEUE)) == 2)
        worker.got[0].ack()
        assert places(broker) == {"dead": 2}
        steps, outside = transactions(monitor, broker)
    assert outside == []
    assert [step for step in steps if step] == [("EVAL", "ZREM", "HDEL", "HDEL")] * 2


def transactions(monitor: Any, client: redis.Redis) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return commands on messages, by transaction, and those outside of any."""
    kept = (keys.UNACKED, keys.UNACKED_INDEX, keys.dead(QUEUE), keys.deliveries(QUEUE), f"{QUEUE}.inflight.")
    writing = {"ZADD", "HSET", "LREM", "HINCRBY", "ZREM", "HDEL", "XADD"}
    client.echo("that is all")
    steps: list[tuple[str, ...]] = []
    outside: list[str] = []
    open_steps: dict[str, list[str]] = {}
    for said in monitor.listen():
        who, (name, *arguments) = said["client_port"], said["command"].split(" ")
        if said["command"] == "ECHO that is all":
            return steps, outside
        if name == "MULTI":
            open_steps[who] = []
        elif name == "EXEC":
            steps.append(tuple(open_steps.pop(who)))
        elif name == "EVAL" and who in open_steps:
            open_steps[who].append(name)
        elif name in writing and arguments[0].startswith(kept) and said["client_type"] != "lua":
            open_steps.get(who, outside).append(name)
    raise AssertionError("Redis stopped telling")


def test_what_is_acknowledged_meanwhile_does_not_come_back(url: str, broker: redis.Redis) -> None:
    """Somebody else found it overdue, and its worker was quicker."""
    broker.lpush(QUEUE, envelope("job"))
    with Worker(url) as worker:
        worker.take(1)
        tag = worker.got[0].delivery_tag
        worker.got[0].ack()
        assert not unacked.requeue(broker, tag, QUEUE, "RPUSH")
    assert places(broker) == {}


def test_the_next_message_comes_with_an_acknowledgement(url: str, broker: redis.Redis) -> None:
    """While messages wait, a worker that is full asks Redis once for each: alone, a claim is three commands."""
    broker.lpush(QUEUE, *(envelope(f"job-{i}") for i in range(12)))
    with Worker(url, prefetch=1) as worker:
        worker.take(1)
        worker.maintain()
        broker.config_resetstat()
        for count in range(2, 12):
            worker.got[-1].ack()
            assert places(broker) == {"queue": 12 - count, "unacked": 1}
            assert worker.take(count)[-1] == f"job-{count - 1}"
        # Claimed by itself, a message is moved by one command, and recorded and acknowledged by a script each. (How
        # many scripts there were says nothing: maintenance, which may come meanwhile, is made of them.)
        commands = broker.info("commandstats")
        assert commands["cmdstat_hincrby"]["calls"] == 10
        assert not {"cmdstat_blmove", "cmdstat_lmove", "cmdstat_lrem"} & commands.keys()
        assert broker.hvals(keys.UNACKED) == [unacked.pack(QUEUE, envelope("job-10"))]
        assert broker.hgetall(keys.deliveries(QUEUE)) == {keys.digest(envelope("job-10")).encode(): b"1"}


def test_a_job_that_ends_in_this_process_waits_for_nothing(url: str, broker: redis.Redis) -> None:
    """Celery's solo pool runs it within a turn of the event loop: its acknowledgement is not left to the next event."""
    broker.lpush(QUEUE, *(envelope(f"job-{i}") for i in range(6)))
    hub = Hub()
    waited: list[bool] = []
    poll = hub.poller.poll

    def watched(timeout: float) -> Any:
        events = poll(timeout)
        waited.append(not events)
        return events

    hub.poller.poll = watched
    with Worker(url, prefetch=1) as worker:

        def run(message: Any) -> None:
            worker.got.append(message)
            hub.call_soon(message.ack)

        worker.consumer.on_message = run
        worker.connection.register_with_event_loop(hub)
        while not worker.got:
            hub.run_once()
        waited.clear()
        while len(worker.got) < 6:
            hub.run_once()
        assert not any(waited)
    hub.close()


def test_what_came_with_an_acknowledgement_takes_room(url: str, broker: redis.Redis) -> None:
    """Two jobs end before anybody looks at the next one: no more come than there is room for."""
    with Worker(url, prefetch=3) as worker:
        for number in range(3):
            broker.lpush(QUEUE, envelope(f"job-{number}"))
            worker.take(number + 1)
        broker.lpush(QUEUE, *(envelope(f"later-{i}") for i in range(6)))
        worker.got[0].ack()
        worker.got[1].ack()
        assert places(broker) == {"queue": 4, "unacked": 3}
        worker.channel.basic_qos(0, 2, False)
        worker.got[2].ack()
        assert places(broker) == {"queue": 4, "unacked": 2}


def test_what_nobody_has_looked_at_goes_back(url: str, broker: redis.Redis) -> None:
    """A worker is stopped with a message that came with its last acknowledgement: it is the next one again."""
    broker.lpush(QUEUE, *(envelope(f"job-{i}") for i in range(3)))
    with Worker(url, prefetch=1) as worker:
        worker.take(1)
        worker.got[0].ack()
        assert places(broker) == {"queue": 1, "unacked": 1}
        worker.consumer.cancel()
        assert ids(broker) == ["job-1", "job-2"]
        assert places(broker) == {"queue": 2}
        assert not broker.exists(keys.deliveries(QUEUE))


def test_what_came_with_an_acknowledgement_is_looked_at_like_all(url: str, broker: redis.Redis) -> None:
    """A message that can't be run is dead-lettered, never delivered; its sender gets a failure, the next one comes."""
    broker.hset(keys.deliveries(QUEUE), keys.digest(envelope("poison")), RULES.max_deliveries)
    refused = [b"no JSON", envelope("unknown", task="unknown"), envelope("poison")]
    broker.lpush(QUEUE, envelope("first"), *refused, envelope("last"))
    with Worker(url, prefetch=1) as worker:
        worker.take(1)
        worker.got[0].ack()
        assert worker.take(2) == ["first", "last"]
        assert worker.failures.keys() == {"unknown", "poison"}
        letters: Any = broker.xrange(keys.dead(QUEUE))
        assert {fields[b"reason"]: int(fields[b"deliveries"]) for _, fields in letters} == {
            b"malformed": 0,
            b"unknown_task": 0,
            b"max_deliveries": RULES.max_deliveries + 1,
        }
        assert places(broker) == {"unacked": 1, "dead": 3}


@contextlib.contextmanager
def unreachable(worker: Worker) -> Iterator[None]:
    """While Redis does not hear a worker."""
    worker.claim.drop()
    away = worker.channel.pool.connection_kwargs
    port, away["port"] = away["port"], 1
    worker.channel.pool.reset()
    yield
    away["port"] = port
    worker.channel.pool.reset()


def test_an_acknowledgement_that_redis_does_not_hear_is_said_again(url: str, broker: redis.Redis) -> None:
    """It costs no place: the worker goes on with the next message meanwhile."""
    broker.lpush(QUEUE, envelope("first"), envelope("second"))
    with Worker(url, prefetch=1) as worker:
        worker.take(1)
        with unreachable(worker):
            worker.got[0].ack()
        assert worker.take(2) == ["first", "second"]
        worker.maintain()
        assert places(broker) == {"unacked": 1}
        assert broker.hlen(keys.deliveries(QUEUE)) == 1


@pytest.fixture
def full(broker: redis.Redis) -> Iterator[Callable[[bool], None]]:
    """Has Redis refuse whatever takes memory."""

    def fill(is_full: bool) -> None:
        broker.config_set("maxmemory", "1" if is_full else "0")

    yield fill
    fill(False)


def test_a_full_redis_takes_back_what_it_has(url: str, broker: redis.Redis, full: Callable[[bool], None]) -> None:
    """A process died, or a result could not be stored, while Redis was full: the message only changes its place."""
    broker.lpush(QUEUE, envelope("blamed"), envelope("given back"))
    with Worker(url) as worker:
        worker.take(2)
        worker.consumer.cancel()
        full(True)
        worker.blame(worker.got[0])
        worker.got[1].reject(requeue=True)
        assert places(broker) == {"queue": 1, "put off": 1}


def test_a_give_back_that_redis_does_not_hear_is_said_again(url: str, broker: redis.Redis) -> None:
    """It costs no place, and does not wait for the visibility timeout."""
    broker.lpush(QUEUE, envelope("first"), envelope("second"))
    with Worker(url, prefetch=1) as worker:
        worker.take(1)
        with unreachable(worker):
            worker.blame(worker.got[0])
        assert worker.take(2) == ["first", "second"]
        worker.maintain()
        assert ids(broker) == ["first"]


def test_what_is_no_message_among_the_unacknowledged_is_ignored(url: str, broker: redis.Redis) -> None:
    """A foreign value in Redis does not end the worker, and the messages after it are requeued."""
    broker.hset(keys.UNACKED, mapping={"a": "rubbish", "b": "[1]", "c": unacked.pack(QUEUE, envelope("job"))})
    broker.zadd(keys.UNACKED_INDEX, {"a": 1, "b": 2, "c": 0})
    with Worker(url, prefetch=2) as worker:
        worker.maintain()
        assert worker.take(1) == ["job"]
        worker.maintain()
        assert broker.zcard(keys.UNACKED_INDEX) == 1


def test_stock_workers_and_ours_give_back_each_other_s_messages(url: str, broker: redis.Redis) -> None:
    """So that one can be changed for the other while jobs wait."""
    broker.lpush(QUEUE, envelope("ours"))
    with Worker(url, prefetch=1) as ours, Connection(url) as stock:
        ours.take(1)
        channel = stock.channel()
        Producer(channel).publish(
            [[{}], {}, {}], routing_key=QUEUE, headers={"id": "theirs", "task": "retrieve_top_k"}, serializer="json"
        )
        message = channel.basic_get(QUEUE)
        assert places(broker) == {"unacked": 2}
        channel.qos.restore_by_tag(ours.got[0].delivery_tag)
        assert ids(broker) == ["ours"]
        broker.zadd(keys.UNACKED_INDEX, {message.delivery_tag: 1})
        with Worker(url) as third:
            third.maintain()
            assert sorted(third.take(2)) == ["ours", "theirs"]
        channel.qos._delivered.clear()


# --- one client -------------------------------------------------------------------------------------


def test_the_kept_client_serves_threads_and_is_remade_after_a_fork(url: str) -> None:
    """It holds no connection: each command takes its own from a pool, and a fork takes the pool away."""
    with Worker(url) as worker:
        channel = worker.channel
        wrong = []

        def hammer(name: str) -> None:
            for number in range(300):
                with channel.conn_or_acquire() as client, client.pipeline() as pipe:
                    pipe.set(f"hammer-{name}", number)
                    pipe.get(f"hammer-{name}")
                    if pipe.execute()[1] != str(number).encode():
                        wrong.append((name, number))

        threads = [threading.Thread(target=hammer, args=(str(i),)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        with channel.conn_or_acquire() as one, channel.conn_or_acquire() as same:
            assert one is same
        channel._after_fork()  # what kombu does in a child
        with channel.conn_or_acquire() as child:
            assert child is not one
            assert child.connection_pool is channel.pool
            assert child.ping()


def test_a_forked_child_shares_no_connection(url: str) -> None:
    """Parent and child talk to Redis at the same time, each over its own."""
    script = (
        "import os, sys\nfrom claims import *\n"
        "worker = Worker(sys.argv[1])\n"
        "with worker.channel.conn_or_acquire() as client: client.ping()\n"
        "import billiard\n"
        "def child():\n"
        "    with worker.channel.conn_or_acquire() as client:\n"
        "        assert all(client.incr('child') for _ in range(500))\n"
        "process = billiard.Process(target=child)\n"
        "process.start()\n"
        "with worker.channel.conn_or_acquire() as client:\n"
        "    assert [client.incr('parent') for _ in range(500)] == [*range(1, 501)]\n"
        "process.join()\n"
        "assert process.exitcode == 0\n"
        "assert redis.Redis.from_url(sys.argv[1]).get('child') == b'500'\n"
        "os._exit(0)\n"
    )
    done = run_script(script, url)
    assert done.returncode == 0, done.stderr
