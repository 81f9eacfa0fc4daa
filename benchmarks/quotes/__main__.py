"""``python -m benchmarks.quotes --seed 7 --json quotes.json``: check honest and altered quotes, rule by rule."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from benchmarks.command import as_command
from benchmarks.quotes.judging import RULES, measure, missed, table
from benchmarks.quotes.passages import own_texts, sentences_of
from rich.console import Console


def run(
    seed: Annotated[int, typer.Option(help="Of passages and changes.")] = 20,
    per_rule: Annotated[int, typer.Option(min=1, help="Quotes by each rule.")] = 100,
    texts: Annotated[
        list[Path] | None, typer.Option(help="Any texts instead: a file, or a folder of files.", exists=True)
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Show this many wrong verdicts of each rule.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.", dir_okay=False)] = None,
) -> None:
    """Check honest, altered and cut quotes in 13 languages and code, rule by rule.

    Example: [bold]python -m benchmarks.quotes --seed 3 --per-rule 500 --examples 3[/bold]

    Exit codes: 0 goals reached, 1 an altered quote was accepted, a cut one without the rest of its sentence, or more than
    0.5 % of the honest ones were not found, 2 wrong usage.
    """
    console = Console(width=None if sys.stdout.isatty() else 160)
    start = time.perf_counter()
    lines = measure(sentences_of(texts) if texts else own_texts(), seed, per_rule)
    for kind in RULES:
        console.print(table(lines, kind))
    for line in lines:
        for example in line.examples[:examples]:
            console.print(f"{line.rule}: {example}", markup=False, highlight=False)
    total = sum(line.count for line in lines)
    console.print(f"{total} quotes, seed {seed}, {time.perf_counter() - start:.1f} s", highlight=False)
    if json_file:
        figures = {"seed": seed, "quotes": total, "missed": missed(lines), "rules": [vars(line) for line in lines]}
        json_file.write_text(json.dumps(figures, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    for problem in missed(lines):
        console.print(f"missed: {problem}", style="red", highlight=False)
    if missed(lines):
        raise typer.Exit(1)


if __name__ == "__main__":
    as_command(run, "benchmarks.quotes")
