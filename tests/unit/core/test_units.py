from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from worker.core.text.units import quotable_units

PIECES = [
    "It hums. ",
    "a b",
    "12:00",
    "Blue reels",
    "\n",
    "\r\n",
    "\n\n",
    "- ",
    "| ",
    "# ",
    "> ",
    "```\n",
    ". . . . ",
    "进行。",
]
texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=40)
LOG = "02:14:07 warning text truncated, 256 of 300 tokens read\n02:14:09 job started\n02:14:10 Connection refused"


def units(text: str) -> list[str]:
    return [text[unit.start : unit.end] for unit in quotable_units(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOG, LOG.split("\n")),
        ("id,name\n1,Blue reel\n2,Red reel", ["id,name", "1,Blue reel", "2,Red reel"]),
        ("IS\tIceland\r\nCH\tSwitzerland", ["IS\tIceland", "CH\tSwitzerland"]),
        ("| Day | Hours |\n|---|---|\n| Sunday | closed |", ["| Day | Hours |", "|---|---|", "| Sunday | closed |"]),
        ("- Saturday: 10 to 14\n- Sunday: closed", ["- Saturday: 10 to 14", "- Sunday: closed"]),
        ("- An item that goes\n  on below. It ends.", ["- An item that goes\n  on below.", "It ends."]),
    ],
)
def test_a_line_of_a_list_a_table_or_a_log_is_a_unit(text: str, expected: list[str]) -> None:
    assert units(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The ferry of the harbour master leaves at\n07:10 from the slipway\nbelow the house.", 1),
        ("Am Hafen wartet seit dem frühen Morgen die\nFähre auf den Arzt, seine Frau und beide\nKinder.", 1),
        ("Care\nThe ribbon of the harbour master stands\nupright in the cedar cupboard below the\nstairs.", 2),
        ("A short head\nThe first paragraph is in one line. It has two sentences.\nThe second is too.", 4),
    ],
)
def test_a_wrapped_line_ends_no_unit(text: str, expected: int) -> None:
    """Where the next word would have had no room, or is in lower case, the sentence goes on."""
    assert len(units(text)) == expected


@pytest.mark.parametrize(
    "text", ["1 Care ........ 3\n2 Ribbons ..... 14", "1 Care . . . . . 3", "# Ribbons", "```\nribbon()\n```"]
)
def test_contents_headings_and_code_are_no_units(text: str) -> None:
    assert units(text) == []


def test_a_line_of_contents_hides_no_sentence_beside_it() -> None:
    contents = f"1 Care of ribbons {30 * '.'}  3\n2 Storing ribbons {30 * '.'} 14"
    assert units(f"{contents}\nThe ribbon stands upright below the stairs.") == [
        "The ribbon stands upright below the stairs."
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("and then it hums. It burns.", [False, True]),
        ("Ribbons\n\nIt hums (loudly.)\n\nDoes it hum?", [False, True, False]),
        ("- Sunday: closed", [True]),
        ("它响。", [True]),
    ],
)
def test_what_is_torn_or_has_no_full_stop_is_not_whole(text: str, expected: list[bool]) -> None:
    """Nor is a question; a row is."""
    assert [unit.is_whole for unit in quotable_units(text)] == expected


@given(texts)
def test_units_stand_in_order_without_white_space_around_them(text: str) -> None:
    places = [place for unit in quotable_units(text) for place in (unit.start, unit.end)]
    assert places == sorted(places)
    assert all(unit.strip() == unit != "" for unit in units(text))


@pytest.mark.parametrize(
    "unit", ["Row\n", "a b c\n", ". . . . ", "- Row\n", "| a ", "word ", "word. ", "\r", " ", "# a\n"]
)
def test_any_text_takes_linear_time(unit: str) -> None:
    assert_linear(lambda text: [*quotable_units(f"A\n{text}")], unit, 3_000)
