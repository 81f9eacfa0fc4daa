"""Sixty questions that no source answers: what pages, terminal, printed report and commands say of them is checked.

By structure: each verdict is of the closed vocabulary, and the colour of success is on nothing but a checked fact.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient
from tests.integration.asking import asker
from tests.integration.inspecting import SIGN_IN, named
from tests.integration.parsed import parsed

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK, RunPipeline
from retrieval_client.contract.pinned import Citations, Replay
from retrieval_client.contract.results import Hybrid, TopK
from retrieval_client.contract.run_jobs import RunName
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.adapters.terminal import Terminal
from worker.cli import corpus_files
from worker.cli.loader import load
from worker.core.text import lexical
from worker.inspector.reading import RunViews
from worker.inspector.text.answers import citations_table, hybrid_header, hybrid_table, replay_table, top_k_table
from worker.inspector.text.pipeline_answer import answer_report, source_report
from worker.inspector.text.trace import trace_report
from worker.inspector.view.citations import citations_view
from worker.inspector.view.drift import drift_view
from worker.inspector.view.run import run_view
from worker.inspector.view.wording import SCORES, VOCABULARY, scale
from worker.inspector.web.app import make_app
from worker.jobs.context import JobContext
from worker.queue.overview import Overview
from worker.settings.serving import QUEUES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from tests.integration.parsed import Node

    from worker.inspector.view.run import RunView
    from worker.jobs.engine import Engine
    from worker.settings import Settings

LABELLED = Path(__file__).parents[2] / "benchmarks" / "labelled"
ALICE = asker("alice")
ELSEWHERE = (
    "ما سبب الطنين في القناة 40 من الراديو؟",
    "谁发明了蒸汽机？",
    "Кто выиграл чемпионат мира в 1998 году?",
    "Wie hoch ist die Mehrwertsteuer in Norwegen?",
    "Quelle est la capitale de la Mongolie ?",
    "¿Cuánto cuesta un billete de tren a Sevilla?",
    "富士山の高さは何メートルですか。",
    "भारत के पहले प्रधानमंत्री कौन थे?",
    "Türkiye'nin en uzun nehri hangisidir?",
    "Kto napisał Pana Tadeusza?",
    "Ποιος έγραψε την Οδύσσεια;",
    "מי כתב את ההמנון?",
    "서울의 인구는 얼마입니까?",
    "Quem pintou a Mona Lisa?",
    "Яка столиця Ісландії?",
    "Ai là người phát minh ra điện thoại?",
    "بلندترین کوه ایران کدام است؟",
    "ใครเป็นผู้แต่งรามเกียรติ์",
    "Chi ha scoperto l'America?",
    "Hur många invånare har Tromsø?",
)


def asked(file: Path, most: int) -> list[str]:
    return [json.loads(line)["question"] for line in file.read_text().splitlines()[:most]]


QUESTIONS = (
    *asked(LABELLED / "unanswerable.jsonl", 20),
    *asked(LABELLED / "almanac" / "unanswerable.jsonl", 20),
    *ELSEWHERE,
)

FACTS = {one.words for kind in ("pin", "drift") for one in VOCABULARY[kind].values() if one.tone == "good"}  # type: ignore[index] # kinds
"""What may have the colour of success: that a text still has its recorded hash."""

WORDS = {one.words for codes in VOCABULARY.values() for one in codes.values()}
WORDS |= {"run pipeline", "retrieve hybrid", "retrieve top k"}
CONFLICTS = {"same text two sources", "possible disagreement", "weight differs", "chunk id two texts"}
CONFLICTS |= {"text hash mismatch"}


@pytest.fixture
def recorded(engine: Engine, admin: psycopg.Connection[Any]) -> list[RunName]:
    """A run of three answers for each question, over the sample and another corpus beside it."""
    load(admin, corpus_files.read(LABELLED / "almanac" / "corpus.json"), LexicalEmbedder())
    assert len({*QUESTIONS}) == 60
    return [*record(engine)]


def record(engine: Engine) -> Iterator[RunName]:
    for i, question in enumerate(QUESTIONS):
        name = RunName(subject_id="nowhere", run_id=f"r{i}")
        both = [{"corpus": "docs", "top_k": 5}, {"corpus": "examples", "top_k": 3}]
        run = {"run": name.model_dump(exclude_none=True)}
        jobs: tuple[Any, ...] = (
            parse_job(
                RetrieveTopK, {"query_embedding": lexical.embed([question])[0].tolist(), "corpus": "docs", **run}
            ),
            parse_job(RetrieveHybrid, {"query": question, "searches": both, **run}),
            parse_job(RunPipeline, {"question": question, "mode": "grounded", **run}),
        )
        for task, job in zip(("retrieve_top_k", "retrieve_hybrid", "run_pipeline"), jobs, strict=True):
            engine.handlers[task](job, JobContext(lambda: ALICE, "t1"))
        yield name


# --- what is looked at --------------------------------------------------------------------------


def check_page(page: str) -> None:
    """Check the badges, and where the colour of success is."""
    top = parsed(page)
    for node in top.every():
        if "badge" in node.classes:
            for words in node.line.split(", "):  # of a hybrid answer the status of each corpus
                known = words.rpartition(": ")[2] in WORDS | CONFLICTS or re.fullmatch(r"\d+ conflicts?", words)
                assert known or words == "warning" or words.startswith(("[S", "degraded: ")), node.line
        if "good" in node.classes:
            assert node.line in FACTS, node.line
    assert all(heading.line != "unknown" for heading in top.every("h3"))


def check_printed(*reports: Any) -> str:
    """Check what a command prints; return it."""
    said = []
    for report in reports:
        out = Terminal(file=io.StringIO(), width=160, force_terminal=True, color_system="truecolor")
        for segment in out.render(report):
            said.append(segment.text)
            if segment.style and segment.style.color and "green" in segment.style.color.name:
                assert segment.text.strip() in FACTS | {""}, segment.text
    return "".join(said)


def flat(text: str) -> str:
    return " ".join(text.split())


def section(top: Node, heading: str) -> str:
    found = top.by_heading(heading)
    return "" if found is None else found.line


# --- the questions ------------------------------------------------------------------------------


def test_no_page_says_more_than_is_known(engine: Engine, settings: Settings, recorded: list[RunName]) -> None:
    """On each page and in the file: what is known of the answer, what each score is, whose text it is."""
    views = RunViews(engine.reading, engine.paths)
    overview = Overview(settings.broker_url.get_secret_value(), QUEUES)
    copied = refused = 0
    app: Any = make_app(settings, engine, overview, visitor=named())
    with TestClient(app, base_url="http://127.0.0.1") as client:
        client.get(SIGN_IN)
        check_page(client.get("/").text)
        for name in recorded:
            address = {"subject": name.subject_id, "run": name.run_id}
            report = client.get("/report", params=address).text
            for page in (
                report,
                client.get("/citations", params=address).text,
                client.get("/drift", params=address).text,
            ):
                check_page(page)
            for view in views.run(ALICE, name).views:
                page = client.get("/run", params={**address, "task": view.task}).text
                check_page(page)
                check_said(view, [parsed(page).line, parsed(report).line])
                if view.answer:
                    copied += view.answer.copied == view.answer.sentences
                    refused += view.answer.is_refusal
    assert copied + refused == len(recorded)
    assert copied, "no answer was made of sentences that answer nothing"
    assert refused


def check_said(view: RunView, pages: list[str]) -> None:
    check_printed(*map(source_report, view.sources))
    assert view.said
    for face in pages:
        for sentence in view.said:
            assert flat(sentence) in face
        for field, name in SCORES:
            if any(getattr(one, field) is not None for one in view.kept):
                assert f"{name}: {scale(name)}" in face
        for leg in view.legs:
            assert scale(leg.name) in face
        for one in view.kept:
            assert one.title
            assert one.title != one.chunk_id
            assert flat(one.title)[:60] in face


def test_no_command_prints_more_than_is_known(engine: Engine, settings: Settings, recorded: list[RunName]) -> None:
    """`query`, `search`, `ask`, `trace`, `cite` and `replay`, as they print it in colours."""
    kinds: dict[str, Any] = {"retrieve_top_k": TopK, "retrieve_hybrid": Hybrid, "run_pipeline": PipelineAnswer}
    for name in recorded:
        for found in engine.reading.records(ALICE, name):
            answer = kinds[found.task].model_validate(engine.reading.answer(found, ALICE))
            if isinstance(answer, TopK):
                check_printed(top_k_table("q", answer, 1.0, answer.k, settings.paths))
            elif isinstance(answer, Hybrid):
                tables = (
                    hybrid_table(it, one, answer.metrics[it], settings.paths) for it, one in answer.results.items()
                )
                assert "Nearest source: cosine similarity" in check_printed(hybrid_header(answer), *tables)
            else:
                for printed in (
                    check_printed(answer_report(run_view(answer))),
                    check_printed(answer_report(run_view(answer), brief=True)),
                ):
                    assert "is not judged" in flat(printed) or "That does not show" in flat(printed)
                    assert " %" not in flat(printed).replace(flat(answer.answer or ""), "").split("[S")[0]
        traces = engine.pipeline_jobs.traces(name, ALICE)
        check_printed(*(trace_report("t", one) for one in traces))
        if cited := engine.reading.citations(ALICE, name):
            check_printed(citations_table("c", citations_view(Citations.model_validate(cited))))
        if replayed := engine.reading.replay(ALICE, name):
            check_printed(replay_table("r", drift_view(Replay.model_validate(replayed), {}, {})))
