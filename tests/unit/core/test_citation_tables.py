"""The data files of words and units: whole, shipped, and checked when they are read."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

import worker.core.citations
from worker.core.citations.quoting.word_lists import _word_lists
from worker.core.citations.tables import BrokenTableError, Table, parse_tables, read_tables

HERE = Path(worker.core.citations.__file__).parent
FILES = sorted(path.relative_to(HERE).as_posix() for path in HERE.rglob("*.toml"))


def table(content: str) -> Table:
    return parse_tables("words.toml", content.encode())


def test_each_file_is_where_its_package_finds_it() -> None:
    """So that an installed worker has it too."""
    assert FILES == [
        "disagreement/units.toml",
        "disagreement/vocabulary.toml",
        "quoting/names.toml",
        "quoting/number_words.toml",
        "quoting/units.toml",
        "quoting/word_lists.toml",
    ]
    for file in FILES:
        assert resources.files("worker.core.citations").joinpath(file).is_file()


@pytest.mark.parametrize("file", FILES)
def test_a_broken_line_is_named(file: str) -> None:
    """With the file, whatever stands in the others."""
    content = HERE.joinpath(file).read_bytes()
    line = content.count(b"\n") + 1
    with pytest.raises(BrokenTableError, match=rf"{file}: .*line {line}"):
        parse_tables(file, content + b"words words\n")


def test_a_file_that_is_no_text_is_named_with_the_line() -> None:
    with pytest.raises(BrokenTableError, match=r"words.toml: line 2: expected UTF-8"):
        parse_tables("words.toml", b'a = "b"\nc = "\xff"\n')


def test_a_missing_file_is_named() -> None:
    with pytest.raises(BrokenTableError, match=r"worker/core/citations/nowhere.toml: there is no such file"):
        read_tables("worker.core.citations", "nowhere.toml")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('other = "a"', "words.toml: words: this key is missing"),
        ("words = 5", "words.toml: words: expected a text that is not empty"),
        ('words = " "', "words.toml: words: expected a text that is not empty"),
    ],
)
def test_words_are_words(content: str, said: str) -> None:
    """A key without them is named."""
    with pytest.raises(BrokenTableError, match=said):
        table(content).words("words")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("numbers = 5", "words.toml: numbers: expected a table that is not empty"),
        ('[numbers]\none = "1"', r"words.toml: numbers\.one: expected a whole number"),
        ("[numbers]\none = true", r"words.toml: numbers\.one: expected a whole number"),
    ],
)
def test_numbers_are_numbers(content: str, said: str) -> None:
    """A word without one is named."""
    with pytest.raises(BrokenTableError, match=said):
        table(content).numbers("numbers")


def test_factors_are_exact() -> None:
    """A factor that is no number is named, as key and as value."""
    assert [str(factor) for factor, _ in table('"5/18" = "kmh kph"').factors()] == ["5/18"]
    with pytest.raises(BrokenTableError, match=r"words.toml: x: expected a number or a fraction as the key"):
        list(table('x = "kmh"').factors())
    with pytest.raises(BrokenTableError, match=r"words.toml: factor: expected a number or a fraction"):
        table('factor = "1/0"').fraction("factor", "1")


def test_what_the_code_does_not_read_is_named() -> None:
    """A misspelt key would be words that are never looked for."""
    read = table('words = "a"\nwrods = "b"')
    read.words("words")
    with pytest.raises(BrokenTableError, match=r"words.toml: wrods: this key is not known"):
        read.close()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[English]\ndenials", "[English]\ndenails", "English: denails: this key is not known"),
        ("pairs = ", "pair = ", "case: pairs: this key is missing"),
        ("us US it IT", "us it IT", "case: pairs: expected pairs of words"),
        ("(?<!ま))ず", "(?<!ま)ず", "Japanese: patterns: expected regular expressions"),
    ],
)
def test_word_lists_are_checked(old: str, new: str, said: str) -> None:
    """A broken list of a language is named with the language and the key."""
    content = HERE.joinpath("quoting/word_lists.toml").read_text(encoding="utf-8")
    assert old in content
    with pytest.raises(BrokenTableError, match=said.replace("(", r"\(")):
        _word_lists(parse_tables("word_lists.toml", content.replace(old, new, 1).encode()))
