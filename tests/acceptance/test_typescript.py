"""docs/typescript.md as its reader follows it: the types are strict, and what they let through is answered."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from workbench.devstack.workers import celery_worker

from .backend_apps import PACKAGES, ROOT, node_modules, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    import redis

    from workbench.devstack.stack import Stack

PAGE = (ROOT / "docs" / "typescript.md").read_text()
(PROGRAM,) = re.findall(r"```ts\n(.*?)```", PAGE, flags=re.DOTALL)
(COMPILE,) = re.findall(r"^npx (tsc .*)$", PAGE, flags=re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of a backend, with the packages and the types."""
    (tmp_path / "node_modules").symlink_to(node_modules(*PACKAGES["node"]["typescript"]))
    (tmp_path / "package.json").write_text('{"type": "module"}\n')
    (tmp_path / "types.ts").write_text((ROOT / "docs" / "contract" / "types.ts").read_text())
    return tmp_path


def compiled(project: Path, program: str) -> CompletedProcess[str]:
    """Compile a program."""
    (project / "ask.ts").write_text(program)
    compiler, *options = shlex.split(COMPILE)
    return run([str(project / "node_modules" / ".bin" / compiler), *options], project)


def test_the_example_is_answered(
    project: Path,
    stack: Stack,
    broker: redis.Redis,
    worker_environment: Callable[..., dict[str, str]],
    worker_log: Path,
) -> None:
    """In strict mode without a word of the compiler; then ten chunks come from a worker."""
    del broker  # emptied
    done = compiled(project, PROGRAM)
    assert (done.returncode, done.stdout) == (0, "")
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        done = run(["node", "ask.js"], project, **stack.redis.environment("producer"))
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^(\d+) \S", done.stdout, flags=re.MULTILINE) == [str(rank) for rank in range(1, 11)]


@pytest.mark.parametrize(
    ("shown", "wrong", "said"),
    [
        ("k: 10", "top_k: 10", "'top_k' does not exist in type"),
        ("k: 10", 'k: "10"', "Type 'string' is not assignable to type 'number'"),
        ('"retrieve_top_k", "retrieval"', '"retrieve_top_k", "pipeline"', "not assignable to parameter of type"),
        ('"retrieve_top_k", "retrieval"', '"retrieve", "retrieval"', "not assignable to parameter of type"),
        ("chunk.document_id", "chunk.document", "Property 'document' does not exist"),
        ('if ("chunks" in answer)', "if (true)", "Property 'chunks' does not exist on type 'TopKBatch'"),
    ],
)
def test_a_mistake_does_not_compile(project: Path, shown: str, wrong: str, said: str) -> None:
    """Fields, their types, queues and tasks."""
    assert shown in PROGRAM
    done = compiled(project, PROGRAM.replace(shown, wrong))
    assert done.returncode != 0
    assert said in done.stdout
