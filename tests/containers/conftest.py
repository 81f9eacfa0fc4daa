"""The project's image with Redis and Postgres in containers: made once, taken down with its volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .site import SERVICES, Site, unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Everything of docker-compose.yml, built, healthy, with the sample corpora."""
    if reason := unavailable():
        pytest.skip(reason)
    site = Site.make(tmp_path_factory.mktemp("site"))
    try:
        site.compose("up", "--detach", "--build", timeout=900)
        site.wait_until_healthy(*SERVICES)
        site.compose("run", "--rm", "-T", "migrate", "retrieval-worker", "load")
        yield site
    finally:
        site.compose("down", "--volumes", "--remove-orphans", "--timeout", "10")
