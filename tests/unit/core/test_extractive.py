from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from worker.core.citations.answering import check_answer
from worker.core.citations.labels import LabelReading
from worker.core.prompting.context import LabelledSource, Source
from worker.core.prompting.extractive import NO_ANSWER, answer, code_answer, says_something

QUESTION = "Does phantom power harm a ribbon?"
pieces = st.sampled_from(
    [
        *(
            "Phantom power can tear a ribbon",
            "A ribbon hums",
            "phantom power",
            "harm",
            "[S1]",
            "[S2]",
            "【S9】",
            "[note",
        ),
        *(
            ". ",
            "! ",
            "\n",
            "\n\n",
            "- ",
            "<!-- ",
            " -->",
            "(S1)",
            "# ",
            "| ",
            "> ",
            "```\n",
            "`",
            "~~~",
            "\\",
            "“",
            "”",
            '"',
            "。",
            "\u2028",
            "\ud800",
        ),
    ]
)
texts = st.lists(pieces, max_size=30).map("".join) | st.text(max_size=40)
sources = st.lists(st.builds(Source, text=texts, title=st.none() | texts, heading=st.none() | texts), max_size=4)


def labelled(*given_sources: Source | str) -> list[LabelledSource]:
    made = [Source(source) if isinstance(source, str) else source for source in given_sources]
    return [LabelledSource(f"S{i + 1}", i, source) for i, source in enumerate(made)]


# --- which sentences ----------------------------------------------------------------------------


def test_the_best_sentences_are_quoted_the_best_first() -> None:
    """Each with its label; what shares nothing with the question stays out."""
    found = answer(
        QUESTION,
        labelled(
            "Store it dry. The ribbon fears the wind most.",
            "Brass shines well.",
            "Wind is a danger. Phantom power may harm an old ribbon.",
        ),
    )
    assert found == "Phantom power may harm an old ribbon. [S3]\n\nThe ribbon fears the wind most. [S1]"


def test_sentences_that_follow_one_another_share_a_paragraph() -> None:
    """In the source's order, each with its label; not those of a list, nor with another between them."""
    prose = "The ribbon is thin foil. Phantom power may harm it. Brass shines very well. Phantom power is cheap."
    assert answer(QUESTION, labelled(prose)) == (
        "The ribbon is thin foil. [S1] Phantom power may harm it. [S1]\n\nPhantom power is cheap. [S1]"
    )
    assert answer(QUESTION, labelled("- A thin ribbon\n- Phantom power harm")).count("\n\n") == 1


def test_a_sentence_is_read_with_the_one_before_it() -> None:
    """Its terms count half: the answer may say "it"."""
    text = "Oak may harm microphones. The phantom supply is old. It may harm microphones."
    assert answer("Does the phantom supply harm?", labelled("Brass.", text), most_sentences=1) == (
        "The phantom supply is old. [S2]"
    )
    assert answer("Does the supply harm a microphone?", labelled("Brass.", text), most_sentences=1) == (
        "It may harm microphones. [S2]"
    )


def test_sentences_whose_marks_mean_something_together_are_not_quoted_together() -> None:
    """The ends of a comment would hide the label between them."""
    text = "Phantom power <!-- may harm a ribbon. A ribbon --> is harmed by power in many ways."
    assert answer(QUESTION, labelled(text)) == "Phantom power <!-- may harm a ribbon. [S1]"


@pytest.mark.parametrize("said", ["No.", "Never.", "No!", "不。"])
def test_a_no_is_quoted_with_the_sentence_that_it_turns_round(said: str) -> None:
    """Without it the quote would say the opposite."""
    text = f"Foil is thin. {said} Phantom power tears no ribbon."
    assert answer(QUESTION, labelled(text)) == f"{said} Phantom power tears no ribbon. [S1]"


def test_near_sources_answer_in_other_words() -> None:
    """With the first whole sentence of the best source that says enough."""
    sources = labelled("and so on it went. It may. Foil tears at 48 volts. Store it dry.", "Brass shines well.")
    assert answer("Who won?", sources, least_relevance=0.0) == "Foil tears at 48 volts. [S1]"


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("Is the shop open on Sunday?", "Hours:\n\n- Saturday: 10 to 14\n- Sunday: closed", "Sunday: closed"),
        ("Is the shop open on Sunday?", "| Saturday | 10 to 14 |\n| Sunday | closed |", "| Sunday | closed |"),
        ("What is the maximum thickness?", "## Maximum thickness\n\n180 mm.\n\n## Lathe\n\nIt hums.", "180 mm."),
        ("What is the code of Iceland?", "HN\tHonduras\nIS\tIceland\nIT\tItaly", "IS\tIceland"),
        (
            "Who wrote on sugar?",
            "A book on sugar is by J. A. Hobson of 1902. It sold.",
            "A book on sugar is by J. A. Hobson of 1902.",
        ),
    ],
)
def test_a_row_answers_as_a_sentence_does(question: str, text: str, expected: str) -> None:
    assert answer(question, labelled(text)) == f"{expected} [S1]"


@pytest.mark.parametrize(
    "fragment",
    [
        "phantom power may harm every ribbon. ",
        "Phantom power, harm, ribbon\n\n",
        "Does phantom power harm a ribbon? So what. ",
    ],
)
def test_a_whole_sentence_is_better_than_a_torn_one_a_heading_or_a_question(fragment: str) -> None:
    """These are not quoted beside it either."""
    assert (
        answer(QUESTION, labelled(f"{fragment}Phantom power tears thin foil.")) == "Phantom power tears thin foil. [S1]"
    )


def test_what_looks_like_a_label_does_not_hide_a_sentence() -> None:
    """It is reported, and the label that is given is read."""
    text = "The first heart sound (S1) is heard at the apex."
    found = answer("Where is the first heart sound heard?", labelled(text))
    report = check_answer(found, {"S1": text})
    assert (found, report.supported) == (f"{text} [S1]", 1.0)
    assert [label for label, _ in report.unreadable] == ["(S1)"]


def test_a_rare_term_says_more_than_a_common_one() -> None:
    """Each of both sentences shares one term; that of the first is in all sources."""
    texts = (
        "A ribbon sounds warm today. Phantom supplies run hot today.",
        "The ribbon is thin.",
        "The ribbon is long.",
    )
    assert answer("phantom ribbon", labelled(*texts), most_sentences=1) == "Phantom supplies run hot today. [S1]"


def test_of_equal_sentences_the_better_source_is_quoted() -> None:
    """And of one source the earlier one."""
    same = "Phantom power harms the {} ribbon."
    texts = [same.format("old") + " " + same.format("new"), same.format("thin")]
    assert answer(QUESTION, labelled(*texts), most_sentences=1) == f"{same.format('old')} [S1]"


def test_a_worse_source_counts_less() -> None:
    """1 / (2 * rank): a sentence with all terms comes before one of the best source that lacks most."""
    texts = ["The ribbon is long here.", "Phantom power may harm a ribbon.", "Phantom power may harm thin ribbon."]
    assert answer(QUESTION, labelled(*texts), most_sentences=1) == f"{texts[1]} [S2]"
    assert answer("ribbon", labelled(*texts)).startswith(f"{texts[0]} [S1]")


def test_a_heading_helps_the_sentences_under_it() -> None:
    """But alone it is not enough: a sentence must share a term itself, or follow one that does."""
    under = Source("Never switch power on here.\n\nStore it dry.", heading="Phantom and ribbon harm")
    assert (
        answer(QUESTION, labelled("Power supplies stay cool.", under), most_sentences=1)
        == "Never switch power on here. [S2]"
    )
    assert answer(QUESTION, labelled(Source("Store it well and dry.", heading="Phantom and ribbon harm"))) == NO_ANSWER


MANUAL = [
    Source(
        "Ferry manual\n\nContents\n\nLife rafts ...... 7\n\nCaptain's authority ...... 15", "manual.md", "Ferry manual"
    ),
    Source("2. Life rafts\n\nThere are six life rafts. Each raft holds 25 persons.", "manual.md", "2. Life rafts"),
    Source(
        "4. Captain's authority\n\nThe captain decides on departure in fog:\n\nvisibility under 200 m: no departure\n\n"
        "visibility 200 m to 500 m: departure at half speed\n\nThe captain's list of duties:\n\nCheck the manifest."
        "\n\nTest the radio on channel 16.\n\nSign the log.",
        "manual.md",
    ),
]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How many life rafts are there?", "There are six life rafts. [S2] Each raft holds 25 persons. [S2]"),
        (
            "Is departure possible at 300 m visibility?",
            "visibility under 200 m: no departure [S3]\n\nvisibility 200 m to 500 m: departure at half speed [S3]",
        ),
        (
            "What are the captain's duties?",
            "Check the manifest. [S3]\n\nTest the radio on channel 16. [S3]\n\nSign the log. [S3]",
        ),
        ("Where is the ferry manual?", NO_ANSWER),
    ],
)
def test_what_stands_under_a_heading_answers_and_never_the_heading(question: str, expected: str) -> None:
    """The rows below an introduction do that has most of the question, though they share no word with it."""
    assert answer(question, labelled(*MANUAL)) == expected


POOLS = """# Pools of the town

| Pool | Saturday | Sunday | Price |
|---|---|---|---|
| Northbath | 08:00–20:00 | closed | 4.20 € |
| Thermal hall | 10:00–24:00 | 10:00–22:00 | 17.00 € |"""
NORTHBATH, THERMAL_HALL = (row.strip() for row in POOLS.split("\n")[-2:])


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the price of the Northbath?", [NORTHBATH]),
        ("Is the thermal hall open on Sunday?", [THERMAL_HALL]),
        ("What is the price on Sunday?", [NORTHBATH, THERMAL_HALL]),
        ("Prices of the pools of the town?", [NORTHBATH, THERMAL_HALL]),
    ],
)
@pytest.mark.parametrize("is_markdown", [True, False])
def test_a_row_answers_with_the_names_of_its_columns(question: str, expected: list[str], is_markdown: bool) -> None:
    """The header never does; all rows do where none has a word of the question that the header lacks."""
    lines = POOLS.replace("|---|---|---|---|\n", "").splitlines()
    text = POOLS if is_markdown else "\n".join(line.strip("| ").replace(" | ", ";") for line in lines)
    rows = expected if is_markdown else [row.strip("| ").replace(" | ", ";") for row in expected]
    assert answer(question, labelled(text)) == "\n\n".join(f"{row} [S1]" for row in rows)


def test_a_contents_page_says_nothing() -> None:
    assert [says_something(source) for source in MANUAL] == [False, True, True]
    assert not says_something(Source("Life rafts", title="Life rafts"))


def test_a_line_of_a_log_answers_alone() -> None:
    log = [f"2026-03-0{i}T0{i}:10:10Z ERROR pump-{i} firmware 7.3.{i} loaded" for i in range(1, 9)]
    said = answer("Which firmware was loaded on pump-4?", labelled("\n".join(log)), most_sentences=1)
    assert said == f"{log[3]} [S1]"


@pytest.mark.parametrize("again", ["Phantom power can tear the ribbon.", "phantom POWER, can tear a ribbon!"])
def test_nothing_is_said_twice(again: str) -> None:
    """Not in almost the same words either."""
    assert answer(QUESTION, labelled("Phantom power can tear the ribbon.", again)).count("tear") == 1


@pytest.mark.parametrize(
    ("question", "given_sources"),
    [
        ("Who won the race?", ["Phantom power can tear the ribbon."]),
        ("", ["Phantom power can tear the ribbon."]),
        ("What is it?", ["What it is."]),
        (QUESTION, []),
        (QUESTION, [""]),
        (QUESTION, ["# Phantom power and ribbon harm"]),
        (QUESTION, ["Phantom power"]),
        ("a b c d e f g h ribbon", ["The ribbon hums loudly."]),
    ],
)
def test_nothing_relevant_is_said_so(question: str, given_sources: list[str]) -> None:
    """One honest sentence, without a label; headings and fragments answer nothing."""
    assert answer(question, labelled(*given_sources)) == NO_ANSWER
    assert LabelReading(NO_ANSWER).labels == []


# --- limits -------------------------------------------------------------------------------------


def test_at_most_so_many_sentences_and_characters() -> None:
    """A sentence that is too long gives way to the next that fits."""
    text = "Phantom power tears a ribbon, and harm is done. Phantom power bends thin foil. Ribbon power harm ends."
    assert answer(QUESTION, labelled(text), most_sentences=0) == NO_ANSWER
    assert answer(QUESTION, labelled(text), most_characters=40) == "Ribbon power harm ends. [S1]"
    assert answer(QUESTION, labelled(text), most_characters=10) == NO_ANSWER


@given(given_sources=sources, most=st.tuples(st.integers(0, 4), st.integers(0, 200)))
def test_the_limits_hold(given_sources: list[Source], most: tuple[int, int]) -> None:
    """No sources make an answer exceed the limits of sentences and characters."""
    found = answer(QUESTION, labelled(*given_sources), *most)
    if found != NO_ANSWER:
        assert len(LabelReading(found).labels) <= most[0]
        assert len(found) <= most[1]


# --- what a reader finds ------------------------------------------------------------------------


@given(sources)
def test_every_sentence_is_a_verbatim_quote_of_the_source_whose_label_it_has(given_sources: list[Source]) -> None:
    """The check of answers finds nothing to object to, whatever the sources hold: labels, fences, quotation marks."""
    context = labelled(*given_sources)
    found = answer(QUESTION, context)
    report = check_answer(found, {one.label: one.source.text for one in context})
    assert report.unknown == ()
    assert answer(QUESTION, context) == found
    if found == NO_ANSWER:
        assert report.citations == ()
        return
    assert report.supported == 1.0
    for sentence in report.sentences:
        (quote,) = sentence.quotes
        assert (quote.verdict, [quote.label]) == ("verbatim", [*sentence.labels])


@pytest.mark.parametrize(
    "text",
    [
        "Phantom power can harm a ribbon, as [S2] says.",
        "Phantom power can harm [S1] a ribbon.",
        "Phantom power can harm a ribbon 【S9】.",
        "Phantom power can harm a ribbon [see S2].",
    ],
)
def test_a_sentence_that_would_cite_by_itself_is_not_quoted(text: str) -> None:
    """A label in a source is not the answer's."""
    assert answer(QUESTION, labelled(text, "Brass shines.")) == NO_ANSWER


def test_a_mark_of_a_list_is_not_quoted() -> None:
    """The sentence alone is."""
    assert answer(QUESTION, labelled("- Phantom power can harm it.")) == "Phantom power can harm it. [S1]"


def test_only_sources_that_name_the_question_s_code_are_quoted() -> None:
    """In their text or their headings, which are no answer; where none names it, all are."""
    sources = labelled(
        Source("Torque\n\nTighten the casing bolts to 95 Nm.", heading="PX-400: Manual › Torque"),
        Source("PX-300: Manual\n\nTorque\n\nTighten the bolts to 85 Nm.", heading="PX-300: Manual › Torque"),
    )
    assert (
        answer("What is the torque of the casing bolts of the PX-300?", sources) == "Tighten the bolts to 85 Nm. [S2]"
    )
    assert "95 Nm" in answer("What is the torque of the casing bolts of the PX-500?", sources)


# --- code ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        (
            "What does TX-4413 measure?",
            "Sensor TX-4410 measures the oil level. Sensor TX-4413 measures the speed.",
            "Sensor TX-4413 measures the speed. [S1]",
        ),
        (
            "What does error E-1048 mean?",
            "| Error | Meaning |\n| --- | --- |\n| E-1047 | overheated |\n| E-1048 | lost signal |\n| E-1049 | dry |",
            "| E-1048 | lost signal | [S1]",
        ),
        (
            "What does E-1048 mean?",
            "E-1048 means a lost signal. The lamp means the same. E-1049 means no water.",
            "E-1048 means a lost signal. [S1] The lamp means the same. [S1]",
        ),
    ],
)
def test_a_sentence_of_another_code_is_not_quoted(question: str, text: str, expected: str) -> None:
    """Where one names the question's code; what names no code at all may belong to it."""
    assert answer(question, labelled(text)) == expected


def test_a_title_that_asks_the_same_makes_what_is_below_it_the_answer() -> None:
    """Though a sentence elsewhere repeats the name that is asked about."""
    reach = Source("1,450 mm.", heading="Robot arm RX-9 › Reach")
    models = Source("The RX-9 has six axes. The RX-9L has a reach of 1,800 mm.", heading="Robot arm RX-9 › Models")
    assert answer("What is the reach of the RX-9?", labelled(reach, models)).startswith("1,450 mm. [S1]")


def test_a_question_is_no_answer() -> None:
    """Of a page of questions and answers, though it has all the words."""
    page = "Are dogs allowed in the house? They are, on a lead, in the house."
    assert answer("Are dogs allowed in the house?", labelled(page)) == "They are, on a lead, in the house. [S1]"


def test_the_code_of_the_best_example_is_given() -> None:
    """As a block with its label outside; an example without code is none."""
    examples = labelled(
        Source("A slow pad. note(1)", code="note(1)"),
        Source("A rock beat, as text only."),
        Source("A rock beat.\n\n```js\nsound('bd')\n```\nAnd on."),
    )
    assert code_answer("give me a rock beat", examples) == "```\nsound('bd')\n```\n[S3]"
    assert code_answer("give me a pad", examples) == "```\nnote(1)\n```\n[S1]"
    assert code_answer("clean the fader", examples) == code_answer("pad", []) == NO_ANSWER


def test_code_that_is_too_long_is_no_example() -> None:
    """The next best one is given."""
    examples = labelled(Source("pad pad", code="x" * 99), Source("pad", code="y"))
    assert code_answer("pad", examples, most_characters=50) == "```\ny\n```\n[S2]"


@given(
    code=st.lists(st.sampled_from(["```", "`", "~~~", "[S1]", "\n", "a", "  "]), max_size=20).map("".join) | st.text()
)
def test_code_stays_inside_its_block(code: str) -> None:
    """Its own fences and labels are code; the only label read is the source's."""
    found = code_answer("pad", labelled(Source("pad", code=code)))
    if found == NO_ANSWER:
        assert not code.strip()
        return
    assert code.strip("\n") in found
    assert [label.name for label in LabelReading(found).labels] == ["S1"]


@pytest.mark.parametrize(
    "unit", ["ribbon ", "A ribbon hums. ", "[S1] ribbon. ", "ribbon\n\n", "```\nribbon\n", "`", "# "]
)
def test_any_text_takes_linear_time(unit: str) -> None:
    assert_linear(lambda text: answer(QUESTION, labelled(text, text)), unit, 3_000)
    assert_linear(lambda text: code_answer(QUESTION, labelled(text, text)), unit, 3_000)


@pytest.mark.parametrize("unit", ["E-1047 hums. ", "| E-1048 | hums |\n", "E-1047 or E-1048? "])
def test_sentences_of_codes_take_linear_time(unit: str) -> None:
    """However many name the code that is asked for."""
    assert_linear(lambda text: answer("What does E-1047 mean?", labelled(text, text)), unit, 8_000)
