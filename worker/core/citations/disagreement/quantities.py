"""Numbers in a sentence, with what they are measured in. Functions look at token ``i``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from worker.core.citations.disagreement.claims import Amount, Value
from worker.core.citations.disagreement.units import CLOCK, CURRENCIES, HOUR, SYMBOLS, UNIT_WORDS, Unit
from worker.core.citations.disagreement.vocabulary import (
    CARDINALS,
    MONEY_MULTIPLIERS,
    MULTIPLIERS,
    NAMED,
    NUMBER_WORDS,
    ORDINAL_SUFFIXES,
    ORDINALS,
    SHORT_MULTIPLIERS,
)
from worker.core.text.normal_forms import normal_form

if TYPE_CHECKING:
    from worker.core.citations.disagreement.tokens import Tokens

_HUNDRED, _TENS = 100, range(20, 100, 10)
_ORDINAL = "."
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:[,'’\u00a0\u2009\u202f]\d{3})+(?![\d,])")
_SEPARATORS = str.maketrans("", "", ",'’\u00a0\u2009\u202f")
_TIME = re.compile(r"\d\d?:[0-5]\d(?::[0-5]\d)?")
_EXACT_DIGITS = 40


def find_quantity(tokens: Tokens, i: int, *, after_name: bool) -> tuple[Value, int] | None:
    """A number with its unit, and what follows.

    Args:
        tokens: a sentence's.
        i: where the number, or its currency, begins, if there is one.
        after_name: whether a number that is part of a name was read before, and only connectors since:
            ``channels 18 and 19``.
    """
    money = tokens.kinds[i] == "unit" and tokens.texts[i] in CURRENCIES
    at = i + money
    amount, after = _amount(tokens, at)
    if amount is None:
        return None
    end = tokens.ends[after - 1]
    amount, after = _multiplied(tokens, amount, after, money=money)
    span = tokens.starts[at], end
    found: tuple[Unit | None, int] = (SYMBOLS[tokens.texts[i]], at) if money else _unit_or_clock(tokens, at, after)
    unit, stop = found
    if unit is None:
        names = after_name or (isinstance(amount, str) and amount.endswith(_ORDINAL)) or _is_name(tokens, at)
        return Value("number", span, amount, names=names), after
    if unit is CLOCK:
        amount, span = _time_of_day(tokens, at, amount, after), (span[0], tokens.ends[stop - 1])
        return Value("number", span, amount, unit), stop
    unit_span = tokens.starts[i if money else after], tokens.ends[stop - 1]
    return Value("number", span, amount, unit, unit_span), max(after, stop)


def _amount(tokens: Tokens, i: int) -> tuple[Amount | None, int]:
    kind = tokens.kinds[i]
    if kind == "number":
        text = tokens.texts[i]
        if tokens.adjacent(i + 1) and tokens.norms[i + 1] in ORDINAL_SUFFIXES:
            return text + _ORDINAL, i + 2
        return _exact(text), i + 1
    if kind in {"ratio", "time"}:
        return _composed(tokens.texts[i]), i + 1
    norm = tokens.norms[i]
    if norm in ORDINALS:
        return f"{ORDINALS[norm]}{_ORDINAL}", i + 1
    if norm == "half":
        return Fraction(1, 2), i + 1
    return _number_words(tokens, i) if norm in NUMBER_WORDS else (None, i)


def _number_words(tokens: Tokens, i: int) -> tuple[Fraction, int]:
    """``twenty-two``, ``three thousand one hundred and ten``."""
    total = current = 0
    while True:
        norm = tokens.norms[i]
        times = MULTIPLIERS.get(norm, 0)
        if times > _HUNDRED:
            total, current, room = total + max(current, 1) * times, 0, times
        elif times:
            current, room = max(current, 1) * times, times if times == _HUNDRED else 0
        else:
            current += CARDINALS[norm]
            room = 10 if CARDINALS[norm] in _TENS else 0
        i += 1
        if tokens.norms[i] in MULTIPLIERS:
            continue
        joined = i + (tokens.norms[i] == "-" or (tokens.norms[i] == "and" and room >= _HUNDRED))
        # A smaller number completes tens, hundreds and thousands; any other is a number of its own.
        if not 0 < CARDINALS.get(tokens.norms[joined], 0) < room:
            return Fraction(total + current), i
        i = joined


def _multiplied(tokens: Tokens, amount: Amount, after: int, *, money: bool) -> tuple[Amount, int]:
    """``3 million``, ``£30k``."""
    if not isinstance(amount, Fraction) or tokens.kinds[after] != "word":
        return amount, after
    if tokens.norms[after] in MULTIPLIERS:
        return amount * MULTIPLIERS[tokens.norms[after]], after + 1
    short = MONEY_MULTIPLIERS if money else SHORT_MULTIPLIERS
    if tokens.adjacent(after) and tokens.norms[after] in short and tokens.texts[after] != "K":
        return amount * short[tokens.norms[after]], after + 1
    return amount, after


def _unit_or_clock(tokens: Tokens, i: int, after: int) -> tuple[Unit | None, int]:
    """Return the unit of a number; a time of day is one by itself (``22:40``, ``7 pm``)."""
    half = tokens.norms[after] in {"am", "pm"}
    if tokens.kinds[i] == "time":
        return CLOCK, after + half
    return (CLOCK, after + 1) if half and tokens.kinds[i] == "number" else find_unit(tokens, after)


def _time_of_day(tokens: Tokens, i: int, amount: Amount, after: int) -> Amount:
    """Seconds since midnight."""
    if not isinstance(amount, Fraction):
        return amount
    seconds = amount if tokens.kinds[i] == "time" else amount * HOUR
    if tokens.norms[after] in {"am", "pm"}:
        seconds = seconds % (12 * HOUR) + 12 * HOUR * (tokens.norms[after] == "pm")
    return seconds


def find_unit(tokens: Tokens, i: int) -> tuple[Unit | None, int]:
    """A unit and what follows: ``dB``, ``-hour``, ``nWb/m``, ``cm per second``, ``per cent``."""
    at = i + (tokens.norms[i] == "-" and tokens.adjacent(i) and tokens.adjacent(i + 1))
    if tokens.norms[at] == "per" and tokens.norms[at + 1] == "cent":
        return SYMBOLS["%"], at + 2
    unit = _plain_unit(tokens, at)
    if unit is None:
        return None, i
    below = _plain_unit(tokens, at + 2) if tokens.norms[at + 1] in {"/", "per"} else None
    if below is None:
        return unit, at + 1
    return Unit(f"{unit.dimension}/{below.dimension}", unit.factor / below.factor), at + 3


def _plain_unit(tokens: Tokens, i: int) -> Unit | None:
    if tokens.kinds[i] not in {"unit", "word"}:
        return None
    symbol = normal_form("NFKC", tokens.texts[i]).replace(" ", "")
    return SYMBOLS.get(symbol) or UNIT_WORDS.get(tokens.norms[i])


def _is_name(tokens: Tokens, i: int) -> bool:
    """Return whether a number without a unit is part of a name: ``channel 18``, ``Calder 32``, ``HT-2207``."""
    if tokens.norms[i - 1] == "-":
        return tokens.adjacent(i) and tokens.adjacent(i - 1) and tokens.kinds[i - 2] == "word"
    if tokens.kinds[i - 1] != "word" or (tokens.norms[i + 1] == "-" and tokens.adjacent(i + 1)):
        return False
    lead = tokens.words[i - 1]
    if lead.norm in NAMED or lead.norm.removesuffix("s") in NAMED:
        return True
    # A capital inside a sentence: a proper name, unless it owns what is counted.
    raw = tokens.texts[i - 1]
    capital = i > 1 and raw[0].isupper() and not raw.endswith(("'s", "’s", "'", "’"))
    return capital and lead.content and tokens.texts[i].isdecimal()


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
