"""Pages and reports made of hostile texts: the same markup as of harmless ones, and nothing that can't be seen."""

from __future__ import annotations

import hashlib
import html
import random
import re
import subprocess
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.inspector.hostile import HOSTILE, NAMES, UNSEEN, answered, example, poisoned
from tests.unit.inspector.scripts import SENTENCES

from retrieval_client.contract.pinned import Citations, Replay
from worker.core.text.visible import visible
from worker.inspector.rendering import make_environment
from worker.inspector.view.answer import answer_views
from worker.inspector.view.citations import citations_view
from worker.inspector.view.drift import drift_view
from worker.inspector.view.sources import SourceView

EXAMPLES = Path(__file__).parents[3] / "docs" / "contract" / "examples"
HTMX_SHA256 = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
"""Of dist/htmx.min.js in version 2.0.11 of htmx.org on npm."""


def report(text: str) -> str:
    """A report of an answer, citations and a replay whose strings all end with a text."""
    cited = poisoned(example("build_citations.result"), text, kept=NAMES | {"labels", "artifact"})
    sides = [
        {"index": 0, "chunk_hash": "h", "source_id": "d" + text, "span": [0, 9], "tokens": [[2, 5]]},
        {"index": 0, "chunk_hash": "h", "source_id": "d" + text, "span": [3, 15], "tokens": []},
    ]
    conflict = {"kind": "possible_disagreement", "differs": ["number"], "sides": sides}
    replay = Replay.model_validate(poisoned(example("pinned_replay.result"), text, kept=NAMES))
    edited = replay.pins[0].model_copy(update={"verdict": "edited", "found_hash": "new"})
    drift = replay.model_copy(update={"pins": [edited, *replay.pins[1:]]})
    return (
        make_environment()
        .get_template("report.html")
        .render(
            name=SimpleNamespace(subject_id="subject" + text, run_id="run" + text),
            views=[answered(text)],
            citations=citations_view(Citations.model_validate(cited | {"conflicts": [conflict]})),
            drift=drift_view(drift, {edited.chunk_hash: "old " + text}, {"new": "new " + text}),
            style="",
            browser=False,
            root="",
            most_candidates=100,
            most_conflicts=100,
            version="1",
            at=datetime(2026, 1, 1, tzinfo=UTC),
            quoted_name="x" + text,
        )
    )


class Outline(HTMLParser):
    """The elements of a page and the names of their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", (data,)))


def elements(page: str) -> set[tuple[str, tuple[str, ...]]]:
    return {*Outline(page).found}


HARMLESS = elements(report("!")) | {("mark", ("data-start",)), ("span", ("class",)), ("ins", ()), ("del", ("class",))}


def test_there_are_two_hundred_kinds() -> None:
    """Each another text."""
    assert len({*HOSTILE}) >= 200


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_makes_no_element(text: str) -> None:
    """No element, no attribute and no comment that a harmless text does not make, and no character that is not seen."""
    page = report(text)
    new = {
        (tag, names) for tag, names in elements(page) if not {*names} <= {"class", "title", "href"} or tag == "comment"
    }
    assert new <= HARMLESS
    assert {tag for tag, _ in elements(page)} <= {tag for tag, _ in HARMLESS}
    assert not UNSEEN.search(page)
    assert not re.search(r'href="(?!#source-S\d)', page)


def test_highlighted_text_equals_the_stored_spans_in_twenty_scripts() -> None:
    """1,000 made answers: the marks on the page are the spans of the check, character for character."""
    assert len(SENTENCES) == 20
    environment, choose = make_environment(), random.Random(21)
    template = environment.from_string('{% import "parts/macros.html" as m %}{{ m.marked(source.pieces) }}')
    marked = 0
    for _ in range(1000):
        script = choose.choice([*SENTENCES])
        sentences = choose.sample(SENTENCES[script], 3)
        text = " ".join(sentences)
        quoted = choose.choice(sentences)
        source = SourceView("S1", "c", "x", "d", "d", None, None, None, text)
        _, (found,) = answer_views(f"{quoted} [S1]", [source])
        spans = sorted(span for quote in found.quotes for span in quote.spans)
        page = template.render(source=found)
        marks = [
            (int(start), html.unescape(text)) for start, text in re.findall(r'data-start="(\d+)">([^<]*)</mark>', page)
        ]
        assert marks == [(start, visible(text[start:end])) for start, end in spans], (script, quoted)
        marked += bool(marks)
    assert marked == 1000


def test_htmx_is_the_published_file_with_its_licence() -> None:
    """By its SHA-256."""
    files = resources.files("worker.inspector").joinpath("static")
    assert hashlib.sha256(files.joinpath("htmx.min.js").read_bytes()).hexdigest() == HTMX_SHA256
    assert "Zero-Clause BSD" in files.joinpath("htmx.LICENSE.txt").read_text()


def test_the_worker_imports_nothing_of_the_pages() -> None:
    """Neither the worker nor the command line."""
    code = (
        "import sys, workbench.main, worker.queue.tasks, worker.jobs.engine; "
        "print(sorted({'jinja2', 'starlette', 'uvicorn', 'worker.inspector.web'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("arguments", [["inspect", "--as", "alice"], ["report", "s", "r", "--as", "a", "--html", "x"]])
def test_without_the_extra_one_sentence_says_how_to_install_it(arguments: list[str]) -> None:
    """Exit code 2, and no stack trace."""
    code = (
        "import sys; sys.modules['jinja2'] = None; sys.modules['starlette'] = None; sys.argv[1:] = "
        f"{arguments!r}; from workbench.__main__ import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert (
        ended.stderr == "retrieval-worker: the inspector is not installed: pip install 'retrieval-worker[inspector]'\n"
    )
