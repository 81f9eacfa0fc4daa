"""Packages as they are kept: pins and scores, no text of a chunk, so that rights are asked anew by whoever goes on."""

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
    """A package as plain JSON: of each candidate where it stands, what it hashes to, and its scores.

    The context block is made of the texts, so it is left out and made again.
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
    """A citation without its words of a chunk; what another service found can't be read again, so those stay."""
    return citation if citation.chunk_id is None else dataclasses.replace(citation, snippet="")


@dataclass(frozen=True, slots=True)
class AnswerTrace:
    """What a record tells of an answer without looking at any source.

    Attributes:
        step: the run's step, ``''`` for none.
        response: the answer; without its package.
        package: what it rests on; without texts, so without candidates and context block.
        candidates: of each: corpus, chunk id, similarity, scores; best first.
    """

    step: str
    response: QueryResponse
    package: ContextPackage
    candidates: Sequence[tuple[str, str, float | None, ScoreBreakdown]]


def answer_trace(record: Record) -> AnswerTrace:
    """A record of `run_pipeline`, for who wants to know how its answer came about."""
    content = record.answer["package"]
    return AnswerTrace(
        record.step,
        from_json(QueryResponse, orjson.dumps(record.answer["response"])),
        from_json(ContextPackage, orjson.dumps(content["package"])),
        [(pin["corpus"], pin["chunk_id"], pin["similarity"], _scores(pin["scores"])) for pin in content["pins"]],
    )


def with_texts(content: Mapping[str, Any], corpora: Corpora, asker: Principal) -> tuple[ContextPackage, bool]:
    """The package again, with the rights of now; and whether every candidate is there still, word for word."""
    package = from_json(ContextPackage, orjson.dumps(content["package"]))
    candidates = _still_there(content["pins"], corpora, asker)
    whole = len(candidates) == len(content["pins"])
    # Labels name what is not there any more; whoever goes on gives new ones.
    labels = package.source_labels if whole else {}
    return dataclasses.replace(package, candidates=tuple(candidates), source_labels=labels), whole


def _still_there(pins: Sequence[Mapping[str, Any]], corpora: Corpora, asker: Principal) -> list[Candidate]:
    """Candidates whose chunk this caller may see and whose text is the same, in their order; one query a corpus."""
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
