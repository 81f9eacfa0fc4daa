"""`pip install retrieval-client` in a backend of one's own: small, quick, and beside the Celery that is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from workbench.devstack.workers import celery_worker

from .backend_apps import environment, run, wheel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from workbench.devstack.stack import Stack

MOST_PACKAGES, MOST_BYTES, MOST_MODULES = 8, 25_000_000, 1000
INSTALLER = {"pip", "setuptools"}

OF_ITS_TIME = {"5.4.0": ("kombu<5.5",)}
"""Celery 5.4 lets pip choose a kombu that refuses the redis-py which Celery 5.4 asks for."""

ASK = """
import sys
import worker  # the app's own module of this name
from celery import Celery, group
from retrieval_client import Client, RetrieveTopK
from retrieval_client.celery import read, signature
from retrieval_client.errors import InvalidJob

app = Celery("backend", broker=sys.argv[1], backend=sys.argv[2])
job = RetrieveTopK(query_embedding=[1.0] + [0.0] * 767, principal={"user_id": "alice"})
answers = [read(RetrieveTopK, one) for one in group(signature(job), signature(job))().get(timeout=120)]
with Client(sys.argv[3], sys.argv[4]) as client:
    assert [one.chunks for one in answers] == [client.call(job, timeout=120).chunks] * 2
try:
    signature(RetrieveTopK(query_embedding=[1.0])).delay().get(timeout=120)
except InvalidJob as error:
    print(worker.NAME, len(answers[0].chunks), error)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("wheel"))


def test_it_is_small(built: Path, tmp_path: Path) -> None:
    """At most eight packages and 25 MB, and a fake for tests is among them."""
    home = environment(built)
    python = str(home / "bin" / "python")
    listed = json.loads(run([python, "-m", "pip", "list", "--format", "json"], tmp_path).stdout)
    assert len({one["name"] for one in listed} - INSTALLER) <= MOST_PACKAGES
    site = next((home / "lib").glob("python*/site-packages"))
    ours = [path for path in site.rglob("*") if path.is_file() and path.relative_to(site).parts[0] not in INSTALLER]
    installer = ("pip-", "setuptools-", "_distutils_hack", "pkg_resources")
    bytes_of_all = sum(p.stat().st_size for p in ours if not p.relative_to(site).parts[0].startswith(installer))
    assert bytes_of_all <= MOST_BYTES
    imported = run([python, "-c", "import sys, retrieval_client.testing; print(len(sys.modules))"], tmp_path)
    assert int(imported.stdout) <= MOST_MODULES


def test_its_fixture_is_found_by_pytest(built: Path, tmp_path: Path) -> None:
    home = environment(built, "pytest")
    (tmp_path / "test_app.py").write_text(
        "from retrieval_client import RetrieveTopK\n"
        "def test_app(fake_retrieval):\n"
        "    assert fake_retrieval.call(RetrieveTopK(query_embedding=[1.0] * 768, principal={'user_id': 'a'})).chunks\n"
        "    assert len(fake_retrieval.worker.jobs) == 1\n"
    )
    done = run([str(home / "bin" / "python"), "-m", "pytest", "-q"], tmp_path)
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("version", ["5.4.0", "5.5.3", "5.6.3", "5.7.0"])
def test_it_works_beside_the_celery_of_an_app(
    built: Path,
    version: str,
    stack: Stack,
    broker: redis.Redis,
    worker_environment: Callable[..., dict[str, str]],
    worker_log: Path,
    tmp_path: Path,
) -> None:
    """Also where the app has a module `worker` of its own."""
    del broker  # emptied
    home = environment(built, f"celery[redis]=={version}", *OF_ITS_TIME.get(version, ()))
    (tmp_path / "worker.py").write_text('NAME = "mine"\n')
    (tmp_path / "ask.py").write_text(ASK)
    urls = [stack.redis.url(0), stack.redis.url(1), *stack.redis.urls("producer")]
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        done = run([str(home / "bin" / "python"), "ask.py", *urls], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mine 15 query_embedding: expected exactly 768"), done.stdout
