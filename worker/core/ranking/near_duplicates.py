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

SHINGLE = 3
"""Words of a shingle. A changed word changes so many shingles at most."""

# A number keeps its sign and its unit's sign; dashes, quotes and all other punctuation are left out.
_WORD = re.compile(r"[-+−±<>≤≥~≈$£€]?\d(?:[\d.,:/]*\d)?[%‰°]?\w*|\w+(?:['’]\w+)*")
_NUMBER = re.compile(r"\d")
_UNSPACED = re.compile(rf"[{UNSPACED}]")

Words = tuple[str, ...]


class NearDuplicates:
    """Texts seen so far, in an order in which the first of several near duplicates counts.

    Texts that share no shingle are never compared, so the time grows with what texts have in common.

    Args:
        denials: words that deny or limit, folded; "n't" does in any case.
    """

    def __init__(self, denials: Collection[str] = DENIALS) -> None:
        self._denials = denials
        self._seen: list[_Text] = []
        self._by_words: dict[Words, int] = {}
        self._by_shingle: dict[Words, list[int]] = defaultdict(list)

    def is_new(self, text: str) -> bool:
        """Return whether no text seen before is a near duplicate of a text, and remember it if so.

        >>> seen = NearDuplicates()
        >>> [seen.is_new(text) for text in ("Store it dry.", "Store it, dry!", "Store it cold.")]
        [True, False, True]
        """
        new = _Text(text, self._denials)
        if new.words in self._by_words or any(new.resembles(self._seen[i]) for i in self._alike(new)):
            return False
        self._by_words[new.words] = len(self._seen)
        for shingle in new.shingles:
            self._by_shingle[shingle].append(len(self._seen))
        self._seen.append(new)
        return True

    def _alike(self, text: _Text) -> list[int]:
        """Return the texts that share enough shingles with a text to be compared, in the order in which they came."""
        if not text.edits:
            return []
        shared = Counter(i for shingle in text.shingles for i in self._by_shingle.get(shingle, ()))
        enough = len(text.shingles) - SHINGLE * text.edits
        return sorted(i for i, count in shared.items() if count >= enough)


class _Text:
    """Text prepared for comparison."""

    def __init__(self, text: str, denials: Collection[str]) -> None:
        self._denials = denials
        self.words: Words = tuple(_WORD.findall(folded(text)))
        # Without spaces a word is a clause, and one of its signs can turn it round.
        self.edits = 0 if _UNSPACED.search(text) else min(MOST_EDITS, len(self.words) // WORDS_PER_EDIT)

    @cached_property
    def shingles(self) -> frozenset[Words]:
        """Runs of three words; none for a text that only equals its equals."""
        if not self.edits:
            return frozenset()
        return frozenset(self.words[i : i + SHINGLE] for i in range(len(self.words) - SHINGLE + 1))

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
