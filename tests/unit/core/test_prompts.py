from __future__ import annotations

import dataclasses
import hashlib
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.prompting.prompts import Setting, Turn, prompt_cache_key, reset_reasons, starting_prompt

NOW = Setting("openai", "small", "grounded", "claims-1")
BEFORE = Turn(NOW, "earlier")
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
keys = st.tuples(names, names, names, names, st.none() | names)


# --- the starting prompt ------------------------------------------------------------------------


def test_an_explicit_prompt_comes_first() -> None:
    """And the chain goes on with it."""
    found = starting_prompt("mine", BEFORE, "default", NOW, "chat")
    assert (found.text, found.source, found.continues, found.reset) == ("mine", "explicit", True, ())


def test_then_the_prompt_of_the_turn_before() -> None:
    """A conversation keeps what it began with."""
    found = starting_prompt(None, BEFORE, "default", NOW, "chat")
    assert (found.text, found.source, found.continues) == ("earlier", "continuation", True)


@pytest.mark.parametrize("chat_mode", ["single", "chat"])
def test_then_the_modes_own(chat_mode: str) -> None:
    """A first turn has nothing to go on from, and nothing to reset."""
    found = starting_prompt(None, None, "default", NOW, chat_mode)
    assert (found.text, found.source, found.continues, found.reset) == ("default", "mode", False, ())


def test_an_empty_prompt_is_a_prompt() -> None:
    """Only its absence is none."""
    assert starting_prompt("", BEFORE, "default", NOW, "chat").source == "explicit"
    assert starting_prompt(None, Turn(NOW, ""), "default", NOW, "chat").text == ""


# --- reset --------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["provider", "model", "mode", "claims"])
@pytest.mark.parametrize("explicit", [None, "mine"])
def test_each_change_breaks_the_chain(field: str, explicit: str | None) -> None:
    """Another provider, model, mode or caller: the earlier prompt is not used, and the reason is said."""
    before = Turn(dataclasses.replace(NOW, **{field: "other"}), "earlier")
    found = starting_prompt(explicit, before, "default", NOW, "chat")
    assert (found.text, found.continues, found.reset) == (explicit or "default", False, (field,))


def test_single_mode_breaks_it_always() -> None:
    """Every question stands alone."""
    assert starting_prompt(None, BEFORE, "default", NOW, "single").reset == ("single",)
    assert reset_reasons(NOW, NOW, "chat") == ()


def test_all_reasons_are_said() -> None:
    """In one order."""
    assert reset_reasons(Setting("a", "b", "c", "d"), NOW, "single") == (
        "single",
        "provider",
        "model",
        "mode",
        "claims",
    )


def test_the_whole_table() -> None:
    """Explicit or not, previous or not, whole or broken: what decides, and that only a whole chain goes on."""
    for explicit, previous, broken in product([None, "mine"], [None, BEFORE], [False, True]):
        found = starting_prompt(explicit, previous, "default", NOW, "single" if broken else "chat")
        assert found.continues == (previous is not None and not broken)
        expected = "explicit" if explicit else "continuation" if found.continues else "mode"
        assert found.source == expected
        assert bool(found.reset) == (previous is not None and broken)


# --- the cache key ------------------------------------------------------------------------------


def test_the_key_is_sha256_of_the_canonical_list() -> None:
    """32 hex digits that anybody can compute."""
    plain = b'["u1","openai","small","grounded","c1"]'
    assert prompt_cache_key("u1", "openai", "small", "grounded", "c1") == hashlib.sha256(plain).hexdigest()[:32]


@given(one=keys, other=keys)
def test_two_keys_are_equal_only_if_all_five_are(one: tuple, other: tuple) -> None:
    """No separator can be forged: what is written alike is alike."""
    assert re.fullmatch("[0-9a-f]{32}", prompt_cache_key(*one))
    assert (prompt_cache_key(*one) == prompt_cache_key(*other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b", "c", "d", "e"), ("ab", "", "c", "d", "e")),
        (('a","b', "", "c", "d", "e"), ("a", "b", "c", "d", "e")),
        (("a", "b", "c", "d", None), ("a", "b", "c", "d", "null")),
        (("a", "b", "c", "d", None), ("a", "b", "c", "d", "")),
    ],
)
def test_parts_do_not_run_into_each_other(one: tuple, other: tuple) -> None:
    """The boundaries are part of the key."""
    assert prompt_cache_key(*one) != prompt_cache_key(*other)
