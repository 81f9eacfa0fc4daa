"""``python -m tests.guards``: take each guard out in turn, and see at least one test fail.

Works on a copy of the project; the checkout stays as it is. Exit code 1 if a guard is not caught.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from tests.guards.table import ROOT, RUNGS, Guard, read
from tests.guards.trial import CAUGHT, Verdict, attempt, copy_of, passing

Found = list[tuple[Guard, Verdict, float]]

console = Console()


def main() -> int:
    """The command; its exit code."""
    options = _options()
    every = read()
    guards = [guard for guard in every if _is_asked_for(guard, options)]
    if unknown := {*options.only} - {guard.name for guard in every}:
        console.print(f"there is no guard {', '.join(sorted(unknown))}: --list shows them", style="red")
        return 2
    if options.list:
        console.print(_listed(guards))
        return 0
    found = _try_all(guards, options.jobs, options.log)
    console.print(_table(found))
    counts = Counter(verdict for _, verdict, _ in found)
    console.print(", ".join(f"{number} {verdict}" for verdict, number in counts.items()))
    return 0 if counts.keys() <= {CAUGHT} else 1


def _is_asked_for(guard: Guard, options: argparse.Namespace) -> bool:
    return (not options.only or guard.name in options.only) and options.rung in {None, RUNGS[guard.rung]}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.guards", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this guard; may be repeated")
    parser.add_argument("--rung", choices=RUNGS, help="those whose slowest test is of this rung")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="guards at once; default: cores")
    parser.add_argument("--list", action="store_true", help="show the guards, and run nothing")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep what pytest said of all tries")
    return parser.parse_args()


def _try_all(guards: list[Guard], jobs: int, log: Path | None) -> Found:
    """Try guards, several at once, each in a copy of its own."""
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with contextlib.ExitStack() as exits:
        copies = [exits.enter_context(copy_of(ROOT)) for _ in range(min(jobs, len(guards)) or 1)]
        if log is not None:
            exits.callback(_keep_logs, copies, log)
        progress = exits.enter_context(Progress(*columns, console=console))
        bar = progress.add_task("the tests, with every guard", total=len(guards))
        good = passing(copies[0], list(dict.fromkeys(test for guard in guards for test in guard.tests)))
        free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)

        def trial(guard: Guard) -> tuple[Guard, Verdict, float]:
            copy, started = free.get(), time.monotonic()
            progress.update(bar, description=f"without {guard.name}")
            try:
                verdict = attempt(guard, copy, good)
            finally:
                free.put(copy)
            if verdict != CAUGHT or not console.is_terminal:
                progress.console.print(f"{guard.name}: {verdict}", highlight=False)
            progress.advance(bar)
            return guard, verdict, time.monotonic() - started

        threads = exits.enter_context(ThreadPoolExecutor(len(copies)))
        return list(threads.map(trial, guards))


def _keep_logs(copies: list[Path], log: Path) -> None:
    said = [copy / ".guards.log" for copy in copies]
    log.write_bytes(b"".join(file.read_bytes() for file in said if file.is_file()))


def _table(found: Found) -> Table:
    table = Table(Column("guard", no_wrap=True), Column("file", overflow="fold"), "tests", "s", "verdict")
    for guard, verdict, seconds in found:
        style = "green" if verdict == CAUGHT else "bold red"
        table.add_row(guard.name, guard.file, RUNGS[guard.rung], f"{seconds:.0f}", f"[{style}]{verdict}[/]")
    return table


def _listed(guards: list[Guard]) -> Table:
    table = Table(Column("guard", no_wrap=True), "without it", Column("tests that fail", overflow="fold"))
    for guard in guards:
        table.add_row(guard.name, guard.why, "\n".join(test.removeprefix("tests/") for test in guard.tests))
    return table


if __name__ == "__main__":
    sys.exit(main())
