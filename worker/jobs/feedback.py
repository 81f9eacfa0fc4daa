"""Feedback: which chunks of a run were used, and the leg weights that this suggests."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import LEGS, SCHEMA_VERSION
from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.feedback import Judgement
from worker.core.ranking.fusion import CONTRIBUTIONS, weight_of
from worker.core.ranking.tuning import Example, LegList, tune
from worker.core.trace import Tracer
from worker.jobs.answer import trace
from worker.jobs.recording import owner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from retrieval_client.contract.feedback import RecordFeedback
    from retrieval_client.contract.run_jobs import RunName
    from worker.adapters.postgres.feedback import CorpusFeedback, Judgements
    from worker.adapters.postgres.runs import Record, Runs
    from worker.core.ranking.tuning import Proposal
    from worker.jobs.answer import Summary
    from worker.jobs.context import JobContext
    from worker.jobs.corpora import Corpora
    from worker.model import Principal
    from worker.settings.searching import HybridSettings

ENOUGH = 20
"""Fewest retrievals with feedback for a proposal: some of the many weights tried fit a few retrievals by chance."""

LATEST = 1000
"""Number of latest searches that `tune` uses: user behaviour changes, and its run time stays bounded."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Result of tuning the leg weights.

    Attributes:
        method: the fusion method.
        retrievals: number of recorded retrievals with feedback in which more than one leg found chunks.
        searches: number of their searches, one per corpus.
        current: current weights of the legs that took part.
        proposal: None if `retrievals` is less than `ENOUGH`.
        setting: weights for the settings, including legs without feedback; None if no others are better.
    """

    method: str
    retrievals: int
    searches: int
    current: Mapping[str, float]
    proposal: Proposal | None
    setting: Mapping[str, float] | None


class Feedback:
    """Storage of feedback, and tuning by it.

    Args:
        corpora: the corpora.
        runs: the recorded runs that feedback is about.
        judgements: stored feedback.
        settings: the current weights.
        clock: for the trace only.
    """

    def __init__(
        self,
        corpora: Corpora,
        runs: Runs,
        judgements: Judgements,
        settings: HybridSettings,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._corpora = corpora
        self._runs = runs
        self._judgements = judgements
        self._settings = settings

    def record(
        self, owner: Principal, run: RunName, chunks: Sequence[str], *, used: bool = True, corpus: str | None = None
    ) -> int:
        """Record which chunks of a run were used; safe to repeat.

        Args:
            owner: owner of the run; another owner's run is unknown.
            run: the run; with a step, only what was recorded under it.
            chunks: chunks of its answers, by id or by hash (``sha256:…``): every chunk with that text.
            used: False: they were not used; the latest judgement of a chunk counts.
            corpus: corpus of the chunks; needed only if chunks of two corpora share an id.

        Returns:
            Number of judgements that are new or changed.

        Raises:
            InvalidJob: the owner has no such run, or it has no such chunk.
        """
        records = self._runs.find(owner, run, None, run.step)
        if not records:
            raise InvalidJob("no such run", "run")
        judgements = {
            judgement
            for i, chunk in enumerate(chunks)
            for judgement in _judgements(records, chunk, used, corpus, f"chunks[{i}]")
        }
        # In a fixed order, so that two callers that record the same chunks at once can't deadlock.
        return self._judgements.note(owner, run, sorted(judgements, key=astuple))

    def answer(self, job: RecordFeedback, context: JobContext) -> dict[str, Any]:
        """Answer `record_feedback`; safe to repeat.

        Raises:
            NotAuthorised: the caller has no owner claim.
            InvalidJob: the caller has no such run.
        """
        tracer = Tracer(self._clock)
        owner = owner_of(context.caller)
        with tracer.stage("record") as counts:
            records = self._runs.find(owner, job.run, None, job.run.step)
            if not records:
                raise InvalidJob("no such run", "run")
            usage = dict.fromkeys(job.not_used, False) | dict.fromkeys(job.used, True)
            judgements = _of_hashes(records, usage)
            known_hashes = {pin.pin.chunk_hash for record in records for pin in record.pins}
            # In a fixed order, as in `record`.
            in_order = sorted(judgements, key=astuple)
            changed = self._judgements.record(owner, job.run, in_order, _rating(job), context.task_id)
            counts |= {"changed": changed}
        return {
            "schema_version": SCHEMA_VERSION,
            "degraded": [],
            "recorded": sum(chunk_hash in known_hashes for chunk_hash in usage),
            "unknown": [
                chunk_hash for chunk_hash in dict.fromkeys([*job.used, *job.not_used]) if chunk_hash not in known_hashes
            ],
            "trace": trace(tracer),
        }

    def tune(
        self, owner: Principal | None, *, corpus: str | None = None, method: str | None = None, k: int = 5
    ) -> Tuning:
        """Propose weights; nothing is changed.

        Args:
            owner: owner of the feedback; None: all owners', of which only figures are returned.
            corpus: only searches over this corpus.
            method: the fusion method: ``weighted`` or ``rrf``; None: the settings', or
                ``weighted`` where those name one without weights.
            k: number of results a user looks at, 1 or more.

        Raises:
            InvalidJob: no such corpus, or the method has no weights.
        """
        default = self._settings.fusion if self._settings.fusion in CONTRIBUTIONS else "weighted"
        method = default if method is None else method
        if method not in CONTRIBUTIONS:
            raise InvalidJob(f"expected one of {', '.join(sorted(CONTRIBUTIONS))}", "method")
        if corpus is not None:
            self._corpora.get(corpus)
        judged = [feedback for feedback in self._judgements.judged(owner, corpus, LATEST) if _can_tell(feedback)]
        retrievals = len({feedback.retrieval for feedback in judged})
        weights = self._settings.weights_of(method)
        current = _current(judged, weights, method)
        if retrievals < ENOUGH:
            return Tuning(method, retrievals, len(judged), current, None, None)
        fitted = current.keys() - weights.keys() if method == "weighted" else ()
        proposal = tune([_example(feedback) for feedback in judged], current, method=method, k=k, fitted=fitted)
        return Tuning(method, retrievals, len(judged), current, proposal, _setting(weights, current, proposal.weights))


def _of_hashes(records: Sequence[Record], usage: Mapping[str, bool]) -> set[Judgement]:
    """Return the judgements of all chunks with one of the hashes, for each record that contains them."""
    return {
        Judgement(record.task, record.step, pin.corpus or "", pin.chunk_id or "", usage[pin.chunk_hash])
        for record in records
        for pin in (recorded.pin for recorded in record.pins)
        if pin.chunk_hash in usage
    }


def _rating(job: RecordFeedback) -> dict[str, Any] | None:
    if job.rating is None and job.note is None:
        return None
    return {"step": job.run.step or "", "rating": job.rating, "note": job.note}


def _judgements(records: Sequence[Record], chunk: str, used: bool, corpus: str | None, path: str) -> list[Judgement]:
    """Return the judgements of a chunk, for each record that contains it."""
    judgements = [
        Judgement(record.task, record.step, recorded.pin.corpus or "", recorded.pin.chunk_id or "", used)
        for record in records
        for recorded in record.pins
        if chunk in {recorded.pin.chunk_id, recorded.pin.chunk_hash} and corpus in {None, recorded.pin.corpus}
    ]
    if not judgements:
        raise InvalidJob("expected a chunk of the run", path)
    if len({judgement.corpus for judgement in judgements}) > 1:
        raise InvalidJob("expected this field: chunks of several corpora of the run share an id", "corpus")
    return judgements


def _can_tell(judged: CorpusFeedback) -> bool:
    """Return whether more than one leg listed chunks; otherwise all weights give the same ranking."""
    return sum(bool(_leg_list(leg).score_list.listed) for leg in judged.legs) > 1


def _example(judged: CorpusFeedback) -> Example:
    return Example(tuple(map(_leg_list, judged.legs)), frozenset(judged.used))


def _leg_list(leg: Mapping[str, Any]) -> LegList:
    """Return a recorded leg; records of earlier versions have its listed chunks only."""
    return LegList(
        leg["leg"],
        tuple(leg["chunk_ids"]),
        tuple(leg["scores"]),
        leg.get("listed"),
        tuple(leg.get("coverage") or ()),
        leg.get("usual"),
    )


def _current(judged: Sequence[CorpusFeedback], weights: Mapping[str, float], method: str) -> dict[str, float]:
    seen = {leg["leg"] for feedback in judged for leg in feedback.legs}
    return {leg: weight_of(method, leg, weights) for leg in LEGS if leg in seen}


def _setting(
    weights: Mapping[str, float], current: Mapping[str, float], proposed: Mapping[str, float]
) -> dict[str, float] | None:
    """Return the proposal as a setting; a leg without feedback keeps its weight relative to the sum of the others."""
    if dict(proposed) == current:
        return None
    total = math.fsum(current.values()) or 1.0
    other_weights = {leg: round(weight / total, 4) for leg, weight in weights.items() if leg not in current}
    return {leg: (other_weights | {**proposed})[leg] for leg in LEGS if leg in other_weights or leg in proposed}


def summary(answer: Mapping[str, Any]) -> Summary:
    """Return the number of chunks with recorded feedback, and a text with the number of unknown hashes."""
    return int(answer["recorded"]), f"{len(answer['unknown'])} unknown"
