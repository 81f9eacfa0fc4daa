"""Columns, lines and paragraphs with a number each are not one number with a space in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.core.quoting.corpus import Made, Text, accepted, cases, check, is_broad, plant, refused

if TYPE_CHECKING:
    import random

SALES = "Region\tSales\tLoss\nNorth\t25\t000\nSouth\t7\t350"
SPACED = "North  25  000  7"

JOINED = [
    (SALES, "North 25 000"),
    (SALES, "25 000"),
    (SALES, "7 350"),
    (SALES, "North 25\u202f000"),
    (SALES, "SOUTH 7 350"),
    (SALES, "North 25\n000"),
    (SPACED, "North 25 000 7"),
    (SPACED, "25 000"),
    (SPACED, "North 25 000"),
    ("Sales were 12\n\n500 people came", "Sales were 12 500 people came"),
    ("Sales were 12\n\n500 people came", "12 500 people"),
    ("Sales were 12\n\n500 people came", "12\n500 people"),
    ("Sales were 12\u2029500 people came", "12 500 people"),
    ("We bought 12\n500 people came", "We bought 12 500 people came"),
    ("We bought 12\r\n500 people came", "We bought 12\u00a0500 people came"),
    ("We bought 12\n500 people came", "We bought 12  500 people came"),
    ("We bought 1 250\n000 of it", "We bought 1 250 000 of it"),
    ("We bought 1.234\t567 of it", "We bought 1.234 567 of it"),
    ("add 1\t1/2 cups of it", "add 1 1/2 cups of it"),
    ("add 1\n\n1/2 cups of it", "add 1 1/2 cups of it"),
    ("add 1\t½ cups of it", "add 1 ½ cups of it"),
    ("Es waren 12\n\n500 Leute kamen", "Es waren 12 500 Leute"),
    ("Il y en a 25\t000 ou plus", "Il y en a 25 000 ou plus"),
    ("Их было 12\t500 или больше", "Их было 12 500 или больше"),
    ("共有 25\t000 件记录", "共有 25 000 件记录"),
    ("عدد ٢٥\t٠٠٠ من الناس", "عدد ٢٥ ٠٠٠ من الناس"),
    ("it costs 25 000 in all", "it costs 25\t000 in all"),
    ("it costs 25 000 in all", "it costs 25\n\n000 in all"),
    ("| **25**\t000 of it", "25 000 of it"),
]
APART = [
    (SALES, "North\t25\t000", "verbatim"),
    (SALES, "7\t350", "verbatim"),
    (SALES, "North\t25", "verbatim"),
    (SALES, "South\t7", "verbatim"),
    (SALES, "North 25", "normalised"),
    (SALES, "South 7", "normalised"),
    (SALES, "Region Sales Loss North", "normalised"),
    (SALES, "North  25  000", "normalised"),
    (SPACED, "North\t25\t000\t7", "normalised"),
    (SPACED, "North 25", "normalised"),
    ("We bought 12\n500 people came", "We bought 12\n500 PEOPLE came", "normalised"),
    ("We bought 12\n500 people came", "We bought 12\r\n500 people came", "normalised"),
    ("Sales were 12\n\n500 people came", "Sales were 12\n \n500 people came", "normalised"),
    ("it costs 25 000 in all", "it costs 25\n000 in all", "normalised"),
    ("it costs 25 000 in all", "it costs 25\u00a0000 in all", "normalised"),
    ("it costs 25 000 in all", "it costs 25  000 in all", "normalised"),
    ("In 2019\n500 people came", "In 2019 500 people came", "normalised"),
    ("it is 7\t12 or so here", "it is 7 12 or so here", "normalised"),
    ("it is 7\t1234 or so here", "it is 7 1234 or so here", "normalised"),
    ("it is 12.5\t350 or so", "it is 12.5 350 or so", "normalised"),
    ("it is 7\tm 350 or so", "it is 7 m 350 or so", "normalised"),
    ("Die Pumpe 7\n\nläuft 350 Tage", "Die Pumpe 7 läuft 350 Tage", "normalised"),
]


@pytest.mark.parametrize(("text", "quote"), JOINED)
def test_two_numbers_are_not_joined(text: str, quote: str) -> None:
    """Nor is one made two by a tab or a paragraph."""
    assert check(quote, text).verdict == "not_found"


@pytest.mark.parametrize(("text", "quote", "verdict"), APART)
def test_columns_and_lines_that_stay_apart(text: str, quote: str, verdict: str) -> None:
    """Columns that keep the kind of white space, and lines that read as two numbers anyway, are found."""
    assert check(quote, text).verdict == verdict


RANGES = ["12-{}34", "3.5-{}4.5", "2019–{}2021", "−5−{}10", "１２-{}３４", "٣-{}٥"]
BREAKS = ["\n", "\r\n", " \n", "\n  "]


def range_cut(rng: random.Random, text: Text) -> Made:
    """A quote begins or ends at the line end that is inside a range."""
    low, high = rng.choice(RANGES).split("{}")
    chunk, before, after = plant(rng, text, f"from {low}{rng.choice(BREAKS)}{high} of them")
    return Made(rng.choice([f"{high} of them{after}", f"{before}from {low[:-1]}"]), chunk)


def range_kept(rng: random.Random, text: Text) -> Made:
    """A quote of the range, in one line too, or of what stands beside it."""
    low, high = rng.choice(RANGES).split("{}")
    gap = rng.choice(BREAKS)
    chunk, before, after = plant(rng, text, f"from {low}{gap}{high} of them")
    quotes = [f"from {low}{gap}{high} of them", f"from {low}{high} of them", f"{before}from", f"of them{after}"]
    return Made(rng.choice(quotes), chunk)


def test_ranges_that_a_line_end_divides() -> None:
    """Neither end of a range is quoted alone, wherever the line ends."""
    altered, honest = cases(range_cut), cases(range_kept)
    assert is_broad(altered)
    assert is_broad(honest)
    assert accepted(altered) == []
    assert refused(honest) == []


DECIMALS = [
    "3.{}5 dB",
    "3,{}5 dB",
    "−0.{}25",
    "0,{}5",
    "12.{}05",
    "3.{}5 %",
    "１.{}５kg",
    "٣.{}٥ kg",
    "€ 3,{}50 €",
    "3.{}5毫克",
    "3{}.5 dB",
    "12{},75 kg",
    "328.{}5  bar",
    "1,{}250",
    "7/{}8",
]
NO_DECIMALS = [
    "in 2019.{}12 people",
    "on page 3.{}5 people",
    "1, 2,{}5 and 7",
    "at 3.{}5. Turn",
    "in 2019,{}5 kg",
    "7.{}\n5 kg",
    "0, .12,{}.3 in all",
    "at .12{}.3 in all",
]


def decimal_cut(rng: random.Random, text: Text) -> Made:
    """A quote has one half of a number that a line end divides at its point, or divides a whole number there."""
    number = rng.choice(DECIMALS)
    cut = number.replace("{}", rng.choice(BREAKS))
    chunk, before, after = plant(rng, text, f"about {cut} of them")
    whole, _, _ = plant(rng, text, f"about {number.replace('{}', '')} of them")
    head, tail = number.split("{}")
    return rng.choice([
        Made(f"{tail} of them{after}", chunk),
        Made(f"{before}about {head}", chunk),
        Made(f"{before}about {head.rstrip('.,')}", chunk),
        Made(f"about {cut} of them{after}", whole),
    ])  # fmt: skip


def decimal_kept(rng: random.Random, text: Text) -> Made:
    """A quote has both halves, or begins and ends beside a full stop or comma between two numbers."""
    if rng.random() < 0.5:
        chunk, before, after = plant(
            rng, text, f"about {rng.choice(DECIMALS).replace('{}', rng.choice(BREAKS))} of them"
        )
        return Made(
            chunk[chunk.index("about ") :][: chunk[chunk.index("about ") :].index("of them")] + "of them", chunk
        )
    head, tail = rng.choice(NO_DECIMALS).split("{}")
    chunk, before, after = plant(rng, text, f"about {head}{rng.choice(BREAKS)}{tail} of them")
    return Made(rng.choice([f"{before}about {head}", f"{tail.strip()} of them{after}"]), chunk)


def test_decimals_that_a_line_end_divides() -> None:
    """Neither half is quoted alone where zeros or a unit show that it is one number, and no whole number is divided."""
    altered, honest = cases(decimal_cut), cases(decimal_kept)
    assert is_broad(altered)
    assert is_broad(honest)
    assert accepted(altered) == []
    assert refused(honest) == []


GROUPS = [("25", "000"), ("7", "350"), ("340", "120"), ("12 500", "000"), ("٢٥", "٠٠٠"), ("-4", "210")]
DIVIDING = ["\t", "  ", " \t", "\n", "\r\n", "\n\n", "\n   ", "\n \n", "     "]


def joined(rng: random.Random, text: Text) -> Made:
    """Numbers in columns or lines of their own, with one space between them in the quote."""
    one, other = rng.choice(GROUPS)
    chunk, before, after = plant(rng, text, f"some {one}{rng.choice(DIVIDING)}{other} of them")
    space = rng.choice(" \u00a0\u202f\u2009")
    return Made(f"{before}some {one}{space}{other} of them{after}", chunk)


def apart(rng: random.Random, text: Text) -> Made:
    """The same, with the chunk's own white space there and another one elsewhere."""
    one, other = rng.choice(GROUPS)
    numbers = f"{one}{rng.choice(DIVIDING)}{other}"
    chunk, before, after = plant(rng, text, f"some {numbers} of them")
    space = rng.choice(["  ", "\n", "\u00a0"])
    return Made(f"{before.replace(' ', space)}some{space}{numbers}{space}of them{after.replace(' ', space)}", chunk)


def test_rules() -> None:
    """In every text, whatever its language."""
    altered, honest = cases(joined), cases(apart)
    assert is_broad(altered)
    assert is_broad(honest)
    assert accepted(altered) == []
    assert refused(honest) == []
