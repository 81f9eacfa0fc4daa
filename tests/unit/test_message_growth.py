"""No message makes what the main process does with it slow: four times the message takes about four times as long."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.timing import seconds

from chaos.shapes import FORMS, UNITS
from retrieval_client.errors import InvalidJob
from worker.queue.broker.dead_letters import compose
from worker.queue.broker.inspection import Refusal, Rules, arguments, inspect
from worker.queue.summaries import summarise

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REFUSAL = Refusal("malformed", InvalidJob("expected a string", "body"))
RULES = Rules(tasks=("retrieve_top_k",), dead_bytes=1 << 22)


SMALL, TIMES, BOUND = 12_000, 16, 60
"""Quadratic time would be 256 times as much; what takes so little is not measured."""


def look(raw: bytes) -> None:
    """All that the main process does with a message's bytes."""
    inspect(raw, RULES, NOW)
    compose(raw, REFUSAL, RULES, NOW)
    summarise(arguments(raw))


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("form", FORMS)
def test_time_grows_with_the_message(form: str, name: str) -> None:
    """Time grows in proportion to the length, for every pattern that a message repeats."""
    unit = UNITS[name]
    small, large = (FORMS[form](unit * (size // len(unit))) for size in (SMALL, SMALL * TIMES))
    assert seconds(look, large) < BOUND * max(seconds(look, small), 0.001)
