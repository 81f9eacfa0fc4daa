"""Quotes on every face: the same texts, kinds and colours on a page, in what `ask` prints, and beside a source."""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.inspector.hostile import example

from retrieval_client.contract.answers import PipelineAnswer
from worker.adapters.terminal import Terminal
from worker.inspector.rendering import make_environment
from worker.inspector.text.pipeline_answer import answer_report, source_report
from worker.inspector.view.quotes import checked_quote, quote_facts
from worker.inspector.view.run import RunView, run_view
from worker.inspector.view.sources import SourceView
from worker.inspector.view.wording import MARKS, said

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = (
    "The gain of the desk is 3.5 dB above the floor. Reels with a blue dot may not be baked. They may be sold by Ann.",
    "The capacitors of the left supply were replaced in August.",
)
QUOTED = {
    "altered": "“The gain of the desk is 45 dB above” [S1].",
    "elided": "“Reels with a blue dot may […] be sold by [her]” [S1].",
    "misattributed": "“The capacitors of the left supply were replaced” [S1].",
    "not_found": "“The desk was struck by lightning twice” [S1].",
    "verbatim": "“The gain of the desk” [S1].",
}
"""Verdict → a sentence with such a quote."""


def answered(verdict: str) -> RunView:
    """An answer with one quote of this verdict."""
    answer = example("run_pipeline.result")
    package = answer["package"]
    (given,), labels = package["candidates"], package["source_labels"]
    package["candidates"] = [{**given, "chunk_id": f"c{i}", "text": text} for i, text in enumerate(SOURCES)]
    package["source_labels"] = {f"S{i + 1}": {**labels["S1"], "chunk_id": f"c{i}"} for i in range(len(SOURCES))}
    citations = [{**citation, "quote": verdict} for citation in answer["citations"]]
    return run_view(PipelineAnswer.model_validate({**answer, "answer": QUOTED[verdict], "citations": citations}))


def on_page(view: RunView) -> str:
    """The card of the first source."""
    template = make_environment().get_template("parts/source.html")
    return template.render(source=view.sources[0], browser=False, about=view.about, root="")


def coloured(report: Any) -> str:
    """A report with the codes of its colours."""
    out = Terminal(file=io.StringIO(), width=200, force_terminal=True, color_system="standard", _environ={})
    out.print(report)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


def lines_of(pieces: Sequence[Any]) -> list[str]:
    return "".join(piece.text for piece in pieces).split("\n")


@pytest.mark.parametrize("verdict", QUOTED)
def test_each_face_shows_the_same_of_a_quote(verdict: str) -> None:
    """Both texts with the sentence around, what differs in words, and the verdict in the colour of its tone."""
    view = answered(verdict)
    source = view.sources[0]
    (quote,) = source.quotes
    assert quote.verdict == source.verdict == verdict
    facts = [*quote_facts(quote, source.text)]
    assert facts
    page, reports = on_page(view), [coloured(answer_report(view)), coloured(source_report(source))]
    faces = [re.sub(r"<[^>]*>", "", html.unescape(page)), *(re.sub(r"\x1b\[[\d;]*m", "", said) for said in reports)]
    for name, pieces in facts:
        for face in faces:
            assert name in face
            assert all(flat(line) in flat(face) for line in lines_of(pieces))
    known = said("quote", verdict)
    assert f'<span class="badge {known.tone}">{known.words}</span>' in page
    code = {"fair": "\x1b[33m", "bad": "\x1b[1;31m", "plain": ""}[known.tone]
    assert all(f"{code}{known.words}" in report for report in reports)


@pytest.mark.parametrize("verdict", QUOTED)
def test_no_face_shows_a_quote_in_green(verdict: str) -> None:
    """For each verdict: that characters are the same is no success."""
    view = answered(verdict)
    assert not re.search(r'<ins|class="[^"]*\bgood\b', on_page(view))
    for report in (answer_report(view), source_report(view.sources[0])):
        assert not re.search(r"\x1b\[(?:\d+;)*[39]2m", coloured(report))


def test_quoted_words_are_marked_at_their_spans() -> None:
    """Exactly; what a quote leaves out is struck out, what differs is marked, and the sentence around it is dim."""
    text = "Before. The old pump in this house must not be run outside at night. After."
    quote = checked_quote("Old pump in this house must […] be run outside", text)
    source = SourceView("S1", "c", "x", "d", "title", 3, None, None, text, quote.verdict, (quote,))
    *_, around, _, whole = source_report(source).renderables
    assert quote.verdict == "elided"
    assert styles(around.renderable) == {"The ": "around", "o": "differs", "not": "left_out", " at night.": "around"}  # type: ignore[union-attr] # a padded text
    assert styles(whole) == {**{text[start:end]: "quoted" for start, end in quote.spans}, "not": "left_out"}


def styles(line: Any) -> dict[str, str]:
    """Parts of a line that have a role, without the line's name."""
    roles = {style: role for role, style in MARKS.items()}
    spans = line.spans[line.plain.startswith("source: ") :]
    return {line.plain[span.start : span.end]: roles[str(span.style)] for span in spans if str(span.style) in roles}
