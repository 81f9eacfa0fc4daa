"""Claims: what a sentence says, and the values of which it says so."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from worker.core.citations.disagreement.units import UNSCALED

if TYPE_CHECKING:
    from collections.abc import Hashable

    from worker.core.citations.disagreement.units import Unit
    from worker.core.text.spans import Span

MIN_COMMON = 3
"""Content words, equal values and parts of differing ones (unit, month, year) that alike sentences share ..."""

MIN_COMMON_STATED = 2
"""... where an auxiliary verb or a full stop shows that they are no headings or table cells ..."""

MIN_COMMON_BOUND = 5
"""... where they begin with a pronoun, so that what they speak of stands elsewhere ..."""

MIN_COMMON_NAMED = 8
"""... and where only the number in a name differs (channel 18, channel 19), so that both may well be true."""

Amount = Fraction | str
DateReading = tuple[int | None, int | None, int | None, int | None]


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
    readings: tuple[DateReading, ...] = ()

    @property
    def key(self) -> Hashable:
        """Equal for what is exactly the same."""
        if self.kind == "date":
            return self.kind, self.readings
        if self.unit is None or not isinstance(self.amount, Fraction):
            return self.kind, self.amount, self.unit
        base = self.amount if self.unit[1:] == UNSCALED else (self.amount + self.unit.offset) * self.unit.factor
        return self.kind, base, self.unit.dimension


@dataclass(frozen=True, slots=True)
class Sentence:
    """The claims of a sentence.

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
