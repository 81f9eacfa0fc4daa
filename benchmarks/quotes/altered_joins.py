"""Rules whose quotes are put together wrongly, marked wrongly, or stand in another chunk."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.quotes.altered_numbers import decimal_point_lost, digit_changed, minus_lost, unit_swapped
from benchmarks.quotes.altered_words import LETTERS, modal_changed, not_lost, word_lost
from benchmarks.quotes.elisions import MARKS, elided_passage
from benchmarks.quotes.passages import GeneratedQuote, Source, passage_of
from benchmarks.quotes.rules import Rules, plain, some
from benchmarks.quotes.textures import TEXTURES, several
from benchmarks.quotes.words import WORDS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

JOINS = Rules()
altered = JOINS.add("not_found")


def halves(rng: random.Random, one: str, other: str) -> tuple[str, str]:
    """The beginning of a text and the end of another, at least five words of each."""
    first, second = one.split(), other.split()
    return " ".join(first[: rng.randint(5, max(5, len(first) - 1))]), " ".join(
        second[-rng.randint(5, max(5, len(second))) :]
    )


@altered
def halves_of_sentences(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """The beginning of one sentence and the end of another, without a mark."""
    sentences = [s for s in re.split(r"(?<=[.!?;])\s+", source.text) if len(s.split()) >= 7]
    if len(sentences) < 2:
        return None
    one, other = rng.sample(sentences, 2)
    quote = " ".join(halves(rng, one, other))
    return GeneratedQuote(quote) if plain(quote) not in plain(source.text) else None


@altered
def halves_of_chunks(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """The beginning of this chunk and the end of another one, with a mark."""
    first, second = halves(rng, source.text, rng.choice(source.others))
    return GeneratedQuote(first + rng.choice(MARKS) + second) if plain(second) not in plain(source.text) else None


@altered
def wrong_order(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Two parts of the chunk with a mark, but the later one first."""
    words = source.text.split()
    if len(words) < 20:
        return None
    middle = rng.randint(8, len(words) - 8)
    first, second = " ".join(words[middle - 6 : middle]), " ".join(words[middle : middle + 6])
    once = all(plain(source.text).count(plain(part)) == 1 for part in (first, second))
    return GeneratedQuote(second + rng.choice(MARKS) + first) if once else None


@altered
def scraps(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Single words with marks between: anything can be made of them."""
    words = [word for word in source.text.split() if word.isalpha() and len(word) < 6]
    if len(words) < 3:
        return None
    chosen = sorted(rng.sample(range(len(words)), 3))
    return GeneratedQuote(rng.choice(MARKS).join(words[i] for i in chosen))


@altered
def part_cut_in_word(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """A mark of omission inside a word: "it is un… safe to use" is made of "it is unusual but safe to use"."""
    quote = elided_passage(rng, source.passage, 1)
    parts = re.split(r"\s*(?:…|\[…\]|[\[(]?\.[ .]*[\])]?)\s*(?=\S)", quote or "", maxsplit=1)
    if len(parts) != 2 or not re.search(rf"{LETTERS}{{4,}}\Z", parts[0]):
        return None
    made = parts[0][:-2] + "… " + parts[1]
    return GeneratedQuote(made) if not re.search(rf"{re.escape(parts[0][:-2])}\b", source.text) else None


@altered
def denial_in_brackets(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """[not] put in, or [may] instead of must."""
    verbs = r"\b(?:is|was|are|were|may|must|should|can|will|did|does|has|have|had)\b(?! not)"
    quote = some(rng, verbs, source.passage, lambda m: rng.choice([f"{m[0]} [not]", f"{m[0]} [never]", "[may not]"]))
    return GeneratedQuote(quote) if quote != source.passage else None


@altered
def number_in_brackets(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """[15 dB] instead of 3 dB, [of 15] instead of of 3."""
    quote = some(rng, r"(?<!\S)\d[\d.,]*\s?\w*", source.passage, lambda _: rng.choice(WORDS["numbers_in_brackets"]))
    return GeneratedQuote(quote) if quote != source.passage else None


@altered
def other_chunk(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Word for word, but from another chunk: misattributed."""
    return _of_other_chunk(rng, source, lambda text: text)


@altered
def other_chunk_rewritten(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """From another chunk, and honestly changed on its way: misattributed."""
    return _of_other_chunk(rng, source, lambda text: rng.choice(TEXTURES)(rng, text))


@altered
def other_chunk_elided(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """From another chunk, with honest marks: misattributed."""
    return _of_other_chunk(rng, source, lambda text: elided_passage(rng, text, 1))


def _of_other_chunk(rng: random.Random, source: Source, change: Callable[[str], str | None]) -> GeneratedQuote | None:
    other = rng.choice(source.others)
    passage = passage_of(rng, other)
    quote = change(passage) if passage else None
    if not quote or not passage or plain(passage) in plain(source.text):
        return None
    return GeneratedQuote(quote, stands_in=other)


@altered
def altered_and_disguised(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """Any change of a number or a word above, and then one or two honest changes on top."""
    change = rng.choice(
        [digit_changed, decimal_point_lost, minus_lost, unit_swapped, modal_changed, not_lost, word_lost]
    )
    made = change(rng, source)
    if not made or made.quote == source.passage:
        return None
    return GeneratedQuote(several(rng, made.quote, rng.choice([1, 2])))
