"""The README's Python, as a reader copies it: it type-checks, and prints what a worker answers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.cli import devstack

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

README = Path(__file__).parents[2] / "README.md"


def example() -> str:
    (found,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    return str(found)


def test_it_type_checks(tmp_path: Path) -> None:
    """In the strictest way there is."""
    file = tmp_path / "example.py"
    file.write_text(example())
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=README.parent)
    assert done.returncode == 0, done.stdout


def test_it_prints_what_the_worker_answers(
    stack: devstack.Stack, broker: redis.Redis, worker_environment: Callable[..., Any], worker_log: Path
) -> None:
    """Twelve chunks in their order."""
    broker.flushall()
    program = example().replace('Client("redis://localhost:6379/0")', f"Client(*{stack.redis.urls('producer')!r})")
    with devstack.celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ranks = re.findall(r"^(\d+) -?\d\.\d+", done.stdout, flags=re.MULTILINE)  # texts have lines of their own
    assert ranks == [str(rank) for rank in range(1, 13)]
