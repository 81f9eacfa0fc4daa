"""`RetrievalPipeline`: the three stages, pure data in and pure data out, each by itself or one after the other."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from worker.adapters.providers.openai_api import Forgotten
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
    from worker.settings import ModeSettings

BUILD, SYNTHESIZE, EXECUTE = "build_sources", "synthesize_context", "execute"
ALL_STAGES = (BUILD, SYNTHESIZE, EXECUTE)


class RetrievalPipeline:
    """The three stages, each by itself or one after the other.

    Args:
        builder: the first stage.
        executor: the third.
        paths: corpus → field of its chunks' metadata that names the document for people.
        counter: of tokens, for the budget of a context.
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
        self, request: QueryRequest, asker: Principal, report: Report = lambda *_: None, *, reuse: bool = False
    ) -> ContextPackage:
        """What an answer may rest on; see `worker.jobs.pipeline.sources`."""
        return self.builder.build(request, asker, report, reuse=reuse)

    def synthesize_context(self, package: ContextPackage, chain: Chain | None = None) -> ContextPackage:
        """Labels, context block and starting prompt; see `worker.jobs.pipeline.synthesis`."""
        mode, _, _ = self.builder.resolve(package.request)
        chain = chain or Chain(self.setting(package.request, ""))
        started = self._clock()
        return self._timed(SYNTHESIZE, started, synthesize(package, mode, chain, self._paths, self._counter))

    def with_context(self, package: ContextPackage) -> ContextPackage:
        """The same of a package that was synthesized before and kept without its texts."""
        mode, _, _ = self.builder.resolve(package.request)
        return with_context(package, mode, self._paths, self._counter)

    def execute(
        self, package: ContextPackage, owner: str = "", history: Sequence[Turn] = ()
    ) -> tuple[QueryResponse, Answerer]:
        """The answer, and whose it is; see `worker.jobs.pipeline.execution`.

        Args:
            package: as `synthesize_context` gives it.
            owner: whose prompt cache it is.
            history: what was said before, should the provider have forgotten it.
        """
        mode, _, _ = self.builder.resolve(package.request)
        started = self._clock()
        try:
            response, answerer = self.executor.execute(package, mode, owner)
        except Forgotten:
            package = without_chain(package, mode, history, self._paths, self._counter)
            response, answerer = self.executor.execute(package, mode, owner)
        return dataclasses.replace(response, package=self._timed(EXECUTE, started, response.package)), answerer

    def _timed(self, stage: str, started: float, package: ContextPackage) -> ContextPackage:
        """A package whose trace has one stage more; of one that it went through before, the last time counts."""
        earlier = [one for one in package.trace.stages if one.stage != stage]
        done = StageTrace(stage, round((self._clock() - started) * 1000, 3), {"labels": len(package.source_labels)})
        trace = dataclasses.replace(package.trace, stages=(*earlier, done))
        return dataclasses.replace(package, trace=trace)

    def run(self, request: QueryRequest, asker: Principal) -> QueryResponse:
        """``build_sources → synthesize_context → execute``."""
        return self.execute(self.synthesize_context(self.build_sources(request, asker)), asker.owner)[0]

    def mode(self, request: QueryRequest) -> ModeSettings:
        """What the question is for."""
        return self.builder.resolve(request)[0]

    def setting(self, request: QueryRequest, claims: str) -> prompts.Setting:
        """What a turn is answered with, and for whom."""
        return prompts.Setting(self.executor.provider, self.executor.name, request.mode, claims)
