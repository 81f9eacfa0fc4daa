"""Evidence that a source holds an answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from worker.core.prompting.evidence import (
    LENGTH,
    LONGEST,
    SHARED,
    evidence,
    missing_codes,
    missing_names,
    missing_numbers,
    shares_of_words,
)
from worker.settings.providers import LEAST_EVIDENCE, EmbedderSettings

TABLES = Path(__file__).parents[3] / "benchmarks" / "results" / "no_answer.md"

HELD = "The ribbon microphone was repaired by Anna in 1958."
NEAR = "The ribbon microphone hangs in the studio."
QUESTION = "Who repaired the ribbon microphone?"

texts = st.lists(st.text(alphabet="ab c铝", max_size=12), min_size=1, max_size=5)


def test_a_source_with_all_words_has_more_evidence_than_one_with_the_subject_alone() -> None:
    """At the same similarity; the missing word is what is asked."""
    both = evidence([QUESTION], [NEAR, HELD], [0.5, 0.5])
    assert both > evidence([QUESTION], [NEAR], [0.5])
    assert both == pytest.approx(0.5 + SHARED - 3 * LENGTH)


def test_one_source_must_be_near_and_have_the_words() -> None:
    """The similarity of one and the words of another are no evidence together."""
    assert evidence([QUESTION], [HELD, "Brass shines."], [0.0, 0.5]) < evidence([QUESTION], [HELD], [0.5])


@pytest.mark.parametrize(
    "question",
    [
        "INC-4711",
        "What happened with INC-4711?",
        "Was ist mit inc4711 geschehen?",
        "INC-4711は何ですか",
        "0x6C79?",
        "10.20.30.40",
        "Is 4.2.2 out?",
        "What is VLAN 122 for?",
        "the invoice 2024-0118",
        "Is https://a.example/b/42 down?",
        "Was ist АБ-19?",
    ],
)
def test_a_source_without_the_code_that_is_asked_for_is_no_evidence(question: str) -> None:
    """However near it is; one that names it, in any writing, is, also in a conversation about another one."""
    near = (
        "Ticket INC-4712, INC-47110, INC-4711-B, step 4711, x0x6C790, 110.20.30.40, 4.2.20, 14.2.2, VLAN 1220, "
        "2024-01181, АБ-190: the printer jams."
    )
    named = (
        "Ticket INC/4711, 0x6c79, 10.20.30.40/24, v4.2.2, https://a.example/b/42, vlan-122, 2024-0118, аб 19: "
        "the printer jams."
    )
    assert evidence([question], [near, near], [0.9, 0.9]) == -1
    assert evidence([question, f"INC-4712? {question}"], [near], [0.9]) == -1
    assert evidence([question], [near, named], [0.9, 0.5]) == evidence([question], [named, near], [0.5, 0.1]) > 0


@pytest.mark.parametrize(
    "question",
    [
        *("a 12mm bolt", "in 1958", "2025-05-01", "at 10:15", "铝带3号", "12", "01.05.2025", "1.000.000 sold"),
        *("from 2019-2020", "in AD 79", "for EUR 50", "WHO WON IN 1950?"),
    ],
)
def test_amounts_dates_and_other_alphabets_are_no_codes(question: str) -> None:
    """Sources say them in other ways."""
    assert evidence([question], [NEAR], [0.5]) > 0


def test_a_longer_question_needs_a_nearer_source() -> None:
    """Up to a bound, so that a pasted page is no reason to refuse."""
    short, long, page = (
        " ".join(f"w{chr(97 + i // 10)}{chr(97 + i % 10)}x" for i in range(n)) for n in (2, LONGEST, 100)
    )
    values = [evidence([words], ["Brass shines."], [0.5]) for words in (short, long, page)]
    assert values == pytest.approx([0.5 - 2 * LENGTH, 0.5 - LONGEST * LENGTH, 0.5 - LONGEST * LENGTH])


def test_of_several_wordings_the_best_counts() -> None:
    """A question in its conversation is answered by what answers either."""
    assert evidence(["And who?", QUESTION], [HELD], [0.5]) == evidence([QUESTION], [HELD], [0.5])


def test_words_that_all_sources_have_count_less() -> None:
    """They tell the subject; the rare one tells the answer."""
    common, rare = shares_of_words("ribbon 1958", ["ribbon", "ribbon 1958", "ribbon"])[:2]
    assert common < 0.5
    assert rare == 1.0


@given(texts, st.text(alphabet="ab c铝", max_size=12))
def test_shares_are_between_nothing_and_all(given_texts: list[str], question: str) -> None:
    """Each by itself: another order of the sources changes none."""
    shares = shares_of_words(question, given_texts)
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert shares_of_words(question, given_texts[::-1]) == shares[::-1]


@pytest.mark.parametrize("model", LEAST_EVIDENCE)
def test_the_least_evidence_of_a_model_is_the_measured_one(model: str) -> None:
    """In the mean of the sets it answers 95 % of the questions; a threshold of the user's own goes before it."""
    (tables,) = [part for part in TABLES.read_text().split("\n## ") if part.removeprefix("## ").startswith(model)]
    shipped = tables.partition("### As shipped")[2]
    assert f"| from {LEAST_EVIDENCE[model]:g} |" in shipped
    answered = [float(share) for share in re.findall(r"^\| \w+ \(\d+\) \| ([\d.]+) \|", shipped, re.MULTILINE)]
    assert sum(answered) / len(answered) >= 0.95
    assert EmbedderSettings(kind="local", folder=model).evidence_wanted == LEAST_EVIDENCE[model]
    assert EmbedderSettings(kind="local", folder=model, least_evidence=0.5).evidence_wanted == 0.5
    assert EmbedderSettings(kind="openai", folder=model).evidence_wanted is None


def test_codes_that_no_source_names_are_told() -> None:
    """Each of several; a source names one in any writing."""
    sources = ["E4010: overheated.", "Fault E-40120 in step 12."]
    assert missing_codes("Do E-4010, E 4012 and E-4012 differ?", sources) == ["E-4012"]
    assert missing_codes("Does it hum?", sources) == []


@pytest.mark.parametrize(
    ("question", "source"),
    [
        ("Which checkouts failed with HTTP 502?", "Two failed with error 502."),
        ("Who may reach IP 10.20.6.15?", "Only the recorder at 10.20.6.15."),
        ("Whose is the MAC 00:1B:44:11:3A:B7?", "The controller is 00:1B:44:11:3A:B7."),
        ("Which supply has DC 48 V?", "It takes 48 V DC."),
        ("What is P/N 70-1300?", "Card reader: 70-1300"),
        ("Where is the KR-7725 listed?", "It is listed as KR-\n7725."),
        ("What is VLAN 122?", "VLAN-122: cameras"),
        ("What is HTTP 404?", "- 404: no machine has this number"),
        ("What is HTTP 404?", "| Code | Meaning |\n| 404 | no machine has this number |"),
        ("What is fault E-1047?", "Fault E\u20111047 is a lost encoder."),
        ("What is KR-7720?", "Part KR\u22127720 is a fuse."),
        ("What does TX-4410 measure?", "Sensor TX- 4410 measures the level."),  # Markdown joined two lines
    ],
)
def test_a_code_is_named_in_any_writing(question: str, source: str) -> None:
    """A word in capitals and a number by the number alone, which another word may stand beside."""
    assert missing_codes(question, [source]) == []
    (code, *_) = missing_codes(question, ["It hums in 17 rooms."])
    assert code in question


@pytest.mark.parametrize(
    ("question", "source"),
    [
        ("Which part is IP 68?", "Use ISO VG 68 only."),
        ("What is SAE 30 for?", "Change it every 30 days, by DIN 30."),
        ("What does HTTP 500 mean?", "Change the oil every 500 hours. The panel speaks HTTP on port 8443."),
    ],
)
def test_a_number_of_something_else_names_no_code(question: str, source: str) -> None:
    """It stands for the code as the label of a line, as the end of a clause, or near the code's word."""
    (code,) = missing_codes(question, [source])
    assert code in question


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("What is form No. 5 for?", ["5"]),
        ("What is form No. 7 for?", []),
        ("Is steel 1.4404 on port 8444?", ["1.4404", "8444"]),
        ("Is 12000 or 12,001 right, on 2024-11-15?", ["12001", "2024-11-15"]),
        ("Is it 12 000, and version 7.0?", []),
        ("Does E-1047 hum?", []),
        ("Who comes?", []),
    ],
)
def test_numbers_that_no_source_names_are_told(question: str, missing: list[str]) -> None:
    """A part of another number is none: 5.5, 15, 2024-11-14. Codes are told as such."""
    sources = ["Form No. 7, 5.5 A, 15 rooms, steel 1.4301.", "Port 8443 since 2024-11-14, 12,000 jobs"]
    assert missing_numbers(question, sources) == missing


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("What is the maximum force of the Lyra?", ["Lyra"]),
        ("Whose is the Titan 40 press, of Norman or of Aigle?", ["Aigle"]),
        ("WHAT IS THE FORCE OF THE LYRA?", []),
        ("Is KR-7720 in the TITAN?", []),
        ("Lyra?", []),
    ],
)
def test_names_that_no_source_has_are_told(question: str, missing: list[str]) -> None:
    """A name is a word with a capital within the question, in any of its forms; codes are told as such."""
    sources = ["The Titan 40 is a press of 400 kN.", "The Normans built it in the winter."]
    assert missing_names(question, sources) == missing


def test_where_nouns_have_capitals_no_name_is_told() -> None:
    """They would be all nouns of the question."""
    source = "Die Falke ist eine Maschine, und der Motor der Falke hat eine Welle."
    assert missing_names("Wie hoch ist die Drehzahl der Lyra?", [source] * 4) == []


@pytest.mark.parametrize("unit", ["Lyra ", "the Lyra, ", "1 000 ", "1.000.", "12:30-", "a1 "])
def test_what_is_missing_is_found_in_linear_time(unit: str) -> None:
    """Names and numbers, whatever a source holds."""
    for missing in (missing_names, missing_numbers, missing_codes):
        assert_linear(lambda text: missing("Is the Draco of HTTP 502 the 7th of 12 000?", [text]), unit, 3_000)  # noqa: B023 -- called at once
