"""Conflicts among the records of one citations document: what may not all be so, who says it, and where."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from retrieval_client.hashing import HASH_VERSION, hash_chunk, normalise
from worker.core.citations.document import is_intact

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from worker.core.citations.document import CitationRecord
    from worker.core.text.spans import Span

Kind = Literal[
    "chunk_id_two_texts", "possible_disagreement", "same_text_two_sources", "text_hash_mismatch", "weight_differs"
]


@dataclass(frozen=True, slots=True)
class Side:
    """One record's part in a conflict.

    Attributes:
        index: the record's place among the records.
        chunk_hash: its hash, as recorded.
        source_id: its source.
        span: the characters of its text that are in conflict.
        tokens: of a possible disagreement: where in the text the two differ, in order; empty on the side that lacks
            what the other has (a negation).
    """

    index: int
    chunk_hash: str
    source_id: str
    span: Span
    tokens: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """Records that may not all be right; a ``possible_disagreement`` is a hint, all others are facts.

    Attributes:
        kind: what kind of conflict.
        sides: every record that has a part in it, by index.
        differs: of a possible disagreement: in what (``date``, ``negation``, ``number``, ``unit``), by name.
    """

    kind: Kind
    sides: tuple[Side, ...]
    differs: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[Hashable, ...]:
        """Key of a total order: kind, then who, then where."""
        indices = tuple(side.index for side in self.sides)
        return self.kind, indices, tuple((side.span, side.tokens) for side in self.sides)


_OF_TODAY = frozenset({None, HASH_VERSION})
"""Versions of a hash that is what `hash_chunk` says; one without a version is the first."""


def find_conflicts(records: Sequence[CitationRecord], intact: Sequence[bool] | None = None) -> list[Conflict]:
    """Conflicts that show without reading the texts; `worker.core.citations.disagreement` reads them for hints.

    - ``same_text_two_sources``: a text (as `hash_chunk` sees it) under more than one source.
    - ``chunk_id_two_texts``: a chunk id with more than one text, whatever the sources; the spans hold all
      that is not common to the beginnings and the ends of the texts, in whole words.
    - ``text_hash_mismatch``: a text that is not what its hash was made of.
    - ``weight_differs``: a chunk with more than one weight. A chunk is a text of a source, and where the
      source has it under several chunk ids, one of these.

    Time is linear in the texts but for sorting.

    Args:
        records: the records, in the document's order.
        intact: `is_intact` of each, where it is known already: hashing is most of the time.

    Returns:
        By kind, then by the indices of the records.
    """
    intact = [is_intact(record) for record in records] if intact is None else intact
    texts = [
        record.chunk_hash if good and record.hash_version in _OF_TODAY else _identity(record.text)
        for record, good in zip(records, intact, strict=True)
    ]
    same_text = _groups(range(len(texts)), texts)
    conflicts = [
        *_same_text_two_sources(records, same_text),
        *_chunk_id_two_texts(records, texts),
        *_text_hash_mismatch(records, intact),
        *_weight_differs(records, same_text),
    ]
    return sorted(conflicts, key=lambda conflict: conflict.order)


def side_of(records: Sequence[CitationRecord], index: int, span: Span, tokens: tuple[Span, ...] = ()) -> Side:
    """A record's part in a conflict."""
    record = records[index]
    return Side(index, record.chunk_hash, record.source_id, span, tokens)


def _identity(text: str) -> str:
    """Return a key that texts share if they are the same to `hash_chunk`, whatever their records claim."""
    try:
        return hash_chunk(text)
    except ValueError:
        return normalise(text)


def _whole(records: Sequence[CitationRecord], indices: Iterable[int]) -> tuple[Side, ...]:
    return tuple(side_of(records, index, (0, len(records[index].text))) for index in indices)


def _same_text_two_sources(records: Sequence[CitationRecord], same_text: Sequence[list[int]]) -> Iterator[Conflict]:
    for indices in same_text:
        if len({records[index].source_id for index in indices}) > 1:
            yield Conflict("same_text_two_sources", _whole(records, indices))


def _chunk_id_two_texts(records: Sequence[CitationRecord], texts: Sequence[str]) -> Iterator[Conflict]:
    for indices in _groups(range(len(records)), [record.chunk_id for record in records]):
        if len({texts[index] for index in indices}) > 1:
            spans = _differing([records[index].text for index in indices])
            sides = (side_of(records, index, span) for index, span in zip(indices, spans, strict=True))
            yield Conflict("chunk_id_two_texts", tuple(sides))


def _text_hash_mismatch(records: Sequence[CitationRecord], intact: Sequence[bool]) -> Iterator[Conflict]:
    for index, good in enumerate(intact):
        if not good:
            yield Conflict("text_hash_mismatch", _whole(records, [index]))


def _weight_differs(records: Sequence[CitationRecord], same_text: Sequence[list[int]]) -> Iterator[Conflict]:
    for group in same_text:
        for of_source in _groups(group, [records[index].source_id for index in group]):
            for indices in _by_chunk(records, of_source):
                if len({records[index].weight for index in indices}) > 1:
                    yield Conflict("weight_differs", _whole(records, indices))


def _by_chunk(records: Sequence[CitationRecord], indices: Sequence[int]) -> list[list[int]]:
    """Records of one text of one source, by chunk; one without an id is of the only chunk that has one."""
    chunks: defaultdict[str | None, list[int]] = defaultdict(list)
    for index in indices:
        chunks[records[index].chunk_id].append(index)
    if len(chunks) == 2 and None in chunks:  # noqa: PLR2004 -- one with an id, one without
        return [list(indices)]
    return list(chunks.values())


def _groups(indices: Iterable[int], keys: Sequence[Hashable]) -> list[list[int]]:
    """Indices of equal keys, where there are several; ``None`` is nobody's equal."""
    # Counted first: most keys stand alone, and a list for each would be most of the time.
    groups: dict[Hashable, list[int]] = {
        key: [] for key, count in Counter(keys).items() if count > 1 and key is not None
    }
    if groups:
        for index, key in zip(indices, keys, strict=True):
            if key in groups:
                groups[key].append(index)
    return list(groups.values())


# --- where texts differ -------------------------------------------------------------------------


def _differing(texts: Sequence[str]) -> list[Span]:
    """In each text, what stands between the beginning and the end that all have in common."""
    first_text = texts[0]
    shortest = min(map(len, texts))
    head = min(_common(first_text, text) for text in texts)
    tail = min(_common(first_text[::-1], text[::-1]) for text in texts)
    head = min(head, shortest)
    tail = min(tail, shortest - head)
    while not all(_between_words(text, head) for text in texts):
        head -= 1
    while not all(_between_words(text, len(text) - tail) for text in texts):
        tail -= 1
    return [(head, len(text) - tail) for text in texts]


def _between_words(text: str, place: int) -> bool:
    return place in {0, len(text)} or text[place - 1].isspace() or text[place].isspace()


def _common(text: str, other_text: str) -> int:
    """Length of the common beginning; halves are compared whole, so that Python's loop is short."""
    low, high = 0, min(len(text), len(other_text))
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other_text[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
