"""`RetrievalPipeline`: the three stages, with plain data in and out, each by itself or in sequence."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from worker.adapters.providers.language_model import UnknownAnswer
from worker.core.prompting import prompts
from worker.jobs.pipeline.synthesis import Chain, synthesize, with_context, without_chain
from worker.jobs.pipeline.types import ContextPackage, QueryRequest, QueryResponse, StageTrace, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from worker.core.prompting.context import TokenCounter
    from worker.jobs.pipeline.execution import Answerer, Executor
    from worker.jobs.pipeline.sources import SourceBuilder
    from worker.jobs.pipeline.stages import Report
    from worker.model import Principal
    from worker.settings.searching import ModeSettings

BUILD, SYNTHESIZE, EXECUTE = "build_sources", "synthesize_context", "execute"
ALL_STAGES = (BUILD, SYNTHESIZE, EXECUTE)


class RetrievalPipeline:
    """Three stages, run separately or in sequence.

    Args:
        builder: the first stage.
        executor: the third stage.
        paths: corpus → field of its chunks' metadata with the document's readable name.
        counter: counts tokens, for the budget of a context.
        clock: for durations, in seconds.
    """

    def __init__(
        self,
        builder: SourceBuilder,
        executor: Executor,
        paths: Mapping[str, str],
        counter: TokenCounter,
        clock: Callable[[], float],
    ) -> None:
        self.builder = builder
        self.executor = executor
        self._paths = paths
        self._counter = counter
        self._clock = clock

    def build_sources(
        self,
        request: QueryRequest,
        caller: Principal,
        report: Report = lambda *_: None,
        *,
        reuse: bool = False,
        history: Sequence[Turn] = (),
    ) -> ContextPackage:
        """Find the sources for an answer; see `worker.jobs.pipeline.sources`."""
        return self.builder.build(request, caller, report, reuse=reuse, history=history)

    def synthesize_context(self, package: ContextPackage, chain: Chain | None = None) -> ContextPackage:
        """Add labels, context block and starting prompt; see `worker.jobs.pipeline.synthesis`."""
        mode = self.mode(package.request)
        chain = chain or Chain(self.setting(package.request, ""))
        started = self._clock()
        return self._timed(SYNTHESIZE, started, synthesize(package, mode, chain, self._paths, self._counter))

    def with_context(self, package: ContextPackage) -> ContextPackage:
        """Build labels and context block again, for a synthesized package that was stored without texts."""
        mode = self.mode(package.request)
        return with_context(package, mode, self._paths, self._counter)

    def execute(
        self, package: ContextPackage, owner: str = "", history: Sequence[Turn] = ()
    ) -> tuple[QueryResponse, Answerer]:
        """Return the answer and its model; see `worker.jobs.pipeline.execution`.

        Args:
            package: result of `synthesize_context`.
            owner: owner of the prompt cache.
            history: earlier turns, used if the provider no longer has them.
        """
        mode = self.mode(package.request)
        started = self._clock()
        try:
            response, answerer = self.executor.execute(package, mode, owner)
        except UnknownAnswer:
            package = without_chain(package, mode, history, self._paths, self._counter)
            response, answerer = self.executor.execute(package, mode, owner)
        return dataclasses.replace(response, package=self._timed(EXECUTE, started, response.package)), answerer

    def _timed(self, stage: str, started: float, package: ContextPackage) -> ContextPackage:
        """Add a stage to a package's trace, in place of an earlier entry of the same stage."""
        earlier = [stage_trace for stage_trace in package.trace.stages if stage_trace.stage != stage]
        entry = StageTrace(stage, round((self._clock() - started) * 1000, 3), {"labels": len(package.source_labels)})
        trace = dataclasses.replace(package.trace, stages=(*earlier, entry))
        return dataclasses.replace(package, trace=trace)

    def run(self, request: QueryRequest, caller: Principal) -> QueryResponse:
        """Run ``build_sources → synthesize_context → execute``."""
        return self.execute(self.synthesize_context(self.build_sources(request, caller)), caller.owner)[0]

    def mode(self, request: QueryRequest) -> ModeSettings:
        """Return the mode of a request."""
        return self.builder.mode(request)[1]

    def setting(self, request: QueryRequest, claims: str) -> prompts.Setting:
        """Return the setting of a turn: provider, model, mode and claims."""
        mode_name, _ = self.builder.mode(request)
        return prompts.Setting(self.executor.provider, self.executor.name, mode_name, claims)
