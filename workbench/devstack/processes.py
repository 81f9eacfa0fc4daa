"""Child processes: started in their own session, awaited, stopped by their own pid."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from retrieval_client.errors import SettingsError
from worker.cli.signals import interruptible

if TYPE_CHECKING:
    import pwd
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

START_SECONDS = 180.0
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Program:
    """A command of this interpreter, which can be started more than once.

    Attributes:
        name: the name in messages.
        command: the program and its arguments.
        environment: all its variables; they hold passwords.
        log: the file for its output.
        ready: function that returns True once it serves.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    log: Path
    ready: Callable[[], bool]

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the program without waiting until it is ready."""
        process, file = spawn_python(self.command, self.environment, self.log)
        file.close()  # the process has its own descriptor of it
        return process


@contextlib.contextmanager
def running(program: Program) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, yield it once it is ready, stop it."""
    process = program.spawn()
    try:
        wait_until(program.ready, process, program.name, program.log)
        yield process
    finally:
        stop(process, signal.SIGTERM)


def spawn_python(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> tuple[subprocess.Popen[bytes], BinaryIO]:
    """Run a command of this interpreter; its output goes to the returned file."""
    file = log.open("ab")
    process = subprocess.Popen(  # noqa: S603 -- this interpreter, no shell
        _ending_with_parent(command, "TERM"),
        stdin=subprocess.DEVNULL,
        stdout=file,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        start_new_session=True,
    )
    return process, file


def spawn(
    command: Sequence[str],
    log: BinaryIO,
    account: pwd.struct_passwd | None,
    *,
    folder: Path | None = None,
    stdin: BinaryIO | None = None,
    descriptors: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Run a server.

    Args:
        command: the program and its arguments.
        log: the file for its output.
        account: the account that it runs as; None: this user.
        folder: where it starts; default the root folder.
        stdin: what it reads from standard input.
        descriptors: open files and folders that it inherits.
    """
    return subprocess.Popen(  # noqa: S603 -- our own binaries, no shell
        _ending_with_parent(command, "INT"),
        stdin=stdin or subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=folder or "/",
        pass_fds=descriptors,
        # Ctrl-C in a terminal goes to its whole process group: the servers stop last, and by us.
        start_new_session=True,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )


def _ending_with_parent(command: Sequence[str], signal_name: str) -> list[str]:
    """Wrap a command so that the kernel ends it with its parent (kill -9), if setpriv is installed.

    Not by `preexec_fn`: that makes Python fork with hooks, and a Ctrl-C during one of them is lost.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", signal_name, "--", *command] if setpriv else [*command]


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], name: str, log: Path) -> None:
    """Wait until a process is ready.

    Raises:
        SettingsError: it exited, or took too long; the message has the end of its log.
    """
    deadline = time.monotonic() + START_SECONDS
    with interruptible():
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            if ready():
                return
            time.sleep(0.02)
    ended = process.poll()
    problem = (
        f"did not start within {START_SECONDS:.0f} s" if ended is None else f"ended at its start (exit code {ended})"
    )
    tail = log.read_text(encoding="utf-8", errors="replace")[-800:].strip()
    raise SettingsError(f"{name} {problem}; its log ends: {tail}")


def stop(process: subprocess.Popen[bytes], stop_signal: signal.Signals) -> None:
    """Stop a process by its own pid: with the given signal, then its whole session with SIGKILL."""
    if process.poll() is not None:
        return
    process.send_signal(stop_signal)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    """Return a loopback port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a loopback port that no other program is given until the end: only one that names it can listen on it.

    On Linux a port that a socket is bound to is neither chosen for a socket bound to port 0 nor for a connection; and
    our servers set SO_REUSEADDR, as this socket does, which lets them listen. Elsewhere that would keep them from it.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = int(holder.getsockname()[1])
        if sys.platform != "linux":
            holder.close()
        yield port


def check_machine() -> None:
    """Check what servers and workers need of a machine: without it they would start, and never answer.

    Raises:
        SettingsError: 127.0.0.1 does not answer, or no semaphore can be made.
    """
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        why = f"127.0.0.1 does not answer ({error.strerror})"
        raise SettingsError(f"{why}: the loopback interface is missing or down") from None
    try:
        multiprocessing.Lock()
    except OSError as error:
        why = f"no semaphore can be made ({error.strerror})"
        raise SettingsError(f"{why}: a worker's processes need /dev/shm writable") from None


def listens(port: int) -> bool:
    """Return whether a loopback port has a listener."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
