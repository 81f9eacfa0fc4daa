"""Where the sentence that answers stands in an answer without a language model: first, in it, or not at all.

    python -m benchmarks.answers --write benchmarks/results
    python -m benchmarks.answers --folder FOLDER      # of your own, with corpus.json, queries.jsonl and answers.jsonl

A question counts if its answers are known: passages of which one stands in the sentence that answers, in a chunk that
is relevant. Without them, what counts is a paragraph from a chunk of the highest grade.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from benchmarks.command import Folder, publish
from benchmarks.fusions import sets
from benchmarks.labelled_sets import CALLER, LabelledSet, loaded, opened
from benchmarks.quality import markdown

from worker.core.ranking.measures import mean
from worker.jobs.pipeline.synthesis import labelled_sources
from worker.jobs.pipeline.types import CorpusSearch, QueryRequest
from worker.model import Candidate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.evaluation.queries import LabelledQuery
    from worker.jobs.engine import Engine

_LABEL = re.compile(r"\[(S\d+)\]")
_SOURCES = 8
ENGLISH = ("samples", "stdlib", "almanac", "xq_en")
"""Sets of `benchmarks.fusions` that are asked: of the default model's language, with questions of one answer."""


@dataclass(frozen=True)
class AnswerPlaces:
    """Places of the sentence that answers a question.

    Attributes:
        is_retrieved: whether it is in one of the sources.
        is_first, is_there: whether it is in the first paragraph of the answer, and in any.
        quoted: sentences of the answer.
    """

    is_retrieved: bool
    is_first: bool
    is_there: bool
    quoted: int


def asked(engine: Engine, query: LabelledQuery, answers: Sequence[str]) -> AnswerPlaces:
    """Ask the question of the pipeline, with all defaults."""
    corpus = query.corpus or "documents"
    request = QueryRequest(
        question=query.question, mode="grounded", k=_SOURCES, searches=[CorpusSearch(corpus, _SOURCES)]
    )
    response = engine.pipeline.run(request, CALLER)
    sources = labelled_sources(response.package) if response.package else {}
    least = 1 if answers else max(query.grades.values())
    relevant = {
        label: _one_line(source.chunk.text)
        for label, source in sources.items()
        if isinstance(source, Candidate) and query.grades.get(source.chunk.id, 0) >= least
    }
    paragraphs = (response.answer or "").split("\n\n")
    hits = [
        any(label in relevant for label in _LABEL.findall(paragraph)) and _answers(paragraph, answers)
        for paragraph in paragraphs
    ]
    retrieved = any(_answers(text, answers) for text in relevant.values())
    return AnswerPlaces(retrieved, hits[0], any(hits), len(_LABEL.findall(response.answer or "")))


def _answers(text: str, answers: Sequence[str]) -> bool:
    return not answers or any(answer in _one_line(text) for answer in answers)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def known_answers(folder: Path) -> Mapping[str, Sequence[str]]:
    """Question → the passages of which one stands in the sentence that answers; empty without `answers.jsonl`."""
    file = folder / "answers.jsonl"
    if not file.exists():
        return {}
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return {row["id"]: row["answers"] for row in rows}


def row(labelled: LabelledSet, answers: Mapping[str, Sequence[str]]) -> list[str]:
    """Ask each question with known answers, or without these each question; return a row of the table."""
    queries = [query for query in labelled.queries if not answers or query.id in answers]
    with loaded(labelled) as settings, opened(settings) as engine:
        places = [asked(engine, query, answers.get(query.id, ())) for query in queries]
    shares = [
        [one.is_retrieved for one in places],
        [one.is_first for one in places],
        [one.is_there for one in places],
    ]
    what = "sentence" if answers else "chunk"
    return [
        f"{labelled.name} ({len(places)})",
        what,
        *(f"{mean(map(float, share)) or 0.0:.2f}" for share in shares),
        f"{mean(float(one.quoted) for one in places) or 0.0:.1f}",
    ]


def main(
    write: Folder = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="A set of your own instead of the labelled ones.", exists=True, file_okay=False),
    ] = None,
) -> None:
    """Ask the labelled questions without a language model; print where the answers stand, in Markdown."""
    english = [labelled for labelled in sets() if labelled.name in ENGLISH]
    asked_sets = [LabelledSet(folder.name, folder, (folder / "corpus.json",))] if folder else english
    rows = [row(labelled, known_answers(labelled.folder)) for labelled in asked_sets]
    headings = ["Questions", "counts", "among the sources", "first paragraph", "answer", "sentences quoted"]
    publish(markdown(headings, rows), write, "answers.md")


if __name__ == "__main__":
    typer.run(main)
