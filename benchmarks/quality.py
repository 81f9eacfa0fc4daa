"""How good retrieval is with the local model: legs, fusions, glossary, context and abstention on three labelled sets.

    python -m benchmarks.quality --write benchmarks/results

The engine is used as shipped, but for the embedder; the same sets and model print the same figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from benchmarks.copies import as_one, copies
from benchmarks.held_out import by_rerank_weight, chosen_elsewhere
from benchmarks.labelled_sets import SETS, found, ids, loaded, opened, quality, retrieved, sourced

from synthetic.progress import steps
from workbench.core.significance import difference, estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from benchmarks.labelled_sets import Found, LabelledSet

    from workbench.core.significance import Estimate
    from workbench.evaluation.queries import LabelledQuery
    from worker.jobs.engine import Engine

DENSE, WORDS = "`primary` alone", "`sparse` alone"
DEFAULT, PROFILE = "`retrieve_hybrid`, `primary` + `sparse`", "`run_pipeline`, profile `hybrid`"
RERANKED = "`run_pipeline`, profile `dense_rerank`"
BY_RANKS, SIMILAR, CONTEXT = "the same by `rrf`", "the same by `similarity`", "`primary` + `contextual`"
PROFILES: Mapping[str, str] = {PROFILE: "hybrid", RERANKED: "dense_rerank"}
BOTH = ["primary", "sparse"]
THRESHOLDS = (0.15, 0.18, 0.21, 0.24, 0.27, 0.3, 0.35, 0.4)
JOBS: Mapping[str, dict[str, object]] = {
    DENSE: {"legs": ["primary"]},
    WORDS: {"legs": ["sparse"]},
    DEFAULT: {"legs": BOTH},
    BY_RANKS: {"legs": BOTH, "fusion": "rrf"},
    SIMILAR: {"legs": BOTH, "fusion": "similarity"},
}
IN_CONTEXT: Sequence[Mapping[str, object]] = ({"legs": ["primary"]}, {}, {"weights": {"contextual": 0.4}})


@dataclass(frozen=True)
class Judged:
    """One set, judged.

    Attributes:
        labelled: the set.
        found: what each leg finds for each query with an answer.
        nowhere: the same for the queries without.
        systems: system → nDCG@5 of each query, in their order.
        once: system → the same with copies of a text as one item.
        contexts: what each leg finds for each query with an editor's state.
        context: for these, nDCG@5 of `primary` alone, of the default legs, and of those with the whole weight.
        glossary: system → nDCG@5 without and with the glossary, over the queries that it changes.
    """

    labelled: LabelledSet
    found: Sequence[Found]
    nowhere: Sequence[Found]
    systems: Mapping[str, Sequence[float]]
    once: Mapping[str, Sequence[float]]
    contexts: Sequence[Found]
    context: tuple[Sequence[float], ...]
    glossary: Mapping[str, tuple[Sequence[float], Sequence[float]]]


def judge(labelled: LabelledSet) -> Judged:
    """Ask every query of every system."""
    queries = labelled.queries
    with loaded(labelled) as settings:
        legs = found(settings, labelled, queries)
        nowhere = found(settings, labelled, labelled.unanswerable)
        more = found(settings, labelled, labelled.contexts)
        contexts = [one for one in (*legs, *more) if "contextual" in one.legs]
        reworded = [one.query for one in legs if one.reworded]
        with opened(settings) as engine:
            rankings = {name: _ranked(engine, queries, job) for name, job in JOBS.items()}
            for name, profile in PROFILES.items():
                rankings[name] = [sourced(engine, query, profile) for query in queries]
            systems = {name: [*map(quality, ranked, queries)] for name, ranked in rankings.items()}
            first = copies(legs)
            once = {
                name: [as_one(one, query, first) for one, query in zip(ranked, queries, strict=True)]
                for name, ranked in rankings.items()
            }
            glossary = {
                name: (
                    _judged(engine, reworded, JOBS[name]),
                    _judged(engine, reworded, {**JOBS[name], "transform": "glossary"}),
                )
                for name in (DENSE, WORDS, DEFAULT)
            }
            context = tuple(
                [
                    quality(ids(retrieved(engine, one.query, context=one.query.context, **job), one.query), one.query)
                    for one in contexts
                ]
                for job in IN_CONTEXT
            )
    return Judged(labelled, legs, nowhere, systems, once, contexts, context, glossary)


def _judged(engine: Engine, queries: Sequence[LabelledQuery], job: Mapping[str, object]) -> list[float]:
    return [*map(quality, _ranked(engine, queries, job), queries)]


def _ranked(engine: Engine, queries: Iterable[LabelledQuery], job: Mapping[str, object]) -> list[list[str]]:
    return [ids(retrieved(engine, query, **job), query) for query in queries]


# --- tables -------------------------------------------------------------------------------------


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: its first column is text, the others are figures."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(figure: Estimate) -> str:
    """A mean with its interval."""
    return f"{figure.mean:.3f} ({figure.low:.2f}–{figure.high:.2f})"


def changed(before: Sequence[float], after: Sequence[float]) -> str:
    """A difference, query by query, and what can be said of it."""
    if not before:
        return "–"
    one = difference(before, after)
    return f"{one.estimate.mean:+.3f} ({one.estimate.low:+.3f} to {one.estimate.high:+.3f}) {one.verdict}"


def names(judged: Sequence[Judged]) -> list[str]:
    """The sets with their sizes, as headings."""
    return [f"{one.labelled.name} ({len(one.found)})" for one in judged]


def every_system(judged: Sequence[Judged]) -> str:
    """Every system on every set."""
    rows = [[name, *(cell(estimate(one.systems[name])) for one in judged)] for name in (*JOBS, *PROFILES)]
    return markdown(["nDCG@5", *names(judged)], rows)


def against_best_leg(judged: Sequence[Judged]) -> str:
    """Each fusion less the better leg of the set, query by query."""
    best = [max((DENSE, WORDS), key=lambda leg: sum(one.systems[leg])) for one in judged]
    rows = [
        [name, *(changed(one.systems[leg], one.systems[name]) for one, leg in zip(judged, best, strict=True))]
        for name in (DEFAULT, *PROFILES, BY_RANKS, SIMILAR)
    ]
    return markdown(["less the best leg", *names(judged)], rows)


def of_reranker(judged: Sequence[Judged]) -> str:
    """Weights of the lexical reranker, less the profile `hybrid`; the last were chosen on other sets."""
    found = [one for part in judged for one in part.found]
    options = by_rerank_weight(found)
    chosen = chosen_elsewhere(found, options)
    rows = [
        [f"{weight:g}", *(_against(part, PROFILE, values) for part in judged)] for weight, values in options.items()
    ]
    held = [f"{chosen[part.labelled.name]:g}: {_against(part, PROFILE, options[chosen[part.labelled.name]])}"
            for part in judged]  # fmt: skip
    return markdown(["weight", *names(judged)], [*rows, ["best on the other sets", *held]])


def _against(part: Judged, system: str, values: Mapping[str, float]) -> str:
    return changed(part.systems[system], [values[one.query.id] for one in part.found])


def copies_as_one(judged: Sequence[Judged]) -> str:
    """Every system on every set, where a copy of a better placed text counts nothing and is not missed."""
    rows = [[name, *(cell(estimate(one.once[name])) for one in judged)] for name in (*JOBS, *PROFILES)]
    return markdown(["nDCG@5", *names(judged)], rows)


def by_kind(judged: Sequence[Judged]) -> str:
    """Effect of the context by set and kind of query: as shipped, and with its whole weight always."""
    rows = []
    for part, kind in [(part, kind) for part in (*judged, None) for kind in ("context", "misleading", "others")]:
        before, after, whole = _of_kind([part] if part else judged, kind)
        if not before:
            continue
        name = f"{kind}, {part.labelled.name if part else 'all sets'} ({len(before)})"
        rows.append([name, cell(estimate(before)), changed(before, after), changed(before, whole)])
    return markdown(["kind", "`primary`", CONTEXT, "the same, always 0.4"], rows)


def _of_kind(judged: Sequence[Judged], kind: str) -> tuple[list[float], ...]:
    """Return the three columns of the queries of a kind, or of all kinds without a row."""
    named = {"context", "misleading"}
    return tuple(
        [
            value
            for part in judged
            for one, value in zip(part.contexts, part.context[i], strict=True)
            if one.query.kind == kind or (kind == "others" and one.query.kind not in named)
        ]
        for i in range(len(IN_CONTEXT))
    )


def of_glossary(judged: Sequence[Judged]) -> str:
    """Effect of the glossary on the queries of its own corpora that have a term of it."""
    rows = [
        [name, cell(estimate(before)), cell(estimate(after)), changed(before, after)]
        for name, (before, after) in judged[0].glossary.items()
    ]
    queries = len(judged[0].glossary[DENSE][0])
    return markdown([f"nDCG@5 ({queries} queries)", "`none`", "`glossary`", "difference"], rows)


def abstention(judged: Sequence[Judged]) -> str:
    """Shares of answered and of refused questions by the similarity of the nearest chunk alone."""
    rows = []
    for least in THRESHOLDS:
        answered = [[one.nearest >= least for one in part.found] for part in judged]
        refused = [[one.nearest < least for one in part.nowhere] for part in judged]
        rows.append([f"{least:g}", *shares(answered), *shares(refused)])
    headings = [f"{what}, {one.labelled.name}" for what in ("answered", "refused") for one in judged]
    return markdown(["nearest chunk", *headings[:3], "answered", *headings[3:], "refused"], rows)


def shares(parts: Sequence[Sequence[bool]]) -> list[str]:
    """Shares of true ones: of each part, then of all."""
    every = [value for part in parts for value in part]
    return [f"{sum(part) / len(part):.2f}" for part in (*parts, every)]


# --- the command --------------------------------------------------------------------------------


def report(judged: Sequence[Judged]) -> str:
    """All tables as Markdown."""
    parts = ["### Every system on every set", every_system(judged)]
    parts += ["### The same, copies of a text as one item", copies_as_one(judged)]
    parts += ["### Fusions against the best leg", against_best_leg(judged)]
    parts += ["### Weight of the lexical reranker, less profile `hybrid`", of_reranker(judged)]
    parts += ["### What the context changes", by_kind(judged)]
    parts += ["### What the glossary changes", of_glossary(judged)]
    parts += ["### Questions with and without an answer", abstention(judged)]
    return "\n\n".join(parts)


def main(
    folder: Annotated[
        Path | None,
        typer.Option("--write", help="Write tables and plot into this folder.", exists=True, file_okay=False),
    ] = None,
) -> None:
    """Judge legs, fusions, glossary, context and abstention on the labelled sets; print tables in Markdown."""
    with steps() as progress:
        judged = [_judge(labelled, progress, i) for i, labelled in enumerate(SETS)]
    text = report(judged)
    print(text)
    if folder is not None:
        from benchmarks.quality_plot import plot  # noqa: PLC0415 -- needs the extra `bench`

        (folder / "quality.md").write_text(f"{text}\n", encoding="utf-8")
        figures = {name: [estimate(one.systems[name]) for one in judged] for name in (*JOBS, *PROFILES)}
        plot(figures, names(judged), folder / "quality.svg")


def _judge(labelled: LabelledSet, progress: Callable[[str, int, int | None], None], done: int) -> Judged:
    progress(f"asking {labelled.name}", done, len(SETS))
    return judge(labelled)


if __name__ == "__main__":
    typer.run(main)
