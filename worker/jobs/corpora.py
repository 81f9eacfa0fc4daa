"""Corpora of one process, and authorisation of their callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from worker.adapters.postgres.search import Corpus
from worker.core.pins.pinning import raw_hash
from worker.errors import InvalidJob, NotAuthorised
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from worker.adapters.postgres.database import Database
    from worker.adapters.postgres.runs import RecordedPin
    from worker.jobs.context import JobContext
    from worker.model import Chunk
    from worker.settings import Settings


class ChunkRef(NamedTuple):
    """Reference to a chunk of an earlier answer: its place, and the hash of its text's own bytes."""

    corpus: str
    chunk_id: str
    raw_hash: str


def chunk_ref(recorded: RecordedPin) -> ChunkRef:
    """Return the reference of a recorded chunk."""
    pin = recorded.pin
    return ChunkRef(pin.corpus or "", pin.chunk_id or "", pin.raw_hash or "")


def nobody(settings: Settings) -> Principal:
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
        self._nobody = nobody(settings)
        self._corpora = {
            name: Corpus(name, corpus, settings.search, database.types[name], settings.calibration.get(name))
            for name, corpus in settings.corpora.items()
        }

    def get(self, name: str | None, path: str = "corpus") -> Corpus:
        """Return a corpus by its name; the default corpus if ``name`` is None.

        Raises:
            InvalidJob: the settings name no such corpus.
        """
        wanted = self._default if name is None else name
        if wanted not in self._corpora:
            raise InvalidJob(f"expected one of {', '.join(self._corpora)}", path)
        return self._corpora[wanted]

    def find(self, name: str | None) -> Corpus | None:
        """Return a corpus as `get` does, or None for a name that the settings do not have."""
        return self._corpora.get(self._default if name is None else name)

    def all(self) -> Iterable[Corpus]:
        """Return every corpus, in the order of the settings."""
        return self._corpora.values()

    def asker(self, corpus: Corpus, context: JobContext) -> Principal:
        """Return the principal for a query of a corpus; anonymous only if the corpus is public.

        Raises:
            NotAuthorised: the corpus is not public, and the caller is not known; or the job's token is forged.
        """
        try:
            asker = context.caller
        except NotAuthorised as error:
            if error.forged or not corpus.settings.public:
                raise
            asker = None
        if asker is None and not corpus.settings.public:
            raise NotAuthorised(
                f"the corpus {corpus.name} is not public: send a principal_token, "
                "or a principal where the worker trusts its queue"
            )
        return asker or self._nobody

    def asker_of_all(self, corpora: Sequence[Corpus], context: JobContext) -> Principal:
        """Return the principal for a query of several corpora at once; see `asker`."""
        askers = [self.asker(corpus, context) for corpus in corpora]
        return next((asker for asker in askers if asker is not self._nobody), self._nobody)

    def unchanged(self, asker: Principal, chunks: Sequence[ChunkRef]) -> list[Chunk | None]:
        """Read chunks of earlier answers again with current permissions, in one round trip.

        Args:
            asker: the caller.
            chunks: chunks of any corpora.

        Returns:
            For each chunk its row, or None if it is gone, not visible to the caller, or has another text.

        Raises:
            InvalidJob: the settings name no such corpus.
            Unavailable, TimedOut, SettingsError, InternalError: see `Database.read`.
        """
        ids: dict[str, list[str]] = {}
        for chunk in chunks:
            ids.setdefault(chunk.corpus, []).append(chunk.chunk_id)
        corpora = [self.get(name) for name in ids]
        statements = [
            (corpus.statements.pinned, corpus.statements.pins((), of))
            for corpus, of in zip(corpora, ids.values(), strict=True)
        ]
        results = self.database.read(asker, statements, corpora=ids)
        now = {
            (corpus.name, chunk.id): chunk
            for corpus, rows in zip(corpora, results, strict=True)
            for chunk in corpus.chunks(rows)
        }
        found = [now.get((chunk.corpus, chunk.chunk_id)) for chunk in chunks]
        return [
            row if row is not None and raw_hash(row.text) == chunk.raw_hash else None
            for row, chunk in zip(found, chunks, strict=True)
        ]
