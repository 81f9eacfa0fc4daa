"""Report of a package's stages, as they are run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters import logs
from worker.core.degraded import LANGUAGE_MODEL
from worker.core.ranking.fusion import identity, relevance
from worker.core.trace import milliseconds
from worker.jobs.pipeline.types import StageTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from retrieval_client.errors import RetrievalError
    from worker.core.prompting.costs import Bill
    from worker.jobs.pipeline.ranking import Ranking

    Report = Callable[[str, int, int], None]

MODEL_FAILED = (Unavailable, SettingsError)
"""Errors of a model's server that is unavailable, broken or late, or refuses."""

log = logs.logger("worker.pipeline")


class StageLog:
    """Report of a package's stages: durations, counts and orders, failed parts, and the costs of models.

    Args:
        clock: for durations, in seconds.
        names: names of all stages, in order.
        report: called as each stage begins, with its name, the number done and the total.
        bill: records calls of models.
        require_model: whether a failure of the language model is one of the job.

    Attributes:
        stages: the completed stages, in order.
        degraded: codes of the failed parts.
        warnings: a sentence for each of them, and for what else is incomplete.
    """

    def __init__(
        self, clock: Callable[[], float], names: Sequence[str], report: Report, bill: Bill, *, require_model: bool
    ) -> None:
        self._clock = clock
        self._names = names
        self._report = report
        self.bill = bill
        self._require_model = require_model
        self.stages: list[StageTrace] = []
        self.warnings: list[str] = []
        self.degraded: list[str] = []
        self._order: tuple[tuple[tuple[str, str], ...], tuple[float | None, ...]] = ((), ())

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[dict[str, int]]:
        """Time a stage; entries added to the yielded dictionary become its counts."""
        self._report(name, self._names.index(name), len(self._names))
        counts: dict[str, int] = {}
        started = self._clock()
        yield counts
        self.stages.append(StageTrace(name, milliseconds(self._clock() - started), counts, *self._order))

    def ranked(self, ranking: Ranking) -> Ranking:
        """Note the order that a stage results in, and return it; without, it is that of the stage before."""
        self._order = tuple(map(identity, ranking.sources)), tuple(map(relevance, ranking.sources))
        return ranking

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
