"""Turns of callers, on real servers: one caller's backlog delays no other, and nothing is lost while it is sorted."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from worker.queue.broker import keys, turns
from worker.queue.claims import DIED, GATHERED_AT_ONCE, MOST_OF_SEVERAL, UNCOUNTED, Claims, Tidier, renew
from worker.queue.overview import Overview

from .test_claims import LOST, QUEUE, broker, connect, link, server
from .test_claims import process as unrenewed_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from workbench.devstack.redis import Redis

    from .faulty_link import Fault, FaultyLink

__all__ = ["broker", "link", "server", "unrenewed_process"]

LIMIT, MOST_AT_ONCE = 8, 64
FLOOD = 3000
LIFE_SECONDS = 600


@pytest.fixture
def process(broker: redis.Redis, unrenewed_process: Callable[..., Claims]) -> Callable[..., Claims]:
    """Makes the claims of a process whose owners live as long as a test."""

    def announce(places: Sequence[str]) -> None:
        renew(broker.execute_command, dict.fromkeys(places, keys.owner_value("host-1", 0)), LIFE_SECONDS)

    return functools.partial(unrenewed_process, announce=announce)


def letter_of(raw: bytes) -> str:
    """Whose turn the messages of these tests take: of their first letter."""
    return raw[:1].decode()


def send(broker: redis.Redis, letter: str, count: int) -> None:
    broker.lpush(QUEUE, *(f"{letter}{number}" for number in range(count)))


def drain(claims: Claims, limit: int = LIMIT) -> list[str]:
    """Everything that waits, in the order of claims."""
    texts: list[str] = []
    while messages := claims.take(limit):
        texts += [message.raw.decode() for message in messages]
    return texts


def of(letter: str, texts: Sequence[str]) -> list[int]:
    return [int(text[1:]) for text in texts if text[0] == letter]


def test_a_lone_message_of_another_caller_is_next_but_one_whatever_the_backlog(
    broker: redis.Redis, process: Callable[..., Claims]
) -> None:
    """Once the backlog is sorted: it waits for one claim that was begun, and for one message of the other caller."""
    send(broker, "a", FLOOD)
    claims = process(turn_of=letter_of)
    while broker.llen(QUEUE) > 1:
        assert claims.take(LIMIT)
    for _ in range(5):
        send(broker, "b", 1)
        served = [letter_of(message.raw) for _ in range(2) for message in claims.take(LIMIT)]
        assert "b" in served[:2]


def test_claims_are_short_only_for_a_while_after_a_lone_message(
    broker: redis.Redis, process: Callable[..., Claims]
) -> None:
    """Its caller's next one waits for no long bundle, and the backlog of a few callers is taken in long ones."""
    for letter in "ab":
        send(broker, letter, FLOOD)
    claims = process(turn_of=letter_of)
    while broker.llen(QUEUE) > 1:
        assert len(claims.take(LIMIT)) == LIMIT
    for _ in range(2):
        send(broker, "c", 1)
        sizes = [len(claims.take(LIMIT)) for _ in range(100)]
        assert {*sizes[2:60]} == {MOST_OF_SEVERAL}
        assert {*sizes[66:]} == {LIMIT}


def test_a_backlog_of_long_messages_is_sorted_faster_than_taken(
    broker: redis.Redis, process: Callable[..., Claims]
) -> None:
    """A lone message behind it waits for a small part of it: more bytes are sorted at once than taken."""
    for number in range(120):
        broker.lpush(QUEUE, f"a{number}" + " " * 100_000)
    send(broker, "b", 1)
    assert drain(process(turn_of=letter_of)).index("b0") < 40


def test_callers_take_turns_whatever_each_has_waiting(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Of a backlog that is sorted, each of 64 callers gets the same number, as long as it has any."""
    for number in range(64):
        send(broker, chr(0x30 + number), 10 + 40 * (number % 4))
    total: Any = broker.llen(QUEUE)
    claims = process(turn_of=letter_of)
    texts = [message.raw.decode() for _ in range(total // GATHERED_AT_ONCE + 1) for message in claims.take(LIMIT)]
    assert turns.waiting(broker, QUEUE) + len(texts) == total
    served = [message.raw.decode() for _ in range(64) for message in claims.take(MOST_OF_SEVERAL)]
    counts = Counter(text[0] for text in served)
    assert (len(counts), min(counts.values()) + 1 >= max(counts.values())) == (64, True)
    texts += served + drain(claims)
    assert len({*texts}) == len(texts) == total
    for letter in map(chr, range(0x30, 0x30 + 64)):
        assert of(letter, texts) == sorted(of(letter, texts)), "in their order"
    assert not broker.exists(QUEUE, keys.callers(QUEUE), keys.numbers(QUEUE))


def test_few_messages_are_taken_as_they_came(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Nothing is sorted if all that waits may be taken at once, or if turns are off."""
    for letter, count in {"a": 3, "b": 2}.items():
        send(broker, letter, count)
    claims = process(turn_of=letter_of)
    assert drain(claims)[:3] == ["a0", "a1", "a2"]
    send(broker, "a", FLOOD)
    send(broker, "b", 1)
    assert drain(process())[-1] == "b0"


def test_a_worker_without_turns_empties_the_lists(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Nothing is left in them when the setting is changed."""
    send(broker, "a", FLOOD)
    send(broker, "b", FLOOD)
    taken = [message.raw.decode() for message in process(turn_of=letter_of).take(LIMIT)]
    assert broker.zcard(keys.callers(QUEUE))
    assert len({*taken, *drain(process())}) == 2 * FLOOD


def test_who_sends_again_and_again_is_new_once(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Twenty callers, each with one message at a time, delay a backlog by no more than their turns."""
    send(broker, "a", FLOOD)
    claims, others = process(turn_of=letter_of), [chr(number) for number in range(0x41, 0x41 + 20)]
    for letter in others:
        send(broker, letter, 1)
    claimed = [letter_of(message.raw) for message in claims.take(LIMIT)]
    while broker.llen(QUEUE) > 1:
        claimed = [letter_of(message.raw) for message in claims.take(LIMIT)]
    served = Counter[str]()
    for _ in range(200):
        for letter in {*claimed} - {"a"}:
            send(broker, letter, 1)
        claimed = [letter_of(message.raw) for message in claims.take(LIMIT)]
        assert claimed
        served.update(claimed)
    assert 2 * served["a"] > max(served[letter] for letter in others) > 0


def test_callers_without_messages_delay_nobody(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """More of them than one command looks at stand before a message."""
    broker.zadd(keys.callers(QUEUE), {keys.caller(QUEUE, f"{number}"): number for number in range(5000)})
    broker.lpush(keys.caller(QUEUE, "9999"), "last")
    broker.zadd(keys.callers(QUEUE), {keys.caller(QUEUE, "9999"): 9999})
    broker.hset(keys.numbers(QUEUE), "sorted", 1)
    claims = process(turn_of=letter_of)
    assert [message.raw for message in claims.take(LIMIT)] == [b"last"]
    assert claims.take(LIMIT) == []
    assert not broker.exists(keys.callers(QUEUE), keys.numbers(QUEUE))


def test_a_requeued_message_has_had_its_turn(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """It is next, before the backlog of its caller and of all others."""
    send(broker, "a", FLOOD)
    send(broker, "b", FLOOD)
    claims = process(turn_of=letter_of)
    first = claims.take(LIMIT)
    claims.requeue(first)
    again = claims.take(LIMIT)
    assert [message.raw for message in again][: len(first)] == [message.raw for message in first]


def test_a_blocked_process_is_woken_by_what_another_one_sorts(
    broker: redis.Redis, process: Callable[..., Claims]
) -> None:
    """One message of all that waits stands in the queue, from which it is taken."""
    send(broker, "a", LIMIT * 3)
    sorts, waits = process(turn_of=letter_of), process(turn_of=letter_of)
    taken = sorts.take(LIMIT)
    assert broker.zcard(keys.callers(QUEUE))
    assert broker.llen(QUEUE) == 1
    assert waits.wait(5.0)
    assert len(taken) + 1 + len(drain(sorts)) + len(drain(waits)) == LIMIT * 3


def test_overview_and_purge_see_the_whole(server: Redis, broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Sorted messages wait like the rest."""
    send(broker, "a", FLOOD)
    send(broker, "b", FLOOD)
    taken = process(turn_of=letter_of).take(LIMIT)
    overview = Overview(server.url(user="inspector"), [QUEUE])
    assert overview.look(0).queues[0].waiting == turns.waiting(broker, QUEUE) == 2 * FLOOD - len(taken)
    assert turns.purge(broker, QUEUE) + broker.llen(QUEUE) == 2 * FLOOD - len(taken)
    assert {key for key in broker.scan_iter() if b"caller" in key} == set()


def test_lists_that_vanished_are_not_counted_for_long(
    server: Redis, broker: redis.Redis, process: Callable[..., Claims]
) -> None:
    """A message that no list has does not wait, whatever was counted."""
    send(broker, "a", FLOOD)
    send(broker, "b", FLOOD)
    claims = process(turn_of=letter_of)
    assert claims.take(LIMIT)
    broker.delete(*(keys.caller(QUEUE, letter) for letter in "ab"))
    drain(claims)
    assert Overview(server.url(user="inspector"), [QUEUE]).look(0).queues[0].waiting == 0


def test_what_is_being_sorted_counts_once(server: Redis, broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """A look sees one moment, while another thread sorts and takes."""
    for _ in range(20):
        send(broker, "a", FLOOD)
    claims = process(turn_of=letter_of)
    totals = [20 * FLOOD]

    def work() -> None:
        while totals[-1] > 18 * FLOOD:
            totals.append(totals[-1] - len(claims.take(LIMIT)))

    overview = Overview(server.url(user="inspector"), [QUEUE])
    worker = threading.Thread(target=work)
    worker.start()
    while worker.is_alive():
        most = totals[-1]
        assert overview.look(0).queues[0].waiting <= most


@pytest.mark.parametrize("number", range(4))
def test_a_purge_that_breaks_leaves_no_list_that_nobody_serves(
    server: Redis, broker: redis.Redis, process: Callable[..., Claims], link: FaultyLink, number: int
) -> None:
    """At each of its commands: what is sent later is taken."""
    send(broker, "a", FLOOD)
    claims = process(turn_of=letter_of)
    assert claims.take(LIMIT)
    broker.script_flush()
    with connect(server, link.port) as client:
        client.ping()
        link.lose("command", number)
        with contextlib.suppress(*LOST):
            turns.purge(client, QUEUE)
    drain(claims)
    send(broker, "a", FLOOD)
    assert of("a", drain(claims)) == [*range(FLOOD)]


@pytest.mark.parametrize("fault", ["reply", "command"])
@pytest.mark.parametrize("number", range(2))
def test_nothing_is_lost_if_the_connection_breaks_while_it_sorts(
    broker: redis.Redis, process: Callable[..., Claims], link: FaultyLink, fault: Fault, number: int
) -> None:
    """At each of the two commands of a claim: it gathers, it sorts and takes."""
    send(broker, "a", FLOOD)
    send(broker, "b", FLOOD)
    claims = process(port=link.port, turn_of=letter_of)
    link.lose(fault, number)
    with pytest.raises(LOST):
        claims.take(LIMIT)
    texts = drain(claims)
    assert len({*texts}) == len(texts) == 2 * FLOOD
    assert not [key for key in broker.scan_iter() if b"inflight" in key or b"caller" in key]


def test_a_process_that_dies_after_it_gathered_loses_nothing(
    broker: redis.Redis, process: Callable[..., Claims]
) -> None:
    """All that it gathered is requeued in its order, uncounted."""
    send(broker, "a", FLOOD)

    def dies(_: bytes) -> str:
        raise SystemExit

    claims = process(turn_of=dies)
    (place, _) = claims._lines[0].places
    with pytest.raises(SystemExit):
        claims.take(LIMIT)
    assert broker.llen(place) == GATHERED_AT_ONCE
    assert Tidier(broker).tidy(place, UNCOUNTED) == GATHERED_AT_ONCE
    assert of("a", drain(process())) == [*range(FLOOD)]


def test_an_error_while_it_sorts_loses_nothing(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Nothing of it is acknowledged, whatever the error: the connection is given up, and what it holds requeued."""
    send(broker, "a", FLOOD)
    errors = [ZeroDivisionError]

    def fails_once(raw: bytes) -> str:
        if errors:
            raise errors.pop()
        return letter_of(raw)

    claims = process(turn_of=fails_once)
    with pytest.raises(ZeroDivisionError):
        claims.take(LIMIT)
    assert sorted(of("a", drain(claims))) == [*range(FLOOD)]


@pytest.mark.parametrize("mode", [UNCOUNTED, DIED])
def test_what_a_process_only_sorted_has_not_had_its_turn(
    broker: redis.Redis, process: Callable[..., Claims], mode: str
) -> None:
    """A lone message does not wait for all that a process held when it died of sorting it, or lost its connection."""

    def dies(_: bytes) -> str:
        raise MemoryError

    send(broker, "a", FLOOD)
    claims = process(turn_of=dies)
    with pytest.raises(MemoryError):
        claims.take(LIMIT)
    (place,) = (name.decode() for name in broker.scan_iter(f"{QUEUE}.inflight.*"))
    assert Tidier(broker).tidy(place, mode) == GATHERED_AT_ONCE
    send(broker, "b", 1)
    texts = drain(process(turn_of=letter_of))
    assert (len(texts), of("a", texts)[:100]) == (FLOOD + 1, [*range(100)])
    assert texts.index("b0") < 2 * MOST_AT_ONCE
