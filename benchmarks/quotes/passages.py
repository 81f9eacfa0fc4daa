"""Chunks of a few sentences, passages of them, and the words of a passage."""

from __future__ import annotations

import random
import re
import tomllib
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHUNKS_OF_A_JOB = 8
UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff"
WORD = re.compile(rf"[{UNSPACED}][\u0e31\u0e34-\u0e3a\u0e47-\u0e4e]*|[^\s{UNSPACED}]+")
JOINED = frozenset({"japanese", "chinese"})

Sentences = dict[str, list[str]]


def load(name: str) -> dict[str, list[Any]]:
    """Return a table of this package: `texts`, sentences by language, or `fragments`."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def own_texts() -> Sentences:
    """Return the sentences of this package, by language."""
    return load("texts")


def sentences_of(paths: list[Path]) -> Sentences:
    """Return the sentences of any text files, and of those in folders, by file; what is no UTF-8 is passed over."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    sentences: Sentences = {}
    for file in filter(Path.is_file, files):
        try:
            pieces = re.split(r"(?<=[.!?。])\s+|\n\s*\n", file.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
        if file_sentences := [piece.strip() for piece in pieces if 20 < len(piece) < 400]:
            sentences[str(file)] = file_sentences
    return sentences


@dataclass(frozen=True)
class Source:
    """A passage to make a quote of: whole sentences, or a part of them.

    Attributes:
        text: the chunk it stands in.
        start, end: where.
        open_start, open_end: whether its sentence begins before it, or goes on.
        other_chunks: other chunks of the job.
        language: of the text.
    """

    text: str
    start: int
    end: int
    open_start: bool
    open_end: bool
    other_chunks: tuple[str, ...]
    language: str

    @property
    def passage(self) -> str:
        """Return the words."""
        return self.text[self.start : self.end]

    def with_passage(self, passage: str) -> str:
        """Return the chunk with another passage."""
        return self.text[: self.start] + passage + self.text[self.end :]

    def is_new(self, quote: str) -> bool:
        """Return whether the letters and digits of a quote stand nowhere in the chunk."""
        return letters(quote) not in letters(self.text)


@dataclass(frozen=True)
class Made:
    """A quote, and the chunk if it is not the source's.

    Attributes:
        quote: the quote.
        text: the chunk that it names.
        excused: for honest quotes, kinds that may make it altered.
        cut: for cuts, whether the sentence begins before it, and goes on after it.
    """

    quote: str
    text: str
    excused: frozenset[str] = frozenset()
    cut: tuple[bool, bool] = (False, False)


Rule = Callable[[random.Random, Source], Made | None]


def letters(text: str) -> str:
    """Return letters and digits alone, in compatibility forms, without case and marks."""
    return "".join(c for c in unicodedata.normalize("NFKD", text).casefold() if c.isalnum())


def chunk(rng: random.Random, texts: Sentences, language: str) -> tuple[list[str], str]:
    """Return some sentences of a language, and what stands between them."""
    sentences = rng.sample(texts[language], min(len(texts[language]), rng.randint(1, 3)))
    return sentences, "" if language in JOINED else "\n" if language == "code" else " "


def pick(rng: random.Random, texts: Sentences, language: str) -> Source:
    """Return a passage: a sentence, or some words of it."""
    sentences, between = chunk(rng, texts, language)
    text = between.join(sentences)
    chosen = rng.randrange(len(sentences))
    sentence_start = start = sum(len(sentence) + len(between) for sentence in sentences[:chosen])
    sentence_end = end = start + len(sentences[chosen])
    words = [match for match in WORD.finditer(text, start, end) if match[0].isalpha()]
    if len(words) > 8 and rng.random() < 0.4:
        start, end = words[rng.randint(0, 2)].start(), words[-rng.randint(1, 3)].end()
    names = rng.sample([*texts], min(CHUNKS_OF_A_JOB, len(texts)))
    other_chunks = [
        between.join(sentences)
        for sentences, between in (chunk(rng, texts, name) for name in names if name != language)
    ]
    is_open = (letters(text[sentence_start:start]) != "", letters(text[end:sentence_end]) != "")
    return Source(text, start, end, *is_open, tuple(other_chunks), language)


def some(rng: random.Random, pattern: str, text: str, change: Callable[[re.Match[str]], str]) -> str:
    """Return the text with one place changed, at random; as it was, if there is no such place."""
    places = list(re.finditer(pattern, text))
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start()] + change(place) + text[place.end() :]


def put_in(rng: random.Random, source: Source, fragment: str, quoted: str) -> Made | None:
    """Return a chunk with a fragment between two words of the passage, and a quote with another one there.

    `{w}` in both is one word, `{v}` is another.
    """
    words = [match for match in WORD.finditer(source.passage) if match[0][-1].isalpha()]
    if len(words) < 3:
        return None
    place = rng.choice(words[1:-1]).end()
    names = {"{w}": rng.choice(words)[0].strip("(«“"), "{v}": rng.choice(words)[0].strip("(«“")}
    filled_texts = []
    for template in (fragment, quoted):
        filled = re.sub(r"\{[wv]\}", lambda match: names[match[0]], template)
        filled_texts.append(f"{source.passage[:place]} {filled} {source.passage[place:].lstrip()}")
    return Made(filled_texts[1], source.with_passage(filled_texts[0]))
