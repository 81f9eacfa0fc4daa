"""Stages of a package: their durations, counts, and dropped candidates with reasons."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters import logs
from worker.core.degraded import LANGUAGE_MODEL
from worker.core.ranking.fusion import identity, relevance
from worker.core.trace import milliseconds
from worker.jobs.pipeline.types import DroppedCandidate, RetrievalTrace, StageTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from retrieval_client.errors import RetrievalError
    from worker.core.prompting.costs import Bill
    from worker.core.ranking.diversity import Selection
    from worker.model import Candidate

    Report = Callable[[str, int, int], None]

MODEL_FAILED = (Unavailable, SettingsError)
"""Errors of a model's server that is unavailable, broken or late, or refuses."""

log = logs.logger("worker.pipeline")


class Stages:
    """State and trace of a package while it is built.

    Args:
        clock: for durations, in seconds.
        names: names of all stages, in order.
        report: called as each stage begins, with its name, the number done and the total.
        bill: records calls of models.
        require_model: whether a failure of the language model is one of the job.

    Attributes:
        reworded: the question as a model worded it in full; None: as asked.
        joined: the question with those before it; None: it has none.
        pinned: chunks that the request pins by hash; never dropped.
        candidates: the others, best first.
    """

    def __init__(
        self, clock: Callable[[], float], names: Sequence[str], report: Report, bill: Bill, *, require_model: bool
    ) -> None:
        self._clock = clock
        self._names = names
        self._report = report
        self.bill = bill
        self._require_model = require_model
        self._stages: list[StageTrace] = []
        self._left: list[DroppedCandidate] = []
        self.warnings: list[str] = []
        self.degraded: list[str] = []
        self.queries: dict[str, str] = {}
        self.reworded: str | None = None
        self.joined: str | None = None
        self.legs: dict[str, float] = {}
        self.methods: dict[str, tuple[str, ...]] = {}
        self.weights: dict[str, float] = {}
        self.statistics: dict[str, tuple[Mapping[str, Any] | None, ...]] = {}
        self.models: dict[str, str] = {}
        self.hyde: tuple[str, ...] = ()
        self.cache: Literal["hit", "miss"] | None = None
        self.pinned: Sequence[Candidate] = ()
        self.candidates: Sequence[Candidate] = ()
        self._noted: tuple[Sequence[Candidate], Sequence[Candidate]] = ((), ())
        self._after: tuple[tuple[tuple[str, str], ...], tuple[float | None, ...]] = ((), ())

    @property
    def sources(self) -> tuple[Candidate, ...]:
        """All sources, pinned ones first."""
        return (*self.pinned, *self.candidates)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[dict[str, int]]:
        """Time a stage; entries added to the yielded dictionary become its counts."""
        self._report(name, self._names.index(name), len(self._names))
        counts: dict[str, int] = {}
        started = self._clock()
        yield counts
        duration = milliseconds(self._clock() - started)
        if self.pinned is not self._noted[0] or self.candidates is not self._noted[1]:
            self._noted = (self.pinned, self.candidates)
            self._after = tuple(map(identity, self.sources)), tuple(map(relevance, self.sources))
        self._stages.append(StageTrace(name, duration, counts, *self._after))

    def degrade(self, code: str, failed_part: str, reason: str) -> None:
        """Record the failure of an optional part; the job continues without it."""
        self.degraded.append(code)
        self.warnings.append(f"{failed_part}: {reason}")
        log.warning("answer degraded", code=code, what=failed_part, reason=reason)

    def continue_without_model(self, failed_part: str, error: RetrievalError) -> None:
        """Degrade after a failure of the language model, unless the job requires it.

        Raises:
            Unavailable: the job requires it.
        """
        if self._require_model:
            raise Unavailable(error.message) from None
        self.degrade(LANGUAGE_MODEL, failed_part, error.message)

    def keep(self, stage: str, selection: Selection) -> None:
        """Continue with the candidates that a step kept, and record why the others were dropped."""
        self.candidates = selection.kept
        self.leave(stage, ((dropped.candidate, dropped.reason) for dropped in selection.dropped))

    def leave(self, stage: str, dropped: Iterable[tuple[Candidate, str]]) -> None:
        """Record why candidates were dropped."""
        self._left += [
            DroppedCandidate(candidate.corpus, candidate.chunk.id, stage, reason) for candidate, reason in dropped
        ]

    def trace(self) -> RetrievalTrace:
        """Return the trace; candidates dropped before they were pinned do not count as dropped."""
        stayed = {*map(identity, self.pinned)}
        return RetrievalTrace(
            stages=tuple(self._stages),
            left=tuple(candidate for candidate in self._left if (candidate.corpus, candidate.chunk_id) not in stayed),
            queries=dict(self.queries),
            conversation=self.reworded or self.joined,
            legs=dict(self.legs),
            methods=dict(self.methods),
            weights=dict(self.weights),
            statistics=dict(self.statistics),
            hyde=self.hyde,
            models=dict(self.models),
            cache=self.cache,
            warnings=tuple(self.warnings),
        )
