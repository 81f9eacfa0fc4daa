"""Celery pool whose processes claim their own jobs: here they are forked, watched, ended, and tidied up after."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import stat
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import bootsteps, signals
from celery.concurrency.base import BasePool
from celery.worker import heartbeat
from celery.worker import state as worker_state

from worker.adapters import logs
from worker.queue.broker import keys
from worker.queue.places import Place
from worker.queue.probes import LastWork
from worker.queue.processes.process import Limits, revocation_key
from worker.queue.processes.table import State, Table
from worker.queue.remote_control import MOST_PROCESSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from worker.queue.processes.keeper import Cause, Keeper
    from worker.queue.processes.table import RunningJob, Slot

log = logs.logger("worker.pool")

_LOOK_SECONDS = 0.1
"""Interval between looks at what the processes do."""

_SCALE_SECONDS = 1.0
"""The same at how many there should be."""

_MOST_PROCESSES = 4 * MOST_PROCESSES
"""Processes that there is room for, unless there are more from the start."""

_SETTLE_SECONDS = 3.0
"""Time that the worker waits at its end until what dead processes held is requeued."""

_STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGQUIT


class Member:
    """A process of the pool.

    Attributes:
        number: its place in the pool.
        slot: its part of the table.
        pid: its id.
        pipe: a file that can be read once it has ended.
        ended_for: id of the job for which it was ended, and why; none: it was not.
        is_killed: True if it was ended.
    """

    def __init__(self, number: int, slot: Slot, pid: int, pipe: int) -> None:
        self.number = number
        self.slot = slot
        self.pid = pid
        self.pipe = pipe
        self.ended_for: tuple[str, Cause] = ("", "")
        self.is_killed = False
        self._lock = threading.Lock()
        self._is_reaped = False

    @property
    def cause(self) -> Cause:
        """Why it was ended; not for a job that it had begun since."""
        task_id, cause = self.ended_for
        return cause if task_id in {"", self.slot.task_id} else "stopped"

    @property
    def has_ended(self) -> bool:
        """True if its process has ended, though nobody may have noticed: the main loop may wait for Redis."""
        with self._lock:
            return self._is_reaped or _has_ended(self.pipe, 0)

    def end(self, cause: Cause, task_id: str = "") -> None:
        """Kill it, for the job that it runs if one is given."""
        self.ended_for = task_id, cause
        self.is_killed = True
        self._signal(signal.SIGKILL)

    def leave(self) -> None:
        """Ask it to end what it runs, and exit."""
        self.slot.is_leaving = True
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        with self._lock:
            if not self._is_reaped:  # else its id may be another process's
                os.kill(self.pid, number)

    def reap(self) -> int:
        """Wait until it has ended; return its status."""
        with self._lock:
            os.close(self.pipe)
            _, status = os.waitpid(self.pid, 0)
            self._is_reaped = True
        return status


class Pool(BasePool):
    """The pool.

    Attributes:
        table: what the processes do.
        members: the processes that live, by their place.
    """

    signal_safe = False

    limit: int  # of processes; BasePool's own, as are `app` and `options`
    _hub: Any = None
    _ended = _claims = 0
    _is_ending = False
    _until = float("inf")

    # --- processes ----------------------------------------------------------------------------------

    def on_start(self) -> None:
        """Fork the first processes, and begin to keep what they hold."""
        place_count = max(_MOST_PROCESSES, self.limit)
        self.table = Table(place_count)
        self.members: dict[int, Member] = {}
        self._places = {number: Place() for number in range(place_count)}
        self._alive, self._parent_end = os.pipe()
        self._ended_all = threading.Event()
        self._looked_at = self._kept_limits_at = time.monotonic()
        self._no_fork = threading.Lock()
        self._keeper: Keeper = self.app.processes.keeper(self._slots)
        signals.worker_shutting_down.connect(self._keeper.hurry)
        self._maintain()
        self._keeper.start()
        atexit.register(self._end_rest)
        self.app.processes.pool = self
        threading.Thread(target=self._watch, name="limits", daemon=True).start()

    def _watch(self) -> None:
        """Keep the limits: in a thread, because Celery's loop may wait for Redis for as long as that is away."""
        while not self._ended_all.wait(_LOOK_SECONDS):
            try:
                with self._no_fork:
                    self._keep_limits()
                self._kept_limits_at = time.monotonic()
            except Exception as error:  # noqa: BLE001 -- whatever it is, no job may run without limits
                fields = {"error": type(error).__name__, "where": logs.where(error)}
                log.error("limits not kept", **fields)  # noqa: TRY400 -- no traces in logs

    @property
    def is_ending(self) -> bool:
        """True once the worker is about to end."""
        return self._is_ending

    @property
    def last_work(self) -> LastWork:
        """When the parts of the main process last did their work."""
        return LastWork(self._looked_at, self._kept_limits_at, self._keeper.well_since)

    def running_of_queues(self, queues: Iterable[str]) -> dict[str, int]:
        """Return the number of jobs that processes have and have not answered, of each queue."""
        counts = dict.fromkeys(queues, 0)
        for member in [*self.members.values()]:
            queue, _ = keys.parse_inflight(member.slot.place)
            if queue in counts:
                counts[queue] += len(member.slot.running)
        return counts

    @property
    def states(self) -> dict[str, int]:
        """Number of processes by what they do, of each state."""
        states = [member.slot.state for member in [*self.members.values()] if not member.has_ended]
        starting, idle = states.count(State.STARTING), states.count(State.IDLE)
        return {"idle": idle, "busy": len(states) - starting - idle, "starting": starting}

    def _slots(self) -> dict[int, Slot]:
        return {number: member.slot for number, member in [*self.members.items()]}

    def _maintain(self) -> None:
        """Fork what is missing, each no sooner than it may be; a free place beyond these does not end their pauses."""
        if self._is_ending:
            return
        current_time = time.monotonic()
        missing = self.limit - sum(not member.slot.is_leaving for member in self.members.values())
        free = [number for number in self._places if number not in self.members]
        for number in free[: max(0, missing)]:
            place = self._places[number]
            if place.is_due(current_time):
                # First: the thread that keeps limits looks at it as soon as there is a process.
                place.begin(current_time)
                self._fork(number)

    def _fork(self, number: int) -> None:
        signals.worker_before_create_process.send(sender=self)
        slot = self.table.slots[number]
        slot.clear()
        read_end, write_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until the process is rid of Celery's handler
        try:
            with self._no_fork:
                pid = os.fork()
            if pid == 0:
                self._be_process(number, slot, write_end)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.close(write_end)
        self.members[number] = Member(number, slot, pid, read_end)
        if self._hub is not None:
            self._hub.add_reader(read_end, self._on_exit, number)

    def _be_process(self, number: int, slot: Slot, pipe: int) -> None:
        """Run a process, in the child; never returns."""
        status = 1
        try:
            for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1):
                signal.signal(ignored, signal.SIG_IGN)  # the main process's; its slot says as well that it must leave
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            _leave_parents_files({pipe, self._alive})
            self.app.processes.number = number
            threading.Thread(target=_end_alone, args=(self._alive, self._hard_seconds), daemon=True).start()
            self.app.set_current()
            signals.worker_process_init.send(sender=None)
            _, hostname = self.options["initargs"]
            self.app.processes.run(slot, self.table.head, hostname, self._limits, self._alive)
            signals.worker_process_shutdown.send(sender=None, pid=os.getpid(), exitcode=0)
            status = 0
        except Exception as error:  # noqa: BLE001 -- the main process forks another one
            fields = {"error": type(error).__name__, "where": logs.where(error)}
            log.error("process failed", **fields)  # noqa: TRY400 -- no traces in logs
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _on_exit(self, number: int) -> None:
        """Tidy up after a process that ended, and fork another one if it is missing."""
        member = self.members.pop(number)
        if self._hub is not None:
            self._hub.remove_reader(member.pipe)
        status = member.reap()
        self._ended += member.slot.ended
        self._claims += member.slot.claims
        if status and not member.cause:
            ids = [job.task_id for job in member.slot.running]
            if ids:
                log.error("process lost: the job is requeued", pid=member.pid, jobs=len(ids), task_ids=ids)
            else:
                log.error("process lost", pid=member.pid)
        self._tell_ended(member)
        self.app.processes.metrics.process_ended(member.cause or ("lost" if status else "exit"))
        self._keeper.settle(member.slot, member.cause)
        if not self._is_ending:
            self._places[number].end(time.monotonic(), is_proven=status == 0 or member.slot.claims > 0)
        self._maintain()

    def _tell_ended(self, member: Member) -> None:
        """Send the event of a job for which a process was ended: that process can't."""
        dispatcher = getattr(self.app.processes.consumer, "event_dispatcher", None)
        task_id = member.slot.task_id
        if dispatcher is None or member.slot.together or not task_id:
            return
        if member.cause == "time limit":
            dispatcher.send("task-failed", uuid=task_id, exception="TimeLimitExceeded", traceback="")
        elif member.cause == "revoked":
            dispatcher.send("task-revoked", uuid=task_id, terminated=True, signum="SIGKILL", expired=False)

    @property
    def _hard_seconds(self) -> float:
        """Longest time that a job may run: by the command line, or the settings.

        Not by Celery's own settings: it would write them into the messages that it sends, which are refused for that.
        """
        return float(self.options.get("timeout") or self.app.processes.settings.worker.time_limit_seconds)

    @property
    def _soft_seconds(self) -> float:
        """The time after which it is interrupted."""
        return float(self.options.get("soft_timeout") or self.app.processes.settings.worker.soft_time_limit_seconds)

    @property
    def _limits(self) -> Limits:
        """Limits of a process, by the command line and the settings."""
        most_jobs, most_memory = self.options.get("maxtasksperchild"), self.options.get("max_memory_per_child")
        return Limits(self._soft_seconds, most_jobs or 0, most_memory or 0, self.app.processes.bundle)

    # --- size ---------------------------------------------------------------------------------------

    def grow(self, n: int = 1) -> None:
        """Add processes."""
        self.limit += n
        self._maintain()

    def shrink(self, n: int = 1) -> None:
        """Let idle processes leave, or those that are busy once they have ended what they run."""
        self.limit -= n
        stays = [member for member in self.members.values() if not member.slot.is_leaving]
        for member in sorted(stays, key=lambda member: member.slot.state != State.IDLE)[:n]:
            member.leave()

    @property
    def busy(self) -> int:
        """Number of processes that run a job."""
        return sum(member.slot.state in (State.RUNNING, State.STORING) for member in self.members.values())

    @property
    def jobs_running(self) -> int:
        """Number of jobs that run."""
        return sum(job.is_running for _, job in self.running())

    @property
    def jobs_ended(self) -> int:
        """Number of jobs that have ended."""
        return self._ended + sum(member.slot.ended for member in self.members.values())

    @property
    def waiting(self) -> int:
        """Number of jobs that wait."""
        return self._keeper.waiting

    @property
    def is_ready(self) -> bool:
        """True if a process can run jobs."""
        members = [*self.members.values()]
        return any(member.slot.state != State.STARTING and not member.has_ended for member in members)

    # --- main loop ----------------------------------------------------------------------------------

    def register_with_event_loop(self, loop: Any) -> None:
        """Watch the processes."""
        self._hub = loop
        for number, member in self.members.items():
            loop.add_reader(member.pipe, self._on_exit, number)
        loop.call_repeatedly(_LOOK_SECONDS, self._look)
        loop.call_repeatedly(_SCALE_SECONDS, self._scale)

    def _scale(self) -> None:
        """Let the autoscaler decide, if there is one: jobs come and go without the main process."""
        scaler = getattr(self.app.processes.consumer.controller, "autoscaler", None)
        if scaler is not None:
            scaler.maybe_scale()

    def _look(self) -> None:
        """Look after the processes; count for Celery, and say whether events are sent."""
        self._looked_at = time.monotonic()
        self._maintain()
        while self._keeper.waits:
            queue, wait = self._keeper.waits.popleft()
            self.app.processes.metrics.waited(queue, wait.seconds, wait.messages)
        consumer = self.app.processes.consumer
        self.table.head.sends_events = consumer is not None and _sends_events(consumer.event_dispatcher)
        worker_state.total_count["jobs"] = ended = self.jobs_ended
        # Celery's other users of these expect requests, which this process has none of.
        heartbeat.active_requests, heartbeat.all_total_count = range(self.jobs_running), [ended]

    def _keep_limits(self) -> None:
        """End processes whose job runs too long, that are stuck at their start, or that were stopped."""
        current_time, hard = time.monotonic(), self._hard_seconds
        for member in [*self.members.values()]:
            slot, place = member.slot, self._places[member.number]
            if member.is_killed:
                continue
            if self._keeper.stuck.get(member.number) == slot.signs:
                log.error("process gives no sign of life: killed", pid=member.pid)
                member.end("stopped")
                continue
            if slot.state == State.STARTING:
                self._watch_start(member, place, current_time)
                continue
            place.ready_at = place.ready_at or current_time
            if slot.state == State.RUNNING and current_time - slot.since > hard:
                task_id = slot.task_id
                log.error("hard time limit: the process was killed", task_id=task_id, seconds=hard)
                member.end("time limit", task_id)

    @staticmethod
    def _watch_start(member: Member, place: Place, current_time: float) -> None:
        if place.is_stuck(current_time):
            log.error("process stuck at its start: killed", pid=member.pid, seconds=round(place.seconds(current_time)))
            member.end("")
        elif place.is_slow(current_time):
            log.warning("process not ready", pid=member.pid, seconds=round(place.seconds(current_time)))

    # --- jobs ---------------------------------------------------------------------------------------

    def running(self) -> Iterator[tuple[Member, RunningJob]]:
        """Yield each job that a process has, with the process."""
        for member in [*self.members.values()]:
            for job in member.slot.running:
                yield member, job

    def revoke(self, task_id: str, *, terminate: bool) -> None:
        """Let no process begin a job, and end the process that runs it."""
        self.table.head.revoke(revocation_key(task_id))
        for member, job in self.running():
            if terminate and job.task_id == task_id and job.is_running and not member.slot.together:
                log.warning("job revoked", task_id=task_id, pid=member.pid)
                member.end("revoked", task_id)

    # --- end ----------------------------------------------------------------------------------------

    def on_stop(self) -> None:
        """Let each process end what it runs, acknowledge, and exit; after SIGQUIT for a while only.

        Celery calls this also in its handlers of SIGQUIT and of a second Ctrl-C. While its loop runs, nothing is done
        there: the loop ends then, and with it the pool. On top of a stop that waits, the wait becomes shorter.
        """
        seconds = self._soft_shutdown_seconds if worker_state.should_terminate else self._hard_seconds + 1.0
        if self._is_ending:
            self._until = min(self._until, time.monotonic() + seconds)
        elif self.app.processes.consumer.blueprint.state != bootsteps.RUN:
            self._end(seconds)

    def on_terminate(self) -> None:
        """Let each process end what it runs, for a while; what they hold after that is requeued."""
        self._end(self._soft_shutdown_seconds)

    @property
    def _soft_shutdown_seconds(self) -> float:
        return float(self.app.conf.worker_soft_shutdown_timeout)

    def _end(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._is_ending, self._hub = True, None
        for member in self.members.values():
            member.leave()
        try:
            while self.members and time.monotonic() < self._until:
                for number, member in [*self.members.items()]:
                    if _has_ended(member.pipe, _LOOK_SECONDS / 10):
                        self._on_exit(number)
        finally:
            self._end_rest()

    def _end_rest(self) -> None:
        """Kill the processes that are left, and requeue what they held; at the end of the worker in any case.

        Celery's handlers of further signals raise errors wherever the worker is: none interrupts this.
        """
        if self._ended_all.is_set():
            return
        is_main = threading.current_thread() is threading.main_thread()
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in _STOPS if is_main}
        self._is_ending, self._hub = True, None
        for member in [*self.members.values()]:
            if not member.is_killed:
                member.end("stopped")
            self._on_exit(member.number)
        self._ended_all.set()
        self._keeper.stop(_SETTLE_SECONDS)
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def _get_info(self) -> dict[str, Any]:
        """Return what `inspect stats` shows."""
        return {
            **super()._get_info(),
            "max-concurrency": self.limit,
            "processes": [member.pid for member in self.members.values()],
            "max-tasks-per-child": self.options.get("maxtasksperchild") or "N/A",
            "timeouts": [self._soft_seconds, self._hard_seconds],
            "jobs": {
                "written": self.jobs_ended,
                "writes": self._claims + sum(member.slot.claims for member in self.members.values()),
                "largest bundle": self.app.processes.bundle,
            },
        }


def _end_alone(parent: int, seconds: float) -> None:
    """End this process, a hard time limit after the main one is gone: nobody else keeps the limit of its last job."""
    select.select([parent], [], [])
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def _sends_events(dispatcher: Any) -> bool:
    """Return whether Celery sends events of tasks: it sends those of workers in any case."""
    return bool(dispatcher and dispatcher.enabled and (not dispatcher.groups or "task" in dispatcher.groups))


def _has_ended(pipe: int, seconds: float) -> bool:
    """Return whether a process has ended, waiting for a moment."""
    return bool(select.select([pipe], [], [], seconds)[0])


def _leave_parents_files(kept_numbers: set[int]) -> None:
    """Let go of the main process's connections, event loop, and port of metrics.

    Their numbers stay taken, so that what this process opens is not closed by what it inherited.
    """
    null = os.open(os.devnull, os.O_RDWR)
    files = Path("/proc/self/fd") if Path("/proc/self/fd").is_dir() else Path("/dev/fd")
    for number in [int(file.name) for file in files.iterdir()]:
        if number > 2 and number not in kept_numbers | {null} and _is_link(number):  # noqa: PLR2004 -- the standard ones
            os.dup2(null, number)


def _is_link(number: int) -> bool:
    """Return whether a file is a socket, a pipe or of an event loop."""
    try:
        mode = os.fstat(number).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISCHR(mode))
