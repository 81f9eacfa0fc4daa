"""Rules whose quotes are the chunk's own words, on their way through programs and writers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.quotes.elisions import elided_passage
from benchmarks.quotes.passages import GeneratedQuote, Source
from benchmarks.quotes.rules import Rules, some, texture
from benchmarks.quotes.textures import (
    TEXTURES,
    hyphenated,
    ligatures,
    nfd,
    rewrapped,
    several,
    soft_hyphens,
    zero_width,
)
from benchmarks.quotes.words import WORDS

if TYPE_CHECKING:
    import random

HONEST = Rules()
honest = HONEST.add


# --- the words as they are -----------------------------------------------------------------------


@honest("verbatim")
def exact(_: random.Random, source: Source) -> GeneratedQuote | None:
    """Return the text unchanged."""
    return GeneratedQuote(source.passage)


for change_of_texture in TEXTURES:
    honest("normalised")(texture(change_of_texture))


@honest("normalised")
def combined(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Two or three of the above, one after the other."""
    quote = several(rng, source.passage, rng.choice([2, 3]))
    return GeneratedQuote(quote) if quote != source.passage else None


@honest("normalised")
def chunk_of_a_page(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """The chunk is raw text of a page (broken lines and words, ligatures, soft hyphens), and the quote is clean."""
    text = source.text
    for change in (rewrapped, hyphenated, ligatures, rng.choice([soft_hyphens, nfd, zero_width])):
        text = change(rng, text)
    return GeneratedQuote(source.passage, text) if source.passage not in text else None


@honest("normalised")
def page_and_page(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Chunk and quote both come from a page, broken at other places."""
    return GeneratedQuote(hyphenated(rng, rewrapped(rng, source.passage)), hyphenated(rng, rewrapped(rng, source.text)))


# --- marked as changed ---------------------------------------------------------------------------


@honest("elided")
def ellipsis(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Words left out, with a mark; four words or more stay on each side."""
    quote = elided_passage(rng, source.passage, 1)
    return GeneratedQuote(quote) if quote else None


@honest("elided")
def ellipses(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Words left out at two places."""
    quote = elided_passage(rng, source.passage, 2)
    return GeneratedQuote(quote) if quote else None


@honest("elided")
def outer_ellipses(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Dots before and after the passage."""
    return GeneratedQuote(rng.choice(WORDS["before"]) + source.passage + rng.choice(WORDS["after"]))


@honest("elided")
def sic(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """[sic] after a word."""
    words = source.passage.split()
    words.insert(rng.randint(1, len(words)), rng.choice(WORDS["sic"]))
    return GeneratedQuote(" ".join(words))


def names_in(text: str) -> list[str]:
    """Words with a capital within a sentence."""
    return sorted(set(re.findall(r"(?<=[a-z] )[A-Z][a-z]{3,}(?= [a-z])", text)))


@honest("elided")
def insertion(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """An editor's words in brackets between two words."""
    words = source.passage.split()
    put_in = [*WORDS["insertions"], *(f"[{name}]" for name in names_in(source.text))]
    words.insert(rng.randint(1, len(words) - 1), rng.choice(put_in))
    return GeneratedQuote(" ".join(words))


@honest("elided")
def pronoun_explained(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """[Who or what is meant] instead of a pronoun."""
    pattern = r"(?<=\s)(?:it|he|she|they|them|this|these|those|its|their|er|sie|es)(?=\s)"
    names = names_in(source.text)
    quote = some(rng, pattern, source.passage, lambda _: f"[{rng.choice(names)}]") if names else source.passage
    return GeneratedQuote(quote) if quote != source.passage else None


@honest("elided")
def letter_in_brackets(_: random.Random, source: Source) -> GeneratedQuote | None:
    """[T]he first letter in the other case, in brackets."""
    first = source.passage[0]
    if not re.match(r"[^\W\d_]{4}", source.passage) or first.swapcase() == first:
        return None
    return GeneratedQuote(f"[{first.swapcase()}]{source.passage[1:]}")


@honest("elided")
def ellipsis_and_texture(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Words left out, and the rest rewrapped, in curly quotes, with look-alikes, ..."""
    quote = elided_passage(rng, source.passage, 1)
    return GeneratedQuote(rng.choice(TEXTURES)(rng, quote)) if quote else None
