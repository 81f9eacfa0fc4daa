"""The workers: started, killed, replaced. Each leads a process group of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import psutil

from chaos.jobs import QUEUES
from workbench.devstack.processes import spawn_python

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Collection, Mapping, Sequence

STOP_SECONDS = 30.0
DUMP_SECONDS = 2.0
ORPHAN_SECONDS = 30.0
"""Seconds that pool processes may outlive a killed main process: they finish their jobs."""
LAST_FRAMES = 12
READY_BYTES = 20_000
"""Bytes of its log within which a worker reports that it is ready."""


@dataclass
class Worker:
    """A worker's main process, and the group of its pool.

    A main process is not waited for until its group has ended: as long as it is a zombie, its number stands for its
    own group and for no other.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: BinaryIO
    killed_at: float | None = None

    @property
    def is_ready(self) -> bool:
        """True if it was ever ready for jobs; before that, a warm shutdown just ends it."""
        return b" ready." in Path(self.log.name).read_bytes()[:READY_BYTES]

    @property
    def has_ended(self) -> bool:
        """True if the main process exited; does not wait for it."""
        if self.process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def signal_all(self, signal_number: signal.Signals) -> None:
        """A signal to the main process and its pool; only while the main process is not waited for."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal_number)

    def signal_main(self, signal_number: signal.Signals) -> None:
        """A signal to the main process alone."""
        self.process.send_signal(signal_number)

    def pool(self) -> list[psutil.Process]:
        """The pool's processes."""
        try:
            return list(psutil.Process(self.process.pid).children())
        except psutil.NoSuchProcess:
            return []

    def reap(self) -> int:
        """Kill what is left of the group, and wait for the main process; return its exit code."""
        self.signal_all(signal.SIGKILL)
        code = self.process.wait()
        self.log.close()
        return code


class Fleet:
    """A number of workers, each replaced when it ends.

    Args:
        environment: of each worker.
        folder: for their logs.
        size: how many there are.
        concurrency: processes of each.
        options: more of ``celery worker``.
        app: the module of the Celery app.
        variables: more of the environment, by place, in turns.
        checkouts: folders of the project that they run from, by place, in turns.

    Attributes:
        workers: those that run, by place.
        crashes: for each worker that ended unasked, the reason from its log, else its exit code.
        unclean: exit codes of workers that were asked to stop with SIGTERM and did not end with 0.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        *,
        size: int,
        concurrency: int,
        options: Sequence[str] = (),
        app: str = "worker.app",
        variables: Sequence[Mapping[str, str]] = ({},),
        checkouts: Sequence[Path] = (Path(),),
    ) -> None:
        self.workers: list[Worker] = []
        self.crashes: list[str] = []
        self.unclean: list[int] = []
        self._environment = dict(environment)
        self._folder = folder
        self._size = size
        self.concurrency = concurrency
        self._options = options
        self._app = app
        self._variables = variables
        self._checkouts = checkouts
        self._numbers = itertools.count(1)
        self._dying: list[Worker] = []

    def __enter__(self) -> Self:
        self.workers = [self._start(place) for place in range(self._size)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in [*self.workers, *self._dying]:
            worker.reap()
        self.workers, self._dying = [], []

    def __len__(self) -> int:
        return self._size

    @property
    def logs(self) -> list[Path]:
        """The logs of all workers that there ever were."""
        return sorted(self._folder.glob("worker-*.log"))

    def _start(self, place: int) -> Worker:
        number = next(self._numbers)
        name = f"chaos-{os.getpid()}-{number}@localhost"
        command = [
            *(sys.executable, "-m", "celery", f"--workdir={self._checkouts[place % len(self._checkouts)].resolve()}"),
            *("-A", self._app, "worker", "-n", name, "-Q", QUEUES),
            *(f"--concurrency={self.concurrency}", "--without-mingle", "--without-gossip", *self._options),
        ]
        environment = {**self._environment, **self._variables[place % len(self._variables)]}
        process, log = spawn_python(command, environment, self._folder / f"worker-{number:05d}.log")
        return Worker(name, process, log)

    def kill(self, place: int, *, with_pool: bool) -> None:
        """`kill -9` of a worker, with its pool or without, and a new one in its place."""
        self._kill(place, with_pool=with_pool)
        self.workers[place] = self._start(place)

    def stop_then_kill(self, place: int, grace: float) -> None:
        """SIGTERM to the main process and, after a grace, `kill -9` of all: what `docker stop` and Kubernetes do."""
        worker = self.workers[place]
        worker.signal_main(signal.SIGTERM)
        _ended_within(worker, grace)
        self._kill(place, with_pool=True)
        self.workers[place] = self._start(place)

    def _kill(self, place: int, *, with_pool: bool) -> None:
        worker = self.workers[place]
        if with_pool:
            worker.signal_all(signal.SIGKILL)
        else:
            worker.signal_main(signal.SIGKILL)
        worker.killed_at = time.monotonic()
        self._dying.append(worker)

    def kill_child(self, place: int, which: int) -> None:
        """`kill -9` of one process of a worker's pool; the worker itself replaces it."""
        pool = self.workers[place].pool()
        if pool:
            with contextlib.suppress(psutil.NoSuchProcess):
                pool[which % len(pool)].kill()

    def kill_pool_process(self, pids: set[int]) -> None:
        """`kill -9` of one of these processes, if it is one of a pool."""
        for process in (process for worker in self.workers for process in worker.pool()):
            if process.pid in pids:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
                return

    def wait_for_pool(self, place: int, seconds: float, without: Collection[int] = ()) -> bool:
        """Wait until a worker's pool is complete, and none of these processes is in it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pids = {process.pid for process in self.workers[place].pool()}
            if len(pids) >= self.concurrency and pids.isdisjoint(without):
                return True
            time.sleep(0.02)
        return False

    def shut_down(self, place: int) -> None:
        """Shut a worker down warmly by SIGTERM, so that it finishes its jobs, and start a new one in its place."""
        worker = self.workers[place]
        worker.signal_main(signal.SIGTERM)
        self._wait_or_kill(worker)
        self.workers[place] = self._start(place)

    def _wait_or_kill(self, worker: Worker) -> None:
        """Wait for a worker that was asked to stop with SIGTERM."""
        ended = _ended_within(worker, STOP_SECONDS)
        if not ended:
            worker.signal_main(signal.SIGABRT)  # with PYTHONFAULTHANDLER its log says what it waited for
            _ended_within(worker, DUMP_SECONDS)
        ready = worker.is_ready
        code = worker.reap()
        if code and (ready or not ended):
            self.unclean.append(code)

    def freeze(self, place: int, on: bool) -> None:
        """SIGSTOP, or SIGCONT, of a worker and its pool."""
        self.workers[place].signal_all(signal.SIGSTOP if on else signal.SIGCONT)

    def replace_ended(self) -> None:
        """Replace workers that ended by themselves, and kill orphans whose time is up."""
        for place, worker in enumerate(self.workers):
            if worker.has_ended:
                code = worker.reap()
                self.crashes.append(_last_words(Path(worker.log.name)) or f"exit code {code}")
                self.workers[place] = self._start(place)
        current_time = time.monotonic()
        for worker in [*self._dying]:
            if worker.killed_at is not None and current_time - worker.killed_at > ORPHAN_SECONDS:
                worker.reap()
                self._dying.remove(worker)

    def stop(self) -> None:
        """Stop all workers, with SIGTERM at first; none is replaced."""
        for worker in self.workers:
            worker.signal_main(signal.SIGTERM)
        for worker in self.workers:
            self._wait_or_kill(worker)
        self.workers = []
        self.__exit__()


def _last_words(log: Path) -> str:
    """The error that ended a worker, and where it came from; empty if its log says nothing of the kind."""
    error_lines = [line for line in log.read_bytes().splitlines() if b'"Unrecoverable error' in line]
    if not error_lines:
        return ""
    record = json.loads(error_lines[-1])
    return f"{record['exception']} in {', '.join(record['where'][-LAST_FRAMES:])}"


def _ended_within(worker: Worker, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not worker.has_ended:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
