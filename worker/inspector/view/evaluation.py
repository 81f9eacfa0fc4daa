"""Evaluation: figures of a report that `retrieval-worker evaluate` wrote; no query, id or ranking of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from worker.core.ranking.measures import measure_title

Name = Annotated[str, Field(max_length=2000)]
Count = Annotated[int, Field(ge=0, le=10**12)]
MOST = 200
"""Most systems, measures and comparisons of a report."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Figure(_Part):
    """Mean over queries, with the ends of its interval."""

    mean: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    queries: Count


class DifferenceFigure(Figure):
    """Difference of two systems: the second less the first."""

    p: FiniteFloat
    better: Count
    worse: Count
    verdict: Literal["better", "worse", "undecided", "same"]


class _System(_Part):
    name: Name
    kind: Name = ""
    figures: dict[Name, Figure] = Field({}, max_length=MOST)


class _Comparison(_Part):
    first: Name
    second: Name
    queries: Count
    sentence: Name
    differences: dict[Name, DifferenceFigure] = Field(max_length=MOST)


class _Settings(_Part):
    confidence: Annotated[float, Field(gt=0, lt=1)]


class _Report(_Part):
    report: Literal["evaluation"]
    report_version: Literal[1]
    source: Name
    worker_version: Name
    made_at: Name
    settings: _Settings
    measures: list[Name] = Field(max_length=MOST)
    systems: list[_System] = Field(max_length=MOST)
    comparisons: list[_Comparison] = Field(max_length=MOST)
    without_relevant: list[object] = []
    not_found: list[object] = []
    degraded: dict[Name, Count] = {}


@dataclass(frozen=True, slots=True)
class SystemColumn:
    """Column of the table of figures.

    Attributes:
        name: the system: a leg, the whole, a fusion, a profile or a file.
        queries: queries that it was measured on.
    """

    name: str
    queries: int


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """Row of the table: a measure, and its figure for each system; None where it is not defined."""

    measure: str
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """Comparison of two systems on the same queries, measure by measure."""

    first: str
    second: str
    queries: int
    sentence: str
    differences: tuple[tuple[str, DifferenceFigure], ...]


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """Evaluation of labelled queries.

    Attributes:
        source: file of the queries, without its folder.
        made_at: time of the report.
        worker_version: version that made it.
        confidence: share of the intervals, 0-1.
        systems: columns of the table.
        rows: rows of the table.
        comparisons: pairs of systems.
        without_relevant: queries without anything relevant.
        not_found: queries of which no system found anything relevant.
        degraded: code → queries that were answered without it.
    """

    source: str
    made_at: str
    worker_version: str
    confidence: float
    systems: tuple[SystemColumn, ...]
    rows: tuple[MeasureRow, ...]
    comparisons: tuple[ComparisonView, ...]
    without_relevant: int
    not_found: int
    degraded: tuple[tuple[str, int], ...]


def evaluation_view(content: bytes) -> EvaluationView:
    """Return the view of a report.

    Raises:
        ValueError: it is not a report of `evaluate`.
    """
    try:
        report = _Report.model_validate(json.loads(content))
    except (ValidationError, ValueError, RecursionError):
        raise ValueError("not a report of evaluate") from None
    rows = tuple(
        MeasureRow(measure_title(measure), tuple(system.figures.get(measure) for system in report.systems))
        for measure in report.measures
    )
    columns = (
        SystemColumn(system.name, max((figure.queries for figure in system.figures.values()), default=0))
        for system in report.systems
    )
    comparisons = (
        ComparisonView(
            *(comparison.first, comparison.second, comparison.queries, comparison.sentence),
            tuple((measure_title(measure), difference) for measure, difference in comparison.differences.items()),
        )
        for comparison in report.comparisons
    )
    return EvaluationView(
        report.source.rpartition("/")[2],
        report.made_at,
        report.worker_version,
        report.settings.confidence,
        tuple(columns),
        rows,
        tuple(comparisons),
        len(report.without_relevant),
        len(report.not_found),
        tuple(sorted(report.degraded.items())),
    )
