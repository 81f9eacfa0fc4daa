"""Verdicts of the code under test on quotes, and whether they are right."""

from __future__ import annotations

import itertools
import random
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.quotes.passages import GeneratedQuote, Source, make
from benchmarks.quotes.rulebook import ALTERED, HONEST
from benchmarks.quotes.textures import CYRILLIC, GREEK

from retrieval_client.hashing import hash_chunk
from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.findings import QuotedChunk, QuoteFinding

FOUND = ("verbatim", "normalised", "elided")
VERDICTS = (*FOUND, "misattributed", "not_found")


@dataclass
class Line:
    """Outcomes of the quotes of one rule."""

    rule: str
    kind: str
    expected: str
    count: int = 0
    wrong: int = 0
    unfound: int = 0
    unexpected: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, str]] = field(default_factory=list)


def judge(line: Line, source: Source, made: GeneratedQuote) -> None:
    """Check one quote and count what was said of it."""
    text = made.text if made.text is not None else source.text
    own = hash_chunk(text)
    chunks = [chunk_of(text), *map(chunk_of, source.others)]
    finding = check_quote(made.quote, own, chunks)
    deserved = "misattributed" if made.stands_in is not None else line.expected
    wrong = is_wrong(line, made, finding, chunks)
    line.count += 1
    line.verdicts[finding.verdict] += 1
    line.wrong += wrong
    line.unfound += wrong and finding.verdict == "not_found"
    line.unexpected += finding.verdict != deserved
    if wrong or finding.verdict != deserved:
        line.examples.append({"quote": made.quote, "chunk": text, "verdict": finding.verdict})


def is_wrong(line: Line, made: GeneratedQuote, finding: QuoteFinding, chunks: list[QuotedChunk]) -> bool:
    """Honest: refused, or a span that is not the quote. Altered: accepted, or said of a wrong chunk."""
    if line.kind == "honest":
        return finding.verdict not in FOUND or not spans_are_right(made, finding, chunks)
    if made.stands_in is not None:
        return hash_chunk(made.stands_in) not in finding.elsewhere
    return finding.verdict in FOUND


def spans_are_right(made: GeneratedQuote, finding: QuoteFinding, chunks: list[QuotedChunk]) -> bool:
    """Return whether the parts stand in the chunk in this order, with the quote's letters."""
    text = chunks[finding.places[0].chunk].text.text
    parts = [text[start:end] for start, end in finding.spans]
    in_order = all(one[1] <= other[0] for one, other in itertools.pairwise(finding.spans))
    if finding.verdict == "verbatim":
        return parts == [made.quote]
    bracketed = re.compile(r"\[[^\[\]]{2,}\]|\(sic!?\)")
    ways = [lambda text: text, lambda text: bracketed.sub("", text)]
    return in_order and all(any(letters(way(part)) in letters(way(made.quote)) for way in ways) for part in parts)


def letters(text: str) -> str:
    """Only what every honest rule keeps, or what can be brought back."""
    looks = {ord(look.lower()): letter.lower() for of in (CYRILLIC, GREEK) for letter, look in of.items()}
    folded = unicodedata.normalize("NFKD", text).casefold().translate(looks).replace("ı", "i")
    return "".join(c for c in folded if c.isalnum())


_CHUNKS: dict[str, QuotedChunk] = {}


def chunk_of(text: str) -> QuotedChunk:
    """A chunk prepared once, as in a job."""
    if text not in _CHUNKS:
        _CHUNKS[text] = QuotedChunk.of(hash_chunk(text), text)
    return _CHUNKS[text]


def measure(texts: list[str], seed: int, per_rule: int) -> list[Line]:
    """A number of quotes by each rule. A rule's quotes don't depend on the other rules."""
    lines = []
    for kind, rules in (("honest", HONEST), ("altered", ALTERED)):
        for name, (rule, expected) in rules.items():
            rng = random.Random(f"{seed} {name}")  # noqa: S311 -- reproducible, not secret
            line = Line(name, kind, expected)
            for _ in range(per_rule):
                if made := make(rng, rule, texts):
                    judge(line, *made)
            lines.append(line)
    return lines
