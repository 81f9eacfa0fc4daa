"""Cost of a citations document and its checks, beside plain JSON, and how it grows.

    python -m benchmarks.citations --largest 100000 --twin-every 50

The texts are made of the sample's words: unrelated to each other, but for near twins, which repeat another
source's text with one number changed. Each of these must be found, and nothing else.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from retrieval_client.hashing import hash_chunk
from worker.cli.corpus_files import SAMPLES
from worker.core.citations.conflicts import find_conflicts
from worker.core.citations.disagreement import find_disagreements
from worker.core.citations.document import (
    CitationRecord,
    create_citations_json,
    is_intact,
    read_citations_json,
)
from worker.core.citations.labels import classify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SIZES = (15, 1_000, 10_000, 100_000)
GOAL_MS, GOAL_RECORDS, GOAL_TIMES = 10.0, 1_000, 15.0
SOURCES, SENTENCES, WORDS = 97, 4, 13
SECTIONS = ("Verse 1", "Chorus", "Verse 2", "Bridge", None)


@dataclass(frozen=True)
class Step:
    """Step to time.

    Attributes:
        name: as printed.
        run: does it, over the records.
        counted: whether it is a part of what `build_citations` does for every job.
    """

    name: str
    run: Callable[[Sequence[CitationRecord]], object]
    counted: bool = True


def plain_json(records: Sequence[CitationRecord]) -> str:
    """The least that any such document costs: a hash and a line of JSON for each record."""
    return json.dumps(
        [
            {
                "chunk_hash": hash_chunk(record.text),
                "source_id": record.source_id,
                "text": record.text,
                "weight": record.weight,
                "section": record.section,
            }
            for record in records
        ]
    )


STEPS = (
    Step("plain JSON with hashes", plain_json, counted=False),
    Step("create_citations_json", create_citations_json),
    Step("is_intact of each", lambda records: [is_intact(record) for record in records]),
    Step("find_conflicts, integrity known", lambda records: find_conflicts(records, [True] * len(records))),
    Step("find_disagreements", find_disagreements),
    Step("read_citations_json", lambda records: read_citations_json(create_citations_json(records)), counted=False),
)


def make_records(count: int, twin_every: int, seed: int = 7) -> list[CitationRecord]:
    """Records with texts of some 400 characters; every ``twin_every``-th is a near twin of the one before."""
    chosen = random.Random(seed)  # noqa: S311 -- the same texts every time
    documents = json.loads(SAMPLES["documents"].read_text())["documents"]
    words = [word.strip(".,;:") for d in documents for chunk in d["chunks"] for word in chunk["text"].split()]
    letters = [word for word in words if word.isalpha() and len(word) > 3]
    records: list[CitationRecord] = []
    measured = 0
    for i in range(count):
        if i % twin_every == twin_every - 1:
            text = records[-1].text.replace(f"{measured} dB", f"{measured + 1} dB")
        else:
            measured = chosen.randrange(10, 90)
            sentences = [" ".join(chosen.choices(letters, k=WORDS)) for _ in range(SENTENCES)]
            text = f"The {sentences[0]} was {measured} dB. " + ". ".join(sentences[1:]).capitalize() + "."
        records.append(
            CitationRecord(
                hash_chunk(text), f"s{i % SOURCES}", text, i % 100 / 100, SECTIONS[i % len(SECTIONS)], 1, f"c{i}"
            )
        )
    return records


def milliseconds(step: Step, records: Sequence[CitationRecord], rounds: int) -> float:
    """Median over the rounds."""
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        step.run(records)
        took.append((time.perf_counter() - start) * 1000)
    return statistics.median(took)


def times_faster(ours: Callable[[], object], plain: Callable[[], object], rounds: int) -> float:
    """Median over the rounds of what the plain way took beside ours; they take turns."""
    ratios = []
    for _ in range(rounds):
        start = time.perf_counter()
        plain()
        between = time.perf_counter()
        ours()
        ratios.append((between - start) / (time.perf_counter() - between))
    return statistics.median(ratios)


def main(
    largest: Annotated[int, typer.Option(help="Most records.", min=15)] = SIZES[-1],
    rounds: Annotated[int, typer.Option(help="Rounds for 1,000 records; fewer for more.", min=1)] = 21,
    twin_every: Annotated[int, typer.Option(help="Every how many records a near twin stands.", min=2)] = 50,
) -> None:
    """Time each step over ever more records; check that exactly the planted disagreements are found."""
    # Where no terminal says how wide it is (a pipe, a CI log), tables need more than the usual 80 columns.
    console = Console(width=None if sys.stdout.isatty() else 140)
    sizes = [size for size in SIZES if size <= largest]
    table = Table("step", *(f"{size:,} records" for size in sizes), "to plain JSON", "µs a record")
    figures: dict[str, list[float]] = {step.name: [] for step in STEPS}
    for size in sizes:
        records = make_records(size, twin_every)
        disagreements = find_disagreements(records)
        twins = size // twin_every
        assert len(disagreements) == twins, f"{twins} planted, {len(disagreements)} found"
        assert all(conflict.differs == ("number",) for conflict in disagreements)
        for step in STEPS:
            figures[step.name].append(milliseconds(step, records, max(1, min(rounds, rounds * 1000 // size))))
    base = figures[STEPS[0].name]
    for name, took in figures.items():
        at = sizes.index(GOAL_RECORDS) if GOAL_RECORDS in sizes else -1
        ratio = f"{took[at] / base[at]:.2f}"
        table.add_row(name, *(f"{ms:.2f} ms" for ms in took), ratio, f"{took[-1] * 1000 / sizes[-1]:.1f}")
    console.print(table)
    if GOAL_RECORDS in sizes:
        at = sizes.index(GOAL_RECORDS)
        total = sum(figures[step.name][at] for step in STEPS if step.counted)
        console.print(
            f"The pure steps, {GOAL_RECORDS:,} records: {total:.1f} ms (goal of a whole job: {GOAL_MS:.0f} ms)"
        )
        records = make_records(GOAL_RECORDS, twin_every)
        document = create_citations_json(records)
        writing_ratio = times_faster(lambda: orjson.dumps(document), lambda: json.dumps(document), rounds)
        making_ratio = times_faster(
            lambda: orjson.dumps(create_citations_json(records)),
            lambda: json.dumps(create_citations_json(records)),
            rounds,
        )
        console.print(
            f"Their document as JSON, beside plain json: {writing_ratio:.1f} times faster (goal: {GOAL_TIMES:.0f}),"
            f" {making_ratio:.1f} times with the making of it"
        )
    answer = " ".join(f"Hum [S{n % 40}, S{n % 7}-S{n % 7 + 2}] and `[S1]`." for n in range(1_000))
    labels = {f"S{n}": "sha256:…" for n in range(1, 31)}
    took = milliseconds(Step("", lambda _: classify(answer, labels)), [], rounds)
    console.print(f"Labels of an answer of {len(answer):,} characters, 3,000 labels: {took:.1f} ms")


if __name__ == "__main__":
    typer.run(main)
