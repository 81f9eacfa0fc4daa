"""Claims of a pool process: its own lists in Redis are the only record of the messages that it holds.

An owner is a connection, and its name says which: whoever tidies up after it first ends that connection on the server,
so that no late command of it can run, and then requeues its list. One connection for each queue, which takes messages
and waits for them. It has two owners, a and b, each with a list, which it fills in turn: one script acknowledges the
list that is answered and fills the other one. If its reply is lost, the process connects again as other owners, deletes
the answered list (again), and requeues the other one: nothing is taken twice, and nothing acknowledged unread.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import select
import time
from collections import deque
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import redis

from worker.adapters import logs
from worker.queue.broker import excerpts, keys
from worker.queue.broker.clock import NOW
from worker.queue.broker.inspection import Rules
from worker.queue.broker.owners import FORGET_SECONDS, LIFE_SECONDS, STOPPING_LIFE_SECONDS
from worker.queue.lua import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

log = logs.logger("worker.claims")

_TAKE, _SETTLE, _REQUEUE = Script("take", excerpts.SHORTEN), Script("settle"), Script("requeue")
_DELAY, _RENEW, _SHORTEN = Script("delay", NOW), Script("renew", NOW), Script("shorten", excerpts.SHORTEN)

UNCOUNTED: Final = ""
ALONE: Final = "alone"
COUNTED: Final = "counted"
ANSWERED: Final = "answered"
"""Modes of `Tidier.tidy`; lua/settle.lua says what each does."""

DIED: Final = "died"
"""Mode of an owner of which no more is known: `ALONE` if it holds several messages, else `COUNTED`."""

BURST_BYTES = 1_048_576
"""Bytes after which no more is taken at once; the message that exceeds them is still included."""

GATHERED_AT_ONCE = 1024
"""Most messages that are sorted at once: a flood of 100,000 within seconds, and none delays a claim for long."""

MOST_OF_SEVERAL = 1
"""Most messages of a claim soon after a caller's lone one: its next waits for no bundle of another's."""

_PATIENCE_SECONDS = 1.5
"""Longest time that the end of a wait may be overdue: then its connection is silent, and another one is opened."""

_FULL_SECONDS = 0.2
"""Time without another blocking command after a full Redis has refused one; messages are taken by scripts meanwhile."""

_FIRST_BYTES = 65_536
TIDY_SECONDS = 1.0
"""Interval at which a worker looks for owners that are gone."""

REQUEUED_SECONDS = TIDY_SECONDS + 1.0
"""Time in which the messages of one are requeued, if a worker is alive."""

_SETTLED_AT_ONCE = 64
_CALL_BACK_SECONDS = 0.005
"""Pause before a connection is called back again: its blocking command may not have arrived yet."""

_CONNECTION = re.compile(r"-([0-9a-f]{8})-(\d+)[ab]$")
_RUN_ID = re.compile(r"run_id:([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class ClaimedMessage:
    """Message that this process holds, not inspected yet.

    Attributes:
        raw: the message.
        queue: its queue.
        place: the list that holds it.
        count: number of processes that died of it.
        alone: True: it must not be in a bundle; a process died with one that it was in.
        woke: True: this process waited for it, not it for a process.
    """

    raw: bytes
    queue: str
    place: str
    count: int = 0
    alone: bool = False
    woke: bool = False


def renew(ask: Callable[..., Any], values: Mapping[str, str], life: int = LIFE_SECONDS) -> None:
    """Renew the owners of lists for some seconds, or register them: list → value of its owner's key."""
    names = [keys.owner_key(keys.parse_inflight(place)[1]) for place in values]
    _RENEW.run(ask, [keys.OWNERS, *names], life, *itertools.chain.from_iterable(values.items()))


class Tidier:
    """Requeues the messages of owners that are gone; its client may repeat commands."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._may_end = True

    def tidy(self, place: str, mode: str = UNCOUNTED) -> int:
        """End an owner's connection, requeue its list, and forget it; return the number of messages. Safe to repeat.

        The mode says what counts, or is the digest of the message that ended a process.
        """
        queue, owner = keys.parse_inflight(place)
        has_ended = self._end_connection(owner)
        self._client.delete(keys.owner_key(owner))
        if mode == DIED:  # asked now, when no late command can change the list any more
            length: Any = self._client.llen(place)
            mode = ALONE if length > 1 else COUNTED
        names = (place, queue, keys.deliveries(queue), keys.deferred(queue), keys.numbers(queue))
        total = moved = _SETTLE.run(self._client.execute_command, names, mode, _SETTLED_AT_ONCE)
        while moved == _SETTLED_AT_ONCE:
            moved = _SETTLE.run(self._client.execute_command, names, mode, _SETTLED_AT_ONCE)
            total += moved
        if has_ended:
            self._client.zrem(keys.OWNERS, place)
        return int(total)

    def tidy_dead(self) -> None:
        """Tidy up all owners whose keys have expired, also those of workers of older versions.

        Of several messages none is counted: it is not known which one killed the process, if any did. A list whose
        connection can't be ended is kept for `FORGET_SECONDS`: a late command may still fill it.
        """
        time_now: Any = self._client.time()
        silent_since = time_now[0] - STOPPING_LIFE_SECONDS
        silent_owners: Any = self._client.zrangebyscore(keys.OWNERS, 0, silent_since, withscores=True)
        for name, last_seen in silent_owners:
            place = name.decode("utf-8", "replace")
            with contextlib.suppress(redis.ResponseError):  # a queue or a name of others: its messages are not ours
                self._tidy_if_dead(place, is_forgotten=last_seen < time_now[0] - FORGET_SECONDS)

    def _tidy_if_dead(self, place: str, *, is_forgotten: bool) -> None:
        queue, owner = keys.parse_inflight(place)
        if self._client.exists(keys.owner_key(owner)):
            return
        moved = self.tidy(place, DIED)
        if moved:
            log.warning("claims of a dead worker requeued", queue=queue, owner=owner, messages=moved)
        elif is_forgotten:
            self._client.zrem(keys.OWNERS, place)

    def _end_connection(self, owner: str) -> bool:
        """Return whether no command of an owner can run any more."""
        connection = _CONNECTION.search(owner)
        if connection is None or not self._may_end:
            return False
        server: Any = self._client.info("server")
        if not server["run_id"].startswith(connection[1]):  # the connection ended with its server
            return True
        try:
            self._client.execute_command("CLIENT KILL", "ID", connection[2])  # type: ignore[no-untyped-call] # redis-py's own
        except redis.exceptions.NoPermissionError:
            self._may_end = False
            log.warning("lost connections can't be ended")
        return self._may_end


class _Line:
    """Connection that claims from one queue, and its two owners.

    Attributes:
        queue: the queue.
        connection: the connection; None before the first one.
        client_id: the connection's number on its server.
        places: the owners' lists, the next one to be filled first; empty without a connection.
    """

    def __init__(self, queue: str, client: redis.Redis, lost: set[str]) -> None:
        self.queue = queue
        self.client_id = 0
        self.places: tuple[str, ...] = ()
        self._client = client
        self._lost = lost
        self.connection: Any = None

    def connect(self, name: str) -> None:
        """Connect, as owners that are registered before they take anything."""
        if self.connection is None:
            self.connection = self._client.connection_pool.make_connection()
        self.connection.connect()
        self.client_id = int(self.ask("CLIENT", "ID"))
        run_id = _RUN_ID.search(str(self.ask("INFO", "server")))
        if run_id is None:
            raise redis.ConnectionError("Redis does not say its run_id")
        owner = f"{name}-{run_id[1]}-{self.client_id}"
        places = (keys.inflight(self.queue, owner + "a"), keys.inflight(self.queue, owner + "b"))
        renew(self.ask, dict.fromkeys(places, keys.owner_value(name, 0)))
        self.places = places

    def send_wait(self, seconds: float) -> None:
        """Send the blocking command, and the question whether any message of the queue is counted."""
        self.send(
            ("BLMOVE", self.queue, self.places[0], "RIGHT", "LEFT", seconds), ("EXISTS", keys.deliveries(self.queue))
        )

    def fileno(self) -> int:
        """Return the number of its socket."""
        return int(self.connection._sock.fileno())  # noqa: SLF001 -- redis-py has no other

    def ask(self, *command: str | bytes | float) -> Any:
        """Send a command, once, and return its reply."""
        self.send(command)
        return self.read()

    def send(self, *commands: tuple[str | bytes | float, ...]) -> None:
        """Send commands."""
        if self.connection._sock is None:  # noqa: SLF001 -- closed by others: it would connect again, under the same name
            self.drop()
            raise redis.ConnectionError("the connection was closed")
        try:
            self.connection.send_packed_command(self.connection.pack_commands(commands), check_health=False)
        except BaseException:
            self.drop()
            raise

    def announced_bytes(self) -> int:
        """Return the length of the reply that comes next, from its first line; 0: it is no string."""
        start = b""
        while b"\r\n" not in start:
            received = self.connection._sock.recv(_FIRST_BYTES)  # noqa: SLF001 -- redis-py has no other
            if not received:
                raise redis.ConnectionError("Redis closed the connection")
            self.connection._parser._reader.feed(received)  # noqa: SLF001 -- the parser continues there
            start += received
        return int(start[1 : start.index(b"\r\n")]) if start.startswith(b"$") else 0

    def read(self) -> Any:
        """Read a reply."""
        try:
            return self.connection.read_response()
        except (redis.OutOfMemoryError, redis.exceptions.NoScriptError, redis.exceptions.NoPermissionError):
            raise
        except BaseException:  # also a replica's refusal: the primary is elsewhere
            self.drop()
            raise

    def drop(self) -> None:
        """Close the connection; its owners are lost."""
        self._lost.update(self.places)
        self.places = ()
        if self.connection is not None:
            self.connection.disconnect()


class Claims:
    """Claims of one process on its queues.

    After any `redis.RedisError` or `OSError` a method may be called again: it connects where necessary. The messages
    that the caller works on stay its own meanwhile.

    Args:
        client: client of the broker, with time limits and without retries; its pool provides the connections.
        queues: names of the queues.
        name: name of the worker, HOST-PID of its main process; the views count workers by it.
        announce: called with the lists whose owners must be renewed (`renew`), whenever they change: before they are
            used, and after they are tidied up.
        longest: most bytes of a message; only an excerpt of a longer one is taken.
        turn_of: names whose turn a message takes; None: messages are taken in the order of the queue.
    """

    def __init__(
        self,
        client: redis.Redis,
        queues: Sequence[str],
        name: str,
        announce: Callable[[Sequence[str]], None],
        longest: int = Rules.max_bytes,
        turn_of: Callable[[bytes], str] | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._announce = announce
        self._longest = longest
        self._turn_of = turn_of
        self._tidier = Tidier(client)
        self._patience: float = min(_PATIENCE_SECONDS, client.get_connection_kwargs()["socket_timeout"])
        self._worked_on: set[str] = set()
        self._answered: set[str] = set()
        self._lost: set[str] = set()
        self._announced: set[str] = set()
        self._lines = deque(_Line(queue, client, self._lost) for queue in queues)
        self._numbers = itertools.count(1)
        self._refused_until = float("-inf")

    def connect(self) -> None:
        """Tidy up what lost owners held, and connect what has no connection, as new ones; else do nothing."""
        self._tidy_lost()
        for line in self._lines:
            if not line.places:
                line.connect(self._name)
        places = {*self._lost, *(place for line in self._lines for place in line.places)}
        if places != self._announced:
            self._announce(sorted(places))
            self._announced = places

    def take(self, limit: int) -> list[ClaimedMessage]:
        """Acknowledge all messages claimed before, whose outcomes are stored, and take the next ones, without waiting.

        Args:
            limit: most messages; all of one queue, the queues in turn.
        """
        self._answered |= self._worked_on
        self._worked_on.clear()
        self.connect()
        self._lines.rotate(-1)
        for line in [*self._lines][1 if limit else 0 :]:
            if line.places[1] in self._answered:
                self._take_of(line, 0)
        for line in self._lines if limit else ():
            if messages := self._take_of(line, limit):
                return messages
        return []

    def acknowledge(self) -> None:
        """Acknowledge all messages claimed before, whose outcomes are stored."""
        self.take(0)

    def wait(self, seconds: float, wake: int = -1) -> list[ClaimedMessage]:
        """Acknowledge as `take` does, and wait for a message on all queues, for some seconds at most.

        The file `wake` ends the wait if it can be read. Several queues may have a message at once.
        """
        self.acknowledge()
        if (pause := self._refused_until - time.monotonic()) > 0:
            _readable([wake], min(pause, seconds))
            return []
        waiting = {line.fileno(): line for line in self._lines}
        until = time.monotonic() + seconds + self._patience
        messages: list[ClaimedMessage] = []
        try:
            for line in self._lines:
                line.send_wait(seconds)
            readable = _readable([*waiting, wake], seconds + self._patience)
            while waiting:
                for number in waiting.keys() & readable:
                    messages += self._read(waiting.pop(number))
                if waiting:
                    readable = self._call_back(waiting, until)
        except BaseException:  # what was moved, or still may be, is requeued
            for line in self._lines:
                line.drop()
            self._worked_on.clear()
            raise
        return messages

    def requeue(self, messages: Sequence[ClaimedMessage]) -> None:
        """Requeue messages, in their order, before all that wait."""
        self.connect()
        for place, group in itertools.groupby(messages, attrgetter("place")):
            raws = [message.raw for message in group]
            queue, _ = keys.parse_inflight(place)
            _REQUEUE.run(self._line_of(queue).ask, [place, queue, keys.numbers(queue)], *reversed(raws))

    def delay(self, message: ClaimedMessage, seconds: float, changed: bytes = b"") -> bool:
        """Requeue a message, or its changed form, after some time by Redis' clock; return False if it was not here."""
        self.connect()
        queue = message.queue
        names = [message.place, keys.delayed(queue), keys.delayed_messages(queue), keys.deliveries(queue)]
        line = self._line_of(queue)
        tag = keys.tag(keys.parse_inflight(line.places[0])[1], next(self._numbers))
        return bool(_DELAY.run(line.ask, names, message.raw, changed, tag, seconds))

    def disconnect(self) -> None:
        """Drop the connections; the caller keeps what it works on."""
        for line in self._lines:
            line.drop()

    def abandon(self) -> None:
        """Give up what was claimed and not acknowledged: the next connection requeues it."""
        self.disconnect()
        self._worked_on.clear()

    def close(self) -> None:
        """Requeue what was claimed and not acknowledged, and forget the owners.

        They stay announced: the main process forgets them once more, if it has renewed them meanwhile.
        """
        self.abandon()
        self._tidy_lost()

    def _line_of(self, queue: str) -> _Line:
        return next(line for line in self._lines if line.queue == queue)

    def _tidy_lost(self) -> None:
        for place in sorted(self._lost - self._worked_on):
            self._tidier.tidy(place, ANSWERED if place in self._answered else UNCOUNTED)
            self._lost.discard(place)
            self._answered.discard(place)

    def _take_of(self, line: _Line, limit: int) -> list[ClaimedMessage]:
        gathers = GATHERED_AT_ONCE if self._turn_of is not None and limit else 0
        reply = self._run_take(line, limit, gathers)
        if reply is not None:
            self._answered.discard(line.places[1])
            if reply[2]:
                reply = self._take_sorted(line, limit, *reply[:3])
        if reply is None:  # another worker has declared it dead
            line.drop()
            self.connect()
            return []
        return self._claimed(line, *reply[:2])

    def _run_take(
        self, line: _Line, limit: int, gathers: int, taken_count: int = 0, turns: Sequence[str] = ()
    ) -> list[Any] | None:
        """Return the reply of lua/take.lua; with turns, it first sorts what was gathered."""
        queue, (place, answered) = line.queue, line.places
        owner = keys.owner_key(keys.parse_inflight(place)[1])
        numbers = {turn: number for number, turn in enumerate(dict.fromkeys(turns), 1)}
        names = [owner, queue, place, answered, keys.deliveries(queue), keys.callers(queue), keys.numbers(queue)]
        names += [keys.caller(queue, turn) for turn in numbers]
        limits = (limit, self._longest, BURST_BYTES, MOST_OF_SEVERAL, gathers)
        reply: list[Any] | None = _TAKE.run(line.ask, names, *limits, taken_count, *(numbers[turn] for turn in turns))
        while reply is not None and reply[3]:
            reply = _TAKE.run(line.ask, names[:7], *limits, 0)
        return reply

    def _take_sorted(
        self, line: _Line, limit: int, taken_messages: list[bytes], counts: list[int], gathered: Sequence[bytes]
    ) -> list[Any] | None:
        """Have gathered messages sorted by whose turn each takes, and take as many more as may be."""
        try:
            turns = [self._turn_of(raw) for raw in gathered]  # type: ignore[misc] # gathered only if there is one
            further_reply = self._run_take(line, limit - len(taken_messages), 0, len(taken_messages), turns)
        except BaseException:  # else the next claim would acknowledge them
            line.drop()
            raise
        return further_reply and [taken_messages + further_reply[0], counts + further_reply[1]]

    def _claimed(
        self, line: _Line, raws: Sequence[bytes], counts: Sequence[int] = (), *, woke: bool = False
    ) -> list[ClaimedMessage]:
        if not raws:
            return []
        line.places = line.places[::-1]
        place = line.places[1]
        self._worked_on.add(place)
        pairs = itertools.zip_longest(raws, counts[::2], counts[1::2], fillvalue=0)
        return [ClaimedMessage(raw, line.queue, place, count, bool(alone), woke) for raw, count, alone in pairs]  # type: ignore[arg-type] # raws are the longest

    def _read(self, line: _Line) -> list[ClaimedMessage]:
        """Read the replies to the blocking command and to the question whether any message is counted."""
        if line.announced_bytes() > self._longest:
            place = line.places[0]
            line.drop()
            log.warning("message too long: replaced by an excerpt", queue=line.queue)
            _SHORTEN.run(self._client.execute_command, [place], self._longest)
            return []
        raw = None
        try:
            raw = line.read()
        except redis.OutOfMemoryError:  # a full Redis, which lets scripts take messages
            self._refused_until = time.monotonic() + _FULL_SECONDS
        is_counted = line.read()
        if raw is None:
            return []
        digest, counts = keys.digest(raw), (0, 0)
        if is_counted:
            count, alone = line.ask("HMGET", keys.deliveries(line.queue), digest, f"{digest}:alone")
            counts = (int(count or 0), alone is not None)
        return self._claimed(line, [raw], counts, woke=True)

    def _call_back(self, waiting: Mapping[int, _Line], until: float) -> set[int]:
        """End blocking commands; return the numbers of the sockets that have a reply."""
        if time.monotonic() > until:
            raise redis.TimeoutError("Redis does not answer")
        numbers = [line.client_id for line in waiting.values()]
        idle = [line for line in self._lines if line.places and line not in waiting.values()]
        if idle:  # one round trip
            idle[0].send(*(("CLIENT", "UNBLOCK", number) for number in numbers))
        for number in numbers:
            idle[0].read() if idle else self._client.client_unblock(number)
        return _readable(waiting, _CALL_BACK_SECONDS)


def _readable(numbers: Iterable[int], seconds: float) -> set[int]:
    """Return those of some open files that can be read, waiting for one."""
    poll = select.poll()
    for number in numbers:
        if number >= 0:
            poll.register(number, select.POLLIN)
    return {number for number, _ in poll.poll(seconds * 1000)}
