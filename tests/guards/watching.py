"""A pytest plugin: only the copy of the project may be tested, and the outcome of each test is recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import worker

REPORT = "GUARDS_REPORT"
"""Name of the variable that names the file to write: node id → ``passed``, ``failed`` or ``not run``."""

_ASK = "import pathlib, worker; print(pathlib.Path(worker.__file__).resolve())"

_outcomes: dict[str, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Stop unless this process, and those that it starts from elsewhere, import the copy."""
    # It is the signal that ends hanging tests, and a shell that put us into the background has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    root = config.rootpath.resolve()
    child = subprocess.run([sys.executable, "-c", _ASK], check=True, capture_output=True, text=True, cwd=root.root)
    for imported in (Path(worker.__file__).resolve(), Path(child.stdout.strip())):
        if not imported.is_relative_to(root):
            raise pytest.UsageError(f"not the copy is imported, but {imported}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test fails by what it asserts: one that could not be set up shows nothing."""
    if report.when == "call":
        _outcomes[report.nodeid] = report.outcome
    else:
        _outcomes.setdefault(report.nodeid, "not run")


def pytest_sessionfinish() -> None:
    """Write the report."""
    Path(os.environ[REPORT]).write_text(json.dumps(_outcomes))
