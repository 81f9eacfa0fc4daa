"""The commands of the further runs: flood, fuzz, grown, latency, poison, rolling, soak."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos import check
from chaos.brokers import BROKERS
from chaos.commands import PATIENCE, Seed, Transport, check_transport, chosen, cli, progress_bar, screen
from chaos.flood import LEAST_RATIO, LETTERS, ROUNDS, flood
from chaos.four_queues import run_queue, table
from chaos.fuzz import fuzz
from chaos.grown import MEGABYTES_A_MESSAGE, MILLISECONDS_A_MEGABYTE, measure_all
from chaos.latency import MOST_RATIO, latency
from chaos.plan import Counts
from chaos.poison import ALONE_SHARE, FEWEST_JOBS, poison
from chaos.report import percentile
from chaos.rolling import rolling
from chaos.soak import soak
from chaos.stage import RunOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.ledger import Audit

Logs = Annotated[Path | None, typer.Option(help="keep the workers' logs in this folder", file_okay=False)]
SHOWN = 3


def without_faults(jobs: int, seed: int | None, transport: str, workers: int = 3) -> RunOptions:
    """Return the options of a run without faults."""
    check_transport(transport)
    return RunOptions(jobs, chosen(seed), Counts(), transport, workers, patience=PATIENCE[transport])


@contextlib.contextmanager
def folder_for(logs: Path | None) -> Iterator[Path]:
    """Yield the folder, or a temporary one."""
    with tempfile.TemporaryDirectory(prefix="rw-chaos-logs-") as name:
        folder = logs or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def balance(audit: Audit) -> list[str]:
    """Return the numbers of submitted and lost jobs, a line each."""
    return [f"jobs: {audit.submitted}", f"lost: {len(audit.lost) + len(audit.stuck)}"]


def finish(lines: list[str], clean: bool) -> None:
    """Print the lines, and exit with 0 or 1."""
    print("\n".join(lines))  # noqa: T201 -- the command line's voice
    raise typer.Exit(0 if clean else 1)


@cli.command("check", context_settings={"ignore_unknown_options": True, "help_option_names": []})
def check_command(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Judge histories, of any queue; see chaos/check.py.

    Example: python -m chaos check histories/*.jsonl
    """
    raise typer.Exit(check.main(words or []))


@cli.command("queues")
def queues_command(
    folder: Annotated[
        Path, typer.Argument(help="for histories and figures; a queue that ran there is not run again", file_okay=False)
    ],
    jobs: Annotated[int, typer.Option(help="jobs of each queue beside the faults", min=100)] = 1000,
    only: Annotated[list[str] | None, typer.Option(help="one of ours, stock, plus, rabbit; default all")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 37,
    write: Annotated[Path | None, typer.Option("--report", help="file for the table")] = None,
) -> None:
    """Four queues under the same faults: this one, stock Celery's, celery-redis-plus, RabbitMQ.

    Example: python -m chaos queues histories --report benchmarks/results/four_queues.md
    """
    if {*(only or ())} - {*BROKERS}:
        raise typer.BadParameter(f"expected one of {', '.join(BROKERS)}", param_hint="--only")
    folder.mkdir(parents=True, exist_ok=True)
    for name in only or BROKERS:
        missing = BROKERS[name].missing
        if missing or (folder / f"{name}.json").exists():
            screen.print(f"{name} is left out: {missing or 'it has run'}")
            continue
        with progress_bar(jobs) as progress:
            run_queue(name, seed, jobs, folder, progress)
    lines = [*table(folder)]
    if write is not None:
        write.write_text("\n".join([*lines, ""]), encoding="utf-8")
    ours = folder / "ours.jsonl"
    finish(lines, clean=not ours.exists() or check.judge_file(str(ours)).clean)


@cli.command("fuzz")
def fuzz_command(
    messages: Annotated[int, typer.Option(min=1)] = 10_000,
    minutes: Annotated[float | None, typer.Option(help="send nothing more after this time; default no bound")] = None,
    workers: Annotated[int, typer.Option(min=1, max=32)] = 3,
    seed: Seed = None,
    transport: Transport = "reliable",
    logs: Logs = None,
) -> None:
    """Malformed messages: each is answered or dead-lettered, and workers exit with 0.

    Example: python -m chaos fuzz --messages 1000 --seed 7
    """
    options = without_faults(messages, seed, transport, workers)
    with folder_for(logs) as folder, progress_bar(messages) as progress:
        report = fuzz(options, folder, progress, minutes)
    lines = [f"messages: {report.messages}, {report.messages / report.seconds:.0f} a second"]
    lines += [f"answered: {report.answered}"]
    lines += [f"dead-lettered, {reason}: {count}" for reason, count in sorted(report.dead.items())]
    lines += [f"unaccounted for: {len(report.unaccounted)}", f"workers that ended by themselves: {len(report.crashes)}"]
    lines += [f"workers that did not end with 0: {len(report.unclean)}"]
    lines += [f"dead letters kept: {report.kept_letters}", f"most memory of Redis: {report.most_bytes / 2**20:.0f} MB"]
    lines += [f"unaccounted for: {message[:500]!r}" for message in report.unaccounted[:SHOWN]]
    lines += [f"ended by itself: {why}" for why in sorted(set(report.crashes))]
    finish(lines, report.clean)


@cli.command("latency")
def latency_command(
    blackholes: Annotated[int, typer.Option(min=1)] = 20,
    jobs: Annotated[int, typer.Option(help="jobs of each measurement", min=10)] = 300,
    seed: Seed = None,
    transport: Transport = "reliable",
    logs: Logs = None,
) -> None:
    """Repeated silent network failures of a worker after forks: its jobs take as long as before.

    Example: python -m chaos latency --blackholes 3
    """
    options = without_faults(jobs, seed, transport, workers=1)
    with folder_for(logs) as folder, progress_bar(blackholes) as progress:
        report = latency(options, blackholes, folder, progress)
    lines = [
        f"blackholes: {blackholes}",
        *balance(report.audit),
        f"a job took (median): {1e3 * report.seconds_before:.1f} ms before, {1e3 * report.seconds_after:.1f} ms after",
        f"ratio: {report.ratio:.2f}, at most {MOST_RATIO}",
    ]
    finish(lines, report.clean)


@cli.command("flood")
def flood_command(
    messages: Annotated[int, typer.Option(min=1)] = 300_000,
    jobs: Annotated[int, typer.Option(help="jobs of each round", min=100)] = 1000,
    seed: Seed = None,
    transport: Transport = "reliable",
    logs: Logs = None,
) -> None:
    """Messages with a priority, which no worker runs: jobs beside them keep their pace, and dead letters stay.

    Example: python -m chaos flood --messages 300000
    """
    options = without_faults(jobs, seed, transport)
    with folder_for(logs) as folder, progress_bar(ROUNDS) as progress:
        report = flood(options, messages, folder, progress)
    lines = [
        f"messages with a priority: {messages}, {report.messages_left} of them left at the end of a round",
        *balance(report.audit),
        f"dead letters of before that are kept: {report.letters} of {LETTERS}",
        f"jobs a second: {report.alone:.1f} alone, {report.beside:.1f} beside the flood",
        f"ratio: {report.ratio:.2f}, at least {LEAST_RATIO}",
    ]
    finish(lines, report.clean)


@cli.command("grown")
def grown_command(
    messages: Annotated[int, typer.Option(min=1)] = 1_000_000,
    seed: Seed = None,
) -> None:
    """Messages grown from expensive shapes, inspected in this process: each within its budget of time and memory.

    Example: python -m chaos grown --messages 100000 --seed 7
    """
    chosen_seed = chosen(seed)
    with progress_bar(messages) as progress:
        report = measure_all(messages, chosen_seed, progress)
    lines = [f"messages: {report.messages}, {report.messages / report.seconds:.0f} a second"]
    lines += [
        f"slowest: {report.slowest[0]:.1f} ms for each MB or part, of {MILLISECONDS_A_MEGABYTE:g}: {report.slowest[1]}"
    ]
    lines += [f"largest: {report.largest[0]:.0f} MB more, of {MEGABYTES_A_MESSAGE:g}: {report.largest[1]}"]
    lines += [f"wrong: {len(report.wrong)}", *report.wrong[:SHOWN]]
    finish(lines, report.clean)


@cli.command("poison")
def poison_command(
    jobs: Annotated[int, typer.Option(help="healthy jobs", min=FEWEST_JOBS)] = 2000,
    poisoned: Annotated[int, typer.Option("--poison", help="poison jobs", min=1)] = 20,
    seed: Seed = None,
    transport: Transport = "reliable",
    logs: Logs = None,
) -> None:
    """Jobs that kill their process, among healthy ones: at most five tries each, and the others hardly wait longer.

    A quarter of the healthy jobs run alone, and the poison comes evenly among the others. p99 beside it may be twice
    that alone; exit code 1 otherwise, or if a poison job is run more than five times or a healthy one is lost.

    Example: python -m chaos poison --jobs 500 --poison 5 --logs logs
    """
    options = without_faults(jobs, seed, transport)
    with folder_for(logs) as folder, progress_bar(jobs) as progress:
        report = poison(options, poisoned, folder, progress)
    alone, beside = report.healthy_p99
    lines = [
        f"poison jobs: {report.poison}, one among {int(jobs * (1 - ALONE_SHARE)) // report.poison} healthy",
        f"most executions of one: {report.executions}",
        f"not dead-lettered: {report.unanswered}",
        f"healthy jobs lost: {len(report.audit.lost) + len(report.audit.stuck)}",
        f"healthy jobs failed: {sum(report.audit.failures.values())}, wrong: {len(report.audit.wrong)}",
        f"healthy p99 alone: {alone:.2f} s, beside poison: {beside:.2f} s",
    ]
    finish(lines, report.clean)


@cli.command("rolling")
def rolling_command(
    restarts: Annotated[int, typer.Option(min=1)] = 20,
    jobs_each: Annotated[int, typer.Option(help="jobs between two restarts", min=1)] = 100,
    seed: Seed = None,
    transport: Transport = "reliable",
    logs: Logs = None,
) -> None:
    """Warm shutdowns under load, worker by worker: nothing is lost, and nothing runs twice.

    Example: python -m chaos rolling --restarts 5
    """
    options = without_faults(jobs_each, seed, transport)
    with folder_for(logs) as folder, progress_bar(restarts) as progress:
        report = rolling(options, restarts, folder, progress)
    lines = [
        f"restarts: {restarts}",
        *balance(report.audit),
        f"wrong answers: {len(report.audit.wrong)}",
        f"run more often than once: {report.duplicates}",
        f"workers that did not shut down cleanly: {len(report.unclean)}",
        f"workers that ended by themselves: {len(report.crashes)}",
        f"seconds a stop took (p50, p99): {percentile(report.stops, 0.5):.1f}, {percentile(report.stops, 0.99):.1f}",
    ]
    finish(lines, report.clean)


@cli.command("soak")
def soak_command(
    minutes: Annotated[float, typer.Option(min=0.5)] = 60.0,
    per_second: Annotated[float, typer.Option(help="jobs a second", min=0.1)] = 30.0,
    seed: Seed = None,
    transport: Transport = "reliable",
    logs: Logs = None,
) -> None:
    """Work at a steady pace: memory, keys in Redis and connections stay as they are.

    Example: python -m chaos soak --minutes 10 --per-second 20
    """
    options = without_faults(1, seed, transport)
    with folder_for(logs) as folder, progress_bar(int(minutes * 60)) as progress:
        report = soak(options, minutes * 60, per_second, folder, progress)
    last_sample = report.samples[-1]
    lines = balance(report.audit)
    lines += [f"{name}: {drift:+.1%}, last {getattr(last_sample, name)}" for name, drift in report.drift().items()]
    finish(lines, report.clean)
