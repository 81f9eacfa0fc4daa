"""The inspector's pages on loopback, and visitors who sign in."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import jwt
from tests.integration.asking import asker

from retrieval_client.canonical import canonical_sha256
from worker.inspector.web.app import make_app
from worker.inspector.web.server import make_server
from worker.inspector.web.visits import NamedVisitor
from worker.queue.overview import Overview
from worker.settings.serving import QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from worker.jobs.engine import Engine
    from worker.settings import Settings

KEY = "a secret of the tests, of thirty-two bytes and more"
HUM = "What causes the 50 Hz hum on channel 18?"
RUN = {"subject_id": "desk", "run_id": "r1"}
VISIT_KEY = "a key of the tests"
SIGN_IN = "/sign-in?key=a+key+of+the+tests"
ADDRESS = {"subject": "desk", "run": "r1"}


def settings_of(make_settings: Callable[..., Settings], database: str, files: Path) -> Settings:
    """Settings under which visitors sign in, and who has the role of an operator sees the queue."""
    return make_settings(
        database,
        artifacts={"url": str(files)},
        token_keys={"one": KEY},
        inspector={"operators": {"roles": ["operator"]}},
    )


def token(user: str = "alice", *, task: str = "inspect", seconds: float = 60, key: str = KEY, **claims: Any) -> str:
    """A token to sign in with."""
    bound = {"exp": time.time() + seconds, "aud": "retrieval-worker", "task": task, "jti": str(uuid.uuid4())}
    return jwt.encode({"user_id": user, "args_sha256": canonical_sha256({}), **bound, **claims}, key, "HS256")


def named(user: str = "alice") -> NamedVisitor:
    """The only visitor of a server on a loopback address."""
    return NamedVisitor(asker(user), VISIT_KEY)


@contextlib.contextmanager
def served(engine: Engine, settings: Settings, **options: Any) -> Iterator[str]:
    """The address of the pages."""
    overview = Overview(settings.broker_url.get_secret_value(), QUEUES)
    app = make_app(settings, engine, overview, **options)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = make_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@contextlib.contextmanager
def visitor(url: str, user: str = "alice", **claims: Any) -> Iterator[httpx.Client]:
    """A browser without a screen, signed in."""
    with httpx.Client(base_url=url) as client:
        response = client.post("/sign-in", data={"token": token(user, **claims)})
        assert response.status_code == 303, response.text
        yield client


def csrf(client: httpx.Client) -> str:
    """The session's token for forms, as a page has it."""
    (found, *_) = re.findall(r'name="csrf" value="([^"]+)"', client.get("/quote").text)
    return found


def without_secrets(text: str) -> str:
    """A page without the session's token."""
    return re.sub(r'name="csrf" value="[^"]+"', "", text)
