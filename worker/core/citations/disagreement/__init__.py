"""Hints at disagreement: sentences of two sources that are the same but for a number, a unit, a date or a denial.

A hint says what differs, and never who is right or whether both may be. Sentences that say the opposite in other words
are not found. By rules, without a language model: `reading` makes of a sentence its frame (its words' stems in order,
with a sign for each number and date) and what may differ (`values`, and words that deny in English, German, French and
Spanish; numbers in any script). Sentences of one frame are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.conflicts import Conflict, side_of
from worker.core.citations.disagreement.reading import Sentence, read_sentence, weigh
from worker.core.text.sentences import split_sentences

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from worker.core.citations.conflicts import Side
    from worker.core.citations.document import CitationRecord
    from worker.core.text.spans import Span

MAX_VARIANTS = 24
"""Up to so many variants of a sentence are compared each with each, more only where one thing differs."""

MAX_PAIRS = 64
"""Up to so many pairs are reported for two variants, of more each sentence with one other."""

MIN_COMMON_NAMED = 8
"""Like `Sentence.enough`, where only the number in a name differs (channel 18, channel 19): both may well be true."""


class Entry(NamedTuple):
    """A sentence where it stands."""

    source: str
    text: str
    record: int
    span: Span
    sentence: Sentence


class Difference(NamedTuple):
    """In what two alike sentences differ, and where in each of them."""

    differs: frozenset[str]
    one: tuple[Span, ...]
    other: tuple[Span, ...]


def find_disagreements(records: Sequence[CitationRecord]) -> list[Conflict]:
    """Find sentences of two sources that are alike and differ in a number, a unit, a date or a denial: hints.

    >>> from worker.core.citations.document import CitationRecord
    >>> texts = {"s1": "Blue reels may be baked.", "s2": "Blue reels may not be baked."}
    >>> (hint,) = find_disagreements([CitationRecord("sha256:…", s, text, 1.0) for s, text in texts.items()])
    >>> hint.differs, hint.sides[0].tokens, hint.sides[1].tokens
    (('negation',), (), ((15, 18),))

    Time is near-linear in the texts: sentences are looked up by their frame, and of many variants of one sentence
    (`MAX_VARIANTS`) those that differ in one thing.

    Returns:
        Conflicts of kind ``possible_disagreement`` with two sides each, by the indices of their records, then by place.
        A text that a source has several times is looked at once, in its first record.
    """
    groups: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in _read(records):
        groups[entry.sentence.frame].append(entry)
    found = [
        Conflict("possible_disagreement", _sides(records, difference, one, other), tuple(sorted(difference.differs)))
        for group in groups.values()
        for difference, one, other in _disagreeing(group)
    ]
    return sorted(found, key=lambda conflict: conflict.order)


def compare(one: Sentence, other: Sentence) -> Difference | None:
    """In what two sentences disagree; ``None`` where they are not alike or say the same.

    Alike are sentences of equal frames with enough in common (`Sentence.enough`) where one value differs, or at most
    half of the values do, the denial counting as one; of sentences that differ in more, each speaks of something else.
    Where a name's number and something else differs they speak of different things.
    """
    if one.frame != other.frame:
        return None
    pairs = [(a, b, a.differs(b)) for a, b in zip(one.values, other.values, strict=True)]
    differing = [pair for pair in pairs if pair[2]]
    denied = one.denied != other.denied
    count = len(differing) + denied
    named = any(a.names or b.names for a, b, _ in differing)
    if not count or (count > 1 and (named or 2 * count > len(pairs))) or not all(a.is_like(b) for a, b, _ in differing):
        return None
    common = one.content + len(pairs) - len(differing) + sum(a.in_common(b) for a, b, _ in differing)
    if not one.content or common < (MIN_COMMON_NAMED if named else min(one.enough, other.enough)):
        return None
    here = [span for a, _, differs in differing for span in a.places(differs)]
    there = [span for _, b, differs in differing for span in b.places(differs)]
    if denied:
        here, there = here + _denials(one, other), there + _denials(other, one)
    differs = frozenset({"negation"} if denied else ()).union(*(differs for *_, differs in differing))
    return Difference(differs, tuple(sorted(here)), tuple(sorted(there)))


def _denials(one: Sentence, other: Sentence) -> list[Span]:
    """Return where words deny that don't in the other sentence."""
    both = Counter(word for word, _ in other.denials)
    spans = []
    for word, span in one.denials:
        both[word] -= 1
        if both[word] < 0:
            spans.append(span)
    return spans


def _read(records: Sequence[CitationRecord]) -> Iterator[Entry]:
    """Read the sentences that may be alike, as they weigh the same; each text of a source once."""
    first: dict[tuple[str, str], int] = {}
    for i, record in enumerate(records):
        first.setdefault((record.source_id, record.text), i)
    weights = _Weights()
    places: defaultdict[int, list[tuple[str, str, int, Span]]] = defaultdict(list)
    for (source, text), i in first.items():
        for start, end in split_sentences(text):
            weight = weights.of(text[start:end])
            if weight:
                places[weight].append((source, text, i, (start, end)))
    for group in places.values():
        if any(source != group[0][0] for source, *_ in group):
            sentences = {text[slice(*span)]: None for _, text, _, span in group}
            if len(sentences) > 1:
                read = {sentence: read_sentence(sentence) for sentence in sentences}
                yield from (Entry(*place, read[place[1][slice(*place[3])]]) for place in group)


class _Weights(dict[str, int]):
    """The weights of words, each found once."""

    def of(self, sentence: str) -> int:
        """Return the weight of a sentence."""
        return sum(map(self.__getitem__, sentence.split()))

    def __missing__(self, word: str) -> int:
        self[word] = weigh(word)
        return self[word]


def _disagreeing(group: Sequence[Entry]) -> Iterator[tuple[Difference, Entry, Entry]]:
    """Pairs of a group (sentences with one frame) that disagree and stand in two sources."""
    variants: defaultdict[Hashable, list[Entry]] = defaultdict(list)
    # By what they say and not by index: any order of the records gives the same pairs.
    for entry in sorted(group, key=lambda entry: (entry.source, entry.text, entry.span)):
        variants[entry.sentence.key].append(entry)
    for here, there in _candidates(list(variants.values())):
        # A variant's sentences may be spaced and punctuated differently: whether they differ is the same, not where.
        for one, other in _across(here, there) if compare(here[0].sentence, there[0].sentence) else ():
            difference = compare(one.sentence, other.sentence)
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


def _across(here: Sequence[Entry], there: Sequence[Entry]) -> Iterable[tuple[Entry, Entry]]:
    """Pairs of two variants' sentences from two sources: all of them, of very many each sentence at least once."""
    if len(here) * len(there) <= MAX_PAIRS:
        return [(one, other) for one, other in product(here, there) if one.source != other.source]
    pairs = [(one, other) for one in here for other in _of_another_source(one, there)]
    pairs += [(one, other) for other in there for one in _of_another_source(other, here)]
    return {(one.record, one.span, other.record, other.span): (one, other) for one, other in pairs}.values()


def _of_another_source(entry: Entry, others: Sequence[Entry]) -> list[Entry]:
    # Sorted by source: if the first has this one's, the last has another, or none has.
    return [other for other in (others[0], others[-1]) if other.source != entry.source][:1]


def _sides(records: Sequence[CitationRecord], difference: Difference, one: Entry, other: Entry) -> tuple[Side, Side]:
    here, there = (
        side_of(
            records,
            entry.record,
            entry.span,
            tuple((entry.span[0] + start, entry.span[0] + end) for start, end in tokens),
        )
        for entry, tokens in ((one, difference.one), (other, difference.other))
    )
    return (here, there) if one.record < other.record else (there, here)
