"""Near duplicates: texts that differ in letter case, punctuation, or one or two words that decide nothing.

Two texts on one subject in other words are no near duplicates: to choose between those is maximal marginal relevance's
task (`worker.core.ranking.diversity.mmr`). Neither are texts that differ in a number or in a word that denies or
limits: they contradict each other, and a reader needs both.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from worker.core.text.terms import UNSPACED
from worker.core.text.words import DENIALS, folded

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOST_EDITS = 2
"""Most words that are inserted, left out or replaced between near duplicates."""

WORDS_PER_EDIT = 10
"""Words of the shorter text for each of them: a shorter text has no word to spare."""

ANCHOR = 3
"""Words of an anchor. A text has four: at its beginning, after a third, after two thirds, and at its end. So few edits
leave two of them whole, those between perhaps a few words farther on."""

# A number keeps its sign and its unit's sign; dashes, quotes and all other punctuation are left out.
_WORD = re.compile(r"[-+−±<>≤≥~≈$£€]?\d(?:[\d.,:/]*\d)?[%‰°]?\w*|\w+(?:['’]\w+)*")
_NUMBER = re.compile(r"\d")
_UNSPACED = re.compile(rf"[{UNSPACED}]")

Words = tuple[str, ...]
Anchor = tuple[int, Words]

_SHIFT = MOST_EDITS + 1
"""Most words by which edits before an anchor, and another length, move it."""


class NearDuplicates:
    """Texts seen so far, in an order in which the first of several near duplicates counts.

    Texts that do not share two anchors are never compared.

    Args:
        denials: words that deny or limit, folded; "n't" does in any case.
    """

    def __init__(self, denials: Collection[str] = DENIALS) -> None:
        self._denials = denials
        self._words: set[Words] = set()
        self._by_anchor: dict[Anchor, list[_Text]] = defaultdict(list)

    def is_new(self, text: str) -> bool:
        """Return whether no text seen before is a near duplicate of a text, and remember it if so.

        >>> seen = NearDuplicates()
        >>> [seen.is_new(text) for text in ("Store it dry.", "Store it, dry!", "Store it cold.")]
        [True, False, True]
        """
        new = _Text(text, self._denials)
        if new.words in self._words or any(map(new.resembles, self._alike(new))):
            return False
        self._words.add(new.words)
        if new.edits:
            for anchor in {*new.anchors(0), *new.anchors(_SHIFT)}:
                self._by_anchor[anchor].append(new)
        return True

    def _alike(self, text: _Text) -> list[_Text]:
        """Return the texts that share two anchors with a text."""
        shared = Counter(other for anchor in text.anchors(0) for other in self._by_anchor.get(anchor, ()))
        return [other for other, count in shared.items() if count > 1]


class _Text:
    """Text prepared for comparison."""

    def __init__(self, text: str, denials: Collection[str]) -> None:
        self._denials = denials
        self.words: Words = tuple(_WORD.findall(folded(text)))
        # Without spaces a word is a clause, and one of its signs can turn it round.
        self.edits = 0 if _UNSPACED.search(text) else min(MOST_EDITS, len(self.words) // WORDS_PER_EDIT)

    def anchors(self, shift: int) -> list[Anchor]:
        """Return the anchors, those between also from so many words before and after their place.

        None for a text that only equals its equals.
        """
        if not self.edits:
            return []
        between = [
            (third, self.words[start : start + ANCHOR])
            for third, place in ((1, len(self.words) // 3), (2, len(self.words) * 2 // 3))
            for start in range(max(0, place - shift), place + shift + 1)
        ]
        return [(0, self.words[:ANCHOR]), *between, (3, self.words[-ANCHOR:])]

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Its different words."""
        return frozenset(self.words)

    @cached_property
    def deciding(self) -> Counter[Words]:
        """Numbers, and words that deny or limit, each with the word after it."""
        after = (*self.words[1:], "")
        return Counter(
            (word, following)
            for word, following in zip(self.words, after, strict=True)
            if word in self._denials or word.endswith(("n't", "n’t")) or _NUMBER.search(word)
        )

    def resembles(self, other: _Text) -> bool:
        """Return whether a few words that decide nothing are all that two texts differ in."""
        edits = min(self.edits, other.edits)
        if abs(len(self.words) - len(other.words)) > edits or len(self.vocabulary ^ other.vocabulary) > 2 * edits:
            return False  # as most do, and this is cheap
        return self.deciding == other.deciding and _within(self.words, other.words, edits)


def _within(one: Sequence[str], other: Sequence[str], edits: int) -> bool:
    """Return whether so many insertions, deletions and replacements of words at most make one text the other."""
    if abs(len(one) - len(other)) > edits:
        return False
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    one, other = one[same:], other[same:]
    if not one or not other:
        return len(one) + len(other) <= edits
    if not edits:
        return False
    ways = ((one[1:], other[1:]), (one[1:], other), (one, other[1:]))
    return any(_within(a, b, edits - 1) for a, b in ways)
