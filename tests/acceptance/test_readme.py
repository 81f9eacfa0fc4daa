"""The Python of README and docs, as a reader copies it: it type-checks; README's prints what a worker answers."""

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


def examples(page: Path) -> list[str]:
    """The blocks of Python of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def example() -> str:
    (found,) = examples(README)
    return found


PAGES = [README, *sorted((README.parent / "docs").glob("*.md"))]
OF_THE_CLIENT = {
    f"{page.stem}-{i}": text
    for page in PAGES
    for i, text in enumerate(examples(page))
    if "worker.client" in text or "Client(" in text
}


def test_every_example_can_be_read() -> None:
    """Those without our client, too, which show what a backend does by itself; and there are some of both kinds."""
    found = [text for page in PAGES for text in examples(page)]
    for text in found:
        compile(text, "example", "exec")
    assert len(found) > len(OF_THE_CLIENT) > 1


def test_those_of_the_client_type_check(tmp_path: Path) -> None:
    """In the strictest way there is."""
    for name, text in OF_THE_CLIENT.items():
        (tmp_path / f"{name.replace('-', '_').lower()}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=README.parent)
    assert done.returncode == 0, done.stdout


def test_it_prints_what_the_worker_answers(
    stack: devstack.Stack, broker: redis.Redis, worker_environment: Callable[..., Any], worker_log: Path
) -> None:
    """Twelve chunks in their order."""
    broker.flushall()
    shown = 'Client("redis://localhost:6379/0", "redis://localhost:6379/1")'
    program = example().replace(shown, f"Client(*{stack.redis.urls('producer')!r})")
    with devstack.celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ranks = re.findall(r"^(\d+) -?\d\.\d+", done.stdout, flags=re.MULTILINE)  # texts have lines of their own
    assert ranks == [str(rank) for rank in range(1, 13)]
