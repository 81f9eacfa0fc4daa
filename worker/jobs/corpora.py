"""Corpora of one process, and authorisation of their callers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from retrieval_client.errors import InvalidJob, NotAuthorised
from worker.adapters.postgres.search import Corpus
from worker.core.pins.pinning import raw_hash
from worker.model import Candidate, Principal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from worker.adapters.postgres.database import Database
    from worker.jobs.context import JobContext
    from worker.jobs.stored_candidates import StoredCandidate
    from worker.settings import Settings


def anonymous(settings: Settings) -> Principal:
    """Return the anonymous principal, for public corpora: every setting that a policy may read is empty."""
    return Principal(settings=tuple((name, "") for name in settings.principal.settings.values()))


class Corpora:
    """Corpora that the settings name.

    Args:
        settings: the worker's settings.
        database: this process's connections.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        self.database = database
        self._default = settings.default_corpus
        self._anonymous = anonymous(settings)
        self._corpora = {
            name: Corpus(name, corpus, settings.search, database.types[name], settings.calibration.get(name))
            for name, corpus in settings.corpora.items()
        }

    def get(self, name: str | None, path: str = "corpus") -> Corpus:
        """Return a corpus by its name; the default corpus if ``name`` is None.

        Raises:
            InvalidJob: the settings name no such corpus.
        """
        corpus_name = self._default if name is None else name
        if corpus_name not in self._corpora:
            raise InvalidJob(f"expected one of {', '.join(self._corpora)}", path)
        return self._corpora[corpus_name]

    def find(self, name: str | None) -> Corpus | None:
        """Return a corpus as `get` does, or None for a name that the settings do not have."""
        return self._corpora.get(self._default if name is None else name)

    def all(self) -> Iterable[Corpus]:
        """Return every corpus, in the order of the settings."""
        return self._corpora.values()

    @staticmethod
    def dimensions_of(corpora: Sequence[Corpus], path: str = "searches") -> int:
        """Return the number of dimensions of corpora that one query searches.

        Raises:
            InvalidJob: they differ; ``path`` is that of the list of corpora.
        """
        first_corpus = corpora[0]
        dimensions = first_corpus.settings.dimensions
        for i, corpus in enumerate(corpora):
            if (size := corpus.settings.dimensions) != dimensions:
                expected = (
                    f"expected corpora of as many dimensions as {first_corpus.name} has ({dimensions}), got {size}"
                )
                raise InvalidJob(expected, f"{path}[{i}].corpus")
        return dimensions

    def caller_of(self, corpus: Corpus, context: JobContext) -> Principal:
        """Return the principal for a query of a corpus; anonymous only if the corpus is public.

        Raises:
            NotAuthorised: the corpus is not public, and the caller is not known; or the job's token is forged.
        """
        try:
            caller = context.caller
        except NotAuthorised as error:
            if error.forged or not corpus.settings.public:
                raise
            caller = None
        if caller is None and not corpus.settings.public:
            raise NotAuthorised(
                f"the corpus {corpus.name} is not public: send a principal_token, "
                "or a principal where the worker trusts its queue"
            )
        return caller or dataclasses.replace(self._anonymous, min_lsn=context.min_lsn)

    def caller_of_all(self, corpora: Sequence[Corpus], context: JobContext) -> Principal:
        """Return the principal for a query of several corpora at once; see `caller_of`."""
        callers = [self.caller_of(corpus, context) for corpus in corpora]
        return next((caller for caller in callers if caller.claims), callers[0])

    def unchanged(self, caller: Principal, stored: Sequence[StoredCandidate]) -> list[Candidate]:
        """Read candidates of earlier answers again with current permissions, in one round trip.

        Args:
            caller: the caller.
            stored: candidates of any corpora.

        Returns:
            The candidates in their order, without those that are gone, not visible to the caller, or have another text.

        Raises:
            InvalidJob: the settings name no such corpus.
            Unavailable, TimedOut, SettingsError, InternalError: see `Database.read`.
        """
        ids: dict[str, list[str]] = {}
        for candidate in stored:
            ids.setdefault(candidate.corpus, []).append(candidate.chunk_id)
        corpora = [self.get(name) for name in ids]
        statements = [
            (corpus.statements.pinned, corpus.statements.pins((), chunk_ids))
            for corpus, chunk_ids in zip(corpora, ids.values(), strict=True)
        ]
        results = self.database.read(caller, statements, corpora=ids)
        current_chunks = {
            (corpus.name, chunk.id): chunk
            for corpus, rows in zip(corpora, results, strict=True)
            for chunk in corpus.chunks(rows)
        }
        with_chunks = [(candidate, current_chunks.get((candidate.corpus, candidate.chunk_id))) for candidate in stored]
        return [
            Candidate(chunk, candidate.similarity, candidate.scores, candidate.corpus)
            for candidate, chunk in with_chunks
            if chunk is not None and raw_hash(chunk.text) == candidate.raw_hash
        ]
