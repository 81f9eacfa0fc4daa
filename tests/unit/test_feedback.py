"""A proposal as a setting."""

from __future__ import annotations

import pytest

from retrieval_client.contract.base import LEGS
from worker.jobs.feedback import _setting


def legs(*weights: float) -> dict[str, float]:
    return {str(leg): weight for leg, weight in zip(LEGS, weights, strict=False)}


@pytest.mark.parametrize(
    ("weights", "seen", "proposed", "setting"),
    [
        (legs(0.6, 0.4, 0.4), 3, legs(0.5, 0.3, 0.2), legs(0.5, 0.3, 0.2)),
        (legs(0.6, 0.4, 0.4), 2, legs(0.3, 0.7), legs(0.3, 0.7, 0.4)),
        (legs(3.0, 1.0, 2.0), 2, legs(0.5, 0.5), legs(0.5, 0.5, 0.5)),
        (legs(0.0, 0.0, 1.0), 2, legs(0.5, 0.5), legs(0.5, 0.5, 1.0)),
        (legs(0.6, 0.4), 2, legs(0.2, 0.8), legs(0.2, 0.8)),
        (legs(0.6, 0.4, 0.4), 2, legs(0.6, 0.4), None),
    ],
    ids=["every leg", "one unseen", "its share is kept", "all were 0", "nothing said of it", "nothing better"],
)
def test_a_proposal_becomes_a_setting(
    weights: dict[str, float], seen: int, proposed: dict[str, float], setting: dict[str, float] | None
) -> None:
    """In the legs' order; a leg without feedback keeps its weight as a share of the sum of the others."""
    current = legs(*[*weights.values()][:seen])
    made = _setting(weights, current, dict(sorted(proposed.items())))
    assert made == setting
    assert list(made or {}) == list(setting or {})
