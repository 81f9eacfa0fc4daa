"""The checker of histories: each violation, each malformed line, whoever wrote them."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from chaos import check
from chaos.check import MalformedError, judge

INVOKE = {"type": "invoke", "process": "p", "time": 1, "id": "a", "question": "q"}
OK = {"type": "ok", "process": "r", "time": 2.5, "id": "a", "answer": "x"}
FAILED = {"type": "fail", "process": "r", "time": 3, "id": "a", "answer": "t", "error": "TimedOut"}
REFUSED = {"type": "fail", "process": "p", "time": 1.1, "id": "a", "error": "refused"}
UNKNOWN = {"type": "info", "process": "p", "time": 1.2, "id": "a", "error": "connection lost"}
FAULT = {"type": "info", "process": "nemesis", "time": 1.5, "fault": "killed", "event": "begin"}


def lines(*events: dict[str, Any]) -> list[bytes]:
    return [json.dumps(event).encode() + b"\n" for event in events]


def in_order(*events: dict[str, Any]) -> list[bytes]:
    """None earlier than the one before."""
    times = accumulate((event["time"] for event in events), max)
    return lines(*(event | {"time": time} for event, time in zip(events, times, strict=True)))


def violations(*events: dict[str, Any]) -> list[str]:
    return judge(in_order(*events)).examples


@pytest.mark.parametrize(
    "events",
    [
        *(
            (INVOKE, OK),
            (INVOKE, FAILED),
            (INVOKE, REFUSED),
            (INVOKE, UNKNOWN),
            (INVOKE, UNKNOWN, OK),
            (INVOKE, OK, OK),
        ),
        (INVOKE, UNKNOWN | {"answer": "no outcome"}, OK),
    ],
)
def test_a_history_without_violations_is_clean(events: tuple[dict[str, Any], ...]) -> None:
    """Answered, failed by name, refused, unknown, answered though unknown, answered twice and the same."""
    assert violations(FAULT | {"time": -1}, *events) == []


@pytest.mark.parametrize(
    ("events", "violation"),
    [
        ((INVOKE, FAULT), "lost: a"),
        ((INVOKE, OK, INVOKE | {"id": "b"}), "lost: b"),
        ((INVOKE, OK, OK | {"id": "b"}), "without its job: b"),
        ((OK, INVOKE, OK), "without its job: a"),
        ((INVOKE, REFUSED, OK), "without its job: a"),
        ((INVOKE, OK, REFUSED), "without its job: a"),
        ((INVOKE, OK, UNKNOWN | {"id": "b"}), "without its job: b"),
        ((INVOKE, OK, OK | {"answer": "y"}), "second differs: a"),
        ((INVOKE, FAILED, OK), "second differs: a"),
        ((INVOKE, FAILED, OK | {"answer": FAILED["answer"]}), "second differs: a"),
        ((INVOKE, UNKNOWN, OK, UNKNOWN, FAILED), "second differs: a"),
        ((INVOKE, OK | {"wrong": "score of row 3"}), "wrong: a (score of row 3)"),
        ((INVOKE, OK | {"wrong": "foreign"}), "foreign: a (foreign)"),
    ],
)
def test_a_violation_is_found(events: tuple[dict[str, Any], ...], violation: str) -> None:
    """One each."""
    assert violations(*events) == [violation]


def test_the_figures_are_those_of_the_lines() -> None:
    """A fault is over once each job that was open then has its outcome; one that met no work counts as a fault only."""
    idle, late = FAULT | {"time": 0.5}, FAULT | {"time": 3}
    events = (
        idle,
        INVOKE,
        INVOKE | {"id": "b"},
        FAULT,
        FAULT | {"event": "end"},
        OK,
        FAILED | {"id": "b"},
        INVOKE | {"id": "c"},
        UNKNOWN | {"id": "c"},
    )
    verdict = judge(in_order(*events))
    expected = {"jobs": 3, "answered": 2, "unknown": 1, "repeated": 0, "faults": 2, "jobs/s": 0.8}
    assert verdict.figures == {**expected, "p50": 1.5, "p99": 1.5}
    assert verdict.failures == {"TimedOut": 1}
    more = (INVOKE | {"id": "d"}, INVOKE | {"id": "e"}, late, OK | {"id": "e", "time": 4.25}, OK)
    lost = judge(in_order(*events, *more))
    assert (lost.figures["faults"], lost.figures["p50"], lost.figures["p99"]) == (3, 1.25, 1.5)
    assert (lost.figures["repeated"], lost.violations["lost"]) == (1, 1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\n", "expected a JSON object in UTF-8"),
        (b'{"type": "ok", "pro', "expected a JSON object in UTF-8"),
        (b"\xff\xfe", "expected a JSON object in UTF-8"),
        (b"[" * 100_000, "expected a JSON object in UTF-8"),
        (b"[]", "expected an object whose type is one of invoke, ok, fail, info"),
        (lines(OK | {"type": "done"})[0], "expected an object whose type is one of invoke, ok, fail, info"),
        (lines(OK | {"type": ["ok"]})[0], "expected an object whose type is one of invoke, ok, fail, info"),
        (lines(OK | {"id": 7})[0], "expected id to be a text, not 7"),
        (lines(OK | {"id": ""})[0], "expected id to be a text, not ''"),
        (lines(OK | {"id": "\ud800"})[0], "expected id to be a text, not '\\ud800'"),
        (lines({**INVOKE, "question": None})[0], "expected question to be a text, not None"),
        (lines({**OK, "answer": 5})[0], "expected answer to be a text, not 5"),
        (lines({**FAILED, "answer": ""})[0], "expected answer to be a text, not ''"),
        (lines({**UNKNOWN, "error": None})[0], "expected error to be a text, not None"),
        (lines({**OK, "wrong": True})[0], "expected wrong to be a text, not True"),
        (lines({**OK, "process": None})[0], "expected process to be a text, not None"),
        (lines({**OK, "time": "2"})[0], "expected time to be a number of seconds, not '2'"),
        (lines({**OK, "time": True})[0], "expected time to be a number of seconds, not True"),
        (lines({**OK, "time": float("nan")})[0], "expected time to be a number of seconds, not nan"),
        (lines({**OK, "time": 10**400})[0], f"expected time to be a number of seconds, not 1{'0' * 49}"),
        (lines({**FAULT, "event": "middle"})[0], "expected the begin or end of a fault to be an info"),
        (lines({**FAULT, "type": "ok"})[0], "expected the begin or end of a fault to be an info"),
        (lines({**FAULT, "fault": None})[0], "expected fault to be a text, not None"),
        (lines(INVOKE | {"time": 4})[0], "job 'a' is invoked a second time"),
        (lines({**OK, "time": 2.4})[0], "expected time to be at least 2.5, as of the line before"),
        (b" " * check.MOST_BYTES, f"expected fewer than {check.MOST_BYTES} bytes"),
    ],
)
def test_a_malformed_line_is_named(line: bytes, message: str) -> None:
    """With its number and what is wrong with it."""
    with pytest.raises(MalformedError) as raised:
        judge([*lines(INVOKE, OK), line, *lines(OK)], "some.jsonl")
    assert str(raised.value) == f"some.jsonl:3: {message}"


def test_a_history_without_jobs_is_not_clean() -> None:
    """It shows nothing."""
    with pytest.raises(MalformedError, match=r"history:1: no job is invoked"):
        judge(lines(FAULT))


def test_a_fault_is_over_at_once_if_an_outcome_came_then() -> None:
    """Also beside a job that is lost; an outcome of the same instant before the fault is none of it."""
    events = (INVOKE, INVOKE | {"id": "b"}, INVOKE | {"id": "c"}, OK | {"id": "c"}, FAULT, OK, FAULT)
    verdict = judge(in_order(*events, INVOKE | {"id": "d"}, FAULT, OK | {"id": "d", "time": 3.5}))
    assert (verdict.figures["p50"], verdict.figures["p99"], verdict.violations["lost"]) == (0.0, 1.0, 1)


def test_memory_holds_open_jobs_and_faults() -> None:
    """No job that is answered, and not for each fault all that are open."""
    with closing(check._Judge("history")) as judged:
        for number in range(1000):
            for event in (INVOKE, OK):
                judged.add(event | {"time": 1, "id": str(number)})
        assert not judged._open
        tracemalloc.start()
        for number in range(1000):
            judged.add(INVOKE | {"id": f"open {number}"})
        for _ in range(1000):
            judged.add(FAULT)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
        tracemalloc.stop()
        assert judged.finish().figures["answered"] == 1000


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """The checker as a program alone in a folder, so that it can import nothing of the harness."""
    program = folder / "check.py"
    program.write_text(Path(check.__file__).read_text())
    command = [sys.executable, "-I", str(program), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_the_command_judges_files(tmp_path: Path) -> None:
    """0 without violations, 1 with one, 2 with a malformed line or no file; a table, or JSON."""
    clean, lost, torn = (str(tmp_path / name) for name in ("clean", "lost", "torn"))
    Path(clean).write_bytes(b"".join(lines(INVOKE, OK)))
    Path(lost).write_bytes(b"".join(lines(INVOKE, FAULT)))
    Path(torn).write_bytes(b"".join(lines(INVOKE, OK))[:-9])
    assert run(tmp_path, clean)[0] == 0
    code, output, _ = run(tmp_path, clean, lost)
    assert (code, output.splitlines()[-1]) == (1, f"{lost}: lost: a")
    code, output, _ = run(tmp_path, "--json", clean, lost)
    assert (code, [verdict["violations"]["lost"] for verdict in json.loads(output)]) == (1, [0, 1])
    assert run(tmp_path, clean, torn) == (2, "", f"chaos check: {torn}:2: expected a JSON object in UTF-8\n")
    assert run(tmp_path, str(tmp_path / "none"))[0] == 2
