"""Judge histories of any queue: ``python -m chaos.check HISTORY…``. Imports nothing of the harness.

A history has one JSON object a line, in the order of its events:

    {"type": "invoke", "process": "producer", "time": 1.50, "id": "a", "question": "5f2c"}
    {"type": "ok", "process": "results", "time": 1.92, "id": "a", "answer": "91d0"}
    {"type": "fail", "process": "results", "time": 2.31, "id": "b", "answer": "77aa", "error": "TimedOut"}
    {"type": "fail", "process": "producer", "time": 2.40, "id": "c", "error": "refused"}
    {"type": "info", "process": "producer", "time": 2.48, "id": "d", "error": "connection lost"}
    {"type": "info", "process": "nemesis", "time": 2.50, "fault": "worker killed", "event": "begin"}

``invoke``: a job is sent; if no other line of it says otherwise, the broker acknowledged it. ``ok``: an outcome was
seen. ``fail`` with an answer: the outcome is a named failure; without: the job is not in the queue, for certain.
``info``: it is unknown whether it is. Questions and answers are digests; times are seconds of one clock, which never
goes back. A line with an answer may say why it is ``wrong``: "foreign" if it holds what its caller may not see. Other
fields are ignored.

Exit codes: 0 no violations, 1 violations, 2 a malformed line or file.
"""

from __future__ import annotations

import argparse
import json
import math
import sqlite3
import sys
from bisect import bisect_left
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

VIOLATIONS = ("lost", "without its job", "second differs", "wrong", "foreign")
FIGURES = ("jobs", "answered", "unknown", "repeated", "faults", "jobs/s", "p50", "p99")
MOST_BYTES = 2**20
SHOWN = 20
_NAMES = {"invoke": ("id", "question"), "ok": ("id", "answer"), "fail": ("id", "error"), "info": ("id", "error")}
_OPTIONAL = {"answer", "wrong", "error"}


class MalformedError(ValueError):
    """A line, or a whole history, that is none."""


@dataclass
class Verdict:
    """Judgement of a history.

    Attributes:
        history: its name.
        figures: see `FIGURES`; the last two are the seconds from a fault's begin until each job that was open then,
            and is not lost, has its outcome.
        failures: number of jobs by the name of their failure.
        violations: number of each of `VIOLATIONS`.
        examples: the first of them.
    """

    history: str
    figures: dict[str, float] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(VIOLATIONS, 0)))
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """True if there is no violation."""
        return not self.violations.total()

    def add(self, violation: str, job: str) -> None:
        """Count a violation."""
        self.violations[violation] += 1
        if self.violations[violation] <= SHOWN:
            self.examples.append(f"{violation}: {job}")


@dataclass
class _Fault:
    """A fault that is felt: it meets all open jobs up to the newest. Those before it meet fewer.

    Attributes:
        begin: number of outcomes so far, and time.
        newest: number of the newest job.
        last_outcome: the same as begin, of the last outcome of a job that this fault meets and none before it.
    """

    begin: tuple[int, float]
    newest: int
    last_outcome: tuple[int, float] = (-1, 0.0)


class _Judge:
    """Memory holds the jobs that are open; all others are in a temporary file."""

    def __init__(self, name: str) -> None:
        self.verdict = Verdict(name)
        self._jobs = sqlite3.connect("")
        self._jobs.execute("PRAGMA journal_mode = OFF")
        self._jobs.execute("CREATE TABLE jobs (id TEXT PRIMARY KEY, state TEXT, answer TEXT) WITHOUT ROWID")
        self._open: dict[str, int] = {}
        self._closed = 0
        self._faults: list[_Fault] = []
        self._first, self._last = math.inf, -math.inf
        self._counts: Counter[str] = Counter()

    def add(self, event: dict[str, Any]) -> None:
        if event["time"] < self._last:
            raise MalformedError(f"expected time to be at least {self._last}, as of the line before")
        self._first, self._last = min(self._first, event["time"]), event["time"]
        if event["process"] == "nemesis":
            self._add_fault(event)
        elif event["type"] == "invoke":
            self._invoke(event["id"])
        else:
            self._complete(event)

    def _add_fault(self, event: dict[str, Any]) -> None:
        if event["event"] == "begin":
            self._counts["faults"] += 1
            if self._open:
                self._faults.append(_Fault((self._closed, event["time"]), self._counts["jobs"]))

    def _invoke(self, job: str) -> None:
        try:
            self._jobs.execute("INSERT INTO jobs VALUES (?, 'open', '')", (job,))
        except sqlite3.IntegrityError:
            raise MalformedError(f"job {job!r} is invoked a second time") from None
        self._counts["jobs"] += 1
        self._open[job] = self._counts["jobs"]

    def _complete(self, event: dict[str, Any]) -> None:
        has_outcome = event["type"] != "info" and "answer" in event
        job, answer = event["id"], f"{event['type']} {event['answer']}" if has_outcome else ""
        row = self._jobs.execute("SELECT state, answer FROM jobs WHERE id = ?", (job,)).fetchone()
        state, first_answer = row or ("", "")
        if not row or (state == "refused" and answer) or (state == "done" and event["type"] == "fail" and not answer):
            self.verdict.add("without its job", job)
            return
        if state == "done":
            self._counts["repeated"] += bool(answer) and answer == first_answer
            if answer and answer != first_answer:
                self.verdict.add("second differs", job)
        else:
            state = "done" if answer else "refused" if event["type"] == "fail" else "unknown"
            self._jobs.execute("UPDATE jobs SET state = ?, answer = ? WHERE id = ?", (state, answer, job))
            self._close(job, event["time"])
            if answer and event["type"] == "fail":
                self.verdict.failures[event["error"]] += 1
        if "wrong" in event:
            self.verdict.add("foreign" if event["wrong"] == "foreign" else "wrong", f"{job} ({event['wrong']})")

    def _close(self, job: str, time: float) -> None:
        number = self._open.pop(job, None)
        if number is not None:
            self._closed += 1
            place = bisect_left(self._faults, number, key=attrgetter("newest"))
            for fault in self._faults[place : place + 1]:
                fault.last_outcome = (self._closed, time)

    def finish(self) -> Verdict:
        """Find what is lost."""
        if not self._counts["jobs"]:
            raise MalformedError("no job is invoked: there is nothing to judge")
        for (job,) in self._jobs.execute("SELECT id FROM jobs WHERE state = 'open' ORDER BY id"):
            self.verdict.add("lost", job)
        states = dict(self._jobs.execute("SELECT state, count(*) FROM jobs GROUP BY state").fetchall())
        self._counts |= Counter(answered=states.get("done", 0), unknown=states.get("unknown", 0))
        last_outcomes = accumulate((fault.last_outcome for fault in self._faults), max)
        felt = zip(self._faults, last_outcomes, strict=True)
        times = sorted(last_outcome[1] - fault.begin[1] for fault, last_outcome in felt if last_outcome > fault.begin)
        slowest = [times[max(0, math.ceil(share * len(times)) - 1)] if times else 0.0 for share in (0.5, 0.99)]
        rate = self._counts["answered"] / (self._last - self._first or 1)
        figures = [*(self._counts[name] for name in FIGURES[:5]), rate, *slowest]
        self.verdict.figures = {name: round(value, 2) for name, value in zip(FIGURES, figures, strict=True)}
        return self.verdict

    def close(self) -> None:
        """Remove the temporary file."""
        self._jobs.close()


def parse(raw: bytes) -> dict[str, Any]:
    """Return the event of a line.

    Raises:
        MalformedError: it is none; the message says what is wrong.
    """
    if len(raw) == MOST_BYTES:
        raise MalformedError(f"expected fewer than {MOST_BYTES} bytes")
    try:
        event = json.loads(raw.decode())
    except (ValueError, RecursionError):
        raise MalformedError("expected a JSON object in UTF-8") from None
    if not isinstance(event, dict) or event.get("type") not in [*_NAMES]:
        raise MalformedError(f"expected an object whose type is one of {', '.join(_NAMES)}")
    is_fault = event.get("process") == "nemesis"
    names = ("fault", "event") if is_fault else _NAMES[event["type"]]
    for name in ("process", *names, *(_OPTIONAL & event.keys())):
        if not _is_text(event.get(name)):
            raise MalformedError(f"expected {name} to be a text, not {event.get(name)!r:.50}")
    if is_fault and (event["type"], event["event"]) not in {("info", "begin"), ("info", "end")}:
        raise MalformedError("expected the begin or end of a fault to be an info")
    time = event.get("time")
    if isinstance(time, bool) or not isinstance(time, int | float) or not abs(time) <= sys.float_info.max:
        raise MalformedError(f"expected time to be a number of seconds, not {time!r:.50}")
    return event


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def judge(lines: Iterable[bytes], name: str = "history") -> Verdict:
    """Judge a history, line by line.

    Raises:
        MalformedError: a line is none of a history; the message names it.
    """
    number = 0
    try:
        with closing(_Judge(name)) as judge:
            for number, raw in enumerate(lines, start=1):  # noqa: B007 -- the error names it
                judge.add(parse(raw))
            return judge.finish()
    except MalformedError as error:
        raise MalformedError(f"{name}:{number}: {error}") from None


def judge_file(path: str) -> Verdict:
    """Judge a history in a file.

    Raises:
        MalformedError: a line is none of a history; the message names it.
        OSError: the file can't be read.
    """
    with open(path, "rb") as file:  # noqa: PTH123 -- no type but those of the line
        return judge(iter(partial(file.readline, MOST_BYTES), b""), path)


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the lines of a table, and the first violations below it."""
    names = (*VIOLATIONS, *FIGURES)
    yield f"| history | {' | '.join(names)} | failures |"
    yield f"| --- |{' ---: |' * len(names)} --- |"
    for verdict in verdicts:
        values: list[object] = [verdict.violations[name] for name in VIOLATIONS]
        values += verdict.figures.values()
        failures = ", ".join(f"{name} {count}" for name, count in sorted(verdict.failures.items()))
        yield f"| {verdict.history} | {' | '.join(map(str, values))} | {failures} |"
    yield from (f"{verdict.history}: {example}" for verdict in verdicts for example in verdict.examples)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser("chaos check", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("histories", nargs="+", metavar="HISTORY")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    options = parser.parse_args(words)
    try:
        verdicts = [judge_file(path) for path in options.histories]
    except (MalformedError, OSError) as error:
        print(f"chaos check: {error}", file=sys.stderr)  # noqa: T201 -- the command line's voice
        return 2
    output = json.dumps([*map(vars, verdicts)], indent=1) if options.json else "\n".join(table(verdicts))
    print(output)  # noqa: T201 -- the command line's voice
    return int(not all(verdict.clean for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
