"""`pinned_replay`: the same chunks again by what they say, whatever the index or the embedding model does today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from worker.contract import DEFAULT_FILL, MAX_PINS, SCHEMA_VERSION
from worker.core.citations import is_intact, read_citations_json
from worker.core.hashing import HASH_VERSION, NORMALISERS, hash_chunk
from worker.core.pinning import FILL_ORDERS, RETURNED, Outcome, Pin, Place, answered, digest, raw_hash, resolve, unique
from worker.core.trace import Tracer
from worker.errors import InvalidJob
from worker.recording import Made, owner_of
from worker.retrieval import trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from worker.adapters.runs import Runs
    from worker.adapters.search import Corpus
    from worker.contract import InlineSource, PinnedReplay, RunName, RunRef
    from worker.corpora import Corpora, Identify
    from worker.model import Chunk, Principal
    from worker.recording import Recording

TASK = "pinned_replay"
SCAN_LIMIT = 50_000
"""Chunks looked through for bare hashes where a corpus has no hash column."""

UNKNOWN_SOURCE, DEFAULT_WEIGHT = "unknown", 0.5


class Replay:
    """Answers `pinned_replay` jobs.

    Args:
        corpora: where pinned chunks stand.
        runs: records to replay.
        recording: answers recorded jobs once.
        clock: for the trace only; no result depends on it.
    """

    def __init__(self, corpora: Corpora, runs: Runs, recording: Recording, clock: Callable[[], float]) -> None:
        self._corpora = corpora
        self._runs = runs
        self._recording = recording
        self._clock = clock

    def pinned(self, job: PinnedReplay, identify: Identify) -> dict[str, Any]:
        """Answer `pinned_replay`.

        Raises:
            InvalidJob: a hash, a citations document or a run is wrong or unknown.
            NotAuthorised: a corpus that isn't public, or a run, and nobody that this worker believes is asking.
        """
        if job.sources is not None:
            return self._once(job, identify, lambda: self._inline(job, job.sources or [], identify))
        if job.runs is not None:
            return self._batch(job, identify)
        return self._once(job, identify, lambda: self._from_corpus(job, self._pins(job, identify), identify))

    def _once(self, job: PinnedReplay, identify: Identify, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Recorded, if the job names a run beside its pins."""
        if job.run is None or (job.required_chunk_hashes is None and job.citations is None):
            return answer()
        asker = self._corpora.asker(self._corpora.get(job.corpus), identify)

        def make() -> Made:
            made = answer()
            return Made(made, {"digest": made["digest"]}, pins=[])

        return self._recording.answer(TASK, job, asker, make, replay=lambda _: answer())

    def _batch(self, job: PinnedReplay, identify: Identify) -> dict[str, Any]:
        tracer = Tracer(self._clock)
        with tracer.stage("batch") as counts:
            results = [self._run_or_error(job, i, name, identify) for i, name in enumerate(job.runs or [])]
            counts |= {"runs": len(results), "failed": sum("error" in result for result in results)}
        return {"schema_version": SCHEMA_VERSION, "results": results, "trace": trace(tracer)}

    def _run_or_error(self, job: PinnedReplay, index: int, name: RunName, identify: Identify) -> dict[str, Any]:
        try:
            return self._from_corpus(job, self._pins_of_run(name, f"runs[{index}]", identify), identify)
        except InvalidJob as error:
            return {"error": {"type": "InvalidJob", "path": error.path, "message": error.message}}

    # --- pins -----------------------------------------------------------------------------------

    def _pins(self, job: PinnedReplay, identify: Identify) -> list[Pin]:
        if job.required_chunk_hashes is not None:
            return [Pin(text) for text in job.required_chunk_hashes]
        if job.citations is not None:
            return _pins_of_citations(job.citations)
        assert job.run is not None  # noqa: S101 -- for the type checker: the contract asks for one of the three
        return self._pins_of_run(job.run, "run", identify)

    def _pins_of_run(self, name: RunRef | RunName, path: str, identify: Identify) -> list[Pin]:
        """Pins of all that was recorded under a run (or under one step of it)."""
        asker = identify()
        owner = owner_of(asker) if asker is not None else ""
        records = self._runs.find(owner, name, None, name.step) if owner else []
        found = [record for record in records if record.task != TASK]
        if not found:
            raise InvalidJob("no such run", path)
        return [recorded.pin for record in found for recorded in record.pins]

    # --- a corpus -------------------------------------------------------------------------------

    def _from_corpus(self, job: PinnedReplay, asked: Sequence[Pin], identify: Identify) -> dict[str, Any]:
        tracer = Tracer(self._clock)
        corpus = self._corpora.get(job.corpus or next((pin.corpus for pin in asked if pin.corpus), None))
        asker = self._corpora.asker(corpus, identify)
        pins, truncated, top_k = _cut(job, asked, tracer)
        with tracer.stage("resolve") as counts:
            homeless = job.citations is not None and job.corpus is None
            outcomes = self.anywhere(pins, identify) if homeless else self.at_home(pins, identify, job.corpus)
            counts |= {"pins": len(pins)}
        pinned = answered(outcomes)
        with tracer.stage("fill") as counts:
            order = _fill_order(job)
            room = top_k - len(pinned) if order != "none" else 0
            fill = corpus.fill(self._corpora.database, asker, order, room, _taken(asked, pinned)) if room > 0 else []
            counts |= {"filled": len(fill)}
        chunks = [
            *(_from(place.payload, outcome.pin, rank) for rank, (outcome, place) in enumerate(pinned, 1)),
            *(_from(chunk, None, rank) for rank, chunk in enumerate(fill, len(pinned) + 1)),
        ]
        return _answer(chunks, outcomes, len(fill), truncated, 0, tracer)

    def at_home(self, pins: Sequence[Pin], identify: Identify, named: str | None = None) -> list[Outcome]:
        """What became of pins, each in the corpus that it was made in (all in the one ``named``): one query a corpus.

        A corpus that the settings name no more holds nothing.
        """
        homes = [named or pin.corpus for pin in pins]
        found: dict[str | None, Iterator[Outcome]] = {}
        for home in dict.fromkeys(homes):
            own = [pin for pin, where in zip(pins, homes, strict=True) if where == home]
            corpus = self._corpora.find(home)
            if corpus is None:
                found[home] = (Outcome(pin, "missing", None, 0) for pin in own)
            else:
                found[home] = iter(self.outcomes(corpus, self._corpora.asker(corpus, identify), own))
        return [next(found[home]) for home in homes]

    def anywhere(self, pins: Sequence[Pin], identify: Identify) -> list[Outcome]:
        """What became of pins that do not know their corpus, as those of a citations document.

        Each in the first corpus, by the settings, that knows it; in none: missing.
        """
        found: dict[Pin, Outcome] = {}
        left = list(dict.fromkeys(pins))
        for corpus in self._corpora.all():
            if not left:
                break
            outcomes = self.outcomes(corpus, self._corpora.asker(corpus, identify), left)
            found |= {outcome.pin: outcome for outcome in outcomes}
            left = [outcome.pin for outcome in outcomes if outcome.verdict == "missing"]
        return [found[pin] for pin in pins]

    def outcomes(self, corpus: Corpus, asker: Principal, pins: Sequence[Pin]) -> list[Outcome]:
        """What became of pins: one query for all; pins of an older hash are compared by their own normaliser."""
        chunks = self._chunks(corpus, asker, pins)
        of_version: dict[int, Iterator[Outcome]] = {}
        for version in sorted({pin.hash_version for pin in pins}):
            if version not in NORMALISERS:
                raise InvalidJob(f"this worker knows no hash version {version}", "hash_version")
            places = [_place(corpus, chunk, version) for chunk in chunks]
            of_version[version] = iter(resolve([pin for pin in pins if pin.hash_version == version], places))
        return [next(of_version[pin.hash_version]) for pin in pins]

    def _chunks(self, corpus: Corpus, asker: Principal, pins: Sequence[Pin]) -> list[Chunk]:
        """Every visible chunk with a pin's hash or id."""
        if not pins:
            return []
        database = self._corpora.database
        hashes = {pin.chunk_hash for pin in pins if pin.hash_version == HASH_VERSION}
        ids = {pin.chunk_id for pin in pins if pin.chunk_id is not None}
        chunks = corpus.pinned(database, asker, hashes, ids)
        if corpus.has_hashes or all(pin.chunk_id is not None for pin in pins):
            return chunks
        scanned = corpus.scan(database, asker, SCAN_LIMIT)
        return list({chunk.id: chunk for chunk in [*chunks, *scanned]}.values())

    # --- inline sources -------------------------------------------------------------------------

    def _inline(self, job: PinnedReplay, sources: Sequence[InlineSource], identify: Identify) -> dict[str, Any]:
        tracer = Tracer(self._clock)
        asked = self._pins(job, identify)
        pins, truncated, top_k = _cut(job, asked, tracer)
        with tracer.stage("hash") as counts:
            places, skipped = _inline_places(sources)
            counts |= {"chunks": len(places), "skipped": skipped, **_count_sources(sources)}
        with tracer.stage("resolve"):
            outcomes = resolve(pins, places)
        pinned = answered(outcomes)
        order = _fill_order(job)
        pinned_hashes = {pin.chunk_hash for pin in asked}
        room = max(0, top_k - len(pinned))
        fill: list[Place] = []
        if order != "none" and room:
            pool = [place for place in places if place.chunk_hash not in pinned_hashes]
            fill = sorted(pool, key=FILL_ORDERS[order])[:room]
        chunks = [
            *(_from_place(place, pinned=True) for _, place in pinned),
            *(_from_place(place, pinned=False) for place in fill),
        ]
        return _answer(chunks, outcomes, len(fill), truncated, skipped, tracer)


def _taken(asked: Sequence[Pin], pinned: Sequence[tuple[Outcome, Place]]) -> set[str]:
    """Hashes that must not come again as fill; a chunk pinned under an older version by what it hashes to now."""
    return {pin.chunk_hash for pin in asked} | {place.payload.chunk_hash for _, place in pinned}


def _place(corpus: Corpus, chunk: Chunk, version: int) -> Place:
    known = chunk.chunk_hash if version == chunk.hash_version else hash_chunk(chunk.text, version)
    return Place(known, chunk.id, chunk.document_id, chunk.text, corpus.order(chunk), chunk)


def _pins_of_citations(document: dict[str, Any]) -> list[Pin]:
    return [
        Pin(
            chunk_hash=record.chunk_hash,
            hash_version=record.hash_version or HASH_VERSION,
            # A text that is not what its hash says tells nothing of the bytes that were pinned.
            raw_hash=raw_hash(record.text) if is_intact(record) else None,
            chunk_id=record.chunk_id,
            document_id=record.source_id,
            weight=record.weight,
        )
        for record in read_citations_json(document)
    ]


def _cut(job: PinnedReplay, asked: Sequence[Pin], tracer: Tracer) -> tuple[list[Pin], int, int]:
    """Pins that fit into ``top_k`` (each once), how many do not, and ``top_k`` itself."""
    with tracer.stage("pins") as counts:
        pins = unique(asked)
        default = len(pins) or DEFAULT_FILL
        top_k = default if job.top_k is None else max(0, min(job.top_k, MAX_PINS))
        counts |= {"asked": len(asked), "duplicates": len(asked) - len(pins), "top_k": top_k}
    return pins[:top_k], max(0, len(pins) - top_k), top_k


def _fill_order(job: PinnedReplay) -> str:
    return job.fill or ("none" if job.top_k is None else "text")


def _inline_places(sources: Sequence[InlineSource]) -> tuple[list[Place], int]:
    """Chunks of inline sources, hashed, and how many were skipped because they are no text."""
    places, skipped = [], 0
    for source in sources:
        source_id = source.id or source.name or UNKNOWN_SOURCE
        for chunk in source.chunks:
            text, chunk_id = _inline_chunk(chunk)
            if text is None:
                skipped += 1
                continue
            # The whole content is in the order, so that a permutation of sources changes nothing.
            order = (source_id, chunk_id or "", text, source.weight)
            places.append(Place(hash_chunk(text), chunk_id or "", source_id, text, order, source.weight))
    return places, skipped


def _count_sources(sources: Sequence[InlineSource]) -> dict[str, int]:
    """How many sources there are, and how many have a default in place of what they lack."""
    return {
        "sources": len(sources),
        "unnamed": sum(not (source.id or source.name) for source in sources),
        "unweighted": sum("weight" not in source.model_fields_set for source in sources),
    }


def _inline_chunk(chunk: Any) -> tuple[str | None, str | None]:
    """Text and id of an inline chunk; no text where it is not of the contract's form."""
    if isinstance(chunk, str):
        return chunk, None
    if isinstance(chunk, dict) and isinstance(chunk.get("text"), str) and chunk.keys() <= {"text", "chunk_id"}:
        chunk_id = chunk.get("chunk_id")
        if chunk_id is None or isinstance(chunk_id, str):
            return chunk["text"], chunk_id
    return None, None


def _from(chunk: Chunk, pin: Pin | None, rank: int) -> dict[str, Any]:
    """A corpus' chunk as the contract has it in a replay."""
    weight = pin.weight if pin is not None and pin.weight is not None else DEFAULT_WEIGHT
    return {
        "rank": rank,
        "chunk_hash": chunk.chunk_hash,
        "text": chunk.text,
        "source_id": chunk.document_id,
        "weight": weight,
        "pinned": pin is not None,
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "page": chunk.page,
        "section": chunk.section,
        "coordinates": chunk.coordinates,
        "metadata": chunk.metadata,
        "hash_version": chunk.hash_version,
    }


def _from_place(place: Place, *, pinned: bool) -> dict[str, Any]:
    return {
        "chunk_hash": place.chunk_hash,
        "text": place.text,
        "source_id": place.document_id,
        "weight": place.payload,
        "pinned": pinned,
    }


def _answer(
    chunks: list[dict[str, Any]], outcomes: Sequence[Outcome], filled: int, truncated: int, skipped: int, tracer: Tracer
) -> dict[str, Any]:
    with tracer.stage("digest"):
        rows = ((chunk["chunk_hash"], chunk["text"], chunk["source_id"], chunk["pinned"]) for chunk in chunks)
        hashed = digest(rows, orjson.dumps)
    return {
        "schema_version": SCHEMA_VERSION,
        "chunks": chunks,
        "pins": [_pin_report(outcome) for outcome in outcomes],
        "matched": sum(outcome.verdict in RETURNED for outcome in outcomes),
        "missing": sum(outcome.verdict == "missing" for outcome in outcomes),
        "filled": filled,
        "truncated": truncated,
        "skipped": skipped,
        "digest": hashed,
        "trace": trace(tracer, {"method": "pins"}),
    }


def _pin_report(outcome: Outcome) -> dict[str, Any]:
    place = outcome.place
    return {
        "chunk_hash": outcome.pin.chunk_hash,
        "verdict": outcome.verdict,
        "chunk_id": (place.chunk_id or None) if place else None,
        "document_id": place.document_id if place else None,
        "found_hash": place.chunk_hash if place else None,
        "places": outcome.places,
    }
