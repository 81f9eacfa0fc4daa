"""Quotes that travelled honestly and quotes that were altered, made by written-down rules, and what is said of them.

    python -m benchmarks.quotes --seed 7 --json quotes.json

Every rule takes a passage of a chunk, cut at white space, and makes a quote of it. A rule that finds nothing to do in
a passage (no digit, no dash, ...) gets another one. Nothing here uses the code under test to make a quote.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 -- typer reads it at run time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from worker.cli.corpus_files import SAMPLES, read
from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.findings import QuotedChunk, QuoteFinding
from worker.core.pins.hashing import hash_chunk
from worker.errors import RetrievalError, SettingsError

# Where no terminal says how wide it is (a pipe, a CI log), tables need more than the usual 80 columns.
console = Console(width=None if sys.stdout.isatty() else 160)

FOUND = ("verbatim", "normalised", "elided")
VERDICTS = (*FOUND, "misattributed", "not_found")
MOST_REFUSED = 0.01
CHUNKS_OF_A_JOB = 15
FEWEST_WORDS, MOST_WORDS = 5, 30


@dataclass(frozen=True)
class Source:
    """A passage to make a quote of.

    Attributes:
        passage: the words.
        text: the chunk it stands in.
        others: other chunks of the corpus.
    """

    passage: str
    text: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    """A quote; ``text`` where the rule changed the chunk instead, or as well; ``stands_in`` if in another chunk."""

    quote: str
    text: str | None = None
    stands_in: str | None = None


Rule = Callable[[random.Random, Source], Made | None]
HONEST: dict[str, tuple[Rule, str]] = {}
ALTERED: dict[str, tuple[Rule, str]] = {}


def honest(expected: str) -> Callable[[Rule], Rule]:
    """Register an honest rule with the verdict that its quotes deserve."""

    def register(rule: Rule) -> Rule:
        HONEST[rule.__name__] = rule, expected
        return rule

    return register


def altered(rule: Rule) -> Rule:
    """Register a rule whose quotes must not be found in the chunk they name."""
    ALTERED[rule.__name__] = rule, "not_found"
    return rule


# --- small tools --------------------------------------------------------------------------------


def texture(change: Callable[[random.Random, str], str]) -> Rule:
    """A rule that changes how the passage is written: it applies where the change does something."""

    def rule(rng: random.Random, source: Source) -> Made | None:
        quote = change(rng, source.passage)
        return Made(quote) if quote != source.passage else None

    rule.__name__, rule.__doc__ = change.__name__, change.__doc__
    return rule


def some(rng: random.Random, pattern: str, text: str, change: Callable[[re.Match[str]], str]) -> str:
    """The text with one place changed, at random; as it was, if there is no such place."""
    places = list(re.finditer(pattern, text))
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start()] + change(place) + text[place.end() :]


def swap(rng: random.Random, text: str, pairs: dict[str, str]) -> str:
    """The text with one word for another, keeping a capital."""
    pattern = r"\b(?:" + "|".join(map(re.escape, pairs)) + r")\b"

    def other(match: re.Match[str]) -> str:
        new = pairs[match[0].lower()] if match[0].lower() in pairs else pairs[match[0]]
        return new.capitalize() if match[0][0].isupper() and match[0] not in pairs else new

    return some(rng, f"(?i){pattern}" if all(map(str.islower, pairs)) else pattern, text, other)


def plain(text: str) -> str:
    """For a rule to see that its change says something else: white space, letter case and dashes aside."""
    return re.sub("[–—−]", "-", " ".join(text.split())).lower()


# --- honest: the words as they are --------------------------------------------------------------


@honest("verbatim")
def exact(_: random.Random, source: Source) -> Made | None:
    """As it stands."""
    return Made(source.passage)


def rewrapped(rng: random.Random, text: str) -> str:
    """White space of other kinds and lengths between words: line breaks, tabs, no-break and thin spaces."""
    spaces = ["\n", "\r\n", "  ", "\t", "\n    ", "\u00a0", "\u2009", "\u3000", "\u2028", " \n "]
    return "".join(rng.choice(spaces) if part.isspace() else part for part in re.split(r"(\s+)", text))


def other_quotes(_: random.Random, text: str) -> str:
    """Straight quotes curly, curly ones straight."""
    curly = re.sub(r"(?<=\w)'", "’", re.sub(r'"(?=\w)', "“", text).replace('"', "”"))
    return curly if curly != text else text.translate(str.maketrans({"“": '"', "”": '"', "’": "'", "‘": "'"}))


def other_dashes(rng: random.Random, text: str) -> str:
    """Hyphens, dashes and minus signs as a keyboard or a typesetter has them."""
    of = {"-": "‐‑–", "–": "-‒—", "—": "–-", "−": "-–"}
    changed = "".join(rng.choice(of[c]) if c in of else c for c in text)
    # A long dash is no minus sign.
    changed = re.sub(r"(?<![\w.])—(?=[.\d])", "–", changed) if "—" not in text else changed
    # A long dash typed as two hyphens.
    return changed if rng.random() < 0.7 else text.replace("—", "--")


def nfd(_: random.Random, text: str) -> str:
    """Accents apart (or together, where they were apart)."""
    other = unicodedata.normalize("NFD", text)
    return other if other != text else unicodedata.normalize("NFC", text)


def nfkc(_: random.Random, text: str) -> str:
    """Compatibility forms replaced, by any program that normalises; not where 10² would be 102, or ⒈5 1.5."""
    flattens = ("<super>", "<sub>", "<fraction>", "<circle>")
    if any(unicodedata.decomposition(c).startswith(flattens) or _hides_a_number(c) for c in text):
        return text
    return unicodedata.normalize("NFKC", text)


def _hides_a_number(c: str) -> bool:
    return unicodedata.decomposition(c).startswith("<compat>") and bool(
        re.search(r"\d", unicodedata.normalize("NFKC", c))
    )


def ligatures(_: random.Random, text: str) -> str:
    """The ligatures of a typeset page."""
    for plain_form, ligature in (("ffi", "ﬃ"), ("ffl", "ﬄ"), ("ff", "ﬀ"), ("fi", "ﬁ"), ("fl", "ﬂ")):
        text = text.replace(plain_form, ligature)
    return text


def full_width(rng: random.Random, text: str) -> str:
    """Some words in the wide forms of East Asian typesetting."""
    wide = {code: chr(code + 0xFEE0) for code in range(0x21, 0x7F)}
    return "".join(part.translate(wide) if rng.random() < 0.3 else part for part in re.split(r"(\s+)", text))


def soft_hyphens(rng: random.Random, text: str) -> str:
    """Soft hyphens inside words, as web pages have them."""
    return re.sub(r"(?<=[^\W\d_]{2})(?=[^\W\d_]{2})", lambda _: "\u00ad" if rng.random() < 0.3 else "", text)


def zero_width(rng: random.Random, text: str) -> str:
    """Zero-width spaces, joiners and marks of direction anywhere."""
    hidden = "\u200b\u200c\u200d\u2060\ufeff\u200e"
    return "".join(c + (rng.choice(hidden) if rng.random() < 0.1 else "") for c in text)


def hyphenated(rng: random.Random, text: str) -> str:
    """Words broken at the end of lines; also at a hyphen that they have anyway."""
    broken = re.sub(r"(?<=[a-z]{2})(?=[a-z]{2})", lambda _: "-\n" if rng.random() < 0.1 else "", text)
    return re.sub(r"(?<=[a-z]{2}-)(?=[a-z]{2})", lambda _: "\n" if rng.random() < 0.5 else "", broken)


def upper_case(_: random.Random, text: str) -> str:
    """In capitals."""
    return text.upper()


def lower_case(_: random.Random, text: str) -> str:
    """In small letters."""
    return text.lower()


def title_case(_: random.Random, text: str) -> str:
    """With each word capitalised."""
    return text.title()


def first_letter(_: random.Random, text: str) -> str:
    """The first letter in the other case, as a quote at the beginning or in the middle of a sentence has it."""
    # A word, and no unit: Mg is not mg.
    return text[:1].swapcase() + text[1:] if re.match(r"[^\W\d_]{4}", text) else text


CYRILLIC = dict(zip("aceopxyijsABCEHIKMOPTXJS", "асеорхуіјѕАВСЕНІКМОРТХЈЅ", strict=True))
GREEK = dict(zip("oABEZHIKMNOPTYX", "οΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", strict=True))


def look_alikes(rng: random.Random, text: str) -> str:
    """Some letters as the Cyrillic or Greek ones that look like them."""
    of = rng.choice([CYRILLIC, GREEK])
    return "".join(of[c] if c in of and rng.random() < 0.4 else c for c in text)


TEXTURES = (rewrapped, other_quotes, other_dashes, nfd, nfkc, ligatures, full_width, soft_hyphens, zero_width)
TEXTURES += (hyphenated, upper_case, lower_case, title_case, first_letter, look_alikes)
CASES = (upper_case, lower_case, title_case, first_letter)


def several(rng: random.Random, text: str, count: int) -> str:
    """Several of the changes above, in the order in which they happen to a text, and one change of case at most."""
    chosen = rng.sample([*(change for change in TEXTURES if change not in CASES), rng.choice(CASES)], count)
    # Words are broken after white space and dashes have changed: "exam-\tple" and "exam–\nple" are broken no more.
    order = (*CASES, look_alikes, other_quotes, other_dashes, rewrapped, hyphenated)
    for change in sorted(chosen, key=lambda change: order.index(change) if change in order else len(order)):
        text = change(rng, text)
    return text


for change_of_texture in TEXTURES:
    honest("normalised")(texture(change_of_texture))


@honest("normalised")
def combined(rng: random.Random, source: Source) -> Made | None:
    """Two or three of the above, one after the other."""
    quote = several(rng, source.passage, rng.choice([2, 3]))
    return Made(quote) if quote != source.passage else None


@honest("normalised")
def chunk_of_a_page(rng: random.Random, source: Source) -> Made | None:
    """The chunk is raw text of a page (broken lines and words, ligatures, soft hyphens), and the quote is clean."""
    text = source.text
    for change in (rewrapped, hyphenated, ligatures, rng.choice([soft_hyphens, nfd, zero_width])):
        text = change(rng, text)
    return Made(source.passage, text) if source.passage not in text else None


@honest("normalised")
def page_and_page(rng: random.Random, source: Source) -> Made | None:
    """Chunk and quote both come from a page, broken at other places."""
    return Made(hyphenated(rng, rewrapped(rng, source.passage)), hyphenated(rng, rewrapped(rng, source.text)))


# --- honest: marked as changed ------------------------------------------------------------------

MARKS = [" … ", "… ", " ... ", "... ", " [...] ", " […] ", " . . . ", " (...) ", "…", " …", ".... "]


def elided_passage(rng: random.Random, text: str, cuts: int) -> str | None:
    """The text with words left out at so many places; four words or more stay in each part."""
    words = text.split()
    if len(words) < 4 * (cuts + 1) + 2 * cuts or SPACED_NUMBER.search(text):
        return None
    parts, rest = [], words
    for left in range(cuts, 0, -1):
        keep = rng.randint(4, max(4, len(rest) - 6 * left + 2))
        drop = rng.randint(1, max(1, len(rest) - keep - 4 - 6 * (left - 1)))
        parts.append(" ".join(rest[:keep]))
        rest = rest[keep + drop :]
    parts.append(" ".join(rest))
    # A dash is no word, and a date is one.
    if any(sum(any(map(str.isalnum, word)) for word in part.split()) < 4 for part in parts):
        return None
    return "".join(part + (rng.choice(MARKS) if i < cuts else "") for i, part in enumerate(parts))


@honest("elided")
def ellipsis(rng: random.Random, source: Source) -> Made | None:
    """Words left out, with a mark; four words or more stay on each side."""
    quote = elided_passage(rng, source.passage, 1)
    return Made(quote) if quote else None


@honest("elided")
def ellipses(rng: random.Random, source: Source) -> Made | None:
    """Words left out at two places."""
    quote = elided_passage(rng, source.passage, 2)
    return Made(quote) if quote else None


@honest("elided")
def outer_ellipses(rng: random.Random, source: Source) -> Made | None:
    """Dots before and after the passage."""
    return Made(rng.choice(["… ", "...", "[...] "]) + source.passage + rng.choice([" …", "...", " [...]"]))


@honest("elided")
def sic(rng: random.Random, source: Source) -> Made | None:
    """[sic] after a word."""
    words = source.passage.split()
    words.insert(rng.randint(1, len(words)), rng.choice(["[sic]", "[sic!]", "(sic)"]))
    return Made(" ".join(words))


def names_in(text: str) -> list[str]:
    """Words with a capital within a sentence."""
    return sorted(set(re.findall(r"(?<=[a-z] )[A-Z][a-z]{3,}(?= [a-z])", text)))


@honest("elided")
def insertion(rng: random.Random, source: Source) -> Made | None:
    """An editor's words in brackets between two words."""
    words = source.passage.split()
    put_in = [
        "[his emphasis]",
        "[emphasis added]",
        "[my translation]",
        *(f"[{name}]" for name in names_in(source.text)),
    ]
    words.insert(rng.randint(1, len(words) - 1), rng.choice(put_in))
    return Made(" ".join(words))


@honest("elided")
def pronoun_explained(rng: random.Random, source: Source) -> Made | None:
    """[Who or what is meant] instead of a pronoun."""
    pattern = r"(?<=\s)(?:it|he|she|they|them|this|these|those|its|their|er|sie|es)(?=\s)"
    names = names_in(source.text)
    quote = some(rng, pattern, source.passage, lambda _: f"[{rng.choice(names)}]") if names else source.passage
    return Made(quote) if quote != source.passage else None


@honest("elided")
def letter_in_brackets(_: random.Random, source: Source) -> Made | None:
    """[T]he first letter in the other case, in brackets."""
    first = source.passage[0]
    if not re.match(r"[^\W\d_]{4}", source.passage) or first.swapcase() == first:
        return None
    return Made(f"[{first.swapcase()}]{source.passage[1:]}")


@honest("elided")
def ellipsis_and_texture(rng: random.Random, source: Source) -> Made | None:
    """Words left out, and the rest rewrapped, in curly quotes, with look-alikes, ..."""
    quote = elided_passage(rng, source.passage, 1)
    return Made(rng.choice(TEXTURES)(rng, quote)) if quote else None


# --- altered: numbers ---------------------------------------------------------------------------


def edit(change: Callable[[random.Random, str], str]) -> Rule:
    """A rule that changes what the passage says: it applies where the change does something."""

    def rule(rng: random.Random, source: Source) -> Made | None:
        quote = change(rng, source.passage)
        # Dots at the ends may be the chunk's own or the writer's: without them it must say something else as well.
        return Made(quote) if plain(quote).strip(" .…") not in plain(source.text) else None

    rule.__name__, rule.__doc__ = change.__name__, change.__doc__
    return altered(rule)


@edit
def digit_changed(rng: random.Random, text: str) -> str:
    """One digit is another."""
    return some(rng, r"\d", text, lambda m: rng.choice("0123456789".replace(m[0], "")))


@edit
def digit_added(rng: random.Random, text: str) -> str:
    """A number has a digit more."""
    return some(rng, r"\d", text, lambda m: m[0] + rng.choice("0123456789"))


@edit
def digit_lost(rng: random.Random, text: str) -> str:
    """A number of several digits has one fewer."""
    return some(rng, r"(?<=\d)\d|\d(?=\d)", text, lambda _: "")


@edit
def decimal_point_lost(rng: random.Random, text: str) -> str:
    """3.5 is 35, 3 5 or 3-5."""
    return some(rng, r"(?<=\d)[.,:](?=\d)", text, lambda _: rng.choice(["", " ", "-", "\n", "\u00ad", "-\n"]))


@edit
def decimal_point_moved(rng: random.Random, text: str) -> str:
    """0.42 is 4.2, 3.5 is 3,5."""
    return some(
        rng, r"(\d)\.(\d+)", text, lambda m: rng.choice([f"{m[1]},{m[2]}", f"{m[1]}{m[2]}.0", f".{m[1]}{m[2]}"])
    )


@edit
def decimal_point_added(rng: random.Random, text: str) -> str:
    """1978 is 19.78 or 19 78."""
    return some(rng, r"(?<=\d)(?=\d)", text, lambda _: rng.choice([".", " ", ",", "-", "\n"]))


@edit
def minus_lost(rng: random.Random, text: str) -> str:
    """−84 is 84."""
    return some(rng, r"(?<!\S)[-−–](?=\d)", text, lambda _: "")


@edit
def minus_added(rng: random.Random, text: str) -> str:
    """84 is −84."""
    return some(rng, r"(?<![\w.,−–-])(?=\d)", text, lambda _: rng.choice("-−–"))


@edit
def unit_swapped(rng: random.Random, text: str) -> str:
    """A dB is a Hz, metres are feet, £ is €."""
    units = {"dB": "Hz", "dBu": "dB", "Hz": "kHz", "kHz": "Hz", "seconds": "minutes", "minutes": "seconds", "m": "km"}
    units |= {"cm": "mm", "hours": "days", "days": "hours", "ohm": "kilohm", "metres": "feet", "kg": "g", "W": "kW"}
    swapped = swap(rng, text, units)
    signs = {"£": "€", "€": "$", "%": "‰", "µF": "mF", "°": "′"}
    return swapped if swapped != text else some(rng, "[£€%°]|µF", text, lambda m: signs[m[0]])


@edit
def comparison_turned(rng: random.Random, text: str) -> str:
    """More than is less than, above is below."""
    turned = {"more": "less", "less": "more", "above": "below", "below": "above", "before": "after", "after": "before"}
    return swap(rng, text, turned | {"at least": "at most", "at most": "at least", "fewer": "more", "first": "last"})


@edit
def number_word_changed(rng: random.Random, text: str) -> str:
    """Two is three."""
    numbers = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty"]
    return swap(rng, text, dict(zip(numbers, numbers[1:] + numbers[:1], strict=True)))


@altered
def power_flattened(rng: random.Random, source: Source) -> Made | None:
    """The chunk says 10², the quote 102 (or 10^2 as 102, 2⁻³ as 2-3)."""
    here = rng.choice(re.findall(r"\b\d+\b(?![.,:]\d)", source.passage) or [""])
    if not here or source.passage.count(here) != 1 or source.text.count(source.passage) != 1:
        return None
    power, flat = rng.choice([("²", "2"), ("⁵", "5"), ("^2", "2"), ("⁻³", "-3"), ("½", "1/2"), ("₂", "2"), ("①", "1")])
    raised = source.passage.replace(here, here + power)
    return Made(source.passage.replace(here, here + flat), source.text.replace(source.passage, raised))


@altered
def cut_in_number(_: random.Random, source: Source) -> Made | None:
    """The passage begins inside a number: 5 dB of 15 dB or 3.5 dB, 84 of −84, two of thirty-two, 000 of 1,000."""
    pattern = r"\d\d[^\s]*\s.*|[−-]\d.*|\d[.,:]\d.*|[a-z]+ty-[a-z]+.*|[£€]\d.*"
    match = re.search(pattern, source.passage, re.DOTALL)
    if not match or not re.search(r"\s", match[0]):
        return None
    quote = re.sub(r"\A(?:\d(?=\d)|[−£€-]|\d[.,:]|[a-z]+ty-)", "", match[0])
    return Made(quote) if not re.search(rf"(?<!\S){re.escape(quote)}", source.text) else None


# --- altered: words -----------------------------------------------------------------------------


@edit
def modal_changed(rng: random.Random, text: str) -> str:
    """May is must, should is will."""
    modals = {"may": "must", "must": "may", "should": "will", "will": "may", "can": "must", "cannot": "can"}
    return swap(rng, text, modals | {"could": "will", "might": "will", "shall": "may", "would": "will"})


@edit
def modal_lost(rng: random.Random, text: str) -> str:
    """A may, must or should is gone."""
    return some(rng, r"(?<=\s)(?:may|must|should|can|could|will|would|likely|roughly|about|only) ", text, lambda _: "")


@edit
def not_added(rng: random.Random, text: str) -> str:
    """There is a not that was not there."""
    verbs = r"\b(?:is|was|are|were|may|must|should|can|will|did|does|do|has|have|had)\b(?! not)"
    return some(rng, verbs, text, lambda m: f"{m[0]} not")


@edit
def not_lost(rng: random.Random, text: str) -> str:
    """A not, no or never is gone."""
    return some(rng, r"(?<=\s)(?:not|no|never|nobody|without) ", text, lambda _: "")


SYNONYMS = {
    "large": "big",
    "quiet": "silent",
    "repair": "mend",
    "repaired": "mended",
    "room": "chamber",
    "begin": "start",
    "used": "employed",
    "use": "employ",
    "small": "little",
    "measured": "gauged",
    "channel": "track",
    "replace": "change",
    "fault": "defect",
    "keep": "retain",
    "level": "volume",
    "shows": "displays",
    "the": "a",
    "and": "or",
    "each": "every",
}


@edit
def synonym(rng: random.Random, text: str) -> str:
    """A word is another one that means about the same."""
    return swap(rng, text, SYNONYMS)


@edit
def words_swapped(rng: random.Random, text: str) -> str:
    """Two neighbouring words change places."""
    words = text.split()
    i = rng.randrange(len(words) - 1)
    words[i : i + 2] = words[i + 1], words[i]
    return " ".join(words)


@edit
def name_swapped(rng: random.Random, text: str) -> str:
    """Another person or place."""
    names = [
        "Alice Marrin",
        "Bob Tessler",
        "Ines Okafor",
        "Jürgen Groß",
        "Carol Ashdown",
        "Calder",
        "Harbour",
        "Lübeck",
    ]
    pattern = "|".join([*names, r"(?<=\s)[A-Z][a-z]{3,}(?=\s)"])
    return some(rng, pattern, text, lambda m: rng.choice([name for name in names if name != m[0]]))


@edit
def word_lost(rng: random.Random, text: str) -> str:
    """A word inside is gone, without a mark."""
    words = text.split()
    del words[rng.randrange(1, len(words) - 1)]
    return " ".join(words)


@edit
def word_added(rng: random.Random, text: str) -> str:
    """There is a word more."""
    words = text.split()
    words.insert(rng.randrange(1, len(words)), rng.choice(["very", "always", "not", "new", "may", "about", "never"]))
    return " ".join(words)


@edit
def letter_changed(rng: random.Random, text: str) -> str:
    """One letter is another: a reader's eye passes over it."""
    return some(rng, r"[a-z]", text, lambda m: rng.choice("abcdefghijklmnopqrstuvwxyz".replace(m[0], "")))


@edit
def accent_lost(rng: random.Random, text: str) -> str:
    """An accented letter without its accent, a plain one with it."""
    bare = some(rng, r"[äöüéğńşά]", text, lambda m: unicodedata.normalize("NFD", m[0])[0])
    return bare if bare != text else some(rng, "[aeou]", text, lambda m: unicodedata.normalize("NFC", m[0] + "\u0301"))


@edit
def space_lost(rng: random.Random, text: str) -> str:
    """Two words are one: not able is notable."""
    return some(rng, r"(?<=[^\W\d]) (?=[^\W\d])", text, lambda _: rng.choice(["", "-", "\u00ad", "\u200b", "-\n"]))


@edit
def space_added(rng: random.Random, text: str) -> str:
    """One word is two: resign is re sign."""
    return some(rng, r"(?<=[a-z]{2})(?=[a-z]{2})", text, lambda _: rng.choice([" ", "\n", "\u00a0", "- ", " - "]))


@edit
def hyphen_added(rng: random.Random, text: str) -> str:
    """Resign is re-sign."""
    return some(rng, r"(?<=[a-z]{2})(?=[a-z]{2})", text, lambda _: rng.choice("-‐–—"))


@edit
def hyphen_lost(rng: random.Random, text: str) -> str:
    """Well-known is wellknown or well known, 10–12 is 1012."""
    return some(rng, r"(?<=\w)[-–−](?=\w)", text, lambda _: rng.choice(["", " ", "\u00ad", "\n"]))


@edit
def punctuation_changed(rng: random.Random, text: str) -> str:
    """A comma is a full stop, or gone: two clauses are joined otherwise."""
    return some(rng, r"[,;:.](?=\s)", text, lambda m: rng.choice([c for c in ["", ".", "!", "?", " and"] if c != m[0]]))


# Of scripts with spaces between words: nobody can tell without a dictionary where a Thai word ends.
LETTERS = "[A-Za-z\u00c0-\u024f\u0370-\u052f\u0590-\u06ff]"


@altered
def cut_in_word(rng: random.Random, source: Source) -> Made | None:
    """The passage begins or ends inside a word."""
    head, tail = re.match(rf"{LETTERS}{{3,}}", source.passage), re.search(rf"{LETTERS}{{3,}}\Z", source.passage)
    if head and rng.random() < 0.5:
        quote = source.passage[rng.randint(1, 2) :]
    elif tail:
        quote = source.passage[: -rng.randint(1, 2)]
    else:
        return None
    return Made(quote) if not re.search(rf"(?<!\w){re.escape(quote)}(?!\w)", source.text) else None


# --- altered: joined ----------------------------------------------------------------------------


def halves(rng: random.Random, one: str, other: str) -> tuple[str, str]:
    """The beginning of a text and the end of another, at least five words of each."""
    first, second = one.split(), other.split()
    return " ".join(first[: rng.randint(5, max(5, len(first) - 1))]), " ".join(
        second[-rng.randint(5, max(5, len(second))) :]
    )


@altered
def halves_of_sentences(rng: random.Random, source: Source) -> Made | None:
    """The beginning of one sentence and the end of another, without a mark."""
    sentences = [s for s in re.split(r"(?<=[.!?;])\s+", source.text) if len(s.split()) >= 7]
    if len(sentences) < 2:
        return None
    one, other = rng.sample(sentences, 2)
    quote = " ".join(halves(rng, one, other))
    return Made(quote) if plain(quote) not in plain(source.text) else None


@altered
def halves_of_chunks(rng: random.Random, source: Source) -> Made | None:
    """The beginning of this chunk and the end of another one, with a mark."""
    first, second = halves(rng, source.text, rng.choice(source.others))
    return Made(first + rng.choice(MARKS) + second) if plain(second) not in plain(source.text) else None


@altered
def wrong_order(rng: random.Random, source: Source) -> Made | None:
    """Two parts of the chunk with a mark, but the later one first."""
    words = source.text.split()
    if len(words) < 20:
        return None
    middle = rng.randint(8, len(words) - 8)
    first, second = " ".join(words[middle - 6 : middle]), " ".join(words[middle : middle + 6])
    once = all(plain(source.text).count(plain(part)) == 1 for part in (first, second))
    return Made(second + rng.choice(MARKS) + first) if once else None


@altered
def scraps(rng: random.Random, source: Source) -> Made | None:
    """Single words with marks between: anything can be made of them."""
    words = [word for word in source.text.split() if word.isalpha() and len(word) < 6]
    if len(words) < 3:
        return None
    chosen = sorted(rng.sample(range(len(words)), 3))
    return Made(rng.choice(MARKS).join(words[i] for i in chosen))


@altered
def part_cut_in_word(rng: random.Random, source: Source) -> Made | None:
    """A mark of omission inside a word: "it is un… safe to use" is made of "it is unusual but safe to use"."""
    quote = elided_passage(rng, source.passage, 1)
    parts = re.split(r"\s*(?:…|\[…\]|[\[(]?\.[ .]*[\])]?)\s*(?=\S)", quote or "", maxsplit=1)
    if len(parts) != 2 or not re.search(rf"{LETTERS}{{4,}}\Z", parts[0]):
        return None
    made = parts[0][:-2] + "… " + parts[1]
    return Made(made) if not re.search(rf"{re.escape(parts[0][:-2])}\b", source.text) else None


@altered
def denial_in_brackets(rng: random.Random, source: Source) -> Made | None:
    """[not] put in, or [may] instead of must."""
    verbs = r"\b(?:is|was|are|were|may|must|should|can|will|did|does|has|have|had)\b(?! not)"
    quote = some(rng, verbs, source.passage, lambda m: rng.choice([f"{m[0]} [not]", f"{m[0]} [never]", "[may not]"]))
    return Made(quote) if quote != source.passage else None


@altered
def number_in_brackets(rng: random.Random, source: Source) -> Made | None:
    """[15 dB] instead of 3 dB, [of 15] instead of of 3."""
    quote = some(
        rng, r"(?<!\S)\d[\d.,]*\s?\w*", source.passage, lambda _: rng.choice(["[15 dB]", "[about 15]", "[ten]"])
    )
    return Made(quote) if quote != source.passage else None


@altered
def other_chunk(rng: random.Random, source: Source) -> Made | None:
    """Word for word, but from another chunk: misattributed."""
    return _of_other_chunk(rng, source, lambda text: text)


@altered
def other_chunk_rewritten(rng: random.Random, source: Source) -> Made | None:
    """From another chunk, and honestly changed on its way: misattributed."""
    return _of_other_chunk(rng, source, lambda text: rng.choice(TEXTURES)(rng, text))


@altered
def other_chunk_elided(rng: random.Random, source: Source) -> Made | None:
    """From another chunk, with honest marks: misattributed."""
    return _of_other_chunk(rng, source, lambda text: elided_passage(rng, text, 1))


def _of_other_chunk(rng: random.Random, source: Source, change: Callable[[str], str | None]) -> Made | None:
    other = rng.choice(source.others)
    passage = passage_of(rng, other)
    quote = change(passage) if passage else None
    if not quote or not passage or plain(passage) in plain(source.text):
        return None
    return Made(quote, stands_in=other)


@altered
def altered_and_disguised(rng: random.Random, source: Source) -> Made | None:
    """Any change of a number or a word above, and then one or two honest changes on top."""
    change = rng.choice(
        [digit_changed, decimal_point_lost, minus_lost, unit_swapped, modal_changed, not_lost, word_lost]
    )
    made = change(rng, source)
    if not made or made.quote == source.passage:
        return None
    return Made(several(rng, made.quote, rng.choice([1, 2])))


# --- measuring ----------------------------------------------------------------------------------


@dataclass
class Line:
    """What became of the quotes of one rule."""

    rule: str
    kind: str
    expected: str
    count: int = 0
    wrong: int = 0
    unfound: int = 0
    unexpected: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, str]] = field(default_factory=list)


SPACED_NUMBER = re.compile(r"\d+(?:\s\d{3})+\b|\d\S*\s×\s\d\S*|−\s\d\S*")


def passage_of(rng: random.Random, text: str) -> str | None:
    """Some words of a text, as they stand there; no cut inside 1 250, 1.5 × 10⁻⁶ or − 84."""
    words = list(re.finditer(r"\S+", text))
    if len(words) < FEWEST_WORDS:
        return None
    length = rng.randint(FEWEST_WORDS, min(MOST_WORDS, len(words)))
    first = rng.randint(0, len(words) - length)
    start, end = words[first].start(), words[first + length - 1].end()
    inside = any(
        match.start() < place < match.end() for match in SPACED_NUMBER.finditer(text) for place in (start, end)
    )
    return None if inside else text[start:end]


def make(rng: random.Random, rule: Rule, texts: list[str]) -> tuple[Source, Made] | None:
    """A quote by a rule, of the first passage where it applies."""
    for _ in range(400):
        text = rng.choice(texts)
        passage = passage_of(rng, text)
        if not passage:
            continue
        others = tuple(other for other in rng.sample(texts, min(CHUNKS_OF_A_JOB, len(texts))) if other != text)
        source = Source(passage, text, others)
        if made := rule(rng, source):
            return source, made
    return None


def judge(line: Line, source: Source, made: Made) -> None:
    """Check one quote and count what was said of it."""
    text = made.text if made.text is not None else source.text
    own = hash_chunk(text)
    chunks = [chunk_of(text), *map(chunk_of, source.others)]
    finding = check_quote(made.quote, own, chunks)
    deserved = "misattributed" if made.stands_in is not None else line.expected
    wrong = is_wrong(line, made, finding, chunks)
    line.count += 1
    line.verdicts[finding.verdict] += 1
    line.wrong += wrong
    line.unfound += wrong and finding.verdict == "not_found"
    line.unexpected += finding.verdict != deserved
    if wrong or finding.verdict != deserved:
        line.examples.append({"quote": made.quote, "chunk": text, "verdict": finding.verdict})


def is_wrong(line: Line, made: Made, finding: QuoteFinding, chunks: list[QuotedChunk]) -> bool:
    """Honest: refused, or a span that is not the quote. Altered: accepted, or said of a wrong chunk."""
    if line.kind == "honest":
        return finding.verdict not in FOUND or not spans_are_right(made, finding, chunks)
    if made.stands_in is not None:
        return hash_chunk(made.stands_in) not in finding.elsewhere
    return finding.verdict in FOUND


def spans_are_right(made: Made, finding: QuoteFinding, chunks: list[QuotedChunk]) -> bool:
    """Whether the parts stand in the chunk in this order, with the quote's letters."""
    text = chunks[finding.places[0].chunk].text.text
    parts = [text[start:end] for start, end in finding.spans]
    in_order = all(one[1] <= other[0] for one, other in itertools.pairwise(finding.spans))
    if finding.verdict == "verbatim":
        return parts == [made.quote]
    bracketed = re.compile(r"\[[^\[\]]{2,}\]|\(sic!?\)")
    ways = [lambda text: text, lambda text: bracketed.sub("", text)]
    return in_order and all(any(letters(way(part)) in letters(way(made.quote)) for way in ways) for part in parts)


def letters(text: str) -> str:
    """Only what every honest rule keeps, or what can be brought back."""
    looks = {ord(look.lower()): letter.lower() for of in (CYRILLIC, GREEK) for letter, look in of.items()}
    folded = unicodedata.normalize("NFKD", text).casefold().translate(looks).replace("ı", "i")
    return "".join(c for c in folded if c.isalnum())


_CHUNKS: dict[str, QuotedChunk] = {}


def chunk_of(text: str) -> QuotedChunk:
    """A chunk prepared once, as in a job."""
    if text not in _CHUNKS:
        _CHUNKS[text] = QuotedChunk.of(hash_chunk(text), text)
    return _CHUNKS[text]


def measure(texts: list[str], seed: int, per_rule: int) -> list[Line]:
    """So many quotes by each rule. A rule's quotes don't depend on the other rules."""
    lines = []
    for kind, rules in (("honest", HONEST), ("altered", ALTERED)):
        for name, (rule, expected) in rules.items():
            rng = random.Random(f"{seed} {name}")  # noqa: S311 -- reproducible, not secret
            line = Line(name, kind, expected)
            for _ in range(per_rule):
                if made := make(rng, rule, texts):
                    judge(line, *made)
            lines.append(line)
    return lines


# --- showing ------------------------------------------------------------------------------------


def show(lines: list[Line], examples: int) -> None:
    """A table for each kind, and some of the quotes that were judged wrong or otherwise than expected."""
    for kind, meaning in (("honest", "refused"), ("altered", "accepted")):
        table = Table(title=f"{kind.capitalize()} quotes")
        for heading in ("rule", "quotes", *VERDICTS, meaning):
            table.add_column(heading, justify="left" if heading == "rule" else "right")
        of_kind = [line for line in lines if line.kind == kind]
        for line in of_kind:
            table.add_row(*row(line.rule, [line]), style="red" if line.wrong else "")
        table.add_section()
        table.add_row(*row("all", of_kind), style="bold")
        console.print(table)
    for line in lines:
        for example in line.examples[:examples]:
            console.print(f"{line.rule}: {example['verdict']}: {example['quote']!r}", markup=False, highlight=False)
            console.print(f"    {example['chunk']!r}", markup=False, highlight=False, style="dim")


def row(name: str, lines: list[Line]) -> list[str]:
    """Counts of one or several rules."""
    verdicts = sum((line.verdicts for line in lines), Counter[str]())
    wrong = sum(line.wrong for line in lines)
    return [name, str(sum(line.count for line in lines)), *(str(verdicts[v] or "") for v in VERDICTS), str(wrong or "")]


def missed(lines: list[Line]) -> list[str]:
    """Which goals were missed."""
    of = {kind: [line for line in lines if line.kind == kind] for kind in ("honest", "altered")}
    refused, made = (sum(getattr(line, name) for line in of["honest"]) for name in ("wrong", "count"))
    unfound = sum(line.unfound for line in of["altered"])
    accepted = sum(line.wrong for line in of["altered"]) - unfound
    return [
        *([f"{accepted} altered quotes were accepted, or said to stand in a wrong chunk"] if accepted else []),
        *([f"{refused} of {made} honest quotes were refused"] if refused > MOST_REFUSED * made else []),
        *([f"{unfound} misattributed quotes were not found"] if unfound > MOST_REFUSED * made else []),
    ]


# --- the texts ----------------------------------------------------------------------------------

CHUNK_WORDS = 60
"""Paragraphs of a text file are put together until a chunk has so many words."""


def texts_of(documents: Path) -> list[str]:
    """The chunks of a file of documents, each text once."""
    return list(dict.fromkeys(text for item in read(documents).items for _, text in item.to_embed()))


def read_texts(paths: list[Path]) -> list[str]:
    """The chunks of any text files, and of those in folders, each text once; what is no UTF-8 is passed over."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    texts = list(dict.fromkeys(chunk for file in files if file.is_file() for chunk in chunks_of(file.read_bytes())))
    if len(texts) < FEWEST_TEXTS:
        raise SettingsError(f"--texts: {len(texts)} chunks found, at least {FEWEST_TEXTS} are needed")
    return texts


FEWEST_TEXTS = 2


def chunks_of(content: bytes) -> Iterator[str]:
    """Paragraphs, which blank lines divide, put together to chunks."""
    try:
        paragraphs = re.split(r"\n(?:[^\S\n]*\n)+", content.decode())
    except UnicodeDecodeError:
        return
    chunk: list[str] = []
    for paragraph in paragraphs:
        chunk.append(paragraph.strip("\n"))
        if sum(len(part.split()) for part in chunk) >= CHUNK_WORDS:
            yield "\n\n".join(chunk)
            chunk = []
    if any(map(str.strip, chunk)):
        yield "\n\n".join(chunk)


# --- the command --------------------------------------------------------------------------------

_EXAMPLES = """
Examples:

  python -m benchmarks.quotes

  python -m benchmarks.quotes --seed 3 --per-rule 500 --examples 3

  python -m benchmarks.quotes --documents mine.json --json quotes.json

  python -m benchmarks.quotes --texts docs --texts README.md

Exit codes: 0 goals reached, 1 an altered quote was accepted or more than 1 % of the honest ones refused, 2 wrong usage.
"""


def run(
    seed: Annotated[int, typer.Option(help="Of passages and changes.")] = 20,
    per_rule: Annotated[int, typer.Option(min=1, help="Quotes by each rule.")] = 100,
    documents: Annotated[Path, typer.Option(help="Documents of the sample's form.", dir_okay=False)] = SAMPLES[
        "documents"
    ],
    texts_in: Annotated[
        list[Path] | None, typer.Option("--texts", help="Any texts instead: a file, or a folder of files.", exists=True)
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Show so many unexpected verdicts of each rule.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.", dir_okay=False)] = None,
) -> None:
    """Check honest and altered quotes of a corpus, rule by rule."""
    texts = read_texts(texts_in) if texts_in else texts_of(documents)
    start = time.perf_counter()
    lines = measure(texts, seed, per_rule)
    seconds = time.perf_counter() - start
    show(lines, examples)
    total = sum(line.count for line in lines)
    console.print(f"{len(texts)} chunks, {total} quotes, seed {seed}, {seconds:.1f} s", highlight=False)
    problems = missed(lines)
    if json_file:
        write(json_file, lines, {"seed": seed, "chunks": len(texts), "quotes": total, "missed": problems})
    for problem in problems:
        console.print(f"missed: {problem}", style="red", highlight=False)
    if problems:
        raise typer.Exit(1)


run.__doc__ = f"{run.__doc__}\n{_EXAMPLES}"


def write(path: Path, lines: list[Line], figures: dict[str, Any]) -> None:
    """All figures as JSON, with the rules' own words and the unexpected verdicts."""
    rules = HONEST | ALTERED
    figures["rules"] = [
        {
            "rule": line.rule,
            "kind": line.kind,
            "what": rules[line.rule][0].__doc__,
            "expected": line.expected,
            "quotes": line.count,
            "wrong": line.wrong,
            "unexpected": line.unexpected,
            "verdicts": dict(line.verdicts),
            "examples": line.examples[:5],
        }
        for line in lines
    ]
    path.write_text(json.dumps(figures, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Run the command; whatever is a user's fault is one line, never a stack trace."""
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    command.command()(run)
    try:
        command(prog_name="python -m benchmarks.quotes")
    except (RetrievalError, OSError) as error:
        print(f"benchmarks.quotes: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
