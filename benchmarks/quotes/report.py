"""Tables and figures of judged quotes, and which goals were missed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from benchmarks.quotes.judging import VERDICTS, Line
from benchmarks.quotes.rulebook import ALTERED, HONEST
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from pathlib import Path

# Where no terminal says how wide it is (a pipe, a CI log), tables need more than the usual 80 columns.
console = Console(width=None if sys.stdout.isatty() else 160)
MOST_REFUSED = 0.01


def show(lines: list[Line], examples: int) -> None:
    """A table for each kind, and some of the quotes that were judged wrong or otherwise than expected."""
    for kind, meaning in (("honest", "refused"), ("altered", "wrong")):
        table = Table(title=f"{kind.capitalize()} quotes")
        for heading in ("rule", "quotes", *VERDICTS, meaning):
            table.add_column(heading, justify="left" if heading == "rule" else "right")
        of_kind = [line for line in lines if line.kind == kind]
        for line in of_kind:
            table.add_row(*row(line.rule, [line]), style="red" if line.wrong else "")
        table.add_section()
        table.add_row(*row("all", of_kind), style="bold")
        console.print(table)
    for line in lines:
        for example in line.examples[:examples]:
            console.print(f"{line.rule}: {example['verdict']}: {example['quote']!r}", markup=False, highlight=False)
            console.print(f"    {example['chunk']!r}", markup=False, highlight=False, style="dim")


def row(name: str, lines: list[Line]) -> list[str]:
    """Counts of one or several rules."""
    verdicts = sum((line.verdicts for line in lines), Counter[str]())
    wrong = sum(line.wrong for line in lines)
    return [name, str(sum(line.count for line in lines)), *(str(verdicts[v] or "") for v in VERDICTS), str(wrong or "")]


def missed(lines: list[Line]) -> list[str]:
    """Which goals were missed."""
    of = {kind: [line for line in lines if line.kind == kind] for kind in ("honest", "altered")}
    refused, made = (sum(getattr(line, name) for line in of["honest"]) for name in ("wrong", "count"))
    unfound = sum(line.unfound for line in of["altered"])
    accepted = sum(line.wrong for line in of["altered"]) - unfound
    return [
        *([f"{accepted} altered quotes were accepted, or said to stand in a wrong chunk"] if accepted else []),
        *([f"{refused} of {made} honest quotes were refused"] if refused > MOST_REFUSED * made else []),
        *([f"{unfound} misattributed quotes were not found"] if unfound > MOST_REFUSED * made else []),
    ]


def write(path: Path, lines: list[Line], figures: dict[str, Any]) -> None:
    """All figures as JSON, with the rules' own words and the unexpected verdicts."""
    rules = HONEST | ALTERED
    figures["rules"] = [
        {
            "rule": line.rule,
            "kind": line.kind,
            "what": rules[line.rule][0].__doc__,
            "expected": line.expected,
            "quotes": line.count,
            "wrong": line.wrong,
            "unexpected": line.unexpected,
            "verdicts": dict(line.verdicts),
            "examples": line.examples[:5],
        }
        for line in lines
    ]
    path.write_text(json.dumps(figures, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
