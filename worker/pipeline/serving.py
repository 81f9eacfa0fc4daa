"""`run_pipeline`: the three stages as a job, with conversations, packages kept between stages, and runs."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from worker.adapters.sessions import Response, StoredPackage
from worker.contract import SCHEMA_VERSION
from worker.core import prompts
from worker.core.canonical import canonical_sha256
from worker.core.costs import written
from worker.errors import InvalidJob, NotAuthorised
from worker.pipeline.keeping import told, with_texts, without_texts
from worker.pipeline.synthesis import Chain, synthesize, with_context
from worker.pipeline.types import (
    ContextPackage,
    CorpusSearch,
    QueryRequest,
    QueryResponse,
    StageTrace,
    Turn,
    from_json,
    to_json,
)
from worker.recording import Made, claims_digest, job_digest, pins_of
from worker.retrieval import WORKER_VERSION, described, filter_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from worker.adapters.runs import Record
    from worker.adapters.sessions import Sessions
    from worker.contract import RunName, RunPipeline
    from worker.corpora import Corpora, Identify
    from worker.model import Principal
    from worker.pipeline.execution import Executor
    from worker.pipeline.keeping import Told
    from worker.pipeline.sources import SourceBuilder
    from worker.pipeline.stages import Report
    from worker.recording import Recording

TASK = "run_pipeline"
BUILD, SYNTHESIZE, EXECUTE = "build_sources", "synthesize_context", "execute"
ALL_STAGES = (BUILD, SYNTHESIZE, EXECUTE)


class RetrievalPipeline:
    """The three stages, each by itself or one after the other.

    Args:
        builder: the first stage.
        executor: the third.
        paths: corpus → field of its chunks' metadata that names the document for people.
        clock: for durations, in seconds.
    """

    def __init__(
        self, builder: SourceBuilder, executor: Executor, paths: Mapping[str, str], clock: Callable[[], float]
    ) -> None:
        self.builder = builder
        self.executor = executor
        self._paths = paths
        self._clock = clock

    def build_sources(
        self, request: QueryRequest, asker: Principal, report: Report = lambda *_: None
    ) -> ContextPackage:
        """What an answer may rest on; see `worker.pipeline.sources`."""
        return self.builder.build(request, asker, report)

    def synthesize_context(self, package: ContextPackage, chain: Chain | None = None) -> ContextPackage:
        """Labels, context block and starting prompt; see `worker.pipeline.synthesis`."""
        mode, _, _ = self.builder.resolve(package.request)
        chain = chain or Chain(self.setting(package.request, ""))
        started = self._clock()
        return self._timed(SYNTHESIZE, started, synthesize(package, mode, chain, self._paths))

    def with_context(self, package: ContextPackage) -> ContextPackage:
        """The same of a package that was synthesized before and kept without its texts."""
        mode, _, _ = self.builder.resolve(package.request)
        return with_context(package, mode, self._paths)

    def execute(self, package: ContextPackage, owner: str = "") -> tuple[QueryResponse, str | None]:
        """The answer, and the provider's name for it; see `worker.pipeline.execution`."""
        mode, _, _ = self.builder.resolve(package.request)
        started = self._clock()
        response, provider_id = self.executor.execute(package, mode, owner)
        return dataclasses.replace(response, package=self._timed(EXECUTE, started, response.package)), provider_id

    def _timed(self, stage: str, started: float, package: ContextPackage) -> ContextPackage:
        """A package whose trace has one stage more."""
        done = StageTrace(stage, round((self._clock() - started) * 1000, 3), {"labels": len(package.source_labels)})
        trace = dataclasses.replace(package.trace, stages=(*package.trace.stages, done))
        return dataclasses.replace(package, trace=trace)

    def run(self, request: QueryRequest, asker: Principal) -> QueryResponse:
        """``build_sources → synthesize_context → execute``."""
        return self.execute(self.synthesize_context(self.build_sources(request, asker)), asker.owner)[0]

    def setting(self, request: QueryRequest, claims: str) -> prompts.Setting:
        """What a turn is answered with, and for whom."""
        return prompts.Setting(self.executor.provider, self.executor.name, request.mode, claims)


class PipelineJobs:
    """Answers `run_pipeline` jobs.

    Args:
        pipeline: the stages.
        corpora: what can be searched.
        sessions: conversations and packages.
        recording: answers recorded jobs once.
    """

    def __init__(self, pipeline: RetrievalPipeline, corpora: Corpora, sessions: Sessions, recording: Recording) -> None:
        self._pipeline = pipeline
        self._corpora = corpora
        self._sessions = sessions
        self._recording = recording

    def answer(self, job: RunPipeline, identify: Identify) -> dict[str, Any]:
        """Answer `run_pipeline`.

        Raises:
            InvalidJob: a mode, profile, corpus, package or earlier answer that is not there.
            NotAuthorised: nobody that this worker believes is asking, and a corpus is not public; or something is
                to be kept, and the caller has no owner claim.
            RetrievalError: a search or the model failed.
        """
        if job.resume is not None:
            return self._resume(job, identify)
        request = request_of(job)
        asker = self._asker(request, identify)
        turn = _Turn.of(job, request, asker, getattr(identify, "task_id", ""))

        def make() -> Made:
            return self._made(job, request, asker, turn, identify)

        if job.run is None:
            return make().answer
        return self._recording.answer(TASK, job, asker, make, replay=lambda record: self._from_record(record, asker))

    def told(self, run: RunName, asker: Principal) -> list[Told]:
        """How the answers recorded under a run came about, step by step; with no look at any source.

        Raises:
            InvalidJob: the caller has no such run, or it holds none of this task.
        """
        return [told(record) for record in self._recording.records(asker, run, TASK)]

    def _asker(self, request: QueryRequest, identify: Identify) -> Principal:
        mode, _, _ = self._pipeline.builder.resolve(request)
        searches = self._pipeline.builder.searches(request, mode)
        corpora = [self._corpora.get(search.corpus, f"searches[{i}].corpus") for i, search in enumerate(searches)]
        return self._corpora.asker_of_all(corpora, identify)

    def _made(self, job: RunPipeline, request: QueryRequest, asker: Principal, turn: _Turn, identify: Identify) -> Made:
        chain = self._chain(request, asker, turn)
        report: Report = getattr(identify, "report", lambda *_: None)
        package = self._pipeline.build_sources(request, asker, report)
        package = dataclasses.replace(
            package, conversation_id=turn.conversation_id, package_id=turn.package_id if asker.owner else None
        )
        return self._go_on(job, package, BUILD, chain, asker, turn, report)

    def _go_on(
        self,
        job: RunPipeline,
        package: ContextPackage,
        done: str,
        chain: Chain,
        asker: Principal,
        turn: _Turn,
        report: Report,
    ) -> Made:
        """The stages after ``done``, up to where the job stops."""
        last = job.stop_after or EXECUTE
        found = package.candidates or package.remote_sources
        response, provider_id = QueryResponse("ok" if found else "empty", package=package), None
        if ALL_STAGES.index(last) >= 1:
            # Also for a package that has been there: its texts were read again, and so is its block.
            package = self._pipeline.synthesize_context(package, chain)
            response = dataclasses.replace(response, package=package)
            done = SYNTHESIZE
        if last == EXECUTE:
            report(EXECUTE, 1, 1)
            response, provider_id = self._pipeline.execute(package, asker.owner)
            response = dataclasses.replace(
                response, conversation_id=turn.conversation_id, response_id=turn.response_id if asker.owner else None
            )
            done = EXECUTE
        self._keep(response, done, asker, turn, provider_id)
        return _as_made(response)

    # --- what is kept ---------------------------------------------------------------------------

    def _chain(self, request: QueryRequest, asker: Principal, turn: _Turn) -> Chain:
        """What this turn goes on from."""
        now = self._pipeline.setting(request, claims_digest(asker).hex())
        if request.prior_response_id is None:
            history = self._history(request, asker, turn)
            return Chain(now, history=history)
        owner = _owner(asker, "prior_response_id")
        previous = self._sessions.response(owner, request.prior_response_id)
        if previous is None:
            raise InvalidJob("no such response", "prior_response_id")
        if request.conversation_id not in {None, previous.conversation_id}:
            raise InvalidJob("expected the conversation of prior_response_id", "conversation_id")
        turn.conversation_id = previous.conversation_id
        was = prompts.Setting(previous.provider, previous.model, previous.mode, previous.claims_sha256.hex())
        return Chain(
            now,
            prompts.Turn(was, previous.starting_prompt),
            previous.provider_response_id,
            self._history(request, asker, turn),
        )

    def _history(self, request: QueryRequest, asker: Principal, turn: _Turn) -> Sequence[Turn]:
        """What was said before: as the caller says, else as it was kept."""
        if request.conversation_history or request.chat_mode == "single" or not asker.owner:
            return request.conversation_history
        mode, _, _ = self._pipeline.builder.resolve(request)
        kept = self._sessions.turns(asker.owner, turn.conversation_id, mode.history_turns) if mode.history_turns else []
        # What other claims were told may be hidden from these.
        claims = claims_digest(asker)
        return [
            said
            for one in kept
            if one.claims_sha256 == claims
            for said in (Turn("user", one.question), Turn("assistant", one.answer or ""))
        ]

    def _keep(
        self, response: QueryResponse, stage: str, asker: Principal, turn: _Turn, provider_id: str | None
    ) -> None:
        """The package, and the answer, for whoever goes on from them; nothing where nobody can."""
        package = response.package
        if package.package_id is None:
            return
        claims = claims_digest(asker)
        kept = StoredPackage(package.package_id, stage, without_texts(package), claims)
        if stage != EXECUTE:
            self._sessions.keep(asker.owner, kept)
            return
        executor = self._pipeline.executor
        said = Response(
            response_id=turn.response_id,
            conversation_id=turn.conversation_id,
            mode=package.request.mode,
            provider=executor.provider,
            model=executor.name,
            claims_sha256=claims,
            provider_response_id=provider_id,
            starting_prompt=package.starting_prompt or "",
            question=package.request.question,
            answer=response.answer,
            package_id=package.package_id,
        )
        self._sessions.keep(asker.owner, kept, said)

    def _resume(self, job: RunPipeline, identify: Identify) -> dict[str, Any]:
        """Go on with a package that was kept: only the owner's own, and with the rights of now."""
        asker = identify()
        owner = _owner(asker, "resume") if asker is not None else ""
        stored = self._sessions.package(owner, job.resume or "") if owner else None
        if asker is None or stored is None:
            raise InvalidJob("no such package", "resume")
        if stored.stage == EXECUTE:
            raise InvalidJob("this package has been answered: ask anew", "resume")
        package, whole = with_texts(stored.content, self._corpora, asker)
        if stored.claims_sha256 != claims_digest(asker):
            # What other claims were told may be hidden from these.
            request = dataclasses.replace(package.request, conversation_history=())
            package = dataclasses.replace(package, request=request)
        if not whole:
            changed = "resume: sources that changed or can't be seen any more are left out"
            trace = dataclasses.replace(package.trace, warnings=(*package.trace.warnings, changed))
            package = dataclasses.replace(package, trace=trace)
        turn = _Turn.of(job, package.request, asker, getattr(identify, "task_id", ""))
        turn.conversation_id = package.conversation_id or turn.conversation_id
        chain = self._chain(package.request, asker, turn)
        # Kept under a name of its own: the package that was looked at stays as it was.
        package = dataclasses.replace(package, package_id=turn.package_id)
        report: Report = getattr(identify, "report", lambda *_: None)
        return self._go_on(job, package, stored.stage, chain, asker, turn, report).answer

    # --- a record -------------------------------------------------------------------------------

    def _from_record(self, record: Record, asker: Principal) -> dict[str, Any]:
        """The recorded answer, authorised now: held back where a source changed or can't be seen any more."""
        kept = record.answer
        package, whole = with_texts(kept["package"], self._corpora, asker)
        response = from_json(QueryResponse, orjson.dumps(kept["response"]))
        # Where it goes on from earlier turns, it may say what other claims were told in them.
        goes_on = package.previous is not None or bool(package.request.conversation_history)
        if not whole or (goes_on and record.claims_sha256 != claims_digest(asker)):
            # What the answer says may be what this caller must not read any more.
            response = QueryResponse(
                "ok", conversation_id=response.conversation_id, response_id=response.response_id, package=package
            )
            return {**as_answer(response), "short_reason": "changed"}
        if kept["block_sha256"] is not None:
            package = self._pipeline.with_context(package)
        if _digest(package.context_block) != kept["block_sha256"]:
            package = dataclasses.replace(package, context_block=None)
        return as_answer(dataclasses.replace(response, package=package))


@dataclasses.dataclass
class _Turn:
    """The names of what this turn makes: the same if the same message is delivered again."""

    conversation_id: str
    response_id: str
    package_id: str

    @classmethod
    def of(cls, job: RunPipeline, request: QueryRequest, asker: Principal, task_id: str) -> _Turn:
        seed = [asker.owner, request.prior_response_id, job_digest(job).hex(), task_id]
        digest = canonical_sha256(seed)
        return cls(request.conversation_id or f"conv_{digest[:24]}", f"resp_{digest[:24]}", f"pkg_{digest[24:48]}")


def request_of(job: RunPipeline) -> QueryRequest:
    """A job as the pipeline's own request."""
    given = {
        name: getattr(job, name)
        for name in ("mode", "profile", "k", "starting_prompt", "conversation_id", "prior_response_id", "chat_mode")
    }
    return QueryRequest(
        question=job.question or "",
        filters=filter_set(job.filters),
        conversation_history=tuple(Turn(turn.role, turn.content) for turn in job.conversation_history or ()),
        pinned_chunks=tuple(job.pinned_chunks or ()),
        context=job.context,
        searches=tuple(
            CorpusSearch(search.corpus, search.clamped_top_k, filter_set(search.filters))
            for search in job.searches or ()
        ),
        **given,
    )


def _owner(asker: Principal, field: str) -> str:
    if not asker.owner:
        raise NotAuthorised(
            f"{field}: only a caller with the owner claim of the settings has conversations and packages"
        )
    return asker.owner


def _as_made(response: QueryResponse) -> Made:
    """An answer, and what of it is recorded: texts of chunks are not."""
    package = response.package
    bare = dataclasses.replace(response, package=ContextPackage())
    header = {
        "response": orjson.loads(to_json(bare)),
        "package": without_texts(package),
        "block_sha256": _digest(package.context_block),
    }
    pins = pins_of([(candidate.corpus, candidate) for candidate in package.candidates])
    return Made(as_answer(response), header, pins, dict(package.trace.models))


def _digest(block: str | None) -> str | None:
    return None if block is None else hashlib.sha256(block.encode()).hexdigest()


# --- the answer on the wire ---------------------------------------------------------------------


def as_answer(response: QueryResponse) -> dict[str, Any]:
    """A response as the contract has it."""
    package = response.package
    return {
        "schema_version": SCHEMA_VERSION,
        "status": response.status,
        "short_reason": None,
        "answer": response.answer,
        "citations": [asdict(citation) for citation in response.citations],
        "supported": list(response.supported),
        "unknown_labels": list(response.unknown_labels),
        "package": {
            "package_id": package.package_id,
            "candidates": [
                {**described(one, rank), "scores": asdict(one.scores), "corpus": one.corpus}
                for rank, one in enumerate(package.candidates, 1)
            ],
            "source_labels": {label: dict(name) for label, name in package.source_labels.items()},
            "context_block": package.context_block,
            "starting_prompt": package.starting_prompt,
            "remote_sources": [asdict(found) for found in package.remote_sources],
        },
        "costs": [
            {
                "kind": one.kind,
                "provider": one.provider,
                "model": one.model,
                "input_tokens": one.tokens.input,
                "cached_tokens": one.tokens.cached_input,
                "output_tokens": one.tokens.output,
                "cost": written(one.cost),
            }
            for one in package.costs
        ],
        "conversation_id": response.conversation_id,
        "response_id": response.response_id,
        "trace": _trace(package),
    }


def _trace(package: ContextPackage) -> dict[str, Any]:
    trace = package.trace
    return {
        "stages": [
            {
                "stage": one.stage,
                "duration_ms": one.duration_ms,
                "counts": dict(one.counts),
                "candidates": [list(candidate) for candidate in one.candidates],
            }
            for one in trace.stages
        ],
        "search": {"profile": package.profile, "legs_ms": dict(trace.legs)},
        "models": dict(trace.models),
        "worker_version": WORKER_VERSION,
        "left": [asdict(one) for one in trace.left],
        "queries": dict(trace.queries),
        "hyde": list(trace.hyde),
        "warnings": list(trace.warnings),
    }
