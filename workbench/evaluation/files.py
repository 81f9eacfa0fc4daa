"""Files of an evaluation: TREC runs and judgements in and out, the plot and the report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retrieval_client.errors import InvalidJob
from workbench.core.trec import qrels_lines, read_qrels, read_run, run_lines, word
from workbench.evaluation.figures import RankedQuery
from workbench.evaluation.plot import svg
from workbench.evaluation.queries import LabelledQuery, read_text
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any, TypeVar

    from workbench.evaluation.figures import Evaluation

    Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to write; None: not wanted.

    Attributes:
        run: the run of the main system; those of others beside it, see `beside`.
        qrels: the judgements.
        plot: the figures as SVG.
        report: the whole report as JSON.
    """

    run: Path | None
    qrels: Path | None
    plot: Path | None
    report: Path | None

    def check(self) -> None:
        """Check that the files can be made, before anything is measured.

        Raises:
            WrongUsage: a folder is not there, or a file is a folder.
        """
        files = {"--write-run": self.run, "--write-qrels": self.qrels, "--plot": self.plot, "--report": self.report}
        for option, file in files.items():
            if file is not None and not _can_be_made(file):
                raise WrongUsage(f"{option}: expected a file in a folder that exists")

    def write(self, evaluation: Evaluation, main: str, title: str, document: Mapping[str, Any]) -> None:
        """Write the files.

        Raises:
            WrongUsage: a file can't be written.
        """
        if self.run is not None:
            for system in evaluation.systems:
                _write(self.run if system == main else beside(self.run, system), _run(evaluation, system))
        if self.qrels is not None:
            _write(
                self.qrels,
                _lines(qrels_lines({ranked.query.id: ranked.query.grades for ranked in evaluation.ranked})),
            )
        if self.plot is not None:
            _write(self.plot, svg(title, evaluation))
        if self.report is not None:
            _write(self.report, json.dumps(document, indent=1) + "\n")


def beside(file: Path, system: str) -> Path:
    """Return the file of another system's run.

    >>> from pathlib import Path
    >>> beside(Path("run.txt"), "sparse").name
    'run.sparse.txt'
    """
    return file.with_name(f"{file.stem}.{word(system).replace('/', '%2F')}{file.suffix}")


def queries_of_qrels(file: Path) -> list[LabelledQuery]:
    """Read judgements; their queries have no text.

    Raises:
        WrongUsage: the file can't be read, is wrong at a line, or is empty.
    """
    grades = _read(file, "--qrels", read_qrels)
    if not grades:
        raise WrongUsage(f"--qrels {file}: expected a judgement on each line, got no line")
    return [LabelledQuery(query, 0, "", judged) for query, judged in grades.items()]


def as_in_runs(query: LabelledQuery) -> LabelledQuery:
    """Return a query with its ids as runs have them."""
    return LabelledQuery(
        word(query.id),
        query.line,
        query.question,
        {word(item): grade for item, grade in query.grades.items()},
        query.corpus,
        query.context,
        kind=query.kind,
    )


def read_rankings(files: Sequence[Path], queries: Iterable[LabelledQuery]) -> tuple[list[str], list[RankedQuery]]:
    """Read runs of the queries; a query that a run has not was answered with nothing, others are ignored.

    Returns:
        Names of the runs, in their order, and the rankings of each query.

    Raises:
        WrongUsage: a file can't be read, or is wrong at a line.
    """
    short = [file.stem for file in files]
    names = short if len({*short}) == len(short) else [str(file) for file in files]
    if len({*names}) < len(names):
        raise WrongUsage("--run: expected each file once")
    runs = {name: _read(file, "--run", read_run) for name, file in zip(names, files, strict=True)}
    ranked = []
    for query in queries:
        # Scores of a run say nothing beyond its order, which is kept.
        rankings = {name: [(item, None) for item in run.get(query.id, [])] for name, run in runs.items()}
        ranked.append(RankedQuery(query, rankings))
    return names, ranked


def _read(file: Path, option: str, parse: Callable[[Iterable[str]], Read]) -> Read:
    try:
        return parse(read_text(file, option))
    except InvalidJob as error:
        raise WrongUsage(f"{option} {file}: {error.message}") from None


def _run(evaluation: Evaluation, system: str) -> str:
    rankings = {ranked.query.id: ranked.rankings[system] for ranked in evaluation.ranked if system in ranked.rankings}
    return _lines(run_lines(rankings, system))


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _can_be_made(file: Path) -> bool:
    try:
        return file.parent.is_dir() and not file.is_dir()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror}") from None
