"""The embedders that filled the corpora, compared with the one that embeds the queries."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from retrieval_client.errors import RetrievalError, SettingsError, Unavailable
from worker.adapters import logs
from worker.adapters.postgres.embedders import (
    difference,
    foreign,
    identity,
    is_named,
    recorded_embedders,
    sample_for,
)
from worker.core.prompting.costs import unbilled
from worker.core.text.fingerprint import ENOUGH, agree, unrelated

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from worker.adapters.postgres.database import Database
    from worker.adapters.postgres.embedders import StoredSample
    from worker.adapters.providers.embedder import Embedder
    from worker.core.prompting.costs import Paid
    from worker.core.text.fingerprint import EmbedderIdentity
    from worker.model import Principal
    from worker.settings import Settings

START_SECONDS = 5.0
"""Longest wait for a server of embeddings when a process starts."""

RECORDS_SECONDS = 10.0
"""Age from which the records are read again, by the next job that embeds a text."""

SAMPLE_SECONDS = 60.0
"""Age from which a sample that did not agree, or told nothing, is taken again."""

MOST_CALLERS = 1000
"""Callers of a corpus without a record whose verdicts are remembered; the one who asked longest ago is forgotten."""

log = logs.logger("worker.embedder")


class _Verdict(NamedTuple):
    """Result of comparing a sample: why text queries are refused, None if they are not; and when it is taken again."""

    reason: str | None
    until: float


class CorpusEmbedders:
    """Comparison of the embedder with those that filled the corpora, once for each record.

    Compared when a process starts; with a server that is away then, when a job first embeds a text. A corpus without a
    record is compared for each caller by a sample of the rows that it may see: rows of one decide nothing for another.

    Args:
        embedder: the embedder of the queries.
        records: reads, by corpus, the embedder that filled it.
        sample: reads stored rows of a corpus that a caller may see, within seconds.
        trusted: corpora that are not compared.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        embedder: Embedder,
        records: Callable[[], Mapping[str, EmbedderIdentity]],
        sample: Callable[[str, Principal, float], StoredSample],
        trusted: Container[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder = embedder
        self._records = records
        self._sample = sample
        self._trusted = trusted
        self._clock = clock
        self._lock = threading.Lock()
        self._identities: dict[int, EmbedderIdentity] = {}
        self._reasons: dict[str, str | None] = {}
        self._verdicts: OrderedDict[tuple[str, tuple[tuple[str, str], ...]], _Verdict] = OrderedDict()
        self._recorded, self._read_at = records(), clock()
        with contextlib.suppress(RetrievalError):  # a server that is away now: the first job that embeds compares
            for corpus in self._recorded:
                if corpus not in trusted:
                    self._compare(corpus, unbilled, START_SECONDS)

    def check(self, corpora: Iterable[str], caller: Principal, paid: Paid, seconds: float) -> None:
        """Check that texts may be compared with these corpora.

        ``paid`` is called with the usage of a comparison, ``seconds`` limits it.

        Raises:
            SettingsError: another embedder filled one: a distance to its vectors means nothing. The message has both.
            Unavailable: the embedder, or a sample, can't be compared now.
        """
        with self._lock:
            self._renew()
            for corpus in corpora:
                if corpus in self._trusted:
                    continue
                if corpus not in self._recorded:
                    reason = self._of_caller(corpus, caller, paid, seconds)
                else:
                    reason = self._of_record(corpus, paid, seconds)
                if reason is not None:
                    raise SettingsError(f"the corpus {corpus}: {reason}")

    def _renew(self) -> None:
        """Read old records again, and forget what was found for those that changed."""
        current_time = self._clock()
        if current_time - self._read_at < RECORDS_SECONDS:
            return
        self._read_at = current_time
        with contextlib.suppress(RetrievalError):  # the search itself reports a database that is away
            previous_records, self._recorded = self._recorded, self._records()
            for corpus in {*previous_records, *self._recorded}:
                if not _same(previous_records.get(corpus), self._recorded.get(corpus)):
                    self._reasons.pop(corpus, None)
                    self._verdicts.clear()

    def _of_record(self, corpus: str, paid: Paid, seconds: float) -> str | None:
        """Return why the recorded embedder refuses text queries, compared once."""
        if corpus not in self._reasons:
            self._compare(corpus, paid, seconds)
        return self._reasons[corpus]

    def _compare(self, corpus: str, paid: Paid, seconds: float) -> None:
        recorded = self._recorded[corpus]
        same = is_named(self._embedder, recorded) or agree(
            self._identity(recorded.dimensions, paid, seconds).fingerprint, recorded.fingerprint
        )
        self._reasons[corpus] = None if same else difference(self._embedder, recorded)
        _warn(corpus, self._reasons[corpus])

    def _of_caller(self, corpus: str, caller: Principal, paid: Paid, seconds: float) -> str | None:
        """Return why the rows of a caller refuse its text queries, compared once while they agree."""
        key = corpus, caller.settings
        verdict = self._verdicts.get(key)
        if verdict is None or verdict.until <= self._clock():
            verdict = self._verdicts[key] = self._compare_sample(corpus, caller, paid, seconds)
            _warn(corpus, verdict.reason)
        self._verdicts.move_to_end(key)
        if len(self._verdicts) > MOST_CALLERS:
            self._verdicts.popitem(last=False)
        return verdict.reason

    def _compare_sample(self, corpus: str, caller: Principal, paid: Paid, seconds: float) -> _Verdict:
        """Compare stored rows of a caller with what the embedder makes of their texts."""
        nothing = _Verdict(None, self._clock() + SAMPLE_SECONDS)
        try:
            rows = self._sample(corpus, caller, seconds)
            if len(rows.texts) < ENOUGH:
                return nothing
            own_vectors = self._embedder.embed(rows.texts, paid, seconds, rows.vectors.shape[1])
        except Unavailable:
            raise
        except RetrievalError as error:  # the search, or the query's own embedding, reports what is wrong
            log.warning("embedder not compared", corpus=corpus, reason=error.message)
            return nothing
        if unrelated(own_vectors, rows.vectors):
            return _Verdict(foreign(self._embedder, rows.vectors), nothing.until)
        return _Verdict(None, math.inf)

    def _identity(self, dimensions: int, paid: Paid, seconds: float) -> EmbedderIdentity:
        if dimensions not in self._identities:
            self._identities[dimensions] = identity(self._embedder, dimensions, paid, seconds)
        return self._identities[dimensions]


def compared_with(embedder: Embedder, settings: Settings, database: Database) -> CorpusEmbedders:
    """Return the comparison of an embedder with those that filled the corpora of the settings."""
    trusted = {name for name, corpus in settings.corpora.items() if not corpus.compare_embedder}
    records, sample = partial(recorded_embedders, settings), partial(sample_for, database, settings)
    return CorpusEmbedders(embedder, records, sample, trusted)


def _warn(corpus: str, reason: str | None) -> None:
    if reason is not None:
        log.warning("embedder differs", corpus=corpus, reason=reason)


def _same(previous: EmbedderIdentity | None, current: EmbedderIdentity | None) -> bool:
    """Return whether two records of a corpus are equal."""
    if previous is None or current is None:
        return previous is current
    return str(previous) == str(current) and previous.fingerprint.tobytes() == current.fingerprint.tobytes()
