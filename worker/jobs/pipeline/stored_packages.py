"""Stored packages: pins and scores without chunk texts, so that permissions are checked again on each use."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.sessions import Response, StoredPackage
from worker.jobs.pipeline.conversations import required_owner
from worker.jobs.pipeline.retrieval_pipeline import ALL_STAGES, EXECUTE
from worker.jobs.pipeline.types import Citation, ContextPackage, QueryResponse, from_json, to_json
from worker.jobs.recording import claims_digest
from worker.jobs.stored_candidates import StoredCandidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieval_client.contract.jobs import RunPipeline
    from worker.adapters.postgres.runs import Record
    from worker.adapters.postgres.sessions import Sessions
    from worker.jobs.context import JobContext
    from worker.jobs.corpora import Corpora
    from worker.jobs.pipeline.conversations import ConversationTurn
    from worker.jobs.pipeline.execution import Answerer
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


class Packages:
    """Packages of conversations, stored between stages.

    Args:
        sessions: stores them, with the answers.
        corpora: where the texts are read again.
    """

    def __init__(self, sessions: Sessions, corpora: Corpora) -> None:
        self._sessions = sessions
        self._corpora = corpora

    def store(self, turn: ConversationTurn, response: QueryResponse, stage: str, answerer: Answerer | None) -> None:
        """Store a package, and the answer if there is one, for later jobs to continue; nothing without an owner."""
        package = response.package
        if package.package_id is None:
            return
        claims = claims_digest(turn.caller)
        stored_package = StoredPackage(package.package_id, stage, without_texts(package), claims)
        if answerer is None:
            self._sessions.keep(turn.caller, stored_package)
            return
        stored = Response(
            response_id=turn.response_id,
            conversation_id=turn.conversation_id,
            mode=package.request.mode,
            provider=answerer.provider,
            model=answerer.name,
            claims_sha256=claims,
            provider_response_id=answerer.response_id,
            starting_prompt=package.starting_prompt or "",
            question=package.request.question,
            answer=response.answer,
            package_id=package.package_id,
        )
        self._sessions.keep(turn.caller, stored_package, stored)

    def resumed(self, job: RunPipeline, context: JobContext) -> tuple[ContextPackage, str]:
        """Return the package that a job continues with, with current permissions, and the last stage it went through.

        Raises:
            InvalidJob: the caller has no such package, or it has been through the last stage that the job requests.
            NotAuthorised: the caller has no owner claim.
        """
        caller = context.caller
        stored = None if caller is None else self._sessions.package(required_owner(caller, "resume"), job.resume or "")
        if caller is None or stored is None:
            raise InvalidJob("no such package", "resume")
        if stored.stage == EXECUTE:
            raise InvalidJob("this package has been answered: send a new question", "resume")
        if job.stop_after is not None and ALL_STAGES.index(job.stop_after) < ALL_STAGES.index(stored.stage):
            raise InvalidJob(f"this package has been through {stored.stage} already", "stop_after")
        package, is_unchanged = with_texts(stored.content, self._corpora, caller)
        if stored.claims_sha256 != claims_digest(caller):
            # Answers to other claims may contain what these claims may not see.
            package = without_conversation(package)
        if job.require_model:
            package = dataclasses.replace(package, request=dataclasses.replace(package.request, require_model=True))
        if not is_unchanged:
            changed = "resume: sources that changed or are no longer visible are left out"
            trace = dataclasses.replace(package.trace, warnings=(*package.trace.warnings, changed))
            package = dataclasses.replace(package, trace=trace)
        return package, stored.stage


def _candidates(content: Mapping[str, Any]) -> list[StoredCandidate]:
    return [StoredCandidate.from_plain(pin) for pin in content["pins"]]
