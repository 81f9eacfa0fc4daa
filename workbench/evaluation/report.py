"""Reports of an evaluation: a table, sentences, and one JSON document that holds all that the figures rest on."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from workbench.core.significance import CONFIDENCE, RESAMPLES, SEED
from workbench.evaluation.figures import FEW
from worker.adapters.terminal import ID_COLUMN, id_cell
from worker.core.ranking.measures import measure_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from workbench.core.significance import Difference, Estimate
    from workbench.evaluation.figures import Comparison, Evaluation, RankedQuery
    from workbench.evaluation.queries import LabelledQuery
    from workbench.evaluation.systems import System

REPORT_VERSION = 1
_LONGEST_ID = 64
_SHOWN = 10
"""Questions that are listed: those that failed, and of each comparison those that changed most."""


def shown_id(text: str) -> str:
    """Return an id, cut if it is long."""
    return text if len(text) <= _LONGEST_ID else f"{text[:_LONGEST_ID]}…"


def table(title: str, evaluation: Evaluation) -> Table:
    """Return the table of all figures: a row for each measure, a column for each system."""
    measure_table = Table(title=title, title_justify="left", caption="mean (95 % interval)", caption_justify="left")
    measure_table.add_column("measure")
    for system, figures in evaluation.figures.items():
        queries = next(iter(figures.values())).queries
        measure_table.add_column(f"{system}\n{queries} {'query' if queries == 1 else 'queries'}", justify="right")
    for measure in evaluation.measures:
        cells = (_cell(figures[measure]) for figures in evaluation.figures.values())
        measure_table.add_row(measure_title(measure), *cells)
    return measure_table


def comparison_table(comparison: Comparison) -> Table:
    """Return the table of one comparison: a row for each measure."""
    measure_table = Table(title=f"{comparison.second} less {comparison.first}", title_justify="left")
    for heading in ("measure", "difference", "95 % interval", "p", "better", "worse", "equal"):
        measure_table.add_column(heading, justify="left" if heading == "measure" else "right")
    for measure, difference in comparison.differences.items():
        equal = comparison.queries - difference.better - difference.worse
        counts = (str(count) for count in (difference.better, difference.worse, equal))
        measure_table.add_row(
            measure_title(measure),
            f"{difference.estimate.mean:+.3f}",
            _range(difference.estimate),
            _p(difference),
            *counts,
        )
    return measure_table


def questions_table(evaluation: Evaluation, comparisons: Iterable[Comparison]) -> Table | None:
    """Return the table of the questions that failed, and of those that changed between the systems of comparisons.

    A question that found nothing relevant failed; it changed if the main measure did. None if there are none.
    """
    failed = [("nothing relevant", "", query) for query in evaluation.queries_not_found]
    changed = [_changes(evaluation, comparison) for comparison in comparisons]
    rows = [row for question_rows in (failed, *changed) for row in question_rows[:_SHOWN]]
    unlisted_count = sum(max(0, len(question_rows) - _SHOWN) for question_rows in (failed, *changed))
    if not rows:
        return None
    question_table = Table(title="questions that failed or changed", title_justify="left", caption_justify="left")
    question_table.caption = f"and {unlisted_count} more: a --report has all" if unlisted_count else None
    question_table.add_column("question", **ID_COLUMN)
    for heading in ("", measure_title(evaluation.main_measure), "text"):
        question_table.add_column(heading)
    for outcome, values, query in rows:
        question_table.add_row(id_cell(shown_id(query.id)), outcome, values, id_cell(query.question))
    return question_table


def _changes(evaluation: Evaluation, comparison: Comparison) -> list[tuple[str, str, LabelledQuery]]:
    """Return the questions that a comparison's systems rank differently well, the greatest differences first."""
    changes = []
    for query in (ranked_query.query for ranked_query in evaluation.ranked):
        by_system = evaluation.by_query.get(query.id, {})
        if {comparison.first, comparison.second} <= {*by_system}:
            first_value, second_value = (
                by_system[name][evaluation.main_measure] for name in (comparison.first, comparison.second)
            )
            if first_value != second_value:
                outcome = f"{comparison.second} {'better' if second_value > first_value else 'worse'}"
                changes.append(
                    (abs(second_value - first_value), (outcome, f"{first_value:.3f} → {second_value:.3f}", query))
                )
    return [row for _, row in sorted(changes, key=lambda pair: -pair[0])]


def sentence(comparison: Comparison, measure: str) -> str:
    """Return in plain words what a comparison means, by one measure."""
    difference, name, verdict = comparison.differences[measure], measure_title(measure), comparison.verdict(measure)
    first, second, of_questions = comparison.first, comparison.second, f"of {_count(comparison.queries)}"
    few_note = "; so few questions show nothing" if comparison.is_of_few else ""
    if comparison.is_empty:
        return f"Nothing is compared: {second} and {first} rank every question alike, as two fusions of one leg do."
    if verdict == "same":
        return f"{second} and {first} do equally well: the same {name} on {_count(comparison.queries)}{few_note}."
    figures = f"{difference.estimate.mean:+.3f} {name} ({_range(difference.estimate)}, p {_sign(difference)})"
    counts = f"on {difference.better} {of_questions} better, on {difference.worse} worse"
    if verdict == "undecided":
        return f"No difference between {second} and {first} can be shown: {figures}; {second} is {counts}{few_note}."
    return f"{second} finds {'more' if verdict == 'better' else 'less'} than {first}: {figures}; {counts}."


def notes(evaluation: Evaluation) -> list[str]:
    """Return what a reader must know beside the figures."""
    sentences = []
    if without := evaluation.without_relevant:
        sentences.append(f"{_count(len(without))} without anything relevant: left out of the figures")
    if missed := evaluation.queries_not_found:
        missed_query = missed[0]
        item = next(item for item, grade in missed_query.grades.items() if grade >= evaluation.relevant_from)
        sentences.append(
            f"{_count(len(missed))} with none of the relevant ids in any answer, as {shown_id(item)} of query "
            f"{shown_id(missed_query.id)}: if they exist and the caller may see them, nothing relevant was found"
        )
    if mixed := [ranked_query.query.id for ranked_query in evaluation.ranked if ranked_query.is_mixed]:
        sentences.append(
            f"{_count(len(mixed))} judged by chunks and documents at once, as query {shown_id(mixed[0])}: the "
            "documents count for nothing; name one or the other"
        )
    measured = max((next(iter(estimates.values())).queries for estimates in evaluation.figures.values()), default=FEW)
    if measured < FEW:
        sentences.append(f"{_count(measured)} can't tell systems apart: label {FEW} or more")
    documents = sum(ranked_query.unit == "document" for ranked_query in evaluation.ranked)
    if documents:
        sentences.append(f"{_count(documents)} judged by documents: a document has the rank of its best chunk")
    for code, count in sorted(_degraded(evaluation).items()):
        sentences.append(f"{_count(count)} answered degraded: {code}")
    return sentences


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
        "comparisons": [_comparison(comparison, evaluation.main_measure) for comparison in evaluation.comparisons],
        "without_relevant": evaluation.without_relevant,
        "not_found": evaluation.not_found,
        "degraded": _degraded(evaluation),
        "queries": [_query(ranked_query, evaluation) for ranked_query in evaluation.ranked],
    }


def _system(name: str, system: System | None, evaluation: Evaluation) -> dict[str, Any]:
    figures = {measure: asdict(estimate) for measure, estimate in evaluation.figures.get(name, {}).items()}
    system_fields = {} if system is None else {"kind": system.kind, "fields": dict(system.fields)}
    return {"name": name, **system_fields, "figures": figures}


def _comparison(comparison: Comparison, measure: str) -> dict[str, Any]:
    return {
        "first": comparison.first,
        "second": comparison.second,
        "queries": comparison.queries,
        "sentence": sentence(comparison, measure),
        "differences": {
            name: {
                **asdict(difference.estimate),
                "p": difference.p,
                "better": difference.better,
                "worse": difference.worse,
                "verdict": comparison.verdict(name),
            }
            for name, difference in comparison.differences.items()
        },
    }


def _query(ranked_query: RankedQuery, evaluation: Evaluation) -> dict[str, Any]:
    query, measures = ranked_query.query, evaluation.by_query.get(ranked_query.query.id, {})
    optional = {"question": query.question, "context": query.context, "corpus": query.corpus, "kind": query.kind}
    return {
        "id": query.id,
        **{name: value for name, value in optional.items() if value},
        "unit": ranked_query.unit,
        "relevant": dict(query.grades),
        "degraded": sorted(ranked_query.degraded),
        "systems": {
            name: {
                "ranked": [{"id": item, "score": score} for item, score in ranking],
                "measures": measures.get(name, {}),
            }
            for name, ranking in ranked_query.rankings.items()
        },
    }


def _degraded(evaluation: Evaluation) -> dict[str, int]:
    return dict(Counter(code for ranked_query in evaluation.ranked for code in ranked_query.degraded))


def _count(queries: int) -> str:
    return f"{queries} {'question' if queries == 1 else 'questions'}"


def _cell(estimate: Estimate) -> str:
    if estimate.queries == 1:
        return f"{estimate.mean:.3f} (–)"
    return f"{estimate.mean:.3f} ({estimate.low:.2f}–{estimate.high:.2f})"


def _range(estimate: Estimate) -> str:
    if estimate.queries == 1:
        return "no interval of one question"
    return f"{estimate.low:+.3f} to {estimate.high:+.3f}"


def _p(difference: Difference) -> str:
    return "< 0.001" if difference.p < 0.001 else f"{difference.p:.3f}"  # noqa: PLR2004 -- the digits shown


def _sign(difference: Difference) -> str:
    p_text = _p(difference)
    return p_text if p_text.startswith("<") else f"= {p_text}"
