"""Stored candidates: place, text hash and scores of a chunk without its text, in the cache, packages and records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from retrieval_client.contract.base import ChunkHash  # noqa: TC001 -- pydantic reads the annotations
from worker.core.pins.pinning import raw_hash
from worker.model import LegScore, ScoreBreakdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.postgres.runs import RecordedPin
    from worker.model import Candidate


@dataclass(frozen=True, slots=True)
class StoredCandidate:
    """Candidate of an earlier answer; ``dataclasses.asdict`` gives its stored form.

    The bounds of its fields hold for entries of the cache, which pydantic validates.

    Attributes:
        corpus: its corpus.
        chunk_id: its id there.
        raw_hash: hash of its text's own bytes.
        similarity: as of the candidate.
        scores: as of the candidate.
    """

    corpus: str
    chunk_id: Annotated[str, StringConstraints(max_length=512)]
    raw_hash: ChunkHash
    similarity: Annotated[float, Field(ge=-1.000001, le=1.000001)] | None
    scores: ScoreBreakdown

    @classmethod
    def of(cls, candidate: Candidate) -> StoredCandidate:
        """Return the stored form of a candidate."""
        chunk = candidate.chunk
        return cls(candidate.corpus, chunk.id, raw_hash(chunk.text), candidate.similarity, candidate.scores)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> StoredCandidate:
        """Return a candidate that was stored as plain JSON by this worker."""
        return cls(**{**plain, "scores": scores_of(plain["scores"])})


def of_record(pins: Sequence[RecordedPin], scores: Sequence[Mapping[str, Any]] | None = None) -> list[StoredCandidate]:
    """Return the candidates of a recorded answer: its pins, with the scores that its header has, if any."""
    breakdowns = [ScoreBreakdown()] * len(pins) if scores is None else map(scores_of, scores)
    return [
        StoredCandidate(pin.pin.corpus or "", pin.pin.chunk_id or "", pin.pin.raw_hash or "", pin.score, breakdown)
        for pin, breakdown in zip(pins, breakdowns, strict=True)
    ]


def scores_of(plain: Mapping[str, Any]) -> ScoreBreakdown:
    """Return scores that were stored as plain JSON."""
    return ScoreBreakdown(**{**plain, "legs": tuple(LegScore(**leg) for leg in plain["legs"])})
