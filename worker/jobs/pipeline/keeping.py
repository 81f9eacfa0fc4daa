"""Stored packages: pins and scores without chunk texts, so that permissions are checked again on each use."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from worker.core.pins.pinning import raw_hash
from worker.jobs.pipeline.types import Citation, ContextPackage, QueryResponse, from_json, to_json
from worker.model import Candidate, LegScore, ScoreBreakdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.postgres.runs import Record
    from worker.jobs.corpora import Corpora
    from worker.model import Principal


def without_texts(package: ContextPackage) -> dict[str, Any]:
    """Return a package as plain JSON, with place, hash and scores of each candidate.

    The context block contains the texts, so it is left out and built again.
    """
    bare = dataclasses.replace(package, candidates=(), context_block=None)
    pins = [
        {
            "corpus": one.corpus,
            "chunk_id": one.chunk.id,
            "raw_hash": raw_hash(one.chunk.text),
            "similarity": one.similarity,
            "scores": dataclasses.asdict(one.scores),
        }
        for one in package.candidates
    ]
    return {"package": orjson.loads(to_json(bare)), "pins": pins}


def without_snippet(citation: Citation) -> Citation:
    """Return a citation without its chunk's text; a remote source's snippet stays, since it can't be read again."""
    return citation if citation.chunk_id is None else dataclasses.replace(citation, snippet="")


@dataclass(frozen=True, slots=True)
class AnswerTrace:
    """Trace of a recorded answer, without reading any source.

    Attributes:
        step: the run's step, ``''`` for none.
        response: the answer, without its package.
        package: the answer's package without texts, so without candidates and context block.
        candidates: corpus, chunk id, similarity and scores of each; best first.
    """

    step: str
    response: QueryResponse
    package: ContextPackage
    candidates: Sequence[tuple[str, str, float | None, ScoreBreakdown]]


def answer_trace(record: Record) -> AnswerTrace:
    """Return the trace of a `run_pipeline` record."""
    content = record.answer["package"]
    return AnswerTrace(
        record.step,
        from_json(QueryResponse, orjson.dumps(record.answer["response"])),
        from_json(ContextPackage, orjson.dumps(content["package"])),
        [(pin["corpus"], pin["chunk_id"], pin["similarity"], _scores(pin["scores"])) for pin in content["pins"]],
    )


def with_texts(content: Mapping[str, Any], corpora: Corpora, asker: Principal) -> tuple[ContextPackage, bool]:
    """Restore a package with current permissions; return also whether every candidate is visible and unchanged."""
    package = from_json(ContextPackage, orjson.dumps(content["package"]))
    candidates = _still_there(content["pins"], corpora, asker)
    whole = len(candidates) == len(content["pins"])
    # Labels would refer to missing candidates; the next stage assigns new ones.
    labels = package.source_labels if whole else {}
    return dataclasses.replace(package, candidates=tuple(candidates), source_labels=labels), whole


def _still_there(pins: Sequence[Mapping[str, Any]], corpora: Corpora, asker: Principal) -> list[Candidate]:
    """Return the candidates that the caller may see and whose text is unchanged, in order; one query per corpus."""
    visible: dict[tuple[str, str], Any] = {}
    for name in dict.fromkeys(pin["corpus"] for pin in pins):
        corpus = corpora.find(name)
        if corpus is not None:
            ids = [pin["chunk_id"] for pin in pins if pin["corpus"] == name]
            chunks = corpus.pinned(corpora.database, asker, [], ids)
            visible |= {(name, chunk.id): chunk for chunk in chunks}
    found = []
    for pin in pins:
        chunk = visible.get((pin["corpus"], pin["chunk_id"]))
        if chunk is not None and raw_hash(chunk.text) == pin["raw_hash"]:
            found.append(Candidate(chunk, pin["similarity"], _scores(pin["scores"]), pin["corpus"]))
    return found


def _scores(plain: Mapping[str, Any]) -> ScoreBreakdown:
    return ScoreBreakdown(**{**plain, "legs": tuple(LegScore(**leg) for leg in plain["legs"])})
