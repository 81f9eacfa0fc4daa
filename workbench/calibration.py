"""Calibration of a corpus's search width: recall of the worker's search against exact search, on the corpus's data.

It uses the worker's role and statements, for callers with their own permissions. It writes nothing to the database.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval_client.errors import SettingsError
from workbench.core.calibration import Quality, quality, questions, recall_against
from worker.adapters.postgres import indexes
from worker.adapters.postgres.database import Database, connected, translated_errors
from worker.adapters.postgres.search import Corpus
from worker.cli.usage import WrongUsage
from worker.model import NO_FILTERS, Principal
from worker.settings.serving import CalibratedWidth, Calibration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from workbench.core.calibration import Goal
    from worker.adapters.postgres.search import SearchResult
    from worker.core.ranking.vectors import Vector
    from worker.settings import Settings

    # Called with a caller's name and the search width (0: exact search) after each query.
    Progress = Callable[[str, int], None]

K = 15
STEPS = (40, 60, 100, 150, 200, 300, 400, 600, 800, 1000)
"""Search widths to try, in ascending order."""

MARGIN = 2
"""Safety factor of the chosen width: a sample seldom contains the rare query that finds nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Caller:
    """A caller; compared by identity.

    Attributes:
        name: its name for people.
        principal: its principal, as in a job.
    """

    name: str
    principal: Principal


@dataclass(frozen=True, slots=True)
class Line:
    """The result of one caller at one search width.

    Attributes:
        caller: the caller's name.
        visible: share of the corpus's rows that the caller sees, 0-1.
        ef_search: the search width.
        quality: the measured recall.
        reached: True if the recall reaches the goal.
        enough: True if it does so by a margin.
    """

    caller: str
    visible: float
    ef_search: int
    quality: Quality
    reached: bool
    enough: bool


class CorpusCalibration:
    """The measurement of one corpus.

    Args:
        settings: the worker's settings.
        corpus: its name.
        timeout_seconds: time limit of one statement: exact search reads all that a caller sees.

    Attributes:
        rows: rows of the corpus, as Postgres estimates them.

    Raises:
        WrongUsage: there is no such corpus.
        SettingsError: there is no index to calibrate.
        Unavailable, TimedOut: see `Database`.
    """

    def __init__(self, settings: Settings, corpus: str, timeout_seconds: float) -> None:
        if corpus not in settings.corpora:
            raise WrongUsage(f"--corpus: expected one of {', '.join(settings.corpora)}")
        self._name = corpus
        self._corpus = settings.corpora[corpus]
        self._search = settings.search.model_copy(update={"statement_timeout_seconds": timeout_seconds})
        self._database = Database(settings.model_copy(update={"search": self._search}))
        try:
            self._types = self._database.types[corpus]
            self._searches = self._at(STEPS[-1])
            self.rows = self._size()
            if not self.always_exact:
                self._check_index(settings)
        except BaseException:
            self.close()
            raise

    @property
    def always_exact(self) -> bool:
        """True if the corpus is so small that no search of it uses an index."""
        return self.rows <= self._search.exact_rows

    def visible(self, caller: Caller) -> int:
        """Return the number of rows with an embedding that the caller sees."""
        ((row,),) = self._database.read(caller.principal, [(self._searches.statements.embedded, {})])
        return int(row[0])

    def sample(self, caller: Caller, count: int, seed: int) -> list[Vector]:
        """Return vectors near ``count`` of the chunks that the caller sees, the same for the same rows and seed."""
        values = {"seed": seed, "limit": count}
        (rows,) = self._database.read(caller.principal, [(self._searches.statements.sample, values)])
        return questions(np.array([vector.to_numpy() for (vector,) in rows]), np.random.default_rng(seed))

    def measure(
        self,
        callers: Mapping[Caller, float],
        queries: Sequence[Vector],
        steps: Sequence[int],
        goal: Goal,
        on_query: Progress,
    ) -> Iterator[Line]:
        """Measure each caller at rising search widths, until all reach the goal by a margin or no width is left.

        Args:
            callers: the callers, each with its visible share of the rows.
            queries: unit vectors.
            steps: search widths, rising.
            goal: the recall to reach.
            on_query: called after each query.
        """
        exact = {caller: self._ask(self._searches, caller, queries, on_query, 0) for caller in callers}
        waiting = dict(callers)
        reached_from: dict[Caller, int] = {}
        for ef_search in steps:
            corpus = self._at(ef_search)
            for caller, visible in [*waiting.items()]:
                search_results = self._ask(corpus, caller, queries, on_query, ef_search)
                recalls = [
                    recall_against(search_result.candidates, exact_result.candidates)
                    for search_result, exact_result in zip(search_results, exact[caller], strict=True)
                ]
                brought = quality(recalls, [search_result.method for search_result in search_results])
                reached = brought.reaches(goal)
                if reached:
                    reached_from.setdefault(caller, ef_search)
                else:
                    reached_from.pop(caller, None)
                widest = ef_search == steps[-1] or not brought.by_index
                enough = reached and (widest or ef_search >= MARGIN * reached_from[caller])
                if enough:
                    del waiting[caller]
                yield Line(caller.name, visible, ef_search, brought, reached, enough)
            if not waiting:
                return

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def _ask(
        self, corpus: Corpus, caller: Caller, queries: Sequence[Vector], on_query: Progress, ef_search: int
    ) -> list[SearchResult]:
        """Search for each query; exactly if there is no search width."""
        search_results = []
        for query in queries:
            search_results.append(
                corpus.nearest(self._database, caller.principal, query, K, NO_FILTERS, exact=ef_search == 0)
            )
            on_query(caller.name, ef_search)
        return search_results

    def _at(self, ef_search: int) -> Corpus:
        return Corpus(self._name, self._corpus, self._search, self._types, fixed_width(ef_search))

    def _size(self) -> int:
        ((row,),) = self._database.read(Principal(), [(self._searches.statements.size, {})])
        return int(row[0])

    def _check_index(self, settings: Settings) -> None:
        dsn = settings.database_connection_string.get_secret_value()
        with translated_errors(), connected(dsn) as connection:
            hnsw_indexes = indexes.hnsw(connection, self._types.storage)
        if {index.table for index in hnsw_indexes if index.kind == self._types.index} != {*self._types.storage}:
            raise SettingsError(
                f"{self._corpus.table} has no HNSW index that searches could use: "
                "'retrieval-worker doctor' says how to make one"
            )


def fixed_width(ef_search: int) -> Calibration:
    """Return the calibration by which a corpus of any size is searched with this width."""
    points = [CalibratedWidth(visible=1, ef_search=ef_search, recall=1, worst=1)]
    return Calibration(rows=1_000_000_000_000, points=points)


def calibration(rows: int, lines: Iterable[Line]) -> Calibration | None:
    """Return the calibration from a measurement; None if exact search answered everything.

    Args:
        rows: rows of the corpus when measured.
        lines: the results that were enough.
    """
    points = [
        CalibratedWidth(
            visible=round(line.visible, 4),
            ef_search=line.ef_search,
            recall=round(line.quality.mean, 4),
            worst=round(line.quality.worst, 4),
        )
        for line in sorted(lines, key=lambda line: -line.visible)
        if line.quality.by_index
    ]
    return Calibration(rows=rows, points=points) if points else None


def as_toml(calibrations: Mapping[str, Any]) -> str:
    """Format calibrations of corpora as in the settings file."""
    return "\n".join(
        _section(name, Calibration.model_validate(raw_calibration)) for name, raw_calibration in calibrations.items()
    )


def _section(corpus: str, measured: Calibration) -> str:
    points = "".join(
        f"  {{ visible = {point.visible}, ef_search = {point.ef_search}, "
        f"recall = {point.recall}, worst = {point.worst} }},\n"
        for point in measured.points
    )
    return f"[calibration.{_key(corpus)}]\nrows = {measured.rows}\npoints = [\n{points}]\n"


def _key(name: str) -> str:
    """Quote a key of TOML; JSON's escapes are valid in TOML, except those of surrogates."""
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else json.dumps(name, ensure_ascii=False)


def write(path: Path, calibrations: Mapping[str, Any]) -> None:
    """Write the file that the worker reads, whole or not at all.

    Raises:
        SettingsError: it can't be written.
    """
    text = f"# Written by `retrieval-worker calibrate`; docs/vector-index.md\n\n{as_toml(calibrations)}"
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            file.write(text.encode())
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
