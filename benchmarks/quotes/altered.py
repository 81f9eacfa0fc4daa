"""Rules whose quotes have another word, number, sign or order, and rules that cut a sentence."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable

from benchmarks.quotes.honest import TEXTURES
from benchmarks.quotes.passages import JOINED, UNSPACED, WORD, Made, Rule, Source, letters, load, put_in, some

ALTERED: dict[str, Rule] = {}
CUT: dict[str, Rule] = {}
"""Quotes that stand there, but are not the whole sentence: what is left must be shown."""

Change = Callable[[random.Random, re.Match[str]], str]
LETTER = r"[^\W\d_]"


def one_of(*texts: str) -> Change:
    """Return a change to one of some texts that is another one."""
    return lambda rng, match: rng.choice([text for text in texts if text != match[0]])


def _line_ends(match: re.Match[str]) -> str:
    """Return a line break; none in Korean, where a line may end inside a word."""
    return "" if "가" <= match.string[match.start()] <= "힣" else "\n"


# Name -> pattern, change, whether letters and digits stay the same.
EDITS: dict[str, tuple[str, Change, bool]] = {
    "digit_changed": (r"\d", lambda rng, m: rng.choice([d for d in "0123456789" if int(d) != int(m[0])]), False),
    "digit_added": (r"\d", lambda rng, m: m[0] + rng.choice("0123456789²½"), False),
    "digit_lost": (r"(?<=\d)\d|\d(?=\d)", lambda _, __: "", False),
    "separator_changed": (
        r"(?<=\d)[.,:](?=\d)",
        one_of("", " ", "-", "\n", "-\n", "\u00ad", "\u2063", ".", ",", ":", "<br>", "\\", "**", "\u200b", "&nbsp;"),
        True,
    ),
    "separator_added": (r"(?<=\d)(?=\d)", one_of(".", " ", ",", "-", "\n", "/", "\u00a0", "&#44;"), True),
    "sign_lost": (r"(?<!\w)[-−+~$€£](?=\d)", lambda _, __: "", True),
    "sign_added": (
        r"(?<![\w.,:;$€£−+-])(?=\d)",
        one_of("-", "−", "+", "<", "≤", "$", "&minus;", "¬", "\\-", "±"),
        True,
    ),
    "per_cent_changed": (r"(?<=\d)\s?[%°℃]", one_of("", "‰", " °F", " $"), True),
    "letter_changed": (LETTER, lambda rng, m: rng.choice(m.string.replace(m[0], "").replace(" ", "") or "x"), False),
    "letter_lost": (rf"(?<={LETTER}){LETTER}(?={LETTER})", lambda _, __: "", False),
    "letter_added": (rf"(?<={LETTER}){LETTER}", lambda _, m: m[0] * 2, False),
    "letters_swapped": (rf"({LETTER})({LETTER})", lambda _, m: m[2] + m[1], False),
    "ending_lost": (rf"(?<={LETTER}{{3}}){LETTER}{{1,3}}(?=\s)", lambda _, __: "", False),
    "prefix_lost": (rf"(?<=\s){LETTER}{{1,3}}(?={LETTER}{{3}})", lambda _, __: "", False),
    "case_changed": (rf"(?<=\w ){LETTER}|(?<=\w){LETTER}", lambda _, m: m[0].swapcase(), True),
    "words_joined": (
        rf"(?<=[^\W\d_{UNSPACED}])[- ](?=[^\W\d_{UNSPACED}])",
        one_of("", "-", "\u00ad", "\u200b", "&shy;", "<wbr>", "**", "\u2060", "[S1]", "`"),
        True,
    ),
    "word_divided": (
        rf"(?<=[^\W\d_{UNSPACED}]{{2}})(?=[^\W\d_{UNSPACED}]{{2}})",
        lambda rng, m: one_of(
            " ", *_line_ends(m), "&nbsp;", " - ", "<br>", "\n- ", "\n> ", "\u3000", "\u2028", "—", " <b>"
        )(rng, m),
        True,
    ),
    "symbol_changed": (r"[<>=≤≥*/_!&@#~^$€£%]", one_of(*"<>=≤≥*/_!&@#~^$€£%", ""), True),
    "question_lost": (r"[?？!]", lambda _, __: ".", True),
    "punctuation_changed": (r"[,;:](?=\s\S)", one_of(".", "!", "?", " –", ";", ","), True),
    "unseen_added": (rf"(?<={LETTER})(?={LETTER})", one_of("\u2061", "\u2062", "\u2063", "\u202e", "\U000e0061"), True),
    "mark_added": (rf"(?<={LETTER})(?={LETTER})", one_of("\u0338", "\u0301", "\u0327", "\u20d2", "\u0315"), True),
}


def _edit(pattern: str, change: Change, signs_only: bool) -> Rule:
    def rule(rng: random.Random, source: Source) -> Made | None:
        quote = some(rng, pattern, source.passage, lambda match: change(rng, match))
        if quote == source.passage or not (signs_only or source.is_new(quote)):
            return None
        return Made(quote, source.text)

    return rule


ALTERED |= {name: _edit(*edit) for name, edit in EDITS.items()}


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
    return [*words[:i], rng.choice([*words, *WORD.findall(source.other_chunks[0]), "not", "1"]), *words[i:]]


@_with_words
def word_replaced(rng: random.Random, words: list[str], source: Source) -> list[str]:
    """A word is another one."""
    i = rng.randrange(1, len(words) - 1)
    return [*words[:i], rng.choice([*words, *WORD.findall(source.other_chunks[0])]), *words[i + 1 :]]


@_with_words
def words_swapped(rng: random.Random, words: list[str], _: Source) -> list[str]:
    """Two words change places."""
    i, j = sorted(rng.sample(range(len(words)), 2))
    words[i], words[j] = words[j], words[i]
    return words


@_with_words
def halves_joined(rng: random.Random, words: list[str], source: Source) -> list[str]:
    """The beginning of one sentence and the end of another chunk, without a mark."""
    other_words = WORD.findall(rng.choice(source.other_chunks))
    return words[: rng.randint(2, len(words) - 1)] + other_words[-rng.randint(2, max(2, len(other_words) - 1)) :]


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
    made_quote = ALTERED[rng.choice(["word_lost", "word_added", "word_replaced", "words_swapped", "digit_changed"])](
        rng, source
    )
    quote = rng.choice([*TEXTURES.values()])(rng, made_quote.quote) if made_quote else None
    return Made(quote, source.text) if quote and source.is_new(quote) else None


def _fragments(pairs: list[list[str]]) -> Rule:
    def rule(rng: random.Random, source: Source) -> Made | None:
        fragment, quoted = rng.choice(pairs)
        made_quote = put_in(rng, source, fragment, quoted)
        # A quote that ends with the word lost may end where that stood: “to” of “~~to~~ to” is there as it is.
        is_there = (
            made_quote
            and letters(fragment) != letters(quoted)
            and letters(made_quote.quote) in letters(made_quote.text)
        )
        return None if is_there else made_quote

    return rule


ALTERED |= {name: _fragments(pairs) for name, pairs in load("fragments").items()}


def _cut(at_start: bool, at_end: bool, stop: str = "") -> Rule:
    def rule(rng: random.Random, source: Source) -> Made | None:
        words = list(WORD.finditer(source.passage))
        if len(words) < 7:
            return None
        start = words[rng.randint(1, 3)].start() if at_start else 0
        end = words[-rng.randint(2, 4)].end() if at_end else len(source.passage)
        quote = source.passage[start:end]
        cut = at_start or source.open_start, at_end or source.open_end
        is_twice = source.text.count(quote) > 1 or not any(map(str.isalnum, source.passage[end:] if at_end else "a"))
        return None if is_twice else Made(quote + stop, source.text, cut=cut)

    return rule


CUT |= {
    "beginning_cut": _cut(at_start=True, at_end=False),
    "end_cut": _cut(at_start=False, at_end=True),
    "both_cut": _cut(at_start=True, at_end=True),
    "end_cut_with_a_stop": _cut(at_start=False, at_end=True, stop="."),
    "end_cut_with_a_comma": _cut(at_start=False, at_end=True, stop=","),
}
