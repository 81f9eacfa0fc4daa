"""All that the main process asks of Redis: to renew its processes' owners, tidy up dead ones, requeue delayed messages.

A thread, because Redis may not answer for a while and the main process must watch its processes meanwhile.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import redis

from retrieval_client.errors import TimedOut
from worker.adapters import logs
from worker.queue import codec, records
from worker.queue.broker import delayed, inspection, keys, priorities, turns, unacked, waits
from worker.queue.broker.clock import ServerClock
from worker.queue.broker.inspection import DeliveredJob
from worker.queue.broker.owners import (
    AGAIN_SECONDS,
    BEAT_SECONDS,
    LIFE_SECONDS,
    STOPPING_BEAT_SECONDS,
    STOPPING_LIFE_SECONDS,
    RenewalLog,
)
from worker.queue.claims import ALONE, ANSWERED, TIDY_SECONDS, UNCOUNTED, Tidier, renew
from worker.queue.processes.table import Slot, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from worker.queue.broker.inspection import Rules
    from worker.queue.broker.waits import Wait
    from worker.queue.further_tasks import FurtherTasks
    from worker.queue.records import RecordStore

log = logs.logger("worker.keeper")

_LOOK_SECONDS = 1.0
"""Interval between looks at what waits, is due or was deferred."""

_MOST_WAITS = 10_000
_TURN_SECONDS = 0.25
_STUCK_LOOKS, _LONGEST_STUCK_LOOKS = 4, 30
"""Looks, each with the renewal of the owners, after which a process that runs no job and gives no sign of life counts
as stopped; the second while it stores outcomes, which takes longer if Redis is slow, or if it has no messages."""


_TIMED_OUT = TimedOut("the job ran longer than its time limit, and its process was ended")

Cause: TypeAlias = Literal["", "time limit", "revoked", "stopped"]
"""Why the main process ended a process; empty: it did not."""


class DeadProcess(NamedTuple):
    """A process that is gone: a copy of its slot, and why the main process ended it, if it did."""

    slot: Slot
    cause: Cause


class _UnstoredError(Exception):
    """The outcome of a job could not be stored yet."""


@dataclass(eq=False)
class Keeper:
    """The thread. Its clients are its own; `slots` returns those of the processes that live, by number.

    Attributes:
        waiting: number of jobs that wait.
        stuck: number → last sign of life of the processes that count as stopped.
        well_since: since when it has done all its work each time, by `time.monotonic`; infinite while it fails.
        waits: how long messages waited that were taken, with their queues; for the thread that forks, to be counted
            there: a process must not be forked while another thread counts.
    """

    _client: redis.Redis
    _store: RecordStore
    _further: FurtherTasks
    _name: str
    _queues: Sequence[str]
    _slots: Callable[[], Mapping[int, Slot]]
    _rules: Rules
    _measures_waits: bool = False

    def __post_init__(self) -> None:
        self._tidier = Tidier(self._client)
        self._clock = ServerClock(time.monotonic)
        self._dead: queue.SimpleQueue[DeadProcess] = queue.SimpleQueue()
        self._unsettled: list[DeadProcess] = []
        self._is_away = False
        self._renewals = RenewalLog()
        self._next_beat = self._next_look = self._next_dead = float("-inf")
        self._is_stopping = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._seen = float("inf"), 0.0
        self._looks: dict[int, tuple[int, int]] = {}
        self.waiting = 0
        self.well_since = float("inf")
        self.waits: deque[tuple[str, Wait]] = deque(maxlen=_MOST_WAITS)
        self.stuck: dict[int, int] = {}

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def settle(self, slot: Slot, cause: Cause) -> None:
        """Requeue what a dead process held, by its slot, which may then be another's; retried until it is done."""
        self._dead.put(DeadProcess(Slot.from_buffer_copy(slot), cause))

    def hurry(self, **_: object) -> None:
        """Let owners live shorter: if the worker, asked to stop, is killed, others take its jobs over soon."""
        self._is_stopping = True

    def stop(self, seconds: float) -> None:
        """Settle what is left, for some time at most, and stop the thread."""
        until = time.monotonic() + seconds
        while (self._unsettled or not self._dead.empty()) and time.monotonic() < until:
            self._stopped.wait(_TURN_SECONDS / 10)
        self._stopped.set()
        self._thread.join(max(0.1, until - time.monotonic()))

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        is_postponed = False
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Empty):
                self._unsettled.append(self._dead.get(timeout=_TURN_SECONDS))
            try:
                self._turn(time.monotonic())
                is_postponed = False
            except Exception as error:  # noqa: BLE001 -- whatever it is, owners that are not renewed would count as dead
                if not is_postponed:
                    log.warning("maintenance postponed", error=type(error).__name__, where=logs.where(error))
                is_postponed = True
                self.well_since = float("inf")
                self._stopped.wait(AGAIN_SECONDS)
        self._client.connection_pool.disconnect()

    def _turn(self, current_time: float) -> None:
        self._renew(current_time)
        self._settle_dead()
        if current_time >= self._next_look:
            self._next_look = current_time + _LOOK_SECONDS
            self._look()
        if current_time >= self._next_dead:
            self._next_dead = current_time + TIDY_SECONDS
            self._tidy_dead()
        self.well_since = min(self.well_since, time.monotonic())

    def _settle_dead(self) -> None:
        """Settle dead processes; if the outcome of a job can't be stored yet, they wait, and nothing else does."""
        for process in [*self._unsettled]:
            try:
                self._settle(process)
            except _UnstoredError as error:
                if not self._is_away:
                    log.warning("outcomes not stored yet", error=str(error), outcomes=1)
                self._is_away = True
            else:
                self._unsettled.remove(process)
                self._is_away = False

    def _tidy_dead(self) -> None:
        """Requeue what dead workers held, also those of older versions; refuse messages with a priority.

        Not while Redis' clock has just jumped ahead: the keys of all owners expire then, and are soon renewed.
        """
        redis_time, local_time = self._clock.read(self._client).timestamp(), time.monotonic()
        if redis_time - self._seen[0] > local_time - self._seen[1] + BEAT_SECONDS:
            log.warning(
                "Redis' clock jumped", seconds=round(redis_time - self._seen[0] - (local_time - self._seen[1]), 1)
            )
            self._next_dead = local_time + LIFE_SECONDS
        self._seen = redis_time, local_time
        if self._next_dead > local_time + TIDY_SECONDS:
            return
        self._tidier.tidy_dead()
        if count := unacked.requeue_of_dead_owners(self._client):
            log.warning("deliveries requeued", messages=count)
        for name in self._queues:
            priorities.refuse(self._client, name, self._rules, self._clock.read(self._client), self._store)

    def _renew(self, current_time: float) -> None:
        if current_time < self._next_beat:
            return
        life = STOPPING_LIFE_SECONDS if self._is_stopping else LIFE_SECONDS
        try:
            slots = self._slots()
            values = {
                name: value for slot in slots.values() for name, value in self._owner_values(slot, current_time).items()
            }
            for process in self._unsettled:  # else it would be requeued as of a dead worker
                values |= dict.fromkeys(process.slot.places, keys.owner_value(self._name, 0))
            if values:
                renew(self._client.execute_command, values, life)
            self._find_stuck(slots)
        except (redis.RedisError, OSError) as error:
            self._renewals.failed(error, current_time)
            raise
        if slots:
            self._renewals.renewed()
        self._next_beat = current_time + (STOPPING_BEAT_SECONDS if self._is_stopping else BEAT_SECONDS)

    def _owner_values(self, slot: Slot, current_time: float) -> dict[str, str]:
        """Return the values of a process's owners: how many jobs each has ended, and when what it runs began."""
        began = self._clock.read(self._client).timestamp() - (current_time - slot.since) if slot.running else None
        values = {}
        for place in slot.places:
            queue, owner = keys.parse_inflight(place)
            ended = slot.queue_ended[self._queues.index(queue)] if owner.endswith("a") else 0
            values[place] = keys.owner_value(self._name, ended, began if place == slot.place else None)
        return values

    def _find_stuck(self, slots: Mapping[int, Slot]) -> None:
        """Find processes that, look after look, neither run a job nor give a sign of life."""
        looks: dict[int, tuple[int, int]] = {}
        stuck: dict[int, int] = {}
        for number, slot in slots.items():
            if slot.state in (State.STARTING, State.RUNNING):
                continue
            signs = slot.signs
            last_signs, count = self._looks.get(number, (signs, 0))
            count = count + 1 if signs == last_signs else 1
            looks[number] = signs, count
            is_silent = count >= _STUCK_LOOKS and slot.state != State.STORING
            if count >= _LONGEST_STUCK_LOOKS or (is_silent and any(self._client.llen(place) for place in slot.places)):
                stuck[number] = signs
        self._looks, self.stuck = looks, stuck

    def _look(self) -> None:
        waiting = 0
        for name in self._queues:
            while delayed.promote(self._client, name):
                pass
            delayed.requeue_deferred(self._client, name, 2 * len(self._slots()))
            waiting += turns.waiting(self._client, name)
            if self._measures_waits:
                self.waits.extend((name, wait) for wait in waits.look(self._client, name))
        self.waiting = waiting

    def _settle(self, process: DeadProcess) -> None:
        """Requeue what a process held: what it ran or read counts, or is answered; what had not begun does neither."""
        slot = process.slot
        for place in slot.places:
            mode = UNCOUNTED
            if place == slot.place and slot.state == State.ENDED:
                mode = ANSWERED
            elif place == slot.place and process.cause != "stopped":
                if slot.together:
                    mode = ALONE
                elif (raw := self._message_of(slot)) is not None:
                    if process.cause:
                        self._answer(process, raw)
                    else:
                        mode = keys.digest(raw)
            moved = self._tidier.tidy(place, mode)
            if moved and mode != ANSWERED:
                log.warning("claims of a dead process requeued", queue=keys.parse_inflight(place)[0], messages=moved)

    def _message_of(self, slot: Slot) -> bytes | None:
        """Return the message that a process ran, or else the first one, which it read; None: its list has it no more.

        A late command of the process may still remove messages: no place in the list stays that of its message.
        """
        place, task_id = slot.place, slot.task_id
        length: Any = self._client.llen(place)
        for number in range(length):
            raw: Any = self._client.lindex(place, -1 - number)
            if raw is not None and (not task_id or _id_of(raw) == task_id):
                return bytes(raw)
        return None

    def _answer(self, process: DeadProcess, raw: bytes) -> None:
        """Store the outcome of a job whose process was ended for it, and remove its message, with its count."""
        inspected = inspection.inspect(raw, self._rules, None)
        job = inspected if isinstance(inspected, DeliveredJob) else None
        state, error = ("REVOKED", records.REVOKED) if process.cause == "revoked" else ("FAILURE", _TIMED_OUT)
        try:
            if job is None or job.keeps_result:
                self._store.put([records.compose(process.slot.task_id, state, error)])
            if job and not self._further.send(job, error, state):
                raise _UnstoredError("chord not sent")
        except (redis.RedisError, OSError) as failed:
            raise _UnstoredError(type(failed).__name__) from None
        digest, place = keys.digest(raw), process.slot.place
        self._client.hdel(keys.deliveries(keys.parse_inflight(place)[0]), digest, f"{digest}:alone")
        self._client.lrem(place, 1, raw)  # type: ignore[arg-type] # redis-py knows text only


def _id_of(raw: bytes) -> str | None:
    """Return the id of a message that was inspected before; None if it has none."""
    try:
        return str(codec.parse(raw)["headers"]["id"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
