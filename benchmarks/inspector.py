"""Inspector: time and weight of a run's page, its first paint, and what an open inspector costs a worker.

python -m benchmarks.inspector --write benchmarks/results

The page of 500 candidates is a recorded run whose record is given more dropped candidates.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated

import httpx
import psycopg
import typer
from benchmarks.command import as_command
from benchmarks.inspected import HUM, SIGN_IN, pages, record, sample_engine
from benchmarks.side_by_side.figures import percentile
from benchmarks.workers import JOB
from playwright.sync_api import sync_playwright
from rich.console import Console

from retrieval_client import Client
from workbench.devstack.workers import celery_worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.synchronize import Event

    from workbench.devstack.stack import Stack

FEW, MANY = 15, 500
RUN = "/run?subject=desk&run="
REFRESH_SECONDS = 2.0
"""Pause between the looks of the open inspector: the page of the queue refreshes itself every 5 s."""

LOOKED_AT = ("/queue", "/", f"{RUN}few", f"{RUN}few&all=1")
PAINTED = """() => new Promise((found) => {
  const look = () => {
    const [paint] = performance.getEntriesByName('first-contentful-paint');
    if (!paint) { setTimeout(look, 5); return; }
    const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    found([paint.startTime, all.reduce((sum, one) => sum + one.transferSize, 0)]);
  };
  look();
})"""


def add_candidates(stack: Stack, run: str, count: int) -> None:
    """Give the record of a run so many candidates: of those that it has none, dropped ones with ranks in two stages."""
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
        row = admin.execute(
            "SELECT run, answer FROM retrieval.run_records JOIN retrieval.runs ON id = run WHERE run_id = %s", [run]
        ).fetchone()
        assert row is not None
        key, answer = row
        trace = answer["package"]["package"]["trace"]
        candidates = {tuple(place) for stage in trace["stages"] for place in stage["candidates"]}
        made_up = [["documents", f"report-made-up-{i:03}"] for i in range(count - len(candidates))]
        for stage in [recorded_stage for recorded_stage in trace["stages"] if recorded_stage["candidates"]][:2]:
            stage["candidates"] += made_up
            stage["scores"] = [*(stage.get("scores") or []), *(0.5 - i / 10_000 for i in range(len(made_up)))]
        trace["left"] += [
            {"corpus": corpus, "chunk_id": chunk, "stage": "cut", "reason": "beyond k"} for corpus, chunk in made_up
        ]
        admin.execute("UPDATE retrieval.run_records SET answer = %s WHERE run = %s", [json.dumps(answer), key])


def server_ms(url: str, path: str, times: int) -> list[float]:
    """Milliseconds of requests, one after the other on one connection, without the first ones."""
    milliseconds = []
    with httpx.Client(base_url=url) as client:
        client.get(SIGN_IN)
        for i in range(times + 10):
            start = time.perf_counter()
            response = client.get(path)
            took = (time.perf_counter() - start) * 1000
            response.raise_for_status()
            if i >= 10:
                milliseconds.append(took)
    return milliseconds


def first_paints(url: str, path: str, times: int) -> tuple[list[float], int]:
    """Milliseconds to first contentful paints, each in a new profile of the system's Chromium; bytes of all loaded."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        return [], 0
    paints, weight = [], 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for i in range(times + 1):
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            context.request.get(url + SIGN_IN)
            page = context.new_page()
            page.goto(url + path)
            paint, weight = page.evaluate(PAINTED)
            context.close()
            if i:
                paints.append(paint)
        browser.close()
    return paints, int(weight)


def look_on(url: str, is_over: Event) -> None:
    """Look at pages, again and again, as visitors with open tabs do."""
    with httpx.Client(base_url=url) as client:
        client.get(SIGN_IN)
        while not is_over.wait(REFRESH_SECONDS):
            for path in LOOKED_AT:
                client.get(path).raise_for_status()


def jobs_a_second(client: Client, jobs: int) -> float:
    """Jobs a second while all wait."""
    task_ids = [client.enqueue(JOB) for _ in range(jobs)]
    client.result(task_ids[jobs // 10], timeout=600)
    start = time.perf_counter()
    for task_id in task_ids[jobs // 10 + 1 :]:
        client.result(task_id, timeout=600)
    return (jobs - jobs // 10 - 1) / (time.perf_counter() - start)


def throughputs(stack: Stack, url: str, jobs: int, rounds: int) -> tuple[list[float], list[float]]:
    """Jobs a second without and with an inspector that is looked at, in turns that change their order."""
    without: list[float] = []
    beside: list[float] = []
    log = stack.root / "worker.log"
    with (
        celery_worker(os.environ, log, f"--concurrency={os.cpu_count() or 2}", queues="retrieval"),
        Client(*stack.redis.urls("producer")) as client,
    ):
        jobs_a_second(client, jobs // 2)
        for i in range(rounds):
            for is_open in (False, True) if i % 2 == 0 else (True, False):
                if is_open:
                    is_over = multiprocessing.Event()
                    viewer = multiprocessing.Process(target=look_on, args=(url, is_over), daemon=True)
                    viewer.start()
                    beside.append(jobs_a_second(client, jobs))
                    is_over.set()
                    viewer.join()
                else:
                    without.append(jobs_a_second(client, jobs))
    return without, beside


def line(name: str, figures: Sequence[float], goal: str, unit: str = "ms") -> str:
    """A row of the table: p50, p95 and the goal."""
    return f"| {name} | {percentile(figures, 0.5):.0f} {unit} | {percentile(figures, 0.95):.0f} {unit} | {goal} |"


def main(
    requests: Annotated[int, typer.Option(help="Requests of each page.", min=10)] = 200,
    paints: Annotated[int, typer.Option(help="First paints.", min=3)] = 15,
    jobs: Annotated[int, typer.Option(help="Jobs a round.", min=100)] = 1500,
    rounds: Annotated[int, typer.Option(help="Rounds without and with the inspector; 0: none.", min=0)] = 8,
    write: Annotated[Path | None, typer.Option(help="Folder for inspector.md.")] = None,
) -> None:
    """Measure the inspector on this machine."""
    with sample_engine(INSPECTOR__OPERATORS="{}") as (stack, engine, _, caller):
        for run in ("few", "many"):
            record(engine, caller, "desk", run, HUM, k=FEW)
        add_candidates(stack, "many", MANY)
        with pages() as url:
            rows = [
                line(f"server time, {FEW} candidates", server_ms(url, f"{RUN}few", requests), "30 / 80 ms"),
                line(f"server time, {MANY} candidates", server_ms(url, f"{RUN}many", requests), "150 ms"),
                line("the same, all in one table", server_ms(url, f"{RUN}many&all=1", requests), "150 ms"),
            ]
            paint_ms, weight = first_paints(url, f"{RUN}few", paints)
            if paint_ms:
                rows.append(line("first paint, new browser profile", paint_ms, "300 ms"))
                rows.append(f"| page with all that it loads | {weight / 1000:.0f} kB | | 150 kB |")
            if rounds:
                without, beside = throughputs(stack, url, jobs, rounds)
                ratios = [rate_beside / rate_without for rate_without, rate_beside in zip(without, beside, strict=True)]
                rows.append(line("jobs a second without the inspector", without, "", "").replace("  ", " "))
                rows.append(line("jobs a second beside it, looked at", beside, "", "").replace("  ", " "))
                rows.append(
                    f"| ratio, median of {rounds} rounds ({min(ratios):.2f} to {max(ratios):.2f}) | "
                    f"{statistics.median(ratios):.3f} | | no measurable loss |"
                )
    text = _told(rows, rounds)
    Console().print(text, markup=False, soft_wrap=True)
    if write is not None:
        (write / "inspector.md").write_text(text, encoding="utf-8")


def _told(rows: list[str], rounds: int) -> str:
    """Return the page of results."""
    looked = (
        f" The open inspector shows {len(LOOKED_AT)} pages every {REFRESH_SECONDS:.0f} s. A ratio is of"
        " two measurements in a row: one that differs from 1 by less than the ratios differ from each other shows"
        " neither a loss nor none."
    )
    return (
        "# The inspector, measured\n\n"
        f"`python -m benchmarks.inspector`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, shared by all of it: "
        f"servers, worker, inspector, browser and what sends the jobs.{looked if rounds else ''}\n\n"
        "| | p50 | p95 | goal |\n| --- | --: | --: | --: |\n" + "\n".join(rows) + "\n"
    )


if __name__ == "__main__":
    as_command(main, "benchmarks.inspector")
