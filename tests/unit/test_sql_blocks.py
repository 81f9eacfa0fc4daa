"""Fixed SQL in `.sql` files: each block is described, and used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.loops import each

import workbench
import worker
from worker.adapters.postgres import sql
from worker.adapters.postgres.sql import COMMENT, NAME, blocks

FILES = sorted(Path(sql.__file__).parent.glob("*.sql"))
SOURCES = [
    path.read_text()
    for package in (worker, workbench)
    for path in Path(str(package.__file__)).parent.rglob("*.py")
    if path != Path(sql.__file__)
]


@each(FILES, lambda file: file.stem)
def test_a_block_has_a_name_of_its_own_a_description_and_one_statement(file: Path) -> None:
    """Above the first name stand comments alone."""
    head, *parts = NAME.split(file.read_text())
    assert COMMENT.sub("", head).strip() == ""
    assert len({*parts[::2]}) == len(parts[::2])
    for name, block in zip(parts[::2], parts[1::2], strict=True):
        assert re.match(r"-- \w", block), name
        assert COMMENT.sub("", block).strip(), name
        assert COMMENT.sub("", block).isascii(), name
        assert ";" not in COMMENT.sub("", block), name


@each(FILES, lambda file: file.stem)
def test_each_block_is_used_under_its_name_by_the_one_module_of_its_file(file: Path) -> None:
    """None is left over; a name that is not there fails when the module is imported."""
    (source,) = [text for text in SOURCES if f'blocks("{file.stem}")' in text]
    constants = re.findall(r'^(\w+)(?:: \w+)? = \(?_SQL\["(\w+)"\]', source, re.MULTILINE)
    assert sorted(name for _, name in constants) == sorted(blocks(file.stem))
    for constant, name in constants:
        assert constant.removeprefix("_") == name.upper()
        sources = [source] if constant.startswith("_") else SOURCES
        assert sum(len(re.findall(rf"\b{constant}\b", text)) for text in sources) > 1, constant


def test_a_statement_is_sent_without_its_comments() -> None:
    """A statement begins with its first word, and a name that is not there is an error."""
    assert FILES
    assert not [name for file in FILES for name, statement in blocks(file.stem).items() if b"--" in statement]
    with pytest.raises(KeyError):
        blocks("runs")["no_such_block"]
