"""Quotation marks of the writer's around a whole quote, and rows of numbers without the pipes of their table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.unit.core.quoting.corpus import Case, Made, Text, accepted, cases, is_broad, refused

if TYPE_CHECKING:
    import random

# --- a quote in quotation marks of its own ------------------------------------------------------

OWN_MARKS = [
    "“{}”",
    "„{}“",
    "„{}”",
    "”{}”",
    "«{}»",
    "« {} »",
    "»{}«",
    "「{}」",
    "『{}』",
    '"{}"',
    "“{}.”",
    "“{}”.",
    "“… {}”",
]
BROKEN_MARKS = ["“{}", "{}”", "“{}»", "”{}“", "«{}“", "‘{}”", "(“{}”)x", "“{}” “", "“{}”, he", "[“{}”]"]


def six_words(rng: random.Random, text: Text) -> tuple[str, list[str]] | None:
    """A chunk without quotation marks, and six neighbouring words of it that are no numbers."""
    chunk = re.sub("[\"“”„«»'‘’]", "", text.text)
    words = chunk.split()
    starts = [i for i in range(len(words) - 5) if all(re.fullmatch(r"[^\W\d_]+", word) for word in words[i : i + 6])]
    if not starts:
        return None
    start = rng.choice(starts)
    return chunk, words[start : start + 6]


def with_own_marks(rng: random.Random, text: Text) -> Made | None:
    """The whole quote stands in quotation marks that the chunk does not have."""
    made = six_words(rng, text)
    return made and Made(rng.choice(OWN_MARKS).format(" ".join(made[1])), made[0])


def with_other_marks(rng: random.Random, text: Text) -> Made | None:
    """Marks that are no pair, or that stand around some of the words; or other words within a pair."""
    made = six_words(rng, text)
    if made is None:
        return None
    chunk, words = made
    changed = rng.choice(
        [[*words[:2], *words[3:]], [*words[:2], "[not]", *words[2:]], [words[1], words[0], *words[2:]]]
    )
    quotes = [
        rng.choice(BROKEN_MARKS).format(" ".join(words)),
        f"{words[0]} “{words[1]}” {' '.join(words[2:])}",
        f"“{words[0]}” {' '.join(words[1:-1])} “{words[-1]}”",
        f"“{' '.join(words[:3])}” “{' '.join(words[3:])}”",
        rng.choice(OWN_MARKS).format(" ".join(changed)),
    ]
    return Made(rng.choice(quotes), chunk) if " ".join(changed) not in chunk else None


# --- rows of numbers ----------------------------------------------------------------------------

CELLS = ["12", "7", "12.5", "1,250", "0.5", "38 %", "−4", "3 dB", "€ 5", "2019", "90%", "150"]


def number_rows(rng: random.Random, text: Text, cells: list[str]) -> tuple[str, list[list[str]]]:
    """A chunk with a Markdown table of a name and numbers in each row, and these."""
    names = re.findall(r"[^\W\d_]{3,}", text.text)[:40]
    rows = [[rng.choice(names), *(rng.choice(cells) for _ in range(3))] for _ in range(3)]
    lines = ["| name | one | two | three |", "|---|--:|--:|--:|", *(f"| {' | '.join(row)} |" for row in rows)]
    return f"{text.text}\n\n" + "\n".join(lines) + "\n", rows


def reads_joined(row: list[str]) -> bool:
    """Whether two cells with one space between them would read as one number."""
    return re.search(r"(?<![\d.,])\d{1,3} \d{3}(?![\d.,])", " ".join(row)) is not None


def with_a_row(rng: random.Random, text: Text) -> Made | None:
    """A row, or some of its cells, without its pipes, or with other space beside them."""
    chunk, rows = number_rows(rng, text, CELLS)
    row = rng.choice(rows)
    if reads_joined(row):
        return Made(rng.choice(["|{}|", "|  {}  |"]).format("|".join(row)), chunk)
    between = rng.choice([" ", "  ", "\t", "|", " | "])
    quote = between.join(rng.choice([row, row[:3], row[1:]]))
    return Made(f"|{quote}|" if "|" in between else quote, chunk)


def with_columns_joined(rng: random.Random, text: Text) -> Made | None:
    """Two cells as one number, an empty or a worded cell left out, cells exchanged, a pipe where the chunk has none."""
    chunk, rows = number_rows(rng, text, ["12", "7", "999", "350", "150", "1", "25"])
    row = rng.choice(rows)
    one, two, three = row[1:]
    space = rng.choice(["", " ", "\u00a0", "\u202f", "\u2009", "\n", "\n\n", "\u200b", ".", ",", "-"])
    quotes = [
        f"{one}{space}{two}{space}{three}",
        f"{row[0]} {one} {three}",
        f"{row[0]} {one} {two}0",
        f"{row[0]} {two} {one}",
    ]
    quote = rng.choice(quotes[1:] if space in " \n\n\u00a0\u202f\u2009" and not reads_joined(row) else quotes[:1])
    cells = " ".join(" ".join(row) for row in rows)
    return Made(f"{quote}", chunk) if f" {quote} " not in f" {cells} " and len({one, two, three}) > 2 else None


def test_what_is_no_row_of_numbers_keeps_its_pipes() -> None:
    """Words of two cells, a dash for no number, and pipes that only the quote has."""
    pairs = [
        ("| pump | safe | not |\n", "pump safe not"),
        ("| pump | — | 38 |\n", "pump — 38"),
        ("| pump | - | 38 |\n", "pump - 38"),
        ("| pump | > | 38 |\n", "pump > 38"),
        ("| pump | 5 | not safe |\n", "pump 5 not safe"),
        ("|x| 3 | 5\n", "x 3 5"),
        ("we ran the pump 12 350 times", "|pump|12|350|"),
        ("we ran the pump 12.5 7 times", "|pump|12.5|7|"),
        ("| pump 12.5 | 7 | 8 |\n", "|pump|12.5|7|8|"),
        ("| pump | 25 | 000 |\n", "pump 25 000"),
        ("| pump | 1 | 1/2 |\n", "pump 1 1/2"),
    ]
    made = [Case(quote, chunk, "table", "English") for chunk, quote in pairs]
    assert accepted(made) == []


RULES = {
    "own marks": (with_own_marks, with_other_marks),
    "rows of numbers": (with_a_row, with_columns_joined),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    """Every quote by the honest rule of a class is normalised or better, and none by the rule beside it is found."""
    honest, altered = (cases(rule) for rule in RULES[name])
    assert is_broad(honest)
    assert is_broad(altered)
    assert refused(honest) == []
    assert accepted(altered) == []
