"""Rules whose quotes have another number, unit or comparison."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.quotes.passages import GeneratedQuote, Source
from benchmarks.quotes.rules import Rules, edit, some, swap
from benchmarks.quotes.words import WORDS

if TYPE_CHECKING:
    import random

NUMBERS = Rules()
altered = NUMBERS.add("not_found")


@altered
@edit
def digit_changed(rng: random.Random, text: str) -> str:
    """One digit is another."""
    return some(rng, r"\d", text, lambda m: rng.choice("0123456789".replace(m[0], "")))


@altered
@edit
def digit_added(rng: random.Random, text: str) -> str:
    """A number has a digit more."""
    return some(rng, r"\d", text, lambda m: m[0] + rng.choice("0123456789"))


@altered
@edit
def digit_lost(rng: random.Random, text: str) -> str:
    """A number of several digits has one fewer."""
    return some(rng, r"(?<=\d)\d|\d(?=\d)", text, lambda _: "")


@altered
@edit
def decimal_point_lost(rng: random.Random, text: str) -> str:
    """3.5 is 35, 3 5 or 3-5."""
    return some(rng, r"(?<=\d)[.,:](?=\d)", text, lambda _: rng.choice(["", " ", "-", "\n", "\u00ad", "-\n"]))


@altered
@edit
def decimal_point_moved(rng: random.Random, text: str) -> str:
    """0.42 is 4.2, 3.5 is 3,5."""
    return some(
        rng, r"(\d)\.(\d+)", text, lambda m: rng.choice([f"{m[1]},{m[2]}", f"{m[1]}{m[2]}.0", f".{m[1]}{m[2]}"])
    )


@altered
@edit
def decimal_point_added(rng: random.Random, text: str) -> str:
    """1978 is 19.78 or 19 78."""
    return some(rng, r"(?<=\d)(?=\d)", text, lambda _: rng.choice([".", " ", ",", "-", "\n"]))


@altered
@edit
def minus_lost(rng: random.Random, text: str) -> str:
    """−84 is 84."""
    return some(rng, r"(?<!\S)[-−–](?=\d)", text, lambda _: "")


@altered
@edit
def minus_added(rng: random.Random, text: str) -> str:
    """84 is −84."""
    return some(rng, r"(?<![\w.,−–-])(?=\d)", text, lambda _: rng.choice("-−–"))


@altered
@edit
def unit_swapped(rng: random.Random, text: str) -> str:
    """A dB is a Hz, metres are feet, £ is €."""
    swapped = swap(rng, text, WORDS["units"])
    signs = WORDS["unit_signs"]
    return swapped if swapped != text else some(rng, "[£€%°]|µF", text, lambda m: signs[m[0]])


@altered
@edit
def comparison_turned(rng: random.Random, text: str) -> str:
    """More than is less than, above is below."""
    return swap(rng, text, WORDS["comparisons"])


@altered
@edit
def number_word_changed(rng: random.Random, text: str) -> str:
    """Two is three."""
    numbers = WORDS["numbers"]
    return swap(rng, text, dict(zip(numbers, numbers[1:] + numbers[:1], strict=True)))


@altered
def power_flattened(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """The chunk says 10², the quote 102 (or 10^2 as 102, 2⁻³ as 2-3)."""
    here = rng.choice(re.findall(r"\b\d+\b(?![.,:]\d)", source.passage) or [""])
    if not here or source.passage.count(here) != 1 or source.text.count(source.passage) != 1:
        return None
    power, flat = rng.choice(WORDS["powers"])
    raised = source.passage.replace(here, here + power)
    return GeneratedQuote(source.passage.replace(here, here + flat), source.text.replace(source.passage, raised))


@altered
def cut_in_number(_: random.Random, source: Source) -> GeneratedQuote | None:
    """The passage begins inside a number: 5 dB of 15 dB or 3.5 dB, 84 of −84, two of thirty-two, 000 of 1,000."""
    pattern = r"\d\d[^\s]*\s.*|[−-]\d.*|\d[.,:]\d.*|[a-z]+ty-[a-z]+.*|[£€]\d.*"
    match = re.search(pattern, source.passage, re.DOTALL)
    if not match or not re.search(r"\s", match[0]):
        return None
    quote = re.sub(r"\A(?:\d(?=\d)|[−£€-]|\d[.,:]|[a-z]+ty-)", "", match[0])
    said = re.escape(quote.rstrip(".,"))  # a writer may end a quote with a stop
    return GeneratedQuote(quote) if not re.search(rf"(?<!\S){said}", source.text) else None
