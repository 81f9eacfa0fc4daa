"""Reading of recorded runs with current permissions, without a job and without writing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieval_client.contract.jobs import RunRef
from retrieval_client.contract.run_jobs import BuildCitations, CitedRun, PinnedReplay
from retrieval_client.errors import InvalidJob
from worker.core.pins.pinning import RETURNED
from worker.jobs.context import JobContext
from worker.jobs.recording import own_records, owner_of
from worker.jobs.replay import TASK as REPLAY
from worker.jobs.run_files import CITATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from retrieval_client.contract.run_jobs import RunName
    from worker.adapters.postgres.run_list import ListedRun, RunFilter, RunList
    from worker.adapters.postgres.runs import Event, Record, Runs
    from worker.jobs.citations import CitationBuilder
    from worker.jobs.corpora import Corpora
    from worker.jobs.replay import Replay
    from worker.jobs.run_files import RunFiles
    from worker.model import Chunk, Principal

    ReadRecord = Callable[[Record, Principal], dict[str, Any]]


class RunReader:
    """Reader of recorded runs: each answer in the contract's form, made from its record with current permissions.

    Another owner's run is an unknown one.

    Args:
        runs: recorded runs.
        listed: their list.
        readers: task → makes an answer from a record; other tasks' records have none.
        replay: finds pinned chunks again.
        citing: cites runs.
        files: files of runs.
        corpora: corpora of their chunks.
    """

    def __init__(
        self,
        runs: Runs,
        listed: RunList,
        readers: Mapping[str, ReadRecord],
        replay: Replay,
        citing: CitationBuilder,
        files: RunFiles,
        corpora: Corpora,
    ) -> None:
        self._runs = runs
        self._listed = listed
        self._readers = readers
        self._replay = replay
        self._citing = citing
        self._files = files
        self._corpora = corpora

    def page(self, caller: Principal, run_filter: RunFilter, before_key: int | None, limit: int) -> list[ListedRun]:
        """Return a page of the caller's runs, newest first."""
        return self._listed.page(owner_of(caller), run_filter, before_key, limit) if caller.owner else []

    def records(self, caller: Principal, run: RunName) -> list[Record]:
        """Return the records of a run, or of its step, in the order of recording.

        Raises:
            InvalidJob: the caller has no such run.
        """
        run_records = self._runs.find(caller, run, None, run.step) if caller.owner else []
        if not run_records:
            raise InvalidJob("no such run", "run")
        return run_records

    def answer(self, record: Record, caller: Principal) -> dict[str, Any] | None:
        """Return the answer of a record with current permissions; None for a task whose record has no answer.

        Raises:
            Unavailable, TimedOut, SettingsError, InternalError: see `Database.read`.
        """
        reader = self._readers.get(record.task)
        return None if reader is None else reader(record, caller)

    def citations(self, caller: Principal, run: RunName) -> dict[str, Any] | None:
        """Return the citations of a run, checked now, as `build_citations` does; they are not stored.

        Returns:
            The answer; None for a run without chunks.

        Raises:
            InvalidJob: the caller has no such run.
        """
        if not self._has_chunks(caller, run):
            return None
        cite = CitedRun(**_fields(run))
        return self._citing.build(BuildCitations(cite=cite, store=False), JobContext(lambda: caller))

    def replay(self, caller: Principal, run: RunName) -> dict[str, Any] | None:
        """Return the replay of a run; None for a run without chunks.

        Raises:
            InvalidJob: the caller has no such run.
        """
        if not self._has_chunks(caller, run):
            return None
        return self._replay.pinned(PinnedReplay(run=RunRef(**_fields(run))), JobContext(lambda: caller))

    def is_whole(self, caller: Principal, run: RunName) -> bool:
        """Return whether the caller can read every recorded chunk of a run as it was; raises as `replay`."""
        replay = self.replay(caller, run)
        return replay is None or all(pin["verdict"] in RETURNED for pin in replay["pins"])

    def _has_chunks(self, caller: Principal, run: RunName) -> bool:
        return any(record.pins for record in own_records(self.records(caller, run), REPLAY))

    def texts(self, caller: Principal, hashes: list[str]) -> dict[str, str]:
        """Return chunk hash → current text, of chunks that the caller may see."""
        if not hashes:
            return {}
        job = PinnedReplay(required_chunk_hashes=hashes)
        answer = self._replay.pinned(job, JobContext(lambda: caller))
        return {chunk["chunk_hash"]: chunk["text"] for chunk in answer["chunks"]}

    def around(self, caller: Principal, corpus: str, chunk: tuple[str, str], each_side: int) -> list[Chunk]:
        """Return the chunks next to one, given by document and id, and itself, as far as the caller may see them."""
        known_corpus = self._corpora.find(corpus)
        return [] if known_corpus is None else known_corpus.around(self._corpora.database, caller, chunk, each_side)

    def events(self, caller: Principal, run: RunName) -> list[Event]:
        """Return the events of a run, in their order."""
        return self._runs.events(owner_of(caller), run)

    def add_event(self, caller: Principal, run: RunName, event: Event) -> None:
        """Add an event to a run of the caller's; for a run without records nothing is written."""
        self.records(caller, run)
        self._runs.add(owner_of(caller), run, events=[event])

    def stored_citations(self, caller: Principal, run: RunName) -> bytes | None:
        """Return the run's stored citations document; None without one."""
        return self._files.read(owner_of(caller).owner, run, CITATIONS)


def _fields(run: RunName) -> dict[str, Any]:
    """Return the fields of a run's name for another type of the contract, which takes no null."""
    return run.model_dump(exclude_none=True)
