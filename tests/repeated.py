"""Run `make test` many times in a row and write what came out: `make test-repeated`.

Nothing is retried and no run is left out: a test that fails once in many runs shows a fault, of the product or its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COUNTS = re.compile(r"^=+ (?P<counts>.*(?:passed|failed|error).*) in [\d.]+s.* =+$", re.MULTILINE)
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run of `make test`.

    Attributes:
        seconds: how long it took.
        exit_code: of make.
        counts: pytest's last line.
        failures: tests that failed.
    """

    seconds: float
    exit_code: int
    counts: str
    failures: tuple[str, ...]


def run_once(log: Path) -> Run:
    """Run `make test`; its output goes to a file."""
    start = time.monotonic()
    with log.open("w") as output:
        completed = subprocess.run(["make", "test"], check=False, stdout=output, stderr=subprocess.STDOUT)
    text = log.read_text(errors="replace")
    counts = _COUNTS.search(text)
    return Run(
        time.monotonic() - start,
        completed.returncode,
        counts["counts"] if counts else "pytest did not end",
        tuple(dict.fromkeys(_FAILURE.findall(text))),
    )


@contextlib.contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """Compute without end in as many processes."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def as_page(runs: list[Run], wanted: int, beside: int, commit: str) -> str:
    """Return the page of results."""
    passed = sum(run.exit_code == 0 for run in runs)
    load = f" beside {beside} busy loops" if beside else ""
    conditions = (
        f"`make test-repeated RUNS={wanted} BESIDE={beside}`, {datetime.now(UTC):%Y-%m-%d}, commit {commit}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores"
    )
    lines = [
        f"# `make test` {wanted} times in a row{load}",
        "",
        f"{conditions}. **{passed} of {len(runs)} passed.**",
        "",
        "| run | exit code | seconds | counts | failed |",
        "| --: | --: | --: | --- | --- |",
    ]
    for number, run in enumerate(runs, 1):
        failures = ", ".join(f"`{name}`" for name in run.failures)
        lines.append(f"| {number} | {run.exit_code} | {run.seconds:.0f} | {run.counts} | {failures} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the tests as often as asked; return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--beside", type=int, default=0, help="busy loops that run meanwhile")
    parser.add_argument("--write", type=Path, help="folder of the page")
    parser.add_argument("--logs", type=Path, default=Path("build/repeated"), help="folder of each run's output")
    options = parser.parse_args()
    options.logs.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True)
    runs: list[Run] = []
    with busy_loops(options.beside):
        for number in range(1, options.runs + 1):
            runs.append(run_once(options.logs / f"beside-{options.beside}-run-{number}.log"))
            print(f"{number} of {options.runs}: exit code {runs[-1].exit_code}, {runs[-1].counts}", flush=True)
            if options.write:  # after each run: what is there is true if the rest is interrupted
                page = options.write / ("repeated_beside_load.md" if options.beside else "repeated.md")
                page.write_text(as_page(runs, options.runs, options.beside, commit.stdout.strip()))
    return 1 if any(run.exit_code for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
