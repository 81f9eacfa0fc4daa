"""The threat model's lines are shown by tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.loops import each

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text()
ITEMS = [" ".join(item.split()) for item in re.findall(r"^- (.*(?:\n  .*)*)", PAGE, re.MULTILINE)]
"""The items of the page's lists, each on one line."""

NAMED = sorted({*re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE)})


def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@each(NAMED)
def test_each_named_test_is_there(name: str) -> None:
    """A test that was renamed shows nothing any more."""
    file, test = name.split("::")
    assert test.startswith("test_")
    assert test in names_in(file)


@each(ITEMS)
def test_each_line_names_its_test(item: str) -> None:
    """A line of the threat model: an action, a colon, and its tests."""
    said, _, shown = item.rpartition(": ")
    assert said.split()[0] in {"can", "cannot"}
    names = shown.split(", ")
    assert all(name.strip("`") in NAMED for name in names)


def test_the_page_is_short_and_found() -> None:
    """A reader gets through it, and to it."""
    assert len(PAGE.split()) <= 1200
    assert len(ITEMS) > 20
    for page in ("README.md", "SECURITY.md"):
        assert "docs/threat-model.md" in (ROOT / page).read_text()
    assert "SECURITY.md" in PAGE
