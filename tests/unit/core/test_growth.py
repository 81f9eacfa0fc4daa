"""No text makes what is done with untrusted texts slow: eight times the text takes about eight times as long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.timing import seconds

from worker.core.citations.budget import SearchBudget
from worker.core.citations.conflicts import find_conflicts
from worker.core.citations.disagreement import find_disagreements
from worker.core.citations.document import CitationRecord
from worker.core.citations.labels import classify
from worker.core.citations.quoting import QuotedChunk, check_quote
from worker.core.citations.quoting.differences import Difference, Pair, merged
from worker.core.citations.quoting.reading import Reading
from worker.core.prompting.evidence import missing_codes
from worker.core.text.sentences import split_sentences

if TYPE_CHECKING:
    from collections.abc import Callable

UNITS = {
    "pieces of a code": "a1",
    "marks": "\u0315\u0300",
    "words with marks": "a" + "\u0315\u0300" * 40 + " ",
    "letters that are taken apart": "\u0344\u0f73",
    "opening brackets": "[",
    "brackets": "[a] ",
    "nested brackets": "[[a]",
    "dots": ".",
    "spaced dots": ". . . ",
    "ellipses": "one two three … ",
    "dots of both kinds": "...…",
    "quotes": "\"'“",
    "soft hyphens": "\u00ad",
    "ligatures": "ﬃ",
    "squares": "㏍k",
    "broken lines": "a-\n",
    "zero width": "\u200b\u200d",
    "labels": "[S1, S1] ",
    "white space": " \n",
    "digits": "12.5 ",
    "Japanese": "が\n（",
    "words put in": "[she] … ",
    "one word": "a a a ",
    "a long word": "a",
    "emphasis": "** a *",
    "entities": "&amp;",
    "unfinished tags": '<b a="x" ',
    "links": "![a](b",
    "ticks": "` a",
    "notes": "word[1]¹ ",
    "rows": "| a |\n",
    "quote marks": "« a » ",
    "sentences": "A. b. ",
    "stars": "*",
    "openings of bold": "**a",
    "tags": "<b>",
    "cells": "| ",
    "quoted": "> ",
    "numbers of items": "1.",
    "two letters": "ab",
}
LIST_OF_LABELS = "[" + "S1, " * 2_000

SMALL, TIMES, BOUND = 4_000, 8, 30
"""Quadratic time would be 64 times as much; what takes so little is not measured."""


def quotes(text: str) -> None:
    """As quote, as chunk and as both, so that it is searched and compared."""
    chunks = [QuotedChunk.of("own", text), QuotedChunk.of("other", "x" + text[1:] + " end")]
    check_quote(text[: len(text) // 2] + "!", "own", chunks)
    check_quote("one two three … four five six", "own", chunks)
    check_quote("she runs " + text, "own", [QuotedChunk.of("own", "she runs " * (len(text) // 9))])


def records(text: str) -> list[CitationRecord]:
    """Two sources that differ at the end."""
    return [
        CitationRecord(chunk_hash=source, source_id=source, text=text + end, chunk_id="c", weight=1.0)
        for source, end in (("a", " It weighs 5 kg in all."), ("b", " It weighs 6 kg in all."))
    ]


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "check_quote": quotes,
    "find_disagreements": lambda text: find_disagreements(records(text)),
    "find_conflicts": lambda text: find_conflicts(records(text)),
    "classify": lambda text: classify(text, {"S1": "sha256:1"}),
    "missing_codes": lambda text: missing_codes(text, [text]),
}


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_time_grows_with_the_text(function: str, name: str) -> None:
    """Time grows in proportion to the length, for every pattern that a text repeats."""
    unit = UNITS[name]
    small, large = (unit * (size // len(unit)) for size in (SMALL, SMALL * TIMES))
    once = seconds(FUNCTIONS[function], small)
    assert seconds(FUNCTIONS[function], large) < BOUND * max(once, 0.005)


def words(first: int, count: int) -> str:
    """Different words, each between two blanks."""
    return "".join(f" w{number}" for number in range(first, first + count))


PAIRS: dict[str, Callable[[int], tuple[str, str]]] = {
    "dashes before a letter": lambda n: ("a", "-" * n + "a"),
    "notes before a bracket": lambda n: ("word", "word" + "[1]" * n + "("),
    "raised digits before a digit": lambda n: ("word", "word" + "¹" * n + "1"),
    "questions before a letter": lambda n: ("a", "a " + "?!" * n + "b"),
    "tags that lead elsewhere": lambda n: (
        "one " + "".join(f"<b a={i}>" for i in range(n)) + " two",
        "one " + "".join(f"<b a={i} >" for i in range(n)) + " two",
    ),
    "parts without letters": lambda n: ("a " + "… ? " * n, "a" + "\u00ad" * 4 * n + "?"),
    "parts that stand twice": lambda n: (
        words(0, n // 8).replace(" ", " … ")[3:] + " … end",
        words(0, n // 8) + " " + "w1" * 32 * n + words(0, n // 8) + " end",
    ),
}
"""A quote and its source, by how often something stands in them."""


@pytest.mark.parametrize("name", PAIRS)
def test_time_grows_with_quote_and_source(name: str) -> None:
    """Time grows in proportion to both, where each part of a quote could be searched for in all of the source."""
    once, longer = (
        seconds(lambda pair: check_quote(pair[0], "own", [QuotedChunk.of("own", pair[1])]), PAIRS[name](size))
        for size in (SMALL, SMALL * TIMES)
    )
    assert longer < BOUND * max(once, 0.005)


def test_stops_before_a_letter_end_no_sentence() -> None:
    """Nor is the end of their run looked for from each of them."""
    assert [*split_sentences("?!" * 9 + "b")] == [(0, 19)]
    once, longer = (seconds(lambda text: [*split_sentences(text)], "?" * size + "b") for size in (SMALL, SMALL * TIMES))
    assert longer < BOUND * max(once, 0.005)


def test_parts_are_counted_in_each_chunk() -> None:
    """A quote of many parts without a letter takes steps in every chunk, however short that is."""
    chunks = [QuotedChunk.of(str(number), "") for number in range(100)]
    assert check_quote(". … " * 500, "0", chunks, SearchBudget(20_000, 1)).verdict == "not_checked"
    assert check_quote(". … " * 500, "0", chunks, SearchBudget(200_000, 1)).verdict == "not_found"


def test_differences_that_touch_are_joined_at_once() -> None:
    """Eight times as many take about eight times as long."""
    pair = Pair(Reading("𝐚" * 160_000), Reading("𝐛" * 160_000))
    spans = [(i, i + 1) for i in range(160_000)]
    letters = [Difference("look_alike", "𝐚", "𝐛", span, span) for span in spans]
    assert [*map(len, merged(pair, letters)[0][1:3])] == [160_000, 160_000]
    once, longer = (seconds(lambda some: merged(pair, some), letters[:count]) for count in (20_000, 160_000))
    assert longer < BOUND * max(once, 0.005)


def test_a_list_of_labels_that_never_ends() -> None:
    """As long again takes about as long again."""
    once = seconds(FUNCTIONS["classify"], LIST_OF_LABELS)
    assert seconds(FUNCTIONS["classify"], LIST_OF_LABELS * TIMES) < BOUND * max(once, 0.005)
