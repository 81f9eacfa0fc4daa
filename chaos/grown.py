"""Messages grown from expensive shapes, inspected as a worker's main process inspects them, within a budget.

No Redis and no worker: so a million of them take minutes, and one that takes too long is named, not only missed.
"""

from __future__ import annotations

import base64
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.shapes import FORMS, UNITS
from retrieval_client.errors import InvalidJob
from worker.queue.broker.dead_letters import compose
from worker.queue.broker.inspection import Refusal, Rules, arguments, inspect
from worker.queue.summaries import summarise

if TYPE_CHECKING:
    from collections.abc import Callable

MILLISECONDS_A_MEGABYTE = 50.0
MEGABYTES_A_MESSAGE = 200.0
TRIES = 5
"""Measurements of a message over its budget, repeated after all others: the machine may have been busy."""

MEASURED_BYTES = 1 << 18
"""The memory of shorter messages is not measured one by one."""

TELL_EVERY = 50_000
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RULES = Rules(tasks=("retrieve_top_k",))
REFUSAL = Refusal("malformed", InvalidJob("expected a string", "body"))
TOKEN = b"eyJhbGciOiJIUzI1NiJ9.eyJ1c2VyX2lkIjoiYWxpY2UifQ.c2lnbmF0dXJl"
_TRACES = (
    *(TOKEN.split(b".")[1:]),
    *(base64.b64encode(bytes(shift) + TOKEN.split(b".")[1])[4:-4] for shift in range(3)),
)


@dataclass(frozen=True)
class GrownMessage:
    """A message, and how it came to be."""

    shape: str
    raw: bytes


@dataclass
class GrowthReport:
    """Result of a run.

    Attributes:
        messages: how many were looked at.
        slowest: milliseconds for each megabyte, or part of one, of the worst message; and its shape.
        largest: megabytes that the worst one took; and its shape.
        wrong: shapes of those that raised, or whose token was kept.
        seconds: how long it took.
    """

    messages: int = 0
    slowest: tuple[float, str] = (0.0, "")
    largest: tuple[float, str] = (0.0, "")
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """True if every message was within its budget, and refused or delivered."""
        within = self.slowest[0] <= MILLISECONDS_A_MEGABYTE and self.largest[0] <= MEGABYTES_A_MESSAGE
        return within and not self.wrong


def grow(seed: int, number: int) -> GrownMessage:
    """Message number n of a seed: a few units, repeated, put together, bent and wrapped."""
    chance = random.Random(f"grown {seed} {number}")  # noqa: S311 -- repeatable, not secret
    names = chance.choices([*UNITS], k=chance.choice((1, 1, 2, 3)))
    room = int(2 ** chance.uniform(4, 14))
    if number % 500 == 0:
        room = int(2 ** chance.uniform(14, 20))
    if number % 20_000 == 0:
        room = RULES.max_bytes * 2 // 3
    repeated_units = [UNITS[name] * max(1, room // len(names) // len(UNITS[name])) for name in names]
    raw = bytearray(b"".join(repeated_units))
    if chance.random() < 1 / 4:
        field_of = chance.choice((b'"principal_token": "%b"', b"%b", rb"\"principal_token\": \"%b\"")) % TOKEN
        place = chance.randrange(len(raw) + 1)
        # Apart from what is before and after it, or it is another token.
        raw[place:place] = b" " + field_of + b" "
        names.append("a token")
    elif chance.random() < 1 / 3:
        raw[chance.randrange(len(raw))] = chance.randrange(256)
        names.append("bent")
    form = chance.choice([*FORMS])
    shape = f"{form}: {' + '.join(names)}, {len(raw):,} bytes"
    return GrownMessage(shape, FORMS[form](bytes(raw)))


def look(raw: bytes) -> bytes:
    """Inspect a message as the main process does; return what would be stored of it."""
    inspect(raw, RULES, NOW)
    original: bytes = compose(raw, REFUSAL, RULES, NOW)["original"]
    summarise(arguments(original))
    return original


def measure_all(messages: int, seed: int, progress: Callable[[int, str], None]) -> GrowthReport:
    """Measure the first messages of a seed.

    Args:
        messages: how many.
        seed: of what they are.
        progress: called with the number of messages done.
    """
    report, began, memory_before = GrowthReport(), time.monotonic(), _kilobytes("VmRSS")
    slow_numbers: list[int] = []
    for number in range(messages):
        message = grow(seed, number)
        name = _name(message, seed, number)
        try:
            pace = _pace(message.raw)
            if pace > MILLISECONDS_A_MEGABYTE:
                slow_numbers.append(number)
            else:
                report.slowest = max(report.slowest, (pace, name))
            if len(message.raw) >= MEASURED_BYTES:
                report.largest = max(report.largest, (_memory(message.raw, memory_before), name))
            original = look(message.raw) if "a token" in message.shape else b""
        except Exception as error:  # noqa: BLE001 -- whatever it is, it would have ended a worker
            report.wrong.append(f"{type(error).__name__}: {name}")
        else:
            if any(trace in original for trace in _TRACES):
                report.wrong.append(f"a token was kept: {name}")
        report.messages += 1
        if report.messages % TELL_EVERY == 0:
            progress(report.messages, f"worst {report.slowest[0]:.1f} ms a MB")
        elif report.messages % 1000 == 0:
            progress(report.messages, "")
    for number in slow_numbers:
        message = grow(seed, number)
        report.slowest = max(report.slowest, (_pace(message.raw), _name(message, seed, number)))
    report.seconds = time.monotonic() - began
    return report


def _name(message: GrownMessage, seed: int, number: int) -> str:
    return f"{message.shape} (seed {seed}, number {number})"


def _pace(raw: bytes) -> float:
    """Milliseconds of this process for each megabyte, or part of one."""
    megabytes = max(1.0, len(raw) / (1 << 20))
    best = float("inf")
    for _ in range(TRIES):
        start = time.process_time()
        look(raw)
        best = min(best, (time.process_time() - start) * 1000 / megabytes)
        if best <= MILLISECONDS_A_MEGABYTE:
            break
    return best


def _kilobytes(name: str) -> int:
    """Return this process' memory as Linux reports it; 0 on other systems."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def _memory(raw: bytes, memory_before: int) -> float:
    """Megabytes above what this process had before its first message: what is freed may stay with it."""
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")  # the peak begins again at what is now
    look(raw)
    return (_kilobytes("VmHWM") - memory_before) / 1024
