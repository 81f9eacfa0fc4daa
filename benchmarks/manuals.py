"""Real manuals: seconds from a folder of them to the first cited answer, and honest quotes of them that are refused.

    python -m benchmarks.manuals --folder manuals --editions editions --write benchmarks/results

A folder to load is of PDF, HTML, Markdown and text files. Editions are the same manual twice, `LANGUAGE/NAME.pdf` and
`LANGUAGE/NAME.txt`, as packages of documentation bring them; `pdftotext` must be installed (poppler-utils).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from unittest.mock import patch

import psycopg
import typer
from benchmarks.command import as_command
from benchmarks.manual_quotes import REASONS, Judged, find_manuals, judge
from rich.console import Console
from rich.progress import track

from retrieval_client import Client, RunPipeline
from retrieval_client.errors import SettingsError
from workbench.devstack.stack import local_stack
from workbench.devstack.workers import celery_worker, stack_environment
from worker.adapters.providers.local_embedder import LocalEmbedder
from worker.cli import loader
from worker.cli.commands.load import load
from worker.cli.documents import folders
from worker.settings import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

GOAL_SECONDS, GOAL_REFUSED = 300, 0.01
"""For 1,000 pages; of honest quotes."""
OWNER = "alice"
EMBEDDER = PREFIX + "EMBEDDER__KIND"

_STORED = """
SELECT d.kind, count(DISTINCT d.id), count(*), count(DISTINCT (d.id, c.page)), sum(length(c.text_content))
  FROM public.documents d JOIN public.document_chunks c ON c.document_id = d.id GROUP BY d.kind ORDER BY d.kind
"""

console = Console(width=None if sys.stdout.isatty() else 160)


def main(
    folder: Annotated[Path | None, typer.Option(help="Manuals to load.", exists=True, file_okay=False)] = None,
    question: Annotated[str, typer.Option(help="What is asked of them.")] = "How do I build a package?",
    editions: Annotated[Path | None, typer.Option(help="Manuals to quote.", exists=True, file_okay=False)] = None,
    seed: Annotated[int, typer.Option(help="Of the sentences.")] = 20,
    sentences: Annotated[int, typer.Option(min=1, help="Most sentences of a manual.")] = 200,
    examples: Annotated[Path | None, typer.Option(help="Write the refused quotes there, as JSON lines.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write the tables into this folder.", file_okay=False)] = None,
) -> None:
    """Measure, print, and write the figures: of each folder that is named."""
    sections = {}
    if folder is not None:
        sections["Load"] = load_report(folder.resolve(), question)
    if editions is not None:
        pdfs = find_manuals(editions)
        judged = [judge(pdf, seed, sentences) for pdf in track(pdfs, console=console, transient=True)]
        sections["Quotes"] = quotes_report(judged, seed)
        if examples is not None:
            refused = (refusal for manual in judged for refusal in manual.refused)
            lines = (json.dumps(asdict(refusal), ensure_ascii=False) + "\n" for refusal in refused)
            examples.write_text("".join(lines), encoding="utf-8")
    for name, report in sections.items():
        console.print(f"## {name}\n\n{report}\n", markup=False, highlight=False)
    if write is not None:
        write_parts(write / "manuals.md", sections)


def write_parts(path: Path, sections: dict[str, str]) -> None:
    """Write the parts that were measured; the others stay as an earlier run wrote them."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    earlier_sections = dict(
        section.split("\n\n", 1) for section in text.removeprefix("## ").split("\n\n## ") if section
    )
    merged = {name: report.strip() for name, report in sorted((earlier_sections | sections).items())}
    path.write_text("\n\n".join(f"## {name}\n\n{report}" for name, report in merged.items()) + "\n", encoding="utf-8")


# --- from a folder to an answer -----------------------------------------------------------------


class Clock:
    """Seconds during which at least one call of a function runs, in any thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running = 0
        self._start = 0.0
        self._lock = threading.Lock()

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def timed(*arguments: Any, **keywords: Any) -> Any:
            with self._lock:
                if not self._running:
                    self._start = time.perf_counter()
                self._running += 1
            try:
                return function(*arguments, **keywords)
            finally:
                with self._lock:
                    self._running -= 1
                    if not self._running:
                        self.seconds += time.perf_counter() - self._start

        return timed


def load_report(folder: Path, question: str) -> str:
    """Load a folder twice, and ask; return the figures."""
    with (
        tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True) as place,
        local_stack(Path(place).resolve()) as stack,
    ):
        dsn = stack.postgres.dsn()
        with psycopg.connect(dsn, autocommit=True) as connection:
            loader.migrate(connection)
        reading, embedding = Clock(), Clock()
        with timed() as first_load:
            load_here(folder, dsn, reading, embedding)
        with psycopg.connect(dsn) as connection:
            stored = connection.execute(_STORED).fetchall()
        environment = stack_environment(stack, TRUST_QUEUE="true", EMBEDDER__KIND="local")
        with timed() as answering, celery_worker(environment, stack.root / "worker.log"):
            citations = ask(Client(*stack.redis.urls("producer")), question)
        command = [sys.executable, "-m", "workbench", "load", str(folder), "--owner", OWNER, "--dsn", dsn]
        with timed() as second_load:
            subprocess.run(command, env={**os.environ, EMBEDDER: "local"}, stdout=subprocess.DEVNULL, check=True)
    seconds = {
        "reading": reading.seconds,
        "embedding": embedding.seconds,
        "storing, and the rest": first_load.seconds - reading.seconds - embedding.seconds,
        "load": first_load.seconds,
        f"start of a worker, question and answer of {citations} citations": answering.seconds,
        "load again, nothing changed": second_load.seconds,
    }
    return load_tables(stored, seconds, first_load.seconds + answering.seconds)


@contextlib.contextmanager
def timed() -> Iterator[Clock]:
    """Time a block."""
    clock, start = Clock(), time.perf_counter()
    yield clock
    clock.seconds = time.perf_counter() - start


def load_here(folder: Path, dsn: str, reading: Clock, embedding: Clock) -> None:
    """Run the command in this process, where its parts can be timed."""
    with (
        patch.dict(os.environ, {EMBEDDER: "local"}),
        patch.object(folders, "read", reading.around(folders.read)),
        patch.object(LocalEmbedder, "embed", embedding.around(LocalEmbedder.embed)),
    ):
        load(dsn, [folder], owner=OWNER, tenant=None, visibility="private", grant=None)


def ask(client: Client, question: str) -> int:
    """Return the number of citations of an answer."""
    with contextlib.closing(client):
        answer = client.call(RunPipeline(question=question, principal={"user_id": OWNER}), timeout=60)
    if not answer.citations:
        raise SettingsError(f"the answer to {question!r} cites nothing: ask what the manuals tell")
    return len(answer.citations)


def load_tables(stored: Sequence[tuple[Any, ...]], seconds: dict[str, float], total_seconds: float) -> str:
    """Return what was loaded, and how long it took."""
    printed = [row for row in stored if row[0] == "pdf"]
    on_page = sum(int(row[4]) for row in printed) / sum(row[3] for row in printed) if printed else 2500
    rows, pages, chunks = [], 0, 0
    for kind, documents, number, numbered, characters in stored:
        count = numbered if kind == "pdf" else round(int(characters) / on_page)
        rows.append([kind, f"{documents:,}", f"{count:,}", f"{number:,}"])
        pages, chunks = pages + count, chunks + number
    seconds_a_thousand = total_seconds * 1000 / pages
    head = (
        f"{date()}, {os.cpu_count()} cores, local embedder. A page of what has none: {on_page:,.0f} characters, as "
        "those of the PDF files have on average."
    )
    goal = f"the goal is {GOAL_SECONDS}: {'reached' if seconds_a_thousand <= GOAL_SECONDS else 'missed'}"
    return "\n\n".join(
        [
            head,
            table(["", "documents", "pages", "chunks"], [*rows, ["all", "", f"{pages:,}", f"{chunks:,}"]]),
            table(["", "seconds"], [[name, f"{value:.1f}"] for name, value in seconds.items()]),
            f"To the first cited answer: {seconds_a_thousand:.0f} seconds for 1,000 pages; {goal}.",
        ]
    )


# --- quotes -------------------------------------------------------------------------------------


def quotes_report(judged: Sequence[Judged], seed: int) -> str:
    """Return how many were refused, by manual and by reason."""
    quoted = [manual for manual in judged if manual.sentences]
    total = sum(manual.sentences for manual in quoted)
    refused = [refusal for manual in quoted for refusal in manual.refused]
    reasons = Counter(refusal.reason for refusal in refused)
    rows = [counts(f"{manual.name}, {manual.language}", manual.sentences, len(manual.refused)) for manual in quoted]
    head = (
        f"{date()}, seed {seed}. Sentences of a manual's text edition that its PDF has by `pdftotext` (digits, "
        f"hyphens and line ends aside), quoted from the chunks that `load` makes of the PDF. The goal is "
        f"{GOAL_REFUSED:.0%}: {'reached' if len(refused) <= GOAL_REFUSED * total else 'missed'}."
    )
    return "\n\n".join(
        [
            head,
            table(["manual", "sentences", "refused", "%"], [*rows, counts("all", total, len(refused))]),
            table(["reason", "of", "refused", "%"], [counts(reason, total, reasons[reason]) for reason in REASONS]),
        ]
    )


def counts(name: str, total: int, refused: int) -> list[str]:
    """Return a row of a table."""
    return [name, f"{total:,}", f"{refused:,}", f"{100 * refused / max(total, 1):.2f}"]


def date() -> str:
    """Return today's date as a report begins with it."""
    today = datetime.now(UTC)
    return f"{today.day} {today:%B %Y}"


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, all but its first column numbers."""
    lines = [heading, ["---", *["--:"] * (len(heading) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    as_command(main, "benchmarks.manuals")
