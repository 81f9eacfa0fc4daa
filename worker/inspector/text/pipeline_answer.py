"""Text of an answer of the pipeline: the answer, its cited sources, its costs, how to continue."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding

from worker.adapters.terminal import styled
from worker.core.prompting.costs import written
from worker.inspector.text.parts import fact_line, marked, verdict_cell
from worker.inspector.view.candidates import where
from worker.inspector.view.pieces import Piece
from worker.inspector.view.quotes import quote_facts, sentences_of
from worker.inspector.view.wording import LABEL, MARKS, QUIET, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from retrieval_client.contract.answers import Cited, PipelineAnswer
    from retrieval_client.contract.results import Cost
    from worker.inspector.view.run import RunView
    from worker.inspector.view.sources import SourceView

SNIPPET = 240
INDENTED = (0, 0, 0, 5)
_LABELS = r"\[S\d+(?:\s*[,;]\s*S\d+)*\]"


def answer_report(view: RunView, *, brief: bool = False) -> Group:
    """Build the report of an answer of the pipeline, if ``brief`` with a line for each source; a search has none."""
    if view.response is None:
        return Group(styled(("a search has chunks and no answer", QUIET)))
    return Group(*_report_lines(view.response, view, brief))


def _report_lines(answer: PipelineAnswer, view: RunView, brief: bool) -> Iterator[RenderableType]:
    yield Padding(_answer_text(answer), (0, 0, 1, 2))
    yield from map(styled, view.said)
    if brief:
        yield from map(_source_line, answer.citations)
    else:
        yield from _source_blocks(answer, view.sources)
        yield styled((_caption(answer), QUIET))
    if answer.unknown_labels:
        yield fact_line("unknown labels", ", ".join(answer.unknown_labels), "red")
    if answer.unreadable_labels:
        yield fact_line("unreadable labels", ", ".join(answer.unreadable_labels), "red")
    if answer.costs:
        yield fact_line("costs", costs_line(answer.costs))
    for warning in answer.trace.warnings:
        yield fact_line("warning", warning, "yellow")


def continue_line(answer: PipelineAnswer) -> Text:
    """Return the option of `ask` that continues from an answer."""
    return fact_line("continue", f"--after {answer.response_id}   (conversation {answer.conversation_id})")


def _answer_text(answer: PipelineAnswer) -> Text:
    if answer.answer is not None:
        answer_text = styled(answer.answer)
        answer_text.highlight_regex(_LABELS, LABEL)
        return answer_text
    reasons = {
        ("ok", "changed"): "the recorded answer is held back: a source changed or is no longer visible",
        ("ok", None): f"{len(answer.package.candidates)} sources, and no answer yet",
    }
    nothing = "no source fits" if answer.package.candidates else "nothing was found"
    return styled(reasons.get((answer.status, answer.short_reason), f"{nothing}, so no model was asked"))


def _source_blocks(answer: PipelineAnswer, sources: Sequence[SourceView]) -> Iterator[RenderableType]:
    """Yield for each cited source a line for each of its citations, and its words: of its quotes, or how it begins."""
    citations: dict[str, list[Cited]] = {}
    for citation in answer.citations:
        citations.setdefault(citation.label, []).append(citation)
    for source in sources:
        yield from map(_source_line, citations.get(source.label, ()))
        if source.label in citations and not any(quote.spans for quote in source.quotes):
            yield _fact("source", [Piece(short(source.text, SNIPPET), 0)])
        yield from _quote_blocks(source, is_excerpt_shown=False)


def _source_line(citation: Cited) -> Text:
    """Return label and place of a citation, and what is said of the words that are quoted with it."""
    document = citation.source_path or citation.url_or_doi
    section = f"in {short(citation.section, SNIPPET)}" if citation.section else ""
    place = ", ".join(filter(None, (document, where(citation.page_number, citation.heading), section)))
    verdict = styled(("nothing is quoted", QUIET)) if citation.quote is None else verdict_cell("quote", citation.quote)
    return styled((f"[{citation.label}]", LABEL), f" {place}: ") + verdict


def _quote_blocks(source: SourceView, *, is_excerpt_shown: bool) -> Iterator[RenderableType]:
    """Yield what is said of the quotes of a source: once where they stand word for word, and of each other one.

    Of whole sentences, which an excerpt shows, there is nothing more to say.
    """
    exact = [quote for quote in source.quotes if quote.verdict == "verbatim"]
    blocks = [(quote.verdict, [*quote_facts(quote, source.text)]) for quote in source.quotes if quote not in exact]
    if exact and (any(quote.before or quote.after for quote in exact) or not is_excerpt_shown):
        blocks.insert(0, ("verbatim", [("source", sentences_of(exact, source.text))]))
    for verdict, facts in blocks:
        if len(blocks) > 1:
            yield Padding(verdict_cell("quote", verdict), INDENTED)
        yield from (_fact(name, pieces) for name, pieces in facts)


def _fact(name: str, pieces: Iterable[Piece[Any]]) -> Padding:
    return Padding(styled((f"{name}: ", MARKS["around"]), *marked(pieces, is_flat=False)), INDENTED)


def source_report(source: SourceView) -> Group:
    """Build the report of a source: its place, what is to be said of each quote, and its text at the quoted words."""
    title = styled((f"[{source.label}]", LABEL), f" {source.title}  ")
    place = where(source.page, source.section)
    names = " · ".join(name for name in (place, source.corpus, source.chunk_id, source.url) if name)
    excerpt = source.excerpt
    shown_length = sum(len(piece.text) for piece in excerpt)
    start = excerpt[0].start if excerpt else 0
    end = start + shown_length
    cut = [fact_line("shown", f"{shown_length:,} of {len(source.text):,} characters")]
    return Group(
        title + verdict_cell("quote", source.verdict) if source.verdict else title,
        styled((names, QUIET)),
        *_quote_blocks(source, is_excerpt_shown=True),
        *(cut if shown_length < len(source.text) else []),
        styled("\n… " if start else "\n", *marked(excerpt, is_flat=False), " …" if end < len(source.text) else ""),
    )


def costs_line(costs: Sequence[Cost]) -> str:
    """Return purpose, number of calls and usage of each model, and the sum."""
    groups: dict[tuple[str, str], list[Cost]] = {}
    for cost in costs:
        groups.setdefault((cost.kind, cost.model), []).append(cost)
    model_costs = [f"{kind} {model} ×{len(calls)}: {_took(calls)}" for (kind, model), calls in groups.items()]
    return "; ".join(model_costs) + (f"; together {_sum(costs)}" if len(groups) > 1 else "")


def _took(calls: Sequence[Cost]) -> str:
    units = [call.search_units for call in calls if call.search_units is not None]
    if units:
        return f"{sum(units)} search units, {_sum(calls)}"
    cached = sum(call.cached_tokens for call in calls)
    sent_tokens, generated_tokens = (
        _count([call.input_tokens for call in calls]),
        _count([call.output_tokens for call in calls]),
    )
    return f"{sent_tokens} ({cached} cached) + {generated_tokens} tokens, {_sum(calls)}"


def _sum(calls: Sequence[Cost]) -> str:
    """Return the cost of calls; a sum with an unknown part is unknown."""
    known_costs = [Decimal(call.cost) for call in calls if call.cost is not None]
    return written(sum(known_costs, Decimal(0))) or "" if len(known_costs) == len(calls) else "no price"


def _count(tokens: Sequence[int | None]) -> str:
    known_counts = [count for count in tokens if count is not None]
    return str(sum(known_counts)) if len(known_counts) == len(tokens) else "?"


def _caption(answer: PipelineAnswer) -> str:
    """Return how many sources are cited, and what found them."""
    labels = len({citation.label for citation in answer.citations})
    cache_note = " (from the cache)" if answer.trace.cache == "hit" else ""
    profile = answer.trace.search["profile"]
    return f"{labels} of {len(answer.package.source_labels)} sources cited, found by profile {profile}{cache_note}"
