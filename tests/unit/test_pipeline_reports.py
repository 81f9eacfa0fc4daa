"""Reports of answers and their traces on a terminal."""

from __future__ import annotations

import dataclasses
import io
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.results import Cost
from workbench.schemas.pipeline_examples import pipeline_examples
from worker.adapters.terminal import printed
from worker.core.prompting.costs import CostEntry, Tokens
from worker.inspector.text.pipeline_answer import answer_report, costs_line, source_report
from worker.inspector.text.trace import trace_report
from worker.inspector.view.run import run_view
from worker.jobs.pipeline.stored_packages import AnswerTrace
from worker.jobs.pipeline.types import (
    ContextPackage,
    DroppedCandidate,
    QueryRequest,
    QueryResponse,
    RetrievalTrace,
    StageTrace,
)
from worker.jobs.stored_candidates import StoredCandidate
from worker.model import LegScore, ScoreBreakdown

KEPT, LEFT = ("documents", "a-1"), ("documents", "b-1")


def shown(report: Any) -> str:
    """A report as a terminal of 120 columns shows it."""
    console = Console(file=io.StringIO(), width=120)
    console.print(report)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def answered(**changes: Any) -> PipelineAnswer:
    """The contract's example, changed."""
    _, plain = pipeline_examples()["run_pipeline.result"]
    return PipelineAnswer.model_validate({**plain, **changes})


def reported(**trace: Any) -> AnswerTrace:
    """A record of one source, of two that were found."""
    stages = (
        StageTrace("search", 7.5, {"found": 2}, (LEFT, KEPT), (0.9, 0.5)),
        StageTrace("rerank", 2.5, {}, (KEPT, LEFT), (3.0, 1.0)),
        StageTrace("cut", 0.0, {}, (KEPT,), (3.0,)),
    )
    left = (DroppedCandidate(*LEFT, "cut", "beyond k"),)
    cost = CostEntry("hyde", "openai", "small", Tokens(100, 20), Decimal("0.00002"))
    package = ContextPackage(
        request=QueryRequest("What hums?", mode="grounded"),
        profile="hyde_hybrid",
        source_labels={"S1": {"corpus": KEPT[0], "chunk_id": KEPT[1], "chunk_hash": "sha256:00"}},
        costs=(cost,),
        trace=RetrievalTrace(stages, left, **trace),
    )
    scores = ScoreBreakdown((LegScore("dense", 0.5, 2),), rerank=3.0)
    return AnswerTrace(
        "", QueryResponse("ok", "It hums. [S1]"), package, [StoredCandidate(*KEPT, "sha256:00", 0.5, scores)]
    )


def test_labels_are_text_and_not_markup() -> None:
    """Text in brackets in an answer is shown as it is, even where a terminal library would read it as markup."""
    said = shown(answer_report(run_view(answered(answer="It [bold]hums[/bold] [S1] [/S2]"))))
    assert "It [bold]hums[/bold] [S1] [/S2]" in said


def test_a_brief_report_has_a_line_a_source() -> None:
    """For many answers at once."""
    said = shown(answer_report(run_view(answered()), brief=True))
    assert "[S1] report-2023, Faults: copied word for word" in said.replace("p. 3, ", "")


SENTENCES = ("The hum is loud at night.", "It came back in August.", "A dry capacitor is the cause.")


def quoting(text: str, answer: str) -> PipelineAnswer:
    """An answer over one source of a text."""
    given = answered()
    (chunk,) = given.package.candidates
    package = given.package.model_copy(update={"candidates": [chunk.model_copy(update={"text": text})]})
    return given.model_copy(update={"answer": answer, "package": package})


@pytest.mark.parametrize("separator", [" ", "\n"])
def test_a_source_of_several_sentences_is_shown_once_with_all_of_them(separator: str) -> None:
    """Also where they are lines of a log, which is read as one sentence: each is around the others."""
    cited = [sentence.removesuffix(".") for sentence in SENTENCES] if separator == "\n" else [*SENTENCES]
    answer = quoting(separator.join(cited), "\n\n".join(f"{sentence} [S1]" for sentence in cited))
    view = run_view(answer)
    assert len(view.sources[0].quotes) == len(SENTENCES)
    _, _, sources = shown(answer_report(view)).partition("[S1] report")
    assert (sources.count("[S1]"), sources.count("source: ")) == (0, 1)
    assert [" ".join(sources.split()).count(sentence) for sentence in cited] == [1, 1, 1]
    assert shown(source_report(view.sources[0])).count("source: ") == (separator == "\n")


def test_each_quote_that_is_changed_stands_with_its_source() -> None:
    """Below the exact ones, which come once; each with its own verdict."""
    quoted = f"{SENTENCES[0]} [S1] “It came back in March now” [S1]"
    said = shown(answer_report(run_view(quoting(" ".join(SENTENCES), quoted)))).partition("[S1] report")[2]
    lines = [line.strip() for line in said.splitlines()]
    assert "copied word for word" in lines
    assert f"source: {SENTENCES[0]}" in lines
    assert lines.count("quote: It came back in March now") == 1


@pytest.mark.parametrize("width", [80, 120])
def test_an_answer_can_be_read_at_any_width(width: int) -> None:
    """No line is a word of a column."""
    text = printed(answer_report(run_view(quoting(" ".join(SENTENCES), f"{SENTENCES[0]} [S1]"))), width=width).plain
    assert f"source: {SENTENCES[0]}" in text
    assert max(map(len, text.splitlines())) <= width


def test_labels_that_stand_for_nothing_are_shown() -> None:
    """The report says that they are not there."""
    assert "unknown labels: S9" in shown(answer_report(run_view(answered(unknown_labels=["S9"]))))


def test_labels_that_can_not_be_read_are_shown() -> None:
    """As they stand in the answer."""
    assert "unreadable labels: [S1, 2]" in shown(answer_report(run_view(answered(unreadable_labels=["[S1, 2]"]))))


def test_no_answer_says_why() -> None:
    """Nothing found, nothing that fits into the context, and held back, are not the same."""
    nothing: dict[str, Any] = {"answer": None, "citations": [], "supported": []}
    package = {**answered().package.model_dump(), "candidates": []}
    assert "nothing was found" in shown(answer_report(run_view(answered(**nothing, status="empty", package=package))))
    assert "no source fits" in shown(answer_report(run_view(answered(**nothing, status="empty"))))
    assert "held back" in shown(answer_report(run_view(answered(**nothing, short_reason="changed"))))
    assert "1 sources, and no answer yet" in shown(answer_report(run_view(answered(**nothing))))


def test_sources_from_the_cache_are_told() -> None:
    """The report says that sources came from the cache, which explains a missing new document."""
    plain = answered()
    hit = answered(trace={**plain.trace.model_dump(), "cache": "hit"})
    assert "found by profile hybrid_rrf (from the cache)" in shown(answer_report(run_view(hit)))
    assert "from the cache" not in shown(answer_report(run_view(plain)))


def test_costs_add_up_only_if_all_are_known() -> None:
    """Calls of a kind are one entry; a sum of which a part is unknown is unknown."""

    def cost(price: str | None, kind: str = "hyde", made: int | None = 2) -> Cost:
        return Cost(kind=kind, provider="p", model="m", input_tokens=9, cached_tokens=1, output_tokens=made, cost=price)

    assert costs_line([cost("0.1"), cost("0.20")]) == "hyde m ×2: 18 (2 cached) + 4 tokens, 0.3"
    hyde, synthesis, together = costs_line([cost("0.1"), cost(None, "synthesis", None)]).split("; ")
    assert hyde == "hyde m ×1: 9 (1 cached) + 2 tokens, 0.1"
    assert synthesis == "synthesis m ×1: 9 (1 cached) + ? tokens, no price"
    assert together == "together no price"


def test_search_units_are_shown_in_place_of_tokens() -> None:
    """The units by which a reranker bills are counted."""
    one = {"kind": "rerank", "provider": "http", "model": "r", "input_tokens": None, "cached_tokens": 0}
    call = Cost(**one, output_tokens=0, search_units=2, cost="0.004")
    assert costs_line([call, call]) == "rerank r ×2: 4 search units, 0.008"
    entry = CostEntry("rerank", "http", "r", Tokens(None, search_units=2), Decimal("0.004"))
    record = reported()
    package = dataclasses.replace(record.package, costs=(entry,))
    (line,) = [line for line in shown(trace_report("", dataclasses.replace(record, package=package))).splitlines()
               if "│ rerank" in line and "http" in line]  # fmt: skip
    cells = [cell.strip() for cell in line.split("│")[1:-1]]
    assert cells == ["rerank", "http", "r", "", "", "", "2", "0.004"]


def test_a_trace_shows_each_candidates_way() -> None:
    """Rank and score after each stage that changed something, and what became of it."""
    report = reported(
        queries={"dense": "What hums?"},
        legs={"dense": 6.25},
        hyde=("A capacitor hums.",),
        warnings=("rerank: it is slow",),
    )
    lines = shown(trace_report("desk / r1", report)).splitlines()
    (kept,) = [line for line in lines if "a-1" in line]
    (left,) = [line for line in lines if "b-1" in line]
    assert [cell.strip() for cell in kept.split("│")[1:-1]] == [
        "a-1", "2. 0.5000", "1. 3.0000", "1. 3.0000", "S1", "dense 2. (0.500)",
    ]  # fmt: skip
    assert [cell.strip() for cell in left.split("│")[1:-1]] == [
        "b-1", "1. 0.9000", "2. 1.0000", "", "beyond k (cut)", "",
    ]  # fmt: skip
    text = "\n".join(lines)
    for said in (
        "A capacitor hums.",
        "warning: rerank: it is slow",
        "10.0 ms together",
        "0.00002",
        "hyde_hybrid",
        "leg dense",
        "6.25",
    ):
        assert said in text, said


def test_candidates_that_left_are_shown_on_demand() -> None:
    """A long list is cut, and says so."""
    long = reported()
    many = tuple(DroppedCandidate("documents", f"x-{i}", "cut", "beyond k") for i in range(40))
    trace = RetrievalTrace(long.package.trace.stages, many)
    package = ContextPackage(request=long.package.request, profile="dense", trace=trace)
    asked = AnswerTrace("", long.response, package, [])
    assert "28 of them not shown (--all)" in shown(trace_report("", asked))
    assert "x-39" in shown(trace_report("", asked, everything=True))
