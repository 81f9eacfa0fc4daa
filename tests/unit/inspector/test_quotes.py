"""Quotes on every face: the same texts, kinds and colours on a page, in a terminal's lines and in what `ask` prints."""

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
from worker.inspector.terminal.answer import source_lines
from worker.inspector.text.pipeline_answer import answer_report
from worker.inspector.view.quotes import quote_facts
from worker.inspector.view.run import RunView, run_view
from worker.inspector.view.wording import STYLES, said

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


def answered(sentence: str) -> tuple[PipelineAnswer, RunView]:
    answer = example("run_pipeline.result")
    package = answer["package"]
    (given,), labels = package["candidates"], package["source_labels"]
    package["candidates"] = [{**given, "chunk_id": f"c{i}", "text": text} for i, text in enumerate(SOURCES)]
    package["source_labels"] = {f"S{i + 1}": {**labels["S1"], "chunk_id": f"c{i}"} for i in range(len(SOURCES))}
    found = PipelineAnswer.model_validate({**answer, "answer": sentence})
    return found, run_view(found)


def on_page(view: RunView) -> str:
    """The card of the first source."""
    template = make_environment().get_template("parts/source.html")
    return template.render(source=view.sources[0], browser=False, about=view.about, root="")


def printed(answer: PipelineAnswer) -> str:
    """Output of `ask`, with the codes of its colours."""
    out = Terminal(file=io.StringIO(), width=200, force_terminal=True, color_system="standard", _environ={})
    out.print(answer_report(run_view(answer)))
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


def lines_of(pieces: Sequence[Any]) -> list[str]:
    return "".join(piece.text for piece in pieces).split("\n")


@pytest.mark.parametrize("verdict", QUOTED)
def test_each_face_shows_the_same_of_a_quote(verdict: str) -> None:
    """Both texts with the sentence around, what differs in words, and the verdict in the colour of its tone."""
    answer, view = answered(QUOTED[verdict])
    source = view.sources[0]
    (quote,) = source.quotes
    assert quote.verdict == source.verdict == verdict
    facts = [*quote_facts(quote, source.text)]
    assert facts
    page, reported = on_page(view), printed(answer)
    lines = [*source_lines(source)]
    faces = (
        flat(html.unescape(re.sub(r"<[^>]*>", "", page))),
        flat(" ".join(line.text.plain for line in lines)),
        flat(re.sub(r"\x1b\[[\d;]*m", "", reported)),
    )
    for name, pieces in facts:
        for face in faces:
            assert name in face
            assert all(flat(line) in face for line in lines_of(pieces))
    known = said("quote", verdict)
    assert f'<span class="badge {known.tone}">{known.words}</span>' in page
    assert (known.words, STYLES[known.tone]) in {
        (line.text.plain[span.start : span.end], span.style) for line in lines for span in line.text.spans
    } or not STYLES[known.tone]
    code = {"fair": "\x1b[33m", "bad": "\x1b[1;31m", "plain": "\x1b[1;36m[S1]\x1b[0m "}[known.tone]
    assert f"{code}{known.words}" in reported


@pytest.mark.parametrize("verdict", QUOTED)
def test_no_face_shows_a_quote_in_green(verdict: str) -> None:
    """For each verdict: that characters are the same is no success."""
    answer, view = answered(QUOTED[verdict])
    assert not re.search(r'<ins|class="[^"]*\bgood\b', on_page(view))
    assert not any("green" in str(span.style) for line in source_lines(view.sources[0]) for span in line.text.spans)
    assert not re.search(r"\x1b\[(?:\d+;)*[39]2m", printed(answer))
