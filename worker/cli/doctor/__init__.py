"""Read-only checks of settings, Postgres and Redis: problems and advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.adapters.durability import Finding, redis_findings
from worker.cli.doctor.configuration import drift_findings, metrics_findings, principal_findings, search_findings
from worker.cli.doctor.corpora import LEAKPROOF
from worker.cli.doctor.models import embedder_findings, part_findings
from worker.cli.doctor.servers import postgres_findings, standby_findings

if TYPE_CHECKING:
    from worker.settings import Settings

__all__ = ["LEAKPROOF", "examine"]


def examine(settings: Settings) -> list[Finding]:
    """Return all findings, in a fixed order."""
    return [
        *postgres_findings(settings),
        *standby_findings(settings),
        *redis_findings(settings),
        *principal_findings(settings),
        *part_findings(settings),
        *embedder_findings(settings),
        *search_findings(settings),
        *drift_findings(settings),
        *metrics_findings(settings),
    ]
