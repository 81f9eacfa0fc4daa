"""Reports of an evaluation: a table, sentences, and one JSON document that holds all that the figures rest on."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from worker.cli.evaluation.figures import FEW
from worker.cli.terminal import ID_COLUMN, id_cell
from worker.core.ranking.measures import measure_title
from worker.core.ranking.significance import CONFIDENCE, RESAMPLES, SEED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from worker.cli.evaluation.figures import Comparison, Evaluation, RankedQuery
    from worker.cli.evaluation.queries import LabelledQuery
    from worker.cli.evaluation.systems import System
    from worker.core.ranking.significance import Difference, Estimate

REPORT_VERSION = 1
_LONGEST_ID = 64
_SHOWN = 10
"""Questions that are listed: those that failed, and of each comparison those that changed most."""


def shown_id(text: str) -> str:
    """Return an id, cut if it is long."""
    return text if len(text) <= _LONGEST_ID else f"{text[:_LONGEST_ID]}…"


def table(title: str, evaluation: Evaluation) -> Table:
    """Return the table of all figures: a row for each measure, a column for each system."""
    made = Table(title=title, title_justify="left", caption="mean (95 % interval)", caption_justify="left")
    made.add_column("measure")
    for system, figures in evaluation.figures.items():
        queries = next(iter(figures.values())).queries
        made.add_column(f"{system}\n{queries} {'query' if queries == 1 else 'queries'}", justify="right")
    for measure in evaluation.measures:
        cells = (_cell(figures[measure]) for figures in evaluation.figures.values())
        made.add_row(measure_title(measure), *cells)
    return made


def comparison_table(comparison: Comparison) -> Table:
    """Return the table of one comparison: a row for each measure."""
    made = Table(title=f"{comparison.second} less {comparison.first}", title_justify="left")
    for heading in ("measure", "difference", "95 % interval", "p", "better", "worse", "equal"):
        made.add_column(heading, justify="left" if heading == "measure" else "right")
    for measure, found in comparison.differences.items():
        equal = comparison.queries - found.better - found.worse
        counts = (str(count) for count in (found.better, found.worse, equal))
        made.add_row(measure_title(measure), f"{found.estimate.mean:+.3f}", _range(found.estimate), _p(found), *counts)
    return made


def questions_table(evaluation: Evaluation, comparisons: Iterable[Comparison]) -> Table | None:
    """Return the table of the questions that failed, and of those that changed between the systems of comparisons.

    A question that found nothing relevant failed; it changed if the main measure did. None if there are none.
    """
    failed = [("nothing relevant", "", query) for query in evaluation.queries_not_found]
    changed = [_changes(evaluation, one) for one in comparisons]
    rows = [row for found in (failed, *changed) for row in found[:_SHOWN]]
    more = sum(max(0, len(found) - _SHOWN) for found in (failed, *changed))
    if not rows:
        return None
    made = Table(title="questions that failed or changed", title_justify="left", caption_justify="left")
    made.caption = f"and {more} more: a --report has all" if more else None
    made.add_column("question", **ID_COLUMN)
    for heading in ("", measure_title(evaluation.main_measure), "text"):
        made.add_column(heading)
    for what, values, query in rows:
        made.add_row(id_cell(shown_id(query.id)), what, values, id_cell(query.question))
    return made


def _changes(evaluation: Evaluation, comparison: Comparison) -> list[tuple[str, str, LabelledQuery]]:
    """Return the questions that a comparison's systems rank differently well, the greatest differences first."""
    found = []
    for query in (one.query for one in evaluation.ranked):
        by_system = evaluation.by_query.get(query.id, {})
        if {comparison.first, comparison.second} <= {*by_system}:
            first, second = (by_system[name][evaluation.main_measure] for name in (comparison.first, comparison.second))
            if first != second:
                what = f"{comparison.second} {'better' if second > first else 'worse'}"
                found.append((abs(second - first), (what, f"{first:.3f} → {second:.3f}", query)))
    return [row for _, row in sorted(found, key=lambda pair: -pair[0])]


def sentence(comparison: Comparison, measure: str) -> str:
    """Return in plain words what a comparison means, by one measure."""
    found, name, verdict = comparison.differences[measure], measure_title(measure), comparison.verdict(measure)
    first, second, of = comparison.first, comparison.second, f"of {_count(comparison.queries)}"
    few = "; so few questions show nothing" if comparison.is_of_few else ""
    if comparison.is_empty:
        return f"Nothing is compared: {second} and {first} rank every question alike, as two fusions of one leg do."
    if verdict == "same":
        return f"{second} and {first} do equally well: the same {name} on {_count(comparison.queries)}{few}."
    figures = f"{found.estimate.mean:+.3f} {name} ({_range(found.estimate)}, p {_sign(found)})"
    counts = f"on {found.better} {of} better, on {found.worse} worse"
    if verdict == "undecided":
        return f"No difference between {second} and {first} can be shown: {figures}; {second} is {counts}{few}."
    return f"{second} finds {'more' if verdict == 'better' else 'less'} than {first}: {figures}; {counts}."


def notes(evaluation: Evaluation) -> list[str]:
    """Return what a reader must know beside the figures."""
    said = []
    if without := evaluation.without_relevant:
        said.append(f"{_count(len(without))} without anything relevant: left out of the figures")
    if missed := evaluation.queries_not_found:
        first = missed[0]
        item = next(item for item, grade in first.grades.items() if grade >= evaluation.relevant_from)
        said.append(
            f"{_count(len(missed))} with none of the relevant ids in any answer, as {shown_id(item)} of query "
            f"{shown_id(first.id)}: if they exist and the caller may see them, nothing relevant was found"
        )
    if mixed := [one.query.id for one in evaluation.ranked if one.is_mixed]:
        said.append(
            f"{_count(len(mixed))} judged by chunks and documents at once, as query {shown_id(mixed[0])}: the "
            "documents count for nothing; name one or the other"
        )
    measured = max((next(iter(one.values())).queries for one in evaluation.figures.values()), default=FEW)
    if measured < FEW:
        said.append(f"{_count(measured)} can't tell systems apart: label {FEW} or more")
    documents = sum(one.unit == "document" for one in evaluation.ranked)
    if documents:
        said.append(f"{_count(documents)} judged by documents: a document has the rank of its best chunk")
    for code, count in sorted(_degraded(evaluation).items()):
        said.append(f"{_count(count)} answered without {code}")
    return said


def document(
    evaluation: Evaluation, systems: Mapping[str, System], settings: Mapping[str, Any], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the whole evaluation as plain JSON: figures, comparisons, and each query with its rankings and measures.

    Args:
        evaluation: the evaluation.
        systems: system → its jobs' fields; empty for runs that were read from files.
        settings: what was asked for.
        about: what else identifies it, e.g. when it was made.
    """
    return {
        "report": "evaluation",
        "report_version": REPORT_VERSION,
        **about,
        "settings": {**settings, "confidence": CONFIDENCE, "resamples": RESAMPLES, "seed": SEED},
        "measures": [*evaluation.measures],
        "main_measure": evaluation.main_measure,
        "systems": [_system(name, systems.get(name), evaluation) for name in evaluation.systems],
        "comparisons": [_comparison(one, evaluation.main_measure) for one in evaluation.comparisons],
        "without_relevant": evaluation.without_relevant,
        "not_found": evaluation.not_found,
        "degraded": _degraded(evaluation),
        "queries": [_query(one, evaluation) for one in evaluation.ranked],
    }


def _system(name: str, system: System | None, evaluation: Evaluation) -> dict[str, Any]:
    figures = {measure: asdict(found) for measure, found in evaluation.figures.get(name, {}).items()}
    told = {} if system is None else {"kind": system.kind, "fields": dict(system.fields)}
    return {"name": name, **told, "figures": figures}


def _comparison(one: Comparison, measure: str) -> dict[str, Any]:
    return {
        "first": one.first,
        "second": one.second,
        "queries": one.queries,
        "sentence": sentence(one, measure),
        "differences": {
            name: {
                **asdict(found.estimate),
                "p": found.p,
                "better": found.better,
                "worse": found.worse,
                "verdict": one.verdict(name),
            }
            for name, found in one.differences.items()
        },
    }


def _query(one: RankedQuery, evaluation: Evaluation) -> dict[str, Any]:
    query, measures = one.query, evaluation.by_query.get(one.query.id, {})
    optional = {"question": query.question, "context": query.context, "corpus": query.corpus, "kind": query.kind}
    return {
        "id": query.id,
        **{name: value for name, value in optional.items() if value},
        "unit": one.unit,
        "relevant": dict(query.grades),
        "degraded": sorted(one.degraded),
        "systems": {
            name: {
                "ranked": [{"id": item, "score": score} for item, score in ranking],
                "measures": measures.get(name, {}),
            }
            for name, ranking in one.rankings.items()
        },
    }


def _degraded(evaluation: Evaluation) -> dict[str, int]:
    return dict(Counter(code for one in evaluation.ranked for code in one.degraded))


def _count(queries: int) -> str:
    return f"{queries} {'question' if queries == 1 else 'questions'}"


def _cell(found: Estimate) -> str:
    if found.queries == 1:
        return f"{found.mean:.3f} (–)"
    return f"{found.mean:.3f} ({found.low:.2f}–{found.high:.2f})"


def _range(found: Estimate) -> str:
    if found.queries == 1:
        return "no interval of one question"
    return f"{found.low:+.3f} to {found.high:+.3f}"


def _p(found: Difference) -> str:
    return "< 0.001" if found.p < 0.001 else f"{found.p:.3f}"  # noqa: PLR2004 -- the digits shown


def _sign(found: Difference) -> str:
    told = _p(found)
    return told if told.startswith("<") else f"= {told}"
