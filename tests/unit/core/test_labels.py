from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from retrieval_client.errors import InvalidJob
from worker.core.citations.labels import MAX_EXPANDED, LabelReading, LabelReport, classify, defused

GIVEN = {f"S{n}": f"sha256:{n}" for n in range(1, 6)}


def used(answer: str) -> list[str]:
    return [label.label for label in classify(answer, GIVEN).used]


def unreadable(answer: str) -> list[str]:
    return [text for text, _ in classify(answer, GIVEN).unreadable]


# --- cases --------------------------------------------------------------------------------------

READ = {
    "S1": [
        *("Hum [S1].", "[ S1 ]", "【S1】", "［S1］", "［Ｓ１］", "[S1】", "[S1, S1]", "[S1-S1]"),
        # Whatever is around a bracket that a reader sees.
        *("It hums[S1].", "它嗡嗡响[S1]。", "(see [S1])", "[[S1]]", "**[S1]**", "<sup>[S1]</sup>", r"\\[S1]"),
        *("[S1](https://x.test/a)", "A.\n\n    [S1]"),
        # Beside code and comments, and after them.
        *("a ` b [S1]", "a ` b\n\nc [S1] ` d", "- a ` b\n- c [S1] ` d", "`` a ` [S1]", r"\`[S1]\`"),
        *("`code` [S1] `code`", "``` not a fence ` [S1]", "```\ncode\n``` \n[S1]", "~~~\ncode\n~~~~\n[S1]"),
        *("> ```\n> code\nquote has ended [S1]", "<!-- never closed\n\n[S1]", "<!-- a\n\nb --> [S1]"),
    ],
    "S1 S2": [
        *("[S1, S2]", "[S1,S2]", "[S1; S2]", "[S1 S2]", "[S1,\nS2]", "[S1 and S2]", "[S1 & S2]", "[S1][S2]"),
        *("【S1、S2】", "［Ｓ１，Ｓ２］"),
    ],
    "S1 S2 S3": ["[S1, S2, and S3]", "[S1-S3]", "[S1–S3]", "[S1 — S3]", "［S1～S3］", "[S1-S2, S3]"],
}


@pytest.mark.parametrize(("labels", "answer"), [(labels, answer) for labels in READ for answer in READ[labels]])
def test_labels_are_read(labels: str, answer: str) -> None:
    """One label, a list or a range in square brackets, ASCII or full width, is used; nothing else is reported."""
    report = classify(answer, GIVEN)
    assert used(answer) == labels.split()
    assert (report.unknown, report.unreadable) == ((), ())


UNREADABLE = [
    # Brackets with anything else in them.
    *("[S1, see 2]", "[S1, 2]", "[S1-3]", "[S1, ..., S3]", "[S1 or S2]", "[S1 und S2]", "[not S1]", "[S1 says so]"),
    *("[S1, ]", "[S1S2]", "[S1andS2]", "[see S1]", "[S1, p. 3]", "[Fig. S1]", "【S1†L2-L3】", "[S1:第二个]", "[^S1]"),
    *("[**S1**]", '["S1"]', "[S1]: https://x.test"),
    # Other brackets.
    *("(S1)", "（S1による）", "{S1}", "<S1>", "⟨S1⟩", "「S1」", "〔S1〕", "[the report](S1)"),
    *("⁅S1⁆", "❨S1❩", "﹙S1﹚", "⦋S1⦌", "⌈S1⌉", "｟S1｠"),
    # What is no label as it is asked for, and looks like one.
    *("[s1]", "[S.1]", "[S 1]", "[S-1]", "[S_1]", "[S₁]", "[S1a]", "[S1'den]", "[\u04051]", "[S\u200b1]", "[\u200bS1]"),
    *("[Source 1]", "[Sources: 1, 2]", "[SOURCE 1]", "[source-1]", "[src1]"),
    *("[S\u20131]", "[S\u20111]", "[S  1]", r"[S\_1]", "[S**1**]", "[S\u202e1]", "[S\u0338 1]"),
    # Not closed, or escaped.
    *("[S1, S2", "(as S1", "<cite>S1", r"\[S1\]", r"\[S1]", r"[S1\]"),
    # Code, tags, elements and comments.
    *(
        "[`S1`]",
        "`S1`",
        "`[S1]`",
        "`` ` [S1] ``",
        "`a\nb [S1]`",
        "<cite>S1</cite>",
        *("<code>[S1]</code>", "<PRE class='a'>[S1]</pre >", "<code>[S1] `a</code>"),
        "<sup>S1</sup>",
        '<ref name="S1"/>',
    ),
    *("<a href='[S1]'>", "<https://x.test/S1>", "<!-- S1 -->", "<!-- [S1]\n\nS2 -->"),
]


@pytest.mark.parametrize("answer", UNREADABLE)
def test_what_else_looks_like_a_label_is_unreadable(answer: str) -> None:
    """It is said with the signs around it, is never use, and says nothing about what was given."""
    for report in (classify(f"It hums {answer}", GIVEN), classify(f"It hums {answer}", {})):
        whole = answer.removeprefix("[the report]").removesuffix(": https://x.test")
        assert [text for text, _ in report.unreadable] == [whole]
        assert (report.used, report.unknown) == ((), ())


@pytest.mark.parametrize(
    ("answer", "labels", "texts"),
    [
        ("[S1](https://x.test/S1.pdf)", "S1", ["(https://x.test/S1.pdf)"]),
        ("[note [S1], S2]", "S1", ["[note [S1], S2]"]),
        ("[S1, `S2`]", "", ["[S1, `S2`]", "`S2`"]),
        ("It (S1) hums [S2] (and S3).", "S2", ["(S1)", "(and S3)"]),
        ("(a [b) S1]", "", ["[b) S1]"]),
        ("([`S1`])", "", ["([`S1`])"]),
        ("<b>the [S1] and S2</b>", "S1", ["<b>the [S1] and S2</b>"]),
        ("[S1, and then\n\nS2. [S3]", "S3", ["[S1"]),
        ("(" + "long " * 50 + "S1)", "", ["S1"]),
        ("```\n[S1] x S2\n```\n[S3]", "S3", ["S1", "S2"]),
    ],
)
def test_as_much_is_said_as_helps(answer: str, labels: str, texts: list[str]) -> None:
    """The thing around a label, if that is short; of two things the inner one, unless the outer adds only signs."""
    assert used(answer) == labels.split()
    assert unreadable(answer) == texts


@pytest.mark.parametrize(
    "answer",
    [
        *("```\n[S1]\n```", "```python\n[S1]", "````\n```\n[S1]\n````", "~~~\n[S1]\n```\n~~~", "- ```\n  [S1]\n  ```"),
        *("1. ~~~ text\n   [S1]\n   ~~~", "> ```\n> [S1]\n> ```", "```\r\n[S1]\r\n```", "``` S1\n```"),
    ],
)
def test_fenced_code_holds_no_labels(answer: str) -> None:
    """Of either kind, closed or not, in lists and quotes: what looks like a label there is unreadable."""
    assert used(answer) == []
    assert unreadable(answer) == ["S1"]


@pytest.mark.parametrize(
    "answer",
    [
        *("S1", "The S1 line, and S2.", "S1]", "5 < S2 and S3 > 4", "(the train) S1", "`code` S1", "<b>a</b> S1"),
        *("[1]", "[^1]", "[S]", "[AS1]", "(MS2, RS232)", "[S²]", "[p. 3]", "(vgl. Meier, S. 2–3)", "[Smith 2020]"),
        *("(that's 5 dB)", "[]", "[S][1]", "`s1 = 2`", "[the report](https://x.test/s1)"),
    ],
)
def test_what_is_no_label_is_not_reported(answer: str) -> None:
    """Prose, numbers, words that end so; in code and addresses only the very form is looked for."""
    expected = ["(https://x.test/s1)"] if "report" in answer else []
    report = classify(answer, GIVEN)
    assert (report.used, report.unknown, unreadable(answer)) == ((), (), expected)


@pytest.mark.parametrize("text", ["S0", "S9", "S01", "S3-S1", "S0-S2", "S9999999999", "S1-S9999999999", "S7–S9"])
def test_what_was_not_given_is_unknown(text: str) -> None:
    """A label that was not given, or can't have been, is reported as written and never mapped."""
    report = classify(f"[{text}]", GIVEN)
    assert (report.used, report.unknown, report.unreadable) == ((), ((text, (1, 1 + len(text))),), ())


# --- a list of sources at the end ---------------------------------------------------------------


@pytest.mark.parametrize(
    "ending",
    [
        "Sources:\n- [S1] Manual\n- [S2] Guide",
        "**Sources:** [S1], [S2]",
        "## Quellen\n\n1. [S1] Manual\n2. [S2] Guide\n",
        "**出典**\n[S1] Manual\n[S2] Guide",
        "References:\n\n[S1]: Manual\n\n[S2]: Guide",
    ],
)
def test_a_list_of_sources_at_the_end_is_no_use(ending: str) -> None:
    """A label that the text above has cited stays as it is; what stands only in the list is unused, and unreadable."""
    report = classify(f"It hums [S1].\n\n{ending}", GIVEN)
    assert [(label.label, label.spans) for label in report.used] == [("S1", ((9, 11),))]
    assert [text for text, _ in report.unreadable] == ["S2"]
    assert "S2" in report.unused


@pytest.mark.parametrize(
    "answer",
    [
        "In short:\n- [S1] It hums\n- [S2] It burns",
        "It hums [S1].\n\nIn detail:\n- [S1] It hums at 50 Hz.\n- [S2] It burns.",
        "It hums [S1].\n\nAnd more:\n- [S2] It burns",
        "It hums [S1].\n\nSources:\n- [S2] Guide\n\nThat is all.",
        "It hums [S1].\n- [S2] It burns",
    ],
)
def test_any_other_list_is_use(answer: str) -> None:
    """One that repeats no label, of sentences, with text after it, or under none of the signs of a heading."""
    assert used(answer) == ["S1", "S2"]


# --- the report ---------------------------------------------------------------------------------


def test_the_report_names_each_label_once_by_number() -> None:
    """Used with all their places, unused, and unknown in the answer's order."""
    answer = "One [S10], two [S2, S7] and again [S2]; [S0]."
    report = classify(answer, {"S10": "x", "S9": "y", "S2": "z"})
    assert [(label.label, label.chunk_hash) for label in report.used] == [("S2", "z"), ("S10", "x")]
    assert [[answer[slice(*span)] for span in label.spans] for label in report.used] == [["S2", "S2"], ["S10"]]
    assert report.unused == ("S9",)
    assert [(text, answer[slice(*span)]) for text, span in report.unknown] == [("S7", "S7"), ("S0", "S0")]


def test_a_range_gives_what_was_given_and_says_the_rest_in_short() -> None:
    """However long it is; every label of it stands where the range stands."""
    report = classify("[S2-S999999999]", {"S1": "a", "S2": "b", "S5": "c", "S7": "d"})
    assert [(label.label, label.spans) for label in report.used] == [(name, ((1, 14),)) for name in ("S2", "S5", "S7")]
    assert report.unknown == (("S3-S4", (1, 14)), ("S6", (1, 14)), ("S8-S999999999", (1, 14)))


def test_ranges_can_not_blow_up_a_report() -> None:
    """Past a bound on all labels that ranges stand for, a range is unknown as a whole; a label is read."""
    labels = {f"S{n}": "x" for n in range(1, 1001)}
    report = classify("[S1-S1000]" * 200 + "[S7]", labels)
    assert sum(len(label.spans) for label in report.used) == MAX_EXPANDED + 1
    assert {text for text, _ in report.unknown} == {"S1-S1000"}
    assert len(report.unknown) == 200 - MAX_EXPANDED // 1000


@pytest.mark.parametrize(
    ("answer", "cited", "unknown"),
    [
        ("It hums [S1] and burns [S2].", ["S1"], ["S2"]),
        ("It hums [S1-S3].", ["S1", "S3"], ["S2"]),
        ("It hums [S1] [S3].", ["S1", "S3"], []),
    ],
)
def test_a_label_of_a_chunk_that_is_not_cited_is_unknown(answer: str, cited: list[str], unknown: list[str]) -> None:
    """It leads a reader to no source, whatever it was given for; where the answer does not use it, it is unused."""
    report = classify(answer, {"S1": "one", "S2": "two", "S3": "three"}, {"one", "three"})
    assert [label.label for label in report.used] == cited
    assert [text for text, _ in report.unknown] == unknown
    assert {*report.unused} == {"S1", "S2", "S3"} - {*cited, *unknown}


@pytest.mark.parametrize("label", ["", "S", "S0", "S01", "s1", "1", "[S1]", "S1 ", "S-1", "S1234567890", "S١"])
def test_a_given_label_has_the_form_that_is_looked_for(label: str) -> None:
    """Another could never be found in an answer, so it is a mistake of the sender."""
    with pytest.raises(InvalidJob, match="labels: expected labels of the form S1"):
        classify("", {label: "sha256:1"})


def test_nothing_given_and_nothing_said() -> None:
    """An empty report is empty."""
    assert classify("", {}) == LabelReport((), (), ())


# --- any text -----------------------------------------------------------------------------------

SIGNS = [*"[]【】［］()（）{}<>「」-–,;:`~>†1x \n\\", "\n\n", "```", "~~~", "<!--", "-->", "<b>", "</b>"]
LABELS = ["S1", "S2", "S0", "S01", "s1", "S9", "Ｓ１", "[S1]", "[S2, S3]", "[S1-S9]"]
AROUND = [
    *("[ ]", "( )", "{ }", "【 】", "［ ］", "（ ）", "「 」", "⟨ ⟩", "\\[ \\]", "\\( \\)", "` `", "`` ``", "<!-- -->"),
    *("<cite> </cite>", "<a> </a>", '<a> </a href="S1">', "[[ ]]", "[` `]", '<img alt=" ">'),
]
words = st.lists(st.sampled_from(["hum", " ", ", ", " and ", "-", *LABELS]), max_size=5).map("".join)
wrapped = st.builds(
    lambda around, inside: inside.join(around.split(" ", 1)) if "alt" not in around else f'<img alt="{inside}">',
    st.sampled_from(AROUND),
    st.recursive(words, lambda inner: st.tuples(words, inner, words).map("".join), max_leaves=2),
)
noise = st.lists(st.sampled_from([*SIGNS, *LABELS, "hum", "。"]), max_size=12).map("".join) | st.text(max_size=20)


@given(noise, wrapped, noise)
def test_no_label_inside_anything_is_lost(before: str, inside: str, after: str) -> None:
    """With any text before and after, each label inside brackets, code, a tag or a comment is in the report."""
    answer = before + inside + after
    report = classify(answer, GIVEN)
    spans = [*(span for label in report.used for span in label.spans), *(span for _, span in report.unknown)]
    spans += [span for _, span in report.unreadable]
    for label in re.finditer(r"\bS\d+\b", answer):
        if len(before) <= label.start() and label.end() <= len(before) + len(inside):
            is_said = any(start <= label.start() and label.end() <= end for start, end in spans)
            assert is_said or label[0] in used(answer), label


@given(noise | st.tuples(noise, wrapped, noise).map("".join))
def test_spans_point_at_what_was_found(answer: str) -> None:
    """Labels are what stands at their places, in order, none in another; brackets hold them; texts are the answer's."""
    reading = LabelReading(answer)
    assert all(answer[slice(*label.span)] == label.name for label in reading.labels)
    assert all(one.span[1] < other.span[0] for one, other in pairwise(reading.labels))
    assert all(one[1] <= other[0] for one, other in pairwise(reading.brackets))
    for label in reading.labels:
        assert any(start < label.span[0] and label.span[1] < end for start, end in reading.brackets)
    assert all(answer[slice(*span)] == text for text, span in classify(answer, GIVEN).unreadable)


@given(noise | st.tuples(noise, wrapped, noise).map("".join))
def test_every_given_label_is_used_or_unused(answer: str) -> None:
    """The given labels are divided; unknown ones are none of these."""
    report = classify(answer, GIVEN)
    assert sorted([*(label.label for label in report.used), *report.unused]) == sorted(GIVEN)
    assert all(label.chunk_hash == GIVEN[label.label] for label in report.used)
    assert all(text not in GIVEN for text, _ in report.unknown)


@given(st.lists(st.sampled_from([*SIGNS, *LABELS]), max_size=20).map("".join), st.integers(0, 40), st.integers(0, 40))
def test_no_part_of_a_defused_text_is_read(text: str, start: int, end: int) -> None:
    """Wherever it is copied to; and it loses nothing."""
    shown = defused(text)
    assert LabelReading(shown[start:end]).labels == []
    assert shown.replace("·", "") == text


UNITS = [
    *("[", "[S1", "[S1-", "[S1, ", "[S1,\n", "(S1", "([", "[S1(]", "<{", "<a ", "<a>", "<a>S1", "<!--", "<!--S1-->"),
    *("`", "` ", "``` ", "`S1``", "\\", "\\[S1", "\n", "> ", "- ", "[S1]", "```\n", "a ```\n``` b\n\n", "> - ", "a:\n"),
    *("a:\n[S1]\n", "[S1] a\n", "# a\n", "**a**\n[S1]\n", "S\u200b", "Source ", "s", "S1 and ", "[S1]: a://b "),
]


@pytest.mark.parametrize("unit", UNITS)
def test_any_text_takes_linear_time(unit: str) -> None:
    """Texts that a backtracking reader would choke on."""
    assert_linear(lambda text: classify(text, GIVEN), unit, 3_000)
