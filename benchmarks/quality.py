"""How good hybrid retrieval is: each leg and each fusion on the labelled set, with and without context.

    python -m benchmarks.quality --write benchmarks/results

The engine is used as shipped; the same sample, labels and settings print the same figures.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psycopg
import typer
from benchmarks.judged import (
    CONTEXTUAL,
    EVERYWHERE,
    FUSED,
    PRIMARY,
    SPARSE,
    Asking,
    Judged,
    Query,
    Results,
    System,
    judge,
    read,
    run,
)

from synthetic.progress import steps
from synthetic.stage import settings_for
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli import corpus_files, devstack
from worker.cli.loader import count_words, load, migrate
from worker.core.ranking.significance import SEED
from worker.jobs.engine import Engine
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from benchmarks.judged import Figure

TRANSFORMS = ("none", "glossary")
MEASURES = {"ndcg": "nDCG@5", "recall": "recall@5"}
ALL_LEGS = ("primary", "contextual", "sparse")
WEIGHTED_FUSIONS = ("rrf", "weighted")
ALONE = {system.legs[0]: system for system in (PRIMARY, CONTEXTUAL, SPARSE)}


@contextlib.contextmanager
def sample_engine() -> Iterator[Engine]:
    """The engine as shipped, over the sample corpora on a server of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True) as folder,
        devstack.postgres(Path(folder).resolve()) as server,
    ):
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            migrate(admin)
            files = [corpus_files.read(path) for path in corpus_files.SAMPLES.values()]
            for file in files:
                load(admin, file, LexicalEmbedder())
            settings = settings_for(server.dsn(user="retrieval_worker"))
            count_words(admin, settings.corpora, files)
        engine = Engine(settings, time.perf_counter)
        try:
            yield engine
        finally:
            engine.close()


def caller(user_id: str) -> Principal:
    """Who the labels are for."""
    return Principal(
        {"user_id": user_id}, (("app.user_id", user_id), ("app.tenant_id", ""), ("app.roles", "")), user_id
    )


# --- tables -------------------------------------------------------------------------------------


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: its first column is text, the others are figures."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(figure: Figure) -> str:
    """A mean with its interval."""
    return f"{figure.mean:.3f} ({figure.low:.2f}–{figure.high:.2f})"


def by_corpus(results: Results, measure: str) -> str:
    """One measure of every system: over all queries, and over each corpus'."""
    corpora = {query.corpus: [q for q in results.queries if q.corpus == query.corpus] for query in results.queries}
    parts = {f"all ({len(results.queries)})": results.queries}
    parts |= {f"`{corpus}` ({len(queries)})": queries for corpus, queries in corpora.items()}
    rows = [
        [system.name, *(cell(results.judged[system].figure(queries, measure)) for queries in parts.values())]
        for system in EVERYWHERE
    ]
    return markdown([MEASURES[measure], *parts], rows)


def with_context(by_transform: Mapping[str, Results]) -> str:
    """Both measures of every system over the queries whose context says something."""
    headings = [f"{MEASURES[measure]}, {transform}" for transform in TRANSFORMS for measure in MEASURES]
    rows = [
        [
            system.name,
            *(
                cell(by_transform[transform].judged[system].figure(by_transform[transform].with_keywords, measure))
                for transform in TRANSFORMS
                for measure in MEASURES
            ),
        ]
        for system in (PRIMARY, CONTEXTUAL, SPARSE, *FUSED)
    ]
    return markdown(["", *headings], rows)


def by_kind(results: Results) -> str:
    """One measure, nDCG, by the kind of query."""
    kinds = sorted({query.kind for query in results.queries})
    parts = {kind: [query for query in results.queries if query.kind == kind] for kind in kinds}
    headings = ["nDCG@5", *(f"{kind} ({len(queries)})" for kind, queries in parts.items())]
    rows = [
        [system.name, *(f"{results.judged[system].figure(queries, 'ndcg').mean:.3f}" for queries in parts.values())]
        for system in EVERYWHERE
    ]
    return markdown(headings, rows)


def of_glossary(by_transform: Mapping[str, Results]) -> str:
    """Effect of the glossary on the queries that have a term of it."""
    plain, glossary = by_transform["none"], by_transform["glossary"]
    queries = glossary.reworded
    rows = [
        [
            system.name,
            cell(plain.judged[system].figure(queries, "ndcg")),
            cell(glossary.judged[system].figure(queries, "ndcg")),
            signed(glossary.judged[system].against(plain.judged[system], queries, "ndcg")),
        ]
        for system in EVERYWHERE
    ]
    return markdown([f"nDCG@5 ({len(queries)} queries)", *TRANSFORMS, "difference"], rows)


def against_legs(results: Results) -> str:
    """By how much each fusion is better than each of its legs, query by query."""
    rows = []
    for system in FUSED:
        queries = results.with_keywords if "contextual" in system.legs else results.queries
        for leg in system.legs:
            alone = results.judged[ALONE[leg]]
            cells = [signed(results.judged[system].against(alone, queries, measure)) for measure in MEASURES]
            rows.append([system.name, leg, str(len(queries)), *cells])
    return markdown(["fusion", "leg", "queries", *MEASURES.values()], rows)


def signed(figure: Figure) -> str:
    """A difference, and what can be said of it: its sign only where the whole interval has it."""
    if figure.low == figure.high == 0:
        return "the same"
    verdict = "better" if figure.low > 0 else "worse" if figure.high < 0 else "undecided"
    return f"{figure.mean:+.3f} ({figure.low:+.3f} to {figure.high:+.3f}) {verdict}"


# --- weights, chosen on one half and judged on the other ----------------------------------------


@dataclass(frozen=True)
class Tuned:
    """Weights that were best for one half of the queries, and what they do for the other.

    Attributes:
        fusion: the method.
        chosen_on: the half they were chosen on.
        weights: by leg.
        before: the other half with the shipped weights.
        after: the same with the chosen ones.
        difference: after less before, query by query.
    """

    fusion: str
    chosen_on: str
    weights: Mapping[str, float]
    before: Figure
    after: Figure
    difference: Figure


def halves(queries: Sequence[Query]) -> dict[str, list[Query]]:
    """The queries in two halves, at random, each with half of every corpus."""
    chosen = random.Random(SEED)  # noqa: S311 -- the same halves every time
    first, second = [], []
    for _, group in itertools.groupby(sorted(queries, key=lambda query: query.corpus), lambda query: query.corpus):
        shuffled = chosen.sample(members := list(group), len(members))
        first += shuffled[: len(members) // 2]
        second += shuffled[len(members) // 2 :]
    return {"A": first, "B": second}


def grid(steps_of_one: int) -> list[dict[str, float]]:
    """All weights of three legs in equal steps that sum to one; the primary has some."""
    n = steps_of_one
    return [
        dict(zip(ALL_LEGS, (primary / n, contextual / n, (n - primary - contextual) / n), strict=True))
        for primary in range(1, n + 1)
        for contextual in range(n + 1 - primary)
    ]


def tuned(asking: Asking, results: Results, told: Callable[[], None]) -> list[Tuned]:
    """Weights of all three legs chosen on each half by nDCG, judged on the other."""
    found = []
    parts = halves(results.queries)
    for fusion in WEIGHTED_FUSIONS:
        system = System(ALL_LEGS, fusion)
        options = []
        for weights in grid(10):
            answers = {query.id: judge(query, asking.ask(system, query, weights) or []) for query in results.queries}
            options.append((weights, Judged(answers)))
            told()
        for chosen_on, other in (("A", "B"), ("B", "A")):
            weights, after = max(options, key=lambda option: option[1].figure(parts[chosen_on], "ndcg").mean)
            before = results.judged[system]
            found.append(
                Tuned(
                    fusion,
                    chosen_on,
                    weights,
                    before.figure(parts[other], "ndcg"),
                    after.figure(parts[other], "ndcg"),
                    after.against(before, parts[other], "ndcg"),
                )
            )
    return found


def tuned_table(lines: Sequence[Tuned]) -> str:
    """Quality on one half with weights chosen on the other."""
    rows = [
        [
            f"{line.fusion}, chosen on {line.chosen_on}",
            ", ".join(f"{leg} {weight:g}" for leg, weight in line.weights.items()),
            cell(line.before),
            cell(line.after),
            signed(line.difference),
        ]
        for line in lines
    ]
    return markdown(["", "weights", "other half, as shipped", "other half, chosen", "difference in nDCG@5"], rows)


# --- the command --------------------------------------------------------------------------------


def report(by_transform: Mapping[str, Results], lines: Sequence[Tuned]) -> str:
    """All tables as Markdown."""
    plain = by_transform["none"]
    parts = ["### Every query", *(by_corpus(plain, measure) for measure in MEASURES)]
    parts += ["### Each fusion against each of its legs", against_legs(plain)]
    parts += ["### Queries whose context says something", with_context(by_transform)]
    parts += ["### By kind of query", by_kind(plain)]
    parts += ["### With the glossary", *(by_corpus(by_transform["glossary"], measure) for measure in MEASURES)]
    parts += ["### What the glossary changes", of_glossary(by_transform)]
    if lines:
        parts += ["### Weights chosen on one half, judged on the other", tuned_table(lines)]
    return "\n\n".join(parts)


def write(folder: Path, text: str, by_transform: Mapping[str, Results]) -> None:
    """Write the tables and the plot into a folder of results, from which the documentation includes them."""
    from benchmarks.quality_plot import plot  # noqa: PLC0415 -- needs the extra `bench`

    (folder / "quality.md").write_text(f"{text}\n", encoding="utf-8")
    plot(by_transform, folder / "quality.svg")


def main(
    folder: Annotated[
        Path | None,
        typer.Option("--write", help="Write tables and plot into this folder.", exists=True, file_okay=False),
    ] = None,
    tune: Annotated[bool, typer.Option(help="Also choose weights on one half and judge them on the other.")] = True,
) -> None:
    """Judge each leg and each fusion on the labelled set; print tables in Markdown."""
    user_id, queries = read()
    with sample_engine() as engine, steps() as progress:
        by_transform = {}
        for transform in TRANSFORMS:
            asking = Asking(engine, caller(user_id), transform)
            by_transform[transform] = run(asking, queries, _counted(progress, f"asking, {transform}"))
        asking = Asking(engine, caller(user_id), "none")
        lines = tuned(asking, by_transform["none"], _counted(progress, "choosing weights")) if tune else []
    text = report(by_transform, lines)
    print(text)
    if folder is not None:
        write(folder, text, by_transform)


def _counted(progress: Callable[[str, int, int | None], None], step: str) -> Callable[[], None]:
    counter = itertools.count(1)
    return lambda: progress(step, next(counter), None)


if __name__ == "__main__":
    typer.run(main)
