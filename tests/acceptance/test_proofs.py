"""The model of the queue, checked: docs/proofs.md."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / "proofs" / "check"
MODEL = CHECK.with_name("queue.pml")

pytestmark = pytest.mark.skipif(not (shutil.which("spin") and shutil.which("gcc")), reason="no spin, or no gcc")


def checked(*options: str) -> dict[str, str]:
    """Verdicts, by the names of the cases."""
    done = subprocess.run([CHECK, *options], capture_output=True, text=True, timeout=900, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_the_model_of_the_queue_loses_nothing_and_ends() -> None:
    """In each order of its steps, and with each fault at each of them."""
    found = checked()
    assert found
    assert all(finding.endswith(": holds") for finding in found.values())


def test_each_bug_of_the_model_is_found() -> None:
    """All that the model has a place for."""
    found = checked("--bugs")
    seeded = {*re.findall(r"#ifn?def (BUG_\w+)", MODEL.read_text())}
    assert {name.upper().replace("-", "_") for name in found} == seeded
