"""Labels as models write them: thousands of answers made by rules, with labels in every form and without any."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from worker.core.citations.answering import check_answer
from worker.core.citations.labels import classify

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.core.citations.labels import LabelReport

GIVEN = {f"S{n}": f"sha256:{n}" for n in range(1, 13)}
CASES = 2_400

SENTENCES = (
    "The ribbon hums at 50 Hz",
    "Das Band brummt (mit 50 Hz)",
    "Le ruban [en aluminium] ronronne",
    "La cinta zumba a 3,5 dB",
    "O ruído é baixo",
    "Il nastro ronza",
    "Taśma buczy przy 50 Hz",
    "Лента гудит",
    "Şerit 50 Hz'de uğulduyor",
    "Η ταινία βουίζει",
    "الشريط يطن عند 50 هرتز",
    "הסרט מזמזם",
    "रिबन गुनगुनाता है",
    "色带在50赫兹处发出嗡嗡声",
    "リボンは50Hzで鳴る",
    "리본은 50Hz에서 울린다",
    "Băng rung",
    "Pita berdengung",
    "Lentan surrar",
    "Nauha hurisee 50 hertsillä",
    "Páska bzučí při 50 Hz",
    "A szalag 50 Hz-en zúg",
)
SQUARE = ("[]", "［］", "【】", "〔〕", "〖〗")
ROUND = ("()", "（）", "{}", "｛｝", "<>", "⟨⟩", "「」")
WIDE = str.maketrans("S0123456789", "Ｓ０１２３４５６７８９")
JOINED_BY = "and und et y e en och og ja oraz i и та ve και ו و और và dan sowie 以及 及び 및 と 和 与 그리고 & +"
AND = JOINED_BY.split()
SEE = [
    "see",
    "see also",
    "cf.",
    "siehe",
    "vgl.",
    "voir",
    "cf",
    "véase",
    "ver",
    "vedi",
    "zie",
    "se",
    "patrz",
    "viz",
    "см.",
    "bkz.",
    "lásd",
    "βλ.",
    "ראה",
    "انظر",
    "देखें",
    "见",
    "参照",
    "xem",
    "e.g.",
]
SOURCE = [
    "Source",
    "source",
    "Sources",
    "Ref.",
    "Reference",
    "Citation",
    "Quelle",
    "Fuente",
    "Fonte",
    "Bron",
    "Källa",
    "Kilde",
    "Źródło",
    "Источник",
    "Kaynak",
    "Πηγή",
    "المصدر",
    "מקור",
    "स्रोत",
    "Nguồn",
    "Sumber",
    "来源",
    "來源",
    "出典",
    "출처",
]

Numbers = list[int]
Made = tuple[str, Numbers]
Rule = "Callable[[random.Random, Numbers], Made]"


def plain(numbers: Numbers) -> list[str]:
    return [f"S{number}" for number in numbers]


def in_square(rng: random.Random, inside: str) -> str:
    opening, closing = rng.choice(SQUARE)
    return opening + inside + closing


def in_round(rng: random.Random, inside: str) -> str:
    opening, closing = rng.choice(ROUND)
    return f" {opening}{inside}{closing}"


def comma_list(rng: random.Random, numbers: Numbers) -> Made:
    separator = rng.choice([", ", ",", "; ", "、", "，", " ; ", " / ", "|", " · "[:1], "، ", "\n", ",\n", " + ", "  "])
    return in_square(rng, separator.join(plain(numbers))), numbers


def glued_list(rng: random.Random, numbers: Numbers) -> Made:
    return in_square(rng, "".join(plain(numbers))), numbers


def list_with_and(rng: random.Random, numbers: Numbers) -> Made:
    *most, last = plain(numbers)
    comma = rng.choice([", ", " "])
    return in_square(rng, ", ".join(most) + (comma + rng.choice(AND) + " " if most else "") + last), numbers


def with_see(rng: random.Random, numbers: Numbers) -> Made:
    return in_square(rng, f"{rng.choice(SEE)} {', '.join(plain(numbers))}"), numbers


def with_source(rng: random.Random, numbers: Numbers) -> Made:
    word, colon = rng.choice(SOURCE), rng.choice(["", ":", "："])
    return in_square(rng, f"{word}{colon} {', '.join(plain(numbers))}"), numbers


def source_and_number(rng: random.Random, numbers: Numbers) -> Made:
    word, bracket = rng.choice(SOURCE), rng.choice([in_square, in_round])
    return bracket(rng, ", ".join(f"{word} {number}" for number in numbers)), numbers


def range_of_labels(rng: random.Random, numbers: Numbers) -> Made:
    first, last = min(numbers), max(numbers)
    dash = rng.choice(["-", "–", "—", " - ", "‑", "～", "..", " to ", " bis ", " à ", "至", "から"])
    name = rng.choice(["S", "s", "Ｓ"])
    return " " + in_square(rng, f"{name}{first}{dash}{name}{last}"), list(range(first, last + 1))


def in_round_brackets(rng: random.Random, numbers: Numbers) -> Made:
    text = rng.choice([", ".join, "; ".join, " and ".join])(plain(numbers))
    return in_round(rng, rng.choice(["", "", "see ", "cf. ", "Source: "]) + text), numbers


def other_signs(rng: random.Random, numbers: Numbers) -> Made:
    labels = ", ".join(plain(numbers))
    change = rng.choice(
        [str.lower, lambda text: text.translate(WIDE), lambda text: text.replace("S", "S "), lambda text: f" {text} "]
    )
    return " " + in_square(rng, change(labels)), numbers


def footnote(rng: random.Random, numbers: Numbers) -> Made:
    return "".join(f"[{rng.choice(['^', '#', '*', '@'])}S{number}]" for number in numbers), numbers


def emphasised(rng: random.Random, numbers: Numbers) -> Made:
    mark = rng.choice(["*", "**", "_", '"'])
    return in_square(rng, ", ".join(f"{mark}S{number}{mark}" for number in numbers)), numbers


def nested(rng: random.Random, numbers: Numbers) -> Made:
    labels = ", ".join(plain(numbers))
    return rng.choice([" ([{}])", "[[{}]]", " (see [{}])", "[({})]", "<sup>[{}]</sup>", "[{} (p. 3)]"]).format(
        labels
    ), numbers


def with_places(rng: random.Random, numbers: Numbers) -> Made:
    place = rng.choice(
        ["p. 3", "pp. 3-4", "§ 2", "S. 12", "Seite 7", "页 3", "第3頁", "l. 10-12", "Fig. 2", "Table S4"]
    )
    comma = rng.choice([", ", " ", ": "])
    return in_square(rng, ", ".join(plain(numbers)) + comma + place), numbers


def file_citation(_: random.Random, numbers: Numbers) -> Made:
    return "".join(f"【S{number}†L2-L3】" for number in numbers), numbers


def link(_: random.Random, numbers: Numbers) -> Made:
    return "".join(f"[S{number}](https://example.invalid/a)" for number in numbers), numbers


READ_WHOLE: list[Callable[[random.Random, Numbers], Made]] = [
    comma_list,
    glued_list,
    list_with_and,
    with_see,
    with_source,
    source_and_number,
    range_of_labels,
    in_round_brackets,
    other_signs,
    footnote,
    emphasised,
    nested,
    with_places,
    file_citation,
    link,
]


# --- what can't be read whole -------------------------------------------------------------------


DOUBTFUL = (
    "[S{0}, {1}]",
    "[S{0}, see {1}]",
    "[S{0}-{1}]",
    "[Sources {0}, {1}]",
    "[Sources S{0}, {1} and others]",
    "[S{0} but not S{1}]",
    "[S{0} or S{1}]",
    "[not S{0}]",
    "[S{0} says so]",
    "[S{0}a]",
    "[S{0}.{1}]",
    "[S{0}_S{1}]",
    "[S_{0}]",
    "[S_{0}, S_{1}]",
    "[S_{0}; S{1}]",
    "[see S_{0}]",
    "【S_{0}】",
    "[s_{0}]",
    "[S{0}, …, S{1}]",
    "[S{0}, etc.]",
    "[S{0} a S{1}]",
    "[S{0}, `S{1}`]",
    "[S{0}?]",
    "[¬S{0}]",
    "[in S{0} we find the harbour that thins to sand, and more of that]",
    " (as S{0} says)",
    " (S{0}, and so on, and S{1})",
    " (S {0})",
    " (s{0})",
    " (not S{0})",
    "f(S{0})",
    "nodes[s{0}]",
    "（S{0}による）",
    "[S{0}'den]",
    "[S{0}：第二个]",
)


def answers(seed: int, mark: Callable[[random.Random], Made]) -> list[Made]:
    """An answer of one to three sentences each, with labels at one place."""
    rng = random.Random(seed)
    made = []
    for _ in range(CASES):
        before, after = rng.choice(SENTENCES), rng.choice(SENTENCES)
        text, numbers = mark(rng)
        stop = rng.choice([".", "。", "!", ""])
        space = rng.choice([" ", ""]) if text[0] in "[【［〔〖" and "s" not in text else ""
        made.append((f"{before}{space}{text}{stop} {after}.", numbers))
    return made


def some_numbers(rng: random.Random) -> Numbers:
    return sorted(rng.sample(range(1, len(GIVEN) + 1), rng.randint(1, 4)))


def read_whole(rng: random.Random) -> Made:
    return rng.choice(READ_WHOLE)(rng, some_numbers(rng))


def doubtful(rng: random.Random) -> Made:
    form = rng.choice(DOUBTFUL)
    one, other = rng.sample(range(1, len(GIVEN) + 1), 2)
    return form.format(one, other), [one, other][: 1 + ("{1}" in form)]


def used(report: LabelReport) -> Numbers:
    return [int(label.label[1:]) for label in report.used]


@pytest.mark.parametrize("seed", [1, 2])
def test_every_form_is_read_whole(seed: int) -> None:
    """Lists, ranges, words for and, see and source in twenty languages, other brackets, other signs."""
    wrong = [
        (answer, numbers, report)
        for answer, numbers in answers(seed, read_whole)
        if used(report := classify(answer, GIVEN)) != sorted({*numbers}) or report.unreadable or report.unknown
    ]
    assert wrong == []


@pytest.mark.parametrize("seed", [3, 4])
def test_what_can_not_be_read_whole_is_reported(seed: int) -> None:
    """A label in a bracket with other words or bare numbers: the bracket is named, with its place."""
    for answer, numbers in answers(seed, doubtful):
        report = classify(answer, GIVEN)
        assert len(report.unreadable) == 1, answer
        text, span = report.unreadable[0]
        assert answer[slice(*span)] == text
        assert {*used(report)} <= {*numbers}, answer
        assert all(str(number) in text for number in numbers), answer
        assert report.unknown == (), answer


ORDINARY = (
    "Take the train (S{0}) to the airport",
    "Die Linie (S{0}, S{1}) fährt",
    "[Figure S{2}]",
    "[Fig. S{2}]",
    "(Fig. S{2})",
    "(Table S{2})",
    "(Figs. S{2} and S{3})",
    "(Abb. S{2}–S{3})",
    "[Table S{2}a]",
    "(line S{2})",
    "（图S{2}）",
    "(Linie S{2})",
    "in S{2} and S{3} without brackets",
    "`[S{2}]` and `x[s{2}]`",
    "\n```\nx[S{2}] = f(S{3})\n```\n",
    "\\[S{2}]",
    "arr[{2}]",
    "[{2}]",
    "[{2}, {3}]",
    "[^{2}]",
    "({2})",
    "(see section {2})",
    "[p. {2}]",
    "[AS{2}]",
    "[MS{2}, DES{3}]",
    "[S²]",
    "(σ², S²)",
    "[S]",
    "[a-zS]",
    "(see Smith, {2})",
    "[Smith {2}]",
    "[Note {2}]",
    "[Chapter {2}, page {3}]",
    "(S. {2})",
    "[S. {2}]",
    "(vgl. Meier, S. {2}–{3})",
    "(section S{0}.{2})",
    "(S{0} or S{1})",
    "[S{0} bucket]",
    "[the S{0} sonata]",
    "f(s{0}, s{1})",
    "nodes[s{0}]",
    "(Source {0})",
    "S{2}]",
    "[S{2}",
    "5 < S{2} and S{3} > 4",
    "S{2}E{3}",
    "[S{0}a]",
    "$S_{2}$ and {{S_{2}}}",
    "$[S_{2}]$",
    "$$a + [S_{2}] = 0$$",
    "\\(x = [S_{2}]\\)",
    "\\[x = [S_{2}]\\]",
    "$a [S_{2}] b$ and $5",
    "\\sqrt[S_{2}]{{x}}",
    "(S_{2}) and <S_{2}>",
    "[AS_{2}]",
    "[S_{0}]",
)
"""Of the numbers {0} and {1} no label was given, of {2} and {3} there was."""


@pytest.mark.parametrize("seed", [5, 6])
def test_nothing_is_read_from_ordinary_text(seed: int) -> None:
    """Trains, figures, sections, pages, array indices, code: neither used, nor unreadable, nor unknown."""
    rng = random.Random(seed)

    def ordinary(rng: random.Random) -> Made:
        form = rng.choice(ORDINARY)
        return " " + form.format(*rng.sample(range(13, 40), 2), *rng.sample(range(1, 13), 2)), []

    for answer, _ in answers(rng.randrange(1000), ordinary):
        report = classify(answer, GIVEN)
        assert (report.used, report.unknown, report.unreadable) == ((), (), ()), answer


@pytest.mark.parametrize("form", ["[{}]", "[{}, S2]", "[S2; {}]", "[see {}]", "【{}】"])
def test_a_label_with_a_lowered_number_is_reported(form: str) -> None:
    """As one with an underscore; elsewhere in an answer it is a variable."""
    for number in range(1, 13):
        label = f"S{number}".translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
        assert [text for text, _ in classify(f"It hums {form.format(label)}.", GIVEN).unreadable] == [
            form.format(label)
        ]
        for other in (f"$[{label}]$", f"({label})", f"{label} rises", "[S₂₁]"):
            assert classify(f"It hums {other}.", GIVEN).unreadable == (), other


def test_an_answer_is_checked_with_the_same_labels() -> None:
    """The check of an answer's sentences finds the same labels, and none of them stays in a sentence's text."""
    sources = dict.fromkeys(GIVEN, "It hums.")
    for answer, numbers in [*answers(7, read_whole)[:400], *answers(8, doubtful)[:400]]:
        report = check_answer(answer, sources)
        plainly = classify(answer, GIVEN)
        assert [one.label for one in report.citations] == [one.label for one in plainly.used], (answer, numbers)
        assert report.unreadable == plainly.unreadable
