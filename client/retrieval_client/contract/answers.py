"""Answer of `run_pipeline`."""

from __future__ import annotations

from typing import Any, Literal

from retrieval_client.contract.base import Answer, Result
from retrieval_client.contract.results import NO_COSTS, Cost, CostTotal, FusedChunk, Trace


class PipelineCandidate(FusedChunk):
    """A source of an answer, with its ``corpus``."""

    corpus: str


class Cited(Result):
    """A citation of an answer.

    Attributes:
        label: its label in the answer.
        chunk_id: the chunk; null for a remote source.
        source_path: its document.
        heading: its section.
        page_number: its page.
        url_or_doi: URL or DOI of the source.
        snippet: the words of the source that support the answer.
        quote: verdict of the quote check on the sentence that cites it.
        section: the section of the answer that cites it, if answers have sections.
    """

    label: str
    chunk_id: str | None
    source_path: str | None
    heading: str | None
    page_number: int | None
    url_or_doi: str | None
    snippet: str
    quote: str | None
    section: str | None = None


class Remote(Result):
    """A result of a remote source."""

    provider: str
    title: str
    url: str
    snippet: str
    score: float | None
    date: str | None
    metadata: dict[str, Any]


class Package(Result):
    """The sources and the prompt of an answer.

    Attributes:
        package_id: id to `resume` it by; null if the caller has no owner claim.
        candidates: the sources, best first.
        source_labels: label → its source.
        context_block: the model's input; null before that stage.
        starting_prompt: the model's instructions; null before that stage.
        remote_sources: results of remote sources.
    """

    package_id: str | None
    candidates: list[PipelineCandidate]
    source_labels: dict[str, dict[str, str]]
    context_block: str | None
    starting_prompt: str | None
    remote_sources: list[Remote]


class PipelineTrace(Trace):
    """Trace of an answer.

    Attributes:
        left: dropped candidates, each with the stage and the reason.
        queries: leg → its query.
        hyde: hypothetical answers that a model wrote, used as queries.
        warnings: failures of optional parts.
    """

    left: list[dict[str, str]] = []
    queries: dict[str, str] = {}
    hyde: list[str] = []
    warnings: list[str] = []


class PipelineAnswer(Answer):
    """Answer of `run_pipeline`.

    Attributes:
        status: `empty`: nothing was found, and no model was called.
        short_reason: `changed` if a recorded answer is held back, because a source changed or is not visible.
        answer: the text; null if `empty`, held back, or stopped before.
        citations: the citations, by label.
        supported: for each sentence of the answer, the share of its words that its cited sources contain, 0-1; 0 if it
            cites none, null if it has no words to support.
        unknown_labels: labels in the answer without a source.
        unreadable_labels: what else in the answer looks like a label and could not be read, as written.
        package: the sources and the prompt.
        costs: cost of each call of a model.
        costs_total: their sum.
        conversation_id: id to continue the conversation.
        response_id: id to continue from this answer.
    """

    status: Literal["ok", "empty"]
    short_reason: Literal["changed"] | None = None
    answer: str | None
    citations: list[Cited]
    supported: list[float | None]
    unknown_labels: list[str]
    unreadable_labels: list[str] = []
    package: Package
    costs: list[Cost]
    costs_total: CostTotal = NO_COSTS
    conversation_id: str | None
    response_id: str | None
    trace: PipelineTrace
