from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.timing import seconds

from worker.core.text.glossary import Glossary
from worker.core.text.keywords import MOST, auto, strudel, words
from worker.core.text.words import folded

if TYPE_CHECKING:
    from collections.abc import Callable

PIECES = [
    'sound("',
    'note("',
    ".",
    "fast",
    "(",
    ")",
    '"',
    '")',
    "scale",
    "mode",
    '("',
    "bd",
    "c e",
    " ",
    "é",
    "\n",
    "4",
]
codes = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=40)
extractors = pytest.mark.parametrize("extract", [auto, strudel, words])


# --- strudel ------------------------------------------------------------------------------------


def as_the_guide_has_it(code: str) -> list[str]:
    """The guide's own patterns, in its order, without a thought for time."""
    found = re.findall(r'sound\("(\w+)"\)', code, re.ASCII)
    found += [note for notes in re.findall(r'note\("([^"]+)"\)', code) for note in notes.split()]
    found += re.findall(r"\.(\w+)\(", code, re.ASCII)
    found += re.findall(r'(?:scale|mode)\("(\w+)"\)', code, re.ASCII)
    return list(dict.fromkeys(found))[:10]


@pytest.mark.parametrize(
    ("code", "keywords"),
    [
        ('sound("bd").fast(2).stack(note("c e g").slow(4))', ["bd", "c", "e", "g", "fast", "stack", "slow"]),
        ("", []),
        ("just words", []),
        ('n("0 2").scale("minor")', ["scale", "minor"]),
        ('mode("dorian") scale("minor")', ["dorian", "minor"]),
        ('note("c c e") sound("c")', ["c", "e"]),
        ('sound("bd hh").sound("cp")', ["cp", "sound"]),
        ('sound("größe").größe(', []),
        ('note("c\ne")', ["c", "e"]),
        ('note("")', []),
        ("sound('bd')", []),
        ("".join(f".f{n}()" for n in range(12)), [f"f{n}" for n in range(10)]),
        ('.a().b()sound("x")', ["x", "a", "b"]),
    ],
)
def test_keywords_of_a_pattern(code: str, keywords: list[str]) -> None:
    """Sounds, notes, functions, scales: in this order, each once, ten at most, names in ASCII."""
    assert strudel(code) == keywords


@given(codes)
def test_any_text_gives_what_the_guides_patterns_give(code: str) -> None:
    """Stopping early and giving nothing back changes the time, not the keywords."""
    assert strudel(code) == as_the_guide_has_it(code)


# --- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("", []),
        ("The the of and", []),
        ("snare kick snare", ["snare", "kick"]),
        ("beta alpha beta alpha gamma", ["beta", "alpha", "gamma"]),
        ("Kick KICK kick, straße STRASSE", ["kick", "strasse"]),
        ("caf\u00e9 cafe\u0301", ["café"]),
        ("It's the track's bass; I can't, don't, won't, we're", ["track", "bass"]),
        ("a b c 808", ["808"]),
        (" ".join(f"w{n}" for n in range(20)), [f"w{n}" for n in range(10)]),
    ],
)
def test_keywords_of_prose(text: str, keywords: list[str]) -> None:
    """The most frequent content words, ties by first occurrence, however they are encoded or capitalised."""
    assert words(text) == keywords


# --- any text -----------------------------------------------------------------------------------


@extractors
@given(text=codes | st.text(st.characters()))
def test_any_text_has_a_few_keywords_each_once(extract: Callable[[str], list[str]], text: str) -> None:
    """Any text, lone surrogates too, gives at most ten keywords: none empty, none twice, the same again."""
    found = extract(text)
    assert len(found) == len(set(found)) <= MOST
    assert all(found)
    assert extract(text) == found


HOSTILE = [
    "(",
    "((",
    'note("',
    'note("a"',
    'note("a b',
    'sound("',
    'sound("a',
    ".a",
    ".sound(note(",
    'scale("a',
    "n't'",
]
HOSTILE += ["\u0301\u0323", "'s", "a ", 'note("' + "a" * 1000, "\u1e9b\u0323"]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("function", [strudel, words, folded, Glossary({"a a": ["b"], "n't": ["c"]}).expand])
def test_time_grows_with_the_text_and_not_faster(function: Callable[[str], object], piece: str) -> None:
    """Sixteen times the text takes about sixteen times as long; what is quadratic would take 256 times."""
    short, long = (piece * (size // len(piece)) for size in (4_000, 64_000))
    # A tenth of a millisecond: below that it is the clock that is measured.
    assert seconds(function, long) < 80 * max(seconds(function, short), 1e-4)


def test_a_fold_keeps_what_people_write() -> None:
    """Thirty marks on one letter are kept, and words on both sides of any number of signs."""
    stacked = "a" + "\u0323" * 30
    assert folded(stacked + " B") == "ạ" + "\u0323" * 29 + " b"
    assert folded("One" + "!" * 1000 + "Two").replace("!", "") == "onetwo"
