"""How well evidence tells questions that the sources answer from those that they do not.

    python -m benchmarks.no_answer --write benchmarks/results

Near misses are labelled questions whose relevant chunks are taken out of both legs: the subject stays. Far ones are
questions of the model's other sets. The public sets are read as `benchmarks.fusions` reads them; of each set the
questions with the lowest hashes are asked, none that needs an editor's state.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import typer
from benchmarks.command import Folder, publish
from benchmarks.fusions import MULTILINGUAL, Asked, asked, markdown, sets
from benchmarks.labelled_sets import SETS, loaded

from synthetic.progress import steps
from worker.core.prompting.evidence import evidence
from worker.core.prompting.extractive import says_something, whole_text
from worker.core.ranking.fusion import identity, weighted
from worker.jobs.pipeline.synthesis import source_of
from worker.settings.providers import DEFAULT_MODEL, LEAST_EVIDENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.labelled_sets import LabelledSet

    from workbench.evaluation.queries import LabelledQuery

    Values = Mapping[str, np.ndarray]

MODELS = {
    DEFAULT_MODEL: ("samples", "stdlib", "almanac", "med", "cisi", "xq_en"),
    **MULTILINGUAL,
}
"""Model → sets of its languages."""

ANSWERED = 0.95
SOURCES = 8
MOST, MOST_FAR = 120, 24
KINDS = ("answered", "near", "far", "labelled")
RULES = ("nearest similarity", "evidence")


@dataclass(frozen=True)
class Judged:
    """One set, judged.

    Attributes:
        name: the set.
        values: rule → kind of question → what the rule says of each.
    """

    name: str
    values: Mapping[str, Values]

    def share(self, rule: str, kind: str, least: float) -> float:
        """Share of the questions of a kind that a threshold answers; of those without an answer, that it refuses."""
        values = self.values[rule][kind]
        return float((values >= least).mean() if kind == "answered" else (values < least).mean())

    def area(self, rule: str, kind: str) -> float:
        """Share of pairs, of a question with an answer and one without, that are in the right order."""
        held, missing = self.values[rule]["answered"][:, None], self.values[rule][kind][None, :]
        return float((held > missing).mean() + (held == missing).mean() / 2)


def questions(labelled: LabelledSet, most: int) -> list[LabelledQuery]:
    """Return some questions of a set that can be understood alone."""
    alone = [query for query in labelled.queries if query.kind not in {"context", "misleading"}]
    return sorted(alone, key=lambda query: hashlib.sha256(query.id.encode()).digest())[:most]


def judge(model: str, labelled: LabelledSet, others: Iterable[LabelledSet]) -> Judged:
    """Ask a set's questions, with and without their chunks, those of other sets, and those labelled as without."""
    own = questions(labelled, MOST)
    corpora = sorted({query.corpus for query in own})
    far = [query for other in others for query in questions(other, MOST_FAR)]
    placed = [dataclasses.replace(query, corpus=corpora[i % len(corpora)]) for i, query in enumerate(far)]
    with loaded(labelled, model) as settings:
        paths = {name: corpus.path_field for name, corpus in settings.corpora.items() if corpus.path_field}
        held = [*asked(settings, own)]
        kinds = {
            "answered": held,
            "near": [_without_answer(one) for one in held],
            "far": [*asked(settings, placed)],
            "labelled": [*asked(settings, labelled.unanswerable)] if labelled in SETS else [],
        }
    values = {kind: np.array([_values(one, paths) for one in asking]) for kind, asking in kinds.items() if asking}
    return Judged(
        labelled.name,
        {rule: {kind: found[:, i] for kind, found in values.items()} for i, rule in enumerate(RULES)},
    )


def _without_answer(one: Asked) -> Asked:
    """Take the relevant chunks out of both legs."""
    legs = []
    for leg in one.legs:
        pairs = zip(leg.candidates, leg.scores, strict=True)
        kept = [pair for pair in pairs if pair[0].chunk.id not in one.query.grades]
        candidates, scores = zip(*kept, strict=True) if kept else ((), ())
        others = {chunk: score for chunk, score in leg.unlisted.items() if chunk[1] not in one.query.grades}
        legs.append(dataclasses.replace(leg, candidates=candidates, scores=scores, unlisted=others))
    return dataclasses.replace(one, legs=tuple(legs))


def _values(one: Asked, paths: Mapping[str, str]) -> tuple[float, float]:
    """Return what each rule says of a question by its best sources."""
    sources = weighted(one.legs)[:SOURCES]
    dense = one.legs[0].score_list.known
    similarities = [dense.get(identity(source), -1.0) for source in sources]
    shown = [source_of(source, paths) for source in sources]
    telling = [i for i, source in enumerate(shown) if says_something(source)]
    texts = [whole_text(shown[i]) for i in telling]
    return max(similarities), evidence([one.query.question], texts, [similarities[i] for i in telling])


def threshold(judged: Sequence[Judged], rule: str) -> float:
    """Return the highest value from which enough questions are answered, in the mean of the sets."""
    every = np.unique(np.concatenate([one.values[rule]["answered"] for one in judged]))
    shares = [np.mean([one.share(rule, "answered", least) for one in judged]) for least in every]
    return float(every[max(i for i, share in enumerate(shares) if share >= ANSWERED)])


# --- tables -------------------------------------------------------------------------------------


def separated(judged: Sequence[Judged]) -> str:
    """How each rule separates, and what it refuses where it answers 95 % of the set's own questions."""
    rows = []
    for one in judged:
        for rule in RULES:
            least = threshold([one], rule)
            areas = [f"{one.area(rule, kind):.3f}" for kind in ("near", "far")]
            refused = [f"{one.share(rule, kind, least):.2f}" for kind in ("near", "far")]
            rows.append([f"{one.name}, {rule}", *areas, f"{least:.2f}", *refused])
    return markdown(["set, rule", "AUC near", "AUC far", "threshold", "near refused", "far refused"], rows)


def held_out(judged: Sequence[Judged]) -> str:
    """Answered and refused shares of each set by the threshold of the other sets; the mean last."""
    rows = []
    for rule in RULES:
        shares = []
        for one in judged:
            least = threshold([other for other in judged if other is not one], rule)
            shares.append([one.share(rule, kind, least) for kind in KINDS[:3]])
            rows.append([f"{one.name}, {rule}", f"{least:.2f}", *(f"{share:.2f}" for share in shares[-1])])
        means = [f"{share:.2f}" for share in np.mean(shares, axis=0)]
        rows.append([f"mean, {rule}; all sets choose", f"{threshold(judged, rule):.2f}", *means])
    return markdown(["held out, rule", "threshold", "answered", "near refused", "far refused"], rows)


def shipped(judged: Sequence[Judged], least: float) -> str:
    """Answered and refused shares by the shipped threshold, labelled questions without an answer included."""
    rows = []
    for one in judged:
        values = one.values["evidence"]
        shares = [f"{one.share('evidence', kind, least):.2f}" if kind in values else "–" for kind in KINDS]
        rows.append([f"{one.name} ({len(values['answered'])})", *shares])
    headings = [f"from {least:g}", "answered", *(f"{kind} refused" for kind in KINDS[1:])]
    return markdown(headings, rows)


def report(model: str, judged: Sequence[Judged]) -> str:
    """All tables of a model as Markdown."""
    parts = [f"## {model}", "### Each set by its own threshold", separated(judged)]
    parts += ["### Each set by the threshold of the others", held_out(judged)]
    parts += ["### As shipped", shipped(judged, LEAST_EVIDENCE[model])]
    return "\n\n".join(parts)


# --- the command --------------------------------------------------------------------------------


def main(folder: Folder = None) -> None:
    """Judge on every set that is there when a question should be refused; print tables in Markdown."""
    judged: dict[str, list[Judged]] = {model: [] for model in MODELS}
    for model, names in MODELS.items():
        there = [labelled for labelled in sets() if labelled.name in names]
        with steps() as progress:
            for i, labelled in enumerate(there):
                progress(f"asking {labelled.name} by {model}", i, len(there))
                others = [other for other in there if other is not labelled]
                judged[model].append(judge(model, labelled, others))
    publish("\n\n".join(report(model, sets_judged) for model, sets_judged in judged.items()), folder, "no_answer.md")


if __name__ == "__main__":
    typer.run(main)
