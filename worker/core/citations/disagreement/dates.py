"""Dates in a sentence: whole ones, and their parts where they stand alone. Functions look at token ``i``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from worker.core.citations.disagreement.claims import DateReading, Value
from worker.core.citations.disagreement.quantities import find_unit
from worker.core.citations.disagreement.vocabulary import (
    CONNECTORS,
    DATE_LEADS,
    MONTHS,
    MONTHS_AND_WORDS,
    ORDINAL_SUFFIXES,
    WEEKDAYS,
    YEAR_LEADS,
)

if TYPE_CHECKING:
    from worker.core.citations.disagreement.tokens import Tokens

_Dated = tuple[tuple[DateReading, ...], int]  # a date's readings, and the token after it

_DAYS, _MONTHS_A_YEAR, _YEAR_DIGITS = 31, 12, 4
_YEARS, _LATE_YEARS = range(1500, 2100), range(1900, 2100)


def find_date(tokens: Tokens, i: int, *, after_date: bool) -> tuple[Value, int] | None:
    """A date and what follows.

    Args:
        tokens: a sentence's.
        i: where the date begins, if there is one.
        after_date: whether a date was read before, with at most a conjunction between: ``1978 and 1991``.
    """
    found = _written_date(tokens, i) or _day_first(tokens, i) or _shared_month(tokens, i) or _month_first(tokens, i)
    found = found or _weekday(tokens, i) or _year_alone(tokens, i, after_date=after_date)
    if found is None:
        return None
    readings, after = found
    return Value("date", (tokens.starts[i], tokens.ends[after - 1]), readings=readings), after


def _written_date(tokens: Tokens, i: int) -> _Dated | None:
    """``2024-05-03``, ``3.5.2024``, and ``3/5/2024`` in both of its readings."""
    if tokens.kinds[i] != "date":
        return None
    text = tokens.texts[i]
    one, two, three = (int(part) for part in re.split(r"[-./]", text))
    year_first = text[_YEAR_DIGITS : _YEAR_DIGITS + 1] in {"-", "/"}
    days = [(one, two, three)] if year_first else [(three, two, one)]
    if "/" in text and not year_first and one != two:
        days.append((three, one, two))
    possible = [day for day in days if 1 <= day[1] <= _MONTHS_A_YEAR and 1 <= day[2] <= _DAYS]
    return tuple((*day, None) for day in sorted(possible or days)), i + 1


def _day_first(tokens: Tokens, i: int) -> _Dated | None:
    """``3 May``, ``3rd of May 2024``, ``3. May, 2024``."""
    day, after = _day(tokens, i)
    after += tokens.norms[after] == "of"
    month = _month(tokens, after)
    if day is None or month is None:
        return None
    year, after = _year(tokens, after + 1)
    return ((year, month, day, None),), after


def _shared_month(tokens: Tokens, i: int) -> _Dated | None:
    """The 6 of ``6 and 9 March 2023``."""
    day, after = _day(tokens, i)
    later = _day_first(tokens, after + 1) if day is not None and tokens.norms[after] in CONNECTORS else None
    if later is None:
        return None
    ((year, month, _, _),) = later[0]
    return ((year, month, day, None),), after


def _month_first(tokens: Tokens, i: int) -> _Dated | None:
    """``May 3, 2024``, ``May 2024``, and a month alone where it can't be another word."""
    month = _month(tokens, i)
    if month is None:
        return None
    day, after = _day(tokens, i + 1)
    year, end = _year(tokens, after if day is not None else i + 1)
    if day is not None and (year is not None or not find_unit(tokens, after)[0]):
        return ((year, month, day, None),), end
    spelled = len(tokens.texts[i]) > len("sept")
    alone = spelled and tokens.norms[i] not in MONTHS_AND_WORDS
    if year is not None or alone or tokens.norms[i - 1] in DATE_LEADS:
        return ((year, month, None, None),), end if day is None else i + 1
    return None


def _weekday(tokens: Tokens, i: int) -> _Dated | None:
    day = WEEKDAYS.get(tokens.norms[i])
    return (((None, None, None, day),), i + 1) if day else None


def _year_alone(tokens: Tokens, i: int, *, after_date: bool) -> _Dated | None:
    """``in 2019``, ``the 2021 treatment``, ``between 1978 and 1991``."""
    year, after = _year(tokens, i)
    lead = tokens.norms[i - 1]
    another = after_date and lead in CONNECTORS
    if year is None or after != i + 1 or find_unit(tokens, after)[0]:
        return None
    ranged = tokens.norms[after] in {"-", "–"} and _year(tokens, after + 1)[0] is not None
    if ranged or lead in DATE_LEADS or another or (lead in YEAR_LEADS and year in _LATE_YEARS):
        return ((year, None, None, None),), after
    return None


def _day(tokens: Tokens, i: int) -> tuple[int | None, int]:
    """A day of a month (``3``, ``3rd``), and what follows."""
    text = tokens.texts[i] if tokens.kinds[i] == "number" else ""
    if not (text.isdecimal() and len(text) <= len("31") and 1 <= int(text) <= _DAYS):
        return None, i
    return int(text), i + 1 + (tokens.adjacent(i + 1) and tokens.norms[i + 1] in ORDINAL_SUFFIXES)


def _month(tokens: Tokens, i: int) -> int | None:
    """A month, written with a capital."""
    return MONTHS.get(tokens.norms[i]) if tokens.kinds[i] == "word" and tokens.texts[i][0].isupper() else None


def _year(tokens: Tokens, i: int) -> tuple[int | None, int]:
    """A year, perhaps after a comma, and what follows; what followed the day or the month if there is none."""
    at = i + (tokens.norms[i] == ",")
    text = tokens.texts[at] if tokens.kinds[at] == "number" else ""
    if text.isdecimal() and len(text) == _YEAR_DIGITS and int(text) in _YEARS:
        return int(text), at + 1
    return None, i
