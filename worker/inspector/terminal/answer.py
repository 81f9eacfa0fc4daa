"""Answer: its text with citation marks, and one source at its quoted words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from worker.inspector.rendering import words
from worker.inspector.terminal.lines import (
    BLANK,
    CITED,
    CURRENT,
    MOST,
    PROBLEM,
    QUIET,
    Line,
    badge,
    facts,
    heading,
    inline,
    joined,
    marked,
    named,
    note,
    paragraphs,
    plain,
)
from worker.inspector.view.answer import AnswerText
from worker.inspector.view.candidates import where
from worker.inspector.view.quotes import quote_facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.inspector.view.answer import Segment
    from worker.inspector.view.run import RunView
    from worker.inspector.view.sources import SourceView


def head_lines(view: RunView) -> Iterator[Line]:
    """Yield run, question, state and facts of an answer."""
    about = view.about
    yield Line(joined(*map(named, (about.subject_id, about.run_id, about.step)), separator=" / "))
    if about.question:
        yield Line(inline(about.question, 300, "bold"))
    degraded = (joined("degraded:", badge(code), separator=" ") for code in view.degraded)
    yield Line(joined(words(view.task), badge(view.status, "status"), badge(view.short_reason, "reason"), *degraded))
    if view.answer is None:
        yield from map(note, view.said)
    yield from facts((*about.job, *view.facts))
    for warning in view.warnings:
        yield Line(joined(Text("warning", "yellow"), inline(warning, 300)))


def answer_lines(view: RunView, current: int = 0) -> list[Line]:
    """Return the lines of an answer.

    Args:
        view: the answer.
        current: number of the citation mark that is chosen, from 0.
    """
    lines = [*head_lines(view), BLANK]
    if view.answer is None:
        return [*lines, note(without_answer(view))]
    return [*lines, *paragraphs(answer_text(view.answer, current)), BLANK, *_known(view), *_uncited(view)]


def without_answer(view: RunView) -> str:
    """Return the sentence that says why there is no answer."""
    if view.short_reason == "changed":
        return "The recorded answer is withheld: a source changed or is no longer visible to you."
    if view.task != "run_pipeline":
        return "A search has no answer, only chunks: see the trace."
    return "There is no answer: nothing was found, or the job stopped before."


def answer_text(answer: AnswerText, current: int = -1) -> Text:
    """Return the text with its marks, one of them chosen; sentences with few words of their sources are slanted."""
    text, number, room = Text(), -1, MOST
    for segment in answer.segments:
        number += bool(segment.labels)
        text.append_text(plain(segment.text[:room], _style(segment, is_current=number == current)))
        room -= len(segment.text)
        if room < 0:
            return text.append(f" … {-room:,} more characters and what follows", QUIET)
    return text


def _style(segment: Segment, *, is_current: bool) -> str:
    if segment.labels:
        return CURRENT if is_current else CITED
    if segment.problem:
        return PROBLEM
    return "italic" if segment.is_weak else ""


def cited_labels(view: RunView) -> list[str]:
    """Return the label of each citation mark of an answer, in order."""
    return [segment.labels[0] for segment in view.answer.segments if segment.labels] if view.answer else []


def _known(view: RunView) -> Iterator[Line]:
    yield from map(note, view.said)
    answer = view.answer or AnswerText(())
    if any(segment.is_weak and segment.text.strip() for segment in answer.segments):
        yield note("in italics: sentences of which less than half is in the cited sources")
    for kind, names in (("unknown", answer.unknown), ("unreadable", answer.unreadable)):
        for name in names:
            yield Line(joined(Text(f"{kind} mark", PROBLEM), inline(name, 40)))


def _uncited(view: RunView) -> Iterator[Line]:
    labels = [source.label for source in view.sources if not source.is_cited]
    if labels:
        yield note(f"not cited: {', '.join(labels)}")


def source_lines(source: SourceView, *, is_whole: bool = False) -> list[Line]:
    """Return the lines of a source: title, place, verdict, its text at the quoted words, and what became of quotes.

    Args:
        source: the source.
        is_whole: True for the whole text, False for what is around the quotes.
    """
    pieces = source.pieces if is_whole else source.excerpt
    shown_length = sum(len(piece.text) for piece in pieces)
    cut = note(f"{shown_length:,} of {len(source.text):,} characters; Enter: the whole text")
    return [
        *source_head(source),
        *quote_lines(source),
        *([cut] if shown_length < len(source.text) else []),
        BLANK,
        *paragraphs(marked(pieces)),
    ]


def source_head(source: SourceView) -> Iterator[Line]:
    """Yield label, title, verdict and place of a source."""
    label = Text(f"[{source.label}]", "bold")
    yield Line(joined(label, inline(source.title, 200, "bold"), badge(source.verdict, "quote")))
    ids = (named(source_id, 100) for source_id in (source.corpus, source.chunk_id, source.url) if source_id)
    yield Line(joined(inline(where(source.page, source.section), 200), *ids, separator=" · "), 5)


def quote_lines(source: SourceView) -> Iterator[Line]:
    """Yield what is said of each quote of a source, with its verdict where there are several."""
    for quote in source.quotes:
        facts = [*quote_facts(quote, source.text)]
        if facts and len(source.quotes) > 1:
            yield Line(badge(quote.verdict, "quote"), 5)
        for name, pieces in facts:
            yield from paragraphs(joined(Text(name, QUIET), marked(pieces)), 5)


def turn_lines(view: RunView) -> list[Line]:
    """Return the lines of an answer in a conversation: its text, and one line for each cited source."""
    if view.answer is None:
        return [note(without_answer(view))]
    lines = [*paragraphs(answer_text(view.answer)), *map(note, view.said), BLANK]
    return lines + [line for source in view.sources if source.is_cited for line in source_head(source)]


def no_source(view: RunView) -> list[Line]:
    """Return the lines in place of a source: the answer has no mark that leads to one."""
    if not view.sources:
        return [heading("Sources"), note("No source is cited.")]
    return [heading("Sources"), *(line for source in view.sources for line in source_head(source))]
