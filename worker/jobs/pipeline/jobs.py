"""`run_pipeline`: the three stages as a job, with conversations, packages stored between stages, and runs."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from retrieval_client.errors import InvalidJob
from worker.jobs.answer import filter_set
from worker.jobs.pipeline.conversations import Conversations, ConversationTurn
from worker.jobs.pipeline.lyrics import lyrics_json, lyrics_name
from worker.jobs.pipeline.retrieval_pipeline import ALL_STAGES, BUILD, EXECUTE, SYNTHESIZE
from worker.jobs.pipeline.source_cache import TASK
from worker.jobs.pipeline.stored_packages import (
    Packages,
    answer_trace,
    with_texts,
    without_conversation,
    without_snippet,
    without_texts,
)
from worker.jobs.pipeline.types import (
    ContextPackage,
    CorpusSearch,
    QueryRequest,
    QueryResponse,
    Turn,
    from_json,
    to_json,
)
from worker.jobs.pipeline.wire import as_answer
from worker.jobs.recording import RecordedAnswer, claims_digest, pins_of
from worker.jobs.run_files import run_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from retrieval_client.contract.jobs import RunPipeline, RunRef
    from retrieval_client.contract.run_jobs import RunName
    from worker.adapters.postgres.runs import Record
    from worker.adapters.postgres.sessions import Sessions
    from worker.jobs.answer import Summary
    from worker.jobs.context import JobContext
    from worker.jobs.corpora import Corpora
    from worker.jobs.pipeline.retrieval_pipeline import RetrievalPipeline
    from worker.jobs.pipeline.stored_packages import AnswerTrace
    from worker.jobs.pipeline.synthesis import Chain
    from worker.jobs.recording import Recording
    from worker.jobs.run_files import RunFiles
    from worker.model import Principal


class ReadAnswer(NamedTuple):
    """Answer made from a record, and the fields of the contract's answer that differ if it is withheld."""

    response: QueryResponse
    withheld: Mapping[str, Any]

    def as_answer(self) -> dict[str, Any]:
        """Return it in the contract's form."""
        return as_answer(self.response) | dict(self.withheld)


class PipelineJobs:
    """Handler of `run_pipeline` jobs.

    Args:
        pipeline: the stages.
        corpora: the corpora.
        sessions: stored conversations and packages.
        recording: answers recorded jobs once.
        files: stores recorded answers with sections.
    """

    def __init__(
        self,
        pipeline: RetrievalPipeline,
        corpora: Corpora,
        sessions: Sessions,
        recording: Recording,
        files: RunFiles,
    ) -> None:
        self._pipeline = pipeline
        self._corpora = corpora
        self._conversations = Conversations(sessions)
        self._packages = Packages(sessions, corpora)
        self._recording = recording
        self._files = files

    def answer(self, job: RunPipeline, context: JobContext) -> dict[str, Any]:
        """Answer `run_pipeline`.

        Raises:
            InvalidJob: a mode, profile, corpus, package or earlier answer is unknown.
            NotAuthorised: the token is missing or invalid, and a corpus is not public; or the job names a run
                or stored data, and the caller has no owner claim.
            RetrievalError: a search or the model failed.
        """
        if job.resume is not None:
            return self._resume(job, context)
        request = request_of(job)
        self._check_model(request)
        caller = self._caller(request, context)
        turn = ConversationTurn.of(job, request, caller, context)
        run = job.run
        if run is None:
            return as_answer(self._respond(turn))
        if self._pipeline.mode(request).sections:
            run_path(run)  # a wrong id fails before any other step

        def make() -> RecordedAnswer:
            response = self._respond(turn)
            return _as_made(response, then=lambda: self._keep_lyrics(run, response, caller))

        def replay(record: Record) -> dict[str, Any]:
            answer = self.from_record(record, caller)
            # Repeated: the worker that recorded it may have died before it stored the file.
            self._keep_lyrics(run, answer.response, caller)
            return answer.as_answer()

        return self._recording.answer(TASK, job, caller, make, replay)

    def traces(self, run: RunName, caller: Principal) -> list[AnswerTrace]:
        """Return the traces of the answers recorded under a run, step by step, without reading any source.

        Raises:
            InvalidJob: the caller has no such run, or it holds none of this task.
        """
        claims = claims_digest(caller)
        records = self._recording.records(caller, run, TASK)
        return [answer_trace(record, same_claims=record.claims_sha256 == claims) for record in records]

    def _check_model(self, request: QueryRequest) -> None:
        if request.require_model and not self._pipeline.executor.has_model:
            raise InvalidJob("expected false: the settings name no language model", "require_model")

    def _caller(self, request: QueryRequest, context: JobContext) -> Principal:
        targets = self._pipeline.builder.plan(request).targets
        return self._corpora.caller_of_all([target.corpus for target in targets], context)

    def _respond(self, turn: ConversationTurn) -> QueryResponse:
        turn, chain = self._continued(turn)
        # A recorded answer is made from Postgres, not from the cache.
        reuse = turn.job.run is None
        package = self._pipeline.build_sources(
            turn.request, turn.caller, turn.report, reuse=reuse, history=chain.history
        )
        if turn.caller.owner:  # without an owner, no caller could continue from it
            package = dataclasses.replace(package, conversation_id=turn.conversation_id, package_id=turn.package_id)
        return self._complete(turn, package, BUILD, chain)

    def _complete(
        self, turn: ConversationTurn, package: ContextPackage, completed_stage: str, chain: Chain
    ) -> QueryResponse:
        """Run the stages after ``completed_stage``, up to the last one that the job requests."""
        last_stage = turn.job.stop_after or EXECUTE
        sources = package.candidates or package.remote_sources
        response, answerer = QueryResponse("ok" if sources else "empty", package=package), None
        if ALL_STAGES.index(last_stage) >= 1:
            # Also for an already synthesized package: its texts were read again, so its block is built again.
            package = self._pipeline.synthesize_context(package, chain)
            response = dataclasses.replace(response, package=package)
            completed_stage = SYNTHESIZE
        if last_stage == EXECUTE:
            turn.report(EXECUTE, 1, 1)
            response, answerer = self._pipeline.execute(package, turn.caller.owner, chain.history)
            response_id = turn.response_id if turn.caller.owner else None
            response = dataclasses.replace(response, conversation_id=package.conversation_id, response_id=response_id)
            completed_stage = EXECUTE
        self._packages.store(turn, response, completed_stage, answerer)
        return response

    def _resume(self, job: RunPipeline, context: JobContext) -> dict[str, Any]:
        """Continue with a stored package: only the owner's own, and with current permissions."""
        package, stage = self._packages.resumed(job, context)
        self._check_model(package.request)
        assert context.caller is not None  # noqa: S101 -- for the type checker: whoever has a package is someone
        turn = ConversationTurn.of(job, package.request, context.caller, context)
        turn = dataclasses.replace(turn, conversation_id=package.conversation_id or turn.conversation_id)
        turn, chain = self._continued(turn)
        # Stored under a new id: the resumed package stays unchanged.
        package = dataclasses.replace(package, package_id=turn.package_id)
        return as_answer(self._complete(turn, package, stage, chain))

    def _continued(self, turn: ConversationTurn) -> tuple[ConversationTurn, Chain]:
        setting = self._pipeline.setting(turn.request, claims_digest(turn.caller).hex())
        return self._conversations.continued(turn, setting, self._pipeline.mode(turn.request).history_turns)

    # --- a record -------------------------------------------------------------------------------

    def from_record(self, record: Record, caller: Principal) -> ReadAnswer:
        """Return the recorded answer with current permissions; withheld if a source changed or is not visible."""
        recorded = record.answer
        package, is_unchanged = with_texts(recorded["package"], self._corpora, caller)
        response = from_json(QueryResponse, orjson.dumps(recorded["response"]))
        # If it continues earlier turns, it may contain answers to other claims.
        goes_on = package.previous is not None or package != without_conversation(package)
        claims_differ = record.claims_sha256 != claims_digest(caller)
        if claims_differ:
            package = without_conversation(package)
        if not is_unchanged or (goes_on and claims_differ):
            # The answer may contain text that this caller may no longer read.
            response = QueryResponse(
                "ok", conversation_id=response.conversation_id, response_id=response.response_id, package=package
            )
            return ReadAnswer(response, {"short_reason": "changed"})
        response = self._pipeline.executor.with_snippets(response, package)
        if recorded["block_sha256"] is not None:
            package = self._pipeline.with_context(package)
        if _digest(package.context_block) != recorded["block_sha256"]:
            package = dataclasses.replace(package, context_block=None)
        return ReadAnswer(dataclasses.replace(response, package=package), {})

    def _keep_lyrics(self, run: RunRef, response: QueryResponse, caller: Principal) -> None:
        """Store an answer with sections beside its run's citations."""
        if response.answer is not None and self._pipeline.mode(response.package.request).sections:
            self._files.keep(caller, run, lyrics_name(run.step), lyrics_json(response))


_AS_GIVEN = (
    *("profile", "k", "starting_prompt", "conversation_id", "prior_response_id", "chat_mode"),
    *("seed", "temperature"),
)


def request_of(job: RunPipeline) -> QueryRequest:
    """Convert a job to the pipeline's own request."""
    copied_fields = {name: getattr(job, name) for name in _AS_GIVEN}
    return QueryRequest(
        question=job.question or "",
        mode=job.mode or "",
        filters=filter_set(job.filters),
        conversation_history=tuple(Turn(turn.role, turn.content) for turn in job.conversation_history or ()),
        pinned_chunks=tuple(job.pinned_chunks or ()),
        context=job.context,
        require_model=job.require_model,
        searches=tuple(
            CorpusSearch(search.corpus, search.clamped_top_k, filter_set(search.filters))
            for search in job.searches or ()
        ),
        **copied_fields,
    )


def _as_made(response: QueryResponse, then: Callable[[], None]) -> RecordedAnswer:
    """Return an answer with its recorded part, which has no texts of chunks and no snippets of them."""
    package = response.package
    bare = dataclasses.replace(
        response, package=ContextPackage(), citations=tuple(map(without_snippet, response.citations))
    )
    header = {
        "response": orjson.Fragment(to_json(bare)),
        "package": without_texts(package),
        "block_sha256": _digest(package.context_block),
    }
    recorded = orjson.loads(orjson.dumps(header))
    return RecordedAnswer(
        as_answer(response), recorded, pins_of(package.candidates), dict(package.trace.models), then=then
    )


def _digest(block: str | None) -> str | None:
    return None if block is None else hashlib.sha256(block.encode()).hexdigest()


def summary(answer: Mapping[str, Any]) -> Summary:
    """Return the number of candidates of the package, and the status."""
    return len(answer["package"]["candidates"]), str(answer["status"])
