"""The greatest message that is allowed, in a pool process."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from worker.queue.broker.inspection import Rules
from worker.settings.serving import Limits

from .claims import QUEUE, run_script

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from workbench.devstack.stack import Stack

MOST_MEGABYTES = 200
LIMITS = Limits()
RULES = Rules(tasks=("retrieve_top_k",), max_bytes=LIMITS.max_message, max_values=LIMITS.max_values)

TAKE = """
import json, sys
import redis
from claims import QUEUE, Worker, envelope, places
from worker.queue.broker.inspection import Rules

rules = Rules(**json.loads(sys.argv[3]))
def peak():
    with open("/proc/self/status") as status:  # getrusage tells of the process before exec, too
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
client = redis.Redis.from_url(sys.argv[1])
with Worker(sys.argv[2], rules=rules) as worker:
    client.lpush(QUEUE, envelope("small"))
    worker.take(1)
    before = peak()
    client.rename("kept", QUEUE)
    worker.run(lambda: places(client).keys() <= {"dead"})
    print(json.dumps([peak() - before, len(worker.jobs)]))
"""


def filled(start: str, unit: str, end: str, encode: Callable[[str], str]) -> bytes:
    """As long a message as may be, whose job repeats something."""

    def message(times: int) -> bytes:
        encoded = encode(start + unit * times + end)
        whole = {
            "body": encoded,
            "content-type": "application/json",
            "headers": {"id": "large", "task": "retrieve_top_k"},
            "properties": {"body_encoding": None if encode is plain else "base64"},
        }
        return json.dumps(whole, ensure_ascii=False).encode()

    each = (len(message(30_000)) - len(message(0))) / 30_000
    return message(int((RULES.max_bytes - len(message(0))) / each) - 100)


def plain(body: str) -> str:
    """A body as it is."""
    return body


def in_base64(body: str) -> str:
    """A body as kombu sends it."""
    return base64.b64encode(body.encode()).decode()


def values(unit: str, each: int) -> bytes:
    """As many values as may be, and no longer."""
    body = "[[[" + unit * (RULES.max_values // each - 40) + "0]], {}, {}]"
    whole = {
        "body": body,
        "content-type": "application/json",
        "headers": {"id": "large", "task": "retrieve_top_k"},
        "properties": {},
    }
    return json.dumps(whole).encode()


GREATEST = {
    "text": filled('[[{"text": "', "a", '"}], {}, {}]', plain),
    "text with one letter of four bytes": filled('[[{"text": "\U0001f600', "a", '"}], {}, {}]', plain),
    "the same in base64": filled('[[{"text": "\U0001f600', "a", '"}], {}, {}]', in_base64),
    "as many lists as may be": values("[],", 2),
    "as many objects as may be": values('{"a":{}},', 6),
    "as many numbers as may be": values("0.12345678901234567,", 1),
    "as many names as may be": values('{"' + "k" * 6 + '":"v"},', 4),
}


def taken(message: bytes, stack: Stack, url: str, broker: redis.Redis) -> int:
    """How many messages became jobs, a small one and this one, within the memory that they may take."""
    broker.lpush("kept", message)
    rules = {"tasks": ["retrieve_top_k"], "max_bytes": RULES.max_bytes, "max_values": RULES.max_values}
    ran = run_script(TAKE, stack.redis.url(0), url, json.dumps(rules))
    assert ran.returncode == 0, ran.stderr
    megabytes, count = json.loads(ran.stdout.splitlines()[-1])
    assert megabytes < MOST_MEGABYTES
    return int(count)


@pytest.mark.parametrize("name", GREATEST)
def test_the_greatest_message_takes_bounded_memory(name: str, stack: Stack, url: str, broker: redis.Redis) -> None:
    """From the queue to its job: at most 200 MB more than before."""
    assert len(GREATEST[name]) <= RULES.max_bytes
    assert taken(GREATEST[name], stack, url, broker) == 2


def test_a_message_of_more_values_is_refused(stack: Stack, url: str, broker: redis.Redis) -> None:
    """However short it is: each value takes far more memory than its characters."""
    assert taken(values("[],", 1), stack, url, broker) == 1
    assert broker.xlen(f"{QUEUE}.dead") == 1
