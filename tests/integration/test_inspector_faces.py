"""Browser, report and print show the same facts of the same 100 runs, which are those of the view model."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient
from tests.integration import faces
from tests.integration.asking import HUM, asker
from tests.integration.inspecting import SIGN_IN, named
from tests.integration.provider import WRONG_LABELS, running

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK, RunPipeline
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay, RunName
from workbench.devstack.processes import free_port
from worker.core.text import lexical
from worker.inspector.reading import RunViews
from worker.inspector.view.wording import said
from worker.inspector.web.app import make_app
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.queue.overview import Overview
from worker.settings.serving import QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import psycopg

    from worker.settings import Settings

    Admin = psycopg.Connection[Any]

RUNS = 100
ALICE = asker("alice")
LABELLED = Path(__file__).parents[2] / "benchmarks" / "labelled" / "queries.jsonl"
QUESTIONS = [HUM, "noise floor of the stereo bus of the Calder 32 desk, unweighted"]
QUESTIONS += [json.loads(line)["question"] for line in LABELLED.read_text().splitlines()]
BOTH = [{"corpus": "docs", "top_k": 5}, {"corpus": "examples", "top_k": 3}]
JOBS = {
    **dict.fromkeys(("run_pipeline",), RunPipeline),
    "retrieve_top_k": RetrieveTopK,
    "retrieve_hybrid": RetrieveHybrid,
    "pinned_replay": PinnedReplay,
}


def kinds(question: str, i: int) -> tuple[tuple[str, str, dict[str, Any]], ...]:
    """Kinds of runs: engine, task and fields of the job."""
    vector = lexical.embed([question])[0].tolist()
    return (
        ("plain", "run_pipeline", {"question": question, "mode": "grounded", "k": 3 + i % 10}),
        ("plain", "run_pipeline", {"question": question, "mode": "code", "context": "note('c2').lpf(400)"}),
        ("model", "run_pipeline", {"question": question, "mode": "grounded"}),
        ("away", "run_pipeline", {"question": question, "mode": "grounded", "profile": "hybrid_rrf"}),
        ("plain", "run_pipeline", {"question": question, "mode": "extraction", "profile": "dense"}),
        ("plain", "run_pipeline", {"question": question, "mode": "grounded", "filters": {"document_ids": []}}),
        ("plain", "run_pipeline", {"question": question, "mode": "lyrics", "stop_after": "build_sources"}),
        ("plain", "retrieve_top_k", {"query_embedding": vector, "corpus": "documents", "k": 10 + i % 6}),
        ("plain", "retrieve_top_k", {"query_embedding": vector, "corpus": "docs", "max_distance": 0.5 + i / 400}),
        (
            *("plain", "retrieve_hybrid"),
            {
                "query": question,
                "context": "sound('bd').fast(2)",
                "searches": BOTH,
                "legs": ["primary", "contextual", "sparse"],
                "fusion": ("rrf", "weighted", "similarity")[i % 3],
            },
        ),
    )


@pytest.fixture
def engines(make_settings: Callable[..., Settings], database: str, tmp_path: Path) -> Iterator[dict[str, Engine]]:
    """Without a language model; with one that labels wrongly; with one that is away."""
    with contextlib.ExitStack() as stack, running() as provider:
        provider.text = f"“The 50 Hz hum on channel 18 came back” [S1]. {WRONG_LABELS}"
        server = {"kind": "openai", "model": "m", "timeout_seconds": 5}
        away = f"http://127.0.0.1:{free_port()}/v1"
        models = {"plain": {}, "model": {**server, "base_url": provider.url}, "away": {**server, "base_url": away}}
        made = {}
        for name, model in models.items():
            settings = make_settings(
                database, artifacts={"url": str(tmp_path)}, **({"language_model": model} if model else {})
            )
            made[name] = stack.enter_context(contextlib.closing(Engine(settings, time.perf_counter)))
        yield made


def record(engines: Mapping[str, Engine]) -> list[RunName]:
    """Record the runs; some have two answers, some a stored document, some a decision."""
    names = []
    for i in range(RUNS):
        name = RunName(subject_id=f"subject-{i % 7}", run_id=f"r{i}")
        names.append(name)
        question = QUESTIONS[i // 10 if i % 10 in {0, 2, 3} and i < 20 else i]
        kind, task, fields = kinds(question, i)[i % 10]
        answer(engines[kind], task, {**fields, "run": name.model_dump(exclude_none=True)})
        if i % 20 == 7:
            again = {"question": QUESTIONS[i % 2], "mode": "grounded", "run": {**name.model_dump(), "step": "verse-1"}}
            answer(engines["plain"], "run_pipeline", again)
        if i % 4 == 0:
            job = {"cite": name.model_dump(exclude_none=True), "run": name.model_dump(exclude_none=True)}
            with contextlib.suppress(Exception):  # a run without chunks has nothing to cite
                engines["plain"].citing.build(parse_job(BuildCitations, job), JobContext(lambda: ALICE))
    return names


def answer(engine: Engine, task: str, fields: dict[str, Any]) -> None:
    engine.handlers[task](parse_job(JOBS[task], fields), JobContext(lambda: ALICE, "t1"))  # type: ignore[arg-type, type-var] # one of the jobs


def let_time_pass(admin: Admin) -> None:
    """Edit, space, move, delete and hide some of the chunks that the runs recorded."""
    some = "SELECT id FROM document_chunks ORDER BY md5(id) LIMIT 4 OFFSET"
    admin.execute(f"UPDATE document_chunks SET text_content = 'Not ' || text_content WHERE id IN ({some} 0)")
    admin.execute(f"UPDATE document_chunks SET text_content = '  ' || text_content WHERE id IN ({some} 4)")
    admin.execute(f"DELETE FROM document_chunks WHERE id IN ({some} 8)")
    admin.execute("UPDATE documents SET visibility = 'private', owner_id = 'carol' WHERE id = "
                  "(SELECT document_id FROM document_chunks ORDER BY md5(id) LIMIT 1 OFFSET 12)")  # fmt: skip


def test_the_three_faces_show_the_same_facts_of_a_hundred_runs(
    engines: dict[str, Engine], settings: Settings, admin: Admin
) -> None:
    """Every chunk, rank, score, verdict, label, leg, stage, conflict and digest: on the page, in the file, in print."""
    engine = engines["plain"]
    names = record(engines)
    views = RunViews(engine.reading, engine.paths)
    (conflicts,) = {len(views.citations(ALICE, names[10]).conflicts)} - {0} or [0]
    let_time_pass(admin)
    overview = Overview(settings.broker_url.get_secret_value(), QUEUES)
    seen: Counter[str] = Counter()
    app: Any = make_app(settings, engine, overview, visitor=named())
    with TestClient(app, base_url="http://127.0.0.1") as client:
        client.get(SIGN_IN)
        for name in names:
            address = {"subject": name.subject_id, "run": name.run_id}
            page, cited, drifted = views.run(ALICE, name), views.citations(ALICE, name), views.drift(ALICE, name)
            report = client.get("/report", params=address).text
            reported = faces.answers_on(report)
            assert len(reported) == len(page.views)
            for view, in_report in zip(page.views, reported, strict=True):
                expected = faces.of_view(view)
                one = {"step": view.about.step, "task": view.task, "all": "1"}
                (on_page,) = faces.answers_on(client.get("/run", params={**address, **one}).text)
                for shown in (on_page, in_report):
                    assert_same(shown, expected)
                assert faces.sources_printed(view) == expected["sources"]
                seen.update(seen_in(view))
            expected = faces.of_citations(cited)
            on_page = faces.citations_on(client.get("/citations", params=address).text)
            assert on_page == faces.citations_on(report) == expected
            said_of = [(said("pin", one.verdict or "missing").words, one.source_id) for one in cited.citations]
            assert faces.citations_printed(cited) == said_of
            expected = faces.of_drift(drifted)
            on_page = faces.drift_on(client.get("/drift", params=address).text)
            assert on_page == faces.drift_on(report) == expected
            pins = drifted.pins if drifted else ()
            assert not drifted or faces.drift_printed(drifted) == [(pin.verdict, pin.chunk_id or "") for pin in pins]
            seen.update(pin.verdict for pin in (drifted.pins if drifted else ()))
            seen["conflict"] += len(cited.conflicts)
    assert conflicts
    assert seen.keys() >= WANTED, WANTED - seen.keys()


WANTED = {
    *("run_pipeline", "retrieve_top_k", "retrieve_hybrid", "ok", "empty", "short", "language_model"),
    *("kept", "dropped", "withheld", "verbatim", "exact", "edited", "normalised", "missing", "conflict", "unknown"),
}
"""What the runs must have among them, so that nothing is the same only because it is not there."""


def seen_in(view: Any) -> set[str]:
    found = {view.task, view.status, *view.degraded, *(one.outcome for one in view.candidates)}
    found |= {source.verdict for source in view.sources}
    return found | ({"unknown"} if view.answer and view.answer.unknown else set())


def assert_same(shown: faces.Facts, expected: faces.Facts) -> None:
    """Compare the facts of an answer; the times of reading a record again are others each time."""
    for part in ("answer", "candidates", "legs", "sources"):
        assert shown[part] == expected[part], part
    times = [(name, is_leg, None) for name, is_leg, _ in shown["stages"]]
    assert (shown["stages"] if any(took for *_, took in expected["stages"]) else times) == expected["stages"]
    assert {*shown["badges"]} >= {one for one in expected["state"] if one}
