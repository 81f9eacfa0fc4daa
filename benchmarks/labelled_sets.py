"""The labelled sets, each loaded by the local model into a server of its own, and what each leg finds there."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from synthetic.stage import settings_for
from workbench.devstack.postgres import postgres_server
from workbench.evaluation.queries import read_queries
from worker.adapters.postgres.text_statistics import refresh
from worker.adapters.providers.embedder import make
from worker.cli import corpus_files
from worker.cli.loader import load, migrate
from worker.core.ranking.fusion import RankedLeg
from worker.core.ranking.measures import mean, ndcg
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.pipeline.types import CorpusSearch, QueryRequest
from worker.model import Candidate, Chunk, Principal
from worker.settings.providers import DEFAULT_MODEL, EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from workbench.evaluation.queries import LabelledQuery
    from worker.settings import Settings

FOLDER = Path(__file__).parent / "labelled"
DEPTH = 30
K = 5
CALLER = Principal({"user_id": "alice"}, (("app.user_id", "alice"), ("app.tenant_id", ""), ("app.roles", "")), "alice")


@dataclass(frozen=True)
class LabelledSet:
    """A labelled set; see `benchmarks/labelled/README.md`.

    Attributes:
        name: its name in tables.
        folder: of its queries.
        corpora: its corpora, as files for `retrieval-worker load`.
    """

    name: str
    folder: Path
    corpora: Sequence[Path]

    @cached_property
    def queries(self) -> list[LabelledQuery]:
        """The queries with an answer in the corpora."""
        return read_queries(self.folder / "queries.jsonl")

    @cached_property
    def unanswerable(self) -> list[LabelledQuery]:
        """Queries without an answer in the corpora."""
        return read_queries(self.folder / "unanswerable.jsonl")

    @cached_property
    def contexts(self) -> list[LabelledQuery]:
        """The further queries that all have an editor's state."""
        return read_queries(self.folder / "contexts.jsonl")


SAMPLES = LabelledSet("samples", FOLDER, tuple(corpus_files.SAMPLES.values()))
SETS = (
    SAMPLES,
    *(LabelledSet(name, FOLDER / name, (FOLDER / name / "corpus.json",)) for name in ("stdlib", "almanac")),
)


@contextlib.contextmanager
def loaded(labelled: LabelledSet, model: str = DEFAULT_MODEL) -> Iterator[Settings]:
    """Settings as shipped, but for a local model, over the set's corpora on a server of its own."""
    embedder = EmbedderSettings(kind="local", folder=model)
    with (
        tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True) as folder,
        postgres_server(Path(folder).resolve()) as server,
    ):
        settings = settings_for(server.dsn(user="retrieval_worker")).model_copy(update={"embedder": embedder})
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            migrate(admin)
            for file in map(corpus_files.read, labelled.corpora):
                load(admin, file, make(embedder))
                refresh(admin, file.corpus, settings.corpora[file.corpus])
        yield settings


def opened(settings: Settings) -> AbstractContextManager[Engine]:
    """An engine of these settings."""
    return contextlib.closing(Engine(settings, time.perf_counter))


# --- answers ------------------------------------------------------------------------------------


def retrieved(engine: Engine, asked: LabelledQuery, **job: Any) -> dict[str, Any]:
    """The answer of `retrieve_hybrid` over the corpus of what is asked."""
    whole = {"query": asked.question, "searches": [{"corpus": asked.corpus, "top_k": K}], **job}
    return engine.hybrid.retrieve(parse_job(RetrieveHybrid, whole), JobContext(lambda: CALLER))


def ids(answer: Mapping[str, Any], query: LabelledQuery) -> list[str]:
    """Ids of an answer's chunks, best first."""
    return [chunk["chunk_id"] for chunk in answer["results"][query.corpus]["chunks"]]


def sourced(engine: Engine, query: LabelledQuery, profile: str, context: str = "") -> list[str]:
    """Ids of the sources that a profile finds for an answer, best first."""
    request = QueryRequest(
        question=query.question,
        mode="grounded",
        profile=profile,
        k=K,
        context=context,
        searches=[CorpusSearch(query.corpus, K)],
    )
    return [candidate.chunk.id for candidate in engine.pipeline.build_sources(request, CALLER).candidates]


# --- legs, to be fused again and again without searching ------------------------------------------


@dataclass(frozen=True)
class Found:
    """The ranked list of each leg for one query.

    Attributes:
        query: the query.
        group: name of its set.
        legs: by name, the ranked list of each, as deep as `DEPTH`.
        nearest: similarity of the nearest chunk.
        reworded: the same with the glossary, where it changes the query.
    """

    query: LabelledQuery
    group: str
    legs: Mapping[str, RankedLeg]
    nearest: float
    reworded: Mapping[str, RankedLeg] = field(default_factory=dict)


def found(settings: Settings, labelled: LabelledSet, queries: Sequence[LabelledQuery]) -> list[Found]:
    """Search each leg alone, for each query."""
    with opened(settings) as engine:
        return [_found(engine, labelled, query) for query in queries]


def _found(engine: Engine, labelled: LabelledSet, query: LabelledQuery) -> Found:
    plain = retrieved(engine, query, context=query.context, legs=["primary", "contextual"])
    legs = _legs(engine, query, query.question)
    if plain["context_keywords"]:
        text = " ".join([query.question, *plain["context_keywords"]])
        legs["contextual"] = _leg(engine, query, text, "contextual", DEPTH)
    worded = retrieved(engine, query, transform="glossary")["transformed_query"]
    reworded = {} if worded == query.question else _legs(engine, query, worded)
    nearest = max((one.similarity or -1.0 for one in legs["primary"].candidates), default=-1.0)
    return Found(query, labelled.name, legs, nearest, reworded)


def _legs(engine: Engine, query: LabelledQuery, text: str) -> dict[str, RankedLeg]:
    return {name: _leg(engine, query, text, name, DEPTH) for name in ("primary", "sparse")}


def _leg(engine: Engine, query: LabelledQuery, text: str, name: str, depth: int) -> RankedLeg:
    leg = "sparse" if name == "sparse" else "primary"
    search = {"corpus": query.corpus, "top_k": depth}
    answer = retrieved(engine, query, query=text, legs=[leg], fusion="rrf", searches=[search])
    chunks = answer["results"][query.corpus]["chunks"]
    candidates = tuple(
        Candidate(
            Chunk(one["chunk_id"], one["document_id"], one["text"], None, None, None, {}, one["chunk_hash"], 1),
            one["similarity_score"],
            corpus=query.corpus,
        )
        for one in chunks
    )
    return RankedLeg(name, candidates, tuple(one["scores"]["legs"][0]["score"] for one in chunks))


def shallow(leg: RankedLeg, depth: int) -> RankedLeg:
    """The best of a leg."""
    return RankedLeg(leg.name, leg.candidates[:depth], leg.scores[:depth])


# --- figures ------------------------------------------------------------------------------------


def quality(ranked: Sequence[str], query: LabelledQuery) -> float:
    """nDCG@5 of a ranking, 0-1."""
    return ndcg(ranked, {chunk: float(grade) for chunk, grade in query.grades.items()}, K) or 0.0


def by_group(found: Sequence[Found], values: Mapping[str, float]) -> float:
    """Mean of the sets' means: each set counts the same."""
    groups = defaultdict(list)
    for one in found:
        groups[one.group].append(values[one.query.id])
    return mean(mean(group) for group in groups.values()) or 0.0
