"""The Python of README and docs, as a reader copies it: it type-checks; README's prints what a worker answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from workbench.devstack.workers import celery_worker

from .backend_apps import PACKAGES, environment, run, wheel
from .example_pages import FILES, PAGES, README, ROOT, examples, of_the_client, write_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from workbench.devstack.stack import Stack

OF_THE_CLIENT = of_the_client()
ANSWERS = """
from retrieval_client import AsyncClient, Client, PinnedReplay, Replay, ReplayBatch, RetrieveTopK, RunName
from retrieval_client import TopK, TopKBatch
from typing_extensions import assert_type

job, batch = RetrieveTopK(query_embedding=[1.0], k=12), RetrieveTopK(query_embeddings=[[1.0]])
replay = PinnedReplay(required_chunk_hashes=["a" * 64])
runs = PinnedReplay(runs=[RunName(subject_id="song-1", run_id="r1")])

with Client("redis://localhost") as client:
    assert_type(client.call(job), TopK)
    assert_type(client.call(batch), TopKBatch)
    assert_type(client.call(replay), Replay)
    assert_type(client.call(runs), ReplayBatch)
    assert_type(client.call_many([job, job]), list[TopK])
    sent = client.enqueue(job)
    assert_type(client.result(sent), TopK)
    for outcome in client.results([sent]):
        assert_type(outcome.get(), TopK)


async def main(client: AsyncClient) -> None:
    assert_type(await client.call(job), TopK)
    assert_type(await client.call(batch), TopKBatch)
"""
STRICT = '{"typeCheckingMode": "strict"}'


def example() -> str:
    (found,) = examples(README)
    return found


def test_every_example_can_be_read() -> None:
    """Those without our client, too, which show what a backend does by itself; and there are some of both kinds."""
    found = [text for page in PAGES for text in examples(page)]
    for text in found:
        compile(text, "example", "exec")
    assert len(found) > len(OF_THE_CLIENT) > 1


@pytest.fixture
def their_files(tmp_path: Path) -> Path:
    """The folder of the examples that use the client."""
    for name, text in OF_THE_CLIENT.items():
        (tmp_path / f"{name.lower()}.py").write_text(text)
    return tmp_path


def assert_typed_for_mypy(folder: Path, python: str = sys.executable) -> None:
    """In the strictest way there is."""
    options = ["--strict", "--explicit-package-bases", "--python-executable", python, "--cache-dir", ".mypy_cache"]
    done = run([sys.executable, "-m", "mypy", *options, "."], folder)
    assert done.returncode == 0, done.stdout


def assert_typed_for_pyright(folder: Path, python: str = sys.executable, configuration: str = STRICT) -> None:
    """The same; skip the test where Pyright can't be had: it comes as a package of Node.js when it is first run."""
    if shutil.which("node") is None:
        pytest.skip("Pyright needs Node.js")
    pyright = [sys.executable, "-m", "pyright"]
    if (had := run([*pyright, "--version"], folder)).returncode:
        pytest.skip(f"Pyright can't be had: {had.stderr.strip().splitlines()[-1]}")
    (folder / "pyrightconfig.json").write_text(configuration)
    done = run([*pyright, "--pythonpath", python, "--project", str(folder)], folder)
    assert (done.returncode, done.stdout) == (0, "0 errors, 0 warnings, 0 informations\n"), done.stdout + done.stderr


def test_those_of_the_client_type_check(their_files: Path) -> None:
    """And the type checker knows which answer a job has."""
    (their_files / "answers.py").write_text(ANSWERS)
    assert_typed_for_mypy(their_files)


def test_those_of_the_client_type_check_in_pyright(their_files: Path) -> None:
    """The same."""
    (their_files / "answers.py").write_text(ANSWERS)
    assert_typed_for_pyright(their_files)


@pytest.mark.parametrize("page", FILES)
def test_those_of_the_client_type_check_beside_their_packages(page: str, tmp_path: Path) -> None:
    """Celery and Django with the types that others publish for them."""
    built = wheel(tmp_path)
    python = str(environment(built, *PACKAGES["python"][page]) / "bin" / "python")
    folder = tmp_path / "page"
    folder.mkdir()
    write_files(page, folder)
    assert_typed_for_mypy(folder, python)
    assert_typed_for_pyright(folder, python)


def test_those_of_the_client_type_check_with_the_client_itself(tmp_path: Path) -> None:
    """The package, in the way that Pyright takes by default."""
    assert_typed_for_pyright(tmp_path, configuration=json.dumps({"include": [str(ROOT / "client")]}))


def test_it_prints_what_the_worker_answers(
    stack: Stack, broker: redis.Redis, worker_environment: Callable[..., Any], worker_log: Path
) -> None:
    """A sentence of a source, and where it stands."""
    broker.flushall()
    shown = 'Client("redis://localhost:6379/0", "redis://localhost:6379/1")'
    program = example().replace(shown, f"Client(*{stack.redis.urls('producer')!r})")
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"hum.* \[S1\]$", done.stdout, flags=re.MULTILINE)
    cited = re.findall(r"^(S\d+) \S+ (?:\d+|None) .*", done.stdout, flags=re.MULTILINE)
    assert cited == sorted(set(re.findall(r"\[(S\d+)\]", done.stdout)))
