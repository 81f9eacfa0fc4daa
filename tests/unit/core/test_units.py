from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from worker.core.text.units import units

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


def quotable(text: str) -> list[str]:
    return [text[unit.start : unit.end] for unit in units(text) if not unit.is_heading]


def headings(text: str) -> list[str]:
    return [text[unit.start : unit.end] for unit in units(text) if unit.is_heading]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOG, LOG.split("\n")),
        ("0,id\n1,Blue reel\n2,Red reel", ["0,id", "1,Blue reel", "2,Red reel"]),
        ("IS\tIceland\r\nCH\tSwitzerland", ["IS\tIceland", "CH\tSwitzerland"]),
        ("| Day | Hours |\n|---|---|\n| Sunday | closed |", ["| Sunday | closed |"]),
        ("- Saturday: 10 to 14\n- Sunday: closed", ["- Saturday: 10 to 14", "- Sunday: closed"]),
        ("- An item that goes\n  on below. It ends.", ["- An item that goes\n  on below.", "It ends."]),
    ],
)
def test_a_line_of_a_list_a_table_or_a_log_is_a_unit(text: str, expected: list[str]) -> None:
    assert quotable(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The ferry of the harbour master leaves at\n07:10 from the slipway\nbelow the house.", 1),
        ("Am Hafen wartet seit dem frühen Morgen die\nFähre auf den Arzt, seine Frau und beide\nKinder.", 1),
        ("Care.\nThe ribbon of the harbour master stands\nupright in the cedar cupboard below the\nstairs.", 2),
        ("A short head\nThe first paragraph is in one line. It has two sentences.\nThe second is too.", 3),
    ],
)
def test_a_wrapped_line_ends_no_unit(text: str, expected: int) -> None:
    """Where the next word would have had no room, or is in lower case, the sentence goes on."""
    assert len(quotable(text)) == expected


@pytest.mark.parametrize(
    "lines",
    [
        [f"2026-03-0{i}T0{i}:10:10Z ERROR pump-{i} lost its heartbeat" for i in range(5)],
        [f'10.0.0.{i} - - [28/Nov/2026] "GET /pump/{i} HTTP/1.1" 200' for i in range(5)],
        [f"[{i}] A book of about this length on pumps and valves" for i in range(5)],
    ],
)
def test_lines_that_begin_alike_are_rows(lines: list[str]) -> None:
    """Also where all are equally long, so that no next word would have fitted."""
    text = "\n".join(lines)
    assert quotable(text) == lines
    assert all(unit.is_row for unit in units(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Is it loud?\n\nIt hums.", ["# Is it loud?"]),
        ("2. Life rafts\n\nThere are six.", ["2. Life rafts"]),
        ("2. Life rafts\nThere are six life rafts. Each raft holds 25 persons.", ["2. Life rafts"]),
        ("Life rafts\n\nThere are six.", ["Life rafts"]),
        ("Manual\n\nLife rafts\n\nThere are six.", ["Manual", "Life rafts"]),
        ("Life rafts\n==========\nThere are six.", ["Life rafts"]),
        ("==========\nLife rafts\n==========\n\nThere are six.", ["Life rafts"]),
        ("They are six. Their places:\n\nbow and stern", ["Their places:"]),
        ("| Day | Hours |\n|:--|--:|\n| Sunday | closed |", ["| Day | Hours |"]),
        ("1. Six life rafts\n2. Two boats\n\nBoth are new.", []),
        ("- Six life rafts\n\nThey are new.", []),
        ("Phone: 555 and 12\n\nNobody answers.", []),
        ("There are six.\n\nOf the Halden company", []),
        ("Prose.\n---\nMore.", []),
        (f"{'Long ' * 20}\n\nIt hums.", []),
    ],
)
def test_a_heading_stands_above_what_it_is_about(text: str, expected: list[str]) -> None:
    """It has a mark of one, or a colon at its end, or is a short line without a full stop; items are none."""
    assert headings(text) == expected


ROWS = "P3;Usher, late;3,120\nP4;Prompter;none\nP5;Manager;none"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Grade;Role;Amount\n{ROWS}", ["Grade;Role;Amount"]),
        ("Grade\tRole\tAmount\nP3\tUsher\t3,120\nP4\tPrompter\t3,700", ["Grade\tRole\tAmount"]),
        ("id,name\n1,Blue reel\n2,Red reel", ["id,name"]),
        ("Pool | Price\nNorthbath | 4.20\nLido | 5.50", ["Pool | Price"]),
        ("Name\tRole\n\nMiller\tConductor\nHayes\tUsher", ["Name\tRole"]),
        ("Sunday\tclosed\nMonday\t9 to 5\nFriday\t9 to 5", []),
        ("Sunday;closed;closed\nMonday;9 to 1;2 to 5\nFriday;9 to 1;2 to 5", []),
        (f"P2;Porter;900\n{ROWS}", []),
        ("Grade;Role\nUsher, late;3,120\nPrompter;none;9", []),
        ("Miller;Conductor\nHayes;Usher\nIto;Porter", []),
    ],
)
def test_a_header_names_the_columns_of_a_table(text: str, expected: list[str]) -> None:
    """It is a row and a heading; what may be data, as a day that is closed, is none."""
    headers = [unit for unit in units(text) if unit.is_heading]
    assert [text[unit.start : unit.end] for unit in headers] == expected
    assert all(unit.is_row for unit in headers)


def test_what_a_line_with_a_colon_introduces_is_a_list() -> None:
    """Without marks, too: one line each. What has several sentences is prose again."""
    text = "Duties:\n\nSign the log\n\nTest the radio.\n\nIt is old. It hums.\n\nIt is loud."
    assert [unit.is_row for unit in units(text) if not unit.is_heading] == [True, True, False, False, False]


@pytest.mark.parametrize(
    "text",
    [
        ".. image:: https://example.org/logo.svg\n   :alt: Logo of the ferry.",
        "|build-status| image:: https://example.org/badge.svg",
        "|build-status| |coverage| |license|",
        "[![Build](https://example.org/a.svg)](https://example.org/a)\n![Logo of it](b.png)",
        ".. _ferry: https://example.org/",
    ],
)
def test_images_badges_and_directives_are_no_units(text: str) -> None:
    assert [*units(text)] == []


@pytest.mark.parametrize(
    "text", ["1 Care ........ 3\n2 Ribbons ..... 14", "1 Care . . . . . 3", "# Ribbons", "```\nribbon()\n```"]
)
def test_contents_headings_and_code_are_no_units(text: str) -> None:
    assert quotable(text) == []


def test_a_line_of_contents_hides_no_sentence_beside_it() -> None:
    contents = f"1 Care of ribbons {30 * '.'}  3\n2 Storing ribbons {30 * '.'} 14"
    assert quotable(f"{contents}\nThe ribbon stands upright below the stairs.") == [
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
    assert [unit.is_whole for unit in units(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No. It can run dry.", ["No. It can run dry."]),
        ("Yes!  Never. It hums on. No.", ["Yes!  Never. It hums on.", "No."]),
        ("- No. It can run dry.\n- It hums.", ["- No. It can run dry.", "- It hums."]),
        ("1. Stop.\n2. Do this.", ["1. Stop.", "2. Do this."]),
        ("No.\n\nIt can run dry.", ["No.", "It can run dry."]),
        ("Why? It burns. It stops.", ["Why?", "It burns.", "It stops."]),
        ("Mr. J. S. Bach left. Dr. No came.", ["Mr. J. S. Bach left.", "Dr. No came."]),
    ],
)
def test_a_word_alone_is_part_of_the_next_sentence_of_its_paragraph(text: str, expected: list[str]) -> None:
    assert quotable(text) == expected


@given(texts)
def test_units_stand_in_order_without_white_space_around_them(text: str) -> None:
    places = [place for unit in units(text) for place in (unit.start, unit.end)]
    assert places == sorted(places)
    assert all(unit.strip() == unit != "" for unit in quotable(text))


@pytest.mark.parametrize(
    "unit",
    [
        "Row\n",
        "a b c\n",
        ". . . . ",
        "- Row\n",
        "| a ",
        "word ",
        "word. ",
        "\r",
        " ",
        "# a\n",
        "|a| ",
        "1. a\n",
        "A:\n\n",
        "a;b\n",
        "a\n==",
        "No. ",
        "! ",
    ],
)
def test_any_text_takes_linear_time(unit: str) -> None:
    assert_linear(lambda text: [*units(f"A\n{text}")], unit, 3_000)
