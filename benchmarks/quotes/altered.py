"""Rules whose quotes have another word, number, sign or order, and rules that cut a sentence."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable

from benchmarks.quotes.honest import TEXTURES
from benchmarks.quotes.passages import JOINED, UNSPACED, WORD, Made, Rule, Source, pick, put_in, some

ALTERED: dict[str, Rule] = {}
CUT: dict[str, Rule] = {}
"""Quotes that stand there, but are not the whole sentence: what is left must be shown."""

Change = Callable[[random.Random, re.Match[str]], str]
LETTER = r"[^\W\d_]"


def one_of(*texts: str) -> Change:
    """Return a change to one of some texts that is another one."""
    return lambda rng, match: rng.choice([text for text in texts if text != match[0]])


# Name -> pattern, change, whether letters and digits stay the same.
EDITS: dict[str, tuple[str, Change, bool]] = {
    "digit_changed": (r"\d", lambda rng, m: rng.choice([d for d in "0123456789" if int(d) != int(m[0])]), False),
    "digit_added": (r"\d", lambda rng, m: m[0] + rng.choice("0123456789²½"), False),
    "digit_lost": (r"(?<=\d)\d|\d(?=\d)", lambda rng, m: "", False),
    "separator_changed": (
        r"(?<=\d)[.,:](?=\d)",
        one_of("", " ", "-", "\n", "-\n", "\u00ad", "\u2063", ".", ",", ":", "<br>", "\\", "**", "\u200b", "&nbsp;"),
        True,
    ),
    "separator_added": (r"(?<=\d)(?=\d)", one_of(".", " ", ",", "-", "\n", "/", "\u00a0", "&#44;"), True),
    "sign_lost": (r"(?<!\w)[-−+~$€£](?=\d)", lambda rng, m: "", True),
    "sign_added": (
        r"(?<![\w.,:;$€£−+-])(?=\d)",
        one_of("-", "−", "+", "<", "≤", "$", "&minus;", "¬", "\\-", "±"),
        True,
    ),
    "per_cent_changed": (r"(?<=\d)\s?[%°℃]", one_of("", "‰", " °F", " $"), True),
    "letter_changed": (LETTER, lambda rng, m: rng.choice(m.string.replace(m[0], "").replace(" ", "") or "x"), False),
    "letter_lost": (rf"(?<={LETTER}){LETTER}(?={LETTER})", lambda rng, m: "", False),
    "letter_added": (rf"(?<={LETTER}){LETTER}", lambda rng, m: m[0] * 2, False),
    "letters_swapped": (rf"({LETTER})({LETTER})", lambda rng, m: m[2] + m[1], False),
    "ending_lost": (rf"(?<={LETTER}{{3}}){LETTER}{{1,3}}(?=\s)", lambda rng, m: "", False),
    "prefix_lost": (rf"(?<=\s){LETTER}{{1,3}}(?={LETTER}{{3}})", lambda rng, m: "", False),
    "case_changed": (rf"(?<=\w ){LETTER}|(?<=\w){LETTER}", lambda rng, m: m[0].swapcase(), True),
    "words_joined": (
        rf"(?<=[^\W\d_{UNSPACED}])[- ](?=[^\W\d_{UNSPACED}])",
        one_of("", "-", "\u00ad", "\u200b", "&shy;", "<wbr>", "**", "\u2060", "[S1]", "`"),
        True,
    ),
    "word_divided": (
        rf"(?<=[^\W\d_{UNSPACED}]{{2}})(?=[^\W\d_{UNSPACED}]{{2}})",
        one_of(" ", "\n", "&nbsp;", " - ", "<br>", "\n- ", "\n> ", "\u3000", "\u2028", "—", " <b>"),
        True,
    ),
    "symbol_changed": (r"[<>=≤≥*/_!&@#~^$€£%]", one_of(*"<>=≤≥*/_!&@#~^$€£%", ""), True),
    "question_lost": (r"[?？!]", lambda rng, m: ".", True),
    "punctuation_changed": (r"[,;:](?=\s\S)", one_of(".", "!", "?", " –", ";", ","), True),
    "unseen_added": (rf"(?<={LETTER})(?={LETTER})", one_of("\u2061", "\u2062", "\u2063", "\u202e", "\U000e0061"), True),
    "mark_added": (rf"(?<={LETTER})(?={LETTER})", one_of("\u0338", "\u0301", "\u0327", "\u20d2", "\u0315"), True),
}


def _edit(name: str, pattern: str, change: Change, signs_only: bool) -> Rule:
    def rule(rng: random.Random, source: Source) -> Made | None:
        quote = some(rng, pattern, source.passage, lambda match: change(rng, match))
        if quote == source.passage or not (signs_only or source.is_new(quote)):
            return None
        return Made(quote, source.text)

    return rule


ALTERED |= {name: _edit(name, *edit) for name, edit in EDITS.items()}


def altered(rule: Rule) -> Rule:
    """Register a rule by its name."""
    ALTERED[rule.__name__] = rule
    return rule


def _with_words(change: Callable[[random.Random, list[str], Source], list[str] | None]) -> Rule:
    def rule(rng: random.Random, source: Source) -> Made | None:
        words = WORD.findall(source.passage)
        changed = change(rng, words, source) if len(words) > 4 else None
        quote = ("" if source.language in JOINED else " ").join(changed or [])
        return Made(quote, source.text) if changed and source.is_new(quote) else None

    rule.__name__, rule.__doc__ = change.__name__, change.__doc__
    return altered(rule)


@_with_words
def word_lost(rng: random.Random, words: list[str], _: Source) -> list[str]:
    """A word inside is gone: a denial, a condition, a number."""
    i = rng.randrange(1, len(words) - 1)
    return words[:i] + words[i + 1 :]


@_with_words
def words_lost(rng: random.Random, words: list[str], _: Source) -> list[str]:
    """Some neighbouring words inside are gone."""
    i = rng.randrange(1, len(words) - 2)
    return words[:i] + words[min(len(words) - 1, i + rng.randint(2, 4)) :]


@_with_words
def word_added(rng: random.Random, words: list[str], source: Source) -> list[str]:
    """There is a word more."""
    i = rng.randrange(1, len(words))
    return [*words[:i], rng.choice([*words, *WORD.findall(source.others[0]), "not", "1"]), *words[i:]]


@_with_words
def word_replaced(rng: random.Random, words: list[str], source: Source) -> list[str]:
    """A word is another one."""
    i = rng.randrange(1, len(words) - 1)
    return [*words[:i], rng.choice([*words, *WORD.findall(source.others[0])]), *words[i + 1 :]]


@_with_words
def words_swapped(rng: random.Random, words: list[str], _: Source) -> list[str]:
    """Two words change places."""
    i, j = sorted(rng.sample(range(len(words)), 2))
    words[i], words[j] = words[j], words[i]
    return words


@_with_words
def halves_joined(rng: random.Random, words: list[str], source: Source) -> list[str]:
    """The beginning of one sentence and the end of another chunk, without a mark."""
    other = WORD.findall(rng.choice(source.others))
    return words[: rng.randint(2, len(words) - 1)] + other[-rng.randint(2, max(2, len(other) - 1)) :]


@altered
def mark_lost(rng: random.Random, source: Source) -> Made | None:
    """A mark of a letter is gone: an accent, a vowel of an Indic script, a tone."""
    apart = unicodedata.normalize("NFD", source.passage)
    marks = [i for i, c in enumerate(apart) if unicodedata.category(c)[0] == "M"]
    if not marks:
        return None
    i = rng.choice(marks)
    return Made(apart[:i] + apart[i + 1 :], source.text)


@altered
def altered_and_disguised(rng: random.Random, source: Source) -> Made | None:
    """A word is changed, and then the quote is typeset otherwise."""
    made = ALTERED[rng.choice(["word_lost", "word_added", "word_replaced", "words_swapped", "digit_changed"])](
        rng, source
    )
    quote = rng.choice([*TEXTURES.values()])(rng, made.quote) if made else None
    return Made(quote, source.text) if quote and source.is_new(quote) else None


# Name -> fragment of the source, of the quote. The altered one has lost, got or changed a word, a number or a sign.
FRAGMENTS: dict[str, list[tuple[str, str]]] = {
    "comments": [("<!-- {w} -->", ""), ("<!-- not -->", "<!-- now -->"), ("<!--{w} {v}-->", "{v}")],
    "struck_out": [("~~{w}~~", ""), ("<del>not</del> {w}", "{w}"), ("<s>5</s> 6", "6"), ("~~not~~", "not~~ now")],
    "minus": [
        *[
            ("−5", "5"),
            ("-5", "5"),
            ("&minus;5", "5"),
            ("&#8722;5", "5"),
            ("– 5 °C", "5 °C"),
            ("-$5", "$5"),
            ("−5", "+5"),
        ],
        *[
            ("(−5)", "(5)"),
            ("**−5**", "**5**"),
            ("<b>-</b>5", "5"),
            ("\\-5", "5"),
            ("-.5", ".5"),
            ("<sup>−</sup>5", "5"),
        ],
        *[
            ("5 -3", "5 3"),
            ("5−3", "5 3"),
            ("10-12", "1012"),
            ("10–12", "10 12"),
            ("-5", "- 5"),
            ("- 5", "-5 "),
            ("±5", "5"),
        ],
    ],
    "powers": [
        *[
            ("10²", "102"),
            ("x²", "x2"),
            ("10⁻³", "10-3"),
            ("10<sup>3</sup>", "103"),
            ("10⁵", "10"),
            ("x³", "x"),
            ("5²", "5"),
        ],
        *[
            ("10^2", "102"),
            ("2**3", "23"),
            ("m²", "m"),
            ("x<sub>2</sub>", "x2 "),
            ("H₂O", "HO"),
            ("10³", "10²"),
            ("10¹²", "10"),
        ],
        *[
            ("m<sup>2</sup>", "m2"),
            ("5<sup>th</sup>", "5"),
            ("10⁻⁵", "10⁵"),
            ("CO₂", "CO"),
            ("eˣ", "e"),
            ("10 ⁵", "10"),
        ],
    ],
    "fractions": [
        ("½", "12"),
        ("1½", "11/2"),
        ("3½", "3"),
        ("1/2", "12"),
        ("2¼", "21/4"),
        ("½", "¼"),
        ("1⁄2", "12"),
        ("¾", "34"),
    ],
    "separators": [
        *[
            ("1.5", "15"),
            ("1,5", "15"),
            ("1 250", "1250 0"),
            ("10 000", "10"),
            ("3.14", "314"),
            ("12:30", "1230"),
            ("1.5", "1,5"),
        ],
        *[
            ("1.5", "1 5"),
            ("1'000", "1.000"),
            ("٣٫١", "٣١"),
            ("1.234", "1,234"),
            ("2 . 5", "25"),
            ("1&#46;5", "15"),
            ("1·5", "15"),
        ],
        *[("1.5", "1. 5"), ("v1.10", "v1.1 0"), ("5/3", "53"), ("1:20", "1:2 0"), ("100 000", "100 00")],
        *[("1 5", "15"), ("1\n5", "15"), ("1<br>5", "15"), ("1|5", "15"), ("1</b>5", "1 5"), ("1\t5", "15")],
    ],
    "signs": [
        *[
            ("<5", "5"),
            ("&lt;5", "5"),
            ("< 5", "> 5"),
            ("≤5", "<5"),
            ("≠", "="),
            ("≈ 5", "5"),
            ("5 %", "5"),
            ("5%", "5‰"),
            ("$5", "5"),
        ],
        *[
            ("€5", "$5"),
            ("5 °C", "5 C"),
            ("5°", "5"),
            ("5′", "5″"),
            ("5'", '5"'),
            ("#5", "5"),
            ("&not;{w}", "{w}"),
            ("!{w}", "{w}"),
        ],
        *[
            ("a&amp;b", "ab"),
            ("C++", "C"),
            ("C#", "C"),
            ("~5", "5"),
            ("@{w}", "{w}"),
            ("*5", "5"),
            ("5*3", "53"),
            ("a_b", "ab"),
        ],
        *[
            ("=", "=="),
            ("+5", "5"),
            ("×5", "5"),
            ("5×3", "53"),
            ("∞", ""),
            ("√2", "2"),
            ("∆5", "5"),
            ("∉", "∈"),
            ("→", "←"),
            ("✓", "✗"),
        ],
        *[
            ("☐ {w}", "☑ {w}"),
            ("5 µm", "5 mm"),
            ("Ω", ""),
            ("§ 5", "5"),
            ("™", ""),
            ("&amp;lt;", "<"),
            ("5☆", "5★"),
            ("😀", "😡"),
        ],
    ],
    "letters": [
        *[
            ("5 Mg", "5 mg"),
            ("5 mW", "5 MW"),
            ("US", "us"),
            ("NO", "no"),
            ("non-toxic", "nontoxic"),
            ("re-sign", "resign"),
            ("I", "l"),
        ],
        *[
            ("isn't", "isnt"),
            ("can not", "cannot"),
            ("un able", "unable"),
            ("can<b>not</b>", "can"),
            ("*un*able", "able"),
            ("ß", "ss"),
        ],
        *[
            ("O", "0"),
            ("l", "1"),
            ("Ⅳ", "Ⅵ"),
            ("①", "②"),
            ("①", "1 0"),
            ("ªb", "b"),
            ("ﬁn", "in"),
            ("tué", "tue"),
            ("год", "гoд"),
            ("ё", "е"),
        ],
        *[
            ("ﷺ", ""),
            ("か゚", "か"),
            ("ば", "は"),
            ("パ", "ハ"),
            ("각", "가"),
            ("กำ", "กา"),
            ("कि", "की"),
            ("क्ष", "कष"),
            ("שׁ", "שׂ"),
            ("؟", "،"),
        ],
        *[
            ("İ", "I"),
            ("ı", "i"),
            ("K", "k"),
            ("ſ", "f"),
            ("Å", "A"),
            ("µ", "u"),
            ("&eacute;", "e"),
            ("n&#771;", "n"),
            ("㎡", "㎥"),
            ("½x", "x"),
        ],
    ],
    "links": [
        *[
            ("[{w}](https://a.test/x)", "[{w}](https://b.test/x)"),
            ("{w}", "[{w}](https://b.test/x)"),
            ("[{w}](a)", "[{v}0](a)"),
        ],
        *[
            ('<a href="a.test">{w}</a>', '<a href="b.test">{w}</a>'),
            ("https://a.test/x", "https://a.test/y"),
            ("a.b", "ab"),
        ],
        *[("![{w}](a.png)", "![{w}](b.png)"), ("[not {w}](a)", "[{w}](a)"), ('<img alt="not">', '<img alt="now">')],
        *[("{w}", '<b title="not">{w}</b>'), ("[{w}][1]", "[{w}][2]"), ("{w}[^1]", "{w}[^2]0")],
    ],
    "code": [
        *[
            ("`a*b*c`", "`abc`"),
            ("`!a`", "`a`"),
            ("`x_1`", "`x1`"),
            ("`a[1]`", "`a`"),
            ("`<b>`", "``"),
            ("`&amp;`", "`&`"),
            ("`**k`", "`k`"),
        ],
        *[
            ("`a\\*b`", "`a*b`"),
            ("`--a`", "`a`"),
            ("`None`", "`none`"),
            ("`a == b`", "`a = b`"),
            ("`~1`", "`1`"),
            ("`[S1]`", "``"),
        ],
        *[
            ("\n```\nrm *a* now\n```\n", "\nrm a now\n"),
            ("\n```\n- 5\n# {w}\n```\n", "\n5\n{w}\n"),
            ("\n~~~\n<b>5</b>\n~~~\n", "5"),
        ],
        *[
            ("\n```\na | b\n```\n", "a b"),
            ("`a  b`", "`a b c`"),
            ("`'a'`", "`a`"),
            ("x[1]", "x"),
            ("a[12]", "a"),
            ("f[3]", "f[4]"),
        ],
    ],
    "tables": [
        *[
            ("\n| A | 5 |\n| B | 6 |\n", "\n| A | 6 |\n"),
            ("\n| A | not | 5 |\n", "\n| A | 5 |\n"),
            ("\n| 1 | 5 |\n", "\n15\n"),
        ],
        *[
            ("<td>1</td><td>5</td>", "15"),
            ("<tr><td>A<td>5<tr><td>B<td>6", "A 6"),
            ("\n- 5 {w}\n- 6 {v}\n", "\n- 6 {w} \n- 5 {v}\n"),
        ],
    ],
    "notes": [
        *[
            ("5[1]", "51"),
            ("5¹", "51"),
            ("{w} [12] 5", "{w} 12 5"),
            ("[12]", "[13]"),
            ("year 5[3]", "year 5 3"),
            (".5", ". 5"),
        ],
        *[
            ("{w}", "{w} 1"),
            ("[S1] {w}", "S1 {w}"),
            ("see [1] {w}", "see 1 {w}"),
            ("{w}²", "{w}2"),
            ("(1) {w}", "(2) {w}"),
            ("1. {w}", "2. {w}"),
        ],
        *[
            ("\n# {w}\n", "\n#{v} {w}\n"),
            ("\n1. {w}\n2. {v}\n", "\n1. {v} 0\n"),
            ("[not] {w}", "{w}"),
            ("(not) {w}", "{w}"),
            ("[{w}]", ""),
        ],
    ],
    "quote_marks": [
        ("“{w}”", "{w}”"),
        ('"not" {w}', "{w}"),
        ("'{w}'s", "{w}s"),
        ("5'", "5"),
        ("{w}?", "{w}."),
        ("...", ""),
        ("?!", "!"),
    ],
}


def _fragments(pairs: list[tuple[str, str]]) -> Rule:
    def rule(rng: random.Random, source: Source) -> Made | None:
        fragment, quoted = rng.choice(pairs)
        return put_in(rng, source, fragment, quoted)

    return rule


ALTERED |= {name: _fragments(pairs) for name, pairs in FRAGMENTS.items()}


def _cut(first: bool, last: bool, stop: str = "") -> Rule:
    def rule(rng: random.Random, source: Source) -> Made | None:
        words = list(WORD.finditer(source.passage))
        if len(words) < 7:
            return None
        start = words[rng.randint(1, 3)].start() if first else 0
        end = words[-rng.randint(2, 4)].end() if last else len(source.passage)
        quote = source.passage[start:end]
        cut = first or source.open_start, last or source.open_end
        is_twice = source.text.count(quote) > 1 or not any(map(str.isalnum, source.passage[end:] if last else "a"))
        return None if is_twice else Made(quote + stop, source.text, cut=cut)

    return rule


CUT |= {
    "beginning_cut": _cut(first=True, last=False),
    "end_cut": _cut(first=False, last=True),
    "both_cut": _cut(first=True, last=True),
    "end_cut_with_a_stop": _cut(first=False, last=True, stop="."),
    "end_cut_with_a_comma": _cut(first=False, last=True, stop=","),
}
__all__ = ["ALTERED", "CUT", "pick"]
