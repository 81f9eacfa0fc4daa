"""Verdicts of the code under test on quotes, whether they are right, and a table of them."""

from __future__ import annotations

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

    def add(self, source: Source, made: Made) -> None:
        """Check one quote and count what was said of it."""
        chunks = [QuotedChunk.of("own", made.text), *(QuotedChunk.of(text, text) for text in source.others)]
        finding = check_quote(made.quote, "own", chunks)
        others = {one.kind for place in finding.places for one in place.differences} - ACCEPTED
        self.count += 1
        self.verdicts[finding.verdict] += 1
        self.kinds.update(others)
        if is_wrong(self.kind, made, finding, others):
            self.wrong += 1
            self.examples.append(
                {"verdict": finding.verdict, "kinds": sorted(others), "quote": made.quote, "chunk": made.text}
            )


def is_wrong(kind: str, made: Made, finding: QuoteFinding, others: set[str]) -> bool:
    """Return whether a verdict is not what the rule's quotes deserve."""
    if kind == "honest":
        return finding.verdict in ("not_found", "misattributed") or bool(others - made.excused)
    if finding.verdict not in SUPPORTED:
        return False
    if kind == "altered":
        return True
    place = finding.places[0]
    return (made.cut[0] and not place.before) or (made.cut[1] and not place.after)


def measure(texts: Sentences, seed: int, per_rule: int) -> list[Line]:
    """Judge a number of quotes by each rule, of all languages in turns; a rule's quotes don't depend on the others."""
    lines = []
    for kind, rules in RULES.items():
        for name, rule in rules.items():
            rng = random.Random(f"{seed} {name}")  # noqa: S311 -- reproducible, not secret
            line = Line(name, kind)
            for i in range(per_rule * 12):
                source = pick(rng, texts, [*texts][i % len(texts)])
                if line.count < per_rule and (made := rule(rng, source)):
                    line.add(source, made)
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
    shown = Table(title=f"{kind.capitalize()} quotes")
    for heading in ("rule", "quotes", *VERDICTS, "wrong", "kinds"):
        shown.add_column(heading, justify="left" if heading in ("rule", "kinds") else "right")
    of_kind = [line for line in lines if line.kind == kind]
    for line in [*of_kind, Line("all", kind)]:
        of = of_kind if line.rule == "all" else [line]
        verdicts = sum((one.verdicts for one in of), Counter[str]())
        counts = [
            sum(one.count for one in of),
            *(verdicts[verdict] for verdict in VERDICTS),
            sum(one.wrong for one in of),
        ]
        shown.add_row(line.rule, *(str(count or "") for count in counts), " ".join(sorted(line.kinds)))
    return shown
