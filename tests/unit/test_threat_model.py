"""The threat model's lines are shown by tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| can")]
NAMED = sorted({*re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE)})


def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", NAMED)
def test_each_named_test_is_there(name: str) -> None:
    """A test that was renamed shows nothing any more."""
    file, test = name.split("::")
    assert test.startswith("test_")
    assert test in names_in(file)


@pytest.mark.parametrize("row", ROWS)
def test_each_line_names_its_test(row: str) -> None:
    """What somebody can or cannot do is no opinion."""
    _, said, shown, _ = row.split("|")
    assert said.split()[0] in {"can", "cannot"}
    names = [name.strip() for name in shown.split(", ")]
    assert names
    assert all(name.strip("`") in NAMED for name in names)


def test_the_page_is_short_and_found() -> None:
    """A reader gets through it, and to it."""
    assert len(PAGE.split()) <= 1200
    assert len(ROWS) > 20
    for page in ("README.md", "SECURITY.md"):
        assert "docs/threat-model.md" in (ROOT / page).read_text()
    assert "SECURITY.md" in PAGE
