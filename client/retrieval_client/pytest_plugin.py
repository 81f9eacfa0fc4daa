"""For pytest, which finds it by itself: the fixture `fake_retrieval`, a client that needs no worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from retrieval_client.testing import FakeClient


@pytest.fixture
def fake_retrieval() -> FakeClient:
    """A `FakeClient`, which answers every task with the example of its contract until a test says otherwise."""
    from retrieval_client.testing import FakeClient  # noqa: PLC0415 -- pytest loads this file in every run

    return FakeClient()
