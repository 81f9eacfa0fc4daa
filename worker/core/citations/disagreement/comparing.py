"""In what two sentences disagree."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.disagreement.claims import MIN_COMMON_NAMED
from worker.core.citations.disagreement.units import CLOCK, HOUR

if TYPE_CHECKING:
    from worker.core.citations.disagreement.claims import DateReading, Sentence, Value
    from worker.core.text.spans import Span


class Difference(NamedTuple):
    """In what two alike sentences differ, and where in each of them."""

    differs: frozenset[str]
    one: tuple[Span, ...]
    other: tuple[Span, ...]


def compare(one: Sentence, other: Sentence) -> Difference | None:
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
    return Difference(differs, here, there)


def _differ(one: Value, other: Value) -> frozenset[str]:
    """Return in what two values differ: the date, the number, the unit, or both of these."""
    if one.kind == "date":
        same = any(_compatible(a, b) for a, b in product(one.readings, other.readings))
        return frozenset() if same else frozenset({"date"})
    if one.key == other.key:
        return frozenset()
    number = frozenset({"number"})
    if one.unit is None or other.unit is None:
        # "at 10", "at 10:00"; beside any other unit a bare number may be in the same one.
        clock = HOUR if CLOCK in (one.unit, other.unit) else 1
        bare, measured = (one.amount, other.amount) if one.unit is None else (other.amount, one.amount)
        return frozenset() if isinstance(bare, Fraction) and bare * clock == measured else number
    return (number if one.amount != other.amount else frozenset()) | ({"unit"} if one.unit != other.unit else set())


def _compatible(one: DateReading, other: DateReading) -> bool:
    """Return whether two readings can be one day: what one of them does not say is no difference."""
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
