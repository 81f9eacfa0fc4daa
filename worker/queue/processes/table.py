"""Table of what each pool process does, in memory that the main process shares with them.

Each slot has one writer, its process; the main process reads it, also after the process died. A slot is written in such
an order that what is read in between is old or new, and at worst says less.
"""

from __future__ import annotations

import ctypes
import enum
import mmap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

BUNDLE_SECONDS = 0.05
"""Longest time that a bundle should take, by the time that jobs took so far: a job of it waits for the others."""
MOST_JOBS = 64
"""Most jobs that a process has at once."""

MOST_QUEUES = 16

_LONGEST_ID, _LONGEST_NAME, _PLACES = 2048, 64, 4096
_MOST_REVOKED = 65_536


class State(enum.IntEnum):
    """State of a process; ENDED: the outcomes of all its jobs are stored, and they are not acknowledged yet."""

    STARTING = 0
    IDLE = 1
    RUNNING = 2
    STORING = 3
    ENDED = 4


class RunningJob(NamedTuple):
    """Job that a process has: the name of its task, its id, and whether it runs, or waits for others there."""

    task: str
    task_id: str
    is_running: bool


class _Job(ctypes.Structure):
    _fields_ = (("task", ctypes.c_char * _LONGEST_NAME), ("id", ctypes.c_char * _LONGEST_ID))


class Slot(ctypes.Structure):
    """A process's part of the table."""

    state: int  # a `State`
    together: int  # whether its jobs are answered together: each of them is the one that runs
    position: int  # which of its jobs runs
    count: int  # the number of its jobs
    since: float  # when that job, or these, began, by `time.monotonic`
    is_leaving: int  # whether it takes no more jobs
    ended: int  # how many jobs it has ended
    queue_ended: ctypes.Array[ctypes.c_uint64]  # the same for each queue, since it announced its lists
    claims: int  # how often it has claimed
    signs: int  # how often it has given a sign of life; while it runs a job it gives none
    side: int  # which of two names of its lists counts
    _fields_ = (
        ("state", ctypes.c_int32),
        ("together", ctypes.c_int32),
        ("position", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("since", ctypes.c_double),
        ("is_leaving", ctypes.c_int32),
        ("ended", ctypes.c_uint64),
        ("queue_ended", ctypes.c_uint64 * MOST_QUEUES),
        ("claims", ctypes.c_uint64),
        ("signs", ctypes.c_uint64),
        ("_place", ctypes.c_char * 512),
        ("_places", (ctypes.c_char * _PLACES) * 2),
        ("side", ctypes.c_int32),
        ("_jobs", _Job * MOST_JOBS),
    )

    def clear(self) -> None:
        """Prepare it for the next process."""
        self.state, self.count, self.is_leaving, self.ended, self.claims = State.STARTING, 0, False, 0, 0
        self.signs += 1
        self.announce(())

    def announce(self, places: Sequence[str]) -> None:
        """Name the lists whose owners must be renewed: written beside the old ones, then these are switched."""
        value = "\n".join(places).encode()
        if len(value) >= _PLACES:
            raise ValueError("too many queues")
        self._places[1 - self.side].value = value
        ctypes.memset(self.queue_ended, 0, ctypes.sizeof(self.queue_ended))
        self.side = 1 - self.side

    def note_ended(self, queue: int, count: int) -> None:
        """Count jobs of a queue that ended, given by its number."""
        self.ended += count
        self.queue_ended[queue] += count

    @property
    def places(self) -> list[str]:
        """Lists of this process, whose owners must be renewed."""
        return bytes(self._places[self.side].value).decode().split("\n") if self._places[self.side].value else []

    @property
    def place(self) -> str:
        """List that holds the messages that it reads, or the jobs that it runs or has just ended; empty: none."""
        has_place = self.state in (State.RUNNING, State.STORING, State.ENDED)
        return bytes(self._place).decode() if has_place else ""

    def begin_reading(self, place: str, *, together: bool) -> None:
        """Note that messages of a list are read, which may end the process; first that its last jobs are not ended."""
        self.state = State.STORING
        self.count, self.together = 0, together
        self._place = place.encode()
        self.signs += 1

    def begin(self, place: str, jobs: Sequence[tuple[str, str]], current_time: float, *, together: bool) -> None:
        """Note that jobs of a list begin, answered together or not: the task and the id of each."""
        self._place = place.encode()
        for entry, (task, task_id) in zip(self._jobs, jobs, strict=False):
            entry.task, entry.id = task.encode()[:_LONGEST_NAME], task_id.encode()[:_LONGEST_ID]
        self.position, self.together, self.since, self.count = 0, together, current_time, len(jobs)
        self.state = State.RUNNING
        self.claims += 1

    def begin_next(self, position: int, current_time: float) -> None:
        """Note that one of the jobs begins alone."""
        self.position, self.together, self.since = position, False, current_time
        self.state = State.RUNNING

    @property
    def running(self) -> list[RunningJob]:
        """Jobs that run, and those that wait for these in the same process."""
        if self.state not in (State.RUNNING, State.STORING):
            return []
        together, position = bool(self.together), self.position
        jobs = [(number, self._jobs[number]) for number in range(min(self.count, MOST_JOBS))]
        return [
            RunningJob(bytes(job.task).decode(), bytes(job.id).decode(), together or number == position)
            for number, job in jobs[0 if together else position :]
        ]

    @property
    def task_id(self) -> str:
        """Id of the job that runs, of several the first one; empty: none runs."""
        running = self.running
        return running[0].task_id if running else ""


class Head(ctypes.Structure):
    """The main process's part of the table."""

    sends_events: int  # whether events are sent
    revocations: int  # how many jobs were revoked
    _fields_ = (
        ("sends_events", ctypes.c_int32),
        ("revocations", ctypes.c_uint64),
        ("_revoked", ctypes.c_uint64 * _MOST_REVOKED),
    )

    def revoke(self, key: int) -> None:
        """Note a revoked job, by a number of 64 bits; the oldest are forgotten."""
        self._revoked[self.revocations % _MOST_REVOKED] = key
        self.revocations += 1

    def revoked_since(self, count: int) -> set[int]:
        """Return those that were revoked after so many, as far as they are known."""
        first_number = max(count, self.revocations - _MOST_REVOKED)
        return {self._revoked[number % _MOST_REVOKED] for number in range(first_number, self.revocations)}


class Table:
    """The table, with a number of slots."""

    def __init__(self, count: int) -> None:
        size = ctypes.sizeof(Slot)
        self._memory = mmap.mmap(-1, ctypes.sizeof(Head) + count * size)
        self.head = Head.from_buffer(self._memory, 0)
        self.slots = [Slot.from_buffer(self._memory, ctypes.sizeof(Head) + number * size) for number in range(count)]
