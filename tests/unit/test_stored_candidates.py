"""Candidates are stored without their text, and come back as they were."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import orjson
import pytest

from worker.adapters.postgres.runs import RecordedPin
from worker.core.pins.pinning import Pin, raw_hash
from worker.jobs.recording import pins_of
from worker.jobs.stored_candidates import StoredCandidate, of_record
from worker.model import Candidate, Chunk, LegScore, ScoreBreakdown

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT = "It hums  at 50 Hz."
SCORES = ScoreBreakdown((LegScore("primary", 0.5, 1), LegScore("sparse", 0.25, 3)), fused=0.75, temporal=0.5)


def found(similarity: float | None = 0.5, scores: ScoreBreakdown = SCORES) -> Candidate:
    chunk = Chunk("c1", "d1", TEXT, 3, "Faults", None, {"n": 1}, "sha256:00", 1)
    return Candidate(chunk, similarity, scores, "documents")


def test_the_stored_form_has_place_hash_and_scores_and_no_text() -> None:
    """Its fields and their order are those of every cache entry and package that was ever stored."""
    plain = orjson.loads(orjson.dumps(StoredCandidate.of(found())))
    assert list(plain) == ["corpus", "chunk_id", "raw_hash", "similarity", "scores"]
    assert list(plain["scores"]) == ["legs", "fused", "rerank", "temporal"]
    assert plain["raw_hash"] == raw_hash(TEXT)
    assert "hums" not in str(plain)


@pytest.mark.parametrize("candidate", [found(), found(None, ScoreBreakdown())])
def test_a_stored_candidate_comes_back_from_json(candidate: Candidate) -> None:
    """Scores are dataclasses again, so that answers made of them are equal."""
    stored = StoredCandidate.of(candidate)
    assert StoredCandidate.from_plain(orjson.loads(orjson.dumps(asdict(stored)))) == stored


@pytest.mark.parametrize("candidates", [[found()], [found(), found(None, ScoreBreakdown())]])
def test_a_record_gives_what_was_recorded(candidates: Sequence[Candidate]) -> None:
    """Its pins hold all but the scores, which hybrid records have in their header."""
    pins, scores = pins_of(candidates), [asdict(one.scores) for one in candidates]
    assert of_record(pins, scores) == [StoredCandidate.of(one) for one in candidates]
    assert [one.scores for one in of_record(pins)] == [ScoreBreakdown()] * len(candidates)


def test_a_pin_without_a_place_is_no_chunk_of_any_corpus() -> None:
    """As an imported record may have them."""
    assert of_record([RecordedPin(Pin("sha256:00"), 1, None)]) == [StoredCandidate("", "", "", None, ScoreBreakdown())]
