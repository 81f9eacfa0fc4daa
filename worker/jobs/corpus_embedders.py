"""The embedders that filled the corpora, compared with the one that embeds the queries."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from retrieval_client.errors import RetrievalError, SettingsError, Unavailable
from worker.adapters import logs
from worker.adapters.postgres.embedders import difference, foreign, identity, is_named
from worker.core.prompting.costs import unbilled
from worker.core.text.fingerprint import ENOUGH, agree, unrelated

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from worker.adapters.postgres.embedders import StoredSample
    from worker.adapters.providers.embedder import Embedder
    from worker.core.prompting.costs import Paid
    from worker.core.text.fingerprint import EmbedderIdentity
    from worker.model import Principal

START_SECONDS = 5.0
"""Longest wait for a server of embeddings when a process starts."""

RECORDS_SECONDS = 10.0
"""Age from which the records are read again, by the next job that embeds a text."""

SAMPLE_SECONDS = 60.0
"""Age from which a sample that did not agree, or could not be taken, is taken again."""

log = logs.logger("worker.embedder")


class CorpusEmbedders:
    """Comparison of the embedder with those that filled the corpora, once for each record.

    Compared when a process starts; with a server that is away then, when a job first embeds a text. A corpus without a
    record is compared by a sample of the rows that the first caller may see.

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
        self._sampled: dict[str, float] = {}
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
                    self._compare_sample(corpus, caller, paid, seconds)
                elif corpus not in self._reasons:
                    self._compare(corpus, paid, seconds)
                reason = self._reasons.get(corpus)
                if reason is not None:
                    raise SettingsError(f"the corpus {corpus}: {reason}")

    def _renew(self) -> None:
        """Read old records again, and forget what was found for those that changed."""
        now = self._clock()
        if now - self._read_at < RECORDS_SECONDS:
            return
        self._read_at = now
        with contextlib.suppress(RetrievalError):  # the search itself reports a database that is away
            before, self._recorded = self._recorded, self._records()
            for corpus in {*before, *self._recorded}:
                if not _same(before.get(corpus), self._recorded.get(corpus)):
                    self._reasons.pop(corpus, None)
                    self._sampled.pop(corpus, None)

    def _compare(self, corpus: str, paid: Paid, seconds: float) -> None:
        recorded = self._recorded[corpus]
        same = is_named(self._embedder, recorded) or agree(
            self._identity(recorded.dimensions, paid, seconds).fingerprint, recorded.fingerprint
        )
        self._decide(corpus, None if same else difference(self._embedder, recorded))

    def _compare_sample(self, corpus: str, caller: Principal, paid: Paid, seconds: float) -> None:
        """Compare stored rows with what the embedder makes of their texts, unless that was done."""
        if self._clock() < self._sampled.get(corpus, float("-inf")):
            return
        try:
            rows = self._sample(corpus, caller, seconds)
            if len(rows.texts) < ENOUGH:  # the next caller may see more
                return
            own = self._embedder.embed(rows.texts, paid, seconds, rows.vectors.shape[1])
        except Unavailable:
            raise
        except RetrievalError as error:  # no verdict: the search, or the query's own embedding, reports what is wrong
            log.warning("embedder not compared", corpus=corpus, reason=error.message)
            self._sampled[corpus] = self._clock() + SAMPLE_SECONDS
            return
        differs = unrelated(own, rows.vectors)
        self._sampled[corpus] = self._clock() + SAMPLE_SECONDS if differs else float("inf")
        self._decide(corpus, foreign(self._embedder, rows.vectors) if differs else None)

    def _decide(self, corpus: str, reason: str | None) -> None:
        self._reasons[corpus] = reason
        if reason is not None:
            log.warning("embedder differs", corpus=corpus, reason=reason)

    def _identity(self, dimensions: int, paid: Paid, seconds: float) -> EmbedderIdentity:
        if dimensions not in self._identities:
            self._identities[dimensions] = identity(self._embedder, dimensions, paid, seconds)
        return self._identities[dimensions]


def _same(one: EmbedderIdentity | None, other: EmbedderIdentity | None) -> bool:
    """Return whether two records of a corpus are equal."""
    if one is None or other is None:
        return one is other
    return str(one) == str(other) and one.fingerprint.tobytes() == other.fingerprint.tobytes()
