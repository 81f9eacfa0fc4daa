"""Pairs of sentences of one skeleton that are compared with each other."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.disagreement.comparing import compare

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from worker.core.citations.disagreement.claims import Sentence
    from worker.core.citations.disagreement.comparing import Difference

MAX_VARIANTS = 24
"""Up to so many variants of a sentence are compared each with each, more only where one thing differs."""

MAX_PAIRS = 64
"""Up to so many pairs are reported for two variants, of more each sentence with one other."""


class Entry(NamedTuple):
    """A sentence where it stands."""

    source: str
    text: str
    record: int
    start: int
    end: int
    sentence: Sentence


def disagreeing(group: Sequence[Entry]) -> Iterator[tuple[Difference, Entry, Entry]]:
    """Pairs of a group (sentences with one skeleton) that disagree and stand in two sources."""
    if len({entry.source for entry in group}) == 1:
        return
    sentences = {id(entry.sentence): entry.sentence for entry in group}
    keys = {identity: sentence.key for identity, sentence in sentences.items()}
    if len({*keys.values()}) == 1:
        return
    variants: defaultdict[Hashable, list[Entry]] = defaultdict(list)
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


def _candidates(variants: Sequence[list[Entry]]) -> Iterator[tuple[list[Entry], list[Entry]]]:
    """Pairs of variants to compare: each with each, of very many those that differ in one thing."""
    if len(variants) <= MAX_VARIANTS:
        yield from combinations(variants, 2)
        return
    but_one: defaultdict[tuple[int, int], list[list[Entry]]] = defaultdict(list)
    for variant in variants:
        parts = [hash((i, part)) for i, part in enumerate(variant[0].sentence.key)]
        for i, part in enumerate(parts):
            but_one[i, sum(parts) - part].append(variant)
    for alike in but_one.values():
        # Still many: a series, of which each is compared with the next.
        yield from combinations(alike, 2) if len(alike) <= MAX_VARIANTS else pairwise(alike)


def _across(here: Sequence[Entry], there: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Pairs of two variants' sentences from two sources: all of them, of very many each sentence at least once."""
    if len(here) * len(there) <= MAX_PAIRS:
        yield from ((one, other) for one, other in product(here, there) if one.source != other.source)
        return
    pairs = [(one, other) for one in here for other in _one_of_another_source(one, there)]
    pairs += [(one, other) for other in there for one in _one_of_another_source(other, here)]
    yield from {(one.record, one.start, other.record, other.start): (one, other) for one, other in pairs}.values()


def _one_of_another_source(entry: Entry, others: Sequence[Entry]) -> Iterable[Entry]:
    # Sorted by source: if the first has this one's, the last has another, or none has.
    return [other for other in (others[0], others[-1]) if other.source != entry.source][:1]
