"""The one door to the terminal."""

from __future__ import annotations

import ast
import dataclasses
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.pinned import Citations, Replay
from retrieval_client.contract.results import Hybrid, TopK
from retrieval_client.errors import InvalidJob, SettingsError, Unavailable
from workbench.schemas.examples import examples
from workbench.schemas.hybrid_examples import hybrid_examples
from workbench.schemas.pipeline_examples import pipeline_examples
from worker.adapters import terminal
from worker.adapters.postgres.run_list import ListedRun
from worker.adapters.terminal import Terminal, printed, progress, styled
from worker.cli.commands.dead import letters_table
from worker.cli.main import run
from worker.inspector.text.answers import (
    citations_table,
    conflicts_table,
    hybrid_header,
    hybrid_table,
    nothing_found,
    replay_table,
    top_k_table,
)
from worker.inspector.text.pipeline_answer import answer_report, source_report
from worker.inspector.text.runs import run_entry
from worker.inspector.text.trace import trace_report
from worker.inspector.view.citations import citations_view
from worker.inspector.view.drift import drift_view
from worker.inspector.view.run import run_view
from worker.queue.broker.dead_letters import DeadLetter

from .test_architecture import SOURCES, parsed
from .test_pipeline_reports import reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STYLE = re.compile(r"\x1b\[[\d;]*m")
CONTROL = re.compile(r"\x1b\[\??\d*[AhlK]|\r")
"""How Rich redraws a bar: cursor up, cursor on and off, erase the line."""
NASTY = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            [
                *(
                    "\x1b]0;t\x07",
                    "\x1b[2J",
                    "\x1b]8;;http://x\x1b\\",
                    "\x9b31m",
                    "\x9d",
                    "\x7f",
                    "\x85",
                    "\r",
                    "\x08",
                    "\n",
                ),
                *("[/x]", "[bold]", "[link=http://x]", "[/]", "[", "]", "\\", "\\[", ":bomb:", "a ", "w" * 10_000),
                *("\u202e", "\u2066", "\u200b", "\u2028", "\ud800", "\U000e0041"),
            ]
        )
    ).map("".join),
)
HOSTILE = "\x1b]0;t\x07\x1b[2J\x9b31m\x7f[/x][bold]\u202e\u200b\u2066\U000e0041:bomb:"


def is_safe(shown: str) -> bool:
    """Nothing that is not seen, but styles."""
    left = STYLE.sub("", shown)
    return all(sign in "\n\t" or unicodedata.category(sign) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for sign in left)


def shown(what: Any, *, colours: bool = False) -> str:
    console = Terminal(file=io.StringIO(), width=120, force_terminal=colours)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def table_of(text: str) -> Table:
    table = Table(title=text, caption=text, show_footer=True, title_justify="left")
    table.add_column(text, footer=text)
    table.add_row(text)
    table.add_row(Text(text))
    return table


@pytest.mark.parametrize("colours", [False, True])
@pytest.mark.parametrize("kind", [str, styled, Text, table_of, Padding, lambda text: styled((text, "bold"))])
@given(text=NASTY)
def test_no_text_steers_a_terminal(kind: Callable[[str], Any], colours: bool, text: str) -> None:
    """As a string, as a text, in a table's cells, headings and title: it is shown, and it is no markup."""
    assert is_safe(shown(kind(text), colours=colours))


@given(text=NASTY)
def test_a_bar_and_a_status_take_no_text_for_markup(text: str) -> None:
    """Both redraw themselves, with Rich's own control codes."""
    console = Terminal(file=io.StringIO(), width=120, force_terminal=True)
    with progress(console) as bars:
        bars.add_task(text, total=1)
    with console.status(styled(text)):
        pass
    assert isinstance(console.file, io.StringIO)
    assert is_safe(CONTROL.sub("", console.file.getvalue()))


def test_what_is_readable_is_shown_as_it_is() -> None:
    """Brackets, emoji names and other scripts are a stranger's words; what is not seen has a sign."""
    assert shown("[bold]a[/x] :bomb: \x1b[2J é 中 שלום") == "[bold]a[/x] :bomb: ␛[2J é 中 שלום\n"


@given(text=NASTY)
def test_lines_and_json_are_safe_and_exact(text: str) -> None:
    """A line is a line, and JSON is the same data."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        terminal.write_line(text, text)
        terminal.write_json({text: text})
        terminal.write_json_text(json.dumps([text], ensure_ascii=False, indent=1))
        terminal.complain(text)
    line, data, *rest = out.getvalue().splitlines()
    assert json.loads(data) == {text: text}
    assert json.loads("".join(rest)) == [text]
    assert out.getvalue().splitlines()[1:] == [one for one in out.getvalue().splitlines()[1:] if one.isascii()]
    assert line.count("\t") == 1
    assert err.getvalue().count("\n") == 1
    assert is_safe(out.getvalue() + err.getvalue())


# --- reports ------------------------------------------------------------------------------------


def poisoned(value: Any, keep: frozenset[str] = frozenset()) -> Any:
    """The same data with hostile texts; those of a fixed vocabulary stay."""
    if isinstance(value, dict):
        return {name: inner if name in keep else poisoned(inner, keep) for name, inner in value.items()}
    if isinstance(value, list):
        return [poisoned(inner, keep) for inner in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


KEPT = frozenset(
    {"schema_version", "status", "verdict", "chunk_hash", "found_hash", "raw_hash", "digest", "kind", "quote", "leg"}
    | {
        "short_reason",
        "used",
        "contextual",
        "cost",
        "required",
        "state",
        "method",
        "fusion",
        "at",
        "cache",
        "verification",
    }
)


def reports() -> Iterator[tuple[str, Any]]:
    """Each report on the contract's examples."""
    plain = {**examples(), **hybrid_examples(), **pipeline_examples()}

    def poison(kind: Any, name: str) -> Any:
        _, data = plain[name]
        return kind.model_validate(poisoned(json.loads(json.dumps(data)), KEPT))

    top = poison(TopK, "retrieve_top_k.result")
    yield "query", top_k_table(HOSTILE, top, 1.0, 5)
    hybrid = poison(Hybrid, "retrieve_hybrid.result")
    yield "hybrid header", hybrid_header(hybrid)
    for name, answer in hybrid.results.items():
        yield "hybrid", hybrid_table(name, answer, hybrid.metrics[name])
    citations = poison(Citations, "build_citations.result")
    yield "citations", citations_table(HOSTILE, citations_view(citations))
    side = {"index": 0, "chunk_hash": HOSTILE, "source_id": HOSTILE, "span": [0, 40], "tokens": [[20, 40]]}
    conflict = {"kind": f"possible_disagreement{HOSTILE}", "sides": [side], "differs": [HOSTILE]}
    yield "conflicts", conflicts_table(citations_view(citations.model_copy(update={"conflicts": [conflict]})))
    replay = poison(Replay, "pinned_replay.result")
    old = {pin.chunk_hash: f"old {HOSTILE}" for pin in replay.pins}
    new = {pin.found_hash or pin.chunk_hash: f"new {HOSTILE}" for pin in replay.pins}
    yield "replay", replay_table(HOSTILE, drift_view(replay, old, new))
    answer = poison(PipelineAnswer, "run_pipeline.result")
    yield "answer", answer_report(run_view(answer))
    yield "brief answer", answer_report(run_view(answer), brief=True)
    yield "source", source_report(run_view(answer).sources[0])
    kinds = ([HOSTILE], [HOSTILE], [HOSTILE], ["ok"])
    yield "run", run_entry(ListedRun(1, HOSTILE, HOSTILE, datetime.now(UTC), *kinds, True, None, None))
    record = reported(queries={HOSTILE: HOSTILE}, legs={HOSTILE: 1.0}, hyde=(HOSTILE,), warnings=(HOSTILE,))
    request = dataclasses.replace(record.package.request, question=HOSTILE, mode=HOSTILE)
    stages = tuple(dataclasses.replace(stage, stage=HOSTILE) for stage in record.package.trace.stages)
    trace = dataclasses.replace(record.package.trace, stages=stages, models={HOSTILE: HOSTILE})
    package = dataclasses.replace(record.package, request=request, profile=HOSTILE, trace=trace)
    yield "trace", trace_report(HOSTILE, dataclasses.replace(record, package=package))


@pytest.mark.parametrize(("name", "report"), [*reports()])
def test_every_report_shows_hostile_data(name: str, report: Any) -> None:
    """Ids, texts, paths, sections, models and warnings: shown, and without effect."""
    said = shown(report, colours=True)
    assert is_safe(said)
    assert "␛" in said, name
    assert printed(report, width=120).plain == STYLE.sub("", said), "a screen shows the same"


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"), [(SettingsError(HOSTILE), 78), (Unavailable(HOSTILE), 69), (InvalidJob(HOSTILE, HOSTILE), 1)]
)
def test_a_sentence_of_an_error_is_one_safe_line(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    """Errors may name what a stranger wrote: a field, a corpus, a file."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    assert run(fail, []) == code
    said = capsys.readouterr().err
    assert is_safe(said)
    assert said.count("\n") == 1


def test_an_unforeseen_error_is_shown_safely(capsys: pytest.CaptureFixture[str]) -> None:
    """A stack trace ends with a message, and that may quote a stranger."""
    terminal.show_traceback(ValueError, ValueError(HOSTILE), None)
    said = capsys.readouterr().err
    assert is_safe(said)
    assert "ValueError: ␛]0;t␇" in said


def test_arguments_that_are_wrong_are_shown_safely() -> None:
    """A caller may have copied them from a stranger's text."""
    for arguments in ([f"x{HOSTILE}"], [f"--x{HOSTILE}"], ["search", "q", "--broker", "b", "--corpus", f"a={HOSTILE}"]):
        done = subprocess.run(
            [sys.executable, "-m", "workbench", *arguments], capture_output=True, timeout=180, check=False
        )
        assert done.returncode == 2
        assert is_safe(done.stderr.decode())
        assert "Usage: " in done.stderr.decode()


def test_nothing_else_prints() -> None:
    """A console or a text of Rich's own would let through what it is given, and so would `print`."""
    raw = {("rich.console", "Console"), ("rich.text", "Text"), ("rich", "print"), ("typer", "echo"), ("click", "echo")}
    raw |= {("rich.markup", "escape"), ("rich.markup", "render"), ("typer", "secho")}
    for name in SOURCES.keys() - {"worker.adapters.terminal"}:
        tree = parsed(name)
        used = {
            (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and not _for_types(tree, node)
            for alias in node.names
        }
        calls = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
        used |= {(f.value.id, f.attr) for f in calls if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name)}
        assert not used & raw, name
        assert "print" not in {f.id for f in calls if isinstance(f, ast.Name)}, name


def _for_types(tree: ast.Module, node: ast.ImportFrom) -> bool:
    """Whether an import is for the type checker only."""
    blocks = [one for one in tree.body if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"]
    return any(node in block.body for block in blocks)


# --- ids ----------------------------------------------------------------------------------------

IDS = (
    "0196f0a1-6f0a-7a2b-9f3e-3c1d2e4f5a6b",
    "an id with spaces in it that goes on for quite a while",
    "i" * 512,
    "多" * 60,
)


def with_ids(value: Any, identifier: str) -> Any:
    """The same data with one id in place of those of chunks and sources."""
    if isinstance(value, dict):
        return {
            name: identifier if name in {"chunk_id", "source_id"} and inner else with_ids(inner, identifier)
            for name, inner in value.items()
        }
    return [with_ids(inner, identifier) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("identifier", IDS, ids=["uuid", "spaces", "long", "wide"])
def test_an_id_stands_whole_on_one_line(identifier: str, width: int) -> None:
    """In every table that shows ids, in a narrow terminal, too: what is copied is the id."""
    plain = {**examples(), **hybrid_examples()}

    def with_id(kind: Any, name: str) -> Any:
        return kind.model_validate(with_ids(json.loads(json.dumps(plain[name][1])), identifier))

    hybrid = with_id(Hybrid, "retrieve_hybrid.result")
    corpus = next(iter(hybrid.results))
    letter = DeadLetter(
        *("1763762345678-0", "retrieval", "2026-11-22T10:00:00.000+00:00", "unknown_task", "DeadLettered", "no such"),
        *("", identifier, 1, f"sha256:{'0' * 64}", 200, "whole"),
    )
    tables = [
        top_k_table("", with_id(TopK, "retrieve_top_k.result"), 1.0, 5),
        hybrid_table(corpus, hybrid.results[corpus], hybrid.metrics[corpus]),
        citations_table("", citations_view(with_id(Citations, "build_citations.result"))),
        replay_table("", drift_view(with_id(Replay, "pinned_replay.result"), {}, {})),
        letters_table([letter]),
    ]
    for table in tables:
        console = Terminal(file=io.StringIO(), width=width)
        console.print(table)
        assert isinstance(console.file, io.StringIO)
        assert any(identifier in line for line in console.file.getvalue().splitlines())
        assert console.width == width


@pytest.mark.parametrize("width", [40, 80, 120, 160])
def test_a_text_beside_ids_can_be_read(width: int) -> None:
    """Below the width of a readable column it stands below the other cells, which fill lines of their own."""
    identifier, text = "0196f0a1-6f0a-7a2b-9f3e-3c1d2e4f5a6b", "Power is cut at noon on the lower deck."
    _, example = {**examples(), **hybrid_examples()}["retrieve_hybrid.result"]
    answer = Hybrid.model_validate(with_texts(with_ids(json.loads(json.dumps(example)), identifier), text))
    corpus = next(iter(answer.results))
    lines = printed(hybrid_table(corpus, answer.results[corpus], answer.metrics[corpus]), width=width).plain.split("\n")
    assert text in " ".join("\n".join(lines).split())
    assert max(map(len, lines)) <= max(width, len(identifier) + 10)
    assert sum(identifier in line for line in lines) == len(answer.results[corpus].chunks)
    assert ("┃" in "".join(lines)) == (width == 160)


def with_texts(value: Any, text: str) -> Any:
    """The same data with one text in place of those of chunks."""
    if isinstance(value, dict):
        return {name: text if name == "text" else with_texts(inner, text) for name, inner in value.items()}
    return [with_texts(inner, text) for inner in value] if isinstance(value, list) else value


def test_a_long_question_is_cut() -> None:
    """Its beginning is enough to know it by; the JSON has all of it."""
    _, example = {**examples(), **hybrid_examples()}["retrieve_hybrid.result"]
    answer = Hybrid.model_validate({**example, "transformed_query": "hum " * 2500})
    said = str(hybrid_header(answer)).splitlines()[0]
    assert (said.startswith("searched for: hum hum"), said[-1], len(said) < 250) == (True, "…", True)


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        (["no_words"], ": the question has no word for the full-text search, only stop words or signs"),
        (["all_words"], ""),
    ],
)
def test_an_answer_without_chunks_says_so(methods: list[str], reason: str) -> None:
    """With the reason where the full-text search had nothing to look for."""
    _, example = {**examples(), **hybrid_examples()}["retrieve_hybrid.result"]
    legs = [{"leg": "primary", "methods": ["exact"]}, {"leg": "sparse", "methods": methods}]
    answer = Hybrid.model_validate({**example, "trace": {**example["trace"], "search": {"legs": legs}}})
    assert nothing_found("docs", answer) == f"docs: nothing found{reason}"


@pytest.mark.parametrize(("columns", "width"), [("200", 200), ("60", 60), ("", 120), ("wide", 120)])
def test_columns_decide_the_width_without_a_terminal(columns: str, width: int) -> None:
    """A pipe has none of its own: a table is then wider than a terminal of 80."""
    shown = subprocess.run(
        [sys.executable, "-c", "from worker.adapters.terminal import console; print(console.width)"],
        env={**os.environ, "COLUMNS": columns},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == f"{width}\n"
