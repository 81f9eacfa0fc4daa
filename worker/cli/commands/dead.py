"""Commands for dead letters: messages that no worker could run, on the broker of the settings."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.table import Table

from retrieval_client.errors import InvalidJob, NotAuthorised, SettingsError, Unavailable
from worker.adapters.terminal import ID_COLUMN, console, id_cell, screen, styled, write_json
from worker.cli.commands.jobs import check_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from worker.queue.broker.dead_letters import DeadLetter

dead = typer.Typer(
    no_args_is_help=True,
    help="Dead letters: messages that no worker could run. List them, send them again, delete them.\n\n"
    "No content of a job is shown: only the reason, the time, and the names of its fields.",
)

Entries = Annotated[list[str] | None, typer.Argument(metavar="ENTRY", help="Entries, as 'dead list' shows them.")]
Queue = Annotated[str, typer.Option(help="Only of this queue; default all.")]
Reason = Annotated[str, typer.Option(help="Only these: malformed, unknown_task, expired, max_deliveries, …")]
Every = Annotated[bool, typer.Option("--all", help="All of them (of --queue, with --reason), not single entries.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


@contextlib.contextmanager
def opened_broker(queue: str) -> Iterator[tuple[redis.Redis, tuple[str, ...]]]:
    """Connect to the broker of the environment's settings; yield it with the requested queues.

    Raises:
        NotAuthorised: Redis refuses the command to its user.
        SettingsError: Redis refuses the user or the password, or the URL does not lead to a Redis.
        typer.BadParameter: there is no such queue.
        Unavailable: it does not answer.
    """
    import redis

    from retrieval_client.connection import place_of
    from worker import settings as settings_module
    from worker.adapters.redis_refusals import refusal
    from worker.queue.broker import keys
    from worker.settings.serving import QUEUES

    url = settings_module.load().broker_url.get_secret_value()
    check_url(url, "CELERY_BROKER_URL")
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=30) as client:
            # A worker may serve a queue of another name (-Q).
            if queue and queue not in QUEUES and not client.exists(keys.dead(queue)):
                raise typer.BadParameter(f"expected {' or '.join(QUEUES)}", param_hint="--queue")
            yield client, (queue,) if queue else QUEUES
    except redis.exceptions.NoPermissionError:
        # Not transient: a later retry, as for an unavailable broker, does not help.
        user = client.get_connection_kwargs().get("username") or "default"
        raise NotAuthorised(
            f"CELERY_BROKER_URL: Redis refused its user {user} this command: connect as the user admin of "
            "config/redis/users.acl"
        ) from None
    except redis.RedisError as error:
        problem = None if isinstance(error, redis.ResponseError) else refusal(error, url)
        if problem:
            raise SettingsError(f"CELERY_BROKER_URL: {problem}") from None
        place = place_of(client.get_connection_kwargs())
        raise Unavailable(
            f"the broker at {place} does not answer ({type(error).__name__}): check CELERY_BROKER_URL"
        ) from None


def with_reason(letters: list[DeadLetter], reason: str) -> list[DeadLetter]:
    """Return the dead letters with a reason; all of them for none.

    Raises:
        typer.BadParameter: there is no such reason, and no dead letter has it.
    """
    from worker.queue.broker.inspection import Reason

    chosen = [letter for letter in letters if reason in {"", letter.reason}]
    if reason and not chosen and reason not in get_args(Reason):
        raise typer.BadParameter(f"expected one of {', '.join(get_args(Reason))}", param_hint="--reason")
    return chosen


@dead.command("list")
def list_letters(
    queue: Queue = "",
    reason: Reason = "",
    newest: Annotated[int, typer.Option(min=1, help="Maximum number, of each queue.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List dead letters, the newest first.

    Example: [bold]retrieval-worker dead list --reason max_deliveries[/bold]
    """
    from worker.queue.broker import dead_letters

    with opened_broker(queue) as (client, queues):
        letters = [letter for name in queues for letter in dead_letters.every(client, name, newest)]
        counts = [(name, client.xlen(f"{name}.dead")) for name in queues]
    chosen_letters = with_reason(letters, reason)
    if as_json:
        for letter in chosen_letters:
            write_json(letter.as_json())
        return
    console.print(letters_table(chosen_letters) if chosen_letters else "no dead letters")
    for name, count in counts:
        if count > newest:
            screen.print(f"{name}: the newest {newest} of {count:,}")


@dead.command("show")
def show_letter(
    entry: Annotated[str, typer.Argument(help="The entry, as 'dead list' shows it.")],
    queue: Queue = "",
    as_json: AsJson = False,
) -> None:
    """Show a dead letter, without the content of its job.

    Example: [bold]retrieval-worker dead show 1763762345678-0[/bold]
    """
    from worker.queue.broker import dead_letters
    from worker.queue.broker.inspection import arguments
    from worker.queue.summaries import summarise

    with opened_broker(queue) as (client, queues):
        stored_letters = [stored_letter for name in queues if (stored_letter := dead_letters.one(client, name, entry))]
    if not stored_letters:
        raise InvalidJob("no such dead letter", "entry")
    for letter, original in stored_letters:
        fields = {**letter.as_json(), "job": summarise(arguments(original)) if original else "(not stored)"}
        if as_json:
            write_json(fields)
            continue
        table = Table(show_header=False, box=None)
        table.add_column()
        table.add_column(**ID_COLUMN)
        for name, value in fields.items():
            table.add_row(styled((name, "bold")), id_cell(str(value)))
        console.print(table)


@dead.command("retry")
def retry_letters(
    entries: Entries = None, queue: Queue = "", reason: Reason = "", every: Every = False, as_json: AsJson = False
) -> None:
    """Send dead letters again, byte for byte as they arrived, with their delivery count reset.

    A letter that expired or is not stored whole can't be sent again: exit code 1, and each is named.

    Examples: [bold]retrieval-worker dead retry 1763762345678-0[/bold],
    [bold]retrieval-worker dead retry --all --reason retries_exhausted[/bold]
    """
    from worker.queue.broker import dead_letters

    sent_count, refused = 0, []
    with opened_broker(queue) as (client, queues):
        for letter in _chosen(client, queues, entries, reason, select_all=every):
            try:
                sent_count += dead_letters.retry(client, letter.queue, letter.entry)
            except InvalidJob as error:
                refused.append(error.message)
    if as_json:
        write_json({"sent": sent_count, "refused": refused})
    screen.print(f"{sent_count} sent again")
    for sentence in refused:
        screen.print(sentence)
    if refused:
        raise typer.Exit(1)


@dead.command("purge")
def purge_letters(
    entries: Entries = None, queue: Queue = "", reason: Reason = "", every: Every = False, as_json: AsJson = False
) -> None:
    """Delete dead letters permanently.

    Examples: [bold]retrieval-worker dead purge 1763762345678-0[/bold],
    [bold]retrieval-worker dead purge --all --queue retrieval --reason expired[/bold]
    """
    from worker.queue.broker import dead_letters

    deleted = 0
    with opened_broker(queue) as (client, queues):
        chosen = _chosen(client, queues, entries, reason, select_all=every)
        for name in queues:
            deleted += dead_letters.purge(client, name, [letter.entry for letter in chosen if letter.queue == name])
    if as_json:
        write_json({"deleted": deleted})
    screen.print(f"{deleted} deleted")


def _chosen(
    client: redis.Redis, queues: tuple[str, ...], entries: list[str] | None, reason: str, *, select_all: bool
) -> list[DeadLetter]:
    """Return the dead letters that a command selects, the oldest first."""
    from worker.queue.broker import dead_letters

    if select_all == bool(entries):
        raise typer.BadParameter("give either entries or --all")
    if select_all:
        letters = [letter for name in queues for letter in dead_letters.every(client, name)]
        return with_reason(letters[::-1], reason)
    letters_by_entry = {
        entry: [stored_letter for name in queues if (stored_letter := dead_letters.one(client, name, entry))]
        for entry in entries or ()
    }
    missing = [entry for entry, letters in letters_by_entry.items() if not letters]
    if missing:
        raise InvalidJob(f"no dead letter {missing[0][:40]}", "entry")
    return [letter for letters in letters_by_entry.values() for letter, _ in letters]


def letters_table(letters: list[DeadLetter]) -> Table:
    """Build a table with one row per dead letter."""
    table = Table(title=f"{len(letters)} dead letters", title_justify="left")
    for name in ("entry", "queue", "at", "reason", "task", "task id", "deliveries", "bytes"):
        options = ID_COLUMN if name in {"entry", "task id"} else {"overflow": "fold"}
        table.add_column(name, justify="right" if name in {"deliveries", "bytes"} else "left", **options)
    for letter in letters:
        cells = (
            id_cell(letter.entry),
            letter.queue,
            letter.at[:19],
            letter.reason,
            letter.task,
            id_cell(letter.task_id),
        )
        table.add_row(*cells, str(letter.deliveries), f"{letter.bytes:,}")
    return table
