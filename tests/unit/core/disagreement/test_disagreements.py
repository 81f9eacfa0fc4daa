from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from worker.core.citations import disagreement
from worker.core.citations.disagreement import find_disagreements
from worker.core.citations.disagreement.comparing import compare
from worker.core.citations.disagreement.pairing import MAX_PAIRS, MAX_VARIANTS
from worker.core.citations.disagreement.reading import read_sentence
from worker.core.citations.disagreement.sentences import split_sentences
from worker.core.citations.disagreement.suspects import find_suspects
from worker.core.citations.document import CitationRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.core.citations.conflicts import Conflict

MAY_BE_BAKED = "Blue reels may be baked."
WORDS = "The the a blue reel reels desk needs need does not never may be baked No nobody with without oars stopped stop"
VALUES = "5 6 0.5 kHz 500 Hz mV µV 3 13 May 2024 £480 1,000 1000 two Seven % half 22:40 in first channel"
SIGNS = [
    ". ",
    "Dr. ",
    ". May ",
    "! ",
    "… ",
    ", ",
    "; ",
    "\n\n",
    "\n- ",
    "e.g. ",
    "“",
    "”",
    "-",
    "−",
    "\u00ad",
    "\ud800",
    "\0",
    "ﬁ",
    "é",
]
parts = st.sampled_from([*(word + " " for word in f"{WORDS} {VALUES}".split()), *SIGNS])
texts = st.lists(parts, max_size=25).map("".join) | st.text(st.characters(), max_size=15)


def records_of(*texts: str, sources: Sequence[str] | None = None) -> list[CitationRecord]:
    """Records of a source each, but for what is said."""
    names = sources or [f"s{i}" for i in range(len(texts))]
    return [CitationRecord("sha256:…", source, text, 1.0) for source, text in zip(names, texts, strict=True)]


def said(records: Sequence[CitationRecord], found: Conflict) -> list[tuple[str, list[str]]]:
    """Of each side its sentence and its differing tokens, as text."""
    return [
        (
            records[side.index].text[slice(*side.span)],
            [records[side.index].text[slice(*token)] for token in side.tokens],
        )
        for side in found.sides
    ]


def differing(one: str, other: str) -> tuple[str, list[str], list[str]] | None:
    """In what two texts of one sentence disagree, and with which tokens."""
    records = records_of(one, other)
    found = find_disagreements(records)
    if not found:
        return None
    assert len(found) == 1
    (_, here), (_, there) = said(records, found[0])
    return " ".join(found[0].differs), here, there


# --- the sample corpus --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample() -> list[CitationRecord]:
    documents = json.loads((files("worker.cli") / "sample" / "documents.json").read_text())["documents"]
    return [
        CitationRecord("sha256:…", document["id"], chunk["text"], 1.0, chunk_id=chunk["id"])
        for document in documents
        for chunk in document["chunks"]
    ]


PLANTED = [
    ("report-2023-mixing-desk-002", "report-2024-desk-budget-002", "number", ["−84"], ["−78"]),
    ("report-2022-live-room-acoustics-002", "handbook-rates-002", "number", ["0.42"], ["0.54"]),
    ("report-2024-tape-machine-002", "handbook-tape-alignment-002", "number", ["320"], ["250"]),
    ("report-2024-tape-machine-005", "handbook-archive-002", "negation", [], ["not"]),
    ("report-2024-desk-budget-004", "handbook-rates-001", "number", ["480"], ["420"]),
    ("report-2023-ground-hum-002", "report-2025-lighthouse-power-002", "unit", ["millivolts"], ["microvolts"]),
    ("report-2024-estuary-session-001", "handbook-archive-004", "date", ["3 May 2024"], ["13 May 2024"]),
    ("handbook-microphones-002", "handbook-desk-notes-003", "negation", ["not"], []),
    ("notebook-bob-night-ferry-004", "notebook-bob-lamplight-001", "number", ["Eleven"], ["Seven"]),
]


def test_the_sample_corpus_has_its_nine_disagreements_and_no_other(sample: list[CitationRecord]) -> None:
    """All that were planted, out of every pair of its chunks, and no false alarm."""
    found = []
    for conflict in find_disagreements(sample):
        ids = [str(sample[side.index].chunk_id) for side in conflict.sides]
        (_, here), (_, there) = said(sample, conflict)
        found.append((*ids, *conflict.differs, here, there))
    assert found == PLANTED


# --- what differs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ("The room holds 40 people.", "The room holds 45 people.", ("number", ["40"], ["45"])),
        ("The room holds forty people.", "The room holds 45 people.", ("number", ["forty"], ["45"])),
        ("The room holds 1,000 people.", "The room holds 10,000 people.", ("number", ["1,000"], ["10,000"])),
        ("The fee is £30.", "The fee is £35.", ("number", ["30"], ["35"])),
        ("The fee is £30.", "The fee is €30.", ("unit", ["£"], ["€"])),
        ("The dose is 5 mg in all.", "The dose is 5 g in all.", ("unit", ["mg"], ["g"])),
        ("The gain is 9 mV.", "The gain is 9 µV.", ("unit", ["mV"], ["µV"])),
        ("The gain of it was 9 mV.", "The gain of it was 12 mV.", ("number", ["9"], ["12"])),
        ("The desk's gain was 9 mV.", "The desk's gain was 12 µV.", ("number unit", ["9", "mV"], ["12", "µV"])),
        ("The level is 5 dB up.", "The level is 5 dBu up.", ("unit", ["dB"], ["dBu"])),
        ("The ferry leaves at 07:10.", "The ferry leaves at 07:20.", ("number", ["07:10"], ["07:20"])),
        ("Tape runs at 38 cm/s.", "Tape runs at 19 cm/s.", ("number", ["38"], ["19"])),
        ("The mix is split 60–40.", "The mix is split 60–50.", ("number", ["40"], ["50"])),
        ("The desk has a 3:1 ratio.", "The desk has a 4:1 ratio.", ("number", ["3:1"], ["4:1"])),
        ("The choir sang on 3 May.", "The choir sang on 13 May.", ("date", ["3 May"], ["13 May"])),
        ("The choir sang on 3 May.", "The choir sang on 3 June.", ("date", ["3 May"], ["3 June"])),
        ("The choir sang on May 3rd.", "The choir sang on 2024-05-13.", ("date", ["May 3rd"], ["2024-05-13"])),
        ("The tower was built in 1994.", "The tower was built in 1995.", ("date", ["1994"], ["1995"])),
        ("The shop shuts on Monday.", "The shop shuts on Friday.", ("date", ["Monday"], ["Friday"])),
        ("The shop shuts in May.", "The shop shuts in August.", ("date", ["May"], ["August"])),
        (MAY_BE_BAKED, "Blue reels may not be baked.", ("negation", [], ["not"])),
        (MAY_BE_BAKED, "Blue reels must never be baked.", ("negation", [], ["never"])),
        (MAY_BE_BAKED, "Blue reels can't be baked.", ("negation", [], ["can't"])),
        (MAY_BE_BAKED, "Blue reels cannot be baked.", ("negation", [], ["cannot"])),
        (MAY_BE_BAKED, "No blue reels may be baked.", ("negation", [], ["No"])),
        (MAY_BE_BAKED, "None of blue reels may be baked.", None),
        ("Ribbons need phantom power.", "Ribbons do not need phantom power.", ("negation", [], ["not"])),
        ("A ribbon needs phantom power.", "A ribbon does not need phantom power.", ("negation", [], ["not"])),
        ("The ribbon came back whole.", "The ribbon did not come back whole.", ("negation", [], ["not"])),
        ("The belt stopped the reel.", "The belt did not stop the reel.", ("negation", [], ["not"])),
        ("Everyone may enter the booth.", "Nobody may enter the booth.", ("negation", [], ["Nobody"])),
        ("Play it with a pedal and oars.", "Play it without a pedal and oars.", ("negation", [], ["without"])),
        ("The wiring is safe to touch.", "The wiring is unsafe to touch.", ("negation", [], ["unsafe"])),
        ("All of the channels failed.", "None of the channels failed.", ("negation", [], ["None"])),
        ("Oars may float but not sink.", "Oars may not float but sink.", ("negation", ["not"], ["not"])),
    ],
)  # fmt: skip
def test_alike_sentences_disagree(one: str, other: str, difference: tuple[str, list[str], list[str]] | None) -> None:
    """In a number, a unit, a date or a negation, with the words that make the difference."""
    assert differing(one, other) == difference


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The grant was £1,000 for the choir.", "The grant was £1000 for the choir."),
        ("The grant was £1.5 million in all.", "The grant was £1,500,000 in all."),
        ("The grant was £30k in all.", "The grant was £30,000 in all."),
        ("The tone was 0.5 kHz at the desk.", "The tone was 500 Hz at the desk."),
        ("The shelf is 30 cm above the desk.", "The shelf is 0.3 m above the desk."),
        ("The oven is at 54 °C for reels.", "The oven is at 129.2 °F for reels."),
        ("The car drove at 36 km/h on the quay.", "The car drove at 10 m per second on the quay."),
        ("The walk takes two hours each way.", "The walk takes 120 minutes each way."),
        ("The loan takes one hundred and ten days.", "The loan takes 110 days."),
        ("The bath holds 30 % of the water.", "The bath holds thirty per cent of the water."),
        ("The level was −84 dBu on the bus.", "The level was -84 dBu on the bus."),
        ("The choir sang on 3 May 2024 at noon.", "The choir sang on May 3rd, 2024 at noon."),
        ("The choir sang on 3 May 2024 at noon.", "The choir sang on 2024-05-03 at noon."),
        ("The choir sang on 3 May 2024 at noon.", "The choir sang on 05/03/2024 at noon."),
        ("The choir sang on 3 May 2024 at noon.", "The choir sang on 3 May at noon."),
        ("The ferry leaves the quay at 19:00.", "The ferry leaves the quay at 7 p.m."),
        ("The ferry leaves the quay at 10.", "The ferry leaves the quay at 10:00."),
        ("The desk does not need power.", "The desk doesn't need power."),
        ("No overdubs were made on the day.", "Overdubs were not made on the day."),
        ("The “blue” dot can't ever be baked.", 'the "blue" dot cannot be baked'),
        ("The reel was baked\ntwice at home.", "The reel was baked twice at home."),
        ("Baking is not only allowed but useful.", "Baking is only allowed but useful."),
    ],
)
def test_the_same_said_otherwise_is_no_disagreement(one: str, other: str) -> None:
    """Spellings of numbers, dates and negations, and units that convert exactly."""
    assert differing(one, other) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Channel 5 clipped at 23 dBu that day.", "Channel 6 clipped at 22 dBu that day."),
        ("Room 2 has its own earth rod.", "Room 1 has its own earth rod."),
        ("The Brightwater M87 is 6 dB noisier.", "The Brightwater M84 is 4 dB noisier."),
        ("Upgrade the library to 1.2.21 now.", "Upgrade the library to 1.2.23 now."),
        ("See https://example.invalid/1 for more words.", "See https://example.invalid/2 for more words."),
        ("The snare is 5 cm from the rim.", "The bass is 7 cm from the rim."),
        ("It costs £5.", "It costs £6."),
        ("He tunes to 438 Hz.", "He tunes to 440 Hz."),
        ("Weight: 5 kg", "Weight: 7 kg"),
        ("| Weight | 5 kg |", "| Weight | 7 kg |"),
        (
            "It was 17 °C, with 40 % humidity and a wind of 3 m/s.",
            "It was 21 °C, with 55 % humidity and a wind of 7 m/s.",
        ),
        ("Stay below 85 dB for eight hours.", "Stay above 94 dB for eight hours."),
    ],
)
def test_measurements_of_different_things_are_not_alike(one: str, other: str) -> None:
    """Another name, another noun, too little in common, or too much that differs."""
    assert differing(one, other) is None


def test_a_number_in_a_name_counts_in_a_long_sentence() -> None:
    """Where everything else in a long sentence is the same, the name is likely to be the mistake."""
    one = "Channel 18 carried a steady 50 Hz hum at −61 dBu, with a weaker partner at 150 Hz."
    assert differing(one, one.replace("18", "19")) == ("number", ["18"], ["19"])


def test_two_of_many_values_may_differ() -> None:
    """Up to half of them: an invoice with another item and another total."""
    one = "The choir was invoiced £1,310: £495 for the day, £640 for two days of mixing and £110 for tuning."
    other = one.replace("640", "600").replace("1,310", "1,270")
    assert differing(one, other) == ("number", ["1,310", "640"], ["1,270", "600"])


def test_other_scripts_are_read_as_well() -> None:
    """Numbers and dates are found in any script, negations in English only."""
    assert differing("Зал стоит 480 рублей в день.", "Зал стоит 420 рублей в день.") == ("number", ["480"], ["420"])
    chinese = "录音室每天收费480镑，三天起订，含工程师。"
    assert differing(chinese, "别的。" + chinese.replace("480", "420")) == ("number", ["480"], ["420"])


# --- who and where ------------------------------------------------------------------------------


def test_sides_say_who_and_where() -> None:
    """Offsets are of each record's own text; sides are in the order of the records."""
    records = records_of("Oars. " + MAY_BE_BAKED, "  Blue reels may\nnot be baked. Oars.", sources=["z", "a"])
    (found,) = find_disagreements(records)
    assert (found.kind, found.differs) == ("disagreement", ("negation",))
    assert [(side.index, side.source_id, side.chunk_hash) for side in found.sides] == [
        (0, "z", "sha256:…"),
        (1, "a", "sha256:…"),
    ]
    assert said(records, found) == [(MAY_BE_BAKED, []), ("Blue reels may\nnot be baked.", ["not"])]


def test_one_source_does_not_disagree_with_itself() -> None:
    """A disagreement is between two cited sources."""
    records = records_of(MAY_BE_BAKED, "Blue reels may not be baked.", sources=["s1", "s1"])
    assert find_disagreements(records) == []


def test_a_chunk_cited_twice_is_looked_at_once() -> None:
    """Cited in two sections, it disagrees as its first record."""
    records = records_of(MAY_BE_BAKED, "Blue reels may not be baked.", MAY_BE_BAKED, sources=["s1", "s2", "s1"])
    assert [[side.index for side in found.sides] for found in find_disagreements(records)] == [[0, 1]]


def test_every_pair_of_sources_is_reported() -> None:
    """Two say one thing, two another: four pairs."""
    no = "Blue reels may not be baked."
    found = find_disagreements(records_of(MAY_BE_BAKED, no, MAY_BE_BAKED, no))
    assert [[side.index for side in conflict.sides] for conflict in found] == [[0, 1], [0, 3], [1, 2], [2, 3]]


def test_spans_are_those_of_each_sentence() -> None:
    """Sentences that say the same may be spaced differently: places are looked up in each."""
    records = records_of(MAY_BE_BAKED, "Blue reels may not be baked.", "Blue  reels — may   not be baked")
    found = find_disagreements(records)
    assert [said(records, conflict)[1][1] for conflict in found] == [["not"], ["not"]]


def test_very_many_sources_are_each_named_once_at_least() -> None:
    """Past `MAX_PAIRS` not every pair is reported, so that the report grows with the records."""
    count = 300
    sentences = [MAY_BE_BAKED, "Blue reels may not be baked."] * count
    found = find_disagreements(records_of(*sentences))
    assert MAX_PAIRS < len(found) <= 2 * count
    assert {side.index for conflict in found for side in conflict.sides} == set(range(2 * count))


def test_very_many_values_are_each_named_once_at_least() -> None:
    """Past `MAX_VARIANTS` each is reported against the next, and one other difference is still found."""
    count = 10 * MAX_VARIANTS
    series = [f"The old room by the quay holds {n} people in all." for n in range(count)]
    found = find_disagreements(records_of(*series))
    assert len(found) == count - 1
    assert {side.index for conflict in found for side in conflict.sides} == set(range(count))


def test_a_needle_among_very_many_variants_is_found() -> None:
    """Sentences that differ in two values each are no disagreement; the one that differs in one value is."""
    series = [f"Shelf {n} of the old store by the quay holds {3 * n} reels." for n in range(1, 200)]
    records = records_of(*series, "Shelf 77 of the old store by the quay holds 5 reels.")
    (found,) = find_disagreements(records)
    assert said(records, found)[0] == (series[76], ["231"])
    assert said(records, found)[1][1] == ["5"]


# --- any text -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(texts, st.sampled_from("abc")), max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_the_records_does_not_matter(given_texts: list[tuple[str, str]], random: Any) -> None:
    """Any permutation has the same disagreements, between the same places."""

    def named(records: Sequence[CitationRecord]) -> list[Any]:
        return sorted(
            (
                found.differs,
                sorted(
                    (side.source_id, records[side.index].text, side.span, side.tokens) for side in found.sides
                ),
            )
            for found in find_disagreements(records)
        )  # fmt: skip

    shuffled = list(given_texts)
    random.shuffle(shuffled)
    straight = records_of(*(text for text, _ in given_texts), sources=[source for _, source in given_texts])
    assert named(straight) == named(
        records_of(*(text for text, _ in shuffled), sources=[source for _, source in shuffled])
    )


@given(st.lists(texts, max_size=5))
def test_spans_lie_in_sentences_and_tokens_in_spans(given_texts: list[str]) -> None:
    """Any text at all, lone surrogates and all."""
    records = records_of(*given_texts)
    for found in find_disagreements(records):
        assert found.differs
        assert len({side.source_id for side in found.sides}) == 2
        assert any(side.tokens for side in found.sides)
        for side in found.sides:
            assert side.span in split_sentences(records[side.index].text)
            assert all(side.span[0] <= start < end <= side.span[1] for start, end in side.tokens)


@settings(max_examples=200)
@given(st.lists(texts, min_size=2, max_size=5))
@example(["blue reels, e.g. The oars", "blue reels, e.g. The not oars"])
@example(["No e.g. blue reels", "The e.g. blue reels"])
@example(["The reels sang on 3. May 2024.", "The reels sang on 3. June 2024."])
@example(["may 5 3 3 ", "3 3 3 "])
@example(["5 5 needs éThe ", "5 3 needs éThe "])
def test_looking_for_suspects_first_loses_nothing(given_texts: list[str]) -> None:
    """Reading only the texts that may hold alike sentences finds what reading all of them finds."""
    records = records_of(*given_texts)
    found = find_disagreements(records)
    with pytest.MonkeyPatch.context() as patch:
        everything = [(i, [(0, len(record.text))]) for i, record in enumerate(records)]
        patch.setattr(disagreement, "find_suspects", lambda _: everything)
        assert find_disagreements(records) == found


def test_looking_for_suspects_first_spares_the_others(sample: list[CitationRecord]) -> None:
    """Of the sample's chunks only those with a near twin are read."""
    suspects = find_suspects([(record.source_id, record.text) for record in sample])
    assert 2 * len(PLANTED) <= len(suspects) < len(sample) // 3


@given(texts, texts)
def test_comparing_has_no_direction(one: str, other: str) -> None:
    """Which sentence comes first changes only which side is which."""
    first, second = read_sentence(one), read_sentence(other)
    here, there = compare(first, second), compare(second, first)
    assert (here is None) == (there is None)
    if here is not None and there is not None:
        assert (here.differs, here.one, here.other) == (there.differs, there.other, there.one)


@given(texts)
def test_a_sentence_does_not_disagree_with_itself(text: str) -> None:
    """Read twice, it says the same."""
    assert compare(read_sentence(text), read_sentence(text)) is None


LONG = ["1", "1,", "1:", ". ", "A. ", "a", "a'", "a-1", "not ", "no ", "million ", "3 May ", "£", "\n", "\n#", " "]


@pytest.mark.parametrize("unit", [*LONG, "v1.1.1.", "http://", "\u0301", "1e", "twenty-"])
def test_a_long_text_of_anything_is_read(unit: str) -> None:
    """Twenty thousand characters of what a backtracking reader would choke on."""
    text = unit * (20_000 // len(unit))
    for start, end in split_sentences(text):
        read = read_sentence(text[start:end])
        assert len(read.values) == sum(read.skeleton.count(sign) for sign in "#@")
