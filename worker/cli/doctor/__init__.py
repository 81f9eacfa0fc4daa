"""Read-only checks of settings, Postgres and Redis: problems and advice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from worker.adapters.durability import Finding, redis_findings
from worker.cli.doctor.caller import caller_findings
from worker.cli.doctor.configuration import (
    drift_findings,
    metrics_findings,
    principal_findings,
    search_findings,
    time_limit_findings,
)
from worker.cli.doctor.corpora import LEAKPROOF
from worker.cli.doctor.locks import locks
from worker.cli.doctor.models import embedder_findings, part_findings
from worker.cli.doctor.servers import clock_findings, holding_findings, postgres_findings, standby_findings

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.model import Principal
    from worker.settings import Settings

__all__ = ["LEAKPROOF", "examine", "locks"]


def examine(
    settings: Settings, caller: Principal | None = None, clock: Callable[[], float] = time.time
) -> list[Finding]:
    """Return all findings, in a fixed order.

    Args:
        settings: the worker's settings.
        caller: also check what this caller sees.
        clock: of this machine, in seconds since 1970.
    """
    return [
        *postgres_findings(settings),
        *standby_findings(settings),
        *redis_findings(settings),
        *holding_findings(settings),
        *clock_findings(settings, clock),
        *principal_findings(settings),
        *part_findings(settings),
        *embedder_findings(settings, caller),
        *search_findings(settings),
        *drift_findings(settings),
        *metrics_findings(settings),
        *time_limit_findings(settings),
        *([] if caller is None else caller_findings(settings, caller)),
    ]
