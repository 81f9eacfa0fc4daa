"""Follow-up questions: a question in a conversation may be about what was asked before it.

Whether it is can't be told from its words in every language, so it is searched both alone and joined with the questions
before it; the share of the second was measured (`benchmarks/results/followups.md`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TURNS = 2
"""Most earlier questions that a question is joined with: the one before may itself be a follow-up."""

LONGEST = 400
"""Most characters of each: an embedder cuts the end of a long text, where the question is."""

SHARE = 0.75
"""Weight of a search for the joined question, as a share of the weight of the same search for the question alone."""


def joined(question: str, earlier: Sequence[str]) -> list[str]:
    """Return a question joined with the one before it, then with the last two, up to `TURNS`.

    >>> joined("And if I am ill?", ["Who sings?", "Can I cancel a booking?"])
    ['Can I cancel a booking? And if I am ill?', 'Who sings? Can I cancel a booking? And if I am ill?']

    Args:
        question: the question.
        earlier: the questions before it, oldest first; blank ones are skipped.
    """
    latest = [text[:LONGEST] for text in (" ".join(turn.split()) for turn in earlier) if text][-TURNS:]
    return [" ".join([*latest[i:], question]) for i in reversed(range(len(latest)))]
