"""Report of a run: lines for a terminal, and tables with a plot, which docs/reliability.md includes."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from chaos.plan import Kind
from chaos.recovery import GOALS, MOST_WITHOUT_WORK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from chaos.run import Outcome
    from chaos.scene import FaultRecord

PLOT = "reliability.svg"
SHOWN = 5


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that this share of the values does not exceed.

    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([1.0], 0.99)
    (2.0, 1.0)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def figures(outcome: Outcome) -> list[tuple[str, str]]:
    """Name and value of each figure."""
    audit, options = outcome.audit, outcome.options
    most_duplicates = outcome.most_duplicates
    bound = (
        "no bound: results could not be stored"
        if most_duplicates is None
        else f"at most {most_duplicates} are explained by the faults"
    )
    rows = [
        ("transport, seed", f"{options.transport}, {options.seed}"),
        ("workers × processes", f"{options.workers} × {options.concurrency}"),
        ("jobs that Redis acknowledged", str(audit.submitted)),
        ("the fleet", _fleet(outcome)),
        ("faults", f"{len(outcome.fault_records)} in {outcome.seconds:.0f} s"),
        ("faults that met work", str(outcome.met_work)),
        ("**lost**", f"**{len(audit.lost)}**"),
        ("still in Redis at the end, unanswered", str(len(audit.stuck))),
        ("**wrong answers**", f"**{len(audit.wrong)}**"),
        ("**answers with a row of another caller**", f"**{audit.foreign}**"),
        ("jobs answered twice, and not the same", str(audit.twice)),
        ("**dead-lettered without cause**", f"**{len(audit.dead)}**"),
        ("given up, killed with their workers as often as a job may be", str(audit.given_up)),
        ("ended as REVOKED", str(audit.revoked)),
        ("right answers", str(audit.verdicts.get("right", 0))),
        ("failed, and said so", _counts(audit.failures)),
        ("run more often than once", f"{outcome.duplicates} ({bound})"),
        ("recorded other than once", str(outcome.recorded_twice)),
        ("sent, and neither acknowledged nor refused", f"{audit.unsure}, {audit.unsure_done} of them answered"),
        ("refused by Redis, and sent again", str(outcome.refused)),
        ("refused by Redis' access rules", ", ".join(sorted(outcome.denied)) or "0"),
        ("workers that ended by themselves", str(len(outcome.crashes))),
        ("workers that did not shut down cleanly", _codes(outcome.unclean)),
    ]
    if outcome.left_out:
        rows.append(("not possible on this machine", "; ".join(sorted(outcome.left_out))))
    return rows


def _fleet(outcome: Outcome) -> str:
    options = outcome.options
    phrases = ["results on a Redis of their own" if options.own_results else "one Redis"]
    phrases += [f"pool processes replaced after {options.recycle} jobs"] if options.recycle else []
    phrases += [f"two of three clocks wrong by {options.skew:.0f} s"] if options.skew else []
    return ", ".join(phrases)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "0"


def _codes(codes: list[int]) -> str:
    return f"{len(codes)}" + (f" (exit codes {', '.join(map(str, sorted(set(codes))))})" if codes else "")


def by_kind(fault_records: Iterable[FaultRecord]) -> list[tuple[Kind, list[FaultRecord]]]:
    """Group faults by kind, in the order of `Kind`."""
    kinds: dict[Kind, list[FaultRecord]] = defaultdict(list)
    for record in fault_records:
        kinds[record.fault.kind].append(record)
    return [(kind, kinds[kind]) for kind in Kind if kind in kinds]


def recovery_rows(fault_records: Iterable[FaultRecord]) -> list[tuple[str, int, str, str, str]]:
    """Return (kind, count, p50 and p99 of the recovery seconds, goal) of each kind of fault in the run."""
    rows = []
    for kind, records in by_kind(fault_records):
        backs = [record.back for record in records if record.back is not None]
        percentiles = [f"{percentile(backs, share):.1f}" for share in (0.5, 0.99)] if backs else ["–", "–"]
        rows.append((kind.value, len(records), percentiles[0], percentiles[1], _goal(kind, backs)))
    return rows


def _goal(kind: Kind, backs: list[float]) -> str:
    if kind not in GOALS or not backs:
        return "–"
    return f"{GOALS[kind]:.0f} s: {'met' if percentile(backs, 0.99) <= GOALS[kind] else 'missed'}"


def text(outcome: Outcome) -> str:
    """Return the report as text for a terminal."""
    lines = [f"{name.replace('*', '')}: {value.replace('*', '')}" for name, value in figures(outcome)]
    lines.append("seconds until all was answered and the rate was back (p50, p99, goal of p99):")
    lines += [
        f"  {kind} × {count}: {p50}, {p99}, {goal}"
        for kind, count, p50, p99, goal in recovery_rows(outcome.fault_records)
    ]
    audit = outcome.audit
    for name, ids in (("lost", audit.lost), ("stuck", audit.stuck), ("dead-lettered without cause", audit.dead)):
        lines += [f"{name}: {task_id}" for task_id in ids[:SHOWN]]
    lines += [f"ended by itself: {why}" for why in sorted(set(outcome.crashes))]
    lines += [f"wrong: {task_id}: {reason}" for task_id, reason in outcome.audit.wrong[:SHOWN]]
    lines += [f"refused: {_idle(outcome)}"] if outcome.too_idle else []
    return "\n".join(lines)


def _idle(outcome: Outcome) -> str:
    """Return the reason why a run shows too little."""
    idle = len(outcome.fault_records) - outcome.met_work
    return (
        f"{idle} of {len(outcome.fault_records)} faults met no work, more than {MOST_WITHOUT_WORK:.0%}: "
        "the run shows too little; ask for more jobs or fewer faults"
    )


def table(outcome: Outcome) -> str:
    """Return the report as Markdown."""
    lines = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in figures(outcome))]
    lines += [
        "",
        "| fault | times | back at work, p50 (s) | p99 (s) | goal of p99 |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {kind} | {count} | {p50} | {p99} | {goal} |"
        for kind, count, p50, p99, goal in recovery_rows(outcome.fault_records)
    ]
    return "\n".join([*lines, "", f"![Jobs done per second, with the faults]({PLOT})"])


def numbers(outcome: Outcome) -> dict[str, int]:
    """Return the numbers of a run that can be added to those of others."""
    audit = outcome.audit
    return {
        "jobs": audit.submitted,
        "faults": len(outcome.fault_records),
        "met work": outcome.met_work,
        "lost": len(audit.lost),
        "stuck": len(audit.stuck),
        "wrong": len(audit.wrong),
        "foreign": audit.foreign,
        "twice": audit.twice,
        "dead-lettered": len(audit.dead),
        "REVOKED": audit.revoked,
        "workers ended": len(outcome.crashes),
    }


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return one line for each run."""
    lines = [
        f"{outcome.options.seed}, {outcome.options.transport}: {_in_words(numbers(outcome))}" for outcome in outcomes
    ]
    return "\n".join(["", *lines])


def append(outcome: Outcome, file: Path) -> None:
    """Append a run's numbers to a file of runs, one JSON object a line."""
    run_numbers = {"seed": outcome.options.seed, "transport": outcome.options.transport, **numbers(outcome)}
    with file.open("a", encoding="utf-8") as runs:
        runs.write(json.dumps(run_numbers) + "\n")


def seeds(file: Path) -> set[int]:
    """Return the seeds of the runs in a file; of one that is not there, none."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {json.loads(line)["seed"] for line in lines}


def total(file: Path) -> str:
    """Return the sum of all runs in a file.

    Raises:
        ValueError: a line is no run's.
    """
    runs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    names = [name for name in runs[0] if name not in {"seed", "transport"}]
    return f"{len(runs)} runs: {_in_words({name: sum(run[name] for run in runs) for name in names})}"


def _in_words(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def write(outcome: Outcome, document: Path) -> None:
    """Write the tables into a document, and the plot beside it."""
    from chaos.plot import plot  # noqa: PLC0415 -- only this needs matplotlib

    document.write_text(f"{table(outcome)}\n", encoding="utf-8")
    plot(outcome, document.parent / PLOT)
