"""The embedders that filled the corpora, compared with the one that embeds the queries."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from worker.adapters import logs
from worker.adapters.postgres.embedders import difference, identity, is_named
from worker.core.prompting.costs import unbilled
from worker.core.text.fingerprint import agree
from worker.errors import RetrievalError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from worker.adapters.providers.embedder import Embedder
    from worker.core.prompting.costs import Paid
    from worker.core.text.fingerprint import EmbedderIdentity

START_SECONDS = 5.0
"""Longest wait for a server of embeddings when a process starts."""

log = logs.logger("worker.embedder")


class CorpusEmbedders:
    """Comparison of the embedder with those recorded for the corpora, once for each corpus.

    Compared when a process starts; with a server that is away then, when a job first embeds a text.

    Args:
        embedder: the embedder of the queries.
        recorded: by corpus, the embedder that filled it; a corpus without one is searched by any.
    """

    def __init__(self, embedder: Embedder, recorded: Mapping[str, EmbedderIdentity]) -> None:
        self._embedder = embedder
        self._recorded = recorded
        self._identities: dict[int, EmbedderIdentity] = {}
        self._reasons: dict[str, str | None] = {}
        with contextlib.suppress(RetrievalError):  # a server that is away now: the first job that embeds compares
            for corpus in recorded:
                self._compare(corpus, unbilled, START_SECONDS)

    def check(self, corpora: Iterable[str], paid: Paid, seconds: float) -> None:
        """Check that texts may be compared with these corpora.

        ``paid`` is called with the usage of a comparison, ``seconds`` limits it.

        Raises:
            SettingsError: another embedder filled one: a distance to its vectors means nothing. The message has both.
            Unavailable: the embedder can't be compared now.
        """
        for corpus in corpora:
            if corpus in self._recorded and corpus not in self._reasons:
                self._compare(corpus, paid, seconds)
            reason = self._reasons.get(corpus)
            if reason is not None:
                raise SettingsError(f"the corpus {corpus}: {reason}")

    def _compare(self, corpus: str, paid: Paid, seconds: float) -> None:
        recorded = self._recorded[corpus]
        same = is_named(self._embedder, recorded) or agree(
            self._identity(recorded.dimensions, paid, seconds).fingerprint, recorded.fingerprint
        )
        self._reasons[corpus] = None if same else difference(self._embedder, recorded)
        if not same:
            log.warning("embedder differs", corpus=corpus, reason=self._reasons[corpus])

    def _identity(self, dimensions: int, paid: Paid, seconds: float) -> EmbedderIdentity:
        if dimensions not in self._identities:
            self._identities[dimensions] = identity(self._embedder, dimensions, paid, seconds)
        return self._identities[dimensions]
