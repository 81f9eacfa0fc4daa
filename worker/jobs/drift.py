"""Drift check: verdicts on the pins of recorded runs, in bulk, with the permissions of a given principal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import SCHEMA_VERSION
from retrieval_client.errors import InvalidJob, NotAuthorised, SettingsError
from worker.jobs.context import JobContext
from worker.jobs.principal import as_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from worker.adapters.postgres.checks import Checks, StoredRun
    from worker.core.pins.pinning import Pin
    from worker.jobs.answer import Summary
    from worker.jobs.replay import Replay
    from worker.model import Principal
    from worker.settings import Settings

VERIFY_RUNS = "verify_runs"

PAGE = 200
"""Number of runs whose pins are looked up at once."""
RUNS_PER_CHECK = 5 * PAGE
"""Runs of one scheduled check, those checked longest ago first: the next check goes on where it ended."""

_LOST = ("edited", "missing")


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """Result of checking one run.

    Attributes:
        subject_id, run_id: identify the run.
        verdicts: verdict → number of pins.
    """

    subject_id: str
    run_id: str
    verdicts: Mapping[str, int]

    @property
    def drifted(self) -> bool:
        """True if a chunk can't be replayed: it changed, is gone, or is hidden from the checking principal."""
        return any(self.verdicts.get(verdict) for verdict in _LOST)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        name = {"subject_id": self.subject_id, "run_id": self.run_id}
        return {**name, "drifted": self.drifted, "verdicts": dict(self.verdicts)}


def watcher(settings: Settings) -> Principal | None:
    """Return the principal that checks the runs of all owners: `verify.principal`; None if every corpus is public.

    Raises:
        SettingsError: the settings name no principal, or an invalid claim.
    """
    if not settings.verify.principal:
        if all(corpus.public for corpus in settings.corpora.values()):
            return None
        raise SettingsError("the setting verify.principal is missing: name the checking principal (or give --as)")
    try:
        return as_principal(settings.verify.principal, settings, "verify.principal")
    except (InvalidJob, NotAuthorised) as error:
        raise SettingsError(f"the setting {error.message}") from None


class DriftCheck:
    """Check of recorded runs against their corpora.

    Args:
        checks: stored runs, and results of checks.
        replay: finds pinned chunks again.
    """

    def __init__(self, checks: Checks, replay: Replay) -> None:
        self._checks = checks
        self._replay = replay

    def count(self, owner: str | None, subject_id: str | None = None, run_id: str | None = None) -> int:
        """Return the number of runs that `all` would check."""
        return self._checks.count(owner, subject_id, run_id)

    def all(
        self, caller: Principal | None, owner: str | None, subject_id: str | None = None, run_id: str | None = None
    ) -> Iterator[CheckedRun]:
        """Check runs page by page.

        Args:
            caller: the principal whose permissions apply to the chunks; None: anonymous.
            owner: owner of the runs; None: all owners.
            subject_id: only runs of this subject.
            run_id: only runs with this id.
        """
        last_key = 0
        while runs := self._checks.next(owner, subject_id, run_id, last_key, PAGE):
            yield from self._check(caller, owner, runs)
            last_key = runs[-1].key

    def due(self, caller: Principal | None, limit: int) -> list[CheckedRun]:
        """Check the ``limit`` runs, of all owners, that were never checked or whose check is the oldest."""
        runs = self._checks.due(limit)
        pages = (runs[start : start + PAGE] for start in range(0, len(runs), PAGE))
        return [checked for page in pages for checked in self._check(caller, None, page)]

    def _check(self, caller: Principal | None, owner: str | None, runs: Sequence[StoredRun]) -> list[CheckedRun]:
        pins = list(dict.fromkeys(pin for run in runs for pin in run.pins))
        outcomes = self._replay.at_home(pins, JobContext(lambda: caller))
        verdicts: dict[Pin, str] = {outcome.pin: outcome.verdict for outcome in outcomes}
        run_counts = [(run, dict(sorted(Counter(verdicts[pin] for pin in run.pins).items()))) for run in runs]
        self._checks.note(owner, run_counts)
        return [CheckedRun(run.subject_id, run.run_id, counts) for run, counts in run_counts]


def scheduled(settings: Settings) -> Callable[[DriftCheck], dict[str, Any]]:
    """Return the scheduled task. Any client that may write to the queue can start it, and gets two numbers.

    Raises:
        SettingsError: see `watcher`.
    """
    caller = watcher(settings)

    def check(drift: DriftCheck) -> dict[str, Any]:
        checked = drift.due(caller, RUNS_PER_CHECK)
        return {
            "schema_version": SCHEMA_VERSION,
            "checked": len(checked),
            "drifted": sum(run.drifted for run in checked),
        }

    return check


def summary(answer: Mapping[str, Any]) -> Summary:
    """Return the number of checked runs, and a text with the number that drifted."""
    return int(answer["checked"]), f"drifted={answer['drifted']}"
