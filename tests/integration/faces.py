"""Facts that each face of the inspector shows of a run, and those that its views have, in one form to be compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.integration.parsed import parsed

from worker.inspector.rendering import number, words
from worker.inspector.terminal.answer import answer_text, source_lines
from worker.inspector.terminal.citations import citations_lines
from worker.inspector.terminal.drift import drift_lines
from worker.inspector.terminal.lines import QUOTED
from worker.inspector.terminal.trace import trace_lines
from worker.inspector.view.wording import SCORES, said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.integration.parsed import Node

    from worker.inspector.terminal.lines import Line
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


# --- the terminal -------------------------------------------------------------------------------


def in_terminal(view: RunView) -> Facts:
    """Facts of an answer that the terminal's lines show."""
    lines = trace_lines(view)
    parts = _parts(lines)
    state = next(line.text.plain for line in lines if line.text.plain.startswith(words(view.task)))
    return {
        "badges": [one.removeprefix("degraded: ") for one in state.split("  ")],
        "answer": None if view.answer is None else flat(answer_text(view.answer).plain),
        "stages": [*_stages_in(parts["Stages"])],
        "candidates": [*_candidates_in(parts["Candidates"])],
        "legs": [*_legs_in(parts.get("Legs", []))],
        "sources": [_source_in(source_lines(one, is_whole=True), one.corpus) for one in view.sources if one.is_cited],
    }


def _parts(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Lines under each heading."""
    parts: dict[str, list[Line]] = {"": []}
    name = ""
    for line in lines:
        if any(str(span.style) == "bold underline" and span.start == 0 for span in line.text.spans):
            name = line.text.plain.split("  ")[0]
            parts[name] = []
        elif line.text.plain:
            parts[name].append(line)
    return parts


def _stages_in(lines: Iterable[Line]) -> Iterator[tuple[str, bool, str]]:
    for line in lines:
        found = re.match(r"(  leg )?(.+?) +[·█]+ +([\d.]+) ms", line.text.plain)
        if found:
            yield found[2], bool(found[1]), found[3]


def _candidates_in(lines: Sequence[Line]) -> Iterator[Any]:
    starts = [i for i, line in enumerate(lines) if not line.indent and re.match(r" *(\d+\.|–) ", line.text.plain)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        head = re.fullmatch(r" *(\S+) (?:\[(S\d+)\] )?(kept|withheld|dropped) (?:.* )?(\S+)", lines[start].text.plain)
        assert head, lines[start].text.plain
        below = [line.text.plain for line in lines[start + 1 : end]]
        left = next((one for one in below if one.startswith("left at ")), None)
        stage, reason = left.removeprefix("left at ").split(": ", 1) if left else (None, None)
        figures = next((one for one in below if _is_figures(one)), "").split(" · ")
        names = [name for _, name in SCORES]
        scores, legs, stages = [], [], []
        for one in filter(None, figures):
            if one.startswith("after "):
                after = re.fullmatch(r"after (.+?) (\d+)\. ?(\S*)", one)
                stages.append((after[1], int(after[2]), after[3]))  # type: ignore[index] # else it fails
            elif one.split(" ")[0] in names and not one.endswith("."):
                name, value = one.split(" ")
                scores.append((name, value))
            else:
                leg, rank = one.rsplit(" ", 1)
                legs.append((leg, int(rank.rstrip("."))))
        rank = "" if head[1] == "–" else head[1].rstrip(".")
        yield rank, head[2] or head[3], head[4], stage, reason, tuple(scores), tuple(legs), tuple(stages)


def _is_figures(line: str) -> bool:
    return bool(re.match(r"(similarity|fused|rerank|recency) -?\d\.\d{4}|after \S+ \d+\.|\w+ \d+\.", line))


def _legs_in(lines: Iterable[Line]) -> Iterator[Any]:
    name, places = "", []
    for line in lines:
        found = re.fullmatch(r" *(\d+)\. (\S+) (-?[\d.]+)( not kept)?", line.text.plain)
        if found:
            places.append((int(found[1]), found[2], found[3], not found[4]))
        elif not line.indent and not line.text.plain.startswith("…"):
            if name:
                yield name, places
            name, places = line.text.plain.split(" · ")[0], []
    if name:
        yield name, places


def _source_in(lines: Sequence[Line], corpus: str) -> Any:
    label, title, *verdict = lines[0].text.plain.split("  ")
    quoted = flat(
        " ".join(
            line.text.plain[span.start : span.end] for line in lines for span in line.text.spans if span.style == QUOTED
        )
    )
    places = lines[1].text.plain.split(" · ")
    chunk = places[places.index(corpus) + 1]
    return label.strip("[]"), title, verdict[0] if verdict else None, chunk, quoted


def citations_in_terminal(view: CitationsView) -> Facts:
    """Facts of citations that the terminal's lines show."""
    parts = _parts(citations_lines(view))
    found, conflicts = [], []
    lines = parts["Citations"]
    for i, line in enumerate(lines):
        if line.indent == 2:
            verdict, source = line.text.plain.split("  ")
            checks = re.fullmatch(
                r"text has its hash: (.+) · visible to you: (.+) · weight (.+)", lines[i + 1].text.plain
            )
            names = source.split(" · ")
            found.append((verdict, checks[1], checks[2], names[0], names[-1], checks[3]))  # type: ignore[index] # else it fails
    for line in parts["Conflicts"]:
        words_of = line.text.plain.split("  ")
        if not line.indent and "No conflict" not in line.text.plain:
            conflicts.append(
                (words_of[0], next((one for one in words_of if one in {"accepted", "dismissed"}), None), [])
            )
        elif line.indent == 2 and " · " in line.text.plain:
            names = [one for one in line.text.plain.split(" · ") if not one.startswith("weight ")]
            conflicts[-1][2].append((names[0], names[-1]))
    return {"citations": found, "conflicts": conflicts}


def drift_in_terminal(view: DriftView | None) -> Facts:
    """Facts of drift that the terminal's lines show."""
    lines = drift_lines(view)
    if len(lines) == 1:
        return {"drift": None}
    pins = [
        tuple(line.text.plain.split("  ")[:2])
        for line in lines[4:]
        if not line.indent and "words of then" not in line.text.plain
    ]
    return {"drift": (lines[1].text.plain.split("  ")[0], lines[2].text.plain.split(" ")[1], pins)}
