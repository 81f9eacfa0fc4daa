"""Stored packages: pins and scores without chunk texts, so that permissions are checked again on each use."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from worker.jobs.pipeline.types import Citation, ContextPackage, QueryResponse, from_json, to_json
from worker.jobs.stored_candidates import StoredCandidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.postgres.runs import Record
    from worker.jobs.corpora import Corpora
    from worker.model import Principal


def without_texts(package: ContextPackage) -> dict[str, Any]:
    """Return a package for `orjson.dumps`, with place, hash and scores of each candidate.

    The context block contains the texts, so it is left out and built again.
    """
    bare = dataclasses.replace(package, candidates=(), context_block=None)
    return {"package": orjson.Fragment(to_json(bare)), "pins": [*map(StoredCandidate.of, package.candidates)]}


def without_conversation(package: ContextPackage) -> ContextPackage:
    """Return a package without earlier turns, and without what was worded from them, for the owner's other claims."""
    trace = package.trace
    if trace.conversation is not None:
        trace = dataclasses.replace(trace, conversation=None, queries={}, hyde=())
    return dataclasses.replace(
        package, request=dataclasses.replace(package.request, conversation_history=()), trace=trace
    )


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
        candidates: its candidates, best first.
    """

    step: str
    response: QueryResponse
    package: ContextPackage
    candidates: Sequence[StoredCandidate]


def answer_trace(record: Record, *, same_claims: bool) -> AnswerTrace:
    """Return the trace of a `run_pipeline` record; not ``same_claims``: without what was worded from earlier turns."""
    content = record.answer["package"]
    package = from_json(ContextPackage, orjson.dumps(content["package"]))
    return AnswerTrace(
        record.step,
        from_json(QueryResponse, orjson.dumps(record.answer["response"])),
        package if same_claims else without_conversation(package),
        _candidates(content),
    )


def with_texts(content: Mapping[str, Any], corpora: Corpora, caller: Principal) -> tuple[ContextPackage, bool]:
    """Restore a package with current permissions; return it, and whether all candidates are visible and unchanged."""
    package = from_json(ContextPackage, orjson.dumps(content["package"]))
    stored = _candidates(content)
    candidates = corpora.unchanged(
        caller, [candidate for candidate in stored if corpora.find(candidate.corpus) is not None]
    )
    is_unchanged = len(candidates) == len(stored)
    # Labels would refer to missing candidates; the next stage assigns new ones.
    labels = package.source_labels if is_unchanged else {}
    return dataclasses.replace(package, candidates=tuple(candidates), source_labels=labels), is_unchanged


def _candidates(content: Mapping[str, Any]) -> list[StoredCandidate]:
    return [StoredCandidate.from_plain(pin) for pin in content["pins"]]
