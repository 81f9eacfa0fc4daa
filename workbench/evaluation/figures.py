"""Figures of an evaluation: rankings of labelled queries, their measures, and comparisons of systems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from workbench.core.significance import difference, estimates
from worker.core.ranking.measures import measured, names_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from workbench.core.significance import Difference, Estimate, Verdict
    from workbench.evaluation.asking import QueryHits
    from workbench.evaluation.queries import LabelledQuery
    from workbench.evaluation.systems import Hit

    # Ids with what they were ranked by, best first, each once.
    Ranking = Sequence[tuple[str, float | None]]

Unit = Literal["chunk", "document"]

FEW = 10
"""Number of queries below which a comparison shows nothing, whatever its interval and its test say."""


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """A query and what each system ranked for it.

    Attributes:
        query: the query.
        rankings: system → its ranking, in the unit of the query's judgements; without those that do not apply.
        unit: what the ids are of.
        degraded: codes of what answers were made without.
        is_mixed: True if the judgements name both chunks and documents that were found; documents then count for none.
    """

    query: LabelledQuery
    rankings: Mapping[str, Ranking]
    unit: Unit = "chunk"
    degraded: frozenset[str] = frozenset()
    is_mixed: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the queries that both answer.

    Attributes:
        first: name of the system compared with.
        second: name of the system compared.
        queries: number of queries.
        differences: measure → second less first.
        is_empty: whether both ranked the same ids in the same order, each query.
    """

    first: str
    second: str
    queries: int
    differences: Mapping[str, Difference]
    is_empty: bool = False

    @property
    def is_of_few(self) -> bool:
        """Whether there are too few queries to show anything."""
        return self.queries < FEW

    def verdict(self, measure: str) -> Verdict:
        """Return the conclusion by a measure: that of `Difference.verdict`, unless queries are too few."""
        verdict = self.differences[measure].verdict
        return "undecided" if self.is_of_few and verdict != "same" else verdict


@dataclass(frozen=True)
class Evaluation:
    """Measured queries.

    Attributes:
        ranked: the queries.
        systems: names of the systems.
        pairs: names of the systems to compare.
        cut_offs: values of k, ascending.
        relevant_from: lowest relevant grade; nDCG takes all grades as gains.
    """

    ranked: Sequence[RankedQuery]
    systems: Sequence[str]
    pairs: Sequence[tuple[str, str]]
    cut_offs: Sequence[int]
    relevant_from: int = 1

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures."""
        return names_of(self.cut_offs)

    @property
    def main_measure(self) -> str:
        """The measure by which systems are compared in words: nDCG at the greatest k."""
        return f"ndcg@{max(self.cut_offs)}"

    @cached_property
    def by_query(self) -> dict[str, dict[str, dict[str, float]]]:
        """Query → system → measure → its value; without queries that have nothing relevant."""
        values_by_query = {}
        for ranked_query in self.ranked:
            of_systems = {
                name: self._measured(ranked_query, ranking) for name, ranking in ranked_query.rankings.items()
            }
            if self._relevant(ranked_query.query):
                values_by_query[ranked_query.query.id] = {
                    name: values for name, values in of_systems.items() if values is not None
                }
        return values_by_query

    @property
    def without_relevant(self) -> list[str]:
        """Ids of queries that have nothing relevant: no measure is defined for them."""
        return [ranked_query.query.id for ranked_query in self.ranked if not self._relevant(ranked_query.query)]

    @property
    def not_found(self) -> list[str]:
        """Ids of queries whose relevant items no system ranked."""
        return [query.id for query in self.queries_not_found]

    @property
    def queries_not_found(self) -> list[LabelledQuery]:
        """The queries whose relevant items no system ranked."""
        return [
            ranked_query.query
            for ranked_query in self.ranked
            if self._relevant(ranked_query.query) and not self._found(ranked_query)
        ]

    @cached_property
    def figures(self) -> dict[str, dict[str, Estimate]]:
        """System → measure → its mean over the queries that the system answers; without systems that answer none."""
        estimates_by_system = {}
        for system in self.systems:
            answered = [values[system] for values in self.by_query.values() if system in values]
            if answered:
                estimates_by_system[system] = estimates(
                    {name: [values[name] for values in answered] for name in self.measures}
                )
        return estimates_by_system

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The comparison of each pair that has queries in common."""
        pair_comparisons = []
        for first_system, second_system in self.pairs:
            value_pairs = [
                (values[first_system], values[second_system])
                for values in self.by_query.values()
                if {first_system, second_system} <= {*values}
            ]
            if value_pairs:
                differences = {
                    name: difference(
                        [first_values[name] for first_values, _ in value_pairs],
                        [second_values[name] for _, second_values in value_pairs],
                    )
                    for name in self.measures
                }
                pair_comparisons.append(
                    Comparison(
                        first_system,
                        second_system,
                        len(value_pairs),
                        differences,
                        self._rank_alike(first_system, second_system),
                    )
                )
        return pair_comparisons

    def _rank_alike(self, first_system: str, second_system: str) -> bool:
        ranking_pairs = [
            (ranked_query.rankings[first_system], ranked_query.rankings[second_system])
            for ranked_query in self.ranked
            if {first_system, second_system} <= {*ranked_query.rankings}
        ]
        return all(
            [item for item, _ in first_ranking] == [item for item, _ in second_ranking]
            for first_ranking, second_ranking in ranking_pairs
        )

    def _measured(self, ranked_query: RankedQuery, ranking: Ranking) -> dict[str, float] | None:
        return measured([item for item, _ in ranking], ranked_query.query.grades, self.cut_offs, self.relevant_from)

    def _found(self, ranked_query: RankedQuery) -> bool:
        relevant = {item for item, grade in ranked_query.query.grades.items() if grade >= self.relevant_from}
        return any(item in relevant for ranking in ranked_query.rankings.values() for item, _ in ranking)

    def _relevant(self, query: LabelledQuery) -> bool:
        return any(grade >= self.relevant_from for grade in query.grades.values())


def ranked(query_hits: QueryHits, judged_unit: Unit | None) -> RankedQuery:
    """Rank what was found for a query by the ids of its judgements.

    Args:
        query_hits: what was found.
        judged_unit: what the ids of the judgements are of; None: of documents where they name a document that any
            system found, and no chunk; else of chunks.
    """
    all_hits = [hit for hits in query_hits.hits.values() for hit in hits]
    judged = query_hits.query.grades.keys()
    chunks, documents = judged & {hit.chunk_id for hit in all_hits}, judged & {hit.document_id for hit in all_hits}
    unit: Unit = judged_unit or ("document" if documents and not chunks else "chunk")
    rankings = {system: ranking_of(hits, unit) for system, hits in query_hits.hits.items()}
    return RankedQuery(
        query_hits.query, rankings, unit, query_hits.degraded, bool(chunks and documents - chunks and not judged_unit)
    )


def ranking_of(hits: Iterable[Hit], unit: Unit) -> Ranking:
    """Return ids and scores, each id once: a document has the rank and the score of its best chunk."""
    best: dict[str, float | None] = {}
    for hit in hits:
        best.setdefault(hit.chunk_id if unit == "chunk" else hit.document_id, hit.score)
    return [*best.items()]
