"""Explores crashes: two workers' claims on a real Redis, with faults and preemptions at every command boundary.

A boundary is the moment before a side sends a command. A schedule is a tuple of events, each at a boundary: a side
crashes, or loses its connection, or is preempted by the other one. Each side is a thread that runs while it has the
baton, so that a schedule is an interleaving of commands, the same in each run, and time passes only as an event.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.queue.broker import keys, owners
from worker.queue.claims import ClaimedMessage, Claims, Tidier, renew
from worker.queue.records import Record, RecordStore, compose, record_key

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence

QUEUE = "retrieval"
MESSAGES = ("0", "1", "2")
_MOST_COMMANDS = 400
_LOST = (redis.ConnectionError, redis.TimeoutError)
_READS = {"CLIENT ID", "INFO", "TIME", "ZRANGEBYSCORE", "EXISTS", "LLEN", "HMGET"}

_DUMP = """
local function read(key)
    local kind = redis.call('TYPE', key).ok
    if kind == 'list' then return redis.call('LRANGE', key, 0, -1) end
    if kind == 'zset' then return redis.call('ZRANGE', key, 0, -1) end
    if kind == 'hash' then return redis.call('HGETALL', key) end
    return redis.call('GET', key)
end
local pairs = {}
for _, key in ipairs(redis.call('KEYS', '*')) do pairs[#pairs + 1] = {key, read(key)} end
return pairs
"""


class Event(Enum):
    """What happens at a boundary, to the side that is about to send a command."""

    PREEMPT = "it is preempted: the other side runs"
    STALL = "it stalls, and its owners expire: the other side runs"
    CRASH = "it crashes"
    LOSE_COMMAND = "it loses its connection before the command is sent"
    LOSE_REPLY = "it loses its connection when the command has run"
    CRASH_LATE = "it crashes, and the command is still under way"
    TIME_OUT = "it gives its connection up, and the command is still under way"
    ARRIVE = "the command that is under way arrives"


_LATE = (Event.CRASH_LATE, Event.TIME_OUT)
_FAULTS = (Event.CRASH, Event.LOSE_COMMAND, Event.LOSE_REPLY)
SUCCESSORS = {
    None: (*_LATE, *_FAULTS, Event.PREEMPT, Event.STALL),
    Event.PREEMPT: (*_FAULTS, Event.PREEMPT),
    Event.STALL: (*_FAULTS, Event.PREEMPT),
    Event.CRASH: _FAULTS,
    Event.LOSE_COMMAND: (Event.PREEMPT,),
    Event.LOSE_REPLY: (Event.PREEMPT,),
    Event.CRASH_LATE: (Event.ARRIVE,),
    Event.TIME_OUT: (Event.ARRIVE,),
}
"""Second events that are explored after a first one; None: first events.

A crash after a command is the one before the next. A command that only reads changes nothing if it runs late.
"""

Schedule: TypeAlias = tuple[tuple[int, Event], ...]


class _CrashError(BaseException):
    """The side is gone: nothing of it runs any more."""


class _Connection(redis.Connection):
    """Connection whose commands, but those of its greeting, pass a boundary; a fault shows when they are sent."""

    def __init__(self, side: Side, **options: Any) -> None:
        super().__init__(**options)
        self.side = side
        self._is_greeting = False

    def connect(self) -> None:
        self._is_greeting = True
        super().connect()
        self._is_greeting = False

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if not self._is_greeting:
            self.side.run.pass_boundary(self, b"".join(command))
        super().send_packed_command(command, check_health)

    def detach(self) -> socket.socket:
        """Take its socket away, which stays open."""
        detached, self._sock = self._sock, None
        self._parser.on_disconnect()
        return detached


class Side:
    """One worker: a pool process, as `Process` uses its claims, and the tidying up of its main process."""

    def __init__(self, run: Run, name: str, url: str, claims_by: str) -> None:
        self.run = run
        self.name = name
        self.baton = _baton()
        self.announced: Sequence[str] = ()
        self.answered: set[tuple[str, str]] = set()
        self.has_expired = self.is_over = self._is_awake = False
        self._ends = os.pipe()
        self._claims_by = claims_by
        self._numbers = itertools.count()
        self._client = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=5)
        pool = self._client.connection_pool
        pool.connection_class = partial(_Connection, self)  # type: ignore[assignment] # makes one
        self._claims = Claims(self._client, [QUEUE], name, self._announce)
        self._store = RecordStore(self._client, is_on_broker=True)
        self._tidier = Tidier(self._client)

    def wake(self, *, is_awake: bool) -> None:
        """Have a wait end at once, or not: time does not pass."""
        if is_awake and not self._is_awake:
            os.write(self._ends[1], b"x")
        elif self._is_awake and not is_awake:
            os.read(self._ends[0], 1)
        self._is_awake = is_awake

    def _announce(self, places: Sequence[str]) -> None:
        self.announced = places

    def work(self) -> None:
        """Tidy up, answer all that waits, and leave."""
        try:
            self._persist(self.tidy)
            while self._persist(self._claim_and_answer):
                pass
            with contextlib.suppress(*_LOST):
                self._claims.acknowledge()
            with contextlib.suppress(*_LOST):
                self._claims.close()
        except _CrashError:
            self.has_expired = True
        finally:
            self.is_over = True
            self._claims.disconnect()
            self._client.connection_pool.disconnect()
            for end in self._ends:
                os.close(end)
            self.run.check()

    def tidy(self) -> None:
        """Let time pass, and tidy up."""
        self.run.expire()
        self._tidier.tidy_dead()

    def _persist(self, step: Any) -> Any:
        while True:
            try:
                return step()
            except _LOST as error:
                if isinstance(error, redis.TimeoutError):
                    self._claims.disconnect()
                    self._client.connection_pool.disconnect()

    def _claim_and_answer(self) -> bool:
        messages = self._claims.take(2) if self._claims_by == "take" else self._claims.wait(600, self._ends[0])
        try:
            self._answer(messages)
        except BaseException:
            self._claims.abandon()
            raise
        return bool(messages)

    def _answer(self, messages: Sequence[ClaimedMessage]) -> None:
        self.run.check_counts(messages)
        number = next(self._numbers)
        if number == 0 and len(messages) > 1:
            self._claims.requeue(messages[1:])
            messages = messages[:1]
        texts = [message.raw.decode() for message in messages]
        records = [Record(text, compose(text, "SUCCESS", f"{self.name} {number}"), 60) for text in texts]
        self._persist(lambda: self._store.put(records))
        self.answered |= {(message.place, message.raw.decode()) for message in messages}


def _baton() -> threading.Lock:
    baton = threading.Lock()
    baton.acquire()
    return baton


@dataclass(frozen=True)
class State:
    """All that is in Redis: lists with the message taken next first, and the rest."""

    queue: list[str]
    held: dict[str, list[str]]
    listed: set[str]
    records: dict[str, str]
    counts: dict[str, str]
    others: set[str]

    @property
    def is_unfinished(self) -> bool:
        """Whether a worker has still to do something."""
        return bool(self.queue or self.held or self.listed)

    @classmethod
    def of(cls, pairs: Sequence[tuple[bytes, Any]]) -> State:
        """Sort keys and values."""
        values: dict[str, Any] = {
            key.decode(): [item.decode() for item in value] if isinstance(value, list) else value.decode()
            for key, value in pairs
        }
        counts = iter(values.pop(keys.deliveries(QUEUE), []))
        return cls(
            queue=values.pop(QUEUE, [])[::-1],
            held={key: values.pop(key)[::-1] for key in [*values] if keys.parse_inflight(key)[0] == QUEUE},
            listed={*values.pop(keys.OWNERS, [])},
            records={text: values.pop(record_key(text)) for text in MESSAGES if record_key(text) in values},
            counts=dict(zip(counts, counts, strict=True)),
            others={*values},
        )


class Run:
    """One run of a schedule.

    Attributes:
        boundaries: the side and the command of each.
        violations: what should not be.
    """

    def __init__(self, url: str, broker: redis.Redis, schedule: Schedule, claims_by: tuple[str, str]) -> None:
        self._broker = broker
        self._events = dict(schedule)
        self._under_way: tuple[Side, socket.socket, bytes] | None = None
        self._done = _baton()
        self._open: list[socket.socket] = []
        self._counts: dict[str, str] = {}
        self._digests = {text: keys.digest(text.encode()) for text in MESSAGES}
        self.boundaries: list[tuple[str, str]] = []
        self.violations: list[str] = []
        broker.flushdb()
        broker.lpush(QUEUE, *MESSAGES)
        self._read = broker.register_script(_DUMP)
        self._dump = self._read()
        self._may_differ = False
        self._state = State.of(self._dump)
        a, b = (Side(self, name, url, by) for name, by in zip("ab", claims_by, strict=True))
        self._sides = {"a": a, "b": b}
        self._actor = a
        threads = [threading.Thread(target=self._run_side, args=(side,), daemon=True) for side in (a, b)]
        for thread in threads:
            thread.start()
        a.baton.release()
        self._done.acquire()
        for thread in threads:
            thread.join()
        self._finish(url)

    def _run_side(self, side: Side) -> None:
        side.baton.acquire()
        try:
            side.work()
        except Exception as error:  # noqa: BLE001 -- whatever the code raises
            self.violations.append(f"{side.name} fails: {error!r}")
        other = self._other(side)
        (self._done if other.is_over else other.baton).release()

    def _other(self, side: Side) -> Side:
        return self._sides["b" if side.name == "a" else "a"]

    def _finish(self, url: str) -> None:
        """Let a third worker finish everything, and look at what is left."""
        for name in "cd":
            if self._state.is_unfinished:
                self._actor = self._sides[name] = Side(self, name, url, "take")
                self._actor.work()
            self._arrive()
        for sock in self._open:
            sock.close()
        self.expire()
        self.check()
        if self._state.is_unfinished or self._state.counts or self._state.others:
            self.violations.append(f"left over: {self._state}")

    # --- events -------------------------------------------------------------------------------------

    def pass_boundary(self, connection: _Connection, data: bytes) -> None:
        """Check what the last command did, and let the event of this boundary happen."""
        side = connection.side
        self.check()
        if side.is_over or len(self.boundaries) > _MOST_COMMANDS:
            raise _CrashError
        event = self._events.get(len(self.boundaries))
        command = _name(data)
        self.boundaries.append((side.name, command))
        if event in (Event.PREEMPT, Event.STALL):
            self._preempt(side, is_stalled=event is Event.STALL)
        elif event is Event.ARRIVE:
            self._arrive()
        self._actor = side
        self._may_differ = command not in _READS
        side.wake(is_awake=not self._state.queue)
        if event in (*_FAULTS, *_LATE):
            sock = connection.detach()
            if event in _LATE:
                self._under_way = side, sock, data
            elif event is Event.LOSE_REPLY:
                self._exchange(sock, data)
                sock.close()
            else:
                sock.close()
            if event in (Event.CRASH, Event.CRASH_LATE):
                side.is_over = True
                raise _CrashError
            raise redis.TimeoutError if event is Event.TIME_OUT else redis.ConnectionError

    def _preempt(self, side: Side, *, is_stalled: bool) -> None:
        other = self._other(side)
        if not other.is_over:
            side.has_expired |= is_stalled
            other.baton.release()
            side.baton.acquire()
            self.check()

    def _arrive(self) -> None:
        """Let Redis run the command that is under way, unless it has ended its connection."""
        if self._under_way is not None:
            self._actor, sock, data = self._under_way
            self._under_way = None
            self._exchange(sock, data)
            self._may_differ = True
            self._open.append(sock)
            self.check()

    def _exchange(self, sock: socket.socket, data: bytes) -> None:
        """Send a command, and wait until it has run, or is blocked; or its connection was ended."""
        with contextlib.suppress(OSError):
            sock.sendall(data)
            if b"BLMOVE" not in data or self._state.queue:
                sock.recv(65536)
        self._broker.ping()

    def expire(self) -> None:
        """Let so much time pass that all owners expire but those that the living workers renew."""
        living = [side for side in self._sides.values() if not (side.is_over or side.has_expired)]
        renewed = {place: side.name for side in living for place in side.announced}
        silent_since = int(self._broker.time()[0]) - owners.LIFE_SECONDS  # type: ignore[index] # no coroutine
        living_keys = {keys.owner_key(keys.parse_inflight(place)[1]) for place in renewed}
        if expired := {key for key in self._state.others if key.startswith(keys.owner_key(""))} - living_keys:
            self._broker.delete(*expired)
        if silent := dict.fromkeys(self._state.listed - renewed.keys(), silent_since):
            self._broker.zadd(keys.OWNERS, silent)
        self._may_differ = True
        if renewed:
            renew(self._broker.execute_command, renewed)

    # --- what must hold at each boundary ------------------------------------------------------------

    def check(self) -> None:
        """Check the state, and what the last command changed."""
        dump = self._read() if self._may_differ else self._dump
        self._may_differ = False
        if dump == self._dump:
            return
        self._dump = dump
        before, after = self._state, State.of(dump)
        self._state = after
        self.violations += [*self._wrong_states(after), *self._wrong_changes(before, after)]

    def _wrong_states(self, state: State) -> Iterator[str]:
        everywhere = [*state.queue, *itertools.chain.from_iterable(state.held.values())]
        for text in MESSAGES:
            if everywhere.count(text) > 1:
                yield f"{text} is in two places"
            if text not in everywhere and text not in state.records:
                yield f"{text} is lost"
        if forgotten := state.held.keys() - state.listed:
            yield f"forgotten: {forgotten}"

    def _wrong_changes(self, before: State, after: State) -> Iterator[str]:
        if not before.records.items() <= after.records.items():
            yield "a second outcome"
        taken = [text for place, held in after.held.items() for text in held if text not in before.held.get(place, ())]
        queue = taken + after.queue  # as it was before a blocking command took of it at once
        requeued = []
        for place, held in before.held.items():
            removed = [text for text in held if text not in after.held.get(place, ())]
            returned = [text for text in removed if text in queue]
            self._count(place, returned, is_alone=len(held) == 1)
            if self._is_of(self._actor, place) and any((place, text) in self._actor.answered for text in returned):
                yield f"answered, and requeued: {returned}"
            for text in {*removed} - {*returned}:
                for mark in ("", ":alone"):
                    self._counts.pop(self._digests[text] + mark, None)
            requeued += returned
        if queue != requeued + before.queue:
            yield f"out of order: {before} {after}"
        if after.counts != self._counts:
            yield f"counted wrongly: {after.counts}, not {self._counts}"
            self._counts = after.counts

    def _count(self, place: str, requeued: Sequence[str], *, is_alone: bool) -> None:
        """Count the death of a worker by messages that another one requeued, as lua/settle.lua says."""
        if not any(self._is_of(side, place) and side.has_expired for side in self._sides.values() if side != self._actor):
            return
        for text in requeued:
            digest = self._digests[text]
            mark = self._counts.get(f"{digest}:alone")
            if is_alone:
                self._counts[digest] = str(int(self._counts.get(digest, 0)) + (2 if mark == "1" else 1))
            if mark or not is_alone:
                self._counts[f"{digest}:alone"] = "2" if is_alone else mark or "1"

    def _is_of(self, side: Side, place: str) -> bool:
        return keys.worker_of(keys.parse_inflight(place)[1]) == side.name

    def check_counts(self, messages: Sequence[ClaimedMessage]) -> None:
        """Check what a side was told of the messages that it claimed."""
        for message in messages:
            digest = keys.digest(message.raw)
            expected = (int(self._counts.get(digest, 0)), f"{digest}:alone" in self._counts)
            if (message.count, message.alone) != expected:
                self.violations.append(f"told {message}, not {expected}")


def _name(data: bytes) -> str:
    words = data.split(b"\r\n")[2::2]
    return b" ".join(words[: 2 if words[0] == b"CLIENT" else 1]).decode()


@dataclass
class Exploration:
    """What was explored.

    Attributes:
        schedules: number of schedules that were run.
        boundaries: number of boundaries that they passed.
        failed: the first schedule that failed, in words.
    """

    schedules: int = 0
    boundaries: int = 0
    failed: str = ""
    _waiting: deque[Any] = field(default_factory=deque)


def explore(
    url: str, broker: redis.Redis, events: int, claims_by: tuple[str, str] = ("take", "wait"), every: int = 1
) -> Exploration:
    """Run all schedules of so many events, shortest first, until one fails."""
    explored = Exploration()
    Run(url, broker, (), claims_by)  # Redis has the scripts from now on
    waiting: deque[Schedule] = deque([()])
    numbers = itertools.count()
    while waiting:
        schedule = waiting.popleft()
        run = Run(url, broker, schedule, claims_by)
        explored.schedules += 1
        explored.boundaries += len(run.boundaries)
        if run.violations:
            explored.failed = describe(schedule, run)
            return explored
        if len(schedule) < events:
            waiting += (
                (*schedule, event) for event in extensions(schedule, run) if not schedule or next(numbers) % every == 0
            )
    return explored


def extensions(schedule: Schedule, run: Run) -> Iterator[tuple[int, Event]]:
    """Yield the events that may follow."""
    last, event = schedule[-1] if schedule else (-1, None)
    for number in range(last + 1, len(run.boundaries)):
        side, command = run.boundaries[number]
        for successor in SUCCESSORS[event]:
            is_change = command not in _READS or successor not in (*_LATE, Event.LOSE_REPLY)
            if is_change and (side in "ab" or successor is Event.ARRIVE):
                yield number, successor


def describe(schedule: Schedule, run: Run) -> str:
    """Return a schedule in words."""
    steps = [f"{number}: {' '.join(run.boundaries[number])}: {event.value}" for number, event in schedule]
    commands = [f"{number} {' '.join(boundary)}" for number, boundary in enumerate(run.boundaries)]
    return "\n".join([*steps, *run.violations[:3], *commands])
