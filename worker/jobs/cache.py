"""Result cache: an equal query gets the same chunks, read again with current permissions.

An entry holds ids, hashes and scores: no text, nothing about the caller or the query. Its key is a digest of everything
that can change the result, the caller's claims included, so only a caller with the same permissions ever finds it. Any
client that can write to Redis could plant entries; these could only rank chunks that the caller may see anyway.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from retrieval_client.canonical import canonical_sha256
from retrieval_client.contract.base import LEGS
from retrieval_client.contract.results import HybridMetrics
from retrieval_client.errors import InternalError, SettingsError, Unavailable
from worker.adapters import logs
from worker.adapters.postgres.versions import version
from worker.jobs.stored_candidates import StoredCandidate  # noqa: TC001 -- pydantic reads the annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from worker.adapters.providers.embedder import Embedder
    from worker.adapters.redis_cache import Cache
    from worker.jobs.corpora import Corpora
    from worker.model import Candidate, Principal
    from worker.settings import Settings

REST_SECONDS = 5.0
"""Pause before Redis is used again after a failure."""

_IN_EVERY_KEY = {"search", "hybrid", "corpora", "language_model", "reranker"}
"""Settings that can change the result, besides those that a job names."""

_HybridLeg = Annotated[str, StringConstraints(pattern=f"^({'|'.join(LEGS)})$")]

log = logs.logger("worker.cache")


class _CacheObject(BaseModel):
    """Object of a cache entry: no unknown fields, no coerced types, no NaN or infinities."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _KeptMetrics(HybridMetrics, _CacheObject):
    """Figures of one corpus; not cached if the job's contextual leg failed."""

    contextual_error: None = None
    top_similarity: dict[_HybridLeg, float | None]
    mean_similarity: dict[_HybridLeg, float | None]


class _Entry(_CacheObject):
    chunks: list[StoredCandidate]
    metrics: dict[str, _KeptMetrics]


@dataclass(frozen=True, slots=True)
class CacheBounds:
    """Bounds of a valid entry; one outside them was not written by a worker.

    Attributes:
        room: corpus → most chunks of it in a result.
        legs: names of the legs that can find them.
        figures: True if each corpus has figures of its search.
    """

    room: Mapping[str, int]
    legs: Collection[str]
    figures: bool = False


@dataclass(frozen=True, slots=True)
class CachedResult:
    """Cached result.

    Attributes:
        candidates: in the cached order, with the cached scores and current rows.
        metrics: corpus → figures of the original search, if there were any.
    """

    candidates: Sequence[Candidate]
    metrics: Mapping[str, Mapping[str, Any]]


class ResultCache:
    """Cache of results.

    Args:
        cache: Redis; None: nothing is cached.
        corpora: the corpora.
        settings: the worker's settings; those that can change an answer are part of every key.
        embedder: part of every key.
        worker_version: part of every key.
        clock: for the pause after a failure of Redis; no answer depends on it.
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
        """Digest of the parts of every key; computed on first use, as most processes cache nothing."""
        settings = self._settings.model_dump(mode="json", include=_IN_EVERY_KEY)
        return canonical_sha256({"settings": settings, **self._makers})

    def slot(self, task: str, job_fields: Mapping[str, Any], caller: Principal, bounds: CacheBounds) -> Slot | None:
        """Return the slot of a job's result; call it before any search.

        Args:
            task: the job's task.
            job_fields: all fields of the job that can change the result, as plain JSON, without the caller.
            caller: the caller.
            bounds: bounds of the result.

        Returns:
            None if the result must not be cached: the settings do not enable it, changes of a corpus can't be tracked,
            or Redis failed a moment ago.

        Raises:
            Unavailable, TimedOut: see `Database.read`.
        """
        if self._store is None or task not in self._tasks or self._store.resting:
            return None
        state = self._state(caller, bounds.room)
        if state is None:
            return None
        key_fields = {
            "always": self._always,
            "task": task,
            "asked": dict(job_fields),
            "caller": caller.settings,
            "min_lsn": caller.min_lsn,
            "corpora": list(bounds.room),
            "readings": [asdict(self._corpora.get(name).statements.reading) for name in bounds.room],
            "state": state,
        }
        # Not RFC 8785's JSON: there, two different integers beyond 2^53 may be equal, and a filter distinguishes them.
        digest = hashlib.sha256(json.dumps(key_fields, sort_keys=True).encode()).hexdigest()
        return Slot(self._store, digest, self._corpora, caller, bounds)

    def _state(self, caller: Principal, names: Iterable[str]) -> str | None:
        """Return the current version of the corpora; None if it can't be determined."""
        corpora = {corpus.name: corpus.settings for corpus in map(self._corpora.get, names)}
        tables = [corpus.table for corpus in corpora.values()]
        tables += [corpus.documents.table for corpus in corpora.values() if corpus.documents is not None]
        try:
            state = version(self._corpora.database, caller, tables, corpora)
        except (SettingsError, InternalError) as error:
            log.warning("cache unused", reason=error.message)
            return None
        if state is None:
            log.warning("cache unused", reason="Postgres does not count all writes to a corpus")
        return state


class _Store:
    """Redis store that pauses after a failure, with a warning.

    Otherwise each job would wait for Redis, one after another, for the full timeout.
    """

    def __init__(self, cache: Cache, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._clock = clock
        self._rests_until: float | None = None

    @property
    def resting(self) -> bool:
        """True while it pauses after a failure."""
        return self._rests_until is not None and self._clock() < self._rests_until

    def get(self, digest: str) -> bytes | None:
        """Return the stored value; None if there is none, or Redis failed."""
        return self._unless_resting(lambda: self._cache.get(digest))

    def put(self, digest: str, value: bytes) -> None:
        """Store a value, unless Redis failed."""
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
    """Slot in the cache for one job's result.

    Args:
        store: Redis.
        digest: digest of everything that can change the result.
        corpora: the corpora.
        caller: the caller.
        bounds: bounds of the result.
    """

    def __init__(self, store: _Store, digest: str, corpora: Corpora, caller: Principal, bounds: CacheBounds) -> None:
        self._store = store
        self._digest = digest
        self._corpora = corpora
        self._caller = caller
        self._bounds = bounds

    def find(self) -> CachedResult | None:
        """Return the cached result if every chunk is unchanged and the caller may see it.

        Raises:
            Unavailable, TimedOut, SettingsError, InternalError: see `Database.read`.
        """
        value = self._store.get(self._digest)
        entry = None if value is None else self._read(value)
        if entry is None:
            return None
        candidates = self._corpora.unchanged(self._caller, entry.chunks)
        if len(candidates) < len(entry.chunks):
            return None
        return CachedResult(candidates, {name: metrics.model_dump() for name, metrics in entry.metrics.items()})

    def keep(self, candidates: Iterable[StoredCandidate], metrics: Mapping[str, Any]) -> None:
        """Cache a result, without text.

        Args:
            candidates: the candidates, in order.
            metrics: corpus → its figures, if the bounds have figures.
        """
        self._store.put(self._digest, orjson.dumps({"chunks": [*candidates], "metrics": metrics}))

    def _read(self, value: bytes) -> _Entry | None:
        """Parse an entry; return None for one that no worker writes."""
        try:
            entry = _Entry.model_validate_json(value)
        except ValidationError:
            entry = None
        if entry is None or not _fits(entry, self._bounds):
            log.warning("cache entry ignored", reason="not an entry of a worker")
            return None
        return entry


def _fits(entry: _Entry, bounds: CacheBounds) -> bool:
    """Return whether an entry is in bounds: no duplicate chunks, counts per corpus, known legs, ranks, figures."""
    places = Counter((chunk.corpus, chunk.chunk_id) for chunk in entry.chunks)
    corpora = Counter(chunk.corpus for chunk in entry.chunks)
    legs = [leg for chunk in entry.chunks for leg in chunk.scores.legs]
    return (
        len(places) == len(entry.chunks)
        and all(count <= bounds.room.get(corpus, 0) for corpus, count in corpora.items())
        and all(leg.leg in bounds.legs and leg.rank >= 1 for leg in legs)
        and entry.metrics.keys() == ({*bounds.room} if bounds.figures else set())
    )
