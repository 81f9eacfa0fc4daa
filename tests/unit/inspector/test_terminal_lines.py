"""Lines of the inspector in a terminal: hostile texts act on nothing, and long ones are cut."""

from __future__ import annotations

import dataclasses
import io
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console
from tests.unit.inspector.hostile import HOSTILE, NAMES, UNSEEN, answered, example, poisoned

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.pinned import Citations, Replay
from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.run_list import RunFilter
from worker.inspector.terminal.answer import answer_lines, source_lines, turn_lines
from worker.inspector.terminal.citations import citations_lines
from worker.inspector.terminal.drift import drift_lines
from worker.inspector.terminal.pane import wrapped
from worker.inspector.terminal.runs import run_filter
from worker.inspector.terminal.trace import MOST_CANDIDATES, candidates_lines, trace_lines
from worker.inspector.view.candidates import CandidateView
from worker.inspector.view.citations import citations_view
from worker.inspector.view.drift import drift_view
from worker.inspector.view.quotes import checked_quote
from worker.inspector.view.run import RunView, run_view
from worker.inspector.view.sources import SourceView
from worker.inspector.view.wording import MARKS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from worker.inspector.terminal.lines import Line

CONSOLE = Console(file=io.StringIO(), width=80)


def all_lines(text: str) -> list[Line]:
    """Lines of each pane, of views whose strings all end with a text."""
    view = answered(text)
    cited = poisoned(example("build_citations.result"), text, kept=NAMES | {"labels", "artifact"})
    sides = [
        {"index": 0, "chunk_hash": "h", "source_id": "d" + text, "span": [0, 9], "tokens": [[2, 5]]},
        {"index": 0, "chunk_hash": "h", "source_id": "d" + text, "span": [3, 15], "tokens": []},
    ]
    cited["conflicts"] = [{"kind": "possible_disagreement", "differs": ["number"], "sides": sides}]
    replay = Replay.model_validate(poisoned(example("pinned_replay.result"), text, kept=NAMES))
    edited = replay.pins[0].model_copy(update={"verdict": "edited", "found_hash": "new"})
    drift = replay.model_copy(update={"pins": [edited, *replay.pins[1:]]})
    return [
        *answer_lines(view),
        *turn_lines(view),
        *trace_lines(view),
        *(line for source in view.sources for line in source_lines(source, is_whole=True)),
        *citations_lines(citations_view(Citations.model_validate(cited))),
        *drift_lines(drift_view(drift, {edited.chunk_hash: "old " + text}, {"new": "new " + text})),
    ]


def as_printed(lines: Iterable[Line]) -> str:
    """Return the text as a terminal gets it, with its codes."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor", _environ={})
    for line in lines:
        for row in wrapped(line, 80, console):
            console.print(row, markup=False, highlight=False, emoji=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_shown_and_does_nothing(text: str) -> None:
    """No control, format or zero-width character in any line, no code but for colours, nothing too wide."""
    lines = all_lines(text)
    assert not UNSEEN.search("\n".join(line.text.plain for line in lines))
    printed = as_printed(lines)
    assert not UNSEEN.search(re.sub(r"\x1b\[[0-9;]*m", "", printed))
    assert not re.search(r"\x1b(?!\[[0-9;]*m)", printed)
    assert max(row.cell_len for line in lines for row in wrapped(line, 80, CONSOLE)) <= 80


def test_markup_is_text() -> None:
    """Rich's, with its links, colours and emoji."""
    text = " [red]x[/red] [link=http://evil.example]y[/link] [/] :bomb:"
    shown = "\n".join(line.text.plain for line in all_lines(text))
    assert text.strip() in shown
    assert "8;;" not in as_printed(all_lines(text))


def styles(line: Line) -> dict[str, str]:
    """Parts of a line that have a role."""
    roles = {style: role for role, style in MARKS.items()}
    spans = line.text.spans[line.text.plain.startswith("source") :]  # without its name
    return {line.text.plain[span.start : span.end]: roles[str(span.style)] for span in spans if span.style in roles}


def test_quoted_words_are_marked_at_their_spans() -> None:
    """Exactly; what a quote leaves out is struck out, what differs is marked, and the sentence around it is dim."""
    text = "Before. The old pump in this house must not be run outside at night. After."
    quote = checked_quote("Old pump in this house must […] be run outside", text)
    source = SourceView("S1", "c", "x", "d", "title", 3, None, None, text, quote.verdict, (quote,))
    *said, blank, whole = source_lines(source, is_whole=True)[2:]
    assert quote.verdict == "elided"
    assert [line.text.plain for line in said] == [
        "quote  Old pump in this house must […] be run outside",
        "source  The old pump in this house must not be run outside at night.",
        "differs  the case of the first letter: O for o",
    ]
    assert styles(said[1]) == {"The ": "around", "o": "differs", "not": "left_out", " at night.": "around"}
    assert styles(whole) == {**{text[start:end]: "quoted" for start, end in quote.spans}, "not": "left_out"}
    assert not blank.text


@pytest.mark.parametrize("text", ["word " * 200_000, "x" * 1_000_000, "\n" * 1_000_000, "漢" * 1_000_000], ids=range(4))
def test_a_megabyte_is_cut(text: str) -> None:
    """Of an answer, a source, a context: drawn in a moment, and said how much is not shown."""
    view = answered(text)
    before = time.process_time()
    whole = [line for source in view.sources for line in source_lines(source, is_whole=True)]
    for lines in (answer_lines(view), turn_lines(view), whole, trace_lines(view)):
        rows = [row for line in lines for row in wrapped(line, 80, CONSOLE)]
        assert any("more characters" in line.text.plain for line in lines)
        assert len(rows) < 25_000
    assert time.process_time() - before < 5


def test_five_hundred_candidates_are_listed() -> None:
    """More are counted."""
    found = tuple(CandidateView("c", f"chunk-{i}", "kept", rank=i, text="word " * 100) for i in range(1, 601))
    view = run_view(PipelineAnswer.model_validate(example("run_pipeline.result")))
    shown = [line.text.plain for line in candidates_lines(_with(view, found))]
    assert sum("chunk-" in line for line in shown) == MOST_CANDIDATES == 500
    assert shown[-1] == "… 100 more candidates"


def _with(view: RunView, candidates: Any) -> RunView:
    return dataclasses.replace(view, candidates=candidates)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", RunFilter()),
        ("song-1", RunFilter(subject_id="song-1")),
        ("subject:a:b drift:drifted", RunFilter(subject_id="a:b", drift="drifted")),
        ("mode: ", RunFilter()),
    ],
)
def test_a_filter_is_words(typed: str, expected: RunFilter) -> None:
    """A name and a colon, or a subject alone."""
    assert run_filter(typed) == expected


@pytest.mark.parametrize("typed", ["colour:red", "from:yesterday"])
def test_a_wrong_filter_says_what_is_expected(typed: str) -> None:
    """One sentence."""
    with pytest.raises(InvalidJob, match="expected"):
        run_filter(typed)
