"""The labelled set, asked of the engine as shipped, and how good each answer is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.cli.evaluation.queries import LabelledQuery as Query
from worker.cli.evaluation.queries import read_queries
from worker.contract.base import parse_job
from worker.contract.jobs import RetrieveHybrid
from worker.core.ranking.measures import measured
from worker.core.ranking.significance import Estimate as Figure
from worker.core.ranking.significance import estimate
from worker.jobs.context import JobContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from worker.jobs.engine import Engine
    from worker.model import Principal

LABELLED = Path(__file__).parent / "labelled" / "queries.jsonl"
K = 5
ANSWERS = 2
"""From this grade on a chunk answers the query, in part at least: recall counts these."""


@dataclass(frozen=True)
class System:
    """A way to answer: legs, and how they become one ranking."""

    legs: tuple[str, ...]
    fusion: str = "similarity"

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return self.legs[0] if len(self.legs) == 1 else f"{' + '.join(self.legs)}, {self.fusion}"


PRIMARY, CONTEXTUAL, SPARSE = System(("primary",)), System(("contextual",)), System(("sparse",), "rrf")
FUSED = tuple(
    System(legs, fusion)
    for legs in (("primary", "contextual"), ("primary", "sparse"), ("primary", "contextual", "sparse"))
    for fusion in ("similarity", "rrf", "weighted")
)
EVERYWHERE = (PRIMARY, SPARSE, *FUSED)
"""Systems that answer queries without context, too: the contextual leg is left out there, and costs nothing."""


def read() -> tuple[str, list[Query]]:
    """The caller's user id, and the queries."""
    queries = read_queries(LABELLED)
    (user_id,) = {query.claims["user_id"] for query in queries if query.claims}
    return user_id, queries


def judge(query: Query, ranked: Sequence[str]) -> Mapping[str, float]:
    """How good a ranking is: grades are gains for nDCG; recall counts what answers the query."""
    return measured(ranked, query.grades, [K], ANSWERS) or {}


class Asking:
    """The labelled queries' jobs, through `retrieve_hybrid` as a worker answers it.

    Args:
        engine: with the sample corpora.
        caller: who asks.
        transform: of every job.
    """

    def __init__(self, engine: Engine, caller: Principal, transform: str) -> None:
        self._engine = engine
        self._caller = caller
        self._transform = transform

    def ask(self, system: System, query: Query, weights: Mapping[str, float] | None = None) -> list[str] | None:
        """Ids of the chunks of the answer, best first; None where the context says nothing and no other leg is asked.

        The contract has no job for the contextual leg alone: it is what a primary leg finds for the same text.
        """
        if system == CONTEXTUAL:
            text = self._contextual_text(query)
            return None if text is None else self._chunks({"query": text}, query)
        legs = {"legs": list(system.legs), "fusion": system.fusion, "transform": self._transform}
        return self._chunks({"query": query.question, **legs, **({"weights": dict(weights)} if weights else {})}, query)

    def reworded(self, query: Query) -> bool:
        """Whether the transformation changes the query."""
        return bool(
            self._answer({"query": query.question, "transform": self._transform}, query)["transformed_query"]
            != query.question
        )

    def _contextual_text(self, query: Query) -> str | None:
        answer = self._answer({"query": query.question, "transform": self._transform}, query)
        keywords = answer["context_keywords"]
        return " ".join([answer["transformed_query"], *keywords]) if keywords else None

    def _chunks(self, job: Mapping[str, Any], query: Query) -> list[str]:
        return [chunk["chunk_id"] for chunk in self._answer(job, query)["results"][query.corpus]["chunks"]]

    def _answer(self, job: Mapping[str, Any], query: Query) -> dict[str, Any]:
        search = {"corpus": query.corpus, "top_k": K}
        whole = {"legs": ["primary", "contextual"], "context": query.context, "searches": [search], **job}
        return self._engine.hybrid.retrieve(parse_job(RetrieveHybrid, whole), JobContext(lambda: self._caller))


# --- figures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """Quality of one system's answers: a judgement for each query that it answers, in the set's order."""

    by_query: Mapping[str, Mapping[str, float]]

    def over(self, queries: Iterable[Query], measure: str) -> list[float]:
        """One measure of each of these queries."""
        return [self.by_query[query.id][f"{measure}@{K}"] for query in queries]

    def figure(self, queries: Iterable[Query], measure: str) -> Figure:
        """Its mean and interval."""
        return estimate(self.over(queries, measure))

    def against(self, other: Judged, queries: Sequence[Query], measure: str) -> Figure:
        """By how much it is better than another, query by query."""
        mine, theirs = self.over(queries, measure), other.over(queries, measure)
        return estimate([one - another for one, another in zip(mine, theirs, strict=True)])


@dataclass(frozen=True)
class Results:
    """Everything that was judged, of one transformation, and which queries that changed."""

    queries: Sequence[Query]
    judged: Mapping[System, Judged]
    reworded: Sequence[Query]

    @cached_property
    def with_keywords(self) -> list[Query]:
        """The queries whose context says something."""
        return [query for query in self.queries if query.id in self.judged[CONTEXTUAL].by_query]


def run(asking: Asking, queries: Sequence[Query], told: Callable[[], None]) -> Results:
    """Ask every query of every system."""
    judged = {}
    for system in (*EVERYWHERE, CONTEXTUAL):
        answers = {query.id: asking.ask(system, query) for query in queries}
        judged[system] = Judged(
            {query.id: judge(query, ranked) for query in queries if (ranked := answers[query.id]) is not None}
        )
        told()
    return Results(queries, judged, [query for query in queries if asking.reworded(query)])
