"""The pages for Python backends as their readers follow them: every example, with a real worker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.waiting import wait_for

from workbench.devstack.processes import free_port, stop
from workbench.devstack.workers import celery_worker

from .backend_apps import PACKAGES, environment, outside, run, wheel
from .example_pages import ROOT, examples, write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from workbench.devstack.stack import Stack

KEY = "a secret that is long enough for HS256"
QUESTION = "What causes the 50 Hz hum on channel 18?"
OF_EACH_ERROR = """
import app, asyncio, json
from retrieval_client.errors import RetrievalError
told = {}
for kind in RetrievalError.__subclasses__():
    response = asyncio.run(app.failed(None, kind("a sentence")))
    told[kind.__name__] = [response.status_code, json.loads(response.body)["error"]]
print(json.dumps(told))
"""
TOLD = {
    "InvalidJob": [422, "a sentence"],
    "NotAuthorised": [403, "a sentence"],
    "Unavailable": [503, "Unavailable"],
    "TimedOut": [504, "TimedOut"],
    **{name: [500, name] for name in ("DeadLettered", "SettingsError", "InternalError")},
}


@pytest.fixture
def backend_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Returns the Python of the environment that a page asks for."""

    def make(page: str) -> str:
        home = environment(wheel(tmp_path_factory.mktemp("wheel")), *PACKAGES["python"][page])
        return str(home / "bin" / "python")

    return make


@pytest.fixture
def worker(
    broker: redis.Redis, worker_environment: Callable[..., dict[str, str]], worker_log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that knows the key of the pages."""
    del broker  # emptied
    with celery_worker(worker_environment(TOKEN_KEYS=json.dumps({"k1": KEY})), worker_log, "--concurrency=2") as made:
        yield made


def printed(python: str, program: str, folder: Path, **environment: str) -> str:
    """Run a program that ends well; return its output."""
    done = run([python, "-c", program], folder, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_passed(python: str, folder: Path, **environment: str) -> None:
    """The tests of a folder pass, and there is one."""
    done = run([python, "-m", "pytest", "-q", "--rootdir", str(folder), str(folder)], folder, **environment)
    assert re.search(r"^1 passed", done.stdout, flags=re.MULTILINE), done.stdout + done.stderr


@pytest.mark.usefixtures("worker")
def test_the_client(stack: Stack, tmp_path: Path) -> None:
    """docs/python.md: many jobs, progress, a signed one, a ledger, a test."""
    urls = stack.redis.environment("producer")
    first, signed, ledger, test = examples(ROOT / "docs" / "python.md")
    said = printed(sys.executable, first, tmp_path, **urls)
    assert re.findall(r"^(\d+) \S+ \w+$", said, flags=re.MULTILINE) == [str(rank) for rank in range(1, 16)]
    assert len(re.findall(r"^[0-9a-f-]{36} 15$", said, flags=re.MULTILINE)) == 3
    assert re.search(r"^SUCCESS None\n.*\[S1\]", said, flags=re.MULTILINE)
    assert '"rank": 1,' in printed(sys.executable, signed, tmp_path, **urls, TOKEN_KEY=KEY)
    assert re.fullmatch(r"[0-9a-f-]{36} answered\n", printed(sys.executable, ledger, tmp_path, **urls))
    (tmp_path / "test_search.py").write_text(test)
    assert_passed(sys.executable, tmp_path)


@pytest.mark.usefixtures("worker")
def test_a_celery_app(stack: Stack, backend_of: Callable[[str], str], tmp_path: Path) -> None:
    """docs/celery.md: a group, and an error."""
    urls = {"CELERY_BROKER_URL": stack.redis.url(0), "CELERY_RESULT_BACKEND": stack.redis.url(1)}
    write_files("celery", tmp_path)
    said = printed(backend_of("celery"), "import app", tmp_path, **urls)
    assert len(re.findall(r"^\d+ \S+ \w+$", said, flags=re.MULTILINE)) == 30
    assert said.endswith("query_embedding: expected exactly 768 finite numbers, got 1\n")


@contextmanager
def served(python: str, folder: Path, **environment: str) -> Iterator[httpx.Client]:
    """An app by uvicorn, once it answers; and a client of it."""
    port = free_port()
    command = [python, "-m", "uvicorn", "app:app", "--port", str(port), "--log-level", "warning"]
    process = subprocess.Popen(command, cwd=folder, env=outside() | environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:

            def answers() -> bool:
                try:
                    return client.get("/openapi.json").is_success
                except httpx.TransportError:
                    return False

            wait_for(answers)
            yield client
    finally:
        stop(process, signal.SIGTERM)


@pytest.mark.usefixtures("worker")
def test_a_fastapi_app(stack: Stack, backend_of: Callable[[str], str], tmp_path: Path) -> None:
    """docs/fastapi.md: an answer, its progress as events, a wrong job, a status for each error, a test."""
    python = backend_of("fastapi")
    write_files("fastapi", tmp_path)
    with served(python, tmp_path, **stack.redis.environment("producer")) as client:
        answer = client.get("/ask", params={"question": QUESTION}).raise_for_status().json()
        assert answer["citations"]
        streamed = client.get("/events", params={"question": QUESTION}).raise_for_status()
        wrong = client.get("/ask", params={"question": " "})
        failing = client.get("/events", params={"question": " "})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    events = events_of(streamed.text)
    assert [name for name, _ in events[-2:]] == ["progress", "answer"]
    assert events[-2][1] == {"state": "SUCCESS", "stage": None}
    assert events[-1][1]["answer"] == answer["answer"]
    assert (wrong.status_code, wrong.json()["error"][:9]) == (422, "question:")
    assert failing.status_code == 422
    assert json.loads(printed(python, OF_EACH_ERROR, tmp_path)) == TOLD
    assert_passed(python, tmp_path)


def events_of(text: str) -> list[tuple[str, Any]]:
    """Name and data of each server-sent event."""
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)
    assert "".join(f"event: {name}\ndata: {data}\n\n" for name, data in found) == text
    return [(name, json.loads(data)) for name, data in found]


WITH_A_WORKER = """
def test_search(admin_client, django_user_model):
    admin_client.force_login(django_user_model.objects.create(username="alice"))
    answer = admin_client.get("/search/", {"q": "What causes the hum on channel 18?"})
    assert [corpus for corpus, found in answer.json()["results"].items() if found["chunks"]]
    wrong = admin_client.get("/search/")
    assert wrong.status_code == 400
    assert wrong.json()["error"].startswith("query: ")
    admin_client.logout()
    assert admin_client.get("/search/").status_code == 302
"""


@pytest.mark.usefixtures("worker")
def test_a_django_project(stack: Stack, backend_of: Callable[[str], str], tmp_path: Path) -> None:
    """docs/django.md: a view for a user who is signed in, a wrong job, a test."""
    python = backend_of("django")
    urls = stack.redis.environment("producer")
    for command in (["startproject", "site_of_test", "."], ["startapp", "search"]):
        assert run([python, "-m", "django", *command], tmp_path).returncode == 0
    (tmp_path / "search" / "tests.py").unlink()
    write_files("django", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nDJANGO_SETTINGS_MODULE = site_of_test.settings\n")
    assert_passed(python, tmp_path, **urls)
    (tmp_path / "test_search.py").write_text(WITH_A_WORKER)
    assert_passed(python, tmp_path, **urls)
