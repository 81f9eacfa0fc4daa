"""`synthesize_context`: labels, the context block, and what the model is to start from. Pure."""

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
    from worker.settings import ModeSettings


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """What a turn goes on from.

    Attributes:
        now: what this turn is answered with.
        previous: the turn before; None for the first.
        provider_response_id: the provider's name of its answer.
        history: what was said before, oldest first.
    """

    now: prompts.Setting
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
    """A package with labels, context block and starting prompt.

    Args:
        package: as `build_sources` gives it.
        mode: instructions, budget, and what the block holds besides sources.
        chain: what this turn goes on from.
        paths: corpus → field of its chunks' metadata that names the document for people, where there is one.
        counter: of tokens; the estimate where the model has none.
    """
    request = package.request
    start = starting_prompt(
        request.starting_prompt, chain.previous, mode.instructions.strip(), chain.now, request.chat_mode
    )
    # A provider that goes on from its own answer knows what was said.
    previous = chain.provider_response_id if start.continues else None
    said = () if previous is not None else _latest(chain.history, mode.history_turns)
    # Each once: a package that was kept after this stage comes through it again.
    warnings = dict.fromkeys([*package.trace.warnings, *(f"chain: reset, another {one}" for one in start.reset)])
    package = dataclasses.replace(
        package,
        request=dataclasses.replace(request, conversation_history=tuple(said)),
        starting_prompt=start.text,
        previous=previous,
        trace=dataclasses.replace(package.trace, warnings=tuple(warnings)),
    )
    return with_context(package, mode, paths, counter)


FORGOTTEN = "chain: reset, the provider has forgotten the answer gone on from"


def without_chain(
    package: ContextPackage,
    mode: ModeSettings,
    history: Sequence[Turn],
    paths: Mapping[str, str],
    counter: TokenCounter = ESTIMATE,
) -> ContextPackage:
    """A package whose provider has forgotten what it goes on from: what was said before stands in the block instead.

    The starting prompt stays: nothing that it depends on is another.

    Args:
        package: as `synthesize` gave it.
        mode: as there.
        history: what was said before, oldest first.
        paths: as there.
        counter: as there.
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
    """A package with labels and context block, made of itself alone: the same package, the same bytes."""
    found: list[Candidate | RemoteSource] = [*package.candidates, *package.remote_sources]
    sources = [source_of(one, paths) for one in found]
    before, after = _before(mode), _after(package, mode)
    budget = mode.budget_tokens - counter.count(before) - counter.count(after)
    context = build_context(sources, max(0, budget), counter.count)
    names = [_name(one) for one in package.candidates] + [_remote_name(one) for one in package.remote_sources]
    left = [
        DroppedCandidate(
            names[one.index].get("corpus", ""), names[one.index].get("chunk_id", ""), "context", one.reason
        )
        for one in context.left_out
    ]
    earlier = tuple(one for one in package.trace.left if one.stage != "context")
    return dataclasses.replace(
        package,
        source_labels={one.label: names[one.index] for one in context.labelled},
        context_block=before + context.block + after,
        trace=dataclasses.replace(
            package.trace, left=(*earlier, *left), models={**package.trace.models, "tokens": counter.name}
        ),
    )


def labelled_sources(package: ContextPackage) -> dict[str, Candidate | RemoteSource]:
    """What each label of a package stands for."""
    chunks = {(one.corpus, one.chunk.id): one for one in package.candidates}
    remote = {(one.provider, one.url): one for one in package.remote_sources}
    return {
        label: chunks[name["corpus"], name["chunk_id"]] if "chunk_id" in name else remote[name["provider"], name["url"]]
        for label, name in package.source_labels.items()
    }


def source_of(found: Candidate | RemoteSource, paths: Mapping[str, str]) -> Source:
    """A chunk, or what another service found, as a model is shown it."""
    if not isinstance(found, Candidate):
        return Source(found.snippet, title=found.title or None, url=found.url or None, corpus=found.provider)
    chunk = found.chunk
    return Source(
        chunk.text,
        title=path_of(found, paths),
        heading=chunk.section,
        page=chunk.page,
        url=_text(chunk.metadata.get("page_url") or chunk.metadata.get("url")),
        corpus=found.corpus,
        code=_text(chunk.metadata.get("code")),
    )


def path_of(candidate: Candidate, paths: Mapping[str, str]) -> str:
    """What a reader calls the document: the field that the settings name, else its id."""
    named = candidate.chunk.metadata.get(paths.get(candidate.corpus, ""))
    return named if isinstance(named, str) and named else candidate.chunk.document_id


def _name(candidate: Candidate) -> dict[str, str]:
    return {"corpus": candidate.corpus, "chunk_id": candidate.chunk.id, "chunk_hash": candidate.chunk.chunk_hash}


def _remote_name(found: RemoteSource) -> dict[str, str]:
    return {"provider": found.provider, "url": found.url}


def _before(mode: ModeSettings) -> str:
    """What is the same in every question of a mode comes first: providers keep the beginning of a prompt."""
    return f"Cheatsheet:\n{mode.cheatsheet.strip()}\n\n" if mode.cheatsheet else ""


def _after(package: ContextPackage, mode: ModeSettings) -> str:
    """What the user works on, what was said, what is asked."""
    parts = []
    if mode.show_context and package.request.context.strip():
        parts.append(f"In the user's editor:\n{_fenced(package.request.context)}\n")
    if said := package.request.conversation_history:
        turns = "\n".join(f"{turn.role}: {' '.join(readable(turn.content).split())}" for turn in said)
        parts.append(f"Said before:\n{turns}\n")
    parts.append(f"Question: {readable(package.request.question).strip()}\n")
    return "\n" + "\n".join(parts)


def _fenced(code: str) -> str:
    """Code in a fence that is longer than any in it."""
    text = readable(code).strip("\n")
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _latest(history: Sequence[Turn], most: int) -> Sequence[Turn]:
    return history[-2 * most :] if most else ()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
