"""Explores crashes: two workers' claims on a real Redis, with faults and preemptions at every command boundary.

A boundary is the moment before a worker sends a command. A schedule is a tuple of events, each at a boundary. Each
worker is a thread that runs while it has the baton, so a schedule is one interleaving, the same in each run. Time
passes only as an event: the keys of owners that are not renewed are deleted, as Redis does when they expire.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import threading
from collections import deque
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.queue import claims, records
from worker.queue.broker import dead_letters, delayed, keys, owners
from worker.queue.broker.inspection import Rules
from worker.queue.lua import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

QUEUE, MESSAGES, REFUSED = "retrieval", ("0", "1", "2"), "2"
TURNS = {b"0": "a", b"1": "a", b"2": "b"}
"""Whose turn each message takes, if callers take turns."""

_MOST_COMMANDS = 300
_READABLE = os.open(os.devnull, os.O_RDONLY)
_LOST = (redis.ConnectionError, redis.TimeoutError)
# No boundaries: they change nothing, and nothing changes their replies.
_CONSTANT = {"HELLO", "AUTH", "SELECT", "CLIENT SETINFO", "CLIENT MAINT_NOTIFICATIONS", "CLIENT ID", "INFO", "TIME"}
_READS = {"ZRANGEBYSCORE", "EXISTS", "LLEN", "HMGET"}
_DUMP = """
local commands = {list = 'LRANGE', zset = 'ZRANGE', hash = 'HGETALL', string = 'GET', stream = 'XRANGE'}
local range = {list = {0, -1}, zset = {0, -1}, hash = {}, string = {}, stream = {'-', '+'}}
local pairs = {}
for number, key in ipairs(redis.call('KEYS', '*')) do
    local kind = redis.call('TYPE', key).ok
    pairs[number] = {key, redis.call(commands[kind], key, unpack(range[kind]))}
end
return pairs
"""


class Event(Enum):
    """Event at a boundary, to the worker that is about to send a command."""

    CRASH_LATE = "it crashes, and the command arrives late"
    TIME_OUT = "it gives the connection up, and the command arrives late"
    CRASH = "it crashes"
    LOSE_COMMAND = "its connection is lost before the command is sent"
    LOSE_REPLY = "its connection is lost after the command has run"
    PREEMPT = "it is preempted by the other one"
    STALL = "it is preempted by the other one, and its owners expire"
    ARRIVE = "the late command arrives before it"


Schedule: TypeAlias = tuple[tuple[int, Event, tuple[str, str]], ...]
"""Numbers of boundaries, what happens there, and worker and command of each."""

FIRST = tuple(Event)[:-1]
_LATE, _FAULTS, _PREEMPTIONS = FIRST[:2], FIRST[2:5], FIRST[5:]
_NEXT = dict.fromkeys(_LATE, (Event.ARRIVE,)) | {  # without it, the command arrives when all else is done
    Event.CRASH: (Event.CRASH, Event.LOSE_REPLY),
    Event.LOSE_COMMAND: (),
    Event.LOSE_REPLY: (Event.PREEMPT,),
    Event.PREEMPT: (Event.CRASH, Event.LOSE_REPLY, Event.PREEMPT),
    Event.STALL: (Event.PREEMPT,),
}


class _CrashError(BaseException):
    """The worker is gone: nothing of it runs any more."""


class _Connection(redis.Connection):
    """Connection whose commands pass boundaries; a fault shows when one is sent."""

    worker: Worker

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        data = b"".join(command)
        self.worker.run.pass_boundary(self.worker, self, data)
        super().send_packed_command(command, check_health)
        if (b"BLMOVE" in data and self.worker.run.state.queue) or b"UNBLOCK" in data:
            self.worker.await_reply()


class Worker:
    """A pool process that uses its claims as `Process` does, and the tidying up of its main process."""

    def __init__(self, run: Run, name: str, url: str) -> None:
        self.run, self.name, self.baton, self.other = run, name, threading.Semaphore(0), self
        self.announced: Sequence[str] = ()
        self.answered: set[tuple[str, str]] = set()
        self.has_expired = self.is_over = False
        self._numbers = itertools.count()
        self._client = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=5)
        self._client.connection_pool.connection_class = type("Connection", (_Connection,), {"worker": self})
        turn_of = TURNS.__getitem__ if run.is_fair else None
        self._claims = claims.Claims(self._client, [QUEUE], name, self.announce, turn_of=turn_of)
        self._store = records.RecordStore(self._client, 60, is_on_broker=True)

    def announce(self, places: Sequence[str]) -> None:
        self.announced = places

    def work(self) -> None:
        """Tidy up, answer all that waits, and leave."""
        try:
            self._persist(self._maintain)
            while self._persist(self._claim_and_answer):
                pass
            for step in (self._claims.acknowledge, self._claims.close):
                with contextlib.suppress(*_LOST):
                    step()
        except _CrashError:
            self.has_expired = True
        except Exception as error:  # noqa: BLE001 -- whatever a bug raises
            self.run.violations.append(f"{self.name} fails: {error!r}")
        self.is_over = True
        self._disconnect()
        self.run.check()

    def await_reply(self) -> None:
        """Have the reply to the blocking command there before anybody looks for it: no race."""
        select.select(self._claims._lines, [], [], 5)

    def _disconnect(self) -> None:
        self._claims.disconnect()
        self._client.connection_pool.disconnect()

    def _persist(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                return step()
            except _LOST as error:
                if isinstance(error, redis.TimeoutError):
                    self._disconnect()

    def _maintain(self) -> None:
        self.run.pass_time()
        claims.Tidier(self._client).tidy_dead()
        delayed.promote(self._client, QUEUE)

    def _claim_and_answer(self) -> bool:
        number = next(self._numbers)
        messages = self._claims.wait(1, _READABLE) if number % 2 else self._claims.take(2)
        try:
            self.run.check_counts(messages)
            self.answer(number, messages)
        except BaseException:
            self._claims.abandon()
            self.answered.clear()
            raise
        return bool(messages)

    def answer(self, number: int, messages: Sequence[claims.ClaimedMessage]) -> None:
        """Answer messages; requeue all but one of the first ones, delay the second ones, refuse one."""
        if number == 0 and messages[1:]:
            self._claims.requeue(messages[1:])
        for message in messages[:1] if number == 0 else messages:
            text = message.raw.decode()
            if number == 1:
                self._claims.delay(message, 0)
                continue
            outcome = records.compose(text, "SUCCESS", f"{self.name} {number}")
            self._persist(partial(self._store.put, [outcome]))
            if text == REFUSED:
                dead_letters.dead_letter(self._client, QUEUE, message.place, message.raw, {"original": text}, Rules())
            else:
                self.answered.add((message.place, text))


class _State(NamedTuple):
    """All that is in Redis; of queue and lists, the message taken next first."""

    queue: list[str]
    sorted: list[str]
    held: dict[str, list[str]]
    delayed: list[str]
    dead: list[str]
    listed: set[str]
    records: dict[str, str]
    counts: dict[str, str]
    others: set[str]

    @classmethod
    def of(cls, dump: Any) -> _State:
        numbers = {keys.delayed(QUEUE), keys.callers(QUEUE), keys.numbers(QUEUE)}
        values = {key.decode(): value for key, value in dump if key.decode() not in numbers}
        counts = _texts(values.pop(keys.deliveries(QUEUE), []))
        texts = {keys.digest(text.encode()): text for text in MESSAGES}
        return cls(
            _texts(values.pop(QUEUE, []))[::-1],
            [text for turn in "ab" for text in _texts(values.pop(keys.caller(QUEUE, turn), []))[::-1]],
            {key: _texts(values.pop(key))[::-1] for key in [*values] if keys.parse_inflight(key)[0] == QUEUE},
            _texts(values.pop(keys.delayed_messages(QUEUE), []))[1::2],
            _texts(fields[-1] for _, fields in values.pop(keys.dead(QUEUE), [])),
            {*_texts(values.pop(keys.OWNERS, []))},
            {text: values.pop(name) for text in MESSAGES if (name := records.record_key(text)) in values},
            {texts[key[:40]] + key[40:]: count for key, count in zip(counts[::2], counts[1::2], strict=True)},
            {*values},
        )


def _texts(values: Iterable[bytes]) -> list[str]:
    return [value.decode() for value in values]


class Run:
    """One run of a schedule: the boundaries that were passed, and what must not be, in words."""

    def __init__(self, url: str, broker: redis.Redis, schedule: Schedule, *, is_fair: bool) -> None:
        self.is_fair = is_fair
        self.boundaries: list[tuple[str, str]] = []
        self.violations: list[str] = []
        self._broker = broker
        self._events = {number: (event, boundary) for number, event, boundary in schedule}
        scripts = {**vars(claims), **vars(records), **vars(delayed), **vars(dead_letters)}.items()
        self._scripts = {script._digest: name.lower() for name, script in scripts if isinstance(script, Script)}
        broker.flushdb()
        broker.lpush(QUEUE, *MESSAGES)
        self._read = broker.register_script(_DUMP)
        self._dump: Any = self._read()
        self.state, self._may_differ, self._command = _State.of(self._dump), False, ""
        self._counts: dict[str, str] = {}
        self._late: Any = None
        self._half_open: list[Any] = []
        self._end = threading.Semaphore(0)
        self._actor, other = Worker(self, "a", url), Worker(self, "b", url)
        self._actor.other, other.other = other, self._actor
        self._workers = {"a": self._actor, "b": other}
        for worker in self._workers.values():
            threading.Thread(target=self._run_worker, args=(worker,), daemon=True).start()
        self._actor.baton.release()
        self._end.acquire()
        self._finish(url)

    def _run_worker(self, worker: Worker) -> None:
        worker.baton.acquire()
        worker.work()
        (self._end if worker.other.is_over else worker.other.baton).release()

    def _finish(self, url: str) -> None:
        """Have other workers finish everything, and look at what is left."""
        for name in "cd":
            if self.state.queue or self.state.sorted or self.state.held or self.state.delayed or self.state.listed:
                self._actor = self._workers[name] = Worker(self, name, url)
                self._actor.work()
            self._arrive()
        for sock in self._half_open:
            sock.close()
        self.pass_time()
        self.check()
        if any(self.state._replace(dead=[], records={})) or self.state.dead != [REFUSED]:
            self.violations.append(f"left over: {self.state}")

    def pass_boundary(self, worker: Worker, connection: _Connection, data: bytes) -> None:
        """Check what the last command did, and let the event of this boundary happen."""
        if worker.is_over or len(self.boundaries) > _MOST_COMMANDS:
            raise _CrashError
        words = _texts(data.split(b"\r\n")[2:6:2])
        command = self._scripts.get(words[-1]) or " ".join(words[: 2 if words[0] == "CLIENT" else 1])
        if command in _CONSTANT:
            return
        self.check()
        boundary = worker.name, command
        event, expected = self._events.get(len(self.boundaries), (None, boundary))
        if boundary != expected:
            self.violations.append(f"not deterministic: {boundary}")
        self.boundaries.append(boundary)
        if event in _PREEMPTIONS and not worker.other.is_over:
            worker.has_expired |= event is Event.STALL
            worker.other.baton.release()
            worker.baton.acquire()
            self.check()
        elif event is Event.ARRIVE:
            self._arrive()
        self._actor, self._command, self._may_differ = worker, command, command not in _READS
        if event in _LATE + _FAULTS:
            sock, connection._sock = connection._sock, None
            connection._parser.on_disconnect()
            self._break(event, sock, data)

    def _break(self, event: Event | None, sock: Any, data: bytes) -> None:
        if event in _LATE:
            self._late = self._actor, self._command, sock, data
        elif event is Event.LOSE_REPLY:
            self._exchange(sock, data)
        else:
            sock.close()
        if event in (Event.CRASH, Event.CRASH_LATE):
            self._actor.is_over = True
            raise _CrashError
        raise redis.TimeoutError if event is Event.TIME_OUT else redis.ConnectionError

    def _arrive(self) -> None:
        """Let Redis run the late command, unless its connection was ended."""
        if self._late:
            self._actor, self._command, sock, data = self._late
            self._late, self._may_differ = None, True
            self._exchange(sock, data)
            self.check()

    def _exchange(self, sock: Any, data: bytes) -> None:
        """Send a command, and wait until it has run, or is blocked; its connection stays open."""
        self._half_open.append(sock)
        with contextlib.suppress(OSError):
            sock.sendall(data)
            if self._command != "BLMOVE" or self.state.queue:
                sock.recv(65536)

    def pass_time(self) -> None:
        """Let all owners expire but those that the main processes of the living workers renew."""
        self.check()
        living = [worker for worker in self._workers.values() if not (worker.is_over or worker.has_expired)]
        renewed = {place: worker.name for worker in living for place in worker.announced}
        now: Any = self._broker.time()
        for key in self.state.others - {*map(_owner_key, renewed)}:
            if key.startswith(keys.owner_key("")):
                self._broker.delete(key)
        for place in self.state.listed - renewed.keys():
            self._broker.zadd(keys.OWNERS, {place: now[0] - owners.LIFE_SECONDS})
        if renewed:
            claims.renew(self._broker.execute_command, renewed)
        self._may_differ = True

    def check(self) -> None:
        """Check what is in Redis, and what the last command changed."""
        dump = self._read() if self._may_differ else self._dump
        self._may_differ = False
        if dump != self._dump:
            before, self._dump, self.state = self.state, dump, _State.of(dump)
            self.violations += self._wrong(before, self.state)

    def _wrong(self, before: _State, after: _State) -> Iterator[str]:
        waiting = [*after.queue, *after.sorted, *after.delayed]
        everywhere = [*waiting, *after.dead, *itertools.chain(*after.held.values())]
        if len(everywhere) > len({*everywhere}):
            yield "a message is in two places"
        if not {*MESSAGES} <= {*everywhere, *after.records}:
            yield "a message is lost"
        if not after.held.keys() <= after.listed:
            yield "an owner is forgotten"
        if not before.records.items() <= after.records.items():
            yield "there is a second outcome"
        filled = {place: texts for place, texts in after.held.items() if place not in before.held}
        if self._command == "_take" and not {*map(_owner_key, filled)} <= before.others:
            yield "a dead owner takes"
        queue = [*itertools.chain(*filled.values()), *after.queue]  # before a blocked command took of it
        requeued = []
        for place, texts in before.held.items():
            removed = [text for text in texts if text not in after.held.get(place, ())]
            returned = [text for text in removed if text in queue]
            yield from self._count(place, returned, is_alone=len(texts) == 1)
            requeued += returned
            for text in {*removed} - {*queue} - {*waiting}:
                self._counts = {key: count for key, count in self._counts.items() if key[0] != text}
        due = [text for text in before.delayed if text not in after.delayed]
        if queue[: len(requeued)] != requeued or not (self.is_fair or queue == requeued + before.queue + due):
            yield f"out of order: {before}, {after}"
        if after.counts != self._counts:
            yield f"counted wrongly: {after.counts}, not {self._counts}"

    def _count(self, place: str, requeued: Sequence[str], *, is_alone: bool) -> Iterator[str]:
        """Count messages that another worker requeued as those of a dead one, as lua/settle.lua says."""
        owner = self._workers[keys.worker_of(keys.parse_inflight(place)[1])]
        if owner is self._actor and not owner.answered.isdisjoint((place, text) for text in requeued):
            yield "a worker requeues what it has answered"
        for text in requeued if owner.has_expired and owner is not self._actor else ():
            mark = self._counts.get(f"{text}:alone")
            if is_alone:
                self._counts[text] = str(int(self._counts.get(text, 0)) + (2 if mark == "1" else 1))
            if mark or not is_alone:
                self._counts[f"{text}:alone"] = "2" if is_alone else mark or "1"

    def check_counts(self, messages: Sequence[claims.ClaimedMessage]) -> None:
        """Check what a worker was told of messages that it claimed."""
        for message in messages:
            text = message.raw.decode()
            if (message.count, message.alone) != (int(self._counts.get(text, 0)), f"{text}:alone" in self._counts):
                self.violations.append(f"counted wrongly: {message}, not {self._counts}")


def _owner_key(place: str) -> str:
    return keys.owner_key(keys.parse_inflight(place)[1])


def explore(
    url: str, broker: redis.Redis, events: int, first: Sequence[Event] = FIRST, *, is_fair: bool = False
) -> tuple[int, int, str]:
    """Run all schedules of so many events or fewer, shortest first, until one fails; callers take turns or not.

    Returns:
        Numbers of schedules and boundaries, and the schedule that failed, in words.
    """
    Run(url, broker, (), is_fair=is_fair)  # Redis has the scripts from now on
    schedules: deque[Schedule] = deque([()])
    count = boundaries = 0
    while schedules:
        schedule = schedules.popleft()
        run = Run(url, broker, schedule, is_fair=is_fair)
        count, boundaries = count + 1, boundaries + len(run.boundaries)
        if run.violations:
            return count, boundaries, "\n".join(map(str, (*schedule, *run.violations[:3], *run.boundaries)))
        if len(schedule) < events:
            schedules += ((*schedule, step) for step in _next_steps(schedule, run, first))
    return count, boundaries, ""


def _next_steps(schedule: Schedule, run: Run, first: Sequence[Event]) -> Iterator[tuple[int, Event, tuple[str, str]]]:
    """Yield what may happen next; what changes nothing is left out: a read that runs late, a crash before a read."""
    start, events = (schedule[-1][0] + 1, _NEXT[schedule[-1][1]]) if schedule else (0, first)
    for (number, boundary), event in itertools.product([*enumerate(run.boundaries)][start:], events):
        is_change = boundary[1] not in _READS or event not in (*_LATE, Event.CRASH, Event.LOSE_REPLY)
        if is_change and (boundary[0] in "ab" or event is Event.ARRIVE):
            yield number, event, boundary
