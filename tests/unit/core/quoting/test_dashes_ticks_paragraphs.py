"""An em dash for a hyphen within a word, backticks for quotes, and paragraphs run together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.unit.core.quoting.corpus import TEXTS, Made, Rule, Text, accepted, cases, check, is_broad, plant, refused

from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.findings import QuotedChunk

if TYPE_CHECKING:
    import random

HYPHENED = ["well-known", "man-eating", "re-sign", "tête-à-tête", "красно-белый", "Groß-Gerau", "co-op", "po-lski"]


def hyphened(dashes: str) -> Rule:
    """A rule: the chunk has a word with a hyphen, the quote another dash there."""

    def rule(rng: random.Random, text: Text) -> Made:
        word = rng.choice(HYPHENED)
        chunk, before, after = plant(rng, text, word)
        return Made(before + word.replace("-", rng.choice(dashes)) + after, chunk)

    return rule


def test_a_long_dash_is_no_hyphen() -> None:
    """It joins two clauses, and a hyphen two halves of a word."""
    made = cases(hyphened("—―⸺"))
    assert is_broad(made)
    assert accepted(made) == []


def test_other_hyphens_are() -> None:
    """As typesetters and keyboards have them."""
    made = cases(hyphened("‐‑–"))
    assert is_broad(made)
    assert refused(made) == []


def ticked(own: str, quoted: str) -> Rule:
    """A rule: the chunk has a phrase between some signs, the quote between others."""

    def rule(rng: random.Random, text: Text) -> Made:
        phrase = rng.choice(["date", "the lid", "ls", "x", "make it", "rm", "das Ventil", "слово", "λέξη"])
        one, other = rng.choice(own.split()), rng.choice(quoted.split())
        chunk, before, after = plant(rng, text, one.replace("*", phrase))
        return Made(before + other.replace("*", phrase) + after, chunk)

    return rule


@pytest.mark.parametrize(("own", "quoted"), [("`*`", "'*' ‘*’ \"*\" “*” '*`"), ("'*' ‘*’ \"*\" “*”", "`*` `*'")])
def test_a_backtick_is_no_quotation_mark(own: str, quoted: str) -> None:
    """In a shell it runs what it holds, and in Markdown that is code."""
    made = cases(ticked(own, quoted))
    assert is_broad(made)
    assert accepted(made) == []


@pytest.mark.parametrize(
    ("own", "quoted"), [("`*`", "`*`"), ("'*' ‘*’", "'*' ‘*’ ‚*‘ ‹*›"), ('"*" “*”', '“*” „*“ «*» "*"')]
)
def test_quotation_marks_are(own: str, quoted: str) -> None:
    """Quotation marks of any kind are normalised, single for single and double for double."""
    made = cases(ticked(own, quoted))
    assert is_broad(made)
    assert refused(made) == []


def run_together(space: str) -> Rule:
    """A rule: two paragraphs of the chunk, with other white space between them, or none of a paragraph's."""

    def rule(rng: random.Random, text: Text) -> Made | None:
        places = [match.end() for match in re.finditer(r"(?<=[^\W\d_]{2}) (?=[^\W\d_]{2})|[。，、](?=\w)", text.text)]
        place = rng.choice(places)
        before, after = text.text[:place].rstrip(), text.text[place:]
        start = before.rfind(" ", 0, max(0, len(before) - rng.randint(20, 40))) + 1
        stop = after.find(" ", rng.randint(20, 40))
        last = after[: stop if stop > 0 else len(after)]
        return Made(before[start:] + space + last, f"{before}\n\n{after[0].upper()}{after[1:]}")

    return rule


@pytest.mark.parametrize("space", [" ", "\n", "  "])
def test_paragraphs_run_together_are_said(space: str) -> None:
    """A reader takes two paragraphs for one sentence: `normalised` says so."""
    made = cases(run_together(space))
    assert is_broad(made)
    findings = [(case, check(case.quote, case.chunk)) for case in made]
    assert [
        case for case, finding in findings if finding.verdict == "normalised" and "paragraphs" not in finding.normalised
    ] == []
    assert len([case for case, finding in findings if finding.verdict == "normalised"]) > 190


@pytest.mark.parametrize("space", ["\n\n", "\r\n\r\n", "\n \n", "\n\n\n"])
def test_paragraphs_that_stay_apart_are_not(space: str) -> None:
    """Other line breaks between them, and as many lines as one likes."""
    made = cases(run_together(space))
    assert is_broad(made)
    findings = [check(case.quote, case.chunk) for case in made]
    assert [finding for finding in findings if "paragraphs" in finding.normalised] == []


@pytest.mark.parametrize(
    ("text", "quote", "kinds"),
    [
        ("It is not\n\nAllowed here", "It is not Allowed here", ("paragraphs",)),
        ("It is not\n\nAllowed here", "It is  not\nallowed here", ("white_space", "paragraphs", "case")),
        ("It is not allowed here", "It is not\n\nallowed here", ("paragraphs",)),
        ("It is not\nallowed here", "It is not allowed here", ("white_space",)),
    ],
)
def test_each_is_listed(text: str, quote: str, kinds: tuple[str, ...]) -> None:
    """Beside what else was needed."""
    assert check_quote(quote, "own", [QuotedChunk.of("own", text)]).normalised == kinds


def test_all_texts_are_used() -> None:
    """The classes are made of every text that has room for them."""
    assert len({case.name for case in cases(hyphened("—"))}) == len(TEXTS)
