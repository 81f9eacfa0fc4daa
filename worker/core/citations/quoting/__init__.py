r"""Quotes: find out whether a quote stands in the chunk that it names, and where.

The verdict is the first of these that holds, in the chunk named:

``verbatim``
    character for character.
``normalised``
    but for what a quote survives on its way: see `differences.KINDS`, and which of them were needed. The quote has at
    least two words, four letters and digits, or six characters of any kind.
``elided``
    with honest marks of what was left out (``…``, ``...``, ``[...]``) or put in (``[sic]``, ``[she]``, ``[T]he``): the
    parts stand there in this order, verbatim or normalised, and each has at least three words or twelve letters and
    digits. What may be put in, and what it may stand for, says `insertions`.
    Dots and brackets that the chunk has itself are no marks: nothing is left out beside its dots, nor put in where it
    has brackets. How much a mark of omission leaves out is its writer's; what each left out or put in, and whether that
    denies, is said (`LeftOut`, `PutIn`).
``misattributed``
    in none of these ways, but in another of the job's chunks.
``not_found``
    anything else; also a quote without any letter, digit or symbol.
``not_checked``
    to say which of these, more steps would be needed than the quote may take (`budget.SearchBudget`).

A quote, and each part, begins and ends where words and numbers do, verbatim too: ``5 dB`` is not in ``15 dB``,
``toxic`` not in ``non-toxic``, ``5`` not in ``-5`` (`Prepared.cuts`). In scripts without spaces between words it may
begin and end at any sign, but not between a prefix that denies and its word, nor inside a unit (`attached`); and it
does not begin right after a word that denies what follows (不能, ไม่): only a later part may, and its mark says so.

Digits that a line break divides are quoted with a line break. Nobody can tell whether ``25\n000`` is one number or two:
so ``25`` is not in it, nor is ``25 000`` (`columns.may_stand_for`).

Time is linear in the lengths of quote and chunks, whatever they are: searching is `str.find`, which is linear, and
Knuth-Morris-Pratt where that would have to start again too often. Candidates are compared in full for as long as that
is eight times the text passed: where a text repeats itself at every few signs a quote may so be missed, never made up.

What to read, each importing only from those before it:

- `budget`: how much work searching may take.
- `characters`, `units`: what a character is, and which units letter case alone tells apart.
- `word_lists`, `limits`: words by language, as data; what denies, limits or counts.
- `columns`: which digits are one number; `attached`: what else belongs to a number, a word or a name in code.
- `forms`: a text folded, with the way back to its own characters.
- `letter_case`: where letter case is the meaning.
- `differences`: how two texts that fold to the same differ.
- `searching`: where a text stands in another.
- `marks`: what a quote says of itself: what was left out, what was put in.
- `insertions`: what may be put in.
- `findings`, `placing`: what became of a quote; where one quote stands in one chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.core.citations.quoting.budget import BudgetSpentError, spend
from worker.core.citations.quoting.findings import NOT_CHECKED, NOT_FOUND, QuotedChunk, QuoteFinding
from worker.core.citations.quoting.placing import AskedQuote
from worker.core.text.unicode_data import are_confused, known, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from worker.core.citations.quoting.budget import SearchBudget
    from worker.core.citations.quoting.findings import Place


def check_quote(
    quote: str, chunk_hash: str, chunks: Sequence[QuotedChunk], budget: SearchBudget | None = None
) -> QuoteFinding:
    """Find a quote in the chunk it names, or else in the others.

    >>> chunks = [QuotedChunk.of("a", "The gain is 3.5 dB."), QuotedChunk.of("b", "Nothing was measured.")]
    >>> finding = check_quote("the  GAIN is 3.5 dB", "a", chunks)
    >>> finding.verdict, finding.spans, finding.normalised
    ('normalised', ((0, 18),), ('white_space', 'case'))
    >>> check_quote("The gain is 35 dB", "a", chunks).verdict, check_quote("Nothing was", "a", chunks).elsewhere
    ('not_found', ('b',))

    Args:
        quote: the words.
        chunk_hash: of the chunk named.
        chunks: all chunks of the job.
        budget: of the job's quotes; without one, every quote is searched for to the end.
    """
    if budget is None:
        return _check(quote, chunk_hash, chunks)
    try:
        with budget.share():
            return _check(quote, chunk_hash, chunks)
    except BudgetSpentError:
        return NOT_CHECKED


def _check(quote: str, chunk_hash: str, chunks: Sequence[QuotedChunk]) -> QuoteFinding:
    spend(len(chunks))
    asked, asked_unknown = AskedQuote(known(quote)), unknown(quote)
    if not asked.text.says_something:
        return NOT_FOUND
    candidates = [*enumerate(chunks)]
    if asked_unknown:
        # Where another character has the same stand-in, the quote would be found although it is not there.
        candidates = [(i, chunk) for i, chunk in candidates if not are_confused(asked_unknown | chunk.unknown)]
    own = _first_place(asked, ((i, chunk) for i, chunk in candidates if chunk.chunk_hash == chunk_hash))
    if own:
        return QuoteFinding(own.how, (own,))
    others = (asked.place(i, chunk) for i, chunk in candidates if chunk.chunk_hash != chunk_hash)
    elsewhere = tuple(place for place in others if place)
    return QuoteFinding("misattributed", elsewhere) if elsewhere else NOT_FOUND


def _first_place(asked: AskedQuote, chunks: Iterator[tuple[int, QuotedChunk]]) -> Place | None:
    """The most literal place; several chunks may have one hash and differ in white space."""
    found = [place for place in (asked.place(i, chunk) for i, chunk in chunks) if place]
    return min(found, key=lambda place: _HOW.index(place.how), default=None)


_HOW = ("verbatim", "normalised", "elided")
