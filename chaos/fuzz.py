"""Malformed messages: each is answered or dead-lettered, and no worker ends."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chaos.corpus import Corpus
from chaos.jobs import QUEUE, Questions
from chaos.oracle import Oracle
from chaos.shapes import FORMS, UNITS
from chaos.stage import RunOptions, stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

BATCH = 2000
SETTLE_SECONDS = 120.0
"""Seconds without progress, with messages left, after which a run is given up."""
TELL_EVERY = 10 * BATCH
DEAD = f"{QUEUE}.dead"
DEAD_ENTRIES = 5000
"""Dead letters that are kept: more than a batch has, and no more than fit on Redis' small disk."""

# In one step: between two looks a message may go back to its queue.
_LEFT = """
local left = redis.call('LLEN', KEYS[1]) + redis.call('HLEN', 'unacked')
left = left + redis.call('ZCARD', KEYS[1] .. '.delayed') + redis.call('LLEN', KEYS[1] .. '.delayed.put_off')
left = left + (redis.call('HGET', KEYS[1] .. '.numbers', 'sorted') or 0)
for _, place in ipairs(redis.call('KEYS', KEYS[1] .. '.inflight.*')) do left = left + redis.call('LLEN', place) end
return left
"""


@dataclass
class FuzzReport:
    """Result of a run.

    Attributes:
        messages: how many were sent.
        answered: how many have a result.
        dead: how many are dead letters, by reason.
        unaccounted: messages that are neither, whole.
        crashes: why workers ended by themselves.
        unclean: exit codes of workers that did not end with 0.
        kept_letters: dead letters that Redis still has.
        most_bytes: the most memory that Redis ever took.
        seconds: how long it took, once the workers were started.
    """

    messages: int = 0
    answered: int = 0
    dead: Counter[str] = field(default_factory=Counter)
    unaccounted: list[bytes] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    unclean: list[int] = field(default_factory=list)
    kept_letters: int = 0
    most_bytes: int = 0
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """True if each message is accounted for, and no worker failed."""
        return not (self.unaccounted or self.crashes or self.unclean)


class Fuzzer:
    """Message number n of a seed, a pure function of both."""

    def __init__(self, seed: int, questions: Questions) -> None:
        self._seed = seed
        self._questions = questions

    def message(self, number: int) -> bytes:
        """Return a message: one in fifty is valid, the others have mutated bytes, envelope, body or job."""
        good = self._questions[number].message
        if number % 50 == 0:
            return good
        chance = random.Random(f"fuzz {self._seed} {number}")  # noqa: S311 -- repeatable, not secret
        return chance.choice((_bytes, _bytes, _envelope, _envelope, _envelope, _body, _job, _job, _garbage, _grown))(
            good, chance
        )


_ENDS = 300
"""Bytes at each end of a message that hold its structure; between them it is one long embedding."""


def _bytes(good: bytes, chance: random.Random) -> bytes:
    bent = bytearray(good)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(chance.choice((_ENDS, len(good))))
        place = chance.choice((place, len(bent) - 1 - place))
        match chance.randrange(3):
            case 0:
                bent[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del bent[place : place + chance.choice((1, 2, 1000))]
            case _:
                bent[place:place] = chance.randbytes(chance.choice((1, 3)))
    return bytes(bent)


_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**70, 1e308, -0.0, float("nan"), float("inf"), [], {}, [[]]),
    *("", "\x00", "\ud800", "ä" * 50, "x" * 5000, "2026-01-01", "application/json", "retrieve_top_k", "../../etc"),
)


def _anything(chance: random.Random, depth: int = 0) -> Any:
    """Return an arbitrary JSON value."""
    if depth < 3 and chance.random() < 0.3:  # noqa: PLR2004 -- three deep is enough
        inner = [_anything(chance, depth + 1) for _ in range(chance.randrange(4))]
        return inner if chance.random() < 1 / 2 else {f"k{i}": item for i, item in enumerate(inner)}
    return chance.choice(_VALUES)


def _bend_json(value: Any, chance: random.Random) -> Any:
    """Return the JSON value with one value replaced, removed or added."""
    if isinstance(value, dict) and value and chance.random() < 0.9:  # noqa: PLR2004 -- mostly deeper
        name = chance.choice(sorted(value))
        match chance.randrange(4):
            case 0:
                return {key: item for key, item in value.items() if key != name}
            case 1:
                return {**value, chance.choice(_HEADERS): _anything(chance)}
            case _:
                return {**value, name: _bend_json(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:  # noqa: PLR2004 -- mostly deeper
        place = chance.randrange(len(value))
        return [*value[:place], _bend_json(value[place], chance), *value[place + 1 :]]
    return _anything(chance)


_HEADERS = (
    *("timelimit", "compression", "expires", "retries", "group", "chord", "reply_to", "argsrepr", "stamped_headers"),
    *("priority", "delivery_mode", "body_encoding", "callbacks", "k", "filters", "run", "exact", "principal_token"),
)


def _envelope(good: bytes, chance: random.Random) -> bytes:
    bent = json.loads(good)
    for _ in range(chance.randint(1, 3)):
        bent = _bend_json(bent, chance)
    return json.dumps(bent).encode()


def _body(good: bytes, chance: random.Random) -> bytes:
    """Return a message with a bad body: deeply nested, broken, or of another encoding or shape."""
    bent = json.loads(good)
    depth = chance.choice((10, 1000, 100_000))
    bent["body"] = chance.choice(
        ("[" * depth, "[" * depth + "]" * depth, "", "null", '{"a": 1}', "[[], {}, {}]", "[[{}, {}], {}, {}]")
    )
    if chance.random() < 1 / 2:
        bent["properties"]["body_encoding"] = "base64"
        bent["body"] = base64.b64encode(chance.randbytes(40)).decode()
    return json.dumps(bent).encode()


def _job(good: bytes, chance: random.Random) -> bytes:
    """Return a job with other fields in a valid envelope."""
    bent = json.loads(good)
    args, kwargs, embed = json.loads(bent["body"])
    bent["body"] = json.dumps([[_bend_json(args[0], chance)], kwargs, embed])
    return json.dumps(bent).encode()


def _garbage(good: bytes, chance: random.Random) -> bytes:
    return chance.choice((chance.randbytes(len(good) % 300), b"", b"null", b"[]", b"{}", b'"', b"\xff\xfe", good * 2))


def _grown(good: bytes, chance: random.Random) -> bytes:
    """Return a message of an expensive shape, up to 64 kB."""
    unit = UNITS[chance.choice([*UNITS])]
    grown = unit * (int(2 ** chance.uniform(4, 16)) // len(unit))
    return FORMS[chance.choice([*FORMS])](grown) + good[: chance.choice((0, 10))]


def fuzz(
    options: RunOptions, folder: Path, progress: Callable[[int, str], None], minutes: float | None = None
) -> FuzzReport:
    """Send ``options.jobs`` messages, two thousand at a time, and account for each.

    Args:
        options: how many messages, seed, workers and transport; its counts are not used.
        folder: for the workers' logs.
        progress: called with the number of messages done.
        minutes: start no batch after this time.
    """
    oracle = Oracle(Corpus(rows=500))  # small: it is the messages that are tried
    fuzzer = Fuzzer(options.seed, Questions(options.seed, oracle))
    report = FuzzReport()
    settings = {"RETRIEVAL_WORKER_WORKER__DEAD_LETTERS": str(DEAD_ENTRIES)}
    with (
        stage(options, oracle.corpus, folder, settings, proxied=False) as scene,
        scene.redis.client(0, 10) as broker,
        scene.results.client(1, 10) as results,
    ):
        began, letter = time.monotonic(), "0-0"
        messages = _batch(fuzzer, 0, options.jobs)
        while messages and (minutes is None or report.seconds < minutes * 60):
            broker.lpush(QUEUE, *messages)
            following = _batch(fuzzer, report.messages + len(messages), options.jobs)  # while the workers work
            drained(broker, scene.fleet.replace_ended)
            letter = account(messages, broker, results, report, letter)
            messages, report.seconds = following, time.monotonic() - began
            tells = report.messages % TELL_EVERY == 0
            progress(report.messages, f"{report.messages / report.seconds:.0f} a second" if tells else "")
        report.kept_letters = broker.xlen(DEAD)
        report.most_bytes = broker.info("memory")["used_memory_peak"]
        scene.fleet.stop()
        report.crashes, report.unclean = scene.fleet.crashes, scene.fleet.unclean
    return report


def _batch(fuzzer: Fuzzer, start: int, end: int) -> list[bytes]:
    return [fuzzer.message(number) for number in range(start, min(start + BATCH, end))]


def drained(broker: redis.Redis, replace_ended: Callable[[], None]) -> bool:
    """Wait until no message is queued or unacknowledged; False if their number stops falling."""
    fewest, deadline = BATCH + 1, time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        remaining: Any = broker.eval(_LEFT, 1, QUEUE)
        if not remaining:
            return True
        if remaining < fewest:
            fewest, deadline = remaining, time.monotonic() + SETTLE_SECONDS
        replace_ended()
        time.sleep(0.02)
    return False


def account(messages: list[bytes], broker: redis.Redis, results: redis.Redis, report: FuzzReport, letter: str) -> str:
    """Return the place of each message of a batch, and delete their results.

    Args:
        messages: the batch.
        broker: has the dead letters.
        results: has the results.
        report: is added to.
        letter: the last dead letter of the batch before.

    Returns:
        The last dead letter of this one.
    """
    letters: Any = broker.xrange(DEAD, min=f"({letter}")
    reasons = defaultdict(list)
    for _, fields in letters:
        reasons[fields[b"digest"]].append(fields[b"reason"].decode())
    messages_without_letter = []
    for message in messages:
        of_this = reasons[b"sha256:" + hashlib.sha256(message).hexdigest().encode()]
        if of_this:
            report.dead[of_this.pop()] += 1
        else:
            messages_without_letter.append(message)
    with results.pipeline(transaction=False) as pipe:
        for message in messages_without_letter:
            pipe.exists(f"celery-task-meta-{_task_id(message)}")  # of a message without an id there is no result
        for message, answered in zip(messages_without_letter, pipe.execute(), strict=True):
            report.answered += answered
            if not answered:
                report.unaccounted.append(message)
    report.messages += len(messages)
    results.flushdb()
    return letters[-1][0].decode() if letters else letter


def _task_id(message: bytes) -> str | None:
    try:
        task_id = json.loads(message)["headers"]["id"]
        task_id.encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return task_id if isinstance(task_id, str) else None
