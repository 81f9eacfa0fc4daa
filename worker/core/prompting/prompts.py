"""Which prompt a turn starts with, whether it goes on with the chain of turns before it, and its prompt cache key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from worker.core.pins.canonical import canonical_sha256

ChatMode = Literal["single", "chat"]
PromptSource = Literal["explicit", "continuation", "mode"]
ResetReason = Literal["single", "provider", "model", "mode", "claims"]

CACHE_KEY_LENGTH = 32
"""Hex digits; providers refuse long keys."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a turn of a conversation is answered with, and for whom: a chain holds while it stays the same.

    Attributes:
        provider: whose language model.
        model: its name.
        mode: the mode's name.
        claims: fingerprint of the caller's claims. What earlier turns saw may be hidden from other claims.
    """

    provider: str
    model: str
    mode: str
    claims: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that was answered.

    Attributes:
        setting: what it was answered with.
        prompt: the prompt that it started with.
    """

    setting: Setting
    prompt: str


@dataclass(frozen=True, slots=True)
class StartingPrompt:
    """What a turn starts with.

    Attributes:
        text: the prompt.
        source: where it is from.
        continues: whether the turn goes on with the chain: the previous response's id goes to the provider.
        reset: why it does not, although there is a previous turn: all reasons, in the order of `ResetReason`.
    """

    text: str
    source: PromptSource
    continues: bool
    reset: tuple[ResetReason, ...]


def starting_prompt(
    explicit: str | None, previous: Turn | None, default: str, setting: Setting, chat_mode: ChatMode
) -> StartingPrompt:
    """The prompt of a turn: an explicit one, else that of the turn before where the chain holds, else the mode's.

    An explicit prompt does not break the chain: it takes the place of the earlier one from this turn on.

    >>> now = Setting("openai", "small", "grounded", "c1")
    >>> starting_prompt(None, Turn(now, "As a pirate."), "Cite.", now, "chat")
    StartingPrompt(text='As a pirate.', source='continuation', continues=True, reset=())
    >>> starting_prompt(None, Turn(now, "As a pirate."), "Cite.", now, "single").reset
    ('single',)

    Args:
        explicit: the job's own; ``None`` if it has none. An empty one is a prompt.
        previous: the turn that the job goes on from; ``None`` if it names none.
        default: the mode's.
        setting: what this turn is answered with.
        chat_mode: ``single``: every question stands alone.
    """
    reset = () if previous is None else reset_reasons(previous.setting, setting, chat_mode)
    chain = None if reset else previous
    if explicit is not None:
        return StartingPrompt(explicit, "explicit", chain is not None, reset)
    if chain is not None:
        return StartingPrompt(chain.prompt, "continuation", continues=True, reset=())
    return StartingPrompt(default, "mode", continues=False, reset=reset)


def reset_reasons(previous: Setting, now: Setting, chat_mode: ChatMode) -> tuple[ResetReason, ...]:
    """Everything that breaks the chain between two turns; nothing: it holds."""
    broken: dict[ResetReason, bool] = {
        "single": chat_mode == "single",
        "provider": previous.provider != now.provider,
        "model": previous.model != now.model,
        "mode": previous.mode != now.mode,
        "claims": previous.claims != now.claims,
    }
    return tuple(reason for reason, holds in broken.items() if holds)


def prompt_cache_key(owner: str, provider: str, model: str, mode: str, conversation: str | None) -> str:
    """A key under which a provider may keep a prompt's prefix: never one key for two owners or conversations.

    The first 32 hex digits of SHA-256 over the canonical JSON list of the five, so that no two lists are written alike.

    >>> prompt_cache_key("u1", "openai", "small", "grounded", "c1")
    'a8e7b9c78abb162f7f236c22c6a02e05'

    Args:
        owner: the owner claim; ``""`` for nobody.
        provider: whose language model.
        model: its name.
        mode: the mode's name.
        conversation: its id; ``None`` outside any.

    Raises:
        ValueError: a lone surrogate.
    """
    return canonical_sha256([owner, provider, model, mode, conversation])[:CACHE_KEY_LENGTH]
