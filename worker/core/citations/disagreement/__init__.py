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
    spans: tuple[Span, ...]
    other_spans: tuple[Span, ...]


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
    conflicts = [
        Conflict(
            "possible_disagreement", _sides(records, difference, left_entry, rival), tuple(sorted(difference.differs))
        )
        for group in groups.values()
        for difference, left_entry, rival in _disagreeing(group)
    ]
    return sorted(conflicts, key=lambda conflict: conflict.order)


def compare(sentence: Sentence, rival: Sentence) -> Difference | None:
    """In what two sentences disagree; ``None`` where they are not alike or say the same.

    Alike are sentences of equal frames with enough in common (`Sentence.enough`) where one value differs, or at most
    half of the values do, the denial counting as one; of sentences that differ in more, each speaks of something else.
    Where a name's number and something else differs they speak of different things.
    """
    if sentence.frame != rival.frame:
        return None
    pairs = [(a, b, a.differs(b)) for a, b in zip(sentence.values, rival.values, strict=True)]
    differing = [pair for pair in pairs if pair[2]]
    denied = sentence.denied != rival.denied
    count = len(differing) + denied
    has_names = any(a.names or b.names for a, b, _ in differing)
    if (
        not count
        or (count > 1 and (has_names or 2 * count > len(pairs)))
        or not all(a.is_like(b) for a, b, _ in differing)
    ):
        return None
    common = sentence.content + len(pairs) - len(differing) + sum(a.in_common(b) for a, b, _ in differing)
    if not sentence.content or common < (MIN_COMMON_NAMED if has_names else min(sentence.enough, rival.enough)):
        return None
    spans = [span for a, _, differs in differing for span in a.places(differs)]
    other_spans = [span for _, b, differs in differing for span in b.places(differs)]
    if denied:
        spans, other_spans = spans + _denials(sentence, rival), other_spans + _denials(rival, sentence)
    differs = frozenset({"negation"} if denied else ()).union(*(differs for *_, differs in differing))
    return Difference(differs, tuple(sorted(spans)), tuple(sorted(other_spans)))


def _denials(sentence: Sentence, rival: Sentence) -> list[Span]:
    """Return where words deny that don't in the other sentence."""
    counts = Counter(word for word, _ in rival.denials)
    spans = []
    for word, span in sentence.denials:
        counts[word] -= 1
        if counts[word] < 0:
            spans.append(span)
    return spans


def _read(records: Sequence[CitationRecord]) -> Iterator[Entry]:
    """Read the sentences that may be alike, as they weigh the same; each text of a source once."""
    record_by_text: dict[tuple[str, str], int] = {}
    for i, record in enumerate(records):
        record_by_text.setdefault((record.source_id, record.text), i)
    weights = _Weights()
    places: defaultdict[int, list[tuple[str, str, int, Span]]] = defaultdict(list)
    for (source, text), i in record_by_text.items():
        for start, end in split_sentences(text):
            weight = weights.of(text[start:end])
            if weight:
                places[weight].append((source, text, i, (start, end)))
    for group in places.values():
        if any(source != group[0][0] for source, *_ in group):
            sentences = {text[slice(*span)]: None for _, text, _, span in group}
            if len(sentences) > 1:
                readings = {sentence: read_sentence(sentence) for sentence in sentences}
                yield from (Entry(*place, readings[place[1][slice(*place[3])]]) for place in group)


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
    for variant, rivals in _candidates(list(variants.values())):
        # A variant's sentences may be spaced and punctuated differently: whether they differ is the same, not where.
        for left_entry, rival in _across(variant, rivals) if compare(variant[0].sentence, rivals[0].sentence) else ():
            difference = compare(left_entry.sentence, rival.sentence)
            if difference is not None:
                yield difference, left_entry, rival


def _candidates(variants: Sequence[list[Entry]]) -> Iterator[tuple[list[Entry], list[Entry]]]:
    """Pairs of variants to compare: each with each, of very many those that differ in one thing."""
    if len(variants) <= MAX_VARIANTS:
        yield from combinations(variants, 2)
        return
    but_one: defaultdict[tuple[int, int], list[list[Entry]]] = defaultdict(list)
    for variant in variants:
        key_hashes = [hash((i, component)) for i, component in enumerate(variant[0].sentence.key)]
        for i, key_hash in enumerate(key_hashes):
            but_one[i, sum(key_hashes) - key_hash].append(variant)
    for alike in but_one.values():
        # Still many: a series, of which each is compared with the next.
        yield from combinations(alike, 2) if len(alike) <= MAX_VARIANTS else pairwise(alike)


def _across(variant: Sequence[Entry], rivals: Sequence[Entry]) -> Iterable[tuple[Entry, Entry]]:
    """Pairs of two variants' sentences from two sources: all of them, of very many each sentence at least once."""
    if len(variant) * len(rivals) <= MAX_PAIRS:
        return [(entry, rival) for entry, rival in product(variant, rivals) if entry.source != rival.source]
    pairs = [(entry, rival) for entry in variant for rival in _of_another_source(entry, rivals)]
    pairs += [(entry, rival) for rival in rivals for entry in _of_another_source(rival, variant)]
    return {(entry.record, entry.span, rival.record, rival.span): (entry, rival) for entry, rival in pairs}.values()


def _of_another_source(entry: Entry, entries: Sequence[Entry]) -> list[Entry]:
    # Sorted by source: if the first has this one's, the last has another, or none has.
    return [candidate for candidate in (entries[0], entries[-1]) if candidate.source != entry.source][:1]


def _sides(
    records: Sequence[CitationRecord], difference: Difference, left_entry: Entry, rival: Entry
) -> tuple[Side, Side]:
    left_side, right_side = (
        side_of(
            records,
            entry.record,
            entry.span,
            tuple((entry.span[0] + start, entry.span[0] + end) for start, end in tokens),
        )
        for entry, tokens in ((left_entry, difference.spans), (rival, difference.other_spans))
    )
    return (left_side, right_side) if left_entry.record < rival.record else (right_side, left_side)
