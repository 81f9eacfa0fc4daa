"""Reading: views of a caller's runs, read with the caller's current permissions."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.base import parse_part
from retrieval_client.contract.pinned import Citations, Replay
from retrieval_client.contract.results import Hybrid, TopK
from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.runs import Event
from worker.core.citations.document import read_citations_json
from worker.core.citations.quoting.differences import ACCEPTED
from worker.inspector.view.citations import DECISIONS, CitationsView, Decision, citations_view
from worker.inspector.view.drift import DriftView, drift_view
from worker.inspector.view.record import about_record
from worker.inspector.view.run import RunView, run_view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from worker.adapters.postgres.runs import Record
    from worker.jobs.run_reading import RunReader
    from worker.model import Principal

DECIDED = "decided"
"""Kind of the event of a reader's decision on a conflict."""

_ANSWERS: Mapping[str, type[TopK | Hybrid | PipelineAnswer]] = {
    "retrieve_top_k": TopK,
    "retrieve_hybrid": Hybrid,
    "run_pipeline": PipelineAnswer,
}


@dataclass(frozen=True, slots=True)
class RunPage:
    """Run, with the views of its answers.

    Attributes:
        name: the run.
        views: view of each record with an answer, in the order of recording.
        events: the run's events, in their order.
    """

    name: RunName
    views: tuple[RunView, ...]
    events: Sequence[Event]


class RunViews:
    """Views of recorded runs.

    Args:
        reader: reads the runs.
        paths: corpus → field of its chunks' metadata with the document's readable name.
        accepted: kinds of differences that a ``normalised`` quote may have.
    """

    def __init__(
        self, reader: RunReader, paths: Mapping[str, str] = MappingProxyType({}), accepted: frozenset[str] = ACCEPTED
    ) -> None:
        self._reader = reader
        self._paths = paths
        self._accepted = accepted

    def run(self, caller: Principal, name: RunName) -> RunPage:
        """Return the views of a run, or of its step.

        Raises:
            InvalidJob: the caller has no such run.
        """
        records = self._reader.records(caller, name)
        views = tuple(view for record in records if (view := self._view(caller, name, record)) is not None)
        return RunPage(name, views, self._reader.events(caller, name))

    def citations(self, caller: Principal, name: RunName) -> CitationsView:
        """Return the citations of a run, checked now, with the reader's decisions; without chunks, none.

        Raises:
            InvalidJob: the caller has no such run.
        """
        answer = self._reader.citations(caller, name)
        if answer is None:
            return CitationsView(())
        answer_candidates = (candidate for view in self.run(caller, name).views for candidate in view.kept)
        titles = {
            candidate.document_id: candidate.title
            for candidate in answer_candidates
            if candidate.document_id and candidate.title
        }
        return citations_view(Citations.model_validate(answer), self._decisions(caller, name), titles)

    def drift(self, caller: Principal, name: RunName) -> DriftView | None:
        """Return the state of a run's pins now; None for a run without pins.

        The pinned texts are those of the run's stored citations document; of an edited chunk, which the caller may
        still see, the page shows the difference.

        Raises:
            InvalidJob: the caller has no such run.
        """
        answer = self._reader.replay(caller, name)
        if answer is None:
            return None
        replay = Replay.model_validate(answer)
        edited = [pin.found_hash for pin in replay.pins if pin.verdict == "edited" and pin.found_hash]
        return drift_view(replay, self._pinned_texts(caller, name), self._reader.texts(caller, edited))

    def decide(self, caller: Principal, name: RunName, conflict: str, decision: Decision, at: datetime) -> None:
        """Keep a reader's decision on a conflict with the run; the sources stay as they are.

        Raises:
            InvalidJob: the caller has no such run, or the run no such conflict.
        """
        if all(conflict_view.key != conflict for conflict_view in self.citations(caller, name).conflicts):
            raise InvalidJob("no such conflict", "conflict")
        self._reader.add_event(caller, name, Event(DECIDED, {"conflict": conflict, "decision": decision}, at))

    def _view(self, caller: Principal, name: RunName, record: Record) -> RunView | None:
        answer = self._reader.answer(record, caller) if record.task in _ANSWERS else None
        if answer is None:
            return None
        about = replace(about_record(record, name), paths=self._paths, accepted=self._accepted)
        return run_view(_ANSWERS[record.task].model_validate(answer), about)

    def _decisions(self, caller: Principal, name: RunName) -> dict[str, Decision]:
        """Return the latest decision on each conflict."""
        decided: dict[str, Decision] = {}
        for event in self._reader.events(caller, name):
            if event.kind == DECIDED and event.data.get("decision") in DECISIONS:
                decided[str(event.data.get("conflict"))] = event.data["decision"]
        return decided

    def _pinned_texts(self, caller: Principal, name: RunName) -> dict[str, str]:
        content = self._reader.stored_citations(caller, name)
        try:
            records = read_citations_json(json.loads(content)) if content else []
        except (InvalidJob, ValueError, RecursionError):  # a file that someone else put there
            return {}
        return {record.chunk_hash: record.text for record in records}


def run_name(fields: Mapping[str, Any]) -> RunName:
    """Return the run that an address names; an address that can't name one is that of an unknown run.

    Raises:
        InvalidJob: it names none.
    """
    return parse_part(
        RunName,
        {
            "subject_id": fields.get("subject", ""),
            "run_id": fields.get("run", ""),
            **({"step": fields["step"]} if fields.get("step") else {}),
        },
    )
