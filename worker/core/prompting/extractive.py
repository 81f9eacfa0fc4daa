"""Language model `extractive`: answers with sentences of the sources, verbatim, without a real model.

Offline and deterministic. It compares words, not meaning: quoted sentences share terms with the question.

A sentence's relevance is the weight of the question's terms in it, plus half the weight of those that only its title or
heading has, as a share of the weight of all the question's terms. A term's weight is its idf over the sources
(`core.ranking.bm25.idf`). The score is relevance times 10 / (9 + rank of the source): better sources come first.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.core.citations.statements import read_statements, without_marker
from worker.core.ranking.bm25 import idf, scores
from worker.core.text.sentences import split_sentences
from worker.core.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from worker.core.prompting.context import LabelledSource, Source

NAME, VERSION = "extractive", "1"

NO_ANSWER = "No answer to this question was found in the sources."

MOST_SENTENCES, MOST_CHARACTERS = 5, 1200

LEAST_SCORE = 0.15
"""Lowest score of a quoted sentence."""

LEAST_SHARE = 0.5
"""Lowest score of a quoted sentence as a share of the best score."""

REPETITION = 0.8
"""Share of the shorter sentence's terms from which one sentence counts as repeating another."""

FEWEST_TERMS = 3
"""Fewest distinct terms of a quoted sentence; one with fewer is a heading or a fragment."""

_PLACES = 12
"""Decimal places of a score: the last bit of a logarithm may differ between machines."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    """Sentence that may be quoted; ``source`` and ``place`` are its position."""

    source: int
    place: int
    text: str
    terms: frozenset[str]
    score: float


def answer(
    question: str,
    sources: Sequence[LabelledSource],
    most_sentences: int = MOST_SENTENCES,
    most_characters: int = MOST_CHARACTERS,
) -> str:
    """Answer a question with sentences of the sources, each in its own paragraph, followed by its label.

    The best sentences are chosen first, none that repeats a chosen one; the answer lists them in source order.

    >>> from worker.core.prompting.context import LabelledSource, Source
    >>> manual = Source("Store it dry. Phantom power can tear the ribbon. Carry it upright.", heading="Ribbon care")
    >>> answer("Does phantom power harm a ribbon?", [LabelledSource("S1", 0, manual)])
    'Phantom power can tear the ribbon. [S1]'
    >>> answer("Who won the race?", [LabelledSource("S1", 0, manual)])
    'No answer to this question was found in the sources.'

    Args:
        question: any text.
        sources: best first.
        most_sentences: most sentences.
        most_characters: most characters of the answer, labels included; a sentence that would exceed it is not quoted.
    """
    quoted: list[_Sentence] = []
    left = most_characters
    for sentence in _ranked(question, sources):
        paragraph = _paragraph(sentence, sources)
        if len(quoted) == most_sentences:
            break
        if len(paragraph) <= left and not _repeats(sentence, quoted) and _is_quotable(sentence, sources):
            quoted.append(sentence)
            left -= len(paragraph) + len("\n\n")
    in_order = sorted(quoted, key=lambda sentence: (sentence.source, sentence.place))
    return "\n\n".join(_paragraph(sentence, sources) for sentence in in_order) or NO_ANSWER


def opening(sources: Sequence[LabelledSource], most_characters: int = MOST_CHARACTERS) -> str:
    """Return the first sentence of the best source that can be quoted, for a question that is near in other words.

    >>> from worker.core.prompting.context import LabelledSource, Source
    >>> opening([LabelledSource("S1", 0, Source("Soon. Phantom power can tear the ribbon. Store it dry."))])
    'Phantom power can tear the ribbon. [S1]'
    """
    for i, one in enumerate(sources):
        for sentence in _sentences(i, one.source, None):
            paragraph = _paragraph(sentence, sources)
            if len(paragraph) <= most_characters and _is_quotable(sentence, sources):
                return paragraph
    return NO_ANSWER


def _paragraph(sentence: _Sentence, sources: Sequence[LabelledSource]) -> str:
    return f"{sentence.text} [{sources[sentence.source].label}]"


def _is_quotable(sentence: _Sentence, sources: Sequence[LabelledSource]) -> bool:
    """Return whether the paragraph parses as just this sentence and its label: not if it contains labels or code."""
    label = sources[sentence.source].label
    read = read_statements(_paragraph(sentence, sources), [label])
    whole = [(one.text, one.labels) for one in read.sentences] == [(sentence.text, (label,))]
    labels = read.labels
    return whole and len(labels.used[0].spans) == 1 and not (labels.unknown or labels.unreadable)


def _repeats(sentence: _Sentence, quoted: Sequence[_Sentence]) -> bool:
    return any(
        len(sentence.terms & other.terms) >= REPETITION * min(len(sentence.terms), len(other.terms)) for other in quoted
    )


# --- relevance ----------------------------------------------------------------------------------


def _ranked(question: str, sources: Sequence[LabelledSource]) -> list[_Sentence]:
    """Return the sentences that score high enough to be quoted, best first."""
    wanted = {*terms(question)}
    weights = idf(sorted(wanted), [{*terms(_whole(one.source))} for one in sources])
    found = [sentence for i, one in enumerate(sources) for sentence in _sentences(i, one.source, weights)]
    least = max(LEAST_SCORE, LEAST_SHARE * max((sentence.score for sentence in found), default=0.0))
    enough = (sentence for sentence in found if sentence.score >= least)
    return sorted(enough, key=lambda sentence: (-sentence.score, sentence.source, sentence.place))


def _sentences(index: int, source: Source, weights: Mapping[str, float] | None) -> Iterator[_Sentence]:
    """Yield the sentences that share a term with the question; without its terms' weights, all, with score 0."""
    above = frozenset(terms(_heading(source))) & (weights or {}).keys()
    everything = math.fsum((weights or {}).values())
    for start, end in split_sentences(source.text):
        text = without_marker(source.text[start:end])
        own = frozenset(terms(text))
        if len(own) < FEWEST_TERMS or text.startswith(("#", "|")):
            continue
        if weights is None:
            yield _Sentence(index, start, text, own, 0.0)
            continue
        shared = own & weights.keys()
        if not shared:
            continue
        weight = math.fsum([*map(weights.__getitem__, shared), *(0.5 * weights[term] for term in above - shared)])
        score = round(weight / everything * 10.0 / (10.0 + index), _PLACES)
        yield _Sentence(index, start, text, own, score)


def _heading(source: Source) -> str:
    return "\n".join(text for text in (source.title, source.heading) if text)


def _whole(source: Source) -> str:
    return f"{_heading(source)}\n{source.text}"


# --- code ---------------------------------------------------------------------------------------

_FENCE = re.compile(r" {0,3}(`{3,}+|~{3,}+)([^\n`]*+)$")
_TICKS = re.compile("`++")


def code_answer(question: str, sources: Sequence[LabelledSource], most_characters: int = 4 * MOST_CHARACTERS) -> str:
    r"""Return the code of the source that matches a question best, as a fenced block, its label on the next line.

    Sources are ranked by BM25 (`core.ranking.bm25.scores`) of title, heading and text; ties keep their rank. The code
    is the corpus's own code field, else the first fenced block of the text.

    >>> from worker.core.prompting.context import LabelledSource, Source
    >>> example = Source("Rock beat", code='sound("bd sd")')
    >>> print(code_answer("a rock beat", [LabelledSource("S1", 0, example)]))
    ```
    sound("bd sd")
    ```
    [S1]

    Args:
        question: any text.
        sources: best first.
        most_characters: most characters of the code; sources with longer code are skipped.
    """
    codes = [_code(one.source) for one in sources]
    fits = scores(question, [_whole(one.source) for one in sources])
    ranked = sorted(range(len(sources)), key=lambda i: -fits[i])
    for i in ranked:
        if fits[i] > 0 and codes[i].strip() and len(codes[i]) <= most_characters:
            return f"{_fenced(codes[i])}\n[{sources[i].label}]"
    return NO_ANSWER


def _fenced(code: str) -> str:
    """Return a code block whose fence is longer than any run of backticks in it."""
    longest = max(map(len, _TICKS.findall(code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{code}\n{fence}"


def _code(source: Source) -> str:
    return (source.code or next(_fenced_blocks(source.text), "")).strip("\n")


def _fenced_blocks(text: str) -> Iterator[str]:
    """Yield the contents of closed fenced blocks."""
    fence, lines = "", list[str]()
    for line in text.split("\n"):
        if not fence:
            opening = _FENCE.match(line)
            fence = opening[1] if opening else ""
        elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            yield "\n".join(lines)
            fence, lines = "", []
        else:
            lines.append(line)
