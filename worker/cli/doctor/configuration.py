"""Checks of settings that start a worker which then fails each job: callers, searches, metrics."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from retrieval_client.errors import SettingsError
from worker.adapters.artifacts import try_folder
from worker.adapters.durability import Finding
from worker.jobs.drift import watcher
from worker.jobs.principal import check_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.settings import Settings


def search_findings(settings: Settings) -> Iterator[Finding]:
    """Advise where `run_pipeline` has no mode, or `retrieve_hybrid` asks a corpus that is not there by default."""
    if not settings.modes:
        yield Finding(
            "advice",
            "pipeline",
            "no mode of yours, and none of the shipped ones is for your corpora: each run_pipeline job fails. Write "
            "[modes.NAME] in modes.toml beside the settings file (docs/pipeline.md)",
        )
    if not settings.hybrid.searches:
        yield Finding(
            "advice",
            "hybrid",
            "hybrid.searches is empty: each retrieve_hybrid job without searches of its own fails. Name your corpora "
            "there",
        )
    missing = [name for name in settings.hybrid.searches if name not in settings.corpora]
    if missing:
        yield Finding(
            "advice",
            "hybrid",
            f"hybrid.searches: there is no corpus {missing[0]}: each retrieve_hybrid job without searches of its own "
            "fails. Name yours there",
        )


def time_limit_findings(settings: Settings) -> Iterator[Finding]:
    """Advise where a statement may take longer than its job: then the job's limit ends it, which says less."""
    statement, job = settings.search.statement_timeout_seconds, settings.worker.soft_time_limit_seconds
    if statement >= job:
        yield Finding(
            "advice",
            "time limits",
            f"search.statement_timeout_seconds ({statement:g}) is not below worker.soft_time_limit_seconds ({job}): "
            "a slow statement takes all of its job's time. Lower the first, or raise the second",
        )


def drift_findings(settings: Settings) -> Iterator[Finding]:
    """Report a scheduled check of recorded runs without a valid principal."""
    if not settings.verify.every_minutes:
        return
    try:
        watcher(settings)
    except SettingsError as error:
        yield Finding("problem", "drift watch", error.message)


def metrics_findings(settings: Settings) -> Iterator[Finding]:
    """Report metrics that can't be stored or served; a running worker may use the port."""
    where = settings.metrics
    if where.folder:
        try:
            try_folder(Path(where.folder).absolute(), leave=False)
        except OSError as error:
            yield Finding("problem", "metrics", f"the setting metrics.folder, {where.folder}: {error.strerror}")
    if not where.port:
        return
    try:
        (family, kind, _, _, address), *_ = socket.getaddrinfo(where.address, where.port, type=socket.SOCK_STREAM)
        with socket.socket(family, kind) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            link.bind(address)
    except OSError as error:
        is_port_taken = error.errno == errno.EADDRINUSE
        text = f"the setting metrics.port: {where.address} port {where.port}: {error.strerror}"
        cure = ": unless a running worker serves it, choose another port"
        yield Finding("advice" if is_port_taken else "problem", "metrics", text + cure if is_port_taken else text)


def principal_findings(settings: Settings) -> Iterator[Finding]:
    """Check that jobs can state their caller."""
    try:
        check_keys(settings)
    except SettingsError as error:
        yield Finding("problem", "principals", error.message)
        return
    if settings.trust_queue:
        yield Finding("advice", "principals", "trust_queue = true: a client that can write to Redis can be any caller")
    elif not settings.token_keys and not all(corpus.public for corpus in settings.corpora.values()):
        yield Finding(
            "problem",
            "principals",
            "no job can state its caller: set RETRIEVAL_WORKER_TOKEN_KEYS, or trust_queue = true where only your "
            "backend writes to Redis",
        )
    else:
        yield Finding("ok", "principals", f"{len(settings.token_keys)} key(s) for principal tokens")
