"""Processes that claim for themselves, on real servers: nothing is lost or taken twice, whatever breaks."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.waiting import wait_for

from workbench.devstack.processes import free_port
from workbench.devstack.redis import NAMED_BY, missing_tls, redis_server
from worker.queue.broker import dead_letters, delayed, keys
from worker.queue.broker.excerpts import is_excerpt
from worker.queue.broker.inspection import Rules
from worker.queue.claims import (
    ALONE,
    ANSWERED,
    COUNTED,
    REQUEUED_SECONDS,
    UNCOUNTED,
    ClaimedMessage,
    Claims,
    Tidier,
    renew,
)
from worker.queue.overview import Overview

from .claims import declare_dead
from .faulty_link import FaultyLink, faulty_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from workbench.devstack.redis import Redis

    from .faulty_link import Fault

QUEUE, OTHER = "retrieval", "pipeline"
LOST = (redis.ConnectionError, redis.TimeoutError, OSError)


@pytest.fixture(scope="module", params=["bundled", "redis-server"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """The bundled Valkey, and the redis-server of PATH, with the shipped users."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "bundled":
            if shutil.which(request.param) is None:
                pytest.skip("no redis-server on PATH")
            patch.setenv(NAMED_BY, request.param)
        with redis_server(tmp_path_factory.mktemp("redis")) as running:
            yield running


@pytest.fixture
def broker(server: Redis) -> Iterator[redis.Redis]:
    """An administrator's connection to the emptied server."""
    with redis.Redis.from_url(server.url()) as client:
        client.flushall()
        yield client


@pytest.fixture
def link(server: Redis) -> Iterator[FaultyLink]:
    with faulty_link(server.port) as faulty:
        yield faulty


def connect(server: Redis, port: int | None = None) -> redis.Redis:
    """A client as a process has it: the worker's user, time limits, no repeats."""
    url = server.url(user="worker", port=port)
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=30)


@pytest.fixture
def process(server: Redis) -> Iterator[Callable[..., Claims]]:
    """Makes the claims of a process."""
    with contextlib.ExitStack() as stack:

        def make(*queues: str, port: int | None = None, **options: Any) -> Claims:
            client = stack.enter_context(connect(server, port))
            announce = options.pop("announce", lambda _: None)
            claims = Claims(client, queues or (QUEUE,), "host-1", announce, **options)
            stack.callback(lambda: [line.drop() for line in claims._lines])
            claims.connect()
            return claims

        yield make


def fill(broker: redis.Redis, *texts: str, queue: str = QUEUE) -> None:
    for text in texts:
        broker.lpush(queue, text)


def texts(messages: list[ClaimedMessage]) -> list[str]:
    return [message.raw.decode() for message in messages]


def waiting(broker: redis.Redis, queue: str = QUEUE) -> list[str]:
    """Messages of a queue, the next one first."""
    messages: Any = broker.lrange(queue, 0, -1)
    return [raw.decode() for raw in messages[::-1]]


def held(broker: redis.Redis) -> list[str]:
    """Messages of all owners' lists."""
    return [raw.decode() for place in broker.keys("*.inflight.*") for raw in broker.lrange(place, 0, -1)]


def places(broker: redis.Redis) -> list[str]:
    """Lists that are listed."""
    listed: Any = broker.zrange(keys.OWNERS, 0, -1)
    return sorted(place.decode() for place in listed)


def counts(broker: redis.Redis) -> dict[str, str]:
    """Counts and marks, by the messages 0 to 9."""
    names = {keys.digest(str(n).encode()): str(n) for n in range(10)}
    stored: Any = broker.hgetall(keys.deliveries(QUEUE))
    marks = {key.decode(): value.decode() for key, value in stored.items()}
    return {names[key[:40]] + key[40:]: value for key, value in marks.items()}


def drain(claims: Claims, limit: int = 3) -> list[str]:
    """Take and answer all that waits."""
    answered: list[str] = []
    while messages := claims.take(limit):
        answered += texts(messages)
    return answered


# --- taking and acknowledging -----------------------------------------------------------------------


def test_a_list_of_its_own_is_the_only_record(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Taking acknowledges what was taken before; at most half of what waits is taken, and first in, first out."""
    fill(broker, *"012345")
    claims = process()
    taken = claims.take(8)
    assert texts(taken) == ["0", "1", "2"]
    assert {message.place for message in taken} < {*places(broker)}
    assert broker.lrange(taken[0].place, 0, -1) == [b"2", b"1", b"0"]
    assert texts(claims.take(1)) == ["3"]
    assert (held(broker), waiting(broker)) == (["3"], ["4", "5"])
    claims.acknowledge()
    assert held(broker) == []
    assert drain(claims) == ["4", "5"]
    assert not broker.exists(keys.deliveries(QUEUE))


def test_a_process_that_leaves_requeues_what_it_has(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """In its order, before what waits, uncounted; of its owners nothing is left."""
    fill(broker, *"012345")
    announced: list[Any] = []
    claims = process(announce=announced.append)
    claims.take(3)
    claims.close()
    assert waiting(broker) == [*"012345"]
    assert {*broker.keys()} == {QUEUE.encode(), keys.numbers(QUEUE).encode()}
    assert len(announced) == 1  # its owners: whoever tidies up after it does that again
    assert Tidier(broker).tidy(announced[0][0]) == 0


def test_a_wait_acknowledges_too(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Messages that were taken before are answered, by whatever way the next one comes."""
    fill(broker, *"0123")
    claims = process()
    assert [texts(claims.wait(1)), texts(claims.take(1)), texts(claims.wait(1))] == [["0"], ["1"], ["2"]]
    assert held(broker) == ["2"]
    assert claims.take(1)[0].raw == b"3"
    assert held(broker) == ["3"]


def test_two_processes_share_the_messages(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Racing: each message is taken by one of them."""
    fill(broker, *map(str, range(400)))
    answered: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda claims: answered.append(drain(claims)), args=(process(),)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answered[0] + answered[1], key=int) == [str(number) for number in range(400)]
    for share in answered:
        assert share == sorted(share, key=int)


def test_queues_take_turns(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """However many wait in one; what was taken of one queue is acknowledged with the other's."""
    fill(broker, *"012345")
    fill(broker, "a", "b", queue=OTHER)
    claims = process(QUEUE, OTHER)
    queues = [message.queue for _ in range(4) for message in claims.take(1)]
    assert sorted(queues) == [OTHER, OTHER, QUEUE, QUEUE]
    assert held(broker) == [{QUEUE: "1", OTHER: "b"}[queues[-1]]]


def test_messages_are_given_back_and_delayed(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """By themselves, in their order, and once, however often the command is repeated."""
    fill(broker, *"01234567")
    claims = process()
    messages = claims.take(4)
    for _ in range(2):
        claims.requeue(messages[1:3])
    assert waiting(broker) == [*"124567"]
    assert [claims.delay(messages[3], 0.0, b"changed"), claims.delay(messages[3], 0.0, b"changed")] == [True, False]
    assert held(broker) == ["0"]
    ((tag, due),) = broker.zrange(keys.delayed(QUEUE), 0, -1, withscores=True)
    assert abs(due - broker.time()[0]) < 5
    assert broker.hgetall(keys.delayed_messages(QUEUE)) == {tag: b"changed"}
    delayed.promote(broker, QUEUE)
    assert drain(claims) == [*"124567", "changed"]


@pytest.mark.parametrize("is_full", [False, True])
def test_a_refused_message_becomes_one_dead_letter(
    broker: redis.Redis, process: Callable[..., Claims], is_full: bool
) -> None:
    """Out of the process' list, with the number of processes that died of it; repeated, it becomes no second one."""
    fill(broker, *"01")
    broker.hset(keys.deliveries(QUEUE), keys.digest(b"0"), 5)
    (message,) = process().take(1)
    assert (message.count, message.alone) == (5, False)
    letter = (QUEUE, message.place, message.raw, {"reason": "max_deliveries"}, Rules())
    with full(broker) if is_full else contextlib.nullcontext():
        assert [dead_letters.dead_letter(broker, *letter) for _ in range(2)] == [5, None]
    ((_, fields),) = broker.xrange(keys.dead(QUEUE))
    assert fields == {b"deliveries": b"5", b"reason": b"max_deliveries"}
    assert (held(broker), counts(broker)) == ([], {})


def test_an_answered_message_is_no_longer_counted(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Its count and its mark go with its acknowledgement, and no other's."""
    fill(broker, *"01")
    broker.hset(keys.deliveries(QUEUE), mapping={keys.digest(b"0"): 2, f"{keys.digest(b'0')}:alone": 1})
    broker.hset(keys.deliveries(QUEUE), keys.digest(b"9"), 1)
    claims = process()
    (message,) = claims.wait(1)
    assert (message.raw, message.count, message.alone) == (b"0", 2, True)
    assert [(other.count, other.alone) for other in claims.take(1)] == [(0, False)]
    assert counts(broker) == {"9": "1"}


@pytest.mark.parametrize("way", ["take", "wait"])
def test_only_an_excerpt_of_a_long_message_is_taken(
    broker: redis.Redis, process: Callable[..., Claims], way: str
) -> None:
    """Its bytes reach no process: not by a script, and not by the blocking command."""
    broker.lpush(QUEUE, b"x" * 3_000_000)
    claims = process(longest=100_000)
    if way == "wait":
        assert claims.wait(1) == []
        assert [is_excerpt(text.encode()) for text in held(broker)] == [True]  # else idle processes would pass it round
    (message,) = claims.take(1)
    assert is_excerpt(message.raw)
    assert broker.lrange(message.place, 0, -1) == [message.raw]


def test_no_more_is_taken_beyond_a_budget_of_bytes(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """The message that exceeds it is taken still."""
    broker.lpush(QUEUE, *[b"x" * 700_000] * 8)
    assert len(process().take(8)) == 2


def test_views_count_a_worker_once(server: Redis, broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """However many processes and queues it has; they see what it holds, of which queue."""
    overview = Overview(server.url(0, "inspector"), [QUEUE, OTHER])
    claims, other = process(QUEUE, OTHER), process(QUEUE, OTHER)
    fill(broker, *"012")
    fill(broker, "3", queue=OTHER)
    assert [len(claims.take(2)), len(other.take(2))] == [1, 2]
    (worker,) = overview.look(0).workers
    assert (worker.name, worker.held, worker.is_alive) == ("host-1", {OTHER: 1, QUEUE: 2}, True)


def test_views_tell_a_dead_worker_as_long_as_it_holds_something(
    server: Redis, broker: redis.Redis, process: Callable[..., Claims]
) -> None:
    """Its messages come back within seconds if a worker is alive; whoever is gone and holds nothing is no worker."""
    overview = Overview(server.url(0, "inspector"), [QUEUE, OTHER])
    fill(broker, *"01")
    process().take(1)
    declare_dead(broker)
    state = overview.look(0)
    (worker,) = state.workers
    assert (worker.name, worker.held, worker.is_alive, state.alive) == ("host-1", {QUEUE: 1}, False, 0)
    told = f"holds 1 of retrieval; it is gone, last heard from {worker.silent_seconds:.0f} s ago: requeued"
    assert state.describe(worker) == f"{told} once a worker runs"
    with connect(server) as client:
        renew(client.execute_command, {keys.inflight(QUEUE, "host-2-1a2b3c4d-9a"): "host-2 @5.000 0"})
        state = overview.look(0)
        assert state.oldest_running_seconds == 0  # what host-2 told of has ended since
        assert (state.describe(worker), state.describe(state.workers[1])) == (
            f"{told} within {REQUEUED_SECONDS:.0f} s",
            "holds nothing",
        )
        Tidier(client).tidy_dead()
    assert [worker.name for worker in overview.look(0).workers] == ["host-2"]
    assert places(broker) == [keys.inflight(QUEUE, "host-2-1a2b3c4d-9a")]


# --- lost replies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["reply", "command"])
@pytest.mark.parametrize("before", [1, 2, 3])
def test_a_claim_whose_reply_is_lost_takes_and_acknowledges_once(
    broker: redis.Redis, link: FaultyLink, process: Callable[..., Claims], fault: Fault, before: int
) -> None:
    """Before or after the script ran: what was answered is not run again, and what was moved is, in order."""
    fill(broker, *"01234567")
    claims = process(port=link.port)
    assert [texts(claims.take(1)) for _ in range(before)] == [[str(number)] for number in range(before)]
    link.lose(fault)
    with pytest.raises(LOST):
        claims.take(1)
    assert held(broker) == [str(before if fault == "reply" else before - 1)]
    assert drain(claims) == [*"01234567"][before:]
    assert (held(broker), counts(broker)) == ([], {})
    assert len(places(broker)) == 2


@pytest.mark.parametrize("fault", ["reply", "command"])
def test_a_wait_whose_reply_is_lost_loses_nothing(
    broker: redis.Redis, link: FaultyLink, process: Callable[..., Claims], fault: Fault
) -> None:
    fill(broker, *"01")
    claims = process(QUEUE, OTHER, port=link.port)
    claimed: list[str] = []
    link.lose(fault)  # on either connection
    with contextlib.suppress(*LOST):
        claimed = texts(claims.wait(1))
    assert claimed + drain(claims) == ["0", "1"]
    assert len(places(broker)) == 4


@pytest.mark.parametrize("fault", ["reply", "command"])
def test_messages_stay_with_a_process_that_lost_its_connection(
    broker: redis.Redis, link: FaultyLink, process: Callable[..., Claims], fault: Fault
) -> None:
    """It goes on with them; their owner is renewed until they are answered, and forgotten then."""
    announced: list[Any] = []
    fill(broker, *"01234567")
    claims = process(port=link.port, announce=announced.append)
    messages = claims.take(4)
    link.lose(fault)
    with pytest.raises(LOST):
        claims.requeue(messages[1:2])
    claims.requeue(messages[1:2])
    assert claims.delay(messages[3], 300)
    assert sorted(held(broker)) == ["0", "2"]
    assert messages[0].place in announced[-1]
    assert {*announced[-1]} <= {*places(broker)}
    assert texts(claims.take(1)) == ["1"]
    assert held(broker) == ["1"]
    assert places(broker) == announced[-1]


def test_owners_are_announced_before_they_take_anything(
    broker: redis.Redis, link: FaultyLink, process: Callable[..., Claims]
) -> None:
    """And are registered by then; what the lost ones held is requeued first."""
    process().take(1)  # so that Redis has the script, whichever test runs first
    fill(broker, *"01")
    seen: list[Any] = []
    claims = process(port=link.port, announce=lambda names: seen.append((names, places(broker), held(broker))))
    link.lose("reply")
    with pytest.raises(LOST):
        claims.take(1)
    claims.connect()
    assert [names for names, _, _ in seen] == [seen[0][0], seen[1][0]]
    assert all({*names} <= {*listed} for names, listed, _ in seen)
    assert [holding for _, _, holding in seen] == [[], []]
    assert waiting(broker) == ["0", "1"]


@pytest.mark.parametrize("is_leaving", [False, True])
@pytest.mark.parametrize("number", range(20))
def test_a_list_is_announced_for_as_long_as_it_holds_something(
    broker: redis.Redis, link: FaultyLink, process: Callable[..., Claims], number: int, is_leaving: bool
) -> None:
    """Whichever command is lost: only so does the main process know whether the jobs of a dead process are answered."""
    fill(broker, *"0123")
    announced: list[Any] = []
    claims = process(port=link.port, announce=announced.append)
    claims.take(1)
    claims.disconnect()
    link.lose("command", number)
    with contextlib.suppress(*LOST):
        claims.close() if is_leaving else claims.take(1)
    assert {place for place in places(broker) if broker.exists(place)} <= {*announced[-1]}


# --- late commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["take", "wait"])
def test_a_command_that_arrives_late_does_nothing(
    broker: redis.Redis, link: FaultyLink, process: Callable[..., Claims], way: str
) -> None:
    """The connection that sent it was ended first, so its owner is forgotten at once."""
    claims = process(port=link.port)
    link.hold(cut=True)
    with pytest.raises(LOST):
        claims.take(1) if way == "take" else claims.wait(30)
    claims.connect()
    mine = places(broker)
    fill(broker, *"0123")
    link.release()
    assert (waiting(broker), held(broker)) == ([*"0123"], [])
    assert places(broker) == mine
    assert len(mine) == 2


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_killed_process_with_an_outstanding_wait_loses_nothing(
    server: Redis, broker: redis.Redis, link: FaultyLink, is_stopped: bool
) -> None:
    """Also if Redis is not told of its end, and moves a message to it: who tidies up requeues it."""
    with killed(server, link.port, "claims.wait(600)") as kill:
        wait_for(lambda: broker.info("clients")["blocked_clients"] == 1)
        listed = places(broker)
        if is_stopped:
            link.hold()
        kill()
        if not is_stopped:
            wait_for(lambda: broker.info("clients")["blocked_clients"] == 0)
    fill(broker, "0")
    assert held(broker) == (["0"] if is_stopped else [])
    tidier = Tidier(broker)
    assert sum(tidier.tidy(place) for place in listed) == int(is_stopped)
    assert (waiting(broker), counts(broker), places(broker)) == (["0"], {}, [])
    assert not broker.info("clients")["blocked_clients"]
    link.release()


@contextlib.contextmanager
def killed(server: Redis, port: int, script: str) -> Iterator[Callable[[], None]]:
    """A process of its own with `claims`; gives what kills it."""
    code = (
        "import sys, redis\nfrom worker.queue.claims import Claims\n"
        "client = redis.Redis.from_url(sys.argv[1], socket_timeout=600)\n"
        f"claims = Claims(client, ['{QUEUE}'], 'host-2', lambda names: None)\n{script}\n"
        "print('done', flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", code, server.url(user="worker", port=port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as child:

        def kill() -> None:
            if "wait" not in script:
                assert child.stdout is not None
                assert child.stdout.readline() == b"done\n"
            child.kill()
            child.wait()

        try:
            yield kill
        finally:
            child.kill()


# --- dead processes and workers ---------------------------------------------------------------------


def test_a_bundle_of_a_killed_worker_runs_alone(server: Redis, broker: redis.Redis) -> None:
    """Another worker requeues it once its keys have expired: uncounted, marked, in order, and leaves no owner."""
    fill(broker, *"01234")
    with killed(server, server.port, "claims.take(3)") as kill:
        kill()
    for place in places(broker):
        broker.zadd(keys.OWNERS, {place: 1})
    Tidier(broker).tidy_dead()
    assert len(held(broker)) == 3  # its keys have not expired
    declare_dead(broker)
    Tidier(broker).tidy_dead()
    assert waiting(broker) == [*"01234"]
    assert counts(broker) == {f"{number}:alone": "1" for number in range(3)}
    assert broker.keys("*owner*") == []


def test_a_message_that_was_alone_counts(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """A worker that died with one message may have died of it; after a death in a bundle it counts as two."""
    fill(broker, *"01")
    for expected in ({"0": "1"}, {"0": "2"}, {"0": "4", "0:alone": "2"}, {"0": "5", "0:alone": "2"}):
        if expected == {"0": "4", "0:alone": "2"}:
            broker.hset(keys.deliveries(QUEUE), f"{keys.digest(b'0')}:alone", 1)
        process().take(1)
        declare_dead(broker)
        Tidier(broker).tidy_dead()
        assert counts(broker) == expected
    assert waiting(broker) == ["0", "1"]


@contextlib.contextmanager
def full(broker: redis.Redis) -> Iterator[None]:
    """A Redis that refuses whatever adds."""
    broker.config_set("maxmemory", "1")
    try:
        yield
    finally:
        broker.config_set("maxmemory", "0")


@pytest.mark.parametrize(
    ("mode", "queue", "deferred", "count"),
    [
        (UNCOUNTED, "012345", "", {}),
        (ALONE, "012345", "", {"0:alone": "1", "1:alone": "1", "2:alone": "1"}),
        (COUNTED, "012345", "", {"0": "1", "1": "1", "2": "1"}),
        (ANSWERED, "345", "", {}),
        (keys.digest(b"0"), "12345", "0", {"0": "1"}),
        (keys.digest(b"2"), "01345", "2", {"2": "1"}),
        (keys.digest(b"7"), "012345", "", {}),
    ],
)
@pytest.mark.parametrize("is_full", [False, True])
def test_each_way_to_tidy_up(
    server: Redis,
    broker: redis.Redis,
    process: Callable[..., Claims],
    mode: str,
    queue: str,
    deferred: str,
    count: dict[str, str],
    is_full: bool,
) -> None:
    """Done once, however often it is repeated, also on a full Redis and as the shipped user."""
    fill(broker, *"012345")
    messages = process().take(8)
    with connect(server) as client, full(broker) if is_full else contextlib.nullcontext():
        tidier = Tidier(client)
        assert [tidier.tidy(messages[0].place, mode) for _ in range(2)] == [3, 0]
    assert waiting(broker) == [*queue]
    assert broker.lrange(keys.deferred(QUEUE), 0, -1) == [text.encode() for text in deferred]
    assert counts(broker) == count
    assert messages[0].place not in places(broker)


def test_a_message_that_killed_a_process_alone_stays_marked_so(
    broker: redis.Redis, process: Callable[..., Claims]
) -> None:
    """A later death in a bundle, of a worker that does not know the mark, is not counted twice."""
    fill(broker, *"0123")
    broker.hset(keys.deliveries(QUEUE), f"{keys.digest(b'0')}:alone", 2)
    Tidier(broker).tidy(process().take(2)[0].place, ALONE)
    assert counts(broker) == {"0:alone": "2", "1:alone": "1"}


def test_long_lists_are_tidied_up_in_parts(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """No script holds up Redis; the message that counts is found in the whole list; of two alike, one counts."""
    texts = [*map(str, range(400))]
    texts[60] = "70"
    fill(broker, *texts)
    messages = process().take(200)
    assert Tidier(broker).tidy(messages[0].place, keys.digest(b"70")) == 200
    del texts[70]
    assert waiting(broker) == texts
    assert broker.hgetall(keys.deliveries(QUEUE)) == {keys.digest(b"70").encode(): b"1"}
    assert broker.lrange(keys.deferred(QUEUE), 0, -1) == [b"70"]


def test_an_owner_that_counted_as_dead_takes_nothing(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """It finds that out by itself, becomes another owner, and goes on; what it had answered is not run again."""
    fill(broker, *"01234567")
    claims = process()
    claims.take(2)
    before = places(broker)
    for place in before:
        broker.delete(keys.owner_key(keys.parse_inflight(place)[1]))
    assert claims.take(2) == []
    assert not {*before} & {*places(broker)}
    assert drain(claims) == [*"234567"]


def test_a_connection_that_was_closed_is_not_used_again(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """A client would connect by itself, and take messages under the name of the connection that is gone."""
    fill(broker, *"0123")
    claims = process()
    claims.take(1)
    claims._lines[0].connection.disconnect()
    with pytest.raises(LOST):
        claims.take(1)
    assert drain(claims) == [*"123"]
    assert broker.zcard(keys.OWNERS) == 2


def test_an_owner_that_was_tidied_up_takes_nothing_more(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """A process that stood still for too long loses its connection, and what it held is run by others."""
    fill(broker, *"0123")
    slow, other = process(), process()
    slow.take(2)
    for place in places(broker):
        Tidier(broker).tidy(place)
    with pytest.raises(LOST):
        slow.take(2)
    with pytest.raises(LOST):
        other.take(2)
    assert (waiting(broker), held(broker), places(broker)) == ([*"0123"], [], [])
    assert drain(slow) == [*"0123"]


@pytest.mark.parametrize(("held_texts", "count"), [("0", {"0": "1"}), ("012", {f"{n}:alone": "1" for n in range(3)})])
def test_what_a_worker_of_the_last_version_held_is_rescued(
    server: Redis, broker: redis.Redis, held_texts: str, count: dict[str, str]
) -> None:
    """A rolling change. A command of its connection may still arrive: its list is looked at for a while."""
    with connect(server) as client:
        place = keys.inflight(QUEUE, "host-3-0123456789ab")
        renew(client.execute_command, {place: keys.owner_value("host-3", 0)})
        tidier = Tidier(client)
        fill(broker, *held_texts, queue=place)
        tidier.tidy_dead()
        assert waiting(broker) == []
        declare_dead(broker)
        tidier.tidy_dead()
        assert (waiting(broker), counts(broker)) == ([*held_texts], count)
        fill(broker, "9", queue=place)
        tidier.tidy_dead()
        assert waiting(broker) == ["9", *held_texts]
        tidier.tidy_dead()
        assert places(broker) == [place]
        broker.zadd(keys.OWNERS, {place: 1})
        tidier.tidy_dead()
        assert places(broker) == []


def test_lists_of_others_keep_nothing_from_coming_back(
    server: Redis, broker: redis.Redis, process: Callable[..., Claims]
) -> None:
    """A worker of a queue that this one may not touch, a name that is none, a key of another type."""
    fill(broker, "0")
    process().take(1)
    declare_dead(broker)
    names = ["nope.inflight.host-9-1", "bogus", "\udcff", f"{QUEUE}.inflight.text"]
    broker.set(f"{QUEUE}.inflight.text", "")
    for name in names:
        broker.zadd(keys.OWNERS, {name.encode("utf-8", "surrogateescape"): 0})
    with connect(server) as client:
        Tidier(client).tidy_dead()
    assert waiting(broker) == ["0"]


def test_owners_whose_connections_can_not_be_ended_stay_listed(
    server: Redis,
    broker: redis.Redis,
    link: FaultyLink,
    process: Callable[..., Claims],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Users of an installation's own may lack the right: said once, and what a late command moves is requeued."""
    broker.execute_command("ACL", "SETUSER", "worker", "-client|kill")
    try:
        claims = process(port=link.port)
        link.hold(cut=True)
        with pytest.raises(LOST):
            claims.wait(30)
        lost = places(broker)
        claims.connect()
        fill(broker, *"01")
        link.release()
        assert held(broker) == ["0"]
        assert {*lost} < {*places(broker)}
        with connect(server) as client:
            for place in lost:
                broker.zadd(keys.OWNERS, {place: broker.time()[0] - 30})
            Tidier(client).tidy_dead()
        assert waiting(broker) == ["0", "1"]
        assert drain(claims) == ["0", "1"]
        assert capsys.readouterr().out.count("lost connections can't be ended") == 2  # once by each
    finally:
        broker.execute_command("ACL", "SETUSER", "worker", "+client|kill")


# --- a full Redis, and one that begins again --------------------------------------------------------


def test_a_full_redis_is_emptied(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Blocking commands are refused, and scripts take; messages are given back, delayed and acknowledged."""
    fill(broker, *"01234567")
    claims = process(QUEUE, OTHER)
    place = places(broker)[0]
    with full(broker):
        assert [claims.wait(30), claims.wait(30)] == [[], []]  # the second pauses
        messages = claims.take(8)
        assert texts(messages) == [*"0123"]
        claims.requeue(messages[2:])
        assert claims.delay(messages[1], 300)
        key = keys.owner_key(keys.parse_inflight(place)[1])
        renew(broker.execute_command, {place: "host-1 7"}, 77)
        assert (broker.get(key), broker.ttl(key) > 70) == (b"host-1 7", True)
        assert drain(claims) == [*"234567"]
        claims.connect()
    assert held(broker) == []


def test_processes_connect_to_a_full_redis(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Else none could empty it."""
    fill(broker, *"0123")
    with full(broker):
        assert drain(process()) == [*"0123"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_server_that_begins_again_has_everything(tmp_path: Path, is_killed: bool) -> None:
    """It has no script and other connections, and the process takes its messages on, as another owner."""
    port = free_port()
    with redis_server(tmp_path, durable=True, port=port) as server, redis.Redis.from_url(server.url()) as admin:
        fill(admin, *"01234567")
        client = connect(server)
        claims = Claims(client, [QUEUE], "host-1", lambda _: None)
        assert texts(claims.take(2)) == ["0", "1"]
        assert texts(claims.take(2)) == ["2", "3"]
        if is_killed:
            server.process.kill()
            server.process.wait()
    with redis_server(tmp_path, durable=True, port=port) as server, redis.Redis.from_url(server.url()) as admin:
        with pytest.raises(LOST):
            claims.take(2)
        assert texts(claims.take(1)) == ["4"]
        assert held(admin) == ["4"]
        assert len(places(admin)) == 2
        admin.script_flush()
        assert texts(claims.take(1)) == ["5"]
        claims.close()
        client.close()
        assert waiting(admin) == ["5", "6", "7"]


# --- waiting ----------------------------------------------------------------------------------------


def test_each_queue_is_waited_for(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """A message of any ends the wait, and no blocking command is left that would take another."""
    queues = [f"{QUEUE}.{number}" for number in range(3)]
    claims = process(*queues)
    for queue in queues:
        thread = threading.Thread(target=push_once_blocked, args=(broker, 3, queue))
        thread.start()
        assert texts(claims.wait(30)) == ["x"]
        thread.join()
        assert broker.info("clients")["blocked_clients"] == 0
        fill(broker, "y", queue=queue)
        assert texts(claims.take(1)) == ["y"]


def push_once_blocked(broker: redis.Redis, count: int, *queues: str) -> None:
    wait_for(lambda: broker.info("clients")["blocked_clients"] == count)
    with broker.pipeline() as pipe:
        for queue in queues:
            pipe.lpush(queue, "x")
        pipe.execute()


def test_messages_of_two_queues_at_once_are_both_claimed(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """The caller may run both, or give one back."""
    claims = process(QUEUE, OTHER)
    thread = threading.Thread(target=push_once_blocked, args=(broker, 2, QUEUE, OTHER))
    thread.start()
    messages = claims.wait(30)
    thread.join()
    assert sorted(message.queue for message in messages) == [OTHER, QUEUE]
    claims.requeue(messages[:1])
    assert len(held(broker)) == 1
    assert texts(claims.take(1)) == ["x"]
    claims.acknowledge()
    assert held(broker) == []


def test_a_connection_is_called_back_until_it_waits(
    broker: redis.Redis, link: FaultyLink, process: Callable[..., Claims]
) -> None:
    """Its blocking command may arrive after the call: a job would wait for as long as an idle process does."""
    claims = process(QUEUE, OTHER, port=link.port)
    broker.config_resetstat()
    fill(broker, "0")
    link.hold(1)

    def calls() -> int:
        statistics: Any = broker.info("commandstats")
        return int(statistics.get("cmdstat_client|unblock", {"calls": 0})["calls"])

    def resume() -> None:
        wait_for(lambda: calls() >= 2)
        link.resume()

    thread = threading.Thread(target=resume)
    thread.start()
    assert texts(claims.wait(600)) == ["0"]
    thread.join()
    assert broker.info("clients")["blocked_clients"] == 0
    fill(broker, "1", queue=OTHER)
    assert drain(claims) == ["1"]


@pytest.mark.parametrize("queues", [(QUEUE,), (QUEUE, OTHER)])
def test_a_wait_ends_when_it_is_asked_to(
    broker: redis.Redis, process: Callable[..., Claims], queues: tuple[str, ...]
) -> None:
    """By whatever can be read, such as a pipe that a signal handler writes to."""
    read, write = os.pipe()
    claims = process(*queues)
    os.write(write, b"x")
    assert claims.wait(30, read) == []
    assert broker.info("clients")["blocked_clients"] == 0
    fill(broker, "0")
    assert waiting(broker) == ["0"]
    with full(broker):
        claims.wait(30, read)
        assert claims.wait(30, read) == []
    for end in (read, write):
        os.close(end)


def test_a_wait_ends_with_its_time(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Nothing was taken, and nothing waits."""
    claims = process(QUEUE, OTHER)
    assert claims.wait(0.01) == []
    assert broker.info("clients")["blocked_clients"] == 0


def test_a_message_that_arrives_as_the_wait_ends_is_not_lost(
    broker: redis.Redis, link: FaultyLink, process: Callable[..., Claims]
) -> None:
    """A connection that breaks while others are called back: what they moved is requeued, or returned."""
    claims = process(QUEUE, OTHER, port=link.port)
    for number in range(10):
        fill(broker, f"a{number}")
        fill(broker, f"b{number}", queue=OTHER)
        link.lose("reply")
        claimed: list[str] = []
        for _ in range(5):
            with contextlib.suppress(*LOST):
                claimed += texts(claims.wait(0.01))
        assert sorted(claimed) == [f"a{number}", f"b{number}"]
    claims.acknowledge()
    assert held(broker) == []


def test_claims_over_tls(tmp_path: Path) -> None:
    """A reply may wait decrypted where no poll sees it: none is left there."""
    if missing_tls():
        pytest.skip(missing_tls())
    with (
        redis_server(tmp_path, tls=True) as server,
        connect(server) as client,
        redis.Redis.from_url(server.url()) as admin,
    ):
        claims = Claims(client, [QUEUE, OTHER], "host-1", lambda _: None, longest=1_000_000)
        for size in (10, 20_000, 900_000):
            thread = threading.Thread(target=push_once_blocked, args=(admin, 2, QUEUE, OTHER))
            thread.start()
            assert texts(claims.wait(30)) == ["x", "x"]
            thread.join()
            fill(admin, "y" * size, "z")
            assert [len(message.raw) for message in claims.wait(30)] == [size]
            assert texts(claims.take(1)) == ["z"]
        admin.lpush(QUEUE, b"x" * 3_000_000)
        assert claims.wait(30) == []
        assert is_excerpt(claims.take(1)[0].raw)
        claims.close()


# --- any order --------------------------------------------------------------------------------------

KINDS = "take take take wait answer requeue delay reply command kill expire push"
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS.split()), st.integers(0, 1), st.integers(1, 8)), min_size=20, max_size=60
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_whatever_happens_every_message_is_answered(server: Redis, steps: list[tuple[str, int, int]]) -> None:
    """Two processes, thirty messages, any order of takes, answers, lost replies and commands, kills and expiries."""
    with redis.Redis.from_url(server.url()) as broker, faulty_link(server.port) as link, connect(server) as direct:
        broker.flushall()
        pushed = [f"m{number}" for number in range(15)]
        fill(broker, *pushed)
        answered: list[str] = []
        crew = [Member(server, link, answered) for _ in range(2)]
        for step, who, number in steps:
            if step == "push" and len(pushed) < 30:
                pushed.append(f"m{len(pushed)}")
                fill(broker, pushed[-1])
            elif step in ("reply", "command"):
                link.lose("reply" if step == "reply" else "command")
            elif step == "kill":
                crew[who].leave()
                crew[who] = Member(server, link, answered)
            elif step == "expire":
                declare_dead(broker)
                Tidier(direct).tidy_dead()
            elif step != "push":
                with contextlib.suppress(*LOST):
                    crew[who].act(step, number)
            lost = {*pushed} - {*answered} - {*waiting(broker)} - {*held(broker)} - {*later(broker)}
            assert not lost, step
        for member in crew:
            member.leave()
        link.lose("reply")
        link.lost("reply")
        declare_dead(broker)
        Tidier(direct).tidy_dead()
        for tag in broker.zrange(keys.delayed(QUEUE), 0, -1):
            broker.zadd(keys.delayed(QUEUE), {tag: 1})
        delayed.promote(broker, QUEUE)
        last = Claims(direct, [QUEUE], "host-9", lambda _: None)
        answered += drain(last)
        last.close()
        assert {*answered} == {*pushed}
        assert (held(broker), places(broker)) == ([], [])


def later(broker: redis.Redis) -> list[str]:
    messages: Any = broker.hvals(keys.delayed_messages(QUEUE))
    return [raw.decode() for raw in messages]


class Member:
    """A process that holds messages for several steps."""

    def __init__(self, server: Redis, link: FaultyLink, answered: list[str]) -> None:
        self._claims = Claims(connect(server, link.port), [QUEUE], "host-1", lambda _: None)
        self._messages: list[ClaimedMessage] = []
        self._answered = answered

    def act(self, step: str, number: int) -> None:
        """Answer all that is held, and then take, wait, or end; or return a message."""
        if step in ("requeue", "delay") and self._messages:
            message = self._messages[-1]
            self._claims.requeue([message]) if step == "requeue" else self._claims.delay(message, 300)
            self._messages.pop()
            return
        self._answered += texts(self._messages)
        self._messages = []
        if step == "take":
            self._messages = self._claims.take(number)
        elif step == "wait":
            self._messages = self._claims.wait(0.001)
        elif step == "answer":
            self._claims.acknowledge()

    def leave(self) -> None:
        """End without a word, as a killed process does."""
        for line in self._claims._lines:
            line.drop()
