from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from worker.core.citations import disagreement
from worker.core.citations.disagreement import MAX_PAIRS, MAX_VARIANTS, compare, find_disagreements
from worker.core.citations.disagreement.reading import read_sentence
from worker.core.citations.document import CitationRecord
from worker.core.text.sentences import split_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.core.citations.conflicts import Conflict

YES, NO = "Blue reels may be baked.", "Blue reels may not be baked."
PARTS = [
    *("The", "the", "a", "blue", "reel", "reels", "desk", "needs", "need", "does", "not", "never", "may", "be", "No"),
    *(
        "Nobody",
        "without",
        "oars",
        "stopped",
        "safe",
        "unsafe",
        "kein",
        "5",
        "6",
        "0.5",
        "kHz",
        "500",
        "Hz",
        "mV",
        "µV",
    ),
    *("3", "3rd", "13", "May", "of", "2024", "£480", "1,000", "1000", "two", "Seven", "%", "22:40", "7", "p.m.", "in"),
    *("first", "channel", "per", "second", "/", "http://a/1", "v1.2", "2024-05-03"),
]
SIGNS = [". ", "Dr. ", "! ", "… ", ", ", "; ", "\n\n", "\n- ", "e.g. ", "“", "-", "−", "\u00ad", "\ud800", "\0", "ﬁ"]
texts = st.lists(st.sampled_from([*(f"{part} " for part in PARTS), *SIGNS]), max_size=25).map("".join)
texts |= st.text(st.characters(), max_size=15)


def records_of(*texts: str, sources: Sequence[str] | None = None) -> list[CitationRecord]:
    """Records of a source each, but for what is said."""
    names = sources or [f"s{i}" for i in range(len(texts))]
    return [CitationRecord("sha256:…", source, text, 1.0) for source, text in zip(names, texts, strict=True)]


def said(records: Sequence[CitationRecord], hint: Conflict) -> list[tuple[str, list[str]]]:
    """Of each side its sentence and its differing tokens, as text."""
    sides = [(records[side.index].text, side) for side in hint.sides]
    return [(text[slice(*side.span)], [text[slice(*token)] for token in side.tokens]) for text, side in sides]


def differing(one: str, other: str) -> str:
    """In what two texts of one sentence disagree, and with which tokens; nothing if they don't."""
    hints = find_disagreements(records_of(one, other))
    assert len(hints) <= 1
    tokens = [" ".join(tokens) for hint in hints for _, tokens in said(records_of(one, other), hint)]
    return " ".join([*(name for hint in hints for name in hint.differs)]) + ": " + " | ".join(tokens) if hints else ""


# --- what differs -------------------------------------------------------------------------------

PLANTED = """
    report-2023-mixing-desk-002 report-2024-desk-budget-002 number: −84 | −78
    report-2022-live-room-acoustics-002 handbook-rates-002 number: 0.42 | 0.54
    report-2024-tape-machine-002 handbook-tape-alignment-002 number: 320 | 250
    report-2024-tape-machine-005 handbook-archive-002 negation:  | not
    report-2024-desk-budget-004 handbook-rates-001 number: 480 | 420
    report-2023-ground-hum-002 report-2025-lighthouse-power-002 unit: millivolts | microvolts
    report-2024-estuary-session-001 handbook-archive-004 date: 3 May 2024 | 13 May 2024
    handbook-microphones-002 handbook-desk-notes-003 negation: not | 
    notebook-bob-night-ferry-004 notebook-bob-lamplight-001 number: Eleven | Seven
"""  # noqa: W291 -- the side without a denial


def test_the_sample_corpus_has_its_nine_disagreements_and_no_other() -> None:
    """All that were planted, out of every pair of its chunks, and no false alarm."""
    documents = json.loads((files("worker.cli") / "sample" / "documents.json").read_text())["documents"]
    chunks = [(document["id"], chunk) for document in documents for chunk in document["chunks"]]
    records = [CitationRecord("sha256:…", source, chunk["text"], 1.0, chunk_id=chunk["id"]) for source, chunk in chunks]
    lines = []
    for hint in find_disagreements(records):
        ids = " ".join(str(records[side.index].chunk_id) for side in hint.sides)
        here, there = (" ".join(tokens) for _, tokens in said(records, hint))
        lines.append(f"    {ids} {' '.join(hint.differs)}: {here} | {there}")
    assert lines == PLANTED.strip("\n").splitlines()


DIFFER = """
    The room holds 40 people. = The room holds 45 people. = number: 40 | 45
    The room holds forty people. = The room holds 45 people. = number: forty | 45
    The room holds 1,000 people. = The room holds 10,000 people. = number: 1,000 | 10,000
    The fee is £30. = The fee is £35. = number: 30 | 35
    The fee is £30. = The fee is €30. = unit: £ | €
    The dose is 5 mg in all. = The dose is 5 g in all. = unit: mg | g
    The gain of it was 9 mV. = The gain of it was 12 mV. = number: 9 | 12
    The desk's gain was 9 mV. = The desk's gain was 12 µV. = number unit: 9 mV | 12 µV
    The level is 5 dB up. = The level is 5 dBu up. = unit: dB | dBu
    The ferry leaves at 07:10. = The ferry leaves at 07:20. = number: 07:10 | 07:20
    Tape runs at 38 cm/s. = Tape runs at 19 cm per second. = number: 38 | 19
    The mix is split 60–40. = The mix is split 60–50. = number: 40 | 50
    The desk has a 3:1 ratio. = The desk has a 4:1 ratio. = number: 3:1 | 4:1
    The choir sang on 3 May. = The choir sang on 3 June. = date: 3 May | 3 June
    The choir sang on May 3rd. = The choir sang on 2024-05-13. = date: May 3rd | 2024-05-13
    The tower was built in 1994. = The tower was built in 1995. = date: 1994 | 1995
    The shop shuts on Monday. = The shop shuts on Friday. = date: Monday | Friday
    The shop shuts in May. = The shop shuts in August. = date: May | August
    Blue reels may be baked. = Blue reels must never be baked. = negation:  | never
    Blue reels may be baked. = Blue reels can't be baked. = negation:  | can't
    Blue reels may be baked. = No blue reels may be baked. = negation:  | No
    A ribbon needs phantom power. = A ribbon does not need phantom power. = negation:  | not
    The belt stopped the reel. = The belt did not stop the reel. = negation:  | not
    Everyone may enter the booth. = Nobody may enter the booth. = negation:  | Nobody
    Play it with a pedal and oars. = Play it without a pedal and oars. = negation:  | without
    The wiring is safe to touch. = The wiring is unsafe to touch. = negation:  | unsafe
    All of the channels failed. = None of the channels failed. = negation:  | None
    Das Band braucht Strom. = Das Band braucht keinen Strom. = negation:  | keinen
    Ce ruban supporte la chaleur. = Ce ruban ne supporte pas la chaleur. = negation:  | pas
    Зал стоит 480 рублей в день. = Зал стоит 420 рублей в день. = number: 480 | 420
    录音室每天收费480镑，三天起订。 = 别的。录音室每天收费420镑，三天起订。 = number: 480 | 420
"""

SAY_THE_SAME = """
    The grant was £1,000 for the choir. = The grant was £1000 for the choir.
    The grant was £1.5 million in all. = The grant was £1,500,000 in all.
    The grant was £30k in all. = The grant was £30,000 in all.
    The tone was 0.5 kHz at the desk. = The tone was 500 Hz at the desk.
    The shelf is 30 cm above the desk. = The shelf is 0.3 m above the desk.
    The oven is at 54 °C for reels. = The oven is at 129.2 °F for reels.
    The car drove at 36 km/h on the quay. = The car drove at 10 m per second on the quay.
    The walk takes two hours each way. = The walk takes 120 minutes each way.
    The level was −84 dBu on the bus. = The level was -84 dBu on the bus.
    The choir sang on 3 May 2024 at noon. = The choir sang on May 3rd, 2024 at noon.
    The choir sang on 3 May 2024 at noon. = The choir sang on 05/03/2024 at noon.
    The choir sang on 3 May 2024 at noon. = The choir sang on 3 May at noon.
    The ferry leaves the quay at 19:00. = The ferry leaves the quay at 7 p.m.
    The ferry leaves the quay at 10. = The ferry leaves the quay at 10:00.
    The desk does not need power. = The desk doesn't need power.
    No overdubs were made on the day. = Overdubs were not made on the day.
    The “blue” dot can't ever be baked. = the "blue" dot cannot ever be baked
    Baking is not only allowed but useful. = Baking is only allowed but useful.
"""

SPEAK_OF_OTHER_THINGS = """
    Channel 5 clipped at 23 dBu that day. = Channel 6 clipped at 22 dBu that day.
    Room 2 has its own earth rod. = Room 1 has its own earth rod.
    The Brightwater M87 is 6 dB noisier. = The Brightwater M84 is 4 dB noisier.
    Upgrade the library to 1.2.21 now. = Upgrade the library to 1.2.23 now.
    See https://example.invalid/1 for more words. = See https://example.invalid/2 for more words.
    The snare is 5 cm from the rim. = The bass is 7 cm from the rim.
    It costs £5. = It costs £6.
    He tunes to 438 Hz. = He tunes to 440 Hz.
    Weight: 5 kg = Weight: 7 kg
    | Weight | 5 kg | = | Weight | 7 kg |
    It was 17 °C, with 40 % humidity and a wind of 3 m/s. = It was 21 °C, with 55 % humidity and a wind of 7 m/s.
    Stay below 85 dB for eight hours. = Stay above 94 dB for eight hours.
"""


@pytest.mark.parametrize("case", DIFFER.strip().splitlines())
def test_alike_sentences_disagree(case: str) -> None:
    """In a number, a unit, a date or a denial, with the words that make the difference."""
    one, other, difference = case.strip().split(" = ")
    assert differing(one, other) == difference


@pytest.mark.parametrize("case", (SAY_THE_SAME + SPEAK_OF_OTHER_THINGS).strip().splitlines())
def test_no_hint_where_none_is_due(case: str) -> None:
    """The same said otherwise; another name, another noun, too little in common, or too much that differs."""
    if case:
        assert differing(*case.strip().split(" = ")) == ""


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("The ribbon does not need 48 V.", "ribbon need #"),
        ("In 2019, the reels were stopped twice.", "in @ reel stop twic"),
        ("It sang between 6 and 9 March 2023.", "it sang between # and @"),
        ("You may march in May, or in March.", "you march in @ or in @"),
        ("No. 5 has twenty-two.", "no # #"),
    ],
)
def test_a_frame_is_what_is_said_without_its_values(text: str, frame: str) -> None:
    """Stems in order, a sign for a number and one for a date; articles, auxiliaries and denials are gone."""
    assert " ".join(read_sentence(text).frame) == frame


def test_more_of_a_long_sentence_may_differ() -> None:
    """A number in a name where all else is the same; up to half of the values."""
    hum = "Channel 18 carried a steady 50 Hz hum at −61 dBu, with a weaker partner at 150 Hz."
    assert differing(hum, hum.replace("18", "19")) == "number: 18 | 19"
    bill = "The choir was invoiced £1,310: £495 for the day, £640 for two days of mixing and £110 for tuning."
    other = bill.replace("640", "600").replace("1,310", "1,270")
    assert differing(bill, other) == "number: 1,310 640 | 1,270 600"


# --- who and where ------------------------------------------------------------------------------


def test_sides_say_who_and_where() -> None:
    """Offsets are of each record's own text; sides are in the order of the records, and each is told to be a hint."""
    records = records_of("Oars. " + YES, "  Blue reels — may\nnot be baked. Oars.", sources=["z", "a"])
    (hint,) = find_disagreements(records)
    assert (hint.kind, hint.differs) == ("possible_disagreement", ("negation",))
    assert [(side.index, side.source_id, side.chunk_hash) for side in hint.sides] == [
        (0, "z", "sha256:…"),
        (1, "a", "sha256:…"),
    ]
    assert said(records, hint) == [(YES, []), ("Blue reels — may\nnot be baked.", ["not"])]


@pytest.mark.parametrize(
    ("said", "sources", "pairs"),
    [
        ([YES, NO], "aa", []),
        ([YES, NO, YES], "aba", [[0, 1]]),
        ([YES, NO, YES, NO], "abcd", [[0, 1], [0, 3], [1, 2], [2, 3]]),
    ],
)
def test_each_pair_of_sources_is_reported_once(said: list[str], sources: str, pairs: list[list[int]]) -> None:
    """One source does not disagree with itself, and a chunk that is cited twice is looked at once."""
    hints = find_disagreements(records_of(*said, sources=list(sources)))
    assert [[side.index for side in hint.sides] for hint in hints] == pairs


SERIES = [f"The old room by the quay holds {n} people in all." for n in range(10 * MAX_VARIANTS)]


@pytest.mark.parametrize(("sentences", "most"), [([YES, NO] * 300, 600), (SERIES, len(SERIES) - 1)])
def test_of_very_many_each_is_named_once_at_least(sentences: list[str], most: int) -> None:
    """Past `MAX_PAIRS` and `MAX_VARIANTS` not every pair is reported, so that the report grows with the records."""
    hints = find_disagreements(records_of(*sentences))
    assert MAX_PAIRS < len(hints) <= most
    assert {side.index for hint in hints for side in hint.sides} == set(range(len(sentences)))


def test_a_needle_among_very_many_variants_is_found() -> None:
    """Sentences that differ in two values each are no disagreement; the one that differs in one value is."""
    series = [f"Shelf {n} of the old store by the quay holds {3 * n} reels." for n in range(1, 200)]
    records = records_of(*series, "Shelf 77 of the old store by the quay holds 5 reels.")
    (hint,) = find_disagreements(records)
    assert [tokens for _, tokens in said(records, hint)] == [["231"], ["5"]]


# --- any text -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(texts, st.sampled_from("abc")), max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_the_records_does_not_matter(given_texts: list[tuple[str, str]], random: Any) -> None:
    """Any permutation has the same hints, between the same places."""

    def named(pairs: Sequence[tuple[str, str]]) -> list[Any]:
        records = records_of(*(text for text, _ in pairs), sources=[source for _, source in pairs])
        return sorted(
            (
                hint.differs,
                sorted((side.source_id, records[side.index].text, side.span, side.tokens) for side in hint.sides),
            )
            for hint in find_disagreements(records)
        )

    assert named(random.sample(given_texts, len(given_texts))) == named(given_texts)


@given(st.lists(texts, min_size=2, max_size=5))
def test_spans_lie_in_sentences_and_tokens_in_spans(given_texts: list[str]) -> None:
    """Any text at all, lone surrogates and all."""
    records = records_of(*given_texts)
    for hint in find_disagreements(records):
        assert hint.differs
        assert len({side.source_id for side in hint.sides}) == 2
        assert any(side.tokens for side in hint.sides)
        for side in hint.sides:
            assert side.span in split_sentences(records[side.index].text)
            assert all(side.span[0] <= start < end <= side.span[1] for start, end in side.tokens)


@settings(max_examples=300)
@given(st.lists(texts, min_size=2, max_size=5))
@example(["The reels sang on 3 of May.", "The reels sang on May 4th."])
@example(["The reel runs 3 cm/s.", "The reel runs 5 cm per second."])
def test_weighing_first_loses_nothing(given_texts: list[str]) -> None:
    """Reading only sentences that weigh the same finds what reading all of them finds."""
    records = records_of(*given_texts)
    hints = find_disagreements(records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disagreement._Weights, "of", lambda *_: 1)
        assert find_disagreements(records) == hints


@given(texts, texts)
def test_comparing_has_no_direction(one: str, other: str) -> None:
    """Which sentence comes first changes only which side is which; a sentence does not disagree with itself."""
    first, second = read_sentence(one), read_sentence(other)
    here, there = compare(first, second), compare(second, first)
    assert compare(first, first) is None
    assert (here is None) == (there is None)
    if here is not None and there is not None:
        assert (here.differs, here.spans, here.other_spans) == (there.differs, there.other_spans, there.spans)


LONG = ["1", "1,", "1:", ". ", "A. ", "a", "a'", "a-1", "not ", "no ", "3 May ", "£", "\n", "\n#", " ", "v1.1.1.", "1/"]


@pytest.mark.parametrize("unit", [*LONG, "http://", "\u0301", "1e", "twenty-", "3 May 1 ", "in ", "unun", "1 cm/"])
def test_a_long_text_of_anything_is_read(unit: str) -> None:
    """Twenty thousand characters of what a backtracking reader would choke on."""
    text = unit * (20_000 // len(unit))
    for start, end in split_sentences(text):
        read = read_sentence(text[start:end])
        assert len(read.values) == sum(read.frame.count(sign) for sign in "#@")
