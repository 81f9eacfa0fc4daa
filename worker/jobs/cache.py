"""Repeated queries: who asks the same again gets the same chunks, read anew with the rights of now.

An entry holds ids, hashes and scores: no text, and nothing of who asked or for what. Its key is a digest of everything
that can change what is found, who asks among it, so it is only ever found by a caller who is equal to the database.
Whoever can write to Redis could plant entries; all that they could do is to rank chunks that the caller may see anyway.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from worker.adapters import logs
from worker.adapters.postgres.versions import version
from worker.contract import ChunkHash, HybridMetrics
from worker.core.pins.canonical import canonical_sha256
from worker.errors import InternalError, SettingsError, Unavailable
from worker.jobs.corpora import ChunkRef
from worker.model import LEGS, Candidate, LegScore, ScoreBreakdown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from worker.adapters.postgres.runs import RecordedPin
    from worker.adapters.providers.embedder import Embedder
    from worker.adapters.redis_cache import Cache
    from worker.jobs.corpora import Corpora
    from worker.model import Principal
    from worker.settings import Settings

REST_SECONDS = 5.0
"""How long a Redis that failed is left alone."""

_IN_EVERY_KEY = {"search", "hybrid", "corpora", "language_model", "reranker"}
"""Settings that can change what is found, besides what a job names of them."""

_HybridLeg = Annotated[str, StringConstraints(pattern=f"^({'|'.join(LEGS)})$")]

log = logs.logger("worker.cache")


class _Kept(BaseModel):
    """An object of an entry: no unknown fields, no coerced types, nothing but numbers where numbers belong."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _KeptLeg(_Kept):
    leg: Annotated[str, StringConstraints(max_length=64)]
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
    top_similarity: dict[_HybridLeg, float | None]
    mean_similarity: dict[_HybridLeg, float | None]


class _Entry(_Kept):
    chunks: list[_KeptChunk]
    metrics: dict[str, _KeptMetrics]


@dataclass(frozen=True, slots=True)
class CacheBounds:
    """What an entry may hold: anything else was put there by somebody else.

    Attributes:
        room: corpus → the most chunks of it that can be found.
        legs: the names of the legs that can find them.
        figures: whether each corpus has figures of its search.
    """

    room: Mapping[str, int]
    legs: Collection[str]
    figures: bool = False


@dataclass(frozen=True, slots=True)
class CachedResult:
    """What was found, and kept.

    Attributes:
        candidates: in its order, with its scores, and the rows of now.
        metrics: corpus → the figures of the search that was made, if there were any.
    """

    candidates: Sequence[Candidate]
    metrics: Mapping[str, Mapping[str, Any]]


class ResultCache:
    """Knows which answers are kept, and where.

    Args:
        cache: Redis; None: nothing is kept.
        corpora: what is searched.
        settings: the worker's settings; those that can change an answer are in every key.
        embedder: likewise.
        worker_version: likewise.
        clock: for the pause after Redis failed; no answer depends on it.
    """

    def __init__(
        self,
        cache: Cache | None,
        corpora: Corpora,
        settings: Settings,
        embedder: Embedder,
        worker_version: str,
        clock: Callable[[], float],
    ) -> None:
        self._store = None if cache is None else _Store(cache, clock)
        self._corpora = corpora
        self._tasks = frozenset(settings.cache.tasks)
        self._settings = settings
        self._makers = {"embedder": [embedder.name, embedder.version], "worker": worker_version}

    @cached_property
    def _always(self) -> str:
        """Of all that is in every key; made when it is first asked for, as most processes keep nothing."""
        settings = self._settings.model_dump(mode="json", include=_IN_EVERY_KEY)
        return canonical_sha256({"settings": settings, **self._makers})

    def slot(self, task: str, asked: Mapping[str, Any], asker: Principal, bounds: CacheBounds) -> Slot | None:
        """Where what a job finds is kept; to be asked before anything is searched.

        Args:
            task: its task.
            asked: everything of the job that can change what is found, as plain JSON, but who asks.
            asker: who asks.
            bounds: what can be found.

        Returns:
            None where it is neither kept nor looked for: the settings do not say so, a corpus changes unnoticed, or
            Redis failed a moment ago.

        Raises:
            Unavailable, TimedOut: see `Database.read`.
        """
        if self._store is None or task not in self._tasks or self._store.resting:
            return None
        state = self._state(asker, bounds.room)
        if state is None:
            return None
        told = {
            "always": self._always,
            "task": task,
            "asked": dict(asked),
            "asker": asker.settings,
            "corpora": list(bounds.room),
            "state": state,
        }
        # Not RFC 8785's JSON: to that, two integers beyond 2^53 may be one, and a filter tells them apart.
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
        return Slot(self._store, digest, self._corpora, asker, bounds)

    def _state(self, asker: Principal, names: Iterable[str]) -> str | None:
        """The version that the corpora are in; None where there is no telling."""
        corpora = {corpus.name: corpus.settings for corpus in map(self._corpora.get, names)}
        tables = [corpus.table for corpus in corpora.values()]
        tables += [corpus.documents.table for corpus in corpora.values() if corpus.documents is not None]
        try:
            state = version(self._corpora.database, asker, tables, corpora)
        except (SettingsError, InternalError) as error:
            log.warning("cache unused", reason=error.message)
            return None
        if state is None:
            log.warning("cache unused", reason="Postgres does not count all that is written to a corpus")
        return state


class _Store:
    """Redis, which may fail: then it is warned of, and left alone for a while.

    Jobs would else wait for it one after another, each for as long as the settings let one.
    """

    def __init__(self, cache: Cache, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._clock = clock
        self._rests_until: float | None = None

    @property
    def resting(self) -> bool:
        """Whether it failed a moment ago."""
        return self._rests_until is not None and self._clock() < self._rests_until

    def get(self, digest: str) -> bytes | None:
        """What is kept; None where there is nothing, or no telling."""
        return self._unless_resting(lambda: self._cache.get(digest))

    def put(self, digest: str, value: bytes) -> None:
        """Keep it, if that can be."""
        self._unless_resting(lambda: self._cache.put(digest, value))

    def _unless_resting(self, act: Callable[[], bytes | None]) -> bytes | None:
        if self.resting:
            return None
        try:
            return act()
        except Unavailable as error:
            self._rests_until = self._clock() + REST_SECONDS
            log.warning("cache unused", reason=error.message)
            return None


class Slot:
    """Where what one job finds is kept.

    Args:
        store: Redis.
        digest: of all that can change what is found.
        corpora: what is searched.
        asker: who asks.
        bounds: what can be found.
    """

    def __init__(self, store: _Store, digest: str, corpora: Corpora, asker: Principal, bounds: CacheBounds) -> None:
        self._store = store
        self._digest = digest
        self._corpora = corpora
        self._asker = asker
        self._bounds = bounds

    def find(self) -> CachedResult | None:
        """What is kept, if every chunk of it still says the same and may be seen.

        Raises:
            Unavailable, TimedOut, SettingsError, InternalError: see `Database.read`.
        """
        value = self._store.get(self._digest)
        entry = None if value is None else self._read(value)
        if entry is None:
            return None
        chunks = self._corpora.unchanged(
            self._asker, [ChunkRef(kept.corpus, kept.chunk_id, kept.raw_hash) for kept in entry.chunks]
        )
        candidates = [
            Candidate(chunk, kept.similarity, _scores(kept.scores), kept.corpus)
            for kept, chunk in zip(entry.chunks, chunks, strict=True)
            if chunk is not None
        ]
        if len(candidates) < len(chunks):
            return None
        return CachedResult(candidates, {name: metrics.model_dump() for name, metrics in entry.metrics.items()})

    def keep(
        self, pins: Sequence[RecordedPin], scores: Sequence[Mapping[str, Any]], metrics: Mapping[str, Any]
    ) -> None:
        """Keep what was found: of what a record would hold, that which is no text.

        Args:
            pins: the chunks.
            scores: the breakdown of each.
            metrics: corpus → its figures, where the bounds have any.
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
        self._store.put(self._digest, orjson.dumps({"chunks": chunks, "metrics": metrics}))

    def _read(self, value: bytes) -> _Entry | None:
        """An entry as this worker writes them; anything else was put there by somebody else."""
        try:
            entry = _Entry.model_validate(orjson.loads(value))
        except (orjson.JSONDecodeError, ValidationError):
            entry = None
        if entry is None or not _fits(entry, self._bounds):
            log.warning("cache entry ignored", reason="no worker writes such a one")
            return None
        return entry


def _fits(entry: _Entry, bounds: CacheBounds) -> bool:
    """Each chunk once, of each corpus no more than there can be, by legs that there are, and figures of each."""
    places = Counter((kept.corpus, kept.chunk_id) for kept in entry.chunks)
    corpora = Counter(kept.corpus for kept in entry.chunks)
    legs = {leg.leg for kept in entry.chunks for leg in kept.scores.legs}
    return (
        len(places) == len(entry.chunks)
        and all(count <= bounds.room.get(corpus, 0) for corpus, count in corpora.items())
        and legs <= {*bounds.legs}
        and entry.metrics.keys() == ({*bounds.room} if bounds.figures else set())
    )


def _scores(kept: _KeptScores) -> ScoreBreakdown:
    legs = tuple(LegScore(leg.leg, leg.score, leg.rank) for leg in kept.legs)
    return ScoreBreakdown(legs, kept.fused, kept.rerank, kept.temporal)
