"""Values: numbers with their units, and dates, as a sentence has them; exactly, so that 0.5 kHz is 500 Hz."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from worker.core.text.sentences import MONTH_FORMS, MONTHS, words_in

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from worker.core.text.spans import Span

# --- data ---------------------------------------------------------------------------------------

_WEEKDAYS = words_in("Mon Tues Wednes Thurs Fri Satur Sun")
_CALENDAR = MONTH_FORMS | {f"{day.lower()}{ending}" for day in _WEEKDAYS for ending in ("day", "days")}
_PARTS = _CALENDAR | {*words_in("per st nd rd th")}
_DATE_LEADS = words_in("in In by By since Since until Until from From")
"""A month or a year after one of these is a date by itself."""

_SMALL = words_in(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = words_in("twenty thirty forty fifty sixty seventy eighty ninety")
NUMBER_WORDS = {word: Fraction(n) for n, word in enumerate(_SMALL)}
for _n, _ten in enumerate(_TENS, 2):
    NUMBER_WORDS |= {f"{_ten}-{_SMALL[n]}" if n else _ten: Fraction(10 * _n + n) for n in range(10)}

CURRENCIES = "$£€¥₹"

_PREFIXES = """
p pico -12, n nano -9, μ micro -6, u micro -6, m milli -3, c centi -2, d deci -1, k kilo 3, M mega 6, G giga 9,
T tera 12
"""
_PREFIXED = """
Hz hertz, V volt, A ampere amp, W watt, Wh, J joule, F farad, Ω ohm, Pa pascal, N newton, Wb weber, m metre meter,
g gram gramme, l L litre liter, s sec second, B byte, bit
"""
_OTHERS = """
60 s: min minute; 3600 s: h hr hrs hour; 86400 s: day; 604800 s: week; 12 month: year; 1 month: month; 1000 B: KB;
254/10000 m: inch inches; 3048/10000 m: ft foot feet; 1609344/1000 m: mi mile; 1000000 g: t tonne;
45359237/100000 g: lb lbs; 1 share: % percent; 1/10 share: ‰; 1 USD: $ USD dollar; 1 EUR: € EUR euro; 1 GBP: £ GBP;
1 JPY: ¥ JPY yen; 1 INR: ₹ INR rupee; 1 °: ° degree; 1 °C: °C celsius; 1 °F: °F fahrenheit; 1 K: K kelvin;
1 dB: dB decibel; 1 dB(A): dB(A) dBA; 1 dB(C): dB(C) dBC; 1 dBu: dBu; 1 dBV: dBV; 1 dBm: dBm; 1 dBFS: dBFS;
1 rpm: rpm; 1 bpm: bpm BPM
"""
"""Factor of a base, and the names: symbols, in which letter case counts, and words."""


class Unit(NamedTuple):
    """A unit of measurement: a factor of its dimension's base."""

    dimension: str
    factor: Fraction

    def per(self, below: Unit) -> Unit:
        """Return this unit divided by another."""
        return Unit(f"{self.dimension}/{below.dimension}", self.factor / below.factor)


def _units() -> Iterator[tuple[str, Unit]]:
    prefixes = [prefix.split() for prefix in _PREFIXES.split(",")]
    for names in _PREFIXED.split(","):
        symbol, *words = names.split()
        for short, long, power in [("", "", "0"), *prefixes]:
            unit = Unit(symbol, Fraction(10) ** int(power))
            yield from ((long + name if name.islower() and len(name) > 1 else short + name, unit) for name in words)
            yield short + symbol, unit
    for row in _OTHERS.split(";"):
        base, names = row.split(":")
        factor, dimension = base.split()
        yield from ((name, Unit(dimension, Fraction(factor))) for name in names.split())


_UNITS = dict(_units())
_UNIT_NAMES = frozenset(map(str.casefold, _UNITS))
_SYMBOL = 2
"""Letters of the longest name that is no word, so that its letter case counts."""


def find_unit(text: str) -> Unit | None:
    """Return the unit of a symbol or a word, which may be a plural."""
    word = text.lower() if len(text) > _SYMBOL else text
    return _UNITS.get(text) or _UNITS.get(word) or _UNITS.get(word.removesuffix("s"))


def may_be_a_value(norm: str) -> bool:
    """Return whether a word may be part of a number, a date or a unit; a unit's symbol in any letter case."""
    name = norm.removesuffix("s")
    return norm in _PARTS or norm in NUMBER_WORDS or not _UNIT_NAMES.isdisjoint((norm, name))


# --- numbers and dates ----------------------------------------------------------------------------

Amount = Fraction | str
DateReading = tuple[int | None, int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Value:
    """A number or a date in a sentence.

    Attributes:
        span: where it stands, from the sentence's beginning.
        amount: a number exactly; as a string where it is too long for that, or a ratio.
        unit: what the number is measured in, if anything known.
        unit_span: where the unit stands.
        names: whether it is part of a name (channel 18) and measures nothing.
        readings: a date's possible (year, month, day, weekday), ``None`` for what it does not say; none of a number.
    """

    span: Span
    amount: Amount = ""
    unit: Unit | None = None
    unit_span: Span | None = None
    names: bool = False
    readings: tuple[DateReading, ...] = ()

    @property
    def key(self) -> Hashable:
        """Equal for what is exactly the same."""
        if self.unit is None or isinstance(self.amount, str):
            return self.readings, self.amount, self.unit
        return self.amount * self.unit.factor, self.unit.dimension

    def differs(self, other_value: Value) -> frozenset[str]:
        """Return in what it differs: ``date``, ``number``, ``unit``. Numbers of unlike units may well be the same."""
        if self.readings:
            return frozenset() if any(_agree(*pair) for pair in product(self.readings, other_value.readings)) else _DATE
        if self.key == other_value.key:
            return frozenset()
        if self.unit is None or other_value.unit is None:
            return frozenset() if self.amount == other_value.amount else _NUMBER_DIFFERS
        unit = _UNIT if self.unit != other_value.unit else frozenset[str]()
        return unit | _NUMBER_DIFFERS if self.amount != other_value.amount else unit

    def is_like(self, other_value: Value) -> bool:
        """Return whether the two can be compared: numbers that both differ and have unlike units can't."""
        unlike = self.unit and other_value.unit and self.unit.dimension != other_value.unit.dimension
        return not unlike or self.amount == other_value.amount

    def in_common(self, other_value: Value) -> int:
        """Return how many parts two differing values have in common: the number or the unit; year, month, day."""
        if not self.readings:
            return self.amount == other_value.amount or (self.unit is not None and self.unit == other_value.unit)
        return max(
            sum(a is not None and a == b for a, b in zip(*pair, strict=True))
            for pair in product(self.readings, other_value.readings)
        )

    def places(self, differs: frozenset[str]) -> list[Span]:
        """Return where that stands in which it differs."""
        unit = [self.unit_span] if "unit" in differs and self.unit_span else []
        return unit if differs == _UNIT else [self.span, *unit]


_DATE, _NUMBER_DIFFERS, _UNIT = frozenset({"date"}), frozenset({"number"}), frozenset({"unit"})


def _agree(reading: DateReading, other_reading: DateReading) -> bool:
    """Return whether two readings can be one day: what one of them does not say is no difference."""
    return all(a is None or b is None or a == b for a, b in zip(reading, other_reading, strict=True))


# --- reading ------------------------------------------------------------------------------------

_MONTH = "(?:" + "|".join(f"{name}|{name[:3]}" for name in MONTHS) + r"|Sept)\b"
_DAY, _YEAR = r"\d\d?(?:st|nd|rd|th)?\b", r"(?:1[5-9]|20)\d\d\b"
_LEAD = "(?:" + "|".join(rf"(?<=\b{lead}\s)" for lead in _DATE_LEADS) + ")"

DATE = rf"""
      (?<![\w.]) (?: \d{{4}}-\d\d?-\d\d?(?![\w-]) | \d\d?[./]\d\d?[./]\d{{4}}\b | \d{{4}}/\d\d?/\d\d?\b )
    | (?<![\w.]) {_DAY} \.?\s (?:of\s)? {_MONTH} (?:,?\s{_YEAR})?
    | \b{_MONTH} \.?\s {_DAY} (?:,?\s{_YEAR})?
    | \b{_MONTH} ,?\s {_YEAR}
    | {_LEAD} (?:{_MONTH}|{_YEAR})
    | \b(?:{"|".join(_WEEKDAYS)})days?\b
"""
NUMBER = r"""
      \d\d?(?>(?::[0-5]\d)?)\s?[aApP]\.?[mM]\b
    | \d\d?:[0-5]\d(?![\d:])
    | \d{1,9}+[:/]\d{1,9}+(?![\d:/])
    | (?>(?:(?<![\w)\]])[-+\u2212–])?)
      (?> \d{1,3}+(?>(?:[,'’\u00a0\u2009\u202f]\d{3})+)(?!\d) | \d++(?>(?:[.,]\d++)?) | (?<![\w.])\.\d++ )
      (?>(?:[eE][-+]?+\d{1,2}+(?!\w))?)
"""
"""For a verbose regular expression."""

_TIME = re.compile(r"(\d\d?)(?::(\d\d))?(?:\s?([aApP])\.?[mM])?")
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:[,'’\u00a0\u2009\u202f]\d{3})+(?![\d,])")
_SEPARATORS = re.compile(r"[,'’\u00a0\u2009\u202f]")
_MOST_DIGITS, _LAST_DAY, _DATE_PARTS = 40, 31, 3


def read_date(text: str) -> tuple[DateReading, ...]:
    """Return what a date may mean: ``3/5/2024`` is a day in March or in May."""
    numbers = [int(digits) for digits in re.findall(r"\d+", text)]
    if len(numbers) == _DATE_PARTS:
        first_number, second_number, third_number = numbers
        if first_number > _LAST_DAY:
            return ((first_number, second_number, third_number, None),)
        return (
            (third_number, second_number, first_number, None),
            *([(third_number, first_number, second_number, None)] if "/" in text else []),
        )
    day = next((number for number in numbers if number <= _LAST_DAY), None)
    year = next((number for number in numbers if number > _LAST_DAY), None)
    names = [name[:3] for name in re.findall("[A-Z][a-z]+", text)]
    month = next((n for n, name in enumerate(MONTHS, 1) if name[:3] in names), None)
    weekday = next((n for n, name in enumerate(_WEEKDAYS, 1) if name[:3] in names), None)
    return ((year, month, day, weekday),)


def read_number(text: str) -> Amount:
    """Return a number's value, of a time of day its hours; a ratio, and what is too long, as it is written."""
    plain = text.replace("\u2212", "-").replace("–", "-")
    time = _TIME.fullmatch(plain)
    if time:
        hours, minutes, half = int(time[1]), int(time[2] or 0), (time[3] or "").lower()
        return Fraction((hours % 12 + 12 * (half == "p") if half else hours) * 60 + minutes, 60)
    plain = _SEPARATORS.sub("", plain) if _GROUPED.match(plain) else plain.replace(",", ".")
    if "/" in plain or ":" in plain or len(plain) > _MOST_DIGITS:
        return plain
    return Fraction(int(plain)) if plain.isdecimal() else Fraction(plain)
