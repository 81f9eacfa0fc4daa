"""``python -m benchmarks.quotes.growth --write benchmarks/results``: the time that hostile quotes and sources take.

Each shape is made in sizes from 10 kB to 1,000 kB (thousands of characters), far beyond what the contract accepts, and
four functions read it. The exponent of a function is that of its time over ten times the size, the highest of all such
pairs: 1 is linear, 2 squared. Pairs of which the larger takes less than 20 ms of processor time are not counted.
Memory that grows past the caches shows as up to 1.4: “lists without end” is linear from 300 kB to 8,000 kB.
"""

from __future__ import annotations

import gc
import json
import math
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from benchmarks.command import as_command
from benchmarks.quality import markdown
from benchmarks.quotes.passages import load
from rich.console import Console
from rich.table import Table

from worker.core.citations.budget import STEPS_PER_JOB, SearchBudget
from worker.core.citations.labels import classify
from worker.core.citations.quoting import QuotedChunk, check_quote

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (10, 30, 100, 300, 1000)
GOAL, FLOOR_SECONDS = 1.1, 0.02
MOST_TRIES, SHORT_SECONDS, MOST_SECONDS = 3, 0.1, 0.3
STOPPED = f"A function that took more than {MOST_SECONDS} s of a size is given no larger one, and its largest is named."
LABELS = {f"S{number}": f"sha256:{number}" for number in range(1, 1001)}


def filled(pattern: str, size: int) -> str:
    """Return a text of a size: what stands in braces, repeated."""
    pieces = re.split(r"\{([^{}]+)\}", pattern)
    share = (size - sum(map(len, pieces[::2]))) // max(1, len(pieces) // 2)
    return "".join(piece if i % 2 == 0 else repeated(piece, share) for i, piece in enumerate(pieces))


def repeated(unit: str, size: int) -> str:
    """Return as many units as have a size, each with its number."""
    if "§" not in unit:
        return unit * max(1, size // len(unit))
    return "".join(unit.replace("§", str(i)) for i in range(max(1, size // (len(unit) + 4))))


def words(size: int, start: int = 0) -> list[str]:
    """Return as many different words as have a size with their blanks."""
    return [f"w{number:06}" for number in range(start, start + size // 8)]


def growing(sign: str, size: int, between: str) -> str:
    """Return runs of a sign, each longer than the last."""
    return between.join(sign * length for length in range(1, int(math.sqrt(2 * size))))


def fibonacci(size: int) -> str:
    """Return a word that nearly repeats everywhere."""
    shorter, longer = "a", "ab"
    while len(longer) < size:
        shorter, longer = longer, longer + shorter
    return longer[:size]


Shape = Callable[[int], tuple[str, str]]

MOST_WORDS = 3_900
"""About as many as the search for the nearest passage takes."""
SHAPES: dict[str, Shape] = {
    name: lambda n, pair=pair: (filled(pair[0], n // 2), filled(pair[1], n)) for name, pair in load("shapes").items()
} | {
    "parts that stand twice": lambda n: (
        " … ".join([*words(n // 3), "end"]),
        " ".join([*words(n // 3), *words(n // 3, 500_000), *words(n // 3), "end"]),
    ),
    "runs of ticks": lambda n: (growing("`", n // 2, " a "), growing("`", n, " b ")),
    "a Fibonacci word": lambda n: (fibonacci(n // 2)[::-1], fibonacci(n)),
    "words in reverse": lambda n: (" ".join(words(n)[:MOST_WORDS][::-1]), " ".join(words(n))),
    "each second word": lambda n: (" x ".join(words(n)[: MOST_WORDS // 2]), " y ".join(words(n // 2))),
    "each word sixteen times": lambda n: (
        " ".join(islice(cycle(words(n)[: n // 128]), MOST_WORDS)),
        " ".join((words(n)[: n // 128]) * 16),
    ),
    "words in pairs": lambda n: (
        " ".join(f"b{i} a{i}" for i in range(min(n // 14, MOST_WORDS // 2))),
        " ".join(f"a{i} b{i}" for i in range(n // 14)),
    ),
}


def checking(quote: str, source: str, budget: SearchBudget | None = None) -> Callable[[], object]:
    """Return the check of a quote in a chunk that is read before."""
    return partial(check_quote, quote, "own", [QuotedChunk.of("own", source)], budget)


FUNCTIONS: dict[str, Callable[[str, str], Callable[[], object]]] = {
    "read": lambda _, source: partial(QuotedChunk.of, "own", source),
    "check": checking,
    "check in a job": lambda quote, source: checking(quote, source, SearchBudget(STEPS_PER_JOB, 1)),
    "labels": lambda _, source: partial(classify, source, LABELS),
}
"""Each prepares a call. In a job a check has the budget of its only quote; the source is an answer with labels, too."""


class Growth(NamedTuple):
    """Seconds that a function takes on a shape, by size in kB; the exponent is None where all are too small."""

    shape: str
    function: str
    seconds: dict[int, float]
    exponent: float | None


def measure(name: str, function: str, largest_size: int) -> Growth:
    """Measure a function on a shape in each size, the largest ones only as long as it stays quick."""
    seconds: dict[int, float] = {}
    for size in SIZES:
        if size <= largest_size and max(seconds.values(), default=0.0) < MOST_SECONDS:
            quote, source = SHAPES[name](size * 1000)
            tries = [time_once(FUNCTIONS[function](quote, source))]
            while len(tries) < MOST_TRIES and tries[0] < SHORT_SECONDS:
                tries.append(time_once(FUNCTIONS[function](quote, source)))
            seconds[size] = min(tries)
    pairs = [(size, 10 * size) for size in seconds if 10 * size in seconds]
    exponents = [math.log10(seconds[b] / seconds[a]) for a, b in pairs if seconds[b] >= FLOOR_SECONDS]
    return Growth(name, function, seconds, max(exponents, default=None))


def time_once(call: Callable[[], object]) -> float:
    """Return the processor time of a call, without the collector, which goes through all that the process holds."""
    gc.disable()
    start = time.process_time()
    call()
    seconds = time.process_time() - start
    gc.enable()
    return seconds


def rows(growths: Sequence[Growth]) -> list[list[str]]:
    """Return a line for each shape, the highest exponent first: exponents, and seconds at the largest size measured."""
    by_shape = [growths[i : i + len(FUNCTIONS)] for i in range(0, len(growths), len(FUNCTIONS))]
    by_shape.sort(key=lambda functions: -max(growth.exponent or 0 for growth in functions))
    return [[functions[0].shape, *(cell for growth in functions for cell in cells(growth))] for functions in by_shape]


def cells(growth: Growth) -> tuple[str, str]:
    """Return an exponent, and the seconds of the largest size, which is named where it is not 1,000 kB."""
    size = max(growth.seconds)
    size_note = "" if size == SIZES[-1] else f" ({size} kB)"
    return f"{growth.exponent:.2f}" if growth.exponent else "–", f"{growth.seconds[size]:.2f}{size_note}"


def run(
    most: Annotated[int, typer.Option(min=10, help="Largest size in kB.")] = SIZES[-1],
    shapes: Annotated[str, typer.Option(help="Regular expression: only shapes whose name has it.")] = "",
    folder: Annotated[
        Path | None, typer.Option("--write", help="Write the table into this folder.", exists=True, file_okay=False)
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.", dir_okay=False)] = None,
) -> None:
    """Measure how time grows with quotes and sources made to harm; exit code 1 if an exponent is above 1.1."""
    console, start = Console(width=None if sys.stdout.isatty() else 160), time.perf_counter()
    names = [name for name in SHAPES if re.search(shapes, name)]
    growths = [measure(name, function, most) for name in names for function in FUNCTIONS]
    headings = ["shape", *(heading for function in FUNCTIONS for heading in (function, "s"))]
    lines = rows(growths)
    table = Table(*headings)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    above = [growth for growth in growths if (growth.exponent or 0) > GOAL]
    summary = f"{len(names)} shapes, {len(above)} of {len(growths)} exponents above {GOAL}"
    console.print(f"{summary}; {time.perf_counter() - start:.0f} s", highlight=False)
    if folder:
        about = f"# Growth of time with hostile quotes\n\n{summary}. {__doc__.split(chr(10), 2)[2].strip()}"
        (folder / "growth.md").write_text(f"{about} {STOPPED}\n\n{markdown(headings, lines)}\n", encoding="utf-8")
    if json_file:
        json_file.write_text(json.dumps([growth._asdict() for growth in growths], indent=2) + "\n", encoding="utf-8")
    if above:
        raise typer.Exit(1)


if __name__ == "__main__":
    as_command(run, "benchmarks.quotes.growth")
