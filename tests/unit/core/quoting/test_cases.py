"""The table of cases: what is said of a quote, minimal examples of every rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from worker.core.citations.budget import SearchBudget
from worker.core.citations.quoting import QuotedChunk, check_quote
from worker.core.citations.quoting.differences import ACCEPTED, KINDS, NEVER_ACCEPTED

CASES = [json.loads(line) for line in Path(__file__).with_name("cases.jsonl").read_text("utf-8").splitlines()]


def check(quote: str, source: str, **options: Any) -> Any:
    """Return the finding of a quote in one chunk."""
    return check_quote(quote, "own", [QuotedChunk.of("own", source)], **options)


@pytest.mark.parametrize("case", CASES, ids=[f"{i} {case['quote'][:40]}" for i, case in enumerate(CASES, 1)])
def test_case(case: dict[str, Any]) -> None:
    """The verdict, the kinds that are not accepted (or all, where none is), and what stands around are as told."""
    finding = check(case["quote"], case["source"])
    kinds = {one.kind for place in finding.places for one in place.differences}
    assert finding.verdict == case["verdict"]
    assert set(case.get("kinds", ())) == (kinds - ACCEPTED if finding.verdict in ("altered", "elided") else kinds)
    for side in ("before", "after"):
        if side in case:
            assert getattr(finding.place, side) == case[side]


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_each_kind(kind: str) -> None:
    """Each kind's example differs by that kind alone."""
    _, source, quote = KINDS[kind]
    place = check(quote, source).place
    assert {one.kind for one in place.differences} == {kind}
    assert place.verdict == ("normalised" if kind in ACCEPTED else "altered")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ACCEPTED | NEVER_ACCEPTED])
def test_a_kind_that_is_accepted_by_a_setting(kind: str) -> None:
    """Its example is normalised then, and the difference is still told."""
    _, source, quote = KINDS[kind]
    finding = check(quote, source, accepted=ACCEPTED | {kind})
    assert finding.verdict == "normalised"
    assert [one.kind for one in finding.place.differences] == [kind]


def test_marks_left_out_and_put_in() -> None:
    """Each part has its span; what a mark stands for is told with the end of a sentence in it."""
    source = "The pump was old. It runs at 5 bar, and the seal is new."
    place = check("The pump … runs at [about] 5 bar, and [the valve] is new", source).place
    assert [source[slice(*span)] for span in place.spans] == ["The pump", "runs at", "5 bar, and", "is new"]
    assert [(one.text, one.another_sentence) for one in place.left_out] == [(" was old. It ", True)]
    assert [(one.text, one.replaces) for one in place.put_in] == [("about", ""), ("the valve", "the seal")]
    assert (place.before, place.after) == (None, None)
    assert check("The pump was old, … at 5 bar", source).place.left_out[0].another_sentence


def test_a_quote_of_another_chunk() -> None:
    """It is misattributed, and each chunk where it stands is named once."""
    texts = {"own": "One thing is here.", "b": "Two and three are here.", "c": "See: Two and three are here."}
    chunks = [QuotedChunk.of(name, text) for name, text in texts.items()]
    finding = check_quote("Two and three", "own", [*chunks, chunks[1]])
    assert (finding.verdict, finding.place, finding.elsewhere) == ("misattributed", None, ("b", "c"))


def test_the_best_of_several_places() -> None:
    """A place without differences is told before one with some."""
    source = "the pump, is old. The pump is old."
    finding = check("The pump is old.", source)
    assert (finding.verdict, source[slice(*finding.place.spans[0])]) == ("verbatim", "The pump is old.")


def test_words_around_are_at_most_two_hundred() -> None:
    """The rest of a long sentence is cut."""
    source = f"{'word ' * 100}here it stands {'word ' * 100}"
    place = check("here it stands", source).place
    assert len(place.before) <= 200
    assert len(place.after) <= 200


@pytest.mark.parametrize("quote", ["", " ", "\u200b", "…", "[…]", "[x]", "?", "**", "<b>", "&", "\ud800", "[sic] …"])
def test_a_quote_of_next_to_nothing(quote: str) -> None:
    """No words are found where none are; nothing raises."""
    assert check(quote, "The pump runs.").verdict == "not_found"
    assert check("The pump", quote).verdict == "not_found"


def test_a_spent_budget() -> None:
    """A quote that would take more steps than it may is not checked; the next one has its own share."""
    chunks = [QuotedChunk.of("own", "a " * 1000 + "The pump runs.")]
    budget = SearchBudget(2_000, 2)
    assert check_quote("a " * 900 + "b", "own", chunks, budget).verdict == "not_checked"
    assert check_quote("The pump runs.", "own", chunks, budget).verdict == "verbatim"


def test_what_is_told_counts() -> None:
    """The text that a mark leaves out, and each difference: a small job can't make a large result."""
    source = [QuotedChunk.of("own", f"alpha {'x y ' * 5_000}omega")]
    assert check_quote("alpha … omega", "own", source, SearchBudget(5_000, 1)).verdict == "not_checked"
    assert check_quote("alpha … omega", "own", source, SearchBudget(50_000, 1)).verdict == "elided"
    commas = [QuotedChunk.of("own", "a b, " * 200)]
    assert check_quote("a  b, " * 100, "own", commas, SearchBudget(20_000, 1)).verdict == "not_checked"


def test_few_candidates_of_a_short_quote_are_compared() -> None:
    """So that its time is that of the text's length; where it stands as it is, it is found all the same."""
    source = [QuotedChunk.of("own", f"{'the, pump ' * 20_000}the pump")]
    budget = SearchBudget(100_000, 2)
    assert check_quote("the: pump", "own", source, budget).verdict == "altered"
    assert check_quote("the pump", "own", source, budget).verdict == "verbatim"
