"""Verdicts of quotes: where each stands, by which marks, in which chunk."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.findings import NOT_FOUND, QuotedChunk, QuoteFinding
from worker.core.citations.quoting.forms import prepare

DESK = (
    "The desk may stay in service, but those channels should not carry quiet sources until they are repaired. "
    "The stereo bus measured a noise floor of −84 dBu, unweighted, from 20 Hz to 20 kHz. "
    "“Übersteuerung, aber musikalisch”, wrote Jürgen Groß — the difference is not a fault."
)
ROOM = "With the curtains drawn, the live room has a reverberation time of 0.42 seconds at 500 Hz."


def check(quote: str, text: str = DESK, *others: str) -> QuoteFinding:
    """Check a quote that claims to stand in ``text``."""
    chunks = [QuotedChunk.of("own", text), *(QuotedChunk.of(f"other {i}", other) for i, other in enumerate(others))]
    return check_quote(quote, "own", chunks)


def quoted(finding: QuoteFinding, text: str = DESK) -> list[str]:
    """The chunk's text at the spans."""
    return [text[start:end] for start, end in finding.spans]


# --- verbatim -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "quote",
    [
        "The desk may stay in service",
        "a noise floor of −84 dBu, unweighted,",
        "“Übersteuerung, aber musikalisch”",
        DESK,
        "desk",
        " may stay ",
        "20 kHz. “",
    ],
)
def test_a_substring_is_verbatim(quote: str) -> None:
    """Character for character, with the span of exactly these characters, and nothing normalised."""
    finding = check(quote)
    assert (finding.verdict, quoted(finding), finding.normalised) == ("verbatim", [quote], ())


def test_a_short_quote_may_be_verbatim_but_not_normalised() -> None:
    """One or two letters mean nothing: they are found only as they are."""
    text = "Take a B flat."
    assert check("B", text).verdict == "verbatim"
    assert check("b", text).verdict == "not_found"
    assert check("b flat", text).verdict == "not_found"
    assert check("A B flat", text).verdict == "normalised"
    assert check("FLAT", text).verdict == "normalised"


@pytest.mark.parametrize(
    "quote", ["", " ", "\n\t", ".", "…", "—", "“”", "[...]", "\u200b\u00ad", "\u0301", "...", "()"]
)
def test_nothing_stands_nowhere(quote: str) -> None:
    """A quote without a letter, a digit or a symbol is found nowhere, though it is a substring of much."""
    assert check(quote, f"a {quote} b.") == NOT_FOUND


def test_a_symbol_says_something() -> None:
    """An emoji can be quoted word for word."""
    assert check("👍", "All done 👍 today").verdict == "verbatim"


def test_the_first_place_counts() -> None:
    """Of several places the span is the first's; of a verbatim and a normalised one the verbatim one's."""
    assert check("gain is set", "the gain is set and the gain is set").spans == ((4, 15),)
    assert check("gain is set", "the GAIN IS SET and the gain is set").spans == ((24, 35),)
    assert check("5 dB", "15 dB or 25 dB or 5 dB").spans == ((18, 22),)


# --- elided -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mark",
    [
        "…",
        " … ",
        "...",
        " ... ",
        " . . . ",
        " [...] ",
        "[…]",
        " […] ",
        " (...) ",
        "....",
        " [ . . . ]\n",
        "⋯",
        "．．．",
    ],
)
def test_words_may_be_left_out_with_a_mark(mark: str) -> None:
    """The parts stand in the chunk in this order; each has its span."""
    finding = check(f"The desk may stay{mark}until they are repaired")
    assert finding.verdict == "elided"
    assert quoted(finding) == ["The desk may stay", "until they are repaired"]


def test_several_marks_and_marks_around() -> None:
    """Any number of parts, dots before the first and after the last."""
    finding = check("… desk may stay … should not carry quiet […] until they are repaired...")
    assert quoted(finding) == ["desk may stay", "should not carry quiet", "until they are repaired"]
    assert quoted(check("[...] may stay in service [...]")) == ["may stay in service"]


def test_parts_may_be_normalised() -> None:
    """Each kind normalised in any of the parts is listed once, in the order of the kinds."""
    finding = check("The  DESK may stay … a noise floor of -84 dBu")
    assert (finding.verdict, finding.normalised) == ("elided", ("white_space", "dashes", "case"))
    assert quoted(finding) == ["The desk may stay", "a noise floor of −84 dBu"]


@pytest.mark.parametrize(
    "quote",
    [
        "until they are repaired … The desk may stay",  # the other order
        "The desk … may stay in service",  # two words are no part
        "The desk may … service",
        "The desk may st… channels should not carry",  # inside a word
        "The desk may stay … nels should not carry",
        "a noise floor of … 84 dBu, unweighted, from",  # without its minus
        "The desk may stay … will not carry quiet sources",
        "The desk may stay … may stay in service",  # the same words twice
        "… … …",
        "The desk may stay … , … until they are repaired of",
    ],
)
def test_marks_do_not_excuse_anything(quote: str) -> None:
    """Parts are in order, long enough, whole words, without overlap, and all of them are there."""
    assert check(quote).verdict == "not_found"


def test_parts_of_two_chunks_are_in_neither() -> None:
    """A mark does not join what stands in different chunks."""
    assert check("The desk may stay in service … has a reverberation time of", DESK, ROOM) == NOT_FOUND


def test_the_chunk_may_have_dots_of_its_own() -> None:
    """Dots and brackets are read as the chunk's own first, then as marks, then some as these and some as those."""
    text = "Well... I think we should go on [as agreed] to the harbour, whatever the weather does tomorrow."
    assert check("Well... I think we should", text).verdict == "verbatim"
    assert check("Well… I think we should", text).normalised == ("compatibility",)
    assert check("go on [as agreed] to", text).verdict == "verbatim"
    assert quoted(check("Well... I think we … whatever the weather does", text), text) == [
        "Well... I think we",
        "whatever the weather does",
    ]
    assert quoted(check("Well... I think we ... whatever the weather does", text), text) == [
        "Well... I think we",
        "whatever the weather does",
    ]
    assert check("should go on [as agreed] to the harbour [emphasis added]", text).verdict == "elided"


def test_dots_of_the_chunk_hide_no_lost_word() -> None:
    """Where the dots are the chunk's own, a word beside them is not left out with a mark, but without one."""
    text = "You won't get in... ok? Please send the e-mail again."
    assert check("You won't get in... Please send the e-mail", text).verdict == "not_found"
    assert check("You won't get in [...] Please send the e-mail", text).verdict == "elided"


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        # What the quote has beside dots is no punctuation of the writer's.
        ('print(("%7s (%s)" %\n... (tag, first, second)))', "‰\n... (tag, first, second)))"),
        ("| gain | n/a | ... | ... | 64 dB | n/a | 82 % |", "gain | n/a | ... | | ... | 64 dB | n/a | 82 %"),
        # The chunk's own dots on both sides of what was left out, and near it.
        ("SUM(one, two, ...) or MIN(one, two, four, ...) or MAX(of, the)", "SUM(one, two, ...) or MAX(of, the)"),
        ("Go on to the harbour | ... | and then turn left", "Go on to the harbour ... | and then turn left"),
        ("Go on to the harbour ... ... and then turn left", "Go on to the harbour ... and then turn left"),
    ],
)
def test_dots_of_the_chunk_are_text_first(text: str, quote: str) -> None:
    """They are no marks of omission for what stands beside them, however much that is."""
    assert check(quote, text).verdict == "not_found"


@pytest.mark.parametrize("mark", ["....", "... .", "…."])
def test_a_decimal_point_is_no_dot_of_a_mark(mark: str) -> None:
    """Three dots are a mark; what stands before a digit besides is the number's."""
    text = "The gain is picked at random out of 0, .12, .3 and .55 each time."
    finding = check(f"The gain is picked{mark}12, .3 and .55 each time", text)
    assert quoted(finding, text) == ["The gain is picked", ".12, .3 and .55 each time"]


# --- insertions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quote", "passages"),
    [
        ("The desk [sic] may stay", ["The desk may stay"]),
        ("The desk may stay in service (sic), but", ["The desk may stay in service, but"]),
        ("The desk may stay in service[sic!], but", ["The desk may stay in service, but"]),
        ("those channels [of the desk] should not", ["those channels should not"]),
        ("until they are repaired [emphasis added]", ["until they are repaired"]),
        ("[t]he desk may stay", ["The desk may stay"]),
        ("[T]hose channels should not", ["those channels should not"]),
        ("[The stereo bus] measured a noise floor", ["measured a noise floor"]),
        ("[It] measured a noise floor", ["measured a noise floor"]),
        ("until [the channels] are repaired", ["until", "are repaired"]),
        ("The stereo bus measure[s] a noise floor", ["The stereo bus", "a noise floor"]),
        ("The stereo bus [measures] a noise floor", ["The stereo bus", "a noise floor"]),
        ("The desk [sic] may … they are repaired", ["The desk may", "they are repaired"]),
    ],
)
def test_an_editor_may_put_words_in_brackets(quote: str, passages: list[str]) -> None:
    """A pronoun, an article, a name of the chunk's, an inflection, a letter's case, a note; other words stay."""
    finding = check(quote)
    assert (finding.verdict, quoted(finding)) == ("elided", passages)


@pytest.mark.parametrize(
    "quote",
    [
        "The desk may [not] stay in service",
        "The desk [must] stay in service",
        "those channels should [only] carry quiet sources",
        "The desk [never] stay in service",
        "a noise floor of [60] dBu, unweighted",
        "a noise floor of [about sixty] dBu, unweighted",
        "[20 dBu] unweighted, from 20 Hz to 20 kHz",  # for a number, at the beginning
        "from 20 Hz to [ninety] kHz",
        "from 20 [million] Hz to 20 kHz",
        "those channels [of 1978] should not",  # nobody can see that it is not the chunk's
        "those channels [δέκα] should not",
        "those channels [nicht] should not",
        "those channels [不] should not",
        "those channels should [] carry quiet sources",
        "those channels should [sic] carry quiet sources",  # [sic] stands for no word
        "The desk [x] but those channels should",  # too much left out
        "The desk may [sic!], stay in service",
        "[s]he desk may stay in service",
        "[The owner says that] the desk may stay",
        "[The studio] measured a noise floor",
        "The stereo bus measured [a hum] of −84 dBu",
        "The desk may stay in [good] service",
        "The desk may [safely] stay in service",
        "The desk may [leave] service",
        "The [room] may stay in service",
        "the [un]repaired channels should not",
    ],
)
def test_brackets_do_not_excuse_anything(quote: str) -> None:
    """Neither a denial nor a limit nor a number is put in or replaced, and letters in brackets are letters."""
    assert check(quote).verdict == "not_found"


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("useful for simple clients. [for more use that] or so", "useful for simple clients. [for less use that]"),
        ("Usage: show [-q | --quiet] [--region=REGION] [--policy]", "[--région=REGION] [--policy]"),
        (
            "[ elif COMMANDS; ]... [ else COMMANDS; ] fi and so on",
            "[ elif COMMANDS; ]... [ elle COMMANDS; ] fi and so on",
        ),
        ("see -vn [-i INTERFACE]" + " " * 40 + "-f FILE to read", "[-s INTERFACE]" + " " * 40 + "-f FILE to read"),
        ("[4] Simple is better than complex", "[IV] Simple is better than complex"),
    ],
)
def test_brackets_of_the_chunk_are_no_place_for_an_insertion(text: str, quote: str) -> None:
    """At the edges of a part as well, words in brackets do not stand for others in the chunk's own brackets."""
    assert check(quote, text).verdict == "not_found"


def test_a_number_is_put_in_nowhere() -> None:
    """Neither beside a mark, nor for a number whose neighbours stand side by side elsewhere."""
    text = "Simple is better than complex.\n... 4. Complex is better than complicated."
    assert check("is better than complex. ... [ten] is better than complicated", text).verdict == "not_found"
    text = "It should be either 0 either greater than one; never either greater than ten."
    assert check("either [ten] greater than", text).verdict == "not_found"
    assert check("be either [ten] either greater than", text).verdict == "not_found"


def test_an_insertion_inside_brackets() -> None:
    """The chunk's own brackets stay its own when [sic] or other words were put into them."""
    text = 'A beat: sound("bd*4, <[~ ~ ~ sd ~ ~ sd ~]!3 [~ rim]>") and so on.'
    for quote in ('sound("bd*4, <[~ [sic!] ~ ~ sd ~ ~ sd ~]!3', 'sound("bd*4, <[~ ~ ~ sd [that] ~ ~ sd ~]!3'):
        assert check(quote, text).verdict == "elided"


def test_brackets_of_a_link_are_no_insertion() -> None:
    """The text of a Markdown link was not put in by an editor."""
    text = "Never more than 20 mg; see [the label](https://example.org/label) first."
    assert check("more than 20 mg; see [the label](https://example.org/label)", text).verdict == "verbatim"
    assert check("more than 20 mg; see [a label](https://example.org/label)", text).verdict == "not_found"


# --- misattributed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quote", "how"),
    [
        ("the live room has a reverberation time", "verbatim"),
        ("THE LIVE ROOM has a  reverberation time", "normalised"),
        ("With the curtains drawn … reverberation time of 0.42 seconds", "elided"),
    ],
)
def test_what_stands_in_another_chunk_is_misattributed(quote: str, how: str) -> None:
    """Every other chunk where it stands is named, with spans in that chunk; none in the chunk that was named."""
    finding = check(quote, DESK, ROOM, "Nothing.", ROOM + " Again.")
    assert finding.verdict == "misattributed"
    assert (finding.spans, finding.normalised) == ((), ())
    assert finding.elsewhere == ("other 0", "other 2")
    assert [(place.chunk, place.how) for place in finding.places] == [(1, how), (3, how)]
    assert all(ROOM[start:end] for place in finding.places for start, end in place.spans)


def test_its_own_chunk_comes_first() -> None:
    """Normalised or elided in the chunk named is better than verbatim in another one."""
    assert check("THE DESK MAY STAY", DESK, "THE DESK MAY STAY").verdict == "normalised"
    assert (
        check("The desk may stay … they are repaired", DESK, "The desk may stay … they are repaired").verdict
        == "elided"
    )


def test_a_chunk_that_is_not_there() -> None:
    """A hash that the job does not have holds nothing; the others are searched."""
    assert check_quote("live room", "unknown", [QuotedChunk.of("room", ROOM)]).elsewhere == ("room",)
    assert check_quote("live room", "unknown", []) == NOT_FOUND


def test_chunks_of_one_hash() -> None:
    """Texts that differ in white space have one hash: the most literal place counts, and its index is given."""
    chunks = [QuotedChunk.of("same", "15\u00a0Hz to 20 kHz"), QuotedChunk.of("same", "15 Hz to 20 kHz")]
    finding = check_quote("15 Hz to 20 kHz", "same", chunks)
    assert (finding.verdict, finding.places[0].chunk) == ("verbatim", 1)
    assert check_quote("15 Hz TO 20 kHz", "same", chunks).places[0].chunk == 0


def test_altered_and_in_no_chunk() -> None:
    """An altered quote that stands nowhere is not found, with or without other chunks in the job."""
    assert check("the live room has no reverberation time", DESK, ROOM) == NOT_FOUND


# --- properties ---------------------------------------------------------------------------------

any_text = st.text(
    st.one_of(st.characters(), st.sampled_from(" \n-–—….[]’'\u00ad\u200b½²①ﬁßİıΑа１5,\u0301\u202e\0\ud800中五"))
)
words = st.lists(st.text(st.sampled_from("abcxyzßéığОν中5.,-’“(…"), min_size=1, max_size=6), min_size=1, max_size=12)


@given(any_text, any_text, any_text)
def test_any_text_gets_a_verdict(quote: str, text: str, other: str) -> None:
    """No text raises; every span lies in its text, spans rise; a verbatim one is the quote."""
    texts = (text, other)
    finding = check(quote, *texts)
    for place in finding.places:
        assert all(0 <= start < end <= len(texts[place.chunk]) for start, end in place.spans)
        assert all(one[1] <= after[0] for one, after in itertools.pairwise(place.spans))
        assert (place.how == "verbatim") == ([texts[place.chunk][s:e] for s, e in place.spans] == [quote])
    assert check(quote, *texts) == finding


@given(any_text)
def test_a_text_is_its_own_quote(text: str) -> None:
    """The whole of any text that says something stands in it."""
    assert check(text, text).verdict == ("verbatim" if prepare(text).says_something else "not_found")


@given(any_text, st.data())
def test_any_part_between_cuts_is_verbatim(text: str, data: st.DataObject) -> None:
    """A part that begins and ends where words do is verbatim, and the span gives it."""
    prepared = prepare(text)
    places = [i for i, cut in enumerate(prepared.cuts) if cut]
    start = data.draw(st.sampled_from(places))
    end = data.draw(st.sampled_from([place for place in places if place >= start]))
    quote = text[start:end]
    finding = check(quote, text)
    if prepare(quote).says_something:
        assert finding.verdict == "verbatim"
        assert quoted(finding, text) == [quote]
        assert finding.spans[0][0] <= start
    else:
        assert finding == NOT_FOUND


@given(words, st.data())
def test_words_can_be_cut_at_white_space(parts: list[str], data: st.DataObject) -> None:
    """Between words a quote may begin and end, whatever the words are made of."""
    text = " ".join(parts)
    first = data.draw(st.integers(0, len(parts) - 1))
    quote = " ".join(parts[first : data.draw(st.integers(first + 1, len(parts)))])
    # A number of three digits after a space may belong to the digits before it: 1 000.
    held = any(part[:3].isdecimal() or "." in part[:2] for part in parts)
    expected = {"verbatim"} if prepare(quote).says_something else {"not_found"}
    assert check(quote, text).verdict in expected | ({"not_found", "normalised"} if held else set())


@given(words, words, words)
def test_the_way_back_is_exact(before: list[str], inside: list[str], after: list[str]) -> None:
    """The span of a normalised quote is exactly the passage that was changed on its way, with any text around it."""
    passage = f"begin {' '.join(inside)} end"
    text = f"{' '.join(before)} {passage} {' '.join(after)}"
    finding = check("  " + passage.replace(" ", " \n\u00a0").upper() + "\u200b\n", text)
    assert finding.verdict == "normalised"
    assert quoted(finding, text) == [passage]


@given(any_text)
def test_folded_text_knows_where_it_is_from(text: str) -> None:
    """Places rise, every folded character has one, and folding a text twice is the same."""
    prepared = prepare(text)
    for form in (prepared.form, prepared.one_script_form):
        if form is None:
            continue
        assert len(form.text) == len(form.starts) == len(form.ends)
        assert list(form.starts) == sorted(form.starts)
        assert list(form.ends) == sorted(form.ends)
        assert all(0 <= start < end <= len(text) for start, end in zip(form.starts, form.ends, strict=True))
    assert len(prepared.cuts) == len(text) + 1
