"""The Postgres that `up`, `demo` and the tests start: which characters its full text knows, in which order it sorts."""

from __future__ import annotations

import importlib.util
import io
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from workbench import demo
from workbench.devstack import postgres
from workbench.devstack.postgres import postgres_server
from worker.adapters.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.devstack.postgres import Postgres

WORDS = {
    "“pump”": ["pump"],
    "pump—a": ["a", "pump"],
    "O’Brien": ["brien", "o"],
    "Москва": ["москва"],
    "«École» İZMİR": ["izmir", "école"],
    "Ørsted…Ωμέγα": ["ørsted", "ωμέγα"],
}
"""Text → its words, as full text stores them."""


@pytest.fixture(params=[18, 16])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Postgres]:
    """A server of each version whose binaries are installed."""
    if importlib.util.find_spec(postgres._BINARIES[request.param][0]) is None:
        pytest.skip(f"PostgreSQL {request.param} is not installed")
    with postgres_server(tmp_path / "postgres", version=request.param) as running:
        yield running


def words_of(connection: psycopg.Connection[Any], text: str) -> list[str]:
    row = connection.execute("SELECT tsvector_to_array(to_tsvector('simple', %s))", (text,)).fetchone()
    assert row is not None
    return sorted(row[0])


def test_words_end_at_any_punctuation_and_are_lower_case_in_any_script(server: Postgres) -> None:
    """And texts are sorted by code point."""
    with psycopg.connect(server.dsn()) as connection:
        assert {text: words_of(connection, text) for text in WORDS} == WORDS
        row = connection.execute("SELECT array_agg(x ORDER BY x) FROM unnest('{é,b,A,a,B,Я}'::text[]) AS x").fetchone()
    assert row == (["A", "B", "a", "b", "é", "Я"],)


def test_a_folder_made_with_fewer_letters_keeps_working_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine without a locale of UTF-8; where the folder knows all, nothing is said."""
    monkeypatch.setattr(postgres, "CHARACTER_TYPES", ())
    with postgres_server(tmp_path / "postgres"):
        pass
    monkeypatch.undo()
    said = []
    for name in ("postgres", "new"):
        console = Terminal(file=io.StringIO(), width=200)
        with postgres_server(tmp_path / name) as running, psycopg.connect(running.dsn()) as connection:
            demo.report_letters(connection, console)
        said.append(console.file.getvalue())  # type: ignore[attr-defined] # a StringIO
    assert said == ["full text knows the letters of ASCII alone: these data were made with lc_ctype C\n", ""]
