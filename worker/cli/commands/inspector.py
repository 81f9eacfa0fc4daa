"""Commands of the inspector: a run as an HTML file, and the pages in a browser."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_client.errors import SettingsError
from worker.adapters.private_files import write_private
from worker.adapters.terminal import screen
from worker.cli.commands.callers import AS, Caller, Claims, Token, is_named, principal_of, stated_caller
from worker.cli.commands.runs import Run, Subject, name_of, opened_engine, opened_for
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from worker.settings import Settings

_MISSING = "the inspector is not installed: pip install 'retrieval-worker[inspector]'"


def report(
    subject: Subject,
    run: Run,
    html: Annotated[Path, typer.Option("--html", help="File to write.")],
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    step: Annotated[str, typer.Option(help="Only this step of the run.")] = "",
) -> None:
    """Write a run as one HTML page: answer, sources at the quoted words, citations, conflicts, drift, digest.

    The page loads nothing, and prints well. It is read with the caller's current permissions.

    Example: [bold]retrieval-worker report desk r1 --as alice --html desk-r1.html[/bold]
    """
    try:
        from worker.inspector.reading import RunViews
        from worker.inspector.report import report_html
    except ImportError:
        raise WrongUsage(_MISSING) from None

    with opened_for(caller, claims, token) as (engine, _, principal):
        views = RunViews(engine.reading, engine.paths, engine.accepted)
        content = report_html(views, principal, name_of(subject, run, step), datetime.now(UTC))
    try:
        write_private(html, content.encode())
    except OSError as error:
        raise WrongUsage(f"--html {html}: {error.strerror}") from None
    screen.print(f"{html}: {len(content.encode()):,} bytes")


def inspect(
    caller: Annotated[
        str,
        typer.Option(
            AS,
            metavar="USER",
            callback=stated_caller,
            help="Visit as this user without signing in; only on a loopback address.",
        ),
    ] = "",
    claims: Claims = "",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free one.")] = 8321,
    root_path: Annotated[str, typer.Option(help="Prefix of every address behind a proxy: /inspector.")] = "",
    certificate: Annotated[Path | None, typer.Option(help="Certificate for TLS, as PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key, as PEM.")] = None,
    behind_tls: Annotated[
        bool, typer.Option("--behind-tls", help="A proxy in front serves TLS: Secure cookies.")
    ] = False,
    visit_key: Annotated[str, typer.Option(envvar="INSPECTOR_KEY", hidden=True)] = "",
) -> None:
    """Show runs, citations, drift and the queue in a browser, with each visitor's own permissions.

    Visitors sign in with a principal token for the task [bold]inspect[/bold] (docs/inspector.md), or --as names the
    only one, who opens the printed address.

    Example: [bold]retrieval-worker inspect --as alice[/bold]
    """
    try:
        from worker.inspector.web import server
        from worker.inspector.web.visits import NamedVisitor
    except ImportError:
        raise WrongUsage(_MISSING) from None

    if root_path and not (root_path.startswith("/") and not root_path.endswith("/")):
        raise typer.BadParameter("expected a path: /inspector", param_hint="--root-path")
    has_named_visitor = is_named(caller, claims, "")
    if has_named_visitor and host not in server.LOOPBACK:
        raise typer.BadParameter("expected a loopback address (127.0.0.1, ::1) with --as", param_hint="--host")
    if bool(certificate) != bool(key):
        raise typer.BadParameter("expected a certificate and its key", param_hint="--key")
    with opened_engine(with_queue=True) as (engine, settings):
        _check_sign_in(settings, has_named_visitor=has_named_visitor)
        visitor = None
        if has_named_visitor:
            principal = principal_of(settings, caller, claims, "")
            visitor = NamedVisitor(principal, visit_key or secrets.token_urlsafe(32))
        options: dict[str, Any] = {"root": root_path, "is_secure": behind_tls or certificate is not None}
        options["says_key"] = not visit_key  # who gave it knows it, and a log need not
        server.serve(settings, engine, host, port, visitor, certificate, key, say=screen.print, **options)


def _check_sign_in(settings: Settings, *, has_named_visitor: bool) -> None:
    if not has_named_visitor and not settings.token_keys:
        raise SettingsError(
            "the setting RETRIEVAL_WORKER_TOKEN_KEYS is missing: visitors sign in with a token (or give --as)"
        )
