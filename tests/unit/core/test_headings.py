"""Sections of an answer, as models write their headings."""

from __future__ import annotations

import pytest

from worker.core.text.headings import Headings


@pytest.mark.parametrize(
    "line",
    ["## Verse 1", "# Verse 1", "## Verse 1\r", "##\tVerse 1  ", "  ## Verse 1", "## Verse 1 ##", "## **Verse 1**"],
)
def test_a_section_has_its_plain_name(line: str) -> None:
    """Line ends, closing signs and emphasis are no part of a section's name."""
    answer = f"{line}\nIt hums.\r\n\r\n## Chorus\r\nHum."
    headings = Headings(answer)
    assert [*headings.sections()] == [("Verse 1", "It hums."), ("Chorus", "Hum.")]
    assert [headings.at(answer.index(words)) for words in ("It hums", "Hum.")] == ["Verse 1", "Chorus"]


@pytest.mark.parametrize(
    "line", ["#Verse 1", "####### Verse 1", "    ## Verse 1", "Verse ## 1", "##", "## ##", "## " + "x" * 201]
)
def test_what_is_no_heading_begins_no_section(line: str) -> None:
    """Tags, code, and lines that are too long to be a name."""
    assert [name for name, _ in Headings(f"{line}\nIt hums.").sections()] == [None]


@pytest.mark.parametrize(
    ("line", "name"), [("## C# and F##", "C# and F##"), ("## 2 * 3 * 4", "2 * 3 * 4"), ("## *A* or *B*", "*A* or *B*")]
)
def test_signs_of_a_name_stay(line: str, name: str) -> None:
    """Only what closes or emphasises the whole of it is set aside."""
    assert [*Headings(f"{line}\nIt hums.").sections()] == [(name, "It hums.")]
