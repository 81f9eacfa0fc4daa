"""Disagreement: sentences of two sources that are alike but for a number, a date, a unit or a negation.

By rules, without a language model, for English. A sentence is read into what it says (its skeleton: the
words' stems in order, with a sign where a number or a date stands) and what it says so of (numbers with
their units, dates, where it negates). Articles, auxiliary verbs and adverbs that only colour a statement are
no part of a skeleton. Two sentences are *alike* if their skeletons are equal and hold enough (`compare`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from worker.core.conflicts import Conflict, side_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    _Places = NDArray[np.intp]

    from worker.core.citations import CitationRecord
    from worker.core.conflicts import Side, Span

MIN_COMMON = 3
"""Content words, equal values and parts of differing ones (unit, month, year) that alike sentences share ..."""

MIN_COMMON_STATED = 2
"""... where an auxiliary verb or a full stop shows that they are no headings or table cells ..."""

MIN_COMMON_BOUND = 5
"""... where they begin with a pronoun, so that what they speak of stands elsewhere ..."""

MIN_COMMON_NAMED = 8
"""... and where only the number in a name differs (channel 18, channel 19), so that both may well be true."""

MAX_VARIANTS = 24
"""Up to so many variants of a sentence are compared each with each, more only where one thing differs."""

MAX_PAIRS = 64
"""Up to so many pairs are reported for two variants, of more each sentence with one other."""


def find_disagreements(records: Sequence[CitationRecord]) -> list[Conflict]:
    """Sentences of two sources that are alike and differ in a number, a date, a unit or a negation.

    >>> from worker.core.citations import CitationRecord
    >>> texts = {"s1": "Blue reels may be baked.", "s2": "Blue reels may not be baked."}
    >>> (found,) = find_disagreements([CitationRecord("sha256:…", s, text, 1.0) for s, text in texts.items()])
    >>> found.differs, found.sides[0].tokens, found.sides[1].tokens
    (('negation',), (), ((15, 18),))

    Time is near-linear in the texts: sentences are looked up by their skeleton, and of many variants of one
    sentence (`MAX_VARIANTS`) those that differ in one thing.

    Returns:
        Conflicts of kind ``disagreement`` with two sides each, by the indices of their records, then by place.
        A text that a source has several times is looked at once, in its first record.
    """
    entries: defaultdict[tuple[str, ...], list[_Entry]] = defaultdict(list)
    for entry in _read(records):
        entries[entry.sentence.skeleton].append(entry)
    found = [
        Conflict("disagreement", sides, tuple(sorted(difference.differs)))
        for group in entries.values()
        for difference, one, other in _disagreeing(group)
        for sides in [_sides(records, difference, one, other)]
    ]
    return sorted(found, key=lambda conflict: conflict.order)


# --- vocabulary ---------------------------------------------------------------------------------


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# Never part of a skeleton: with and without them a sentence says the same, or negates the same.
_AUXILIARIES = _words(
    "am is are was were be been do does did have has had will would shall should can could may might must cannot",
    "isn't aren't wasn't weren't don't doesn't didn't haven't hasn't hadn't won't wouldn't shan't shouldn't can't",
    "couldn't mustn't",
)
_DROPPED = _AUXILIARIES | _words(
    "a an the being doing done having any some all ever always yet still already",
    "also now just only currently usually normally generally typically often about around approximately approx",
    "roughly nearly almost exactly precisely probably certainly however therefore thus indeed moreover",
)
# Part of a skeleton, and in every text: they don't make two sentences alike.
_FUNCTION = _words(
    "above across after against along although among and as at because before behind below beneath beside besides",
    "between beyond both but by despite down during each either else ever every few for from he her here hers him",
    "his how i if in inside into it its itself least less like many me mine more most much my near neither next of",
    "off on once one onto or other our ours out outside over own per person place quite rather same she since so",
    "such than that their theirs them then there these they thing this those though through till to too toward",
    "towards under until up upon us very we what when where whereas whether which while who whom whose why with",
    "within yes you your yours number",
)
_PRONOUNS = _words("he her his i it its my our she that their these they this those we you your")
_CLAUSE_WORDS = _words("and but or while whereas although though because if since when so")
_CLAUSE_SIGNS = frozenset(",;:()—")
_CONNECTORS = _words("and or to through & – - ,")

# After these a single capital is no initial.
_BEGINNINGS = _words("a an the if in on at no not for with from when it he she they we i you this that these those")

# What a word says of a skeleton once its negation is taken out of it; "" is nothing.
_NEGATED = {
    **dict.fromkeys(_words("not never none cannot"), ""),
    "nobody": "person",
    "nothing": "thing",
    "nowhere": "place",
    "without": "with",
    "unless": "if",
    "neither": "either",
    "nor": "or",
    "needn't": "need",
    **{
        word: word[2:]
        for word in _words(
            "unable unaffected unavailable unbalanced uncertain unchanged unclear undamaged unfit unlikely unlocked",
            "unnecessary unpaid unreliable unsafe unsound unsuitable unused unusual impossible improbable inaccurate",
            "inactive incomplete incorrect insufficient invalid irregular illegal",
        )
    },
}
_INDEFINITE = {
    **dict.fromkeys(_words("anybody anyone somebody someone everybody everyone"), "person"),
    **dict.fromkeys(_words("anything something everything"), "thing"),
    **dict.fromkeys(_words("anywhere somewhere everywhere"), "place"),
}
# Past forms that no ending betrays: "did not come", "came".
_BASES = {
    past: base
    for pair in (
        "began begin;bought buy;broke break;brought bring;built build;came come;caught catch;chose choose;drew draw",
        "drove drive;fell fall;felt feel;found find;gave give;goes go;grew grow;held hold;kept keep;knew know",
        "led lead;lost lose;made make;meant mean;met meet;paid pay;ran run;rang ring;rose rise;said say;sang sing",
        "sent send;showed show;sold sell;spent spend;stood stand;stuck stick;swept sweep;taught teach;thought think",
        "told tell;took take;understood understand;used use;went go;won win;wore wear;wrote write",
    )
    for past, base in (words.split() for words in pair.split(";"))
}

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_CARDINALS = {
    **{word: n for n, word in enumerate((_ONES + " seventeen eighteen nineteen").split())},
    **{
        word: 10 * n
        for n, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
    },
}
_MULTIPLIERS = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_ORDINALS = {
    word: n
    for n, word in enumerate(
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"], 1
    )
}
_MONTHS = {
    name: n
    for n, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ],
        1,
    )
    for name in names.split()
}
_WEEKDAYS = {
    name: n
    for n, day in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"], 1)
    for name in (day, day + "s")
}
# Before a month or a year that stands alone.
_DATE_LEADS = _words(
    "in since of until till from by before after during between every last next early late mid around circa year",
    "spring summer autumn fall winter",
)
_YEAR_LEADS = _words("the this that my our his her their its")
# A number after one of these is part of a name.
_NAMED = _words(
    "appendix article bar batch bus bay chapter channel clause exhibit figure fig flight floor gate grade group",
    "input item level line lot model no number nos output page paragraph part phase platform point port question",
    "room route rule scene section serial slot song stage step table track type unit verse version volume",
)


# --- units --------------------------------------------------------------------------------------


class Unit(NamedTuple):
    """What numbers are measured in: ``(number + offset) × factor`` of the dimension's base."""

    dimension: str
    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


_UNSCALED = Unit("")[1:]
_SYMBOL_PREFIXES = {"p": -12, "n": -9, "μ": -6, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12}
_WORD_PREFIXES = {"pico": -12, "nano": -9, "micro": -6, "milli": -3, "centi": -2, "kilo": 3, "mega": 6, "giga": 9}
# Dimension: symbols; words (their plurals in -s go without saying). Prefixes apply to all of these.
_PREFIXED = {
    "frequency": ("Hz", "hertz"),
    "voltage": ("V", "volt"),
    "current": ("A", "ampere amp"),
    "power": ("W", "watt"),
    "energy": ("J", "joule"),
    "capacitance": ("F", "farad"),
    "inductance": ("", "henry"),
    "resistance": ("Ω Ohm", "ohm"),
    "pressure": ("Pa", "pascal"),
    "force": ("N", "newton"),
    "flux": ("Wb", "weber"),
    "length": ("m", "metre meter"),
    "mass": ("g", "gram gramme"),
    "volume": ("l L", "litre liter"),
    "time": ("s sec", "second"),
    "data": ("", "byte"),
    "bits": ("bit", "bit"),
    "light": ("lm", "lumen"),
}
# Dimension: names by exact factor, in the base of the prefixed ones; names in symbols' own letter case.
_FACTORS: dict[str, dict[str, str]] = {
    "time": {"60": "min minute", "3600": "h hr hrs hour", "86400": "day", "604800": "week"},
    "months": {"1": "month", "12": "year"},
    "length": {
        "1/100": "cm",
        "1/10": "dm",
        "254/10000": "inch inches",
        "3048/10000": "ft foot feet",
        "9144/10000": "yard yd",
        "1609344/1000": "mile mi",
    },
    "area": {"1": "m2", "1/10000": "cm2", "1/1000000": "mm2", "1000000": "km2", "10000": "ha hectare"},
    "volume": {"1000": "m3", "1/10": "dl", "1/100": "cl", "1/1000": "cm3"},
    "mass": {"1000000": "t tonne", "45359237/100000": "lb lbs pound-mass", "45359237/1600000": "oz ounce"},
    "energy": {"3600": "Wh", "3600000": "kWh", "3600000000": "MWh"},
    "pressure": {"100000": "bar", "100": "mbar hPa"},
    "length/time": {"5/18": "kmh kph", "1609344/3600000": "mph"},
    "data": {
        "1000": "kB KB",
        "1000000": "MB",
        "1000000000": "GB",
        "1000000000000": "TB",
        "1024": "KiB",
        "1048576": "MiB",
        "1073741824": "GiB",
    },
    "share": {"1": "% percent", "1/10": "‰"},
    "rotation": {"1": "rpm"},
    "tempo": {"1": "bpm BPM"},
    "angle": {"1": "° degree"},
    "pitch": {"1": "cent", "100": "semitone"},
    "gbp": {"1": "£ GBP pound"},
    "usd": {"1": "$ USD dollar"},
    "eur": {"1": "€ EUR euro"},
    "jpy": {"1": "¥ JPY yen"},
    "inr": {"1": "₹ INR rupee"},
    **{name: {"1": name} for name in ("dB", "dBu", "dBV", "dBm", "dBFS", "dBTP", "LUFS", "LU", "dBSPL")},
    **{f"dB({letter})": {"1": f"dB({letter}) dB{letter}"} for letter in "AC"},
}
_CELSIUS, _FAHRENHEIT = Fraction("273.15"), Fraction("459.67")
_CURRENCIES = frozenset("£$€¥₹")
_CLOCK, _HOUR = Unit("time of day"), 3600


def _unit_tables() -> tuple[dict[str, Unit], dict[str, Unit]]:
    """Units by symbol (letter case counts) and by word (in lower case)."""
    symbols = {
        **{sign: Unit("temperature", offset=_CELSIUS) for sign in ("°C", "℃")},
        **{sign: Unit("temperature", Fraction(5, 9), _FAHRENHEIT) for sign in ("°F", "℉")},
        "°K": Unit("temperature"),
        "K": Unit("temperature"),
    }
    words = {
        **dict.fromkeys(("celsius", "centigrade"), symbols["°C"]),
        "fahrenheit": symbols["°F"],
        "kelvin": symbols["K"],
        "kilohm": Unit("resistance", Fraction(1000)),
        "kilohms": Unit("resistance", Fraction(1000)),
        "decibel": Unit("dB"),
        "decibels": Unit("dB"),
    }
    for dimension, (short, long) in _PREFIXED.items():
        # Grams and litres are no SI bases, but every factor of a dimension is by the same one.
        for symbol in short.split():
            symbols[symbol] = Unit(dimension)
            symbols |= {p + symbol: Unit(dimension, Fraction(10) ** n) for p, n in _SYMBOL_PREFIXES.items()}
        for word in long.split():
            for prefix, n in {"": 0, **_WORD_PREFIXES}.items():
                words |= dict.fromkeys((prefix + word, prefix + word + "s"), Unit(dimension, Fraction(10) ** n))
    for dimension, factors in _FACTORS.items():
        for factor, names in factors.items():
            symbols |= dict.fromkeys(names.split(), Unit(dimension, Fraction(factor)))
            words |= {
                form: Unit(dimension, Fraction(factor))
                for name in names.split()
                if name.isalpha() and name.islower() and len(name) > _SHORT
                for form in (name, name + "s")
            }
    return symbols, words


_SHORT = 2
_SYMBOLS, _UNIT_WORDS = _unit_tables()


# --- sentences ----------------------------------------------------------------------------------

_BREAK = re.compile(
    r"""
    (?P<stop>[.!?…]++)["'”’»)\]]*+(?=\s|\Z)           # the end of a sentence, perhaps
    | [。！？]++[」』”’]*+
    | \n[ \t\r]*+\n\s*+                               # a blank line
    | \n(?=[ \t]*+(?:[#|>]|[-*+•–]\s|\d{1,3}[.)]\s))    # a line that begins a heading, a row, an item
    | ^[ \t]*+[#|][^\n]*+                              # a heading, a row: the line is all of it
    """,
    re.VERBOSE | re.MULTILINE,
)
_NEXT = re.compile(r"\s*+(\S?)(\w*+)")
_LAST_WORD = re.compile(r"(?:\A|\s|[(\[\"'“‘])([\w.]+)\Z")
_LOOK_BACK = 16
_ABBREVIATIONS = _words(
    "dr mr mrs ms prof st jr sr e.g eg i.e ie cf vs approx ca dept est ltd al resp incl viz z.b d.h u.a bzw ca",
)
# Abbreviations before a number, words elsewhere.
_BEFORE_NUMBERS = _words("no nos p pp fig figs vol ch sec art eq ref jan feb mar apr jun jul aug sep sept oct nov dec")


def split_sentences(text: str) -> list[Span]:
    """Where the sentences of a text stand, without the white space around them, in time linear in the text.

    A full stop ends none after an abbreviation, an initial or an ordinal before a month, inside a number, or
    before a small letter. Headings, table rows and list items end where they end; a new line alone ends none.

    >>> text = "Dr. Groß measured 0.5 kHz on 3. May, e.g. twice. It hums!"
    >>> [text[start:end] for start, end in split_sentences(text)]
    ['Dr. Groß measured 0.5 kHz on 3. May, e.g. twice.', 'It hums!']
    """
    spans: list[Span] = []
    start = 0
    for match in _BREAK.finditer(text):
        if match["stop"] is None or _ends_sentence(text, match):
            _add_trimmed(spans, text, start, match.end())
            start = match.end()
    _add_trimmed(spans, text, start, len(text))
    return spans


def _add_trimmed(spans: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        start += len(piece) - len(piece.lstrip())
        spans.append((start, start + len(stripped)))


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    """Whether a stop is the end of a sentence, by what stands before and after it."""
    following = _NEXT.match(text, match.end())
    first, rest = following.groups() if following else ("", "")
    if first.islower():
        return False
    if match["stop"] != ".":
        return True
    before = _LAST_WORD.search(text[max(0, match.start() - _LOOK_BACK) : match.start()])
    if before is None:
        return True
    word, following_word = before[1], (first + rest).casefold()
    at = match.start() - len(word)
    if word.casefold() in _ABBREVIATIONS or (word.casefold() in _BEFORE_NUMBERS and first.isdigit()):
        return False
    if word.isdecimal():
        ordinal = len(word) <= len("31") and following_word in _MONTHS
        return at > 0 and text[at - 1] != "\n" and not ordinal
    # "J. S. Bach", but not "9 V. The ..." and "Room A. Twenty ...".
    initial = len(word) == 1 and word.isupper() and not text[max(0, at - 2) : at].strip().isdigit()
    return not initial or following_word in _BEGINNINGS


# --- what a sentence says -----------------------------------------------------------------------

_Amount = Fraction | str
_Reading = tuple[int | None, int | None, int | None, int | None]
_Dated = tuple[tuple[_Reading, ...], int]  # a date's readings, and the token after it


@dataclass(frozen=True, slots=True)
class Value:
    """A number or a date in a sentence.

    Attributes:
        kind: ``number`` or ``date``.
        span: where it stands, from the sentence's beginning.
        amount: a number exactly; as a string where it is too long for that, a ratio or an ordinal.
        unit: what the number is measured in, if anything known.
        unit_span: where the unit stands.
        names: whether it is part of a name (channel 18, the second) and measures nothing.
        readings: a date's possible (year, month, day, weekday), ``None`` for what it does not say.
    """

    kind: str
    span: Span
    amount: Fraction | str = ""
    unit: Unit | None = None
    unit_span: Span | None = None
    names: bool = False
    readings: tuple[_Reading, ...] = ()

    @property
    def key(self) -> Hashable:
        """Equal for what is exactly the same."""
        if self.kind == "date":
            return self.kind, self.readings
        if self.unit is None or not isinstance(self.amount, Fraction):
            return self.kind, self.amount, self.unit
        base = self.amount if self.unit[1:] == _UNSCALED else (self.amount + self.unit.offset) * self.unit.factor
        return self.kind, base, self.unit.dimension


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a sentence says.

    Attributes:
        skeleton: stems in order, ``#`` for a number, ``@`` for a date.
        values: the numbers and dates, in the skeleton's order.
        negations: clause (from 0) and place of each.
        clauses: how many clauses, by commas and conjunctions.
        content: how many words of the skeleton are no function words.
        weighs: whether one of these counts in looking for suspects; without one it is like no other.
        enough: how much it must have in common with another to be like it.
    """

    skeleton: tuple[str, ...]
    values: tuple[Value, ...]
    negations: tuple[tuple[int, Span], ...]
    clauses: int
    content: int
    weighs: bool
    enough: int

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Its values and whether each clause negates: equal for sentences that say the same of the same."""
        return *(value.key for value in self.values), self.polarity

    @property
    def polarity(self) -> frozenset[int]:
        """The clauses that negate: twice is not at all."""
        clauses: set[int] = set()
        for clause, _ in self.negations:
            clauses ^= {clause}
        return frozenset(clauses)


class _Word(NamedTuple):
    """What a word or a sign is, whatever stands around it.

    Attributes:
        norm: its plain form.
        lemma: what a skeleton has of it, perhaps nothing.
        content: whether that is no function word.
        negates: whether it negates, or may.
        plain: whether it is nothing but its lemma, and no part of a number or a date.
        weighs: whether it is a content word and counts in looking for suspects (`_WEIGHTLESS`).
    """

    norm: str
    lemma: str = ""
    content: bool = False
    negates: bool = False
    plain: bool = False
    weighs: bool = False


_NUMBER = r"""
    (?:(?<![\w)\]])[-+\u2212–])?+
    (?:\d{1,3}+(?:[,'’\u00a0\u2009\u202f]\d{3})++(?!\d)(?:\.\d++)?+ | \d++(?:[.,]\d++)?+ | (?<![\w.])\.\d++)
    (?:[eE][-+]?+\d{1,2}+(?!\w))?+
"""
_TOKEN = re.compile(
    rf"""
    (?P<word>
        (?!https?://|www\.|v\d|dB\([A-Z]\))  # these are below
        (?: [aApP]\.\s?[mM]\b\.?
        | [A-Za-z](?:\w|[\u00ad\u0300-\u036f])*+(?:['’]\w++)*+(?:-\d\w*+)*+  # HT-2207 as well
        | [^\W\d_](?:[^\W\d_]|[\u00ad\u0300-\u036f])*+(?:['’]\w++)*+ )  # scripts without spaces: up to a digit
      )
    | (?P<date>\d{{4}}-\d\d?-\d\d?(?![\w-]) | \d\d?[./]\d\d?[./]\d{{4}}(?!\w) | \d{{4}}/\d\d?/\d\d?(?!\w))
    | (?P<name>(?:https?://|www\.|(?<!\w)/)[^\s<>"']++ | (?<![\w.])v?+\d++(?:\.\d++){{2,}}+ | v\d\w*+(?:\.\d++)*+)
    | (?P<time>\d\d?:[0-5]\d(?::[0-5]\d)?+(?![\d:]))
    | (?P<ratio>\d{{1,9}}+[:/]\d{{1,9}}+(?![\d:/]))
    | (?P<number>{_NUMBER})
    | (?P<unit>dB\([A-Z]\) | °\s?[CFK](?!\w) | [℃℉%‰°\u2126\u03a9$£€¥₹])
    | (?P<sign>[-,;:()—–/&])
    """,
    re.VERBOSE,
)


def read_sentence(text: str, known: dict[str, _Word] | None = None) -> Sentence:
    """Read one sentence.

    >>> read_sentence("The ribbon does not need 48 V.").skeleton
    ('ribbon', 'need', '#')

    Args:
        text: a sentence, as `split_sentences` finds it.
        known: words that were read before; new ones are added.
    """
    return _Reader(text, {} if known is None else known).sentence()


_LOOK_AROUND = 4
_CLOSING = "\"'”’»)] "
_EXACT_DIGITS = 40
_DAYS, _MONTHS_A_YEAR, _YEAR_DIGITS = 31, 12, 4
_SUFFIXES = frozenset({"st", "nd", "rd", "th"})
_YEARS, _LATE_YEARS = range(1500, 2100), range(1900, 2100)


class _Reader:
    """Reads the tokens of a sentence from left to right; methods named for a thing look for it at ``i``."""

    def __init__(self, text: str, known: dict[str, _Word]) -> None:
        tokens = list(_TOKEN.finditer(text))
        self.kinds = [str(token.lastgroup) for token in tokens]
        self.texts = [token[0] for token in tokens]
        self.starts = [token.start() for token in tokens]
        self.ends = [token.end() for token in tokens]
        for kind, raw in zip(self.kinds, self.texts, strict=True):
            if raw not in known:
                known[raw] = _WORD_READERS.get(kind, _Word)(raw)
        self.words = [known[raw] for raw in self.texts]
        self.ended = text.rstrip(_CLOSING).endswith((".", "!", "?", "…", "。"))
        # Past both ends (index -1 as well) stands nothing, so that looking around needs no bounds.
        self.length = len(self.kinds)
        self.norms = [word.norm for word in self.words] + [""] * _LOOK_AROUND
        self.kinds += [""] * _LOOK_AROUND
        self.skeleton: list[str] = []
        self.values: list[Value] = []
        self.negations: list[tuple[int, Span]] = []
        self.clause = self.content = 0
        self.naming = False  # the last value was part of a name, and only connectors have followed

    def sentence(self) -> Sentence:
        i = 0
        while i < self.length:
            word = self.words[i]
            if word.plain:
                self._add(word.lemma, word.content)
                self.naming = False
                i += 1
            else:
                i = (self.kinds[i] != "sign" and self._value(i)) or self._word_or_sign(i)
        return Sentence(
            tuple(self.skeleton),
            tuple(self.values),
            tuple(self.negations),
            self.clause + 1,
            self.content,
            any(word.weighs for word in self.words),
            self._enough(),
        )

    def _enough(self) -> int:
        if "word" in self.kinds and self.norms[self.kinds.index("word")] in _PRONOUNS:
            return MIN_COMMON_BOUND
        return MIN_COMMON_STATED if self.ended or not _AUXILIARIES.isdisjoint(self.norms) else MIN_COMMON

    # --- words ----------------------------------------------------------------------------------

    def _add(self, lemma: str, content: bool) -> None:
        if lemma:
            self.skeleton.append(lemma)
            self.content += content

    def _word_or_sign(self, i: int) -> int:
        word, after = self.words[i], i + 1
        self.naming = self.naming and word.norm in _CONNECTORS
        if word.norm in _CLAUSE_SIGNS or word.norm in _CLAUSE_WORDS:
            self.clause += 1
        lemma, negates = word.lemma, word.negates
        if word.norm == "no":
            lemma, negates, after = self._no(i)
        elif word.norm == "not" and self.norms[i + 1] == "only":
            negates = False
        if negates:
            self.negations.append((self.clause, (self.starts[i], self.ends[i])))
        self._add(lemma, word.content)
        return after

    def _no(self, i: int) -> tuple[str, bool, int]:
        """``no one``, ``no longer``, ``no. 5``, or plain no: what it leaves, whether it negates, what follows."""
        following = self.norms[i + 1]
        if following == "one":
            return "person", True, i + 2
        if following == "longer":
            return "", True, i + 2
        if self.kinds[i + 1] == "number":
            return "number", False, i + 1
        return "", True, i + 1

    def _adjacent(self, i: int) -> bool:
        """Whether a token begins where the one before ends."""
        return 0 < i < self.length and self.starts[i] == self.ends[i - 1]

    # --- values ---------------------------------------------------------------------------------

    def _value(self, i: int) -> int | None:
        """Take a date or a number; where the next token is, or None."""
        found = self._date(i) or self._quantity(i)
        if found is None:
            return None
        value, after = found
        self.values.append(value)
        self.skeleton.append("@" if value.kind == "date" else "#")
        self.naming = value.names
        return after

    def _date(self, i: int) -> tuple[Value, int] | None:
        found = self._written_date(i) or self._day_first(i) or self._shared_month(i) or self._month_first(i)
        found = found or self._weekday(i) or self._year_alone(i)
        if found is None:
            return None
        readings, after = found
        return Value("date", (self.starts[i], self.ends[after - 1]), readings=readings), after

    def _written_date(self, i: int) -> _Dated | None:
        """``2024-05-03``, ``3.5.2024``, and ``3/5/2024`` in both of its readings."""
        if self.kinds[i] != "date":
            return None
        text = self.texts[i]
        one, two, three = (int(part) for part in re.split(r"[-./]", text))
        year_first = text[_YEAR_DIGITS : _YEAR_DIGITS + 1] in {"-", "/"}
        days = [(one, two, three)] if year_first else [(three, two, one)]
        if "/" in text and not year_first and one != two:
            days.append((three, one, two))
        possible = [day for day in days if 1 <= day[1] <= _MONTHS_A_YEAR and 1 <= day[2] <= _DAYS]
        return tuple((*day, None) for day in sorted(possible or days)), i + 1

    def _day_first(self, i: int) -> _Dated | None:
        """``3 May``, ``3rd of May 2024``, ``3. May, 2024``."""
        day, after = self._day(i)
        after += self.norms[after] == "of"
        month = self._month(after)
        if day is None or month is None:
            return None
        year, after = self._year(after + 1)
        return ((year, month, day, None),), after

    def _shared_month(self, i: int) -> _Dated | None:
        """The 6 of ``6 and 9 March 2023``."""
        day, after = self._day(i)
        later = self._day_first(after + 1) if day is not None and self.norms[after] in _CONNECTORS else None
        if later is None:
            return None
        ((year, month, _, _),) = later[0]
        return ((year, month, day, None),), after

    def _month_first(self, i: int) -> _Dated | None:
        """``May 3, 2024``, ``May 2024``, and a month alone where it can't be another word."""
        month = self._month(i)
        if month is None:
            return None
        day, after = self._day(i + 1)
        year, end = self._year(after if day is not None else i + 1)
        if day is not None and (year is not None or not self._unit(after)[0]):
            return ((year, month, day, None),), end
        spelled = len(self.texts[i]) > len("sept")
        alone = spelled and self.norms[i] not in {"march", "august"}
        if year is not None or alone or self.norms[i - 1] in _DATE_LEADS:
            return ((year, month, None, None),), end if day is None else i + 1
        return None

    def _weekday(self, i: int) -> _Dated | None:
        day = _WEEKDAYS.get(self.norms[i])
        return (((None, None, None, day),), i + 1) if day else None

    def _year_alone(self, i: int) -> _Dated | None:
        """``in 2019``, ``the 2021 treatment``, ``between 1978 and 1991``."""
        year, after = self._year(i)
        lead = self.norms[i - 1]
        another = lead in _CONNECTORS and bool(self.skeleton) and self.skeleton[-1] in {"@", "and", "or", "to"}
        another = another and bool(self.values) and self.values[-1].kind == "date"
        if year is None or after != i + 1 or self._unit(after)[0]:
            return None
        ranged = self.norms[after] in {"-", "–"} and self._year(after + 1)[0] is not None
        if ranged or lead in _DATE_LEADS or another or (lead in _YEAR_LEADS and year in _LATE_YEARS):
            return ((year, None, None, None),), after
        return None

    def _day(self, i: int) -> tuple[int | None, int]:
        """A day of a month (``3``, ``3rd``), and what follows."""
        text = self.texts[i] if self.kinds[i] == "number" else ""
        if not (text.isdecimal() and len(text) <= len("31") and 1 <= int(text) <= _DAYS):
            return None, i
        return int(text), i + 1 + (self._adjacent(i + 1) and self.norms[i + 1] in _SUFFIXES)

    def _month(self, i: int) -> int | None:
        """A month, written with a capital."""
        return _MONTHS.get(self.norms[i]) if self.kinds[i] == "word" and self.texts[i][0].isupper() else None

    def _year(self, i: int) -> tuple[int | None, int]:
        """A year, perhaps after a comma, and what follows; what followed the day or the month if there is none."""
        at = i + (self.norms[i] == ",")
        text = self.texts[at] if self.kinds[at] == "number" else ""
        if text.isdecimal() and len(text) == _YEAR_DIGITS and int(text) in _YEARS:
            return int(text), at + 1
        return None, i

    def _quantity(self, i: int) -> tuple[Value, int] | None:
        money = self.kinds[i] == "unit" and self.texts[i] in _CURRENCIES
        at = i + money
        amount, after = self._amount(at)
        if amount is None:
            return None
        end = self.ends[after - 1]
        amount, after = self._multiplied(amount, after, money=money)
        span = self.starts[at], end
        found: tuple[Unit | None, int] = (_SYMBOLS[self.texts[i]], at) if money else self._unit_or_clock(at, after)
        unit, stop = found
        if unit is None:
            names = (isinstance(amount, str) and amount.endswith(_ORDINAL)) or self._is_name(at)
            return Value("number", span, amount, names=names), after
        if unit is _CLOCK:
            amount, span = self._time_of_day(at, amount, after), (span[0], self.ends[stop - 1])
            return Value("number", span, amount, unit), stop
        unit_span = self.starts[i if money else after], self.ends[stop - 1]
        return Value("number", span, amount, unit, unit_span), max(after, stop)

    def _amount(self, i: int) -> tuple[_Amount | None, int]:
        kind = self.kinds[i]
        if kind == "number":
            text = self.texts[i]
            if self._adjacent(i + 1) and self.norms[i + 1] in _SUFFIXES:
                return text + _ORDINAL, i + 2
            return _exact(text), i + 1
        if kind in {"ratio", "time"}:
            return _composed(self.texts[i]), i + 1
        norm = self.norms[i]
        if norm in _ORDINALS:
            return f"{_ORDINALS[norm]}{_ORDINAL}", i + 1
        if norm == "half":
            return Fraction(1, 2), i + 1
        return self._number_words(i) if norm in _NUMBER_WORDS else (None, i)

    def _number_words(self, i: int) -> tuple[Fraction, int]:
        """``twenty-two``, ``three thousand one hundred and ten``."""
        total = current = 0
        while True:
            norm = self.norms[i]
            times = _MULTIPLIERS.get(norm, 0)
            if times > _HUNDRED:
                total, current, room = total + max(current, 1) * times, 0, times
            elif times:
                current, room = max(current, 1) * times, times if times == _HUNDRED else 0
            else:
                current += _CARDINALS[norm]
                room = 10 if _CARDINALS[norm] in _TENS else 0
            i += 1
            if self.norms[i] in _MULTIPLIERS:
                continue
            joined = i + (self.norms[i] == "-" or (self.norms[i] == "and" and room >= _HUNDRED))
            # A smaller number completes tens, hundreds and thousands; any other is a number of its own.
            if not 0 < _CARDINALS.get(self.norms[joined], 0) < room:
                return Fraction(total + current), i
            i = joined

    def _multiplied(self, amount: _Amount, after: int, *, money: bool) -> tuple[_Amount, int]:
        """``3 million``, ``£30k``."""
        if not isinstance(amount, Fraction) or self.kinds[after] != "word":
            return amount, after
        if self.norms[after] in _MULTIPLIERS:
            return amount * _MULTIPLIERS[self.norms[after]], after + 1
        short = {"k": 1000, "m": 10**6, "bn": 10**9} if money else {"k": 1000}
        if self._adjacent(after) and self.norms[after] in short and self.texts[after] != "K":
            return amount * short[self.norms[after]], after + 1
        return amount, after

    def _unit_or_clock(self, i: int, after: int) -> tuple[Unit | None, int]:
        """What a number is measured in; a time of day is so by itself (``22:40``, ``7 pm``)."""
        half = self.norms[after] in {"am", "pm"}
        if self.kinds[i] == "time":
            return _CLOCK, after + half
        return (_CLOCK, after + 1) if half and self.kinds[i] == "number" else self._unit(after)

    def _time_of_day(self, i: int, amount: _Amount, after: int) -> _Amount:
        """Seconds since midnight."""
        if not isinstance(amount, Fraction):
            return amount
        seconds = amount if self.kinds[i] == "time" else amount * _HOUR
        if self.norms[after] in {"am", "pm"}:
            seconds = seconds % (12 * _HOUR) + 12 * _HOUR * (self.norms[after] == "pm")
        return seconds

    def _unit(self, i: int) -> tuple[Unit | None, int]:
        """A unit and what follows: ``dB``, ``-hour``, ``nWb/m``, ``cm per second``, ``per cent``."""
        at = i + (self.norms[i] == "-" and self._adjacent(i) and self._adjacent(i + 1))
        if self.norms[at] == "per" and self.norms[at + 1] == "cent":
            return _SYMBOLS["%"], at + 2
        unit = self._plain_unit(at)
        if unit is None:
            return None, i
        below = self._plain_unit(at + 2) if self.norms[at + 1] in {"/", "per"} else None
        if below is None:
            return unit, at + 1
        return Unit(f"{unit.dimension}/{below.dimension}", unit.factor / below.factor), at + 3

    def _plain_unit(self, i: int) -> Unit | None:
        if self.kinds[i] not in {"unit", "word"}:
            return None
        symbol = unicodedata.normalize("NFKC", self.texts[i]).replace(" ", "")
        return _SYMBOLS.get(symbol) or _UNIT_WORDS.get(self.norms[i])

    def _is_name(self, i: int) -> bool:
        """Whether a number without a unit is part of a name: ``channel 18``, ``Calder 32``, ``HT-2207``."""
        if self.naming:
            return True
        if self.norms[i - 1] == "-":
            return self._adjacent(i) and self._adjacent(i - 1) and self.kinds[i - 2] == "word"
        if self.kinds[i - 1] != "word" or (self.norms[i + 1] == "-" and self._adjacent(i + 1)):
            return False
        lead = self.words[i - 1]
        if lead.norm in _NAMED or lead.norm.removesuffix("s") in _NAMED:
            return True
        # A capital inside a sentence: a proper name, unless it owns what is counted.
        raw = self.texts[i - 1]
        capital = i > 1 and raw[0].isupper() and not raw.endswith(("'s", "’s", "'", "’"))
        return capital and lead.content and self.texts[i].isdecimal()


_HUNDRED, _TENS = 100, range(20, 100, 10)
_ORDINAL = "."
_NUMBER_WORDS = frozenset({*_CARDINALS, *_MULTIPLIERS, *_ORDINALS, "half"})
_SPECIAL = frozenset({*_NUMBER_WORDS, *_MONTHS, *_WEEKDAYS, *_CLAUSE_WORDS, *_CONNECTORS, "no"})
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:[,'’\u00a0\u2009\u202f]\d{3})+(?![\d,])")
_SEPARATORS = str.maketrans("", "", ",'’\u00a0\u2009\u202f")


def _exact(text: str) -> _Amount:
    """A number's value; what is too long for that as it is written."""
    plain = text.replace("\u2212", "-").replace("–", "-")
    plain = plain.translate(_SEPARATORS) if _GROUPED.match(plain) else plain.replace(",", ".")
    if len(plain) > _EXACT_DIGITS:
        return plain
    return Fraction(int(plain)) if plain.isdecimal() else Fraction(plain)


def _composed(text: str) -> _Amount:
    """``22:40`` in seconds, ``1/2`` as what it is, ``3:1`` as it is written."""
    parts = [int(part) for part in re.split("[:/]", text)]
    if "/" in text:
        return Fraction(parts[0], parts[1]) if parts[1] else text
    if not _TIME.fullmatch(text):
        return ":".join(map(str, parts))
    return Fraction(sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False)))


_TIME = re.compile(r"\d\d?:[0-5]\d(?::[0-5]\d)?")
_CLITICS = ("'s", "'ll", "'re", "'ve", "'d", "'m", "'")


def _read_word(raw: str) -> _Word:
    norm = raw if raw.isascii() else unicodedata.normalize("NFKC", raw).replace("’", "'").replace("\u00ad", "")
    norm = norm.casefold()
    if "." in norm:  # a.m., p.m.
        norm = "".join(filter(str.isalpha, norm))
    if norm in _NEGATED:
        base = _NEGATED[norm]
        return _Word(norm, _stem(base), bool(base) and base not in _FUNCTION, negates=True)
    if norm.endswith("n't"):
        return _Word(norm, negates=True)
    if "'" in norm:
        for clitic in _CLITICS:
            norm = norm.removesuffix(clitic)
    plain = norm not in _SPECIAL
    if norm in _DROPPED:
        return _Word(norm, plain=plain)
    base = _INDEFINITE.get(norm) or _BASES.get(norm, norm)
    content = base not in _FUNCTION and len(base) > 1
    weighs = content and len(base) >= _PREFIX_BYTES and norm not in _WEIGHTLESS
    return _Word(norm, _stem(base), content, norm == "no", plain, weighs)


def _read_name(raw: str) -> _Word:
    """An address, a path, a version: it names something else if anything in it differs."""
    return _Word(raw, raw.casefold(), content=True, plain=True)  # it may be all digits, so it does not weigh


def _read_sign(raw: str) -> _Word:
    return _Word(raw, "and" if raw == "&" else "")


_WORD_READERS: dict[str, Callable[[str], _Word]] = {"word": _read_word, "name": _read_name, "sign": _read_sign}


def _stem(word: str) -> str:
    """Without the endings of number and person, and of the regular past: ``needs``, ``need``; ``stopped``, ``stop``."""
    if len(word) <= 3 or not word.isascii():  # noqa: PLR2004 -- shorter words have no endings
        return word
    if word.endswith(("ies", "ied")) and len(word) > len("ties"):
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word.endswith("ed") and len(word) > len("need"):
        word = word[:-2]
    word = word.removesuffix("e") if len(word) > 3 else word  # noqa: PLR2004
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word  # noqa: PLR2004


# --- comparing ----------------------------------------------------------------------------------


class _Difference(NamedTuple):
    """In what two alike sentences differ, and where in each of them."""

    differs: frozenset[str]
    one: tuple[Span, ...]
    other: tuple[Span, ...]


def compare(one: Sentence, other: Sentence) -> _Difference | None:
    """In what two sentences disagree; ``None`` where they are not alike or say the same.

    Alike are sentences of equal skeletons where one value differs, or at most half of the values do, the
    negation counting as one; of sentences that differ in more, each speaks of something else. They have at
    least `MIN_COMMON` content words, equal values and equal parts of differing values (number, unit; year,
    month) in common; `MIN_COMMON_STATED` in a statement, `MIN_COMMON_BOUND` where they begin with a pronoun,
    `MIN_COMMON_NAMED` where all that differs is a number in a name. Where a name's number and something else
    differs they speak of different things.
    """
    if one.skeleton != other.skeleton:
        return None
    pairs = [(a, b, _differ(a, b)) for a, b in zip(one.values, other.values, strict=True)]
    differing = [(a, b, kinds) for a, b, kinds in pairs if kinds]
    negated = _negation_differs(one, other)
    count = len(differing) + bool(negated)
    if not count or not one.weighs or (count > 1 and 2 * count > len(pairs)):
        return None
    named = any(a.names or b.names for a, b, _ in differing)
    if named and count > 1:
        return None
    common = one.content + len(pairs) - len(differing) + sum(_in_common(a, b) for a, b, _ in differing)
    if common < (MIN_COMMON_NAMED if named else min(one.enough, other.enough)):
        return None
    spans = [_spans(a, b, kinds) for a, b, kinds in differing] + ([negated] if negated else [])
    differs = frozenset().union(*(kinds for _, _, kinds in differing)) | ({"negation"} if negated else set())
    here, there = (tuple(sorted(span for pair in spans for span in pair[side])) for side in (0, 1))
    return _Difference(differs, here, there)


def _differ(one: Value, other: Value) -> frozenset[str]:
    """Whether two values are not the same: in the date, the number, the unit, or in both of these."""
    if one.kind == "date":
        same = any(_compatible(a, b) for a, b in product(one.readings, other.readings))
        return frozenset() if same else frozenset({"date"})
    if one.key == other.key:
        return frozenset()
    number = frozenset({"number"})
    if one.unit is None or other.unit is None:
        # "at 10", "at 10:00"; beside any other unit a bare number may be in the same one.
        clock = _HOUR if _CLOCK in (one.unit, other.unit) else 1
        bare, measured = (one.amount, other.amount) if one.unit is None else (other.amount, one.amount)
        return frozenset() if isinstance(bare, Fraction) and bare * clock == measured else number
    return (number if one.amount != other.amount else frozenset()) | ({"unit"} if one.unit != other.unit else set())


def _compatible(one: _Reading, other: _Reading) -> bool:
    """Whether two readings can be one day: what one of them does not say is no difference."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def _in_common(one: Value, other: Value) -> int:
    """Parts that two differing values have in common: the number or the unit; year, month, day."""
    if one.kind == "number":
        return one.amount == other.amount or (one.unit is not None and one.unit == other.unit)
    return max(
        sum(a is not None and a == b for a, b in zip(here, there, strict=True))
        for here, there in product(one.readings, other.readings)
    )


def _spans(one: Value, other: Value, kinds: frozenset[str]) -> tuple[list[Span], list[Span]]:
    here, there = ([], []) if kinds == {"unit"} else ([one.span], [other.span])
    if "unit" in kinds:
        here += [one.unit_span] if one.unit_span else []
        there += [other.unit_span] if other.unit_span else []
    return here, there


def _negation_differs(one: Sentence, other: Sentence) -> tuple[list[Span], list[Span]] | None:
    """The negations of the clauses that only one of the two negates.

    Where the two are punctuated differently clauses can't be told apart, and the whole is compared.
    """
    if one.clauses == other.clauses:
        clauses = one.polarity ^ other.polarity
    elif len(one.negations) % 2 != len(other.negations) % 2:
        clauses = frozenset(range(max(one.clauses, other.clauses)))
    else:
        clauses = frozenset()
    if not clauses:
        return None
    here, there = ([span for clause, span in side.negations if clause in clauses] for side in (one, other))
    return here, there


# --- looking them up ----------------------------------------------------------------------------


class _Entry(NamedTuple):
    """A sentence where it stands."""

    source: str
    text: str
    record: int
    start: int
    end: int
    sentence: Sentence


def _read(records: Sequence[CitationRecord]) -> Iterator[_Entry]:
    """Sentences that may be alike; each text of a source once, and each sentence read once wherever it stands."""
    first: dict[tuple[str, str], int] = {}
    for index, record in enumerate(records):
        first.setdefault((record.source_id, record.text), index)
    texts = list(first)
    words: dict[str, _Word] = {}
    sentences: dict[str, Sentence] = {}
    for i, suspects in _suspects(texts):
        source, text = texts[i]
        for start, end in _overlapping(split_sentences(text), suspects):
            said = text[start:end]
            if said not in sentences:
                sentences[said] = read_sentence(said, words)
            yield _Entry(source, text, first[texts[i]], start, end, sentences[said])


def _overlapping(spans: Iterable[Span], others: Sequence[Span]) -> Iterator[Span]:
    """Spans that share a character with one of some others; both in order, none inside another."""
    i = 0
    for start, end in spans:
        while i < len(others) and others[i][1] <= start:
            i += 1
        if i < len(others) and others[i][0] < end:
            yield start, end


def _disagreeing(group: Sequence[_Entry]) -> Iterator[tuple[_Difference, _Entry, _Entry]]:
    """Pairs of a group (sentences with one skeleton) that disagree and stand in two sources."""
    sentences = {id(entry.sentence): entry.sentence for entry in group}
    keys = {identity: sentence.key for identity, sentence in sentences.items()}
    if len({*keys.values()}) == 1 or len({entry.source for entry in group}) == 1:
        return
    variants: defaultdict[Hashable, list[_Entry]] = defaultdict(list)
    # By what they say and not by index: any order of the records gives the same pairs.
    for entry in sorted(group, key=lambda entry: entry[:2] + entry[3:5]):
        variants[keys[id(entry.sentence)]].append(entry)
    for here, there in _candidates(list(variants.values())):
        # A variant's sentences may be spaced and punctuated differently: whether they differ is the same, not where.
        first = here[0].sentence, there[0].sentence
        usual = compare(*first)
        for one, other in _across(here, there) if usual is not None else ():
            same = one.sentence is first[0] and other.sentence is first[1]
            difference = usual if same else compare(one.sentence, other.sentence)
            if difference is not None:
                yield difference, one, other


def _candidates(variants: Sequence[list[_Entry]]) -> Iterator[tuple[list[_Entry], list[_Entry]]]:
    """Pairs of variants to compare: each with each, of very many those that differ in one thing."""
    if len(variants) <= MAX_VARIANTS:
        yield from combinations(variants, 2)
        return
    but_one: defaultdict[tuple[int, int], list[list[_Entry]]] = defaultdict(list)
    for variant in variants:
        parts = [hash((i, part)) for i, part in enumerate(variant[0].sentence.key)]
        for i, part in enumerate(parts):
            but_one[i, sum(parts) - part].append(variant)
    for alike in but_one.values():
        # Still many: a series, of which each is compared with the next.
        yield from combinations(alike, 2) if len(alike) <= MAX_VARIANTS else pairwise(alike)


def _across(here: Sequence[_Entry], there: Sequence[_Entry]) -> Iterator[tuple[_Entry, _Entry]]:
    """Pairs of two variants' sentences from two sources: all of them, of very many each sentence at least once."""
    if len(here) * len(there) <= MAX_PAIRS:
        yield from ((one, other) for one, other in product(here, there) if one.source != other.source)
        return
    pairs = [(one, other) for one in here for other in _one_of_another_source(one, there)]
    pairs += [(one, other) for other in there for one in _one_of_another_source(other, here)]
    yield from {(one.record, one.start, other.record, other.start): (one, other) for one, other in pairs}.values()


def _one_of_another_source(entry: _Entry, others: Sequence[_Entry]) -> Iterable[_Entry]:
    # Sorted by source: if the first has this one's, the last has another, or none has.
    return [other for other in (others[0], others[-1]) if other.source != entry.source][:1]


def _sides(records: Sequence[CitationRecord], difference: _Difference, one: _Entry, other: _Entry) -> tuple[Side, Side]:
    here, there = (
        side_of(
            records,
            entry.record,
            (entry.start, entry.end),
            tuple((entry.start + start, entry.start + end) for start, end in tokens),
        )
        for entry, tokens in ((one, difference.one), (other, difference.other))
    )
    return (here, there) if one.record < other.record else (there, here)


# --- which texts are worth reading --------------------------------------------------------------
#
# Reading is slow and most texts have nothing to do with each other. Sentences can only be alike if sums over
# their words are equal, of what no inflection and no value changes: the first three letters, with y as i, and
# nothing for words that may stand in a number, a date, a unit or a negation. The sums are made of all texts at
# once, over pieces (up to each stop) that are sentences or parts of them, and alike in alike sentences unless
# a stop stands inside a value in only one of the two (``3. May``, ``13 May``).

_LETTERS = bytes(ord("i") if chr(i) in "yY" else ord(chr(i).lower()) if chr(i).isalpha() else 0 for i in range(128))
_LAST_ASCII = 127
_FOLD = _LETTERS + bytes(128)
_IS_STOP = np.isin(np.arange(256), [ord(sign) for sign in ".!?"])
_ENDS_WORD = np.array([i > _LAST_ASCII or chr(i) in "\0\t\n\v\f\r \"')]" for i in range(256)])
_IS_SMALL = np.array([chr(i) in "abcdefghijklmnopqrstuvwxyz" for i in range(256)])
_NEW_LINE = re.compile(
    rb"\n[ \t]*+(?:[#|][^\n]*+|(?=[\n\r>]|[-*+]\s|\xe2\x80[\xa2\x93]\s|\d{1,3}[.)]\s))",
)
_WORD_BYTES, _PREFIX_BYTES = 8, 3
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_WORD_BYTES + 1)], dtype=np.uint64)
_SPREAD, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_TABLE_SHIFTS = (np.uint64(48), np.uint64(40), np.uint64(32))
_TABLE_MASK = np.uint64(0xFFFF)


def _suspects(texts: Sequence[tuple[str, str]]) -> list[tuple[int, list[Span]]]:
    """Which of some (source, text) hold pieces much like one of another source, and not the same; and where."""
    if len({source for source, _ in texts}) <= 1:
        return []
    blob, begins = _joined([text for _, text in texts])
    sums, starts, ends = _pieces(blob, begins)
    owners = np.searchsorted(begins, starts, side="right") - 1
    starts, ends = _reach(starts, ends, owners, np.append(begins, len(blob)))
    _, group, counts = np.unique(sums, return_inverse=True, return_counts=True)
    repeated = np.flatnonzero(counts[group] > 1)
    members: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
    columns = (group[repeated], owners[repeated], starts[repeated], ends[repeated])
    for number, owner, start, end in zip(*(column.tolist() for column in columns), strict=True):
        members[number].append((owner, start, end))
    found: defaultdict[int, list[Span]] = defaultdict(list)
    for alike in members.values():
        sources = {texts[owner][0] for owner, _, _ in alike}
        if len(sources) > 1 and len({blob[start:end] for _, start, end in alike}) > 1:
            for owner, start, end in alike:
                found[owner].append((start, end))
    places = begins.tolist()
    return [(i, _in_characters(texts[i][1], places[i] + 1, sorted(found[i]))) for i in sorted(found)]


def _reach(starts: _Places, ends: _Places, owners: _Places, bounds: _Places) -> tuple[_Places, _Places]:
    """Pieces with the weightless ones on both sides, which may be parts of the same sentences."""
    follows = np.append(False, owners[1:] == owners[:-1])
    before = np.where(follows, np.append(0, ends[:-1]), bounds[owners])
    after = np.where(np.append(follows[1:], False), np.append(starts[1:], 0), bounds[owners + 1])
    return before, after


def _in_characters(text: str, begin: int, spans: list[Span]) -> list[Span]:
    """Spans of the joined bytes as spans of a text that begins there; all of it where it was not joined as it is."""
    if not text.isascii():
        raw = text.encode("utf-8", "surrogatepass")
        if _folded_bytes(text)[1:] != raw:
            return [(0, len(text))]
        before = [0, *np.cumsum((np.frombuffer(raw, np.uint8) & 0xC0) != 0x80).tolist()]  # noqa: PLR2004 -- UTF-8
        return [(before[max(0, start - begin)], before[end - begin]) for start, end in spans]
    return [(max(0, start - begin), end - begin) for start, end in spans]


def _joined(texts: Sequence[str]) -> tuple[bytes, _Places]:
    """All texts, each after a new line, and where each begins."""
    parts = [b"\n" + text.encode() if text.isascii() else _folded_bytes(text) for text in texts]
    begins = np.cumsum([0, *map(len, parts)])[:-1]
    return b"".join(parts), begins


def _folded_bytes(text: str) -> bytes:
    """A text beyond ASCII in composed forms; one of another script in letters that stand for its own."""
    text = text.replace("\u00ad", "")
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > _FOREIGN * len(text):
        raw = text.casefold().translate(_Transliteration()).encode()
    return b"\n" + raw


class _Transliteration(dict[int, str]):
    """Some ASCII letter for every letter, so that other scripts have weight as well."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        # Capitals: before a small letter no sentence begins.
        plain = character.upper() if character.isascii() else chr(ord("A") + code % 26) if character.isalpha() else " "
        self[code] = ". " if character in "。！？" else plain
        return self[code]


_FOREIGN = 1.3
"""Bytes a character of a text that is not in Latin script, at least."""


def _pieces(blob: bytes, begins: _Places) -> tuple[NDArray[np.uint64], _Places, _Places]:
    """Sum, start and end of each piece that weighs anything."""
    padded = blob.translate(_FOLD) + bytes(_WORD_BYTES)
    letters = np.frombuffer(padded, np.uint8) != 0
    # The first byte is a new line, the last is padding: words begin and end inside.
    edges = np.flatnonzero(letters[1:] != letters[:-1]) + 1
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    eight = np.ndarray(len(padded) - _WORD_BYTES + 1, dtype="<u8", buffer=padded, strides=(1,))[starts]
    weights = _weights(eight & _MASKS[np.minimum(lengths, _WORD_BYTES)], lengths)
    cuts = _cuts(blob, begins)
    first_words = np.searchsorted(starts, cuts)
    filled = np.flatnonzero(first_words[:-1] < first_words[1:])
    sums: NDArray[np.uint64] = np.add.reduceat(weights, first_words[filled]) if len(filled) else np.zeros(0, np.uint64)
    weighing = sums != 0
    return sums[weighing], cuts[filled][weighing], cuts[filled + 1][weighing]


def _weights(words: NDArray[np.uint64], lengths: _Places) -> NDArray[np.uint64]:
    """What each word adds to a sum, by its first letters: any order of the same words gives the same sum."""
    weights = (words & _MASKS[_PREFIX_BYTES]) * _SPREAD
    weights ^= weights >> np.uint64(29)
    weights *= _MIX
    weightless = lengths < _PREFIX_BYTES
    spread = words * _SPREAD
    for shift, table in zip(_TABLE_SHIFTS, _TABLES, strict=True):
        weightless |= table[(spread >> shift) & _TABLE_MASK] == words
    return np.where(weightless, np.uint64(0), weights)


def _cuts(blob: bytes, begins: _Places) -> _Places:
    """Where pieces end and the next begin, the ends of all included."""
    data = np.frombuffer(blob + b"\n\n", np.uint8)
    stops = np.flatnonzero(_IS_STOP[data])
    # "e.g. twice": before a small letter no sentence begins.
    stops = stops[_ENDS_WORD[data[stops + 1]] & ~_IS_SMALL[data[stops + 2]]]
    lines = [place for match in _NEW_LINE.finditer(blob) for place in match.span()]
    cuts: _Places = np.unique(np.concatenate([begins, stops + 1, np.array(lines, np.intp), [len(blob)]]))
    return cuts


def _weightless() -> frozenset[str]:
    """Words that may stand in a number, a date, a unit or a negation, or are another verb's form; in every form."""
    words = {*_DROPPED, *_NEGATED, *_NEGATED.values(), *_INDEFINITE, *_INDEFINITE.values(), *_BASES, *_BASES.values()}
    words |= {*_SPECIAL, *_SUFFIXES, *_UNIT_WORDS, "number", "percent"} | {symbol.lower() for symbol in _SYMBOLS}
    words |= {word.split("'")[0].removesuffix("t") for word in _AUXILIARIES}
    endings = ("", "e", "s", "es", "ed")
    return frozenset(words | {stem + end for stem in map(_stem, words) for end in (*endings, stem[-1:] + "ed")})


_WEIGHTLESS = _weightless()


def _weightless_tables() -> tuple[NDArray[np.uint64], ...]:
    """Tables that hold each of these words at its place in one of them."""
    tables = tuple(np.zeros(int(_TABLE_MASK) + 1, np.uint64) for _ in _TABLE_SHIFTS)
    for form in sorted(_WEIGHTLESS):
        folded = form.encode().translate(_FOLD).split(b"\0")[0][:_WORD_BYTES]
        word = np.uint64(int.from_bytes(folded, "little"))
        with np.errstate(over="ignore"):
            spread = word * _SPREAD
        for shift, table in zip(_TABLE_SHIFTS, tables, strict=True):
            place = (spread >> shift) & _TABLE_MASK
            if table[place] in {0, word}:
                table[place] = word
                break
        else:
            raise AssertionError(f"no place for {form}")
    return tables


_TABLES = _weightless_tables()
