"""A site whose stored texts are hostile: in chunks, titles, paths, sections, names, dead letters and reports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.integration.asking import HUM, ask, asker, ids
from tests.unit.inspector.hostile import HOSTILE

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from retrieval_client.contract.run_jobs import BuildCitations, RunName
from worker.jobs.context import JobContext

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import psycopg

    from worker.jobs.engine import Engine

    Admin = psycopg.Connection[Any]

TEXTS = [text.replace("\x00", "\x01") for text in HOSTILE]
"""All kinds; Postgres and the contract have no U+0000."""

QUESTIONS = (HUM, "noise floor of the stereo bus of the Calder 32 desk, unweighted")
LONGEST_NAME = 300
DEAD = ("at", "reason", "error", "message", "task", "task_id", "digest", "kept", "original")


class HostileSite:
    """Writes hostile texts over the chunks that answer the questions, and records runs of them.

    Args:
        engine: records runs of alice's.
        admin: writes the chunks.
    """

    def __init__(self, engine: Engine, admin: Admin) -> None:
        self._engine, self._admin = engine, admin
        answers = [ask(engine, question=question, mode="grounded", k=15) for question in QUESTIONS]
        self._chunks = self._admin.execute(
            "SELECT id, text_content, document_id FROM document_chunks WHERE id = ANY(%s) ORDER BY id",
            [sorted({chunk for answer in answers for chunk in ids(answer)})],
        ).fetchall()

    def write(self, texts: Sequence[str]) -> None:
        """Write texts, one after the other and again, into each chunk and document."""
        rows = [(*chunk, texts[i % len(texts)]) for i, chunk in enumerate(self._chunks)]
        with self._admin.cursor() as cursor:
            cursor.executemany(
                "UPDATE document_chunks SET text_content = %s, section = %s, metadata = %s WHERE id = %s",
                [(f"{words} {text}", text, json.dumps({"x" + text: text}), chunk) for chunk, words, _, text in rows],
            )
            documents = {document: text for _, _, document, text in rows}
            cursor.executemany(
                "UPDATE documents SET title = %s, path = %s WHERE id = %s",
                [(text, text, document) for document, text in documents.items()],
            )

    def ask(self, subject: str, run: str, step: str, question: str) -> RunName:
        """Ask, and store the run's citations; names are cut to what they may be."""
        name = RunName(
            subject_id=f"s{subject}"[:LONGEST_NAME], run_id=f"r{run}"[:LONGEST_NAME], step=f"t{step}"[:LONGEST_NAME]
        )
        fields = {"question": question, "mode": "grounded", "k": 12, "run": name.model_dump()}
        context = JobContext(lambda: asker("alice"), "t1")
        self._engine.pipeline_jobs.answer(parse_job(RunPipeline, fields), context)
        cite = parse_job(BuildCitations, {"cite": name.model_dump(), "verify": True, "store": False})
        self._engine.citing.build(cite, context)
        return name


def dead_letter(broker: Any, text: str) -> None:
    """A dead letter whose every field is a text."""
    broker.xadd("retrieval.dead", {**dict.fromkeys(DEAD, text.encode("utf-8", "replace")), "deliveries": 1, "bytes": 2})


def evaluation(folder: Path, text: str) -> None:
    """A report of an evaluation whose every name is a text."""
    estimate = {"mean": 0.5, "low": 0.4, "high": 0.6, "queries": 30}
    compared = {**estimate, "p": 0.1, "better": 1, "worse": 2, "verdict": "undecided"}
    report = {
        "report": "evaluation",
        "report_version": 1,
        "source": text[:900],
        "worker_version": text[:900],
        "made_at": text[:900],
        "settings": {"confidence": 0.95},
        "measures": [text[:900]],
        "systems": [{"name": text[:900], "kind": text[:900], "figures": {text[:900]: estimate}}],
        "comparisons": [
            {
                "first": text[:900],
                "second": text[:900],
                "queries": 30,
                "sentence": text[:900],
                "differences": {text[:900]: compared},
            }
        ],
        "degraded": {text[:900]: 3},
    }
    (folder / "report.json").write_text(json.dumps(report))
    (folder / f"{text.replace('/', '')[:40]}.json").write_text("{}")
