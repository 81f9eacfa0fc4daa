"""Verdicts of the code under test on quotes, whether they are right, and a table of them."""

from __future__ import annotations

import functools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.quotes.altered import ALTERED, CUT
from benchmarks.quotes.honest import HONEST
from benchmarks.quotes.passages import Made, Rule, Sentences, Source, pick
from rich.table import Table

from worker.core.citations.quoting import QuotedChunk, QuoteFinding, check_quote
from worker.core.citations.quoting.differences import ACCEPTED

SUPPORTED = ("verbatim", "normalised")
VERDICTS = (*SUPPORTED, "elided", "altered", "misattributed", "not_found")
RULES: dict[str, dict[str, Rule]] = {"honest": HONEST, "altered": ALTERED, "cut": CUT}
MOST_NOT_FOUND = 0.005


@functools.lru_cache(maxsize=4096)
def other_chunk(text: str) -> QuotedChunk:
    """Return another chunk of the job, read once."""
    return QuotedChunk.of(text, text)


@dataclass
class Line:
    """Outcomes of the quotes of one rule.

    Attributes:
        wrong: honest: not found, or altered by a kind that its rule does not name; altered: accepted; cut: accepted
            without the rest of its sentence.
    """

    rule: str
    kind: str
    count: int = 0
    wrong: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    examples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, source: Source, made_quote: Made) -> None:
        """Check one quote and count what was said of it."""
        chunks = [QuotedChunk.of("own", made_quote.text), *map(other_chunk, source.other_chunks)]
        finding = check_quote(made_quote.quote, "own", chunks)
        unaccepted = {difference.kind for place in finding.places for difference in place.differences} - ACCEPTED
        self.count += 1
        self.verdicts[finding.verdict] += 1
        self.kinds.update(unaccepted)
        if is_wrong(self.kind, made_quote, finding, unaccepted):
            self.wrong += 1
            self.examples.append(
                {
                    "verdict": finding.verdict,
                    "kinds": sorted(unaccepted),
                    "quote": made_quote.quote,
                    "chunk": made_quote.text,
                }
            )


def is_wrong(kind: str, made_quote: Made, finding: QuoteFinding, kinds: set[str]) -> bool:
    """Return whether a verdict is not what the rule's quotes deserve."""
    if kind == "honest":
        return finding.verdict in ("not_found", "misattributed") or bool(kinds - made_quote.excused)
    if finding.verdict not in SUPPORTED:
        return False
    if kind == "altered":
        return True
    place = finding.places[0]
    return (made_quote.cut[0] and not place.before) or (made_quote.cut[1] and not place.after)


def measure(texts: Sentences, seed: int, per_rule: int) -> list[Line]:
    """Judge a number of quotes by each rule, of all languages in turns; a rule's quotes don't depend on the others."""
    lines = []
    for kind, rules in RULES.items():
        for name, rule in rules.items():
            rng = random.Random(f"{seed} {name}")  # noqa: S311 -- reproducible, not secret
            line = Line(name, kind)
            for i in range(per_rule * 12):
                source = pick(rng, texts, [*texts][i % len(texts)])
                if line.count < per_rule and (made_quote := rule(rng, source)):
                    line.add(source, made_quote)
            lines.append(line)
    return lines


def missed(lines: list[Line]) -> list[str]:
    """Return which goals were missed."""
    honest = [line for line in lines if line.kind == "honest"]
    unfound, count = sum(line.verdicts["not_found"] for line in honest), sum(line.count for line in honest)
    problems = [f"{line.rule}: {line.wrong} of {line.count}" for line in lines if line.wrong and line.kind != "honest"]
    return problems + (
        [f"{unfound} of {count} honest quotes were not found"] if unfound > MOST_NOT_FOUND * count else []
    )


def table(lines: list[Line], kind: str) -> Table:
    """Return a table of the rules of a kind."""
    rules_table = Table(title=f"{kind.capitalize()} quotes")
    for heading in ("rule", "quotes", *VERDICTS, "wrong", "kinds"):
        rules_table.add_column(heading, justify="left" if heading in ("rule", "kinds") else "right")
    of_kind = [line for line in lines if line.kind == kind]
    for line in [*of_kind, Line("all", kind)]:
        counted_lines = of_kind if line.rule == "all" else [line]
        verdicts = sum((counted_line.verdicts for counted_line in counted_lines), Counter[str]())
        counts = [
            sum(counted_line.count for counted_line in counted_lines),
            *(verdicts[verdict] for verdict in VERDICTS),
            sum(counted_line.wrong for counted_line in counted_lines),
        ]
        rules_table.add_row(line.rule, *(str(count or "") for count in counts), " ".join(sorted(line.kinds)))
    return rules_table
