"""Rules for the contextual leg, chosen on half of the queries with an editor's state and judged on the other half."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.fusions import fused, quality
from benchmarks.labelled_sets import shallow

from worker.core.ranking.fusion import RankedLeg, min_max
from worker.core.ranking.measures import mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.labelled_sets import Found

FETCH, EXTRA = 15, 2
PRIMARY, WEIGHT = 0.8, 0.4
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8)
FITS = (0.05, 0.1, 0.15, 0.2, 0.3)
NEAR = (0.05, 0.1, 0.15, 0.2)
MOST_HARM = 0.01
"""Loss of nDCG on the kind `misleading` that a rule may have where it is chosen."""

SHIPPED = "weight by fit"


@dataclass(frozen=True)
class Rule:
    """A rule, with the numbers to choose from: one each, since two fit the half that chooses them and not the other.

    Attributes:
        name: in the table.
        options: (weight of the contextual leg, a number of the rule's own).
    """

    name: str
    options: Sequence[tuple[float, float]]


RULES = (
    Rule("weight alone", [(weight, 0.0) for weight in WEIGHTS]),
    Rule("only what the primary found", [(weight, 0.0) for weight in WEIGHTS]),
    Rule("only what is near the primary's best", [(WEIGHT, near) for near in NEAR]),
    Rule(SHIPPED, [(WEIGHT, fit) for fit in FITS]),
)


def ranked(found: Found, rule: str, weight: float, number: float) -> list[str]:
    """Ids of the primary's and the contextual leg's chunks by a rule, best first."""
    primary, other = shallow(found.legs["primary"], FETCH + EXTRA), shallow(found.legs["contextual"], FETCH)
    if rule == SHIPPED:
        weight *= min(1.0, max(0.0, (other.scores[0] - primary.scores[0]) / number))
    elif rule != "weight alone":
        least = primary.scores[0] - number if number else -1.0
        other = _among(other, {one.chunk.id for one in primary.candidates if (one.similarity or -1.0) >= least})
    return fused([(PRIMARY, primary, min_max), (weight, other, min_max)])


def _among(leg: RankedLeg, chunks: set[str]) -> RankedLeg:
    pairs = [pair for pair in zip(leg.candidates, leg.scores, strict=True) if pair[0].chunk.id in chunks]
    return RankedLeg(leg.name, tuple(one for one, _ in pairs), tuple(score for _, score in pairs))


@dataclass(frozen=True)
class Halves:
    """One rule, judged on queries that did not choose it.

    Attributes:
        chosen: the numbers that each half chose for the other.
        by_query: query → nDCG@5.
    """

    chosen: Sequence[tuple[float, float]]
    by_query: Mapping[str, float]


def halves(found: Sequence[Found], rule: Rule, before: Mapping[str, float]) -> Halves:
    """Choose a rule's numbers on each half for the other: the best for `context` that hardly harms `misleading`."""
    options = {
        numbers: {one.query.id: quality(ranked(one, rule.name, *numbers), one.query) for one in found}
        for numbers in rule.options
    }
    ordered = sorted(found, key=lambda one: (one.group, one.query.kind, one.query.id))
    chosen, judged = list[tuple[float, float]](), dict[str, float]()
    for half, other in ((ordered[::2], ordered[1::2]), (ordered[1::2], ordered[::2])):
        gains = {numbers: _gains(half, values, before) for numbers, values in options.items()}
        kept = [numbers for numbers in gains if gains[numbers][1] >= -MOST_HARM] or [
            max(gains, key=lambda numbers: gains[numbers][1])
        ]
        chosen.append(max(kept, key=lambda numbers: gains[numbers][0]))
        judged |= {one.query.id: options[chosen[-1]][one.query.id] for one in other}
    return Halves(chosen, judged)


def _gains(found: Sequence[Found], after: Mapping[str, float], before: Mapping[str, float]) -> tuple[float, float]:
    """Return the mean change of the kinds `context` and `misleading`."""
    changes = {
        kind: mean(after[one.query.id] - before[one.query.id] for one in found if one.query.kind == kind) or 0.0
        for kind in ("context", "misleading")
    }
    return changes["context"], changes["misleading"]
