"""The sentences of an answer, and which labels stand with each."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.core.citations.labels import LabelReading, classify
from worker.core.text.sentences import split_sentences, with_short_ones
from worker.core.text.spans import paragraphs
from worker.core.text.unicode_data import known

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from worker.core.citations.labels import LabelReport
    from worker.core.text.spans import Span


PASSAGE = re.compile(
    r"""
      (?<!\w)"(?P<straight>[^"“”„«»]++)"(?!\w)
    | “(?P<curly>[^"“”„«»]++)”
    | „(?P<low>[^"“”„«»]++)[“”]
    | «(?P<angle>[^"“”„«»]++)»
    | »(?P<inner>[^"“”„«»]++)«
    """,
    re.VERBOSE,
)
"""A passage in quotation marks; its last group is what stands between them. Beside straight ones no word: inches."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer.

    Attributes:
        span: where it stands in the answer, with the labels inside it, without those after it.
        text: what it says, without labels, and without the mark of a list or a quote before it.
        labels: the given labels that stand with it, by number, each once.
    """

    span: Span
    text: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statements:
    """An answer taken apart.

    Attributes:
        sentences: in their order.
        labels: what the answer did with the labels given.
    """

    sentences: tuple[Statement, ...]
    labels: LabelReport


def read_statements(answer: str, given_labels: Collection[str]) -> Statements:
    """Take an answer apart, in time linear in it.

    A label stands with the sentence that it is in or that it follows in the same paragraph, before the full stop or
    after it; one before the first sentence of a paragraph stands with that; one in a paragraph without a sentence with
    none. A passage in quotation marks belongs to one sentence, however many it quotes; one word, as a no, to the next
    sentence. Fenced code, headings, a closing list of sources and what has no letter or digit are no sentences.

    >>> statements = read_statements("It hums [S2]. It may burn! [S1, S9] Or not.", ["S1", "S2"])
    >>> [(sentence.text, sentence.labels) for sentence in statements.sentences]
    [('It hums.', ('S2',)), ('It may burn!', ('S1',)), ('Or not.', ())]
    >>> statements.labels.unknown
    (('S9', (32, 34)),)

    Raises:
        InvalidJob: a given label has another form than ``S1``.
    """
    reading = LabelReading(answer)
    report = classify(answer, dict.fromkeys(given_labels, ""), reading=reading)
    blocks = list(_blocks(answer[: reading.end], reading.brackets))
    labels = _labels_by_sentence(report, blocks)
    texts = _Texts(answer, reading.brackets)
    spans = [span for block in blocks for span in block.sentences]
    return Statements(tuple(Statement(span, texts.of(span), labels.get(span, ())) for span in spans), report)


_MARKER = re.compile(r"(?>(?:(?:[-*+•–>]|\d{1,3}[.)])\s++)+)")
_WORD = re.compile(r"\w")


def without_marker(text: str) -> str:
    """A sentence without the mark of a list or a quote before it.

    >>> without_marker("> 2. Hum."), without_marker("-48 V")
    ('Hum.', '-48 V')
    """
    marker = _MARKER.match(text)
    return text[marker.end() :] if marker else text


@dataclass(frozen=True, slots=True)
class _Block:
    """A paragraph, and where its sentences stand."""

    span: Span
    sentences: tuple[Span, ...]

    def sentence_at(self, place: int) -> Span:
        """The sentence that a place is in or comes after; before the first: the first."""
        return self.sentences[max(bisect_right(self.sentences, place, key=_start) - 1, 0)]


def _start(span: Span) -> int:
    return span[0]


def _blocks(answer: str, brackets: Sequence[Span]) -> Iterator[_Block]:
    """The paragraphs that have a sentence."""
    # A label after a full stop must not look like the beginning of the next sentence.
    blank = _blanked(known(answer), brackets)
    for start, end in paragraphs(answer):
        spans = (
            (start + begin, start + stop) for begin, stop in _unquoted_sentences(blank[start:end], answer[start:end])
        )
        if saying := tuple(span for span in spans if _says_something(blank, span)):
            yield _Block((start, end), saying)


def _unquoted_sentences(text: str, labelled_text: str) -> list[Span]:
    """Sentences, of which none ends inside quotation marks: a quote of several has its label after the last.

    One of one word is part of the next, unless a label stands between them.
    """
    passages = [match.span() for match in PASSAGE.finditer(text)]
    sentences: list[Span] = []
    for start, end in with_short_ones(labelled_text, split_sentences(text)):
        i = bisect_left(passages, start, key=_start) - 1
        if sentences and i >= 0 and start < passages[i][1]:
            sentences[-1] = sentences[-1][0], end
        else:
            sentences.append((start, end))
    return sentences


def _blanked(answer: str, brackets: Sequence[Span]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in brackets:
        pieces += [answer[position:start], " " * (end - start)]
        position = end
    return "".join([*pieces, answer[position:]])


def _says_something(text: str, span: Span) -> bool:
    return text[span[0]] != "#" and _WORD.search(text, *span) is not None


def _labels_by_sentence(report: LabelReport, blocks: Sequence[_Block]) -> dict[Span, tuple[str, ...]]:
    """By sentence, the labels that stand with it."""
    starts = [block.span[0] for block in blocks]
    by_sentence: defaultdict[Span, dict[str, None]] = defaultdict(dict)
    for used in report.used:
        for place, _ in used.spans:
            i = bisect_right(starts, place) - 1
            if i >= 0 and place < blocks[i].span[1]:
                by_sentence[blocks[i].sentence_at(place)][used.label] = None
    return {sentence: tuple(labels) for sentence, labels in by_sentence.items()}


class _Texts:
    """Cuts labels out of sentences, with the white space before them."""

    def __init__(self, answer: str, brackets: Sequence[Span]) -> None:
        self._answer = answer
        self._brackets = brackets

    def of(self, span: Span) -> str:
        """Return the text of a sentence."""
        position, end = span
        pieces: list[str] = []
        inside = slice(*(bisect_left(self._brackets, place, key=_start) for place in span))
        for start, stop in self._brackets[inside]:
            pieces.append(self._answer[position:start].rstrip())
            position = stop
        return without_marker("".join([*pieces, self._answer[position:end]]))
