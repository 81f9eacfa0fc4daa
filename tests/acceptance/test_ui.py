"""The inspector in a real terminal: `retrieval-worker ui` with a real worker, and how it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Any

import pytest

from workbench.devstack.workers import celery_worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = "What causes the 50 Hz hum on channel 18?"
F = {1: "\x1bOP", 3: "\x1bOR", 4: "\x1bOS", 5: "\x1b[15~", 6: "\x1b[17~", 7: "\x1b[18~"}
"""What xterm sends for function keys."""


class Screen:
    """A process that has a terminal of 80 × 24.

    Args:
        process: the process.
        terminal: the terminal's other end.
    """

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self.terminal = terminal
        self.output = ""

    def type_in(self, text: str) -> None:
        """Press keys."""
        os.write(self.terminal, text.encode())

    def wait_for(self, said: str, seconds: float = 60.0) -> None:
        """Wait until something is written since the last wait; colours, and moves of the cursor, are no text."""
        deadline = time.monotonic() + seconds
        start = len(self.output)
        while said not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.output[start:]):
            assert time.monotonic() < deadline, self.output[start:]
            assert self._read(0.1), self.output[start:]

    def close(self) -> None:
        """Close the window."""
        os.close(self.terminal)
        self.terminal = -1

    def ended(self, seconds: float = 30.0) -> int:
        """Wait for its end; return the exit code."""
        deadline = time.monotonic() + seconds
        while self._read(0.1) and time.monotonic() < deadline:
            pass
        return self.process.wait(max(deadline - time.monotonic(), 1))

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        with contextlib.suppress(OSError):  # the process has ended
            if not ready:
                return True
            found = os.read(self.terminal, 65536)
            self.output += found.decode("utf-8", "replace")
            return bool(found)
        return False


@contextlib.contextmanager
def on_screen(environment: dict[str, str], *arguments: str) -> Iterator[Screen]:
    """`retrieval-worker ui` in a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "workbench", "ui", *arguments]
    environment = {**environment, "TERM": "xterm-256color", "PATH": os.environ["PATH"]}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    screen = Screen(process, ours)
    try:
        yield screen
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        with contextlib.suppress(OSError):
            screen.close()


INTERRUPTED = 130


def assert_clean(screen: Screen, code: int = 0) -> None:
    """It ended with a code; the terminal is as it was, and nothing was written after but that it was interrupted."""
    assert screen.ended() == code
    _, _, after = screen.output.rpartition("\x1b[?1049l")
    assert "\x1b[?25h" in screen.output, "the cursor is shown again"
    said = "retrieval-worker:interrupted,nothingleftrunning" if code == INTERRUPTED else ""
    assert re.sub(r"\x1b\[[0-9;?<>=]*[A-Za-z]|\s", "", after) == said
    assert "Traceback" not in screen.output


def test_a_worker_answers_a_question_of_the_terminal(broker: Any, worker_environment: Any, worker_log: Path) -> None:
    """By the queue: its stages, the answer with its sources, its trace; Ctrl+Q ends it; the terminal is as before."""
    broker.flushall()
    environment = worker_environment()
    with (
        celery_worker(environment, worker_log, "--concurrency=1"),
        on_screen(environment, "--as", "alice", "--queue") as screen,
    ):
        screen.wait_for("your question")
        screen.type_in(QUESTION + "\r")
        screen.wait_for("copied word for word")
        screen.type_in(F[3])
        screen.wait_for("[S1]")
        screen.type_in(F[4])
        screen.wait_for("stages")
        screen.type_in("\x11")
        assert_clean(screen)
    assert "run_pipeline" in worker_log.read_text()


@pytest.mark.parametrize("is_writing", [True, False])
def test_ctrl_c_ends_it(broker: Any, worker_environment: Any, is_writing: bool) -> None:
    """In the field and outside, in the middle of a question that no worker answers."""
    broker.flushall()
    with on_screen(worker_environment(), "--as", "alice", "--queue") as screen:
        screen.wait_for("your question")
        screen.type_in(QUESTION + "\r")
        screen.wait_for("waiting")
        if not is_writing:
            screen.type_in(F[3])
            screen.wait_for("no run is open")
        screen.type_in("\x03")
        assert_clean(screen, INTERRUPTED)


def test_a_signal_ends_it(worker_environment: Any) -> None:
    """SIGTERM, as a closing session sends it: the terminal is as before."""
    with on_screen(worker_environment(), "--as", "alice") as screen:
        screen.wait_for("your question")
        screen.process.send_signal(signal.SIGTERM)
        assert_clean(screen, 143)


def test_a_terminal_that_is_gone_ends_it(worker_environment: Any) -> None:
    """Also where no SIGHUP says so, because it is not the terminal of its session."""
    with on_screen(worker_environment(), "--as", "alice") as screen:
        screen.wait_for("your question")
        screen.close()
        assert screen.process.wait(30) == 129


COLOUR = re.compile(r"(?:^|;)(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;|$)")


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
def test_no_color_writes_no_colour(worker_environment: Any, variables: dict[str, str]) -> None:
    """In each pane, whatever else asks for colours; bold, underlined and reversed words stay."""
    environment = {**worker_environment(), "COLORTERM": "truecolor", **variables}
    with on_screen(environment, "--as", "alice") as screen:
        screen.wait_for("your question")
        screen.type_in(QUESTION + "\r")
        screen.wait_for("copied word for word")
        # The answer's pane is shown already, and only what changes on the screen is written.
        for key, said in ((4, "stages"), (5, "verdict"), (6, "chunk"), (7, "unchecked"), (3, "[S1]")):
            screen.type_in(F[key])
            screen.wait_for(said)
        screen.type_in(F[1])
        screen.wait_for("Focus Next")
        screen.type_in("\x03")
        assert_clean(screen, INTERRUPTED)
    styles = {*re.findall(r"\x1b\[([0-9;]*)m", screen.output)}
    assert any(re.search(r"(?:^|;)[147](?:;|$)", one) for one in styles)
    assert bool([one for one in styles if COLOUR.search(one)]) is not bool(variables), sorted(styles)


def test_a_postgres_that_is_away_at_the_start_is_a_sentence(worker_environment: Any) -> None:
    """Exit code 69, without a stack trace and without a screen."""
    away = worker_environment() | {"DATABASE_CONNECTION_STRING": "postgresql://retrieval_worker@127.0.0.1:1/x"}
    with on_screen(away, "--as", "alice") as screen:
        assert screen.ended() == 69
        assert screen.output.strip() == "retrieval-worker: Postgres is away"


def test_without_a_terminal_one_sentence_says_so(worker_environment: Any) -> None:
    """Exit code 2."""
    command = [sys.executable, "-m", "workbench", "ui", "--as", "alice"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=worker_environment())
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "ui needs a terminal" in ended.stderr
