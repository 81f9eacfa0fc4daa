from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from worker.core.citations import answering
from worker.core.citations.answering import AnswerReport, CheckedSentence, check_answer

SOURCES = {
    "S1": "The ribbon hums at 50 Hz. Its gain is 3.5 dB,\nnever more.",
    "S2": "Phantom power can tear the ribbon, says the maker.",
    "S3": "Store it upright.",
}
pieces = st.sampled_from(
    [
        *("The ribbon hums at 50 Hz", "Store it", "power", "[S1]", "[S2, S3]", "[S9]", '"', "“", "”", "«", "»", " … "),
        *(" ", ". ", "! ", "\n\n", "- ", "```\n", "[", "]", "the", "\ud800"),
    ]
)
answers = st.lists(pieces, max_size=20).map("".join) | st.text(st.characters(), max_size=40)


def check(answer: str) -> AnswerReport:
    return check_answer(answer, SOURCES)


def only(answer: str) -> CheckedSentence:
    (sentence,) = check(answer).sentences
    return sentence


# --- support ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "supported"),
    [
        # Its terms: ribbon, hum, loudly.
        ("The ribbon hums loudly [S1].", 2 / 3),
        ("The ribbon hums loudly [S3].", 0.0),
        # Both sources together: power, ribbon, hum.
        ("Power: the ribbon hums [S1, S2].", 1.0),
        # A denial has all the words: the number says nothing of meaning.
        ("Phantom power can not tear the ribbon [S2].", 1.0),
        # A quote with anything left out is none of the wording.
        ("Phantom power can tear […] says the maker [S2].", 0.0),
        # An altered copy has the share of its words: ribbon and hum, not 60 and hz.
        ("The ribbon hums at 60 Hz [S2, S3].", 1 / 4),
        ("The ribbon hums at 50 Hz.", 0.0),
        ("The ribbon hums at 50 Hz [S9].", 0.0),
        ("So it is [S1].", None),
    ],
)
def test_support_is_the_share_of_terms_in_the_cited_sources(answer: str, supported: float | None) -> None:
    """No label: nothing; no term: no number."""
    assert only(answer).supported == supported


@pytest.mark.parametrize(
    ("answer", "verdict", "source_text"),
    [
        ("The ribbon hums at 50 Hz. [S1]", "verbatim", "The ribbon hums at 50 Hz."),
        ("The ribbon hums at 50 Hz [S1].", "verbatim", "The ribbon hums at 50 Hz."),
        ("- Its gain is 3.5 dB, never more. [S1]", "normalised", "Its gain is 3.5 dB,\nnever more."),
    ],
)
def test_a_sentence_that_stands_in_its_source_is_a_copy(answer: str, verdict: str, source_text: str) -> None:
    """Character for character or normalised, with where it stands; then it is supported in full."""
    sentence = only(answer)
    (quote,) = sentence.quotes
    assert (quote.verdict, sentence.is_copied, sentence.supported) == (verdict, True, 1.0)
    assert quote.label is not None
    assert SOURCES[quote.label][slice(*quote.spans[0])] == source_text


def test_a_sentence_with_an_omission_is_no_copy() -> None:
    """The text left out is there to be read."""
    sentence = only("Phantom power can tear … says the maker [S2]")
    (quote,) = sentence.quotes
    assert (quote.verdict, quote.label, sentence.is_copied) == ("elided", "S2", False)
    assert [left_out.text for left_out in quote.left_out] == [" the ribbon, "]


def test_accepted_differences_are_the_callers() -> None:
    """With another list a copy with another line break is none."""
    answer, sources = "“Its gain is 3.5 dB, never more” [S1].", SOURCES
    for accepted, verdict in (({"white_space"}, "normalised"), (set[str](), "altered")):
        (sentence,) = check_answer(answer, sources, accepted).sentences
        (quote,) = sentence.quotes
        assert (quote.verdict, [one.kind for one in quote.differences]) == (verdict, ["white_space"])


# --- quotes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("marks", ['""', "“”", "„“", "«»", "»«"])
def test_passages_in_quotation_marks_are_checked(marks: str) -> None:
    """Of any kind; the rest of the sentence is the answer's own."""
    opening, closing = marks
    (quote,) = only(f"We read {opening}phantom power can{closing} do it [S2].").quotes
    assert (quote.quote, quote.verdict, quote.label) == ("phantom power can", "normalised", "S2")
    assert (quote.before, quote.after) == (None, " tear the ribbon, says the maker.")


@pytest.mark.parametrize(
    ("answer", "verdict", "label", "elsewhere"),
    [
        ("It says “can tear the ribbon” [S1].", "misattributed", None, ("S2",)),
        ("It says “can tear the ribbon” [S1, S2].", "verbatim", "S2", ()),
        ("It says “can mend the ribbon” [S2].", "altered", "S2", ()),
        ("It says “must mend a desk” [S2].", "not_found", None, ()),
    ],
)
def test_a_quote_must_stand_in_a_source_cited_with_it(
    answer: str, verdict: str, label: str | None, elsewhere: tuple[str, ...]
) -> None:
    """In any of them, or nearly; else it is said where it stands."""
    (quote,) = only(answer).quotes
    assert (quote.verdict, quote.label, quote.elsewhere) == (verdict, label, elsewhere)


@pytest.mark.parametrize(
    "answer",
    ["The “ribbon” sings [S1].", 'A 5" and a 7" reel [S1].', "It says “can tear the ribbon”.", "Don't 'hum it' [S1]."],
)
def test_what_is_no_quote_is_not_checked(answer: str) -> None:
    """A single word, inches, apostrophes; and where no label says whom to ask."""
    assert only(answer).quotes == ()


def test_quotes_past_the_bound_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searching takes time, so there is an end, and it is said."""
    monkeypatch.setattr(answering, "MAX_STEPS", 1)
    sentence, later = check("Sing “can tear the ribbon” [S2]. Sing “can tear the ribbon” [S2].").sentences
    assert [quote.verdict for quote in (*sentence.quotes, *later.quotes)] == ["not_checked", "not_checked"]


# --- citations ----------------------------------------------------------------------------------


def test_a_citation_says_where_and_what() -> None:
    """By number: the places of the label, the sentences, the verdict, and what the source says there."""
    report = check("It can “tear the ribbon” [S2]. The ribbon hums at 50 Hz [S1]. So [S2].")
    first, second = report.citations
    assert (first.label, first.spans, first.sentences) == ("S1", ((57, 59),), (1,))
    assert (first.verdict, first.snippet) == ("verbatim", "The ribbon hums at 50 Hz.")
    assert (second.label, second.sentences, second.verdict, second.snippet) == (
        "S2",
        (0, 2),
        "verbatim",
        "tear the ribbon",
    )
    assert report.unused == ("S3",)


def test_unknown_labels_are_reported_and_never_mapped() -> None:
    """A model that makes up labels is found out."""
    report = check("It hums [S4]. It burns [S01]. It sings [S1 or S2].")
    assert (report.citations, report.unknown) == ((), (("S4", (9, 11)), ("S01", (24, 27))))
    assert report.unreadable == (("[S1 or S2]", (39, 49)),)
    assert report.supported == 0.0


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("It sings [S2].", None),
        ("It “can tear the ribbon” and “can mend the ribbon” [S2].", "altered"),
        ("It “can mend the ribbon” and “must mend a desk” [S2].", "not_found"),
        ("It “can tear the ribbon” [S1].", "misattributed"),
        ("It “can tear the ribbon” [S1, S2].", "verbatim"),
    ],
)
def test_a_citation_has_its_worst_verdict(answer: str, verdict: str | None) -> None:
    """One wrong quote among right ones must not go unseen; a paraphrase has none."""
    assert check(answer).citations[-1].verdict == verdict


def test_of_two_cited_sources_only_the_one_that_is_quoted_has_the_quote() -> None:
    """The other is cited, not quoted."""
    first, second = check("It “can tear the ribbon” [S1, S2].").citations
    assert (first.verdict, second.verdict) == (None, "verbatim")
    assert first.snippet.startswith("The ribbon hums")


def test_a_source_that_is_not_quoted_is_shown_from_its_beginning() -> None:
    """In one line, not too long."""
    (cited,) = check_answer("It sings [S1].", {"S1": "la \n" * 1000}).citations
    assert cited.snippet.startswith("la la la")
    assert cited.snippet.endswith("la…")
    assert len(cited.snippet) <= answering.SNIPPET


def test_code_is_no_sentence_but_its_label_counts() -> None:
    """A code block with its label after it."""
    report = check("```\nsound(1)\n```\n[S1]")
    assert (report.sentences, report.supported) == ((), None)
    assert [(one.label, one.sentences) for one in report.citations] == [("S1", ())]


def test_support_of_an_answer_is_the_mean() -> None:
    """Over the sentences that have a number."""
    assert check("The ribbon hums at 50 Hz [S1]. So it is. Brass shines.").supported == 0.5
    assert check("").supported is None


@given(answers)
def test_any_answer_is_checked(answer: str) -> None:
    """Shares are shares; citations and sentences name each other; quotes are found only where they are cited."""
    report = check(answer)
    for i, sentence in enumerate(report.sentences):
        assert sentence.supported is None or 0 <= sentence.supported <= 1
        assert sentence.labels or not sentence.supported
        for quote in sentence.quotes:
            assert quote.label is None or quote.label in sentence.labels
            assert not set(quote.elsewhere) & set(sentence.labels)
        for cited in report.citations:
            assert (cited.label in sentence.labels) == (i in cited.sentences)
    assert {cited.label for cited in report.citations} | {*report.unused} == SOURCES.keys()


@given(st.sampled_from(sorted(SOURCES)), st.integers(0, 99), st.integers(0, 99))
def test_every_passage_of_a_source_quotes_it(label: str, one: int, other: int) -> None:
    """Cut between words."""
    words = SOURCES[label].split()
    start, stop = sorted((one % len(words), other % len(words)))
    passage = " ".join(words[start : stop + 1])
    if stop > start:
        (quote,) = only(f"One reads “{passage}” there [{label}].").quotes
        assert (quote.verdict in {"verbatim", "normalised"}, quote.label) == (True, label)


@pytest.mark.parametrize(
    "unit",
    ["[", "[S1]", "[S1]. ", "It hums [S1]. ", "“a b” [S1] ", '"a b" ', "« a", "[S1-S3]", "- a b c [S1]\n", "a. "],
)
def test_any_text_takes_linear_time(unit: str) -> None:
    sources = {"S1": "It hums, it hums. " * 5000, "S2": unit * 1000}
    assert_linear(lambda text: check_answer(text, sources), unit, 3_000)
