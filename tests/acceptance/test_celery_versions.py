"""Each minor version of Celery that `pyproject.toml` allows, with the oldest packages that it names for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSIONS = [
    ("celery==5.4.0", "kombu==5.4.2", "redis==5.2.1"),
    ("celery==5.5.3", "kombu==5.5.4", "redis==5.2.1"),
    ("celery==5.6.3", "kombu==5.6.2", "redis==6.4.0"),
]
FILES = [f"acceptance/test_{name}.py" for name in ("each_task", "remote_control", "recycling", "client_methods")]


@pytest.mark.parametrize("packages", VERSIONS, ids=lambda packages: packages[0])
def test_the_tests_of_the_queue_pass_with(packages: tuple[str, ...], tmp_path: Path) -> None:
    """In place of the installed ones, in the tests and in the workers that they start."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", tmp_path / "packages", *packages], check=True, timeout=300)
    path = os.pathsep.join(map(str, (tmp_path / "packages", ROOT, ROOT / "client")))
    files = [str(ROOT / "tests" / name) for name in FILES]
    # Not their warnings: older ones are deprecated by newer versions of what they import.
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:warnings", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        [*command, "--basetemp", tmp_path / "tests"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
