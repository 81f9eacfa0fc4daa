"""The commands of README and docs/getting-started.md, typed in one after another."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from workbench.devstack.workers import celery_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_the_commands_of_the_page_do_what_it_says(
    page: str, broker: redis.Redis, worker_environment: Callable[..., Any], worker_log: Path, tmp_path: Path
) -> None:
    """All that name a caller end with exit code 0, and two callers get lists of their own."""
    broker.flushall()
    environment = {**os.environ, **worker_environment(ARTIFACTS__URL=str(tmp_path / "artifacts"))}
    typed = re.findall(r"^retrieval-worker (.* --as .*)$", (ROOT / page).read_text(), flags=re.MULTILINE)
    assert len(typed) >= 4
    shown = []
    with celery_worker(environment, worker_log, "--concurrency=1"):
        for line in typed:
            command = [sys.executable, "-m", "workbench", *shlex.split(line)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
            assert done.returncode == 0, f"{line}: {done.stderr}"
            shown.append(done.stdout)
    assert "[S1]" in shown[typed.index(next(line for line in typed if line.startswith("ask")))]
    assert (tmp_path / "citations.json").exists()
    assert "exact" in shown[-1]
    if page.startswith("docs"):
        alice, bob = (set(re.findall(r"│ ([\w-]+-\d{3}) ", text)) for text in shown[:2])
        assert alice
        assert bob
        assert alice != bob
