"""A sentence read into what it says."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import TYPE_CHECKING

from worker.core.disagreement.claims import (
    MIN_COMMON,
    MIN_COMMON_BOUND,
    MIN_COMMON_STATED,
    Amount,
    DateReading,
    Sentence,
    Value,
)
from worker.core.disagreement.units import CLOCK, CURRENCIES, HOUR, SYMBOLS, UNIT_WORDS, Unit
from worker.core.disagreement.vocabulary import (
    AUXILIARIES,
    CARDINALS,
    CLAUSE_SIGNS,
    CLAUSE_WORDS,
    CONNECTORS,
    DATE_LEADS,
    MONTHS,
    MULTIPLIERS,
    NAMED,
    NUMBER_WORDS,
    ORDINAL_SUFFIXES,
    ORDINALS,
    PRONOUNS,
    WEEKDAYS,
    YEAR_LEADS,
)
from worker.core.disagreement.words import WORD_READERS, Word

if TYPE_CHECKING:
    from worker.core.conflicts import Span

_Dated = tuple[tuple[DateReading, ...], int]  # a date's readings, and the token after it
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


def read_sentence(text: str, known: dict[str, Word] | None = None) -> Sentence:
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
_YEARS, _LATE_YEARS = range(1500, 2100), range(1900, 2100)


class _Reader:
    """Reads the tokens of a sentence from left to right; methods named for a thing look for it at ``i``."""

    def __init__(self, text: str, known: dict[str, Word]) -> None:
        tokens = list(_TOKEN.finditer(text))
        self.kinds = [str(token.lastgroup) for token in tokens]
        self.texts = [token[0] for token in tokens]
        self.starts = [token.start() for token in tokens]
        self.ends = [token.end() for token in tokens]
        for kind, raw in zip(self.kinds, self.texts, strict=True):
            if raw not in known:
                known[raw] = WORD_READERS.get(kind, Word)(raw)
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
        if "word" in self.kinds and self.norms[self.kinds.index("word")] in PRONOUNS:
            return MIN_COMMON_BOUND
        return MIN_COMMON_STATED if self.ended or not AUXILIARIES.isdisjoint(self.norms) else MIN_COMMON

    # --- words ----------------------------------------------------------------------------------

    def _add(self, lemma: str, content: bool) -> None:
        if lemma:
            self.skeleton.append(lemma)
            self.content += content

    def _word_or_sign(self, i: int) -> int:
        word, after = self.words[i], i + 1
        self.naming = self.naming and word.norm in CONNECTORS
        if word.norm in CLAUSE_SIGNS or word.norm in CLAUSE_WORDS:
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
        later = self._day_first(after + 1) if day is not None and self.norms[after] in CONNECTORS else None
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
        if year is not None or alone or self.norms[i - 1] in DATE_LEADS:
            return ((year, month, None, None),), end if day is None else i + 1
        return None

    def _weekday(self, i: int) -> _Dated | None:
        day = WEEKDAYS.get(self.norms[i])
        return (((None, None, None, day),), i + 1) if day else None

    def _year_alone(self, i: int) -> _Dated | None:
        """``in 2019``, ``the 2021 treatment``, ``between 1978 and 1991``."""
        year, after = self._year(i)
        lead = self.norms[i - 1]
        another = lead in CONNECTORS and bool(self.skeleton) and self.skeleton[-1] in {"@", "and", "or", "to"}
        another = another and bool(self.values) and self.values[-1].kind == "date"
        if year is None or after != i + 1 or self._unit(after)[0]:
            return None
        ranged = self.norms[after] in {"-", "–"} and self._year(after + 1)[0] is not None
        if ranged or lead in DATE_LEADS or another or (lead in YEAR_LEADS and year in _LATE_YEARS):
            return ((year, None, None, None),), after
        return None

    def _day(self, i: int) -> tuple[int | None, int]:
        """A day of a month (``3``, ``3rd``), and what follows."""
        text = self.texts[i] if self.kinds[i] == "number" else ""
        if not (text.isdecimal() and len(text) <= len("31") and 1 <= int(text) <= _DAYS):
            return None, i
        return int(text), i + 1 + (self._adjacent(i + 1) and self.norms[i + 1] in ORDINAL_SUFFIXES)

    def _month(self, i: int) -> int | None:
        """A month, written with a capital."""
        return MONTHS.get(self.norms[i]) if self.kinds[i] == "word" and self.texts[i][0].isupper() else None

    def _year(self, i: int) -> tuple[int | None, int]:
        """A year, perhaps after a comma, and what follows; what followed the day or the month if there is none."""
        at = i + (self.norms[i] == ",")
        text = self.texts[at] if self.kinds[at] == "number" else ""
        if text.isdecimal() and len(text) == _YEAR_DIGITS and int(text) in _YEARS:
            return int(text), at + 1
        return None, i

    def _quantity(self, i: int) -> tuple[Value, int] | None:
        money = self.kinds[i] == "unit" and self.texts[i] in CURRENCIES
        at = i + money
        amount, after = self._amount(at)
        if amount is None:
            return None
        end = self.ends[after - 1]
        amount, after = self._multiplied(amount, after, money=money)
        span = self.starts[at], end
        found: tuple[Unit | None, int] = (SYMBOLS[self.texts[i]], at) if money else self._unit_or_clock(at, after)
        unit, stop = found
        if unit is None:
            names = (isinstance(amount, str) and amount.endswith(_ORDINAL)) or self._is_name(at)
            return Value("number", span, amount, names=names), after
        if unit is CLOCK:
            amount, span = self._time_of_day(at, amount, after), (span[0], self.ends[stop - 1])
            return Value("number", span, amount, unit), stop
        unit_span = self.starts[i if money else after], self.ends[stop - 1]
        return Value("number", span, amount, unit, unit_span), max(after, stop)

    def _amount(self, i: int) -> tuple[Amount | None, int]:
        kind = self.kinds[i]
        if kind == "number":
            text = self.texts[i]
            if self._adjacent(i + 1) and self.norms[i + 1] in ORDINAL_SUFFIXES:
                return text + _ORDINAL, i + 2
            return _exact(text), i + 1
        if kind in {"ratio", "time"}:
            return _composed(self.texts[i]), i + 1
        norm = self.norms[i]
        if norm in ORDINALS:
            return f"{ORDINALS[norm]}{_ORDINAL}", i + 1
        if norm == "half":
            return Fraction(1, 2), i + 1
        return self._number_words(i) if norm in NUMBER_WORDS else (None, i)

    def _number_words(self, i: int) -> tuple[Fraction, int]:
        """``twenty-two``, ``three thousand one hundred and ten``."""
        total = current = 0
        while True:
            norm = self.norms[i]
            times = MULTIPLIERS.get(norm, 0)
            if times > _HUNDRED:
                total, current, room = total + max(current, 1) * times, 0, times
            elif times:
                current, room = max(current, 1) * times, times if times == _HUNDRED else 0
            else:
                current += CARDINALS[norm]
                room = 10 if CARDINALS[norm] in _TENS else 0
            i += 1
            if self.norms[i] in MULTIPLIERS:
                continue
            joined = i + (self.norms[i] == "-" or (self.norms[i] == "and" and room >= _HUNDRED))
            # A smaller number completes tens, hundreds and thousands; any other is a number of its own.
            if not 0 < CARDINALS.get(self.norms[joined], 0) < room:
                return Fraction(total + current), i
            i = joined

    def _multiplied(self, amount: Amount, after: int, *, money: bool) -> tuple[Amount, int]:
        """``3 million``, ``£30k``."""
        if not isinstance(amount, Fraction) or self.kinds[after] != "word":
            return amount, after
        if self.norms[after] in MULTIPLIERS:
            return amount * MULTIPLIERS[self.norms[after]], after + 1
        short = {"k": 1000, "m": 10**6, "bn": 10**9} if money else {"k": 1000}
        if self._adjacent(after) and self.norms[after] in short and self.texts[after] != "K":
            return amount * short[self.norms[after]], after + 1
        return amount, after

    def _unit_or_clock(self, i: int, after: int) -> tuple[Unit | None, int]:
        """What a number is measured in; a time of day is so by itself (``22:40``, ``7 pm``)."""
        half = self.norms[after] in {"am", "pm"}
        if self.kinds[i] == "time":
            return CLOCK, after + half
        return (CLOCK, after + 1) if half and self.kinds[i] == "number" else self._unit(after)

    def _time_of_day(self, i: int, amount: Amount, after: int) -> Amount:
        """Seconds since midnight."""
        if not isinstance(amount, Fraction):
            return amount
        seconds = amount if self.kinds[i] == "time" else amount * HOUR
        if self.norms[after] in {"am", "pm"}:
            seconds = seconds % (12 * HOUR) + 12 * HOUR * (self.norms[after] == "pm")
        return seconds

    def _unit(self, i: int) -> tuple[Unit | None, int]:
        """A unit and what follows: ``dB``, ``-hour``, ``nWb/m``, ``cm per second``, ``per cent``."""
        at = i + (self.norms[i] == "-" and self._adjacent(i) and self._adjacent(i + 1))
        if self.norms[at] == "per" and self.norms[at + 1] == "cent":
            return SYMBOLS["%"], at + 2
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
        return SYMBOLS.get(symbol) or UNIT_WORDS.get(self.norms[i])

    def _is_name(self, i: int) -> bool:
        """Whether a number without a unit is part of a name: ``channel 18``, ``Calder 32``, ``HT-2207``."""
        if self.naming:
            return True
        if self.norms[i - 1] == "-":
            return self._adjacent(i) and self._adjacent(i - 1) and self.kinds[i - 2] == "word"
        if self.kinds[i - 1] != "word" or (self.norms[i + 1] == "-" and self._adjacent(i + 1)):
            return False
        lead = self.words[i - 1]
        if lead.norm in NAMED or lead.norm.removesuffix("s") in NAMED:
            return True
        # A capital inside a sentence: a proper name, unless it owns what is counted.
        raw = self.texts[i - 1]
        capital = i > 1 and raw[0].isupper() and not raw.endswith(("'s", "’s", "'", "’"))
        return capital and lead.content and self.texts[i].isdecimal()


_HUNDRED, _TENS = 100, range(20, 100, 10)
_ORDINAL = "."
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:[,'’\u00a0\u2009\u202f]\d{3})+(?![\d,])")
_SEPARATORS = str.maketrans("", "", ",'’\u00a0\u2009\u202f")


def _exact(text: str) -> Amount:
    """A number's value; what is too long for that as it is written."""
    plain = text.replace("\u2212", "-").replace("–", "-")
    plain = plain.translate(_SEPARATORS) if _GROUPED.match(plain) else plain.replace(",", ".")
    if len(plain) > _EXACT_DIGITS:
        return plain
    return Fraction(int(plain)) if plain.isdecimal() else Fraction(plain)


def _composed(text: str) -> Amount:
    """``22:40`` in seconds, ``1/2`` as what it is, ``3:1`` as it is written."""
    parts = [int(part) for part in re.split("[:/]", text)]
    if "/" in text:
        return Fraction(parts[0], parts[1]) if parts[1] else text
    if not _TIME.fullmatch(text):
        return ":".join(map(str, parts))
    return Fraction(sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False)))


_TIME = re.compile(r"\d\d?:[0-5]\d(?::[0-5]\d)?")
