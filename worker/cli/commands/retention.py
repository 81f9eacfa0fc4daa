"""Command that deletes what is kept no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrieval_client.errors import InvalidJob
from worker.adapters.terminal import console, progress, screen, write_json
from worker.cli.commands.install import AdminDsn, admin_connection
from worker.cli.commands.jobs import JsonDocument  # noqa: TC001 -- typer reads the annotations when it runs
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from worker.adapters.artifacts import Artifacts
    from worker.adapters.postgres.retention import DueRun, Retention


def prune(
    dsn: AdminDsn,
    runs: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="Delete runs of which nothing was recorded for so many days.")
    ] = None,
    conversations: Annotated[
        int | None,
        typer.Option(min=1, max=36_500, help="Delete conversations in which nothing was asked for so many days."),
    ] = None,
    files: Annotated[bool, typer.Option("--files/--no-files", help="Delete the files of runs, too.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what is due; delete nothing.")] = False,
    as_json: JsonDocument = False,
) -> None:
    """Delete what is kept no longer: old runs with their records, feedback and files; old conversations and packages.

    A run can't be replayed or cited afterwards. Workers go on meanwhile. Stopped in between, it goes on the next time:
    call it each night, with the workers' settings: files are deleted at their artifacts.url, before their run.
    --no-files leaves them out.

    Examples: [bold]retrieval-worker prune --runs 90 --conversations 30[/bold],
    [bold]retrieval-worker prune --runs 90 --dry-run[/bold]
    """
    from worker import settings
    from worker.adapters.artifacts import Artifacts
    from worker.adapters.postgres.retention import Retention

    if runs is None and conversations is None:
        raise WrongUsage("expected --runs DAYS, --conversations DAYS, or both")
    artifacts = Artifacts(settings.load_unconnected().artifacts) if runs is not None and files else None
    if artifacts is not None:
        artifacts.check_is_there()
    with admin_connection(dsn) as connection:
        retention = Retention(connection)
        retention.check()
        cutoffs = retention.cutoff(runs), retention.cutoff(conversations)
        due_runs, due_answers = retention.count(*cutoffs)
        if dry_run:
            if as_json:
                write_json({"due": {"runs": due_runs, "answers": due_answers}})
            else:
                console.print(f"due: {due_runs} runs, {due_answers} answers of conversations; nothing is deleted")
            return
        deleted: dict[str, int] = {}
        folders: list[str] = []
        with progress(screen) as progress_bars:
            for name, total, counts in _deletions(
                retention, cutoffs, _forget(artifacts, folders), (due_runs, due_answers)
            ):
                bar = progress_bars.add_task(f"deleting {name}", total=total)
                deleted[name] = 0
                for count in counts:
                    deleted[name] += count
                    progress_bars.advance(bar, count)
    if artifacts is not None:
        deleted["folders of files"] = len(folders)
    if as_json:
        write_json({"deleted": deleted})
    else:
        console.print(f"deleted: {', '.join(f'{count} {name}' for name, count in deleted.items())}")


def _deletions(
    retention: Retention,
    cutoffs: tuple[datetime | None, datetime | None],
    forget: Callable[[DueRun], None],
    due: tuple[int, int],
) -> Iterator[tuple[str, int | None, Iterator[int]]]:
    """Yield what is deleted, how much of it is due if that is known, and the deletion of it in steps."""
    runs, conversations = cutoffs
    if runs is not None:
        yield "runs", due[0], retention.delete_runs(runs, forget)
    if conversations is not None:
        yield "answers", due[1], retention.delete_answers(conversations)
        yield "packages", None, retention.delete_packages(conversations)


def _forget(artifacts: Artifacts | None, folders: list[str]) -> Callable[[DueRun], None]:
    """Return what deletes a run's files, and notes their folder; ids that can name no folder have none."""
    from retrieval_client.contract.run_jobs import RunName
    from worker.jobs.run_files import run_path

    def forget(run: DueRun) -> None:
        try:
            folder = run_path(RunName(subject_id=run.subject_id, run_id=run.run_id))
        except InvalidJob:
            return
        if artifacts is not None and artifacts.delete(run.owner, folder):
            folders.append(folder)

    return forget
