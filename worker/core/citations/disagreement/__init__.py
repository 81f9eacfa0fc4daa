"""Disagreement: sentences of two sources that are alike but for a number, a date, a unit or a negation.

By rules, without a language model, for English. A sentence is read into what it says (its skeleton: the
words' stems in order, with a sign where a number or a date stands) and what it says so of (numbers with
their units, dates, where it negates). Articles, auxiliary verbs and adverbs that only colour a statement are
no part of a skeleton. Two sentences are *alike* if their skeletons are equal and hold enough (`compare`).

What to read, each importing only from those before it:

- `vocabulary`, `units`: the words and units that are known, as data.
- `sentences`: where the sentences of a text stand.
- `words`, `tokens`: what a word is; the words, numbers and signs of a sentence.
- `claims`, `quantities`, `dates`, `reading`: what a sentence says, and how it is read.
- `comparing`: in what two sentences disagree.
- `pairing`: which of many alike sentences are compared.
- `suspects`: which texts are worth reading at all.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from worker.core.citations.conflicts import Conflict, side_of
from worker.core.citations.disagreement.pairing import Entry, disagreeing
from worker.core.citations.disagreement.reading import read_sentence
from worker.core.citations.disagreement.sentences import split_sentences
from worker.core.citations.disagreement.suspects import find_suspects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from worker.core.citations.conflicts import Side
    from worker.core.citations.disagreement.claims import Sentence
    from worker.core.citations.disagreement.comparing import Difference
    from worker.core.citations.document import CitationRecord
    from worker.core.text.spans import Span


def find_disagreements(records: Sequence[CitationRecord]) -> list[Conflict]:
    """Sentences of two sources that are alike and differ in a number, a date, a unit or a negation.

    >>> from worker.core.citations.document import CitationRecord
    >>> texts = {"s1": "Blue reels may be baked.", "s2": "Blue reels may not be baked."}
    >>> (found,) = find_disagreements([CitationRecord("sha256:…", s, text, 1.0) for s, text in texts.items()])
    >>> found.differs, found.sides[0].tokens, found.sides[1].tokens
    (('negation',), (), ((15, 18),))

    Time is near-linear in the texts: sentences are looked up by their skeleton, and of many variants of one
    sentence (`MAX_VARIANTS`) those that differ in one thing.

    Returns:
        Conflicts of kind ``disagreement`` with two sides each, by the indices of their records, then by place.
        A text that a source has several times is looked at once, in its first record.
    """
    entries: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in _read(records):
        entries[entry.sentence.skeleton].append(entry)
    found = [
        Conflict("disagreement", sides, tuple(sorted(difference.differs)))
        for group in entries.values()
        for difference, one, other in disagreeing(group)
        for sides in [_sides(records, difference, one, other)]
    ]
    return sorted(found, key=lambda conflict: conflict.order)


def _read(records: Sequence[CitationRecord]) -> Iterator[Entry]:
    """Sentences that may be alike; each text of a source once, and each sentence read once wherever it stands."""
    keys = [(record.source_id, record.text) for record in records]
    first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    texts = list(dict.fromkeys(keys))
    sentences: dict[str, Sentence] = {}
    for i, suspects in find_suspects(texts):
        source, text = texts[i]
        for start, end in _overlapping(split_sentences(text), suspects):
            said = text[start:end]
            if said not in sentences:
                sentences[said] = read_sentence(said)
            yield Entry(source, text, first[texts[i]], start, end, sentences[said])


def _overlapping(spans: Iterable[Span], others: Sequence[Span]) -> Iterator[Span]:
    """Spans that share a character with one of some others; both in order, none inside another."""
    i = 0
    for start, end in spans:
        while others[i][1] <= start:
            i += 1
            if i == len(others):
                return
        if others[i][0] < end:
            yield start, end


def _sides(records: Sequence[CitationRecord], difference: Difference, one: Entry, other: Entry) -> tuple[Side, Side]:
    here, there = (
        side_of(
            records,
            entry.record,
            (entry.start, entry.end),
            tuple((entry.start + start, entry.start + end) for start, end in tokens),
        )
        for entry, tokens in ((one, difference.one), (other, difference.other))
    )
    return (here, there) if one.record < other.record else (there, here)
