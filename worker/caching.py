"""Repeated queries: who asks the same again gets the same chunks, read anew with the rights of now.

An entry holds ids, hashes and scores: no text, and nothing of who asked or for what. Its key is a digest of everything
that can change the answer, who asks among it, so an entry is only ever found by a caller who is equal to the database.
Whoever can write to Redis could plant entries; all that they could do is to rank chunks that the caller may see anyway.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from worker import observe
from worker.adapters.versions import version
from worker.contract import ChunkHash, HybridMetrics
from worker.core.canonical import canonical_sha256
from worker.corpora import Known
from worker.errors import InternalError, SettingsError, Unavailable
from worker.model import Candidate, LegName, LegScore, ScoreBreakdown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from worker.adapters.cache import Cache
    from worker.adapters.embedder import Embedder
    from worker.adapters.runs import RecordedPin
    from worker.contract import Job
    from worker.corpora import Corpora
    from worker.model import Principal
    from worker.settings import Settings

_NOT_IN_THE_KEY = {"principal", "principal_token", "run"}
"""Who asks is in the key as the database is told it; where an answer is recorded does not change it."""

_KnownLeg = Annotated[str, StringConstraints(pattern=f"^({'|'.join(get_args(LegName))})$")]

log = observe.logger("worker.cache")


class _Kept(BaseModel):
    """An object of an entry: no unknown fields, no coerced types, nothing but numbers where numbers belong."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _KeptLeg(_Kept):
    leg: _KnownLeg
    score: float
    rank: Annotated[int, Field(ge=1)]


class _KeptScores(_Kept):
    legs: list[_KeptLeg]
    fused: float | None
    rerank: float | None
    temporal: float | None


class _KeptChunk(_Kept):
    corpus: str
    chunk_id: Annotated[str, StringConstraints(max_length=512)]
    raw_hash: ChunkHash
    similarity: Annotated[float, Field(ge=-1.000001, le=1.000001)] | None
    scores: _KeptScores


class _KeptMetrics(HybridMetrics, _Kept):
    """The figures of one corpus; those of a job whose contextual leg failed are not kept."""

    contextual_error: None = None
    top_similarity: dict[_KnownLeg, float | None]
    mean_similarity: dict[_KnownLeg, float | None]


class _Entry(_Kept):
    chunks: list[_KeptChunk]
    metrics: dict[str, _KeptMetrics]


@dataclass(frozen=True, slots=True)
class Remembered:
    """An answer that was kept.

    Attributes:
        candidates: in its order, with its scores, and the rows of now.
        metrics: corpus → the figures of the search that was made.
    """

    candidates: Sequence[Candidate]
    metrics: Mapping[str, Mapping[str, Any]]


class Caching:
    """Knows which answers are kept, and where.

    Args:
        cache: Redis; None: nothing is kept.
        corpora: what is searched.
        settings: the worker's settings; those that can change an answer are in every key.
        embedder: likewise.
        worker_version: likewise.
    """

    def __init__(
        self, cache: Cache | None, corpora: Corpora, settings: Settings, embedder: Embedder, worker_version: str
    ) -> None:
        self._cache = cache
        self._corpora = corpora
        self._tasks = frozenset(settings.cache.tasks)
        self._always = canonical_sha256(
            {
                "settings": settings.model_dump(mode="json", include={"search", "hybrid", "corpora"}),
                "embedder": [embedder.name, embedder.version],
                "worker": worker_version,
            }
        )

    def slot(
        self, task: str, job: Job, asker: Principal, room: Mapping[str, int], made_of: Mapping[str, Any]
    ) -> Slot | None:
        """Where the answer of a job is kept; to be asked before anything is searched.

        Args:
            task: its task.
            job: the job.
            asker: who asks.
            room: corpus → the most chunks of it that the answer can have.
            made_of: field of the job → what was made of it, and stands for it in the key, as long as nothing else of
                the field can change the answer.

        Returns:
            None where it is neither kept nor looked for: the settings do not say so, or a corpus changes unnoticed.

        Raises:
            Unavailable, TimedOut: see `Database.read`.
        """
        if self._cache is None or task not in self._tasks:
            return None
        state = self._state(asker, room)
        if state is None:
            return None
        told = {
            "always": self._always,
            "task": task,
            "job": job.model_dump(mode="json", exclude={*_NOT_IN_THE_KEY, *made_of}),
            "made_of": dict(made_of),
            "asker": asker.settings,
            "corpora": list(room),
            "state": state,
        }
        try:
            digest = canonical_sha256(told)
        except ValueError:  # a number that no double holds, in a filter
            return None
        return Slot(self._cache, digest, self._corpora, asker, room)

    def _state(self, asker: Principal, names: Iterable[str]) -> str | None:
        """The version that the corpora are in; None where there is no telling."""
        settings = [self._corpora.get(name).settings for name in names]
        documents = [corpus.documents.table for corpus in settings if corpus.documents is not None]
        try:
            state = version(self._corpora.database, asker, [*(corpus.table for corpus in settings), *documents])
        except (SettingsError, InternalError) as error:
            log.warning("cache unused", reason=error.message)
            return None
        if state is None:
            log.warning("cache unused", reason="track_counts is off, so nothing tells when a corpus changes")
        return state


class Slot:
    """Where the answer of one job is kept.

    Args:
        cache: Redis.
        digest: of all that can change the answer.
        corpora: what is searched.
        asker: who asks.
        room: corpus → the most chunks of it that the answer can have.
    """

    def __init__(self, cache: Cache, digest: str, corpora: Corpora, asker: Principal, room: Mapping[str, int]) -> None:
        self._cache = cache
        self._digest = digest
        self._corpora = corpora
        self._asker = asker
        self._room = room
        self._away = False

    def find(self) -> Remembered | None:
        """What is kept, if every chunk of it still says the same and may be seen.

        Raises:
            Unavailable, TimedOut, SettingsError, InternalError: see `Database.read`.
        """
        value = self._unless_away(lambda: self._cache.get(self._digest))
        entry = None if value is None else self._read(value)
        if entry is None:
            return None
        chunks = self._corpora.unchanged(
            self._asker, [Known(kept.corpus, kept.chunk_id, kept.raw_hash) for kept in entry.chunks]
        )
        candidates = [
            Candidate(chunk, kept.similarity, _scores(kept.scores), kept.corpus)
            for kept, chunk in zip(entry.chunks, chunks, strict=True)
            if chunk is not None
        ]
        if len(candidates) < len(chunks):
            return None
        return Remembered(candidates, {name: metrics.model_dump() for name, metrics in entry.metrics.items()})

    def keep(
        self, pins: Sequence[RecordedPin], scores: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any]
    ) -> None:
        """Keep an answer: of what a record would hold, that which is no text.

        Args:
            pins: its chunks.
            scores: the breakdown of each.
            metrics: corpus → its figures.
        """
        chunks = [
            {
                "corpus": recorded.pin.corpus,
                "chunk_id": recorded.pin.chunk_id,
                "raw_hash": recorded.pin.raw_hash,
                "similarity": recorded.score,
                "scores": breakdown,
            }
            for recorded, breakdown in zip(pins, scores, strict=True)
        ]
        value = orjson.dumps({"chunks": chunks, "metrics": metrics})
        self._unless_away(lambda: self._cache.put(self._digest, value))

    def _read(self, value: bytes) -> _Entry | None:
        """An entry as this worker writes them; anything else was put there by somebody else."""
        try:
            entry = _Entry.model_validate(orjson.loads(value))
        except (orjson.JSONDecodeError, ValidationError):
            entry = None
        if entry is None or not _fits(entry, self._room):
            log.warning("cache entry ignored", reason="no worker writes such a one")
            return None
        return entry

    def _unless_away(self, act: Callable[[], bytes | None]) -> bytes | None:
        """Redis that fails is warned of once, and left alone for the rest of the job."""
        if self._away:
            return None
        try:
            return act()
        except Unavailable as error:
            self._away = True
            log.warning("cache unused", reason=error.message)
            return None


def _fits(entry: _Entry, room: Mapping[str, int]) -> bool:
    """Each chunk once, of each corpus no more than there can be, and figures of each."""
    places = Counter((kept.corpus, kept.chunk_id) for kept in entry.chunks)
    corpora = Counter(kept.corpus for kept in entry.chunks)
    return (
        len(places) == len(entry.chunks)
        and all(count <= room.get(corpus, 0) for corpus, count in corpora.items())
        and entry.metrics.keys() == room.keys()
    )


def _scores(kept: _KeptScores) -> ScoreBreakdown:
    legs = tuple(LegScore(leg.leg, leg.score, leg.rank) for leg in kept.legs)
    return ScoreBreakdown(legs, kept.fused, kept.rerank, kept.temporal)
