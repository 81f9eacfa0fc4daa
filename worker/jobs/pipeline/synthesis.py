"""`synthesize_context`: labels, context block and starting prompt. Pure."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from worker.core.prompting.context import ESTIMATE, Source, build_context, readable
from worker.core.prompting.prompts import starting_prompt
from worker.jobs.pipeline.types import DroppedCandidate
from worker.model import Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.core.prompting import prompts
    from worker.core.prompting.context import TokenCounter
    from worker.jobs.pipeline.types import ContextPackage, RemoteSource, Turn
    from worker.settings.searching import ModeSettings


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """Chain of turns that a turn continues.

    Attributes:
        setting: setting of this turn.
        previous: the previous turn; None for the first.
        provider_response_id: the provider's id of the previous answer.
        history: earlier turns, oldest first.
    """

    setting: prompts.Setting
    previous: prompts.Turn | None = None
    provider_response_id: str | None = None
    history: Sequence[Turn] = ()


def synthesize(
    package: ContextPackage,
    mode: ModeSettings,
    chain: Chain,
    paths: Mapping[str, str],
    counter: TokenCounter = ESTIMATE,
) -> ContextPackage:
    """Add labels, context block and starting prompt to a package.

    Args:
        package: result of `build_sources`.
        mode: instructions, budget, and parts of the block besides sources.
        chain: the chain that this turn continues.
        paths: corpus → field of its chunks' metadata with the document's readable name, where there is one.
        counter: counts tokens; the estimate if the model has no counter.
    """
    request = package.request
    start = starting_prompt(
        request.starting_prompt, chain.previous, mode.instructions.strip(), chain.setting, request.chat_mode
    )
    # A provider that continues from its own answer has the history.
    previous = chain.provider_response_id if start.continues else None
    history = () if previous is not None else _latest(chain.history, mode.history_turns)
    # Each once: a package stored after this stage passes it again.
    warnings = dict.fromkeys([*package.trace.warnings, *(f"chain: reset, another {field}" for field in start.reset)])
    package = dataclasses.replace(
        package,
        request=dataclasses.replace(request, conversation_history=tuple(history)),
        starting_prompt=start.text,
        previous=previous,
        trace=dataclasses.replace(package.trace, warnings=tuple(warnings)),
    )
    return with_context(package, mode, paths, counter)


_OF_CONTEXT = "context: "
NONE_FITS = f"{_OF_CONTEXT}no source fits into the budget"
FORGOTTEN = "chain: reset, the provider no longer stores the previous answer"


def without_chain(
    package: ContextPackage,
    mode: ModeSettings,
    history: Sequence[Turn],
    paths: Mapping[str, str],
    counter: TokenCounter = ESTIMATE,
) -> ContextPackage:
    """Break the chain of a package whose provider no longer has the previous answer; put the history into the block.

    The starting prompt stays, as nothing that it depends on has changed.

    Args:
        package: result of `synthesize`.
        mode: as for `synthesize`.
        history: earlier turns, oldest first.
        paths: as for `synthesize`.
        counter: as for `synthesize`.
    """
    request = dataclasses.replace(package.request, conversation_history=tuple(_latest(history, mode.history_turns)))
    trace = dataclasses.replace(package.trace, warnings=(*package.trace.warnings, FORGOTTEN))
    package = dataclasses.replace(package, request=request, previous=None, trace=trace)
    return with_context(package, mode, paths, counter)


def with_context(
    package: ContextPackage,
    mode: ModeSettings,
    paths: Mapping[str, str],
    counter: TokenCounter = ESTIMATE,
) -> ContextPackage:
    """Add labels and context block to a package; the same package always gives the same bytes.

    Sources have at least half of the budget, however long the question and the other parts are.
    """
    passages: list[Candidate | RemoteSource] = [*package.candidates, *package.remote_sources]
    sources = [source_of(passage, paths) for passage in passages]
    block_start, block_end = _before(mode), _after(package, mode)
    remaining = mode.budget_tokens - counter.count(block_start) - counter.count(block_end)
    context = build_context(sources, max(mode.budget_tokens // 2, remaining), counter.count)
    names = [_name(candidate) for candidate in package.candidates] + [
        _remote_name(source) for source in package.remote_sources
    ]
    dropped = [
        DroppedCandidate(
            names[source.index].get("corpus", ""), names[source.index].get("chunk_id", ""), "context", source.reason
        )
        for source in context.left_out
    ]
    earlier = tuple(candidate for candidate in package.trace.left if candidate.stage != "context")
    warnings = [warning for warning in package.trace.warnings if not warning.startswith(_OF_CONTEXT)]
    beyond_budget = sum(source.reason == "beyond budget" for source in context.left_out)
    if sources and not context.labelled:
        warnings.append(NONE_FITS)
    elif beyond_budget:
        warnings.append(f"{_OF_CONTEXT}{beyond_budget} of {len(sources)} sources don't fit into the budget")
    return dataclasses.replace(
        package,
        source_labels={source.label: names[source.index] for source in context.labelled},
        context_block=block_start + context.block + block_end,
        trace=dataclasses.replace(
            package.trace,
            left=(*earlier, *dropped),
            models={**package.trace.models, "tokens": counter.name},
            warnings=tuple(warnings),
        ),
    )


def labelled_sources(package: ContextPackage) -> dict[str, Candidate | RemoteSource]:
    """Return the source of each label of a package."""
    chunks = {(candidate.corpus, candidate.chunk.id): candidate for candidate in package.candidates}
    remote = {(source.provider, source.url): source for source in package.remote_sources}
    return {
        label: chunks[name["corpus"], name["chunk_id"]] if "chunk_id" in name else remote[name["provider"], name["url"]]
        for label, name in package.source_labels.items()
    }


def source_of(source: Candidate | RemoteSource, paths: Mapping[str, str]) -> Source:
    """Convert a chunk or a remote source to a `Source` for the model."""
    if not isinstance(source, Candidate):
        return Source(source.snippet, title=source.title or None, url=source.url or None, corpus=source.provider)
    chunk = source.chunk
    return Source(
        chunk.text,
        title=path_of(source, paths),
        heading=chunk.section,
        page=chunk.page,
        url=_text(chunk.metadata.get("page_url") or chunk.metadata.get("url")),
        corpus=source.corpus,
        code=_text(chunk.metadata.get("code")),
    )


def path_of(candidate: Candidate, paths: Mapping[str, str]) -> str:
    """Return a document's readable name: the metadata field that the settings name, else its id."""
    readable_name = candidate.chunk.metadata.get(paths.get(candidate.corpus, ""))
    return readable_name if isinstance(readable_name, str) and readable_name else candidate.chunk.document_id


def _name(candidate: Candidate) -> dict[str, str]:
    return {"corpus": candidate.corpus, "chunk_id": candidate.chunk.id, "chunk_hash": candidate.chunk.chunk_hash}


def _remote_name(source: RemoteSource) -> dict[str, str]:
    return {"provider": source.provider, "url": source.url}


def _before(mode: ModeSettings) -> str:
    """Return the part that all questions of a mode share; it is first, because providers cache a prompt's beginning."""
    return f"Cheatsheet:\n{mode.cheatsheet.strip()}\n\n" if mode.cheatsheet else ""


def _after(package: ContextPackage, mode: ModeSettings) -> str:
    """Return the context, the history and the question."""
    sections = []
    if mode.show_context and package.request.context.strip():
        sections.append(f"In the user's editor:\n{_fenced(package.request.context)}\n")
    if history := package.request.conversation_history:
        turns = "\n".join(f"{turn.role}: {' '.join(turn.content.split())}" for turn in history)
        sections.append(f"Said before:\n{turns}\n")
    sections.append(f"Question: {package.request.question.strip()}\n")
    return readable("\n" + "\n".join(sections))  # as a whole: a bracket may open in one part and close in another


def _fenced(code: str) -> str:
    """Return code in a fence that is longer than any in it."""
    text = readable(code).strip("\n")
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _latest(history: Sequence[Turn], turn_limit: int) -> Sequence[Turn]:
    return history[-2 * turn_limit :] if turn_limit else ()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
