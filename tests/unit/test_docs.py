"""The documentation site: reference pages that say all there is, and links that lead somewhere."""

from __future__ import annotations

import doctest
import functools
import importlib
import json
import pkgutil
import re
import shlex
import tomllib
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.loops import each
from typer.main import get_command

import reference_pages
from reference_pages import commands, error_codes, log_events, settings
from retrieval_client.contract.registry import TASKS
from workbench.main import cli
from worker.cli import corpus_files
from worker.cli.main import _EXIT_CODES, PIPE_CLOSED
from worker.core.citations.quoting import QuotedChunk, check_quote
from worker.queue.metrics import DEFINITIONS, GAUGES

if TYPE_CHECKING:
    from retrieval_client import errors

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.rglob("*.md"), *ROOT.glob("*.md")})
PLACE = re.compile(r"<!-- generated: ([\w/]+) -->")
SETTINGS = [setting for table in settings.tables() for setting in table.settings]
COMMANDS = [command for command in commands.commands() if not command.group]
name_of = attrgetter("name")
BENCHMARKS = {DOCS / f"{name}.md" for name in ("performance", "quality", "reliability")}
"""Pages of measurements: they may be longer, and full of numbers."""

WORD = re.compile(r"[\w'’./`:-]*\w[\w'’./`:-]*")
LINK = re.compile(r"\]\((?!\w+:)([^()\s#]*)(?:#([^()\s]*))?\)")


@functools.cache
def built(page: str) -> str:
    """A reference page."""
    return (DOCS / "reference" / page).read_text(encoding="utf-8")


@functools.cache
def slugs(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@functools.cache
def written(page: Path) -> str:
    """The prose of a page: without what is generated, code and targets of links."""
    text = reference_pages.written(page.read_text(encoding="utf-8"))
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def place(page: Path) -> str:
    """Where a page stands in the repository."""
    return str(page.relative_to(ROOT))


def words(text: str) -> int:
    """How many words a text has; a name such as `a.b/c` is one."""
    return len(WORD.findall(text))


def rows(page: Path) -> list[str]:
    """The lines of a page's tables."""
    return [line for line in written(page).splitlines() if line.lstrip().startswith("|")]


def test_the_documentation_stays_short() -> None:
    """At most 16,000 written words, a tenth of them in tables; a reader who looks for a fact gets through."""
    total = sum(words(written(page)) for page in PAGES)
    in_tables = sum(words(row) for page in PAGES for row in rows(page))
    assert 10_000 < total <= 16_000
    assert in_tables <= total / 10


@each(sorted({*PAGES} - BENCHMARKS), place)
def test_a_page_stays_short(page: Path) -> None:
    """One purpose a page: 1,000 words are the most, 700 for the README, 150 for a decision."""
    most = 700 if page.stem == "README" else 150 if page.parent.name == "decisions" else 1000
    assert words(written(page)) <= most


def test_figures_stand_on_benchmark_pages() -> None:
    """Elsewhere at most two numbers in a hundred words, because numbers go stale."""
    prose = " ".join(written(page) for page in PAGES if page not in BENCHMARKS)
    assert len(re.findall(r"(?<![\w.])\d[\d,.]*", prose)) <= 2 * words(prose) / 100


@each([page for page in PAGES if rows(page)], place)
def test_cells_of_tables_are_short(page: Path) -> None:
    """A cell has at most 20 words; what needs more is a list or a paragraph."""
    cells = [cell.strip() for row in rows(page) for cell in re.split(r"(?<!\\)\|", row)]
    assert [cell for cell in cells if words(cell) > 20] == []


def test_the_example_of_a_file_to_load_is_read(tmp_path: Path) -> None:
    """docs/schema.md shows a file as `retrieval-worker load` takes it."""
    (shown,) = re.findall(r'```json\n(\{"documents".*?)```', (DOCS / "schema.md").read_text(), re.DOTALL)
    (tmp_path / "corpus.json").write_text(shown)
    file = corpus_files.read(tmp_path / "corpus.json")
    assert [item.to_embed() for item in file.items] == [[("report-1-001", "Channel 18 hums.")]]


def test_the_example_of_a_quote_is_what_its_check_finds() -> None:
    """docs/quotes.md shows it in a part of its sentence."""
    (shown,) = re.findall(r"```json\n(.*?)```", (DOCS / "quotes.md").read_text(), re.DOTALL)
    example = json.loads(shown)
    text = example["quote"].capitalize() + example["after"]
    finding = check_quote(example["quote"], "", [QuotedChunk.of("", text)])
    assert finding.place is not None
    differences = [difference._asdict() for difference in finding.place.differences]
    found = json.loads(json.dumps({**finding.place._asdict(), "differences": differences}))
    assert example == {"quote": example["quote"], **{name: found[name] for name in [*example][1:]}}


def test_everything_generated_has_its_place_on_one_page_at_least() -> None:
    """And no page asks for something that is not made."""
    asked = {name for page in PAGES for name in PLACE.findall(page.read_text(encoding="utf-8"))}
    assert asked == reference_pages.SECTIONS.keys()


@each([*sorted((DOCS / "reference").rglob("*.md")), DOCS / "quotes.md"], place)
def test_a_reference_page_holds_what_is_generated_now(page: Path) -> None:
    """`make contract` writes it."""
    text = page.read_text(encoding="utf-8")
    assert PLACE.search(text)
    assert text == reference_pages.completed(text)


@each(PAGES, place)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    """In the repository as on the site."""
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), target
        assert not anchor or anchor in slugs(path), f"{target}#{anchor}"


@each(["worker", "workbench", "config", "chaos"])
def test_pages_that_code_and_settings_name_are_there(folder: str) -> None:
    """With the heading that is named."""
    for path in (ROOT / folder).rglob("*.*"):
        if path.suffix in {".py", ".toml", ".conf", ".acl", ".sql"}:
            for page, anchor in re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", path.read_text(encoding="utf-8")):
                assert (ROOT / page).is_file(), f"{path}: {page}"
                assert not anchor or anchor in slugs(ROOT / page), f"{path}: {page}#{anchor}"


def test_every_page_is_in_the_index() -> None:
    """A page that no table of contents has can't be found."""
    tables = ("index.md", "reference/contract.md", "decisions/index.md")
    listed = {line for table in tables for line in (DOCS / table).read_text().splitlines()}
    names = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")} - {"index"}
    found = {name.removeprefix("reference/") if "/tasks/" in name else name for name in names}
    assert {re.sub(r"^decisions/\d.*", "[0-9]*", name) for name in found} <= listed


@each(SETTINGS, name_of)
def test_every_setting_is_on_its_page_with_type_and_description(setting: settings.Setting) -> None:
    """In sentences that end."""
    assert f"- **`{setting.name}`**: {setting.kind}; " in built("settings.md")
    assert setting.kind
    assert setting.description.endswith((".", ")."))


@each(COMMANDS, name_of)
def test_every_command_is_on_its_page_with_an_example(command: commands.Command) -> None:
    """Examples begin with the command's own name, after the variables that they set."""
    assert f"## `{command.name}`\n" in built("commands.md")
    assert command.examples
    assert all(command.name in example for example in command.examples)


@pytest.mark.parametrize("command", COMMANDS, ids=name_of)
def test_the_examples_of_a_command_are_its_last_words_and_can_be_typed(
    command: commands.Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command line reads them, with what it needs in the environment; tests/acceptance runs them."""
    for name in ("CELERY_BROKER_URL", "MIGRATION_CONNECTION_STRING"):
        monkeypatch.setenv(name, "unused")
    for example in command.examples:
        typed = [word for word in shlex.split(example) if not re.match(r"[A-Z_]+=", word)]
        assert " ".join(typed).startswith(command.name)
        found: Any = get_command(cli)
        for name in command.name.split()[1:]:
            found = found.commands[name]
        found.make_context(command.name, typed[len(command.name.split()) :])
        assert found.help.rstrip(".\n ").endswith("[/bold]")


@each(COMMANDS, name_of)
def test_every_option_says_what_it_means(command: commands.Command) -> None:
    """Arguments as well."""
    for typed, meaning in command.parameters:
        assert f"- **`{typed}`**: " in built("commands.md")
        assert meaning.partition("  [")[0], typed


def test_search_says_which_corpora_it_searches_by_default() -> None:
    """Others, as one that `load` filled, are not searched unless they are named."""
    command = next(command for command in COMMANDS if command.name == "retrieval-worker search")
    (meaning,) = (meaning for typed, meaning in command.parameters if "--corpus" in typed)
    shipped = tomllib.loads((ROOT / "config" / "worker.toml").read_text())
    assert all(corpus in meaning for corpus in ("hybrid.searches", *shipped["hybrid"]["searches"]))


def test_every_exit_code_is_on_the_pages() -> None:
    """Those of the errors, and those of the shell."""
    codes = [code for code, _ in error_codes.EXIT_CODES]
    assert {*_EXIT_CODES.values(), 0, 1, 2, 130, PIPE_CLOSED, 143} == set(codes)
    for page in ("commands.md", "errors.md"):
        assert all(f"\n| {code} | " in built(page) for code in codes)


@each(error_codes.classes(), attrgetter("__name__"))
def test_every_error_is_on_its_page(kind: type[errors.RetrievalError]) -> None:
    """With the first words of its docstring, and its exit code."""
    first = str(kind.__doc__).splitlines()[0]
    assert f"- **`{kind.__name__}`**: {first}" in built("errors.md")


@each([*(metric.name for metric in DEFINITIONS), *(gauge.name for gauge in GAUGES)])
def test_every_metric_is_on_its_page(name: str) -> None:
    """With its type and its labels."""
    assert re.search(
        rf"^- \*\*`{name}`\*\*: (counter|gauge|histogram|summary); labels `\w+`", built("metrics.md"), re.MULTILINE
    )


def test_every_log_event_has_its_sentence() -> None:
    """And no sentence is left of an event that is gone: docs/_ext/reference_pages/log_events.toml."""
    assert {event.name for event in log_events.events()} == log_events.sentences().keys()


@each(log_events.sentences())
def test_every_log_event_is_on_its_page(name: str) -> None:
    """With its fields."""
    page = built("log-events.md")
    (event,) = (one for one in log_events.events() if one.name == name)
    assert f"- **`{name}`**: " in page
    assert all(f"`{field}`" in page for field in event.fields)


def test_events_are_found_in_each_form_that_the_source_has(tmp_path: Path) -> None:
    """Keywords, ``extra`` as a dictionary, ``extra`` from a function, and the two helpers."""
    (tmp_path / "a.py").write_text(
        'def safe(x): return {"task_id": x}\n'
        'log.warning("one", error="x")\n'
        'logger.error("two", extra={"owed": 1})\n'
        'logger.error("three", extra=safe(1))\n'
        '_log("four", rows=1, level="warning")\n'
        "_warn(five=1)\n"
    )
    found = {event.name: ([*event.levels], [*event.fields]) for event in log_events.events(tmp_path)}
    assert found == {
        "one": (["warning"], ["error"]),
        "two": (["error"], ["owed"]),
        "three": (["error"], ["task_id"]),
        "four": (["warning"], ["task", "task_id", "duration_ms", "run_id", "rows"]),
        "five": (["warning"], ["count"]),
    }


@each(TASKS, name_of)
def test_every_task_has_a_page_with_its_fields_and_examples(task: object) -> None:
    """Each field of the job, and of an answer that has one type."""
    page = built(f"tasks/{task.name}.md")
    fields = [field.alias or name for name, field in task.job.model_fields.items()]
    fields += [field.alias or name for name, field in getattr(task.answer, "model_fields", {}).items()]
    assert [name for name in fields if f"- **`{name}`**: " not in page] == []
    assert page.count("```json\n") == 2


@each(module.name for module in pkgutil.iter_modules(reference_pages.__path__))
def test_examples_of_the_generators_are_true(name: str) -> None:
    """As those of the worker are."""
    assert doctest.testmod(importlib.import_module(f"reference_pages.{name}")).failed == 0
