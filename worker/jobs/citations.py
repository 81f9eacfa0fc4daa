"""`build_citations`: used sources, checked with current permissions and stored as the run's artifact."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import SCHEMA_VERSION
from retrieval_client.errors import InvalidJob
from retrieval_client.hashing import HASH_VERSION, hash_chunk
from worker.core.citations.budget import STEPS_PER_JOB, SearchBudget
from worker.core.citations.cited import ANSWERING, cited_sections
from worker.core.citations.conflicts import find_conflicts
from worker.core.citations.disagreement import find_disagreements
from worker.core.citations.document import CONFLICTS, CitationRecord, create_citations_json, is_intact
from worker.core.citations.labels import classify
from worker.core.citations.quoting import Place, QuotedChunk, check_quote
from worker.core.pins.pinning import RETURNED, answered, unique
from worker.core.trace import Tracer
from worker.jobs.answer import trace
from worker.jobs.recording import own_records, owner_of
from worker.jobs.replay import TASK as REPLAY
from worker.jobs.replay import pin_of_record
from worker.jobs.run_files import CITATIONS, run_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from retrieval_client.contract.jobs import RunRef
    from retrieval_client.contract.run_jobs import BuildCitations, CitedChunk, CitedRun, Quote
    from worker.adapters.postgres.runs import Record, Runs
    from worker.core.citations.conflicts import Conflict, Side
    from worker.core.citations.quoting import QuoteFinding
    from worker.core.pins.pinning import Outcome, Pin
    from worker.jobs.answer import Summary
    from worker.jobs.context import JobContext
    from worker.jobs.corpora import Corpora
    from worker.jobs.replay import Replay
    from worker.jobs.run_files import RunFiles
    from worker.model import Chunk


class CitationBuilder:
    """Handler of `build_citations` jobs.

    Args:
        corpora: the sources.
        runs: recorded runs to cite.
        replay: finds pinned chunks again.
        files: stores the documents.
        accepted: kinds of differences that a ``normalised`` quote may have.
        clock: for the trace only; no result depends on it.
    """

    def __init__(
        self,
        corpora: Corpora,
        runs: Runs,
        replay: Replay,
        files: RunFiles,
        accepted: AbstractSet[str],
        clock: Callable[[], float],
    ) -> None:
        self._corpora = corpora
        self._runs = runs
        self._replay = replay
        self._files = files
        self._accepted = accepted
        self._clock = clock

    def build(self, job: BuildCitations, context: JobContext) -> dict[str, Any]:
        """Answer `build_citations`.

        Raises:
            InvalidJob: a record, a label or the run is wrong or unknown.
            NotAuthorised: the token is missing or invalid, for a run or for sources that aren't public.
            Unavailable: the artifact store is unavailable.
        """
        tracer = Tracer(self._clock)
        kept_under = job.run if job.store else None
        if kept_under is not None:
            run_path(kept_under)  # a wrong id fails before any other step
        with tracer.stage("records") as counts:
            records, left_out = self._records(job, context)
            counts |= {"records": len(records), "left_out": left_out}
        intact = [is_intact(record) for record in records]
        with tracer.stage("verify"):
            verification = self._verification(records, intact, context) if job.verify else []
        with tracer.stage("quotes"):
            quotes = self._quotes(job, records, intact)
        with tracer.stage("conflicts"):
            conflicts = [*find_conflicts(records, intact), *find_disagreements(records)]
            plain = [_conflict(conflict) for conflict in conflicts]
        document = create_citations_json(records)
        with tracer.stage("store"):
            artifact = self._store(kept_under, {**document, CONFLICTS: plain}, context)
        return {
            "schema_version": SCHEMA_VERSION,
            "degraded": [],
            "citations": document,
            "verification": verification,
            "quotes": quotes,
            "labels": _labels(job, records),
            "conflicts": plain,
            "artifact": artifact,
            "trace": trace(tracer),
        }

    # --- records --------------------------------------------------------------------------------

    def _records(self, job: BuildCitations, context: JobContext) -> tuple[list[CitationRecord], int]:
        """Return the cited records, and the number of cited chunks of the run that changed or are not visible."""
        if job.records is not None:
            return [_record(chunk) for chunk in job.records], 0
        assert job.cite is not None  # noqa: S101 -- for the type checker: the contract asks for one of the two
        run_records = self._recorded(job.cite, context)
        pins = unique([recorded.pin for record in run_records for recorded in record.pins])
        outcomes = self._replay.at_home(pins, context)
        cited = {_place(pin) for pin in pins} if job.cite.what == "retrieved" else {*_cited(run_records)}
        sections, recorded_sections = job.sections or {}, _cited(_unchanged(run_records, outcomes))
        cited_chunks = [(outcome, chunk) for outcome, chunk in answered(outcomes) if _place(outcome.pin) in cited]
        left_out = sum(_place(outcome.pin) in cited and outcome.verdict not in RETURNED for outcome in outcomes)
        records = [
            _cited_record(outcome, chunk, section)
            for outcome, chunk in cited_chunks
            for section in _each_once(
                sections.get(outcome.pin.chunk_hash) or recorded_sections.get(_place(outcome.pin))
            )
        ]
        return records, left_out

    def _recorded(self, cite: CitedRun, context: JobContext) -> list[Record]:
        """Return the records of the run to be cited."""
        run_records = self._runs.find(owner_of(context.caller), cite, None, cite.step)
        run_records = [record for record in own_records(run_records, REPLAY) if record.pins]
        if not run_records:
            raise InvalidJob("no such run", "cite")
        if cite.what == "retrieved":
            return run_records
        answers = [record for record in run_records if record.task == ANSWERING]
        if not answers:
            raise InvalidJob(f"expected a run with an answer of {ANSWERING}", "cite.what")
        return answers

    # --- verification ---------------------------------------------------------------------------

    def _verification(
        self, records: Sequence[CitationRecord], intact: Sequence[bool], context: JobContext
    ) -> list[dict[str, Any]]:
        """Check each citation: whether text and hash match, whether the caller may see the source, and its verdict."""
        pins = [pin_of_record(record, is_intact) for record, is_intact in zip(records, intact, strict=True)]
        outcomes = self._replay.anywhere(pins, context)
        return [
            {
                "chunk_hash": record.chunk_hash,
                "integrity": is_intact,
                "authorised": outcome.chunk is not None,
                "verdict": outcome.verdict,
                "document_id": None if outcome.chunk is None else outcome.chunk.document_id,
            }
            for record, is_intact, outcome in zip(records, intact, outcomes, strict=True)
        ]

    def _quotes(
        self, job: BuildCitations, records: Sequence[CitationRecord], intact: Sequence[bool]
    ) -> list[dict[str, Any]]:
        """Find each quote in the chunks, read once; a chunk whose text does not match its hash counts as empty."""
        if not job.quotes:
            return []
        chunks = [
            QuotedChunk.of(record.chunk_hash, record.text if is_intact else "")
            for record, is_intact in zip(records, intact, strict=True)
        ]
        budget = SearchBudget(STEPS_PER_JOB, len(job.quotes))
        return [
            _quote(quote, check_quote(quote.quote, quote.chunk_hash, chunks, budget, self._accepted))
            for quote in job.quotes
        ]

    # --- the artifact ---------------------------------------------------------------------------

    def _store(self, run: RunRef | None, document: dict[str, Any], context: JobContext) -> str | None:
        """Store the document; return its path below the store's root."""
        if run is None:
            return None
        content = json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"
        return self._files.keep(owner_of(context.caller), run, CITATIONS, content)


def _each_once(sections: Sequence[str] | None) -> list[str | None]:
    """Return the sections that use a chunk, each once; ``[None]`` if it is in none."""
    return [*dict.fromkeys(sections)] if sections else [None]


def _place(pin: Pin) -> tuple[str, str]:
    """Return the place of a recorded pin, unique for each chunk."""
    return pin.corpus or "", pin.chunk_id or ""


def _cited(records: Iterable[Record]) -> dict[tuple[str, str], list[str]]:
    """Return the chunks that recorded answers cite, with the sections that cite them."""
    sections: dict[tuple[str, str], list[str]] = {}
    for record in records:
        if record.task == ANSWERING:
            for place, names in cited_sections(record.answer).items():
                sections.setdefault(place, []).extend(names)
    return sections


def _unchanged(records: Iterable[Record], outcomes: Iterable[Outcome[Chunk]]) -> list[Record]:
    """Return the records whose answer this caller may still read: all its sources are unchanged and visible."""
    standing = {_place(outcome.pin) for outcome in outcomes if outcome.verdict in RETURNED}
    return [record for record in records if all(_place(recorded.pin) in standing for recorded in record.pins)]


def _cited_record(outcome: Outcome[Chunk], chunk: Chunk, section: str | None) -> CitationRecord:
    """Return the citation record of a run's chunk, with its current text."""
    return CitationRecord(
        chunk_hash=outcome.pin.chunk_hash,
        source_id=chunk.document_id,
        text=chunk.text,
        weight=outcome.pin.weight if outcome.pin.weight is not None else 0.0,
        section=section,
        hash_version=outcome.pin.hash_version,
        chunk_id=chunk.id,
        page=chunk.page,
        coordinates=chunk.coordinates,
    )


def _record(chunk: CitedChunk) -> CitationRecord:
    # Does what the constructor does, in a third of its time: a job may have thousands.
    return tuple.__new__(
        CitationRecord,
        (
            chunk.chunk_hash or hash_chunk(chunk.text),
            chunk.source_id,
            chunk.text,
            chunk.weight,
            chunk.section,
            HASH_VERSION,
            chunk.chunk_id,
            chunk.page,
            chunk.coordinates,
        ),
    )


def _labels(job: BuildCitations, records: Sequence[CitationRecord]) -> dict[str, Any]:
    report = classify(job.answer or "", job.labels or {}, {record.chunk_hash for record in records})
    return {
        "used": [label._asdict() for label in report.used],
        "unused": list(report.unused),
        "unknown": [{"text": text, "span": span} for text, span in report.unknown],
        "unreadable": [{"text": text, "span": span} for text, span in report.unreadable],
    }


BUDGET_SPENT = "search budget spent"
"""Reason code of quotes that were not checked."""


def _quote(quote: Quote, finding: QuoteFinding) -> dict[str, Any]:
    return {
        "claimed_hash": quote.chunk_hash,
        "quote": quote.quote,
        "verdict": finding.verdict,
        "found_in": list(finding.elsewhere),
        "reason": BUDGET_SPENT if finding.verdict == "not_checked" else None,
        **(_found(finding.places[0]) if finding.places else _NOT_FOUND),
    }


def _found(place: Place) -> dict[str, Any]:
    return {
        "chunk_hash": place.chunk_hash,
        "citation": place.chunk,
        "spans": [list(span) for span in place.spans],
        "differences": [difference._asdict() for difference in place.differences],
        "before": place.before,
        "after": place.after,
        "left_out": [asdict(left_out) for left_out in place.left_out],
        "put_in": [asdict(put_in) for put_in in place.put_in],
    }


_NOT_FOUND = _found(Place(0, "", "not_found", ())) | {"chunk_hash": None, "citation": None}


def _conflict(conflict: Conflict) -> dict[str, Any]:
    return {
        "kind": conflict.kind,
        "sides": [_side(side) for side in conflict.sides],
        "differs": list(conflict.differs),
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "index": side.index,
        "chunk_hash": side.chunk_hash,
        "source_id": side.source_id,
        "span": side.span,
        "tokens": side.tokens,
    }


def summary(answer: Mapping[str, Any]) -> Summary:
    """Return the number of citations, and a text with the number of conflicts."""
    return int(answer["citations"]["total_count"]), f"{len(answer['conflicts'])} conflicts"
