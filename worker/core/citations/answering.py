"""Support of an answer by its sources: citations, and for each sentence what supports it.

``supported`` of a sentence is a number in [0, 1]:

- 1.0 if the whole sentence stands, ``verbatim`` or ``normalised``, in a source whose label stands with it
  (`core.citations.quoting`);
- else the share of its different terms (`worker.core.text.terms`) that stand in the sources whose labels stand with it,
  taken together; those of a quote with any other verdict do not count as standing there;
- 0.0 if no given label stands with it, and ``None`` if it has no term, so that there is nothing to support.

So it says how much of the wording is in the sources, and nothing of meaning: a denial has nearly all words of what it
denies. Passages in quotation marks are checked word for word, each with its own verdict.

Time is bounded: the quotes of one answer take at most `MAX_STEPS` of work together, and a quote that needs more than
its share is ``not_checked``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.core.citations.budget import STEPS_PER_JOB, SearchBudget
from worker.core.citations.quoting import QuotedChunk, check_quote
from worker.core.citations.quoting.differences import ACCEPTED
from worker.core.citations.quoting.reading import Reading
from worker.core.citations.statements import PASSAGE, read_statements
from worker.core.text.terms import terms
from worker.core.text.unicode_data import known
from worker.core.text.words import WORD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from worker.core.citations.quoting import LeftOut, PutIn, QuoteFinding, Verdict
    from worker.core.citations.quoting.differences import Difference
    from worker.core.citations.statements import Statement, Statements
    from worker.core.text.spans import Span

MAX_STEPS = STEPS_PER_JOB
"""Work that the quotes of one answer may take, as `worker.core.citations.budget` counts it."""

SHORTEST_PASSAGE = 2
"""Words that a passage in quotation marks needs to be a quote; one word may as well be a name or a distance."""

SNIPPET = 300
"""Characters of a snippet at most."""


@dataclass(frozen=True, slots=True)
class QuoteCheck:
    """The check of one quote in an answer.

    Attributes:
        quote: the passage in quotation marks, without them; or the whole sentence, without labels.
        verdict: as `core.citations.quoting` says, of the sources whose labels stand with the sentence.
        label: the source where it stands, ``None`` if in none of them.
        elsewhere: labels of the other sources where a misattributed quote stands.
        spans, differences, before, after, left_out, put_in: as `core.citations.quoting.Place` has them, in that source.
    """

    quote: str
    verdict: Verdict
    label: str | None = None
    elsewhere: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    differences: tuple[Difference, ...] = ()
    before: str | None = None
    after: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    put_in: tuple[PutIn, ...] = ()

    @classmethod
    def of(cls, quote: str, finding: QuoteFinding, labels: Sequence[str]) -> QuoteCheck:
        """Return what was found of a quote, in chunks of these labels."""
        place = finding.place
        if place is None:
            return cls(quote, finding.verdict, elsewhere=finding.elsewhere)
        facts = place.spans, place.differences, place.before, place.after, place.left_out, place.put_in
        return cls(quote, finding.verdict, labels[place.chunk], (), *facts)


@dataclass(frozen=True, slots=True)
class CheckedSentence:
    """A sentence of an answer, and what supports it.

    Attributes:
        span: where it stands in the answer.
        labels: the given labels that stand with it, by number.
        supported: in [0, 1] or ``None``, as this module says.
        quotes: the sentence itself if it stands in a cited source; else its passages in quotation marks. None is
            checked where no label stands with the sentence.
        is_copied: True if the whole sentence stands in a cited source, ``verbatim`` or ``normalised``.
    """

    span: Span
    labels: tuple[str, ...]
    supported: float | None
    quotes: tuple[QuoteCheck, ...]
    is_copied: bool = False


@dataclass(frozen=True, slots=True)
class CitedSource:
    """A label that an answer uses.

    Attributes:
        label: the label.
        spans: where it stands in the answer.
        sentences: indices of the sentences that it stands with.
        verdict: the worst of what is quoted with it; ``None`` if nothing is quoted word for word.
        snippet: of the source: its first quoted passage, else how it begins; in one line, at most 300 characters.
    """

    label: str
    spans: tuple[Span, ...]
    sentences: tuple[int, ...]
    verdict: Verdict | None
    snippet: str


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """An answer, checked.

    Attributes:
        citations: used labels, by number.
        sentences: in their order.
        unused: given labels that the answer does not use, by number.
        unknown: what looks like a label and was not given, as written, and where; never mapped to a source.
        unreadable: what else looks like a label and could not be read, as written, and where.
        supported: the mean over the sentences that have a number; ``None`` if none has.
    """

    citations: tuple[CitedSource, ...]
    sentences: tuple[CheckedSentence, ...]
    unused: tuple[str, ...]
    unknown: tuple[tuple[str, Span], ...]
    unreadable: tuple[tuple[str, Span], ...]
    supported: float | None


def check_answer(answer: str, sources: Mapping[str, str], accepted: AbstractSet[str] = ACCEPTED) -> AnswerReport:
    """Check an answer against the sources that it was given.

    >>> report = check_answer("It hums at 50 Hz [S1]. It may burn [S2].", {"S1": "It hums at 50 Hz.", "S2": "No fire."})
    >>> [(sentence.supported, [quote.verdict for quote in sentence.quotes]) for sentence in report.sentences]
    [(1.0, ['verbatim']), (0.0, [])]
    >>> [(cited.label, cited.sentences, cited.verdict) for cited in report.citations], report.supported
    ([('S1', (0,), 'verbatim'), ('S2', (1,), None)], 0.5)

    Args:
        answer: any text.
        sources: label (``S1``, …) → the source's own text, not what the context made of it.
        accepted: kinds of differences that a ``normalised`` quote may have.

    Raises:
        InvalidJob: a given label has another form.
    """
    statements = read_statements(answer, sources)
    quotes = _Quotes(sources, statements.sentences, accepted)
    words = {label: frozenset(terms(sources[label])) for label in {used.label for used in statements.labels.used}}
    sentences = tuple(_checked(statement, quotes, words) for statement in statements.sentences)
    numbers = [sentence.supported for sentence in sentences if sentence.supported is not None]
    return AnswerReport(
        tuple(_citations(statements, sentences, sources)),
        sentences,
        statements.labels.unused,
        statements.labels.unknown,
        statements.labels.unreadable,
        math.fsum(numbers) / len(numbers) if numbers else None,
    )


# --- one sentence -------------------------------------------------------------------------------


_COPIED = frozenset({"verbatim", "normalised"})


def _checked(statement: Statement, quotes: _Quotes, words: Mapping[str, frozenset[str]]) -> CheckedSentence:
    checks = quotes.of(statement) if statement.labels else ()
    is_copied = any(check.quote == statement.text and check.verdict in _COPIED for check in checks)
    sentence_terms = frozenset(terms(statement.text))
    supported = None
    if sentence_terms:
        missing = sentence_terms.difference(*(words[label] for label in statement.labels))
        missing |= {
            term for check in checks if check.verdict not in _COPIED for term in terms(check.quote)
        } & sentence_terms
        supported = 1.0 if is_copied else (len(sentence_terms) - len(missing)) / len(sentence_terms)
    return CheckedSentence(statement.span, statement.labels, supported, checks, is_copied)


_CITED = "cited"


class _Quotes:
    """Checks quotes, as long as that does not take too much searching."""

    def __init__(self, sources: Mapping[str, str], statements: Sequence[Statement], accepted: AbstractSet[str]) -> None:
        self._accepted = accepted
        self._sources = sources
        self._readings: dict[str, Reading] = {}
        cited = [statement.text for statement in statements if statement.labels]
        self._budget = SearchBudget(MAX_STEPS, sum(1 + len(list(_passages(text))) for text in cited))

    def of(self, statement: Statement) -> tuple[QuoteCheck, ...]:
        """The whole sentence if it is found; else each of its passages, found or not."""
        sentence_check = self._check(statement.text, statement.labels, statement.labels)
        if sentence_check.label and sentence_check.verdict != "altered":
            return (sentence_check,)
        return tuple(self._check(passage, statement.labels, self._sources) for passage in _passages(statement.text))

    def _check(self, quote: str, cited: Sequence[str], searched: Sequence[str] | Mapping[str, object]) -> QuoteCheck:
        """A quote in the cited sources; ``misattributed`` if it stands only in others of those to be searched."""
        names = list(searched)
        cited_labels = frozenset(cited)
        chunks = [QuotedChunk(_CITED if label in cited_labels else label, self._read(label)) for label in names]
        finding = check_quote(quote, _CITED, chunks, self._budget, self._accepted)
        return QuoteCheck.of(quote, finding, names)

    def _read(self, label: str) -> Reading:
        """Read a source, once: most answers cite few of them."""
        if label not in self._readings:
            self._readings[label] = Reading(self._sources[label])
        return self._readings[label]


def _passages(text: str) -> Iterator[str]:
    for match in PASSAGE.finditer(known(text)):
        passage = match.lastgroup or 0
        if len(WORD.findall(match[passage])) >= SHORTEST_PASSAGE:
            yield text[slice(*match.span(passage))]


# --- one label ----------------------------------------------------------------------------------

_WORST_FIRST: tuple[Verdict, ...] = (
    "not_found",
    "misattributed",
    "not_checked",
    "altered",
    "elided",
    "normalised",
    "verbatim",
)


def _citations(
    statements: Statements, sentences: Sequence[CheckedSentence], sources: Mapping[str, str]
) -> Iterator[CitedSource]:
    by_label: dict[str, list[int]] = {used.label: [] for used in statements.labels.used}
    for i, sentence in enumerate(sentences):
        for label in sentence.labels:
            by_label[label].append(i)
    for used in statements.labels.used:
        inside = by_label[used.label]
        # Of a quote that stands in one of several cited sources the others have nothing to answer for.
        quotes = [
            check for i in inside for check in sentences[i].quotes if check.label is None or check.label == used.label
        ]
        yield CitedSource(
            used.label,
            used.spans,
            tuple(inside),
            min((check.verdict for check in quotes), key=_WORST_FIRST.index, default=None),
            _snippet(sources[used.label], [check.spans for check in quotes if check.label]),
        )


def _snippet(text: str, quoted: Sequence[Sequence[Span]]) -> str:
    start, end = (quoted[0][0][0], quoted[0][-1][1]) if quoted else (0, len(text))
    # White space may make it shorter, so twice as much is looked at.
    line = " ".join(text[start : min(end, start + 2 * SNIPPET)].split())
    return line if len(line) <= SNIPPET else line[: SNIPPET - 1].rstrip() + "…"
