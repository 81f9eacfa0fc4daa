"""Speed of the checks of quotes and labels beside an earlier revision: CPU time, both sides in turns, as ratio.

python -m benchmarks.checks_beside_revision b981bce --rounds 7

The quotes and answers are made once, by the rules of `benchmarks.quotes` in this checkout; both sides check the same.
Each side is a process of its own that stays alive, so what is measured is the checks and nothing else.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from benchmarks.command import as_command
from benchmarks.quotes.judging import RULES
from benchmarks.quotes.passages import Sentences, own_texts, pick, sentences_of
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parents[1]
SOURCES = 8
"""Of one answer."""

# Runs in either checkout, so it may use only what both have.
SIDE = """
import json, sys, time
from importlib import import_module

def module(name):
    try:
        return import_module("worker.core.citations." + name)
    except ModuleNotFoundError:
        return import_module("worker.core." + name)  # older revisions

check_answer = module("answering").check_answer
classify = module("labels").classify
check_quote = module("quoting").check_quote
QuotedChunk = getattr(module("quoting"), "QuotedChunk", None) or module("quoting.findings").QuotedChunk

with open(sys.argv[1], encoding="utf-8") as file:
    cases = json.load(file)
prepared = {text: QuotedChunk.of(text, text) for text in cases["texts"]}
hardest = [(quote, text) for kind in ("honest", "altered") for quote, text, _ in cases[kind]]

def quotes(kind):
    for quote, text, others in cases[kind]:
        check_quote(quote, text, [prepared[one] for one in (text, *others)])

def chunks():
    for quote, text in hardest[:500]:
        check_quote(quote + "!", text, [QuotedChunk.of(text, text)])

def answers():
    for answer, sources in cases["answers"]:
        check_answer(answer, sources)

def labels():
    for answer, sources in cases["answers"]:
        for _ in range(20):
            classify(answer, sources)

measured = {
    "quotes, honest": lambda: quotes("honest"),
    "quotes, altered": lambda: quotes("altered"),
    "quotes, chunks made ready too": chunks,
    "answers": answers,
    "labels": labels,
}
for name in measured:
    measured[name]()
print(json.dumps(list(measured)), flush=True)
for line in sys.stdin:
    started = time.process_time()
    measured[line.strip()]()
    print(time.process_time() - started, flush=True)
"""


class Side:
    """One checkout, ready to measure."""

    def __init__(self, checkout: Path, cases: Path, stack: ExitStack) -> None:
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", SIDE, str(cases)],
                cwd=checkout,
                env={"PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        self.names: list[str] = json.loads(self._answer())

    def seconds(self, name: str) -> float:
        """CPU time of one measurement."""
        assert self._process.stdin
        print(name, file=self._process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout
        if line := self._process.stdout.readline():
            return line
        raise OSError("a side has ended before it was measured")


def make_cases(texts: Sentences, seed: int, per_rule: int) -> dict[str, Any]:
    """Quotes by each rule with the chunks they are looked for in, and answers that quote several sources."""
    cases: dict[str, Any] = {"honest": [], "altered": []}
    seen: dict[str, None] = {}
    for kind, rules in RULES.items():
        for name, rule in rules.items():
            rng = random.Random(f"{seed} {name}")  # noqa: S311 -- reproducible, not secret
            for language in itertools.islice(itertools.cycle(texts), per_rule):
                source = pick(rng, texts, language)
                if made_quote := rule(rng, source):
                    seen |= dict.fromkeys([made_quote.text, *source.other_chunks])
                    cases["honest" if kind == "honest" else "altered"].append(
                        [made_quote.quote, made_quote.text, source.other_chunks]
                    )
    cases["texts"] = list(seen)
    rng = random.Random(f"{seed} answers")  # noqa: S311 -- the same
    quotes = [(quote, text) for quote, text, _ in itertools.chain(cases["honest"], cases["altered"])]
    cases["answers"] = [_answer(rng.sample(quotes, min(SOURCES, len(quotes)))) for _ in range(len(quotes) // 40 + 1)]
    return cases


def _answer(quoted: list[tuple[str, str]]) -> tuple[str, dict[str, str]]:
    sources = {f"S{i}": text for i, (_, text) in enumerate(quoted, 1)}
    sentences = [
        f"It says (as before) “{quote}” [S{i}, S{i % len(quoted) + 1}]." for i, (quote, _) in enumerate(quoted, 1)
    ]
    return " ".join(sentences), sources


def run(
    revision: Annotated[str, typer.Argument(help="The earlier revision, as git names it.")],
    rounds: Annotated[int, typer.Option(help="Rounds; the sides take turns in each.", min=1)] = 7,
    per_rule: Annotated[int, typer.Option(min=1, help="Quotes by each rule.")] = 20,
    seed: Annotated[int, typer.Option(help="Of passages and changes.")] = 20,
    texts_in: Annotated[
        list[Path] | None, typer.Option("--texts", help="Any texts instead: a file, or a folder of files.", exists=True)
    ] = None,
    most: Annotated[float, typer.Option(help="Exit code 1 if a ratio is greater.", min=0)] = 1.2,
) -> None:
    """Check the same quotes and answers with an earlier revision and with this checkout; print CPU time and ratio.

    Example: [bold]python -m benchmarks.checks_beside_revision b981bce --rounds 7[/bold]

    Exit codes: 0 no ratio above the bound, 1 one is, or the run failed, 2 wrong usage.
    """
    cases = make_cases(sentences_of(texts_in) if texts_in else own_texts(), seed, per_rule)
    with tempfile.TemporaryDirectory(prefix="rw-checks-") as folder, ExitStack() as stack:
        file, earlier_checkout = Path(folder) / "cases.json", Path(folder) / "before"
        file.write_text(json.dumps(cases), encoding="utf-8")
        subprocess.run(
            ["git", "-C", str(HERE), "worktree", "add", "--detach", "-q", str(earlier_checkout), revision], check=True
        )
        stack.callback(
            subprocess.run, ["git", "-C", str(HERE), "worktree", "remove", "--force", str(earlier_checkout)], check=True
        )
        sides = {"before": Side(earlier_checkout, file, stack), "after": Side(HERE, file, stack)}
        measured = measure(sides, rounds)
    ratios = show(measured, rounds, len(cases["honest"]) + len(cases["altered"]))
    if max(ratios) > most:
        raise typer.Exit(1)


def measure(sides: dict[str, Side], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Name of what is measured → side → seconds of each round."""
    measured: dict[str, dict[str, list[float]]] = {name: {"before": [], "after": []} for name in sides["after"].names}
    for number in range(rounds):
        for name, seconds in measured.items():
            # Who goes first changes from round to round.
            for side in ("before", "after") if number % 2 else ("after", "before"):
                seconds[side].append(sides[side].seconds(name))
    return measured


def show(measured: dict[str, dict[str, list[float]]], rounds: int, quotes: int) -> list[float]:
    """Print a table; the ratios, by the lowest of each side: whatever else runs on the machine only adds to it."""
    table = Table("check", "before, ms (lowest)", "after, ms (lowest)", "after / before", "of the medians")
    ratios = []
    for name, seconds in measured.items():
        lowest = [min(seconds[side]) for side in ("before", "after")]
        medians = [statistics.median(seconds[side]) for side in ("before", "after")]
        ratios.append(lowest[1] / lowest[0])
        table.add_row(
            name,
            *(f"{1000 * value:.1f}" for value in lowest),
            f"{ratios[-1]:.2f}",
            f"{medians[1] / medians[0]:.2f}",
        )
    console = Console(width=120)
    console.print(table)
    console.print(f"{quotes} quotes, {rounds} rounds in turns; CPU time")
    return ratios


if __name__ == "__main__":
    as_command(run, "benchmarks.checks_beside_revision")
