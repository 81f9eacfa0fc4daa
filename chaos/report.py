"""What is told of a run: lines for a terminal, and a table with a plot for docs/reliability.md."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from chaos.plan import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from chaos.faults import Happened
    from chaos.run import Outcome

BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
PLOT = "images/reliability.svg"
SHOWN = 5


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of the values does not exceed.

    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([1.0], 0.99)
    (2.0, 1.0)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def figures(outcome: Outcome) -> list[tuple[str, str]]:
    """Name and value of each figure."""
    audit, order = outcome.audit, outcome.order
    bound = f"{outcome.duplicates} (at most {outcome.most_duplicates} are explained by the faults)"
    rows = [
        ("transport, seed", f"{order.transport}, {order.seed}"),
        ("workers × processes", f"{order.workers} × {order.concurrency}"),
        ("jobs that Redis acknowledged", str(audit.submitted)),
        ("faults", f"{len(outcome.happened)} in {outcome.seconds:.0f} s"),
        ("**lost**", f"**{len(audit.lost)}**"),
        ("still in Redis at the end, unanswered", str(len(audit.stuck))),
        ("**wrong answers**", f"**{len(audit.wrong)}**"),
        ("**answers with a row of another caller**", f"**{audit.foreign}**"),
        ("right answers", str(audit.verdicts.get("right", 0))),
        ("failed, and said so", _counts(audit.failures)),
        ("run more often than once", bound),
        ("recorded other than once", str(outcome.recorded_twice)),
        ("sent, and neither acknowledged nor refused", f"{audit.unsure}, {audit.unsure_done} of them answered"),
        ("refused by Redis, and sent again", str(outcome.refused)),
        ("workers that ended by themselves", str(len(outcome.crashes))),
        ("workers that did not stop politely", _codes(outcome.unclean)),
    ]
    if outcome.left_out:
        rows.append(("not possible on this machine", ", ".join(sorted(outcome.left_out))))
    return rows


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "0"


def _codes(codes: list[int]) -> str:
    return f"{len(codes)}" + (f" (exit codes {', '.join(map(str, sorted(set(codes))))})" if codes else "")


def by_kind(happened: Iterable[Happened]) -> list[tuple[Kind, list[Happened]]]:
    """Faults by kind, kinds in the order in which `Kind` names them."""
    kinds: dict[Kind, list[Happened]] = defaultdict(list)
    for one in happened:
        kinds[one.fault.kind].append(one)
    return [(kind, kinds[kind]) for kind in Kind if kind in kinds]


def back_at_work(happened: Iterable[Happened]) -> list[tuple[str, int, str, str]]:
    """(kind, how many, p50, p99 of the seconds until work went on), of each kind that happened."""
    rows = []
    for kind, ones in by_kind(happened):
        backs = [one.back for one in ones if one.back is not None]
        some = [f"{percentile(backs, share):.1f}" for share in (0.5, 0.99)] if backs else ["–", "–"]
        rows.append((kind.value, len(ones), some[0], some[1]))
    return rows


def text(outcome: Outcome) -> str:
    """For a terminal."""
    lines = [f"{name.replace('*', '')}: {value.replace('*', '')}" for name, value in figures(outcome)]
    lines.append("seconds until work went on (p50, p99):")
    lines += [f"  {kind} × {count}: {p50}, {p99}" for kind, count, p50, p99 in back_at_work(outcome.happened)]
    for name, ids in (("lost", outcome.audit.lost), ("stuck", outcome.audit.stuck)):
        lines += [f"{name}: {task_id}" for task_id in ids[:SHOWN]]
    lines += [f"ended by itself: {why}" for why in sorted(set(outcome.crashes))]
    lines += [f"wrong: {task_id}: {reason}" for task_id, reason in outcome.audit.wrong[:SHOWN]]
    return "\n".join(lines)


def table(outcome: Outcome) -> str:
    """Markdown."""
    lines = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in figures(outcome))]
    lines += ["", "| fault | times | back at work, p50 (s) | p99 (s) |", "| --- | --- | --- | --- |"]
    lines += [f"| {kind} | {count} | {p50} | {p99} |" for kind, count, p50, p99 in back_at_work(outcome.happened)]
    return "\n".join([*lines, "", f"![Jobs done per second, with the faults]({PLOT})"])


def write(outcome: Outcome, document: Path) -> None:
    """Put table and plot into a document, between its markers.

    Raises:
        ValueError: the document has no markers.
    """
    from chaos.plot import plot  # noqa: PLC0415 -- only this needs matplotlib

    content = document.read_text()
    if BEGIN not in content or END not in content:
        raise ValueError(f"{document}: expected the markers {BEGIN} and {END}")
    before, _, rest = content.partition(BEGIN)
    after = rest.partition(END)[2]
    document.write_text(f"{before}{BEGIN}\n{table(outcome)}\n{END}{after}")
    plot(outcome, document.parent / PLOT)
