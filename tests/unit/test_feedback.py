"""A proposal as a setting."""

from __future__ import annotations

import tomllib

import pytest

from retrieval_client.contract.base import LEGS
from worker.cli.commands.runs import weighted_legs
from worker.jobs.feedback import Tuning, _setting
from worker.settings.searching import ProfileSettings


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


@pytest.mark.parametrize(
    ("profile", "weights"),
    [
        ({"legs": [{"kind": "dense"}, {"kind": "sparse"}, {"of": "context"}]}, [0.5, 0.2, 0.3]),
        ({"legs": [{"kind": "dense", "weight": 0.9}, {"kind": "sparse"}]}, [0.5, 0.2]),
        ({"legs": [{"kind": "dense"}, {"kind": "sparse"}], "fusion": "rrf"}, []),
        ({"legs": [{"kind": "dense"}, {"of": "hyde"}], "hyde": 1}, []),
        ({"legs": [{"kind": "dense"}]}, []),
    ],
    ids=["all legs", "in place of its own", "another fusion", "a leg without feedback", "one leg"],
)
def test_a_proposal_becomes_the_legs_of_a_profile(profile: dict[str, object], weights: list[float]) -> None:
    """Those that search as a hybrid retrieval does have its weights; what is written is read as a profile again."""
    read = ProfileSettings.model_validate(profile)
    setting = {"primary": 0.5, "contextual": 0.3, "sparse": 0.2}
    written = weighted_legs(read, Tuning("weighted", 20, 20, setting, None, setting))
    legs = tomllib.loads(f"legs = [{', '.join(written)}]")["legs"]
    again = ProfileSettings(legs=legs).legs if legs else []
    assert [leg.weight for leg in again] == weights
    assert [(leg.kind, leg.of) for leg in again] == [(leg.kind, leg.of) for leg in read.legs][: len(weights)]
