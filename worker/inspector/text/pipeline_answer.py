"""Text of an answer of the pipeline: the answer, its cited sources, its costs, how to continue."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding

from worker.adapters.terminal import styled
from worker.core.prompting.costs import written
from worker.inspector.text.parts import FULL, fact_line, marked, table_of, verdict_cell
from worker.inspector.view.candidates import where
from worker.inspector.view.quotes import quote_facts
from worker.inspector.view.wording import LABEL, MARKS, QUIET, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from retrieval_client.contract.answers import Cited, PipelineAnswer
    from retrieval_client.contract.results import Cost
    from worker.core.citations.answering import QuoteCheck
    from worker.inspector.view.run import RunView
    from worker.inspector.view.sources import SourceView

SNIPPET = 240
PLACE = {"no_wrap": True, "max_width": 34}
_LABELS = r"\[S\d+(?:\s*[,;]\s*S\d+)*\]"


def answer_report(view: RunView, *, brief: bool = False) -> Group:
    """Build the report of an answer of the pipeline, if ``brief`` with a line for each source; a search has none."""
    if view.response is None:
        return Group(styled(("a search has chunks and no answer", QUIET)))
    return Group(*_report_lines(view.response, view, brief))


def _report_lines(answer: PipelineAnswer, view: RunView, brief: bool) -> Iterator[RenderableType]:
    yield Padding(_answer_text(answer), (0, 0, 1, 2))
    yield from map(styled, view.said)
    if answer.citations:
        yield styled("\n").join(map(_source_line, answer.citations)) if brief else sources_table(answer)
    if not brief:
        yield from (line for source in view.sources for quote in source.quotes for line in _quote_parts(quote, source))
    if answer.unknown_labels:
        yield fact_line("unknown labels", ", ".join(answer.unknown_labels), "red")
    if answer.unreadable_labels:
        yield fact_line("unreadable labels", ", ".join(answer.unreadable_labels), "red")
    if answer.costs:
        yield fact_line("costs", costs_line(answer.costs))
    for warning in answer.trace.warnings:
        yield fact_line("warning", warning, "yellow")
    if answer.response_id:
        yield fact_line("continue", f"--after {answer.response_id}   (conversation {answer.conversation_id})")


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


def sources_table(answer: PipelineAnswer) -> Table:
    """Build a table with one row per citation: the label's source, and the verdict of the quote check."""
    labels = len({citation.label for citation in answer.citations})
    caption = f"{labels} of {len(answer.package.source_labels)} sources cited, found by {_found_by(answer)}"
    sections = any(citation.section for citation in answer.citations)
    places = [(name, PLACE) for name in ("label", "document", "where", *(["in section"] if sections else []))]
    table = table_of(None, caption, *places, ("quote", {"max_width": 12}), ("text of the source", FULL))
    for citation in answer.citations:
        table.add_row(
            styled((citation.label, LABEL)),
            citation.source_path or citation.url_or_doi or "",
            where(citation.page_number, citation.heading),
            *([citation.section or ""] if sections else []),
            _quote(citation),
            short(citation.snippet, SNIPPET),
        )
    return table


def _source_line(citation: Cited) -> Text:
    document = citation.source_path or citation.url_or_doi
    place = ", ".join(filter(None, (document, where(citation.page_number, citation.heading))))
    return styled((f"[{citation.label}]", LABEL), f" {place}: ") + _quote(citation)


def _quote(citation: Cited) -> Text:
    """Return what is said of the words that are quoted with a label."""
    if citation.quote is None:
        return styled(("nothing is quoted", QUIET))
    return verdict_cell("quote", citation.quote)


def _quote_parts(quote: QuoteCheck, source: SourceView) -> Iterator[RenderableType]:
    """Yield what is said of a quote: both texts, what differs, and the sentence around it."""
    facts = [*quote_facts(quote, source.text)]
    if facts:
        yield styled((f"[{source.label}]", LABEL), " ") + verdict_cell("quote", quote.verdict)
    for name, pieces in facts:
        yield Padding(styled((f"{name}: ", MARKS["around"]), *marked(pieces, is_flat=False)), (0, 0, 0, 5))


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
        *(line for quote in source.quotes for line in _quote_parts(quote, source)),
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


def _found_by(answer: PipelineAnswer) -> str:
    cache_note = " (from the cache)" if answer.trace.cache == "hit" else ""
    return f"profile {answer.trace.search['profile']}{cache_note}"
