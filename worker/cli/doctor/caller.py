"""Checks as one caller: what it sees of each corpus, in numbers, and whether one search finds what is there."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from psycopg import sql

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from retrieval_client.errors import RetrievalError
from worker.adapters.durability import Finding
from worker.adapters.postgres.catalog import identifier
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.embedders import sample_for
from worker.cli.doctor.models import longest_sentence
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.model import Principal
    from worker.settings import Settings

_MOST, _SECONDS = 100_000, 10.0

_SEEN = """
SELECT count(*), count(DISTINCT document), count(*) FILTER (WHERE is_missing)
  FROM (SELECT {document} AS document, {embedding} IS NULL AS is_missing FROM {table} LIMIT {most}) AS visible
"""


def caller_findings(settings: Settings, caller: Principal) -> Iterator[Finding]:
    """Report the rows of each corpus that a caller sees, and the result of one search in it."""
    uncached = settings.model_copy(update={"cache": settings.cache.model_copy(update={"tasks": []})})
    try:
        database, engine = Database(settings), Engine(uncached, time.perf_counter)
    except RetrievalError:
        return  # reported with Postgres
    with contextlib.closing(database), contextlib.closing(engine):
        for name in settings.corpora:
            try:
                yield _seen(settings, database, caller, name)
                yield _searched(settings, database, engine, caller, name)
            except RetrievalError as error:
                yield Finding("problem", f"caller in {name}", error.message)


def _seen(settings: Settings, database: Database, caller: Principal, name: str) -> Finding:
    corpus = settings.corpora[name]
    counted = sql.SQL(_SEEN).format(
        document=sql.Identifier(corpus.columns.document_id),
        embedding=sql.Identifier(corpus.columns.embedding),
        table=identifier(corpus.table),
        most=_MOST,
    )
    (((rows, documents, missing),),) = database.read(caller, [(counted.as_bytes(None), {})], _SECONDS, corpora=[name])
    stated_settings = ", ".join(f"{setting} = {value!r}" for setting, value in caller.settings)
    if not rows:
        return Finding("advice", f"caller in {name}", f"sees no row: its policies are asked with {stated_settings}")
    visible_rows = f"{rows:,}{'+' if rows == _MOST else ''} rows of {documents:,} documents"
    if missing:
        cure = "embed those, or no search by meaning finds them"
        return Finding(
            "advice", f"caller in {name}", f"sees {visible_rows}, {missing:,} of them without an embedding: {cure}"
        )
    return Finding("ok", f"caller in {name}", f"sees {visible_rows}, each with an embedding")


def _searched(settings: Settings, database: Database, engine: Engine, caller: Principal, name: str) -> Finding:
    """Search for a sentence of a row that the caller sees; whether answers are right, this can't tell."""
    subject = f"caller in {name}"
    rows = sample_for(database, settings, name, caller, _SECONDS)
    if not rows.texts:
        return Finding("advice", subject, "no search is made: no row that it sees has a text and a vector")
    sentence = longest_sentence(rows.texts[0])
    job = parse_job(
        RetrieveHybrid, {"query": sentence, "searches": [{"corpus": name, "top_k": 7}], "legs": ["primary"]}
    )
    start = time.perf_counter()
    answer = engine.hybrid.retrieve(job, JobContext(lambda: caller))
    took = 1000 * (time.perf_counter() - start)
    chunks = [chunk for result in answer["results"].values() for chunk in result["chunks"]]
    place = next((rank for rank, chunk in enumerate(chunks, 1) if sentence in chunk["text"]), None)
    summary = f"one search by meaning for a sentence of a row that it sees: {len(chunks)} chunks in {took:.0f} ms"
    if place is None:
        cure = "compare the embedder with the corpus, and its max_distance"
        return Finding("advice", subject, f"{summary}, and none holds the sentence: {cure}")
    return Finding("ok", subject, f"{summary}, number {place} holds it. Whether answers are right is not judged")
