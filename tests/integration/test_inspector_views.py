"""Views of real records: made from what Postgres holds, with the permissions of who reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.integration.asking import HUM, ask, asker

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.run_jobs import RunName
from worker.inspector.view.record import about_record
from worker.inspector.view.run import run_view

if TYPE_CHECKING:
    from worker.jobs.engine import Engine

RUN = {"subject_id": "song-1", "run_id": "r1"}


def test_the_view_of_a_record_has_all_that_its_trace_has(engine: Engine) -> None:
    """Stages with their times, ranks after each, dropped candidates with reasons, and the answer with its sources."""
    answer: dict[str, Any] = ask(engine, question=HUM, run=RUN)
    (trace,) = engine.pipeline_jobs.traces(RunName(**RUN), asker("alice"))
    (record,) = engine.reading.records(asker("alice"), RunName(**RUN))
    view = run_view(PipelineAnswer.model_validate(answer), about_record(record, RunName(**RUN)))
    recorded = trace.package.trace
    assert view.about.question == HUM
    stages = [(bar.name, bar.duration_ms) for bar in view.waterfall.bars if not bar.is_leg]
    assert stages == [(stage.stage, stage.duration_ms) for stage in recorded.stages]
    assert {leg.name: leg.duration_ms for leg in view.legs} == dict(recorded.legs)
    dropped = {(one.corpus, one.chunk_id, one.stage, one.reason) for one in view.candidates if one.outcome == "dropped"}
    assert dropped == {(one.corpus, one.chunk_id, one.stage, one.reason) for one in recorded.left}
    assert [one.place for one in view.kept] == [(one.corpus, one.chunk_id) for one in trace.candidates]
    final = [stage for stage in recorded.stages if stage.candidates][-1]
    last = {one.place: (one.stages[-1].rank, one.stages[-1].score) for one in view.kept}
    assert last == {
        place: (rank, score) for rank, (place, score) in enumerate(zip(final.candidates, final.scores, strict=True), 1)
    }
    assert view.answer is not None
    assert "".join(segment.text for segment in view.answer.segments) == answer["answer"]
    cited = {citation["label"]: citation["quote"] for citation in answer["citations"]}
    assert {source.label: source.verdict for source in view.sources if source.is_cited} == cited
