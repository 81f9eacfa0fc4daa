"""Second and third questions of a conversation: searched alone, in their conversation, and worded in full.

    python -m benchmarks.followups --write benchmarks/results

The pipeline is used as shipped, but for the embedder. The share of the conversation is chosen on four fifths of the
questions, the best for follow-ups that hardly harms a change of subject, and judged on the others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from benchmarks.labelled_sets import CALLER, FOLDER, SETS, K, loaded, opened
from benchmarks.quality import changed, markdown

from workbench.core.significance import estimate
from workbench.evaluation.queries import LabelledQuery
from worker.core.prompting.conversation import SHARE
from worker.core.ranking.measures import mean, ndcg
from worker.jobs.pipeline.types import CorpusSearch, QueryRequest, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from worker.jobs.engine import Engine
    from worker.settings import Settings

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
FOLDS = 5
SHOWN = 8
"""Sources of an answer in the mode `grounded`."""

MOST_HARM = 0.01
"""Loss of nDCG at a change of subject that a share may have where it is chosen."""

PATIENCE_SECONDS = 120.0
"""Deadline of a search, so that no leg is left out on a busy machine."""

FOLLOWS, CHANGES = "follows", "changes"
FILLER = "Thanks, tell me more about it."
SECOND, FURTHER, LATER = "second question", "third, after one more about the same", "third, after another subject"
SHAPES = (SECOND, FURTHER, LATER)
PROFILES = ("hybrid", "dense_rerank")


def quality(ranked: Sequence[str], query: LabelledQuery) -> float:
    """nDCG@5 of a ranking, 0-1."""
    return ndcg(ranked, {chunk: float(grade) for chunk, grade in query.grades.items()}, K) or 0.0


@dataclass(frozen=True)
class FollowUp:
    """A labelled second question of a conversation.

    Attributes:
        query: the question, with its relevant chunks; its kind is `FOLLOWS` or `CHANGES`.
        first: the question before it.
        elsewhere: a first question of the same set about something else.
        alone: the question as it can be understood alone.
    """

    query: LabelledQuery
    first: str
    elsewhere: str
    alone: str

    def earlier(self, shape: str) -> list[str]:
        """The questions before this one."""
        return {SECOND: [self.first], FURTHER: [self.first, FILLER], LATER: [self.elsewhere, self.first]}[shape]


# Of each question the chunks of a ranking, best first.
Rankings = list[list[str]]


def follow_ups(group: str) -> list[FollowUp]:
    """The follow-ups of a set."""
    lines = (FOLDER / "followups.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for line in lines if (row := json.loads(line))["set"] == group]
    firsts = [*dict.fromkeys(row["first"] for row in rows)]
    return [
        FollowUp(
            LabelledQuery(row["id"], i, row["question"], row["relevant"], row["corpus"], kind=row["kind"]),
            row["first"],
            firsts[(firsts.index(row["first"]) + len(firsts) // 2) % len(firsts)],
            row.get("alone", row["question"]),
        )
        for i, row in enumerate(rows, 1)
    ]


def with_share(settings: Settings, share: float) -> Settings:
    """Settings in which all profiles have a share of the conversation, and time for all legs."""
    profiles = {name: profile.model_copy(update={"conversation": share}) for name, profile in settings.profiles.items()}
    patient = settings.hybrid.model_copy(update={"deadline_seconds": PATIENCE_SECONDS})
    return settings.model_copy(update={"profiles": profiles, "hybrid": patient})


def asked(one: FollowUp, earlier: Sequence[str] = (), question: str = "", profile: str = PROFILES[0]) -> QueryRequest:
    """The request of a question after others."""
    return QueryRequest(
        question=question or one.query.question,
        mode="grounded",
        profile=profile,
        k=SHOWN,
        conversation_history=tuple(Turn("user", text) for text in earlier),
        searches=(CorpusSearch(one.query.corpus, SHOWN),),
    )


def sources(engine: Engine, request: QueryRequest) -> list[str]:
    """Ids of a request's sources, best first."""
    return [found.chunk.id for found in engine.pipeline.build_sources(request, CALLER).candidates]


def cites(engine: Engine, one: FollowUp, request: QueryRequest) -> float:
    """1 if the extractive answer cites a relevant chunk, else 0."""
    return float(any(cited.chunk_id in one.query.grades for cited in engine.pipeline.run(request, CALLER).citations))


@dataclass(frozen=True)
class Measured:
    """All follow-ups, measured.

    Attributes:
        every: the follow-ups.
        by_share: shape → share → rankings.
        by_way: way of searching → rankings.
        cited: way of searching → whether the extractive answer cites a relevant chunk.
    """

    every: Sequence[FollowUp]
    by_share: Mapping[str, Mapping[float, Rankings]]
    by_way: Mapping[str, Rankings]
    cited: Mapping[str, Sequence[float]]

    def values(self, rankings: Rankings, kind: str, value: Callable[[list[str], LabelledQuery], float]) -> list[float]:
        """A value of each question of a kind."""
        pairs = zip(rankings, self.every, strict=True)
        return [value(ranked, one.query) for ranked, one in pairs if one.query.kind == kind]


def measure() -> Measured:
    """Ask all follow-ups in all ways."""
    every = list[FollowUp]()
    by_share: dict[str, dict[float, Rankings]] = {shape: {share: [] for share in SHARES} for shape in SHAPES}
    by_way = dict[str, Rankings]()
    cited = dict[str, list[float]]()
    for labelled in SETS:
        group = follow_ups(labelled.name)
        every += group
        with loaded(labelled) as settings:
            for share in SHARES:
                with opened(with_share(settings, share)) as engine:
                    for shape in SHAPES:
                        by_share[shape][share] += [sources(engine, asked(one, one.earlier(shape))) for one in group]
            with opened(with_share(settings, SHARE)) as engine:
                for profile in PROFILES:
                    ways = {
                        f"`{profile}`, as asked": [asked(one, profile=profile) for one in group],
                        f"`{profile}`, in its conversation": [asked(one, [one.first], "", profile) for one in group],
                        f"`{profile}`, worded in full": [asked(one, (), one.alone, profile) for one in group],
                    }
                    for way, requests in ways.items():
                        by_way.setdefault(way, []).extend(sources(engine, request) for request in requests)
                        pairs = zip(group, requests, strict=True)
                        cited.setdefault(way, []).extend(cites(engine, one, request) for one, request in pairs)
    return Measured(every, by_share, by_way, cited)


# --- the share, cross-validated -----------------------------------------------------------------


def chosen(measured: Measured, shapes: Sequence[str], indices: Iterable[int]) -> float:
    """The share that is best for the follow-ups of these questions and hardly harms their changes of subject."""
    kept = {*indices}

    def value(share: float, kind: str) -> float:
        values = [
            quality(measured.by_share[shape][share][i], one.query)
            for shape in shapes
            for i, one in enumerate(measured.every)
            if i in kept and one.query.kind == kind
        ]
        return mean(values) or 0.0

    harmless = [share for share in SHARES if value(share, CHANGES) >= value(0.0, CHANGES) - MOST_HARM]
    return max(harmless, key=lambda share: value(share, FOLLOWS))


def cross_validated(measured: Measured, shape: str) -> tuple[list[float], Rankings]:
    """Rankings of a shape by the share that other questions chose, over all shapes; and the shares."""
    everywhere = range(len(measured.every))
    shares = [chosen(measured, SHAPES, [i for i in everywhere if i % FOLDS != fold]) for fold in range(FOLDS)]
    return shares, [measured.by_share[shape][shares[i % FOLDS]][i] for i in everywhere]


# --- tables -------------------------------------------------------------------------------------


def found_among(most: int) -> Callable[[list[str], LabelledQuery], float]:
    """Whether something relevant is among the first."""
    return lambda ranked, query: float(any(chunk in query.grades for chunk in ranked[:most]))


def _row(measured: Measured, name: str, rankings: Rankings, before: Rankings) -> list[str]:
    cells = [name]
    for kind in (FOLLOWS, CHANGES):
        old, new = (measured.values(ranked, kind, quality) for ranked in (before, rankings))
        shares = (estimate(measured.values(rankings, kind, found_among(most))).mean for most in (K, SHOWN))
        cells += [f"{estimate(new).mean:.3f}", changed(old, new), *(f"{share:.2f}" for share in shares)]
    return cells


MEASURES = (f"nDCG@{K}", "less as asked", f"in {K}", f"in {SHOWN}")
HEADINGS = [f"{kind}: {what}" for kind in (FOLLOWS, CHANGES) for what in MEASURES]


def by_share(measured: Measured) -> str:
    """Each shape by share, and by the share that other questions chose."""
    rows = []
    for shape, options in measured.by_share.items():
        rows += [_row(measured, f"{shape}: {share:g}", ranked, options[0.0]) for share, ranked in options.items()]
        shares, ranked = cross_validated(measured, shape)
        names = ", ".join(f"{share:g}" for share in sorted({*shares}))
        rows.append(_row(measured, f"{shape}: chosen by others ({names})", ranked, options[0.0]))
    return markdown(["share", *HEADINGS], rows)


def by_way(measured: Measured) -> str:
    """Profiles as shipped, without the conversation, with it, and with the question worded in full."""
    rows = []
    for way, rankings in measured.by_way.items():
        before = measured.by_way[f"{way.split(',')[0]}, as asked"]
        pairs = [*zip(measured.cited[way], measured.every, strict=True)]
        cited = (mean(value for value, one in pairs if one.query.kind == kind) or 0.0 for kind in (FOLLOWS, CHANGES))
        rows.append([*_row(measured, way, rankings, before), *(f"{share:.2f}" for share in cited)])
    return markdown(["search", *HEADINGS, f"{FOLLOWS}: cited", f"{CHANGES}: cited"], rows)


def main(write: Annotated[Path | None, typer.Option(help="Folder to write followups.md to.")] = None) -> None:
    """Measure follow-ups."""
    measured = measure()
    sizes = {kind: sum(one.query.kind == kind for one in measured.every) for kind in (FOLLOWS, CHANGES)}
    about = (
        f"{sizes[FOLLOWS]} questions follow the one before, {sizes[CHANGES]} change the subject. *in {K}*: something\n"
        f"relevant is among the first {K}; *cited*: the answer without a model cites something relevant."
    )
    parts = [
        f"### Profiles as shipped (share {SHARE}), second question",
        about,
        by_way(measured),
        "### Share of the question in its conversation, profile `hybrid`",
        by_share(measured),
    ]
    text = "\n\n".join(parts)
    typer.echo(text)
    if write is not None:
        (write / "followups.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
