"""Language model `extractive`: answers with sentences of the sources, verbatim, without a real model.

Offline and deterministic, with no model run: words decide between sentences, the order of the sources between sources.

A sentence's relevance is the weight of the question's terms in it, plus half the weight of those that only what it is
read with has (its title, its headings, the sentence before it), as a share of the weight of all the question's terms;
of a title that has nearly all of them, nearly the whole weight. A code of the question is one more term
(`core.text.codes`). A term's weight is its idf over the sentences (`core.ranking.bm25.idf`). The score is relevance
plus 1 / (2 * rank of the source); half of it where the sentence is not whole (`core.text.units`). A heading is read
with what follows it, and never quoted; nor is a question.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from worker.core.citations.statements import read_statements, without_marker
from worker.core.ranking.bm25 import idf, scores
from worker.core.text.codes import codes, named
from worker.core.text.embedded_text import LEVELS
from worker.core.text.terms import search_terms
from worker.core.text.units import units
from worker.core.text.words import WORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from worker.core.prompting.context import LabelledSource, Source
    from worker.core.text.codes import Code

NAME, VERSION = "extractive", "2"

NO_ANSWER = "No answer to this question was found in the sources."

DOUBTED = "The sources may not hold the answer to this question; the nearest passage:"
"""Beginning of an answer below whose evidence most questions have none."""

MOST_SENTENCES, MOST_CHARACTERS = 5, 1200

LEAST_RELEVANCE = 0.2
"""Lowest relevance of a quoted sentence."""

LEAST_SHARE = 0.5
"""Lowest score of a quoted sentence as a share of the best score."""

REPETITION = 0.8
"""Share of the longer sentence's terms from which one sentence counts as repeating another."""

ASKED = 0.9
"""Share of the question's weight from which a title asks the same: sentences below it answer, and need not repeat it.
Their title's terms then count that much."""

INTRODUCTION = 0.5
"""Share of the question's weight from which a heading that has it makes the rows below it answers."""

FEWEST_WORDS, FEWEST_IN_ROWS = 3, 2
"""Fewest words of a quoted sentence, and of a row or one with a number; what has fewer is a fragment."""

UNSEEN_SENTENCES = 10
"""Sentences without any term that count beside those of the sources: of one sentence alone no term would be rare."""

_DIGIT = re.compile(r"\d")

_PLACES = 12
"""Decimal places of a score: the last bit of a logarithm may differ between machines."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    """Sentence or row that may be quoted.

    Attributes:
        source: position of its source.
        place: its position among the sentences of the source.
        paragraph: where its paragraph begins; None for a row, which stands alone.
        text: its text.
        terms: its distinct terms.
        is_whole, is_heading: as `core.text.units` says.
        relevance, score: as this module says; 0 until they are known.
        adds: whether it is worth quoting beside a better one: whole, relevant, and with a term of the question itself.
    """

    source: int
    place: int
    paragraph: int | None
    text: str
    terms: frozenset[str]
    is_whole: bool
    is_heading: bool
    relevance: float = 0.0
    score: float = 0.0
    adds: bool = False


def answer(
    question: str,
    sources: Sequence[LabelledSource],
    most_sentences: int = MOST_SENTENCES,
    most_characters: int = MOST_CHARACTERS,
    least_relevance: float = LEAST_RELEVANCE,
) -> str:
    """Answer a question with sentences of the sources, each followed by its label, the best paragraph first.

    The best sentences are chosen, none that repeats a chosen one. Those that follow one another in a paragraph of the
    source do so in the answer.

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
        least_relevance: lowest relevance of the best sentence; 0 if the sources are known to be near the question, so
            that the best sentence may say it in other words.
    """
    quoted: list[_Sentence] = []
    left = most_characters
    for sentence in _ranked(question, sources):
        if len(quoted) == most_sentences or (quoted and sentence.score < LEAST_SHARE * quoted[0].score):
            break
        length = len(_cited([sentence], sources))
        is_worth_it = sentence.adds if quoted else sentence.relevance >= least_relevance
        if not is_worth_it or length > left or _repeats(sentence, quoted):
            continue
        if _is_read_as([[sentence]], sources):
            quoted.append(sentence)
            left -= length + len("\n\n")
    paragraphs = _paragraphs(quoted)
    # Marks of two sentences may mean something together, as the two ends of a comment do.
    if len(quoted) > 1 and not _is_read_as(paragraphs, sources):
        paragraphs = [quoted[:1]]
    return _joined(paragraphs, sources) or NO_ANSWER


def doubted(said: str) -> str:
    """Return an answer that shows the nearest passage, and says that it may be none.

    >>> is_refusal(doubted("Brass shines. [S1]")), is_refusal(doubted(NO_ANSWER)), is_refusal("Brass shines. [S1]")
    (True, True, False)
    """
    return said if said == NO_ANSWER else f"{DOUBTED}\n\n{said}"


def is_refusal(said: str) -> bool:
    """Return whether an answer says that the sources hold none, or may hold none."""
    return said == NO_ANSWER or said.startswith(DOUBTED)


def _paragraphs(quoted: Sequence[_Sentence]) -> list[list[_Sentence]]:
    """Return the paragraphs of an answer, that of the best sentence first."""
    runs: list[list[_Sentence]] = []
    for sentence in sorted(quoted, key=lambda sentence: (sentence.source, sentence.place)):
        if runs and sentence.paragraph is not None and _position(runs[-1][-1], 1) == _position(sentence):
            runs[-1].append(sentence)
        else:
            runs.append([sentence])
    rank = {_position(sentence): i for i, sentence in enumerate(quoted)}
    return sorted(runs, key=lambda run: min(rank[_position(sentence)] for sentence in run))


def _position(sentence: _Sentence, later: int = 0) -> tuple[int, int | None, int]:
    return sentence.source, sentence.paragraph, sentence.place + later


def _joined(paragraphs: Iterable[Iterable[_Sentence]], sources: Sequence[LabelledSource]) -> str:
    return "\n\n".join(_cited(paragraph, sources) for paragraph in paragraphs)


def _cited(sentences: Iterable[_Sentence], sources: Sequence[LabelledSource]) -> str:
    return " ".join(f"{sentence.text} [{sources[sentence.source].label}]" for sentence in sentences)


def _is_read_as(paragraphs: Sequence[Sequence[_Sentence]], sources: Sequence[LabelledSource]) -> bool:
    """Return whether an answer is read as just these sentences and labels: not if a source's own label is read."""
    text = _joined(paragraphs, sources)
    read = read_statements(text, [one.label for one in sources])
    quoted = [sentence for paragraph in paragraphs for sentence in paragraph]
    expected = [(sentence.text, (sources[sentence.source].label,)) for sentence in quoted]
    labels = read.labels
    look_alikes = (label for label, _ in labels.unreadable)
    return (
        [(statement.text, statement.labels) for statement in read.sentences] == expected
        and sum(len(used.spans) for used in labels.used) == len(quoted)
        and not labels.unknown
        and not any(_SQUARE.search(label) for label in look_alikes)
    )


_SQUARE = re.compile(r"[\[\]［］【】]")


def _repeats(sentence: _Sentence, quoted: Sequence[_Sentence]) -> bool:
    return any(
        len(sentence.terms & other.terms) >= REPETITION * max(len(sentence.terms), len(other.terms)) for other in quoted
    )


# --- relevance ----------------------------------------------------------------------------------


def _ranked(question: str, sources: Sequence[LabelledSource]) -> list[_Sentence]:
    """Return the sentences with their scores, best first."""
    asked_codes = codes(question)
    by_source = [[*_sentences(i, labelled.source, asked_codes)] for i, labelled in enumerate(sources)]
    contents = [sentence.terms for sentences in by_source for sentence in sentences]
    asked = {*search_terms(question), *("".join(code.pieces) for code in asked_codes)}
    weights = idf(sorted(asked), [*contents, *[frozenset[str]()] * UNSEEN_SENTENCES])
    # What names none of the question's codes is about something else, where other sources name one.
    naming = [i for i, labelled in enumerate(sources) if named(whole_text(labelled.source), asked_codes)]
    ranked = [
        sentence
        for i in naming or range(len(sources))
        for sentence in _scored(by_source[i], _terms_of(_heading(sources[i].source), asked_codes), weights)
        if _says_enough(sentence) and not _is_question(sentence)
    ]
    ranked = _about(asked_codes, ranked) if naming else ranked
    return sorted(ranked, key=lambda sentence: (-sentence.score, sentence.source, sentence.place))


def _about(asked_codes: AbstractSet[Code], sentences: Sequence[_Sentence]) -> list[_Sentence]:
    """Return the sentences without those that name other codes alone, if there is one that names a code asked for."""
    names = ["".join(code.pieces) for code in asked_codes]
    are_naming = [not sentence.terms.isdisjoint(names) for sentence in sentences]
    if not any(are_naming):
        return [*sentences]
    pairs = zip(sentences, are_naming, strict=True)
    return [sentence for sentence, is_naming in pairs if is_naming or not codes(sentence.text)]


def _is_question(sentence: _Sentence) -> bool:
    return sentence.text.rstrip("*_ ").endswith(("?", "\uff1f", "\u061f"))


def _says_enough(sentence: _Sentence) -> bool:
    # A sentence without spaces is one word, and each sign of it a term.
    words = max(len(WORD.findall(sentence.text)), len(sentence.terms))
    is_value = sentence.paragraph is None or _DIGIT.search(sentence.text)  # such as "180 mm."
    return words >= (FEWEST_IN_ROWS if is_value else FEWEST_WORDS)


def _sentences(index: int, source: Source, asked_codes: AbstractSet[Code] = frozenset()) -> Iterator[_Sentence]:
    own_headings = {source.title, *(source.heading or "").split(LEVELS)}
    for place, unit in enumerate(units(source.text)):
        line = source.text[unit.start : unit.end]
        text = without_marker(line)
        paragraph = None if unit.is_row else unit.paragraph
        is_sentence = unit.is_whole and not unit.is_row
        is_heading = unit.is_heading or (line in own_headings and not is_sentence)
        content = _terms_of(text, asked_codes)
        yield _Sentence(index, place, paragraph, text, content, unit.is_whole, is_heading)


def _terms_of(text: str, asked_codes: AbstractSet[Code]) -> frozenset[str]:
    return frozenset(search_terms(text)).union("".join(code.pieces) for code in named(text, asked_codes))


def _scored(
    sentences: Iterable[_Sentence], heading_terms: AbstractSet[str], weights: Mapping[str, float]
) -> Iterator[_Sentence]:
    """Yield the sentences of a source with their scores, in linear time: the heading is read once."""
    above = weights.keys() & heading_terms
    weight_above = _weight(above, weights)
    everything = _weight(weights, weights) or 1.0
    is_asked = weight_above >= ASKED * everything
    share_above = ASKED if is_asked else 0.5
    terms_before, is_introduced, is_below_heading = frozenset[str](), False, False
    for are_rows, run in groupby(sentences, lambda sentence: sentence.paragraph is None and not sentence.is_heading):
        run_sentences = [*run]
        # Of rows of which one has a word of the question that their heading lacks, the others answer nothing.
        own = weights.keys() - terms_before - above
        has_own = are_rows and any(sentence.terms & own for sentence in run_sentences)
        for sentence in run_sentences:
            shared = sentence.terms & weights.keys()
            if sentence.is_heading:
                is_header = sentence.paragraph is None and is_below_heading
                terms_before = shared | terms_before if is_header else shared
                is_introduced = is_below_heading = True
                continue
            is_below_heading = False
            beside = weight_above - _weight(shared & above, weights) + _weight(terms_before - shared - above, weights)
            # A title alone says nothing of one sentence rather than another, nor a sentence before rows of one row.
            is_listed = is_introduced and not has_own and _weight(terms_before, weights) >= INTRODUCTION * everything
            is_meant = bool(shared or (terms_before and not are_rows) or is_listed or is_asked)
            weight = _weight(shared, weights) + beside * share_above if is_meant else 0.0
            relevance = round(weight / everything, _PLACES)
            score = (relevance + 1 / (2 * (1 + sentence.source))) * (1.0 if sentence.is_whole else 0.5)
            adds = bool(shared or is_listed) and sentence.is_whole and relevance >= LEAST_RELEVANCE
            yield replace(sentence, relevance=relevance, score=round(score, _PLACES), adds=adds)
            if not are_rows:
                terms_before, is_introduced = shared, False


def _weight(of: Iterable[str], weights: Mapping[str, float]) -> float:
    return math.fsum(map(weights.__getitem__, of))


def _heading(source: Source) -> str:
    return "\n".join(text for text in (source.title, source.heading) if text)


def says_something(source: Source) -> bool:
    """Return whether a source has a sentence or a row; headings alone say nothing.

    >>> from worker.core.prompting.context import Source
    >>> says_something(Source("# Ribbons")), says_something(Source("It hums."))
    (False, True)
    """
    return not all(sentence.is_heading for sentence in _sentences(0, source))


def whole_text(source: Source) -> str:
    """Return a source's text, its title and heading before it."""
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
    fits = scores(question, [whole_text(one.source) for one in sources])
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
