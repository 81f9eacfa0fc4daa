"""``python -m benchmarks.quotes --seed 7 --json quotes.json``: check honest and altered quotes, rule by rule."""

from __future__ import annotations

import sys
import time
from pathlib import Path  # noqa: TC003 -- typer reads it at run time
from typing import Annotated

import typer
from benchmarks.quotes.corpus import read_texts, texts_of
from benchmarks.quotes.judging import measure
from benchmarks.quotes.report import console, missed, show, write

from retrieval_client.errors import RetrievalError
from worker.cli.corpus_files import SAMPLES

_EXAMPLES = """
Examples:

  python -m benchmarks.quotes

  python -m benchmarks.quotes --seed 3 --per-rule 500 --examples 3

  python -m benchmarks.quotes --documents mine.json --json quotes.json

  python -m benchmarks.quotes --texts docs --texts README.md

Exit codes: 0 goals reached, 1 an altered quote was accepted or more than 1 % of the honest ones refused, 2 wrong usage.
"""


def run(
    seed: Annotated[int, typer.Option(help="Of passages and changes.")] = 20,
    per_rule: Annotated[int, typer.Option(min=1, help="Quotes by each rule.")] = 100,
    documents: Annotated[Path, typer.Option(help="Documents of the sample's form.", dir_okay=False)] = SAMPLES[
        "documents"
    ],
    texts_in: Annotated[
        list[Path] | None, typer.Option("--texts", help="Any texts instead: a file, or a folder of files.", exists=True)
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Show this many unexpected verdicts of each rule.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.", dir_okay=False)] = None,
) -> None:
    """Check honest and altered quotes of a corpus, rule by rule."""
    texts = read_texts(texts_in) if texts_in else texts_of(documents)
    start = time.perf_counter()
    lines = measure(texts, seed, per_rule)
    seconds = time.perf_counter() - start
    show(lines, examples)
    total = sum(line.count for line in lines)
    console.print(f"{len(texts)} chunks, {total} quotes, seed {seed}, {seconds:.1f} s", highlight=False)
    problems = missed(lines)
    if json_file:
        write(json_file, lines, {"seed": seed, "chunks": len(texts), "quotes": total, "missed": problems})
    for problem in problems:
        console.print(f"missed: {problem}", style="red", highlight=False)
    if problems:
        raise typer.Exit(1)


run.__doc__ = f"{run.__doc__}\n{_EXAMPLES}"


def main() -> None:
    """Run the command; whatever is a user's fault is one line, never a stack trace."""
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    command.command()(run)
    try:
        command(prog_name="python -m benchmarks.quotes")
    except (RetrievalError, OSError) as error:
        print(f"benchmarks.quotes: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
