"""The nouns of the pipeline: plain values between its stages, which go to JSON and back without loss."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- pydantic reads the annotations
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, PlainSerializer, PlainValidator, TypeAdapter
from pydantic.dataclasses import dataclass as typed

from worker.core.prompting.costs import CostEntry  # noqa: TC001 -- pydantic reads the annotations
from worker.model import Candidate, Chunk, FilterSet, LegScore, ScoreBreakdown
from worker.model import RemoteSource as RemoteSource  # noqa: PLC0414 -- one of the pipeline's nouns, found below it

Stage = Literal["build_sources", "synthesize_context", "execute"]
Reason = Literal["duplicate", "capped", "beyond k", "below threshold", "beyond budget", "not visible"]
T = TypeVar("T")

_strict = ConfigDict(extra="forbid")


@typed(frozen=True, config=_strict)
class Turn:
    """What was said in a conversation."""

    role: Literal["user", "assistant"] = "user"
    content: str = ""


@typed(frozen=True, config=_strict)
class CorpusSearch:
    """A corpus to ask, how many chunks of it are wanted, and what narrows it."""

    corpus: str = ""
    top_k: int = 5
    filters: FilterSet = FilterSet()


@typed(frozen=True, config=_strict)
class QueryRequest:
    """What a caller asks.

    Attributes:
        question: the question.
        mode: what for; a name of the settings.
        profile: how to search; None: the mode's.
        filters: what to narrow every corpus to.
        k: how many sources; None: the mode's.
        starting_prompt: instructions in place of the mode's.
        conversation_id: goes on with this conversation.
        prior_response_id: goes on from this answer.
        conversation_history: what was said before, where the caller keeps it.
        chat_mode: ``single``: every question by itself; ``chat``: answers go on from each other.
        pinned_chunks: hashes of chunks that come first.
        context: what the user is working on.
        searches: corpora to ask instead of the mode's.
        seed: of the model that answers.
        temperature: likewise.
        require_model: fail where the language model does, rather than answer without it.
    """

    question: str = ""
    mode: str = "grounded"
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
    """A candidate that left, at which stage, and why."""

    corpus: str = ""
    chunk_id: str = ""
    stage: str = ""
    reason: str = ""


@typed(frozen=True, config=_strict)
class StageTrace:
    """One step: how long it took, what it counted, and what was there after it.

    Attributes:
        stage: its name.
        duration_ms: how long it took.
        counts: what it counted.
        candidates: corpus and chunk id of those left, best first.
        scores: of each of them, as the last step that judged it did; None where none has.
    """

    stage: str = ""
    duration_ms: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    candidates: tuple[tuple[str, str], ...] = ()
    scores: tuple[float | None, ...] = ()


@typed(frozen=True, config=_strict)
class RetrievalTrace:
    """How a package came about.

    Attributes:
        stages: in order.
        left: candidates that are not in the package.
        queries: what was searched for, by leg.
        legs: milliseconds of each leg; they run at the same time.
        hyde: hypothetical documents that a model wrote.
        models: what took part, with names and versions.
        cache: ``hit`` where an equal request's sources were taken, read anew; ``miss`` where there were none; None
            where none were looked for.
        warnings: what failed and was gone on without.
    """

    stages: tuple[StageTrace, ...] = ()
    left: tuple[DroppedCandidate, ...] = ()
    queries: Mapping[str, str] = field(default_factory=dict)
    legs: Mapping[str, float] = field(default_factory=dict)
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
    scores = dict(value["scores"])
    legs = tuple(LegScore(**leg) for leg in scores.pop("legs"))
    return Candidate(Chunk(**value["chunk"]), value["similarity"], ScoreBreakdown(legs, **scores), value["corpus"])


# A candidate as JSON is everything but its vector, which only a refinement needs. Any: pydantic need not look inside.
if TYPE_CHECKING:
    PlainCandidate = Candidate
else:
    PlainCandidate = Annotated[Any, PlainSerializer(_plain), PlainValidator(_candidate)]


@typed(frozen=True, config=_strict)
class ContextPackage:
    """What was found, and what a model is to be told of it.

    Attributes:
        package_id: the server's name for it.
        request: what was asked.
        profile: how it was searched.
        candidates: the sources, best first (pinned ones before all).
        remote_sources: what other services found.
        source_labels: label → corpus and chunk id, or provider and URL.
        context_block: the labelled sources as text.
        starting_prompt: the model's instructions.
        conversation_id: the conversation that it is part of.
        previous: the provider's name of the answer that this one goes on from.
        costs: of every call of a model.
        degraded: codes of what it was made without; see `worker.core.degraded`.
        trace: how it came about.
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
    """What an answer rests on.

    Attributes:
        label: as it stands in the answer.
        chunk_id: the chunk; None for a remote source.
        source_path: its document's path or id.
        heading: the section it stands under.
        page_number: its page.
        url_or_doi: where it can be read.
        snippet: the words of the source that the answer uses most.
        quote: what the quote checker says of the sentence that cites it.
        section: the part of the answer that cites it.
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
    """An answer that shows its sources.

    Attributes:
        status: ``ok``, or ``empty`` where nothing was found and no model was asked.
        answer: None where there is none.
        citations: in the order of their labels in the answer.
        supported: for each sentence of the answer, how much of its wording the sources that it cites have, 0-1; 0 for
            one without label, None for one without words.
        unknown_labels: labels in the answer that stand for nothing.
        unreadable_labels: brackets in the answer that look like a list of labels and could not be read whole.
        package: what it rests on.
        conversation_id, response_id: to go on from.
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
    """Any of the types above as JSON."""
    return TypeAdapter(type(value)).dump_json(value)


def from_json(kind: type[T], content: bytes) -> T:
    """The way back: equal to what `to_json` was given.

    Raises:
        pydantic.ValidationError: it is no such value.
    """
    return TypeAdapter(kind).validate_json(content)
