"""What `run_pipeline` is answered with."""

from __future__ import annotations

from typing import Any, Literal

from worker.contract.base import Answer, Result
from worker.contract.results import NO_COSTS, Cost, CostTotal, FusedChunk, Trace


class PipelineCandidate(FusedChunk):
    """A source of an answer; ``corpus`` says where it stands."""

    corpus: str


class Cited(Result):
    """What an answer rests on.

    Attributes:
        label: as it stands in the answer.
        chunk_id: the chunk; null for what another service found.
        source_path: its document.
        heading: the section it stands under.
        page_number: its page.
        url_or_doi: where it can be read.
        snippet: the words of the source that the answer rests on.
        quote: verdict of the quote check on the sentence that cites it.
        section: the part of the answer that cites it, where answers have parts.
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
    """What another service found."""

    provider: str
    title: str
    url: str
    snippet: str
    score: float | None
    date: str | None
    metadata: dict[str, Any]


class Package(Result):
    """What an answer rests on.

    Attributes:
        package_id: to `resume` it by; null where the caller has no owner claim.
        candidates: the sources, best first.
        source_labels: label → what it stands for.
        context_block: what the model was shown; null before that stage.
        starting_prompt: the model's instructions; null before that stage.
        remote_sources: what other services found.
    """

    package_id: str | None
    candidates: list[PipelineCandidate]
    source_labels: dict[str, dict[str, str]]
    context_block: str | None
    starting_prompt: str | None
    remote_sources: list[Remote]


class PipelineTrace(Trace):
    """How an answer came about.

    Attributes:
        left: candidates that are not among the sources: at which stage each left, and why.
        queries: leg → what it searched for.
        hyde: hypothetical answers that a model wrote, to search with.
        warnings: what failed and was gone on without.
    """

    left: list[dict[str, str]] = []
    queries: dict[str, str] = {}
    hyde: list[str] = []
    warnings: list[str] = []


class PipelineAnswer(Answer):
    """Answer of `run_pipeline`.

    Attributes:
        status: `empty`: nothing was found, and no model was asked.
        short_reason: `changed` where a recorded answer is held back, because a source changed or can't be seen.
        answer: null if `empty`, held back, or stopped before.
        citations: in the order in which the answer cites them.
        supported: for each sentence of the answer, how much of its wording the sources that it cites have, 0-1; 0
            where it cites none, null where it has no words to support.
        unknown_labels: labels in the answer that stand for nothing.
        unreadable_labels: brackets in the answer that look like a list of labels and could not be read whole.
        package: what it rests on.
        costs: of every call of a model.
        costs_total: their sum.
        conversation_id: to go on with the conversation.
        response_id: to go on from this answer.
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
