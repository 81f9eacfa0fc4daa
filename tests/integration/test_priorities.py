"""Messages in kombu's lists of priorities, however many."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from worker.queue.broker import keys
from worker.queue.broker.dead_letters import every
from worker.queue.broker.inspection import Rules
from worker.queue.broker.priorities import A_TURN

from .claims import QUEUE, Worker, envelope, ids, stored_failures

if TYPE_CHECKING:
    import redis


LIST = f"{QUEUE}\x06\x163"
RULES = Rules(tasks=("retrieve_top_k",), dead_entries=100)


def with_priority(task_id: str) -> bytes:
    """As kombu sends it with a priority."""
    return json.dumps({**json.loads(envelope(task_id)), "properties": {"priority": 3}}).encode()


def test_a_turn_is_bounded(url: str, broker: redis.Redis) -> None:
    """However many there are, a worker looks at some and goes on with what else it keeps."""
    broker.lpush(LIST, *(b"x%d" % number for number in range(5 * A_TURN)))
    with Worker(url, rules=RULES) as worker:
        worker.maintain()
        assert broker.llen(LIST) == 4 * A_TURN
        assert broker.llen(QUEUE) == 0


def test_a_flood_of_priorities_pushes_out_no_dead_letter(url: str, broker: redis.Redis) -> None:
    """They take half of the places at most; every sender with a readable id gets its failure all the same."""
    for number in range(30):
        broker.xadd(keys.dead(QUEUE), {"reason": "max_deliveries", "task_id": f"killer-{number}", "original": "x"})
    honest = [f"honest-{number}" for number in range(10)]
    for task_id in honest:
        broker.lpush(LIST, with_priority(task_id), *([b"x"] * A_TURN))
    with Worker(url, rules=RULES) as worker:
        while broker.llen(LIST):
            worker.maintain()
        assert sorted(stored_failures(broker)) == honest
        assert {error.message.partition(":")[0] for error in stored_failures(broker).values()} == {
            "properties.priority"
        }
    letters = [*every(broker, QUEUE)]
    assert sum(letter.reason == "max_deliveries" for letter in letters) == 30
    assert len(letters) == RULES.dead_entries // 2


def test_what_has_no_priority_after_all_is_run(url: str, broker: redis.Redis) -> None:
    """A sender may have taken the wrong list."""
    broker.lpush(LIST, envelope("a-1"))
    with Worker(url, rules=RULES) as worker:
        worker.maintain()
        assert not stored_failures(broker)
    assert ids(broker) == ["a-1"]
