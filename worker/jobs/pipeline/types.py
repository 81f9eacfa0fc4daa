"""Types of the pipeline: plain values between its stages, serialised to JSON and back without loss."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- pydantic reads the annotations
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, PlainSerializer, PlainValidator, TypeAdapter
from pydantic.dataclasses import dataclass as typed

from worker.core.prompting.costs import CostEntry  # noqa: TC001 -- pydantic reads the annotations
from worker.jobs.stored_candidates import scores_of
from worker.model import Candidate, Chunk, FilterSet
from worker.model import RemoteSource as RemoteSource  # noqa: PLC0414 -- one of the pipeline's types, used below it

Stage = Literal["build_sources", "synthesize_context", "execute"]
Reason = Literal[
    "empty", "duplicate", "near duplicate", "capped", "beyond k", "below threshold", "beyond budget", "not visible"
]
T = TypeVar("T")

_strict = ConfigDict(extra="forbid")


@typed(frozen=True, config=_strict)
class Turn:
    """Message of a conversation."""

    role: Literal["user", "assistant"] = "user"
    content: str = ""


@typed(frozen=True, config=_strict)
class CorpusSearch:
    """Corpus to search, with the number of chunks wanted and filters."""

    corpus: str = ""
    top_k: int = 5
    filters: FilterSet = FilterSet()


@typed(frozen=True, config=_strict)
class QueryRequest:
    """Request to the pipeline.

    Attributes:
        question: the question.
        mode: name of a mode in the settings; empty: the first.
        profile: name of a search profile; None: the mode's.
        filters: filters for every corpus without its own.
        k: number of sources; None: the mode's.
        starting_prompt: instructions in place of the mode's.
        conversation_id: the conversation to continue.
        prior_response_id: the answer to continue from.
        conversation_history: earlier turns, if the caller keeps them.
        chat_mode: ``single``: every question is independent; ``chat``: answers continue from each other.
        pinned_chunks: hashes of chunks that come first.
        context: the text that the user is working on.
        searches: corpora to search instead of the mode's.
        seed: seed of the answering model.
        temperature: temperature of the answering model.
        require_model: True: fail if the language model fails, instead of answering without it.
    """

    question: str = ""
    mode: str = ""
    profile: str | None = None
    filters: FilterSet = FilterSet()
    k: int | None = None
    starting_prompt: str | None = None
    conversation_id: str | None = None
    prior_response_id: str | None = None
    conversation_history: tuple[Turn, ...] = ()
    chat_mode: Literal["single", "chat"] = "single"
    pinned_chunks: tuple[str, ...] = ()
    context: str = ""
    searches: tuple[CorpusSearch, ...] = ()
    seed: int | None = None
    temperature: float | None = None
    require_model: bool = False


@typed(frozen=True, config=_strict)
class DroppedCandidate:
    """Dropped candidate, with stage and reason."""

    corpus: str = ""
    chunk_id: str = ""
    stage: str = ""
    reason: str = ""


@typed(frozen=True, config=_strict)
class StageTrace:
    """Trace of one stage.

    Attributes:
        stage: name of the stage.
        duration_ms: its duration.
        counts: its counts.
        candidates: corpus and chunk id of the remaining candidates, best first.
        scores: score of each by the last step that scored it; None if none has.
    """

    stage: str = ""
    duration_ms: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    candidates: tuple[tuple[str, str], ...] = ()
    scores: tuple[float | None, ...] = ()


@typed(frozen=True, config=_strict)
class RetrievalTrace:
    """Trace of a package.

    Attributes:
        stages: the stages, in order.
        left: dropped candidates.
        queries: query text of each leg.
        conversation: the question as its conversation makes it: reworded by a model, or joined with earlier questions;
            None: it was searched only as asked.
        legs: milliseconds of each leg; they run in parallel.
        methods: search method of each leg, corpus by corpus.
        weights: weight of each leg in the fusion; empty for a fusion without weights.
        statistics: word statistics of each sparse leg, corpus by corpus; None without any.
        hyde: hypothetical documents that a model wrote.
        models: models used, with names and versions.
        cache: ``hit`` if an equal request's sources were used, read again; ``miss`` if there were none; None if the
            cache was not used.
        warnings: failures that the job continued without, and reasons of a broken chain.
    """

    stages: tuple[StageTrace, ...] = ()
    left: tuple[DroppedCandidate, ...] = ()
    queries: Mapping[str, str] = field(default_factory=dict)
    conversation: str | None = None
    legs: Mapping[str, float] = field(default_factory=dict)
    methods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    statistics: Mapping[str, tuple[Mapping[str, Any] | None, ...]] = field(default_factory=dict)
    hyde: tuple[str, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    cache: Literal["hit", "miss"] | None = None
    warnings: tuple[str, ...] = ()


def _plain(candidate: Candidate) -> dict[str, Any]:
    return {
        "corpus": candidate.corpus,
        "similarity": candidate.similarity,
        "scores": asdict(candidate.scores),
        "chunk": candidate.chunk._asdict(),
    }


def _candidate(value: Any) -> Candidate:
    if isinstance(value, Candidate):
        return value
    return Candidate(Chunk(**value["chunk"]), value["similarity"], scores_of(value["scores"]), value["corpus"])


# A candidate as JSON has no vector, which only refinement needs. Any: pydantic need not validate the content.
if TYPE_CHECKING:
    PlainCandidate = Candidate
else:
    PlainCandidate = Annotated[Any, PlainSerializer(_plain), PlainValidator(_candidate)]


@typed(frozen=True, config=_strict)
class ContextPackage:
    """Sources of an answer, and the context for the model.

    Attributes:
        package_id: the worker's id for it.
        request: the request.
        profile: name of the search profile.
        candidates: the sources, best first (pinned ones before all).
        remote_sources: results of remote sources.
        source_labels: label → corpus and chunk id, or provider and URL.
        context_block: the labelled sources as text.
        starting_prompt: the model's instructions.
        conversation_id: its conversation.
        previous: the provider's id of the answer that this one continues from.
        costs: cost of every model call.
        degraded: degradation codes; see `worker.core.degraded`.
        trace: its trace.
    """

    package_id: str | None = None
    request: QueryRequest = QueryRequest()
    profile: str = ""
    candidates: tuple[PlainCandidate, ...] = ()
    remote_sources: tuple[RemoteSource, ...] = ()
    source_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    context_block: str | None = None
    starting_prompt: str | None = None
    conversation_id: str | None = None
    previous: str | None = None
    costs: tuple[CostEntry, ...] = ()
    degraded: tuple[str, ...] = ()
    trace: RetrievalTrace = RetrievalTrace()


@typed(frozen=True, config=_strict)
class Citation:
    """Citation of a source in an answer.

    Attributes:
        label: its label in the answer.
        chunk_id: the chunk; None for a remote source.
        source_path: its document's path or id.
        heading: heading of its section.
        page_number: its page.
        url_or_doi: its URL or DOI.
        snippet: the words of the source that the answer uses most.
        quote: the quote checker's verdict on the sentence that cites it.
        section: the section of the answer that cites it.
    """

    label: str = ""
    chunk_id: str | None = None
    source_path: str | None = None
    heading: str | None = None
    page_number: int | None = None
    url_or_doi: str | None = None
    snippet: str = ""
    quote: str | None = None
    section: str | None = None


@typed(frozen=True, config=_strict)
class QueryResponse:
    """Answer with its citations.

    Attributes:
        status: ``ok``, or ``empty`` if nothing was found and no model was called.
        answer: None if there is none.
        citations: in the order of their labels in the answer.
        supported: for each sentence of the answer, the share of its wording that its cited sources have, 0-1; 0 for
            one without label, None for one without words.
        unknown_labels: labels in the answer without a source.
        unreadable_labels: what else in the answer looks like a label and could not be read, as written.
        package: its sources and context.
        conversation_id, response_id: ids to continue from.
    """

    status: Literal["ok", "empty"] = "empty"
    answer: str | None = None
    citations: tuple[Citation, ...] = ()
    supported: tuple[float | None, ...] = ()
    unknown_labels: tuple[str, ...] = ()
    unreadable_labels: tuple[str, ...] = ()
    package: ContextPackage = ContextPackage()
    conversation_id: str | None = None
    response_id: str | None = None


def to_json(value: Any) -> bytes:
    """Serialise a value of any of these types to JSON."""
    return TypeAdapter(type(value)).dump_json(value)


def from_json(kind: type[T], content: bytes) -> T:
    """Parse a value that equals the one given to `to_json`.

    Raises:
        pydantic.ValidationError: the content is not such a value.
    """
    return TypeAdapter(kind).validate_json(content)
