"""Starting prompt of a turn, continuation of the chain of earlier turns, and the prompt cache key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from retrieval_client.canonical import canonical_sha256

ChatMode = Literal["single", "chat"]
PromptSource = Literal["explicit", "continuation", "mode"]
ResetReason = Literal["single", "provider", "model", "mode", "claims"]

CACHE_KEY_LENGTH = 32
"""Hex digits of a key; providers refuse long ones."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Provider, model, mode and caller of a turn; a chain of turns continues while they stay the same.

    Attributes:
        provider: provider of the language model.
        model: the model's name.
        mode: the mode's name.
        claims: fingerprint of the caller's claims. Earlier turns may have seen what other claims may not.
    """

    provider: str
    model: str
    mode: str
    claims: str


@dataclass(frozen=True, slots=True)
class Turn:
    """Answered turn.

    Attributes:
        setting: its setting.
        prompt: its starting prompt.
    """

    setting: Setting
    prompt: str


@dataclass(frozen=True, slots=True)
class StartingPrompt:
    """Starting prompt of a turn.

    Attributes:
        text: the prompt.
        source: its origin.
        continues: True if the turn continues the chain: the previous response's id is sent to the provider.
        reset: all reasons why it does not although there is a previous turn, in the order of `ResetReason`.
    """

    text: str
    source: PromptSource
    continues: bool
    reset: tuple[ResetReason, ...]


def starting_prompt(
    explicit: str | None, previous: Turn | None, default: str, setting: Setting, chat_mode: ChatMode
) -> StartingPrompt:
    """Choose a turn's prompt: an explicit one, else the previous turn's if the chain continues, else the mode's.

    An explicit prompt does not break the chain: it replaces the earlier one from this turn on.

    >>> now = Setting("openai", "small", "grounded", "c1")
    >>> starting_prompt(None, Turn(now, "As a pirate."), "Cite.", now, "chat")
    StartingPrompt(text='As a pirate.', source='continuation', continues=True, reset=())
    >>> starting_prompt(None, Turn(now, "As a pirate."), "Cite.", now, "single").reset
    ('single',)

    Args:
        explicit: the job's own; ``None`` if it has none. An empty string is a prompt.
        previous: the turn that the job continues; ``None`` if it names none.
        default: the mode's.
        setting: this turn's setting.
        chat_mode: ``single``: every question is independent.
    """
    reset = () if previous is None else reset_reasons(previous.setting, setting, chat_mode)
    chain = None if reset else previous
    if explicit is not None:
        return StartingPrompt(explicit, "explicit", chain is not None, reset)
    if chain is not None:
        return StartingPrompt(chain.prompt, "continuation", continues=True, reset=())
    return StartingPrompt(default, "mode", continues=False, reset=reset)


def reset_reasons(previous: Setting, current_setting: Setting, chat_mode: ChatMode) -> tuple[ResetReason, ...]:
    """Return all reasons that break the chain between two turns; empty: it continues."""
    broken: dict[ResetReason, bool] = {
        "single": chat_mode == "single",
        "provider": previous.provider != current_setting.provider,
        "model": previous.model != current_setting.model,
        "mode": previous.mode != current_setting.mode,
        "claims": previous.claims != current_setting.claims,
    }
    return tuple(reason for reason, holds in broken.items() if holds)


def prompt_cache_key(owner: str, provider: str, model: str, mode: str, conversation: str | None) -> str:
    """Return the key under which a provider may cache a prompt's prefix; different for each owner and conversation.

    The first 32 hex digits of SHA-256 over the canonical JSON list of the five, so no two lists have the same spelling.

    >>> prompt_cache_key("u1", "openai", "small", "grounded", "c1")
    'a8e7b9c78abb162f7f236c22c6a02e05'

    Args:
        owner: the owner claim; ``""`` for no owner.
        provider: provider of the language model.
        model: the model's name.
        mode: the mode's name.
        conversation: conversation id; ``None`` outside any.

    Raises:
        ValueError: an argument has a lone surrogate.
    """
    return canonical_sha256([owner, provider, model, mode, conversation])[:CACHE_KEY_LENGTH]
