"""`pinned_replay`: the same chunks again by their content, independent of the index and the embedding model."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from retrieval_client.contract.base import SCHEMA_VERSION
from retrieval_client.contract.run_jobs import DEFAULT_FILL, MAX_PINS
from retrieval_client.errors import InvalidJob
from retrieval_client.hashing import HASH_VERSION, NORMALISERS, hash_chunk
from worker.adapters import logs
from worker.adapters.postgres.runs import RecordedPin
from worker.core.citations.document import is_intact, read_citations_json
from worker.core.pins.inline import fill, order
from worker.core.pins.pinning import RETURNED, Outcome, Pin, answered, bare, digest, missing, raw_hash, resolve, unique
from worker.core.trace import Tracer
from worker.jobs.answer import batch_summary, trace
from worker.jobs.inline_sources import count_sources, inline_answer, inline_chunks
from worker.jobs.recording import RecordedAnswer, own_records, owner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from retrieval_client.contract.jobs import RunRef
    from retrieval_client.contract.run_jobs import InlineSource, PinnedReplay, RunName
    from worker.adapters.postgres.runs import Runs
    from worker.adapters.postgres.search import Corpus
    from worker.core.citations.document import CitationRecord
    from worker.jobs.answer import Summary
    from worker.jobs.context import JobContext
    from worker.jobs.corpora import Corpora
    from worker.jobs.recording import Recording
    from worker.model import Chunk, Principal

TASK = "pinned_replay"
log = logs.logger("worker.replay")
SCAN_LIMIT = 50_000
"""Most chunks scanned for bare hashes in a corpus without a hash column."""

DEFAULT_WEIGHT = 0.5

MISSING_SECONDS = 0.005
"""The time of resolving pins of which one is missing is a multiple of this, for each `MISSING_PINS` of them.

Postgres takes longer for a hidden row than for none: without this, response times would reveal whether a missing pin is
hidden or gone (measured: `python -m benchmarks.hidden_text`)."""

MISSING_PINS = 100


class _Replayed(NamedTuple):
    """Answer, and the pins of its chunks; none of inline sources, which no later job could read."""

    answer: dict[str, Any]
    pins: Sequence[RecordedPin] = ()


class Replay:
    """Handler of `pinned_replay` jobs.

    Args:
        corpora: the corpora of pinned chunks.
        runs: recorded runs to replay.
        recording: answers recorded jobs once.
        clock: for the trace, and for the time of answers with missing pins; no result depends on it.
    """

    def __init__(self, corpora: Corpora, runs: Runs, recording: Recording, clock: Callable[[], float]) -> None:
        self._corpora = corpora
        self._runs = runs
        self._recording = recording
        self._clock = clock

    def pinned(self, job: PinnedReplay, context: JobContext) -> dict[str, Any]:
        """Answer `pinned_replay`.

        Raises:
            InvalidJob: a hash, a citations document or a run is wrong or unknown.
            NotAuthorised: the token is missing or invalid, for a run or for a corpus that isn't public.
        """
        if job.sources is not None:
            return self._once(job, context, lambda: self._inline(job, job.sources or [], context))
        if job.runs is not None:
            return self._batch(job, context)
        return self._once(job, context, lambda: self._from_corpus(job, self._pins(job, context), context))

    def _once(self, job: PinnedReplay, context: JobContext, answer: Callable[[], _Replayed]) -> dict[str, Any]:
        """Answer, and record the answer if the job names a run besides its pins."""
        if job.run is None or (job.required_chunk_hashes is None and job.citations is None):
            return answer().answer
        caller = self._corpora.caller_of(self._corpora.get(job.corpus), context)

        def make() -> RecordedAnswer:
            answer_body, pins = answer()
            return RecordedAnswer(answer_body, {"digest": answer_body["digest"]}, pins)

        return self._recording.answer(TASK, job, caller, make, replay=lambda _: answer().answer)

    def _batch(self, job: PinnedReplay, context: JobContext) -> dict[str, Any]:
        tracer = Tracer(self._clock)
        with tracer.stage("batch") as counts:
            results = [self._run_or_error(job, i, name, context) for i, name in enumerate(job.runs or [])]
            counts |= {"runs": len(results), "failed": sum("error" in result for result in results)}
        return {"schema_version": SCHEMA_VERSION, "degraded": [], "results": results, "trace": trace(tracer)}

    def _run_or_error(self, job: PinnedReplay, index: int, name: RunName, context: JobContext) -> dict[str, Any]:
        try:
            return self._from_corpus(job, self._pins_of_run(name, f"runs[{index}]", context), context).answer
        except InvalidJob as error:
            return {"error": {"type": "InvalidJob", "path": error.path, "message": error.message}}

    # --- pins -----------------------------------------------------------------------------------

    def _pins(self, job: PinnedReplay, context: JobContext) -> list[Pin]:
        if job.required_chunk_hashes is not None:
            return bare(job.required_chunk_hashes)
        if job.citations is not None:
            return _pins_of_citations(job.citations)
        assert job.run is not None  # noqa: S101 -- for the type checker: the contract asks for one of the three
        return self._pins_of_run(job.run, "run", context)

    def _pins_of_run(self, name: RunRef | RunName, path: str, context: JobContext) -> list[Pin]:
        """Return the pins of all records under a run, or under one step of it."""
        caller = context.caller
        records = self._runs.find(owner_of(caller), name, None, name.step) if caller is not None else []
        run_records = own_records(records, TASK)
        if not run_records:
            raise InvalidJob("no such run", path)
        return [recorded.pin for record in run_records for recorded in record.pins]

    # --- a corpus -------------------------------------------------------------------------------

    def _from_corpus(self, job: PinnedReplay, requested_pins: Sequence[Pin], context: JobContext) -> _Replayed:
        tracer = Tracer(self._clock)
        corpus = self._corpora.get(job.corpus or next((pin.corpus for pin in requested_pins if pin.corpus), None))
        caller = self._corpora.caller_of(corpus, context)
        pins, truncated, top_k = _cut(job, requested_pins, tracer)
        with tracer.stage("resolve") as counts:
            homeless = job.citations is not None and job.corpus is None
            outcomes = self.anywhere(pins, context) if homeless else self.at_home(pins, context, job.corpus)
            counts |= {"pins": len(pins)}
        pinned = answered(outcomes)
        with tracer.stage("fill") as counts:
            fill_order = _fill_order(job)
            room = top_k - len(pinned) if fill_order != "none" else 0
            filled = (
                corpus.fill(self._corpora.database, caller, fill_order, room, _taken(requested_pins, pinned))
                if room > 0
                else []
            )
            counts |= {"filled": len(filled)}
        _warn(fewer_than_top_k=room - len(filled))
        chunks = [
            *(_from(chunk, outcome.pin, rank) for rank, (outcome, chunk) in enumerate(pinned, 1)),
            *(_from(chunk, None, rank) for rank, chunk in enumerate(filled, len(pinned) + 1)),
        ]
        places = [
            *(
                (chunk, job.corpus or outcome.pin.corpus or corpus.name, outcome.pin.weight)
                for outcome, chunk in pinned
            ),
            *((chunk, corpus.name, None) for chunk in filled),
        ]
        return _Replayed(_answer(chunks, outcomes, len(filled), truncated, 0, tracer), _recorded_pins(places))

    def at_home(self, pins: Sequence[Pin], context: JobContext, corpus_name: str | None = None) -> list[Outcome[Chunk]]:
        """Resolve pins, each in its own corpus (or all in the corpus ``corpus_name``), with one query per corpus.

        Pins of a corpus that the settings no longer name are missing.
        """
        homes = [corpus_name or pin.corpus for pin in pins]
        if len({*homes}) == 1 and (only := self._corpora.find(homes[0])) is not None:
            return self.outcomes(only, self._corpora.caller_of(only, context), pins)
        outcomes: dict[str | None, Iterator[Outcome[Chunk]]] = {}
        for home in dict.fromkeys(homes):
            home_pins = [pin for pin, where in zip(pins, homes, strict=True) if where == home]
            corpus = self._corpora.find(home)
            if corpus is None:
                outcomes[home] = map(missing, home_pins)
            else:
                outcomes[home] = iter(self.outcomes(corpus, self._corpora.caller_of(corpus, context), home_pins))
        return [next(outcomes[home]) for home in homes]

    def anywhere(self, pins: Sequence[Pin], context: JobContext) -> list[Outcome[Chunk]]:
        """Resolve pins without a corpus, such as those of a citations document.

        Each is resolved in the first corpus, in the order of the settings, that has a chunk for it; else it is missing.
        """
        pin_outcomes: list[Outcome[Chunk]] = [*map(missing, pins)]
        unresolved = [*range(len(pins))]
        for corpus in self._corpora.all():
            if not unresolved:
                break
            outcomes = self.outcomes(corpus, self._corpora.caller_of(corpus, context), [pins[i] for i in unresolved])
            for i, outcome in zip(unresolved, outcomes, strict=True):
                pin_outcomes[i] = outcome._replace(pin=outcome.pin._replace(corpus=corpus.name))
            unresolved = [i for i in unresolved if pin_outcomes[i].chunk is None]
        return pin_outcomes

    def outcomes(self, corpus: Corpus, caller: Principal, pins: Sequence[Pin]) -> list[Outcome[Chunk]]:
        """Resolve pins; if one is missing, in a time that does not reveal why."""
        started = self._clock()
        pin_outcomes = self._outcomes(corpus, caller, pins)
        if not corpus.settings.public and any(outcome.chunk is None for outcome in pin_outcomes):
            step = MISSING_SECONDS * -(-len(pins) // MISSING_PINS)
            time.sleep(step - (self._clock() - started) % step)
        return pin_outcomes

    def _outcomes(self, corpus: Corpus, caller: Principal, pins: Sequence[Pin]) -> list[Outcome[Chunk]]:
        """Resolve all pins with one query; pins of an older hash version are compared by their own normaliser."""
        chunks = self._chunks(corpus, caller, pins)
        versions = {pin.hash_version for pin in pins}
        if versions <= {HASH_VERSION}:
            return resolve(pins, chunks, corpus.order)
        of_version: dict[int, Iterator[Outcome[Chunk]]] = {}
        for version in sorted(versions):
            version_pins = [pin for pin in pins if pin.hash_version == version]
            of_version[version] = iter(resolve(version_pins, chunks, corpus.order, _hashed_by(version)))
        return [next(of_version[pin.hash_version]) for pin in pins]

    def _chunks(self, corpus: Corpus, caller: Principal, pins: Sequence[Pin]) -> list[Chunk]:
        """Return every visible chunk with a pin's hash or id."""
        if not pins:
            return []
        database = self._corpora.database
        hashes = {pin.chunk_hash for pin in pins if pin.hash_version == HASH_VERSION}
        ids = {pin.chunk_id for pin in pins if pin.chunk_id is not None}
        chunks = corpus.pinned(database, caller, hashes, ids)
        if corpus.has_hashes or all(pin.chunk_id is not None for pin in pins):
            return chunks
        scanned = corpus.scan(database, caller, SCAN_LIMIT)
        return list({chunk.id: chunk for chunk in [*chunks, *scanned]}.values())

    # --- inline sources -------------------------------------------------------------------------

    def _inline(self, job: PinnedReplay, sources: Sequence[InlineSource], context: JobContext) -> _Replayed:
        tracer = Tracer(self._clock)
        requested_pins = self._pins(job, context)
        pins, truncated, top_k = _cut(job, requested_pins, tracer)
        with tracer.stage("hash") as counts:
            source_chunks, skipped = inline_chunks(sources)
            lacking = count_sources(sources)
            counts |= {"chunks": len(source_chunks), "skipped": skipped, **lacking}
        _warn(
            no_sources=int(not sources),
            chunks_skipped=skipped,
            sources_without_chunks=lacking["without_chunks"],
            sources_without_id=lacking["unnamed"],
            sources_without_weight=lacking["unweighted"],
        )
        with tracer.stage("resolve"):
            outcomes = resolve(pins, source_chunks, order)
        pinned = answered(outcomes)
        with tracer.stage("fill") as counts:
            fill_order = _fill_order(job)
            room = top_k - len(pinned) if fill_order != "none" else 0
            pinned_hashes = {pin.chunk_hash for pin in requested_pins}
            filled = (
                fill((chunk for chunk in source_chunks if chunk.chunk_hash not in pinned_hashes), fill_order, room)
                if room
                else []
            )
            counts |= {"filled": len(filled)}
        _warn(fewer_than_top_k=room - len(filled))
        chunks = [
            *(inline_answer(chunk, pinned=True) for _, chunk in pinned),
            *(inline_answer(chunk, pinned=False) for chunk in filled),
        ]
        skipped += lacking["without_chunks"]
        return _Replayed(_answer(chunks, outcomes, len(filled), truncated, skipped, tracer))


def _taken(requested_pins: Sequence[Pin], pinned: Sequence[tuple[Outcome[Chunk], Chunk]]) -> set[str]:
    """Return the hashes excluded from fill; for a chunk pinned by an older version, also its current hash."""
    return {pin.chunk_hash for pin in requested_pins} | {chunk.chunk_hash for _, chunk in pinned}


def _hashed_by(version: int) -> Callable[[Chunk], str]:
    if version not in NORMALISERS:
        raise InvalidJob(f"this worker does not know hash version {version}", "hash_version")
    return lambda chunk: chunk.chunk_hash if version == chunk.hash_version else hash_chunk(chunk.text, version)


def pin_of_record(record: CitationRecord, intact: bool) -> Pin:
    """Return the pin of a citation; its raw hash is known only if the text matches the chunk hash."""
    return Pin(
        chunk_hash=record.chunk_hash,
        hash_version=record.hash_version or HASH_VERSION,
        raw_hash=raw_hash(record.text) if intact else None,
        chunk_id=record.chunk_id,
        document_id=record.source_id,
        weight=record.weight,
        tampered=not intact,
    )


def _pins_of_citations(document: dict[str, Any]) -> list[Pin]:
    return [pin_of_record(record, is_intact(record)) for record in read_citations_json(document)]


def _cut(job: PinnedReplay, requested_pins: Sequence[Pin], tracer: Tracer) -> tuple[list[Pin], int, int]:
    """Return the pins that fit into ``top_k`` (each once), the number of others, and ``top_k`` itself."""
    with tracer.stage("pins") as counts:
        pins = unique(requested_pins)
        default = len(pins) or DEFAULT_FILL
        top_k = default if job.top_k is None else max(0, min(job.top_k, MAX_PINS))
        counts |= {"asked": len(requested_pins), "duplicates": len(requested_pins) - len(pins), "top_k": top_k}
    _warn(duplicate_pins=len(requested_pins) - len(pins), top_k_is_zero=int(top_k == 0))
    return pins[:top_k], max(0, len(pins) - top_k), top_k


def _recorded_pins(places: Iterable[tuple[Chunk, str, float | None]]) -> list[RecordedPin]:
    """Return the pins of chunks, each with its corpus and its weight, in order."""
    return [
        RecordedPin(
            Pin(chunk.chunk_hash, chunk.hash_version, raw_hash(chunk.text), chunk.id, chunk.document_id, corpus),
            rank,
            weight,
        )
        for rank, (chunk, corpus, weight) in enumerate(places, 1)
    ]


def _warn(**counts: int) -> None:
    """Log each edge case of a job, with its count."""
    for case, count in counts.items():
        if count:
            log.warning(case, count=count)


def _fill_order(job: PinnedReplay) -> str:
    return job.fill or ("none" if job.top_k is None else "text")


def _from(chunk: Chunk, pin: Pin | None, rank: int) -> dict[str, Any]:
    """Return a corpus's chunk in the contract's form for a replay."""
    chunk_id, document_id, text, page, section, coordinates, metadata, chunk_hash, hash_version = chunk
    return {
        "rank": rank,
        "chunk_hash": chunk_hash,
        "text": text,
        "source_id": document_id,
        "weight": pin.weight if pin is not None and pin.weight is not None else DEFAULT_WEIGHT,
        "pinned": pin is not None,
        "chunk_id": chunk_id,
        "document_id": document_id,
        "page": page,
        "section": section,
        "coordinates": coordinates,
        "metadata": metadata,
        "hash_version": hash_version,
    }


def _answer(
    chunks: list[dict[str, Any]],
    outcomes: Sequence[Outcome[Any]],
    filled: int,
    truncated: int,
    skipped: int,
    tracer: Tracer,
) -> dict[str, Any]:
    with tracer.stage("digest"):
        rows = ((chunk["chunk_hash"], chunk["text"], chunk["source_id"], chunk["pinned"]) for chunk in chunks)
        hashed = digest(rows, orjson.dumps)
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    _warn(pins_missing=verdicts["missing"], pins_truncated=truncated)
    return {
        "schema_version": SCHEMA_VERSION,
        "degraded": [],
        "chunks": chunks,
        "pins": [_pin_report(outcome) for outcome in outcomes],
        "matched": sum(count for verdict, count in verdicts.items() if verdict in RETURNED),
        "missing": verdicts["missing"],
        "filled": filled,
        "truncated": truncated,
        "skipped": skipped,
        "digest": hashed,
        "trace": trace(tracer, {"method": "pins"}),
    }


def _pin_report(outcome: Outcome[Any]) -> dict[str, Any]:
    pin, verdict, chunk, found_hash, places = outcome
    return {
        "chunk_hash": pin.chunk_hash,
        "verdict": verdict,
        "chunk_id": (chunk.id or None) if chunk else None,
        "document_id": chunk.document_id if chunk else None,
        "found_hash": found_hash,
        "places": places,
    }


def summary(answer: Mapping[str, Any]) -> Summary:
    """Return the number of chunks, and a text with all counts, including those of each edge case of the contract."""
    if "results" in answer:
        return batch_summary(answer)
    counts = {name: answer[name] for name in ("matched", "missing", "filled", "truncated", "skipped")}
    for stage in answer["trace"]["stages"]:
        counts |= stage["counts"]
    return len(answer["chunks"]), " ".join(f"{name}={count}" for name, count in counts.items())
