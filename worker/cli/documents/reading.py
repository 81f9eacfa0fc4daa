"""The reading process, from outside: one for many files, a new one after a file that ended it."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Self

from worker.cli.documents.passages import Content, Passage, UnreadableError
from worker.cli.documents.reader import MEMORY, SECONDS
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from pathlib import Path

_LIBRARIES = ("pypdfium2", "selectolax", "markdown_it")


def check_installed() -> None:
    """Check that the libraries of the readers are installed.

    Raises:
        WrongUsage: one is not.
    """
    if any(importlib.util.find_spec(library) is None for library in _LIBRARIES):
        raise WrongUsage("to load documents needs: pip install 'retrieval-worker[documents]'")


class Reader:
    """Reads files in a process of its own; it ends with the block.

    Args:
        seconds: time for one file.
    """

    def __init__(self, seconds: int = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, path: Path) -> Content:
        """Return what a file holds.

        Raises:
            UnreadableError: it can't be read, or not within the limits.
        """
        process = self._process or self._start()
        assert process.stdin is not None  # noqa: S101 -- for the type checker: both are pipes
        assert process.stdout is not None  # noqa: S101 -- a pipe
        process.stdin.write(json.dumps(str(path)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            process.wait()
            late = self._end() == -signal.SIGALRM
            limit = f"{self._seconds} seconds" if late else f"{MEMORY >> 30} GiB of memory, or ends its reader"
            raise UnreadableError(f"it needs more than {limit}")
        answer = json.loads(line)
        if "error" in answer:
            raise UnreadableError(answer["error"])
        return Content(answer["title"], [Passage(*passage) for passage in answer["passages"]], answer["empty_pages"])

    def _start(self) -> subprocess.Popen[str]:
        # -P: no module of the folder in which the command runs is taken for one of Python's own.
        command = [sys.executable, "-P", "-m", "worker.cli.documents.reader", str(self._seconds)]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, encoding="utf-8")  # noqa: S603 -- our own module
        return self._process

    def _end(self) -> int:
        """Wait for the process, which is killed if it still reads; return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            process.kill()
        return process.returncode
