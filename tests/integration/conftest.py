"""What several integration tests share and takes long to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .large import Large, large_corpus

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", params=[16, 18])
def large(request: pytest.FixtureRequest) -> Iterator[Large]:
    """50,000 rows, on PostgreSQL 16 and 18."""
    with large_corpus(request.param) as filled:
        yield filled
