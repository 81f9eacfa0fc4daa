"""Facts that each face of the inspector shows of a run, and those that its views have, in one form to be compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rich.text import Text
from tests.integration.parsed import parsed

from worker.inspector.rendering import number, words
from worker.inspector.text.answers import citations_table, replay_table
from worker.inspector.text.pipeline_answer import source_report
from worker.inspector.view.wording import MARKS, SCORES, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Group
    from rich.table import Table
    from tests.integration.parsed import Node

    from worker.inspector.view.citations import CitationsView
    from worker.inspector.view.drift import DriftView
    from worker.inspector.view.run import RunView

Facts = dict[str, Any]

CHECKS = {True: "yes", False: "no", None: "not checked"}


def flat(text: str) -> str:
    return " ".join(text.split())


# --- the views ----------------------------------------------------------------------------------


def of_view(view: RunView) -> Facts:
    """Facts of an answer."""
    kept = {one.place for one in view.kept}
    return {
        "state": (words(view.task), view.status and said("status", view.status).words, *map(words, view.degraded)),
        "answer": None if view.answer is None else flat("".join(one.text for one in view.answer.segments)),
        "stages": [
            (bar.name, bar.is_leg, None if view.waterfall.timing == "reading" else number(bar.duration_ms, 2))
            for bar in view.waterfall.bars
        ],
        "candidates": [
            (
                *(number(one.rank, 0), one.label or one.outcome, one.chunk_id, one.stage and words(one.stage)),
                one.reason,
                tuple(
                    (name, number(getattr(one, field), 4)) for field, name in SCORES if getattr(one, field) is not None
                ),
                tuple((leg.leg, leg.rank) for leg in one.legs),
                tuple((words(stage.stage), stage.rank, number(stage.score)) for stage in one.stages),
            )
            for one in view.candidates
        ],
        "legs": [
            (
                leg.name,
                [
                    (rank.rank, chunk, number(rank.score), (leg.corpus, chunk) in kept)
                    for chunk, rank in leg.places[:15]
                ],
            )
            for leg in view.legs
        ],
        "sources": [
            (
                source.label,
                source.title,
                source.verdict and said("quote", source.verdict).words,
                source.chunk_id,
                _quoted(source),
            )
            for source in view.sources
            if source.is_cited
        ],
    }


def _quoted(source: Any) -> str:
    return flat(" ".join(piece.text for piece in source.pieces if "quoted" in piece.marks))


def of_citations(view: CitationsView) -> Facts:
    """Facts of citations."""
    return {
        "citations": [
            (
                *(said("pin", one.verdict or "missing").words, CHECKS[one.integrity], CHECKS[one.authorised]),
                *(one.title, one.chunk_id, number(one.weight)),
            )
            for _, found in view.sections
            for one in found
        ],
        "conflicts": [
            (words(one.kind), one.decision, [(side.title, side.chunk_id) for side in one.sides])
            for one in view.conflicts
        ],
    }


def of_drift(view: DriftView | None) -> Facts:
    """Facts of drift."""
    if view is None:
        return {"drift": None}
    pins = [(words(pin.verdict), pin.chunk_id or f"{pin.chunk_hash[:19]}…") for pin in view.pins]
    return {"drift": ("drifted" if view.drifted else "same", view.digest, pins)}


# --- pages and reports --------------------------------------------------------------------------


def answers_on(page: str) -> list[Facts]:
    """Facts of each answer on a page: one on a run's, all of them in a report."""
    main = next(parsed(page).every("main"))
    groups: list[Node] = []
    for one in main.inside:
        if not isinstance(one, str):
            if "head" in one.classes:
                groups.append(type(one)("group", {}, None))
            groups[-1].inside.append(one)
    return [_on_page(group) for group in groups]


def _on_page(group: Node) -> Facts:
    head = next(group.every("div", "head"))
    state = next(one for one in head.every("p", "row"))
    badges = [one.line.removeprefix("degraded: ") for one in state.every("span", "badge")]
    answer = next(group.every("p", "answer"), None)
    return {
        "badges": badges,
        "answer": None if answer is None else flat(answer.text),
        "stages": [*_stages_on(group)],
        "candidates": [*_candidates_on(group)],
        "legs": [*_legs_on(group)],
        "sources": [*_sources_on(group)],
    }


def _rows(section: Node | None) -> Iterator[tuple[str, dict[str, Node]]]:
    """Rows of the tables of a section: by the headings of their columns."""
    for table in section.every("table") if section else ():
        headings = [one.line for one in table.every("th") if one.given.get("scope") == "col"]
        for body in table.every("tbody"):
            for row in body.every("tr"):
                cells = [one for one in row.inside if not isinstance(one, str)]
                yield row.given.get("class", ""), dict(zip(headings, cells, strict=True))


def _stages_on(group: Node) -> Iterator[tuple[str, bool, str]]:
    for kind, cells in _rows(group.by_heading("stages-heading")):
        yield cells["stage"].line.removeprefix("leg "), kind == "is-leg", cells["ms"].line


def _candidates_on(group: Node) -> Iterator[Any]:
    for _, cells in _rows(group.by_heading("candidates-heading")):
        chunk = next(cells["chunk"].every("span", "id")).line.rpartition(" ")[2]
        became = cells.get("became")
        outcome = (
            "dropped" if became is None else [*became.every("a"), *became.every("span", "badge")][0].line.strip("[]")
        )
        reason = cells["because"].line if became is None else "".join(one.line for one in became.every("span", "quiet"))
        left = cells["left at"].line if became is None else ("reading" if outcome == "withheld" else None)
        scores = tuple((name, cells[name].line) for _, name in SCORES if name in cells and cells[name].line)
        legs = tuple(re.fullmatch(r"(.+) (\d+)\.", one.line).groups() for one in cells["rank in legs"].every("span"))  # type: ignore[union-attr] # else it fails
        stages = tuple(
            (name.removeprefix("after "), *_ranked(cell.line))
            for name, cell in cells.items()
            if name.startswith("after ") and cell.line
        )
        rank = cells["rank"].line if "rank" in cells else ""
        yield rank, outcome, chunk, left, reason or None, scores, tuple((leg, int(at)) for leg, at in legs), stages


def _ranked(cell: str) -> tuple[int, str]:
    rank, _, score = cell.partition(".")
    return int(rank), score.strip()


def _legs_on(group: Node) -> Iterator[Any]:
    section = group.by_heading("legs-heading")
    for leg in next(section.every("div", "legs")).inside if section else ():
        if isinstance(leg, str):
            continue
        name = next(leg.every("h3")).inside[0]
        places = [
            (
                *(int(one.given["value"]), next(one.every("span", "id")).line, next(one.every("span", "number")).line),
                "gone" not in one.classes,
            )
            for one in leg.every("li")
        ]
        yield flat(str(name)), places


def _sources_on(group: Node) -> Iterator[Any]:
    section = group.by_heading("sources-heading")
    for source in section.every("article", "source") if section else ():
        if any(one.tag == "details" for one in _above(source)):
            continue
        title = next(source.every("h3"))
        badge = next((one.line for one in title.every("span", "badge")), None)
        name = next(one for one in title.every("span") if "dir" in one.given).line
        marks = flat(" ".join(one.text for one in source.every("mark")))
        chunk = next(source.every("span", "id")).line
        yield source.given["id"].removeprefix("source-"), name, badge, chunk, marks


def _above(node: Node) -> Iterator[Node]:
    while node.above is not None:
        node = node.above
        yield node


def citations_on(page: str) -> Facts:
    """Facts of the citations on a page."""
    top = parsed(page)
    found = [
        (
            *(cells["verdict"].line, cells["text has its hash"].line, cells["visible to you"].line),
            *(_name_of(cells["source"]), next(cells["source"].every("span", "id")).line, cells["weight"].line),
        )
        for _, cells in _rows(top.by_heading("citations-heading"))
    ]
    section = top.by_heading("conflicts-heading")
    conflicts = []
    for one in section.every("article", "source") if section else ():
        badges = [badge.line for badge in next(one.every("div", "row")).every("span", "badge")]
        sides = [
            (_name_of(side), next(side.every("span", "id")).line)
            for side in next(one.every("div", "sides")).every("div")
        ]
        conflicts.append((badges[0], badges[1] if len(badges) > 1 else None, sides))
    return {"citations": found, "conflicts": conflicts}


def _name_of(node: Node) -> str:
    return next(one for one in node.every("span") if "dir" in one.given).line


def drift_on(page: str) -> Facts:
    """Facts of the drift on a page."""
    section = parsed(page).by_heading("drift-heading")
    if section is None:
        return {"drift": None}
    pins = [(cells["verdict"].line, next(cells["chunk"].every("span", "id")).line) for _, cells in _rows(section)]
    return {"drift": (next(section.every("span", "badge")).line, next(section.every("code")).line, pins)}


# --- what commands and the terminal print -------------------------------------------------------


def sources_printed(view: RunView) -> list[Any]:
    """Facts of the cited sources, as they are printed."""
    return [_source_in(source_report(source), source) for source in view.sources if source.is_cited]


def _source_in(report: Group, source: Any) -> Any:
    title, names, *lines = report.renderables
    label, _, name = str(title).partition("  ")[0].partition(" ")
    verdict = str(title).partition("  ")[2] or None
    quoted = [line.plain[span.start : span.end] for line in lines if isinstance(line, Text) for span in line.spans
              if str(span.style) == MARKS["quoted"]]  # fmt: skip
    places = str(names).split(" · ")
    return label.strip("[]"), name, verdict, places[places.index(source.corpus) + 1], flat(" ".join(quoted))


def rows_of(table: Table) -> list[tuple[str, ...]]:
    """Cells of a table, without colours."""
    return [*zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)]


def citations_printed(view: CitationsView) -> list[tuple[str, ...]]:
    """Verdict and source of each citation, as they are printed."""
    return [row[:2] for row in rows_of(citations_table("", view))]


def drift_printed(view: DriftView) -> list[tuple[str, ...]]:
    """Verdict and chunk of each pin, as they are printed."""
    return [row[:2] for row in rows_of(replay_table("", view))]
