"""How long messages waited, on a real Redis: by looks at what is there, and in no way by what senders say."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from worker.queue.broker import keys, turns, waits
from worker.queue.claims import Claims, renew

from .test_claims import QUEUE, broker, link, server
from .test_claims import process as unrenewed_process
from .test_turns import FLOOD, MOST_AT_ONCE, drain, letter_of, send

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

__all__ = ["broker", "link", "server", "unrenewed_process"]

LONG = 6000


@pytest.fixture
def process(broker: redis.Redis, unrenewed_process: Callable[..., Claims]) -> Callable[..., Claims]:
    """Makes the claims of a process whose owners live as long as a test."""

    def announce(places: Sequence[str]) -> None:
        renew(broker.execute_command, dict.fromkeys(places, keys.owner_value("host-1", 0)), 600)

    return functools.partial(unrenewed_process, announce=announce)


def pass_time(broker: redis.Redis, seconds: float) -> None:
    """Have all looks so far been earlier: no test waits."""
    looked = float(broker.hget(keys.numbers(QUEUE), "looked"))
    broker.hset(keys.numbers(QUEUE), "looked", looked - seconds)
    for place, mark in enumerate(broker.lrange(keys.marks(QUEUE), 0, -1)):
        number, at = mark.split()
        broker.lset(keys.marks(QUEUE), place, f"{number.decode()} {float(at) - seconds:.3f}")


def look(broker: redis.Redis) -> list[tuple[int, int]]:
    """Messages that were taken since the last look, and their whole seconds."""
    return [(messages, round(seconds)) for messages, seconds in waits.look(broker, QUEUE)]


def oldest(broker: redis.Redis) -> int:
    seconds, microseconds = broker.time()
    return round(waits.oldest_seconds(broker, QUEUE, seconds + microseconds / 1e6))


def test_each_message_waits_since_it_was_first_seen(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Until the look that sees it taken; what came and went between two looks waited for no time."""
    claims = process()
    send(broker, "a", 3)
    assert look(broker) == []
    pass_time(broker, 10)
    send(broker, "b", 2)
    assert look(broker) == []
    pass_time(broker, 20)
    assert oldest(broker) == 30
    assert len(claims.take(4)) + len(claims.take(1)) == 4  # half of those that wait, then one
    assert look(broker) == [(3, 30), (1, 20)]
    pass_time(broker, 5)
    assert oldest(broker) == 25
    send(broker, "c", 1)
    assert len(drain(claims)) == 2
    assert look(broker) == [(1, 25), (1, 0)]
    assert oldest(broker) == 0
    assert broker.llen(keys.marks(QUEUE)) == 0


def test_messages_that_are_sorted_by_caller_wait_as_long(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """Those that a process gathers are gone from the queue for a moment, and have not arrived anew."""
    claims = process(turn_of=letter_of)
    send(broker, "a", FLOOD)
    send(broker, "b", FLOOD)
    look(broker)
    pass_time(broker, LONG)
    taken = counted = 0
    while taken < FLOOD:
        taken += len(claims.take(MOST_AT_ONCE))
        broker.hset(keys.numbers(QUEUE), "looked", 0)  # the next look is not too soon
        for wait in waits.look(broker, QUEUE):
            counted += wait.messages
            assert wait.seconds >= LONG
    assert counted == taken
    assert oldest(broker) >= LONG
    assert turns.waiting(broker, QUEUE) == 2 * FLOOD - taken


def test_several_workers_count_each_message_once(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """A look soon after another one's does nothing, and nothing is counted before the first."""
    claims = process()
    send(broker, "a", 2)
    assert len(drain(claims)) == 2
    assert broker.hget(keys.numbers(QUEUE), "taken") is None
    assert look(broker) == []
    send(broker, "b", 2)
    assert len(drain(claims)) == 2
    assert waits.look(broker, QUEUE, least_seconds=3600) == []
    pass_time(broker, 1)
    assert look(broker) == [(2, 0)]


def test_what_is_deleted_leaves_nothing_behind(broker: redis.Redis, process: Callable[..., Claims]) -> None:
    """By hand, or by another consumer: the next message is as young as it is."""
    process()
    send(broker, "a", 5)
    look(broker)
    pass_time(broker, 60)
    broker.delete(QUEUE)
    look(broker)
    pass_time(broker, 1)
    send(broker, "b", 1)
    look(broker)
    assert oldest(broker) == 0
    turns.purge(broker, QUEUE)
    assert look(broker) == []


def test_marks_stay_few_however_long_a_queue_stands(broker: redis.Redis) -> None:
    """A message arrives every ten minutes for two weeks, and none is taken: each wait is told within a part of 500."""
    for _ in range(2000):
        broker.lpush(QUEUE, "a")
        look(broker)
        pass_ten_minutes(broker)
    assert 1_200_000 <= oldest(broker) < 1_200_000 * 1.002
    assert broker.llen(keys.marks(QUEUE)) < 1300


def pass_ten_minutes(broker: redis.Redis) -> None:
    """As `pass_time`, in one script, for speed."""
    script = """
    redis.call('HINCRBYFLOAT', KEYS[2], 'looked', -600)
    for place = 0, redis.call('LLEN', KEYS[1]) - 1 do
        local number, at = string.match(redis.call('LINDEX', KEYS[1], place), '^(%d+) (.+)$')
        redis.call('LSET', KEYS[1], place, string.format('%s %.3f', number, at - 600))
    end
    """
    broker.eval(script, 2, keys.marks(QUEUE), keys.numbers(QUEUE))
