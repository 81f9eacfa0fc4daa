"""Engine: the handlers of one process's jobs, built once, after fork, from settings."""

from __future__ import annotations

import contextlib
import gc
import time
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from retrieval_client.errors import SettingsError
from worker.adapters.artifacts import Artifacts
from worker.adapters.postgres.checks import Checks
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.feedback import Judgements
from worker.adapters.postgres.read_replica import Standby
from worker.adapters.postgres.run_list import RunList
from worker.adapters.postgres.runs import Runs
from worker.adapters.postgres.sessions import Sessions
from worker.adapters.providers.embedder import make_started as make_embedder
from worker.adapters.providers.language_model import make as make_model
from worker.adapters.providers.remote_sources import RemoteSources
from worker.adapters.providers.reranker import rerankers
from worker.adapters.providers.tokenizer import token_counter
from worker.adapters.redis_cache import Cache
from worker.jobs.answer import WORKER_VERSION
from worker.jobs.cache import ResultCache
from worker.jobs.citations import CitationBuilder
from worker.jobs.corpora import Corpora
from worker.jobs.corpus_embedders import compared_with
from worker.jobs.drift import DriftCheck
from worker.jobs.feedback import Feedback
from worker.jobs.hybrid import TASK as HYBRID
from worker.jobs.hybrid import HybridRetrieval
from worker.jobs.parallel_search import ParallelSearch
from worker.jobs.pipeline.execution import Executor
from worker.jobs.pipeline.jobs import PipelineJobs
from worker.jobs.pipeline.queries import QueryMaker
from worker.jobs.pipeline.retrieval_pipeline import RetrievalPipeline
from worker.jobs.pipeline.source_cache import TASK as PIPELINE
from worker.jobs.pipeline.sources import SourceBuilder
from worker.jobs.query_embeddings import QueryEmbeddings
from worker.jobs.recording import Recording
from worker.jobs.replay import Replay
from worker.jobs.run_archive import RunArchive
from worker.jobs.run_files import RunFiles
from worker.jobs.run_reading import RunReader
from worker.jobs.side_calls import SideCalls
from worker.jobs.top_k import TASK as TOP_K
from worker.jobs.top_k import Retrieval
from worker.jobs.transforms import Transforms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from retrieval_client.contract.jobs import RunPipeline
    from worker.adapters.postgres.runs import Record
    from worker.jobs.answer import Handler
    from worker.jobs.context import JobContext
    from worker.model import Principal
    from worker.settings import Settings

_COLLECT_AFTER = 50_000
"""Garbage collection threshold in objects (Python's default is 700); a job of a thousand chunks creates fewer."""


def spare_start_up(**_: object) -> None:
    """Exclude start-up objects from garbage collection in a worker's main process, once, before it forks.

    Celery collects garbage before each fork. With all imported modules that takes 0.1 s of CPU, in which the main
    process dispatches no jobs: each killed pool process would delay the jobs of all others by that time.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def spare_collections() -> None:
    """Exclude start-up objects from garbage collection, and collect rarely; for a process ready for its first job.

    Start-up objects live until the process ends, so no later collection need traverse them. Nor need one run during a
    job: jobs leave hardly any cycles, and reference counting frees the rest.

    Nothing is collected first: that would find next to nothing, and write to every page that a forked process still
    shares with its parent (measured: 36 MB and 0.1 s of CPU per process).
    """
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


class Engine:
    """Handlers that tasks call.

    Args:
        settings: the worker's settings.
        clock: for traces only; no result depends on it.
        now: seconds since 1970, for profiles that use recency.

    Attributes:
        retrieval: answers `retrieve_top_k`.
        hybrid: answers `retrieve_hybrid`.
        replay: answers `pinned_replay`.
        citing: answers `build_citations`.
        files: files of runs.
        verifying: checks recorded runs in bulk.
        feedback: answers `record_feedback`, and proposes leg weights.
        exchange: exports and imports runs as files.
        paths: corpus → field of its chunks' metadata with the document's readable name.
        reading: reads recorded runs, for the inspector.
        handlers: by task, the function that answers a job in its context.

    Raises:
        SettingsError, Unavailable: see `worker.adapters.postgres.database.Database`.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float], now: Callable[[], float] = time.time) -> None:
        self._database = Database(settings)
        reading = settings.of_the_standby
        self._standby = None if reading is None else Standby(self._database, reading)
        searched = self._standby or self._database
        corpora = Corpora(settings, self._database)
        runs = Runs(self._database)
        recording = Recording(runs)
        embedder, model = make_embedder(settings.embedder), make_model(settings.language_model)
        self._side_calls = SideCalls()
        transforms = Transforms(model, self._side_calls)
        filled = compared_with(embedder, settings, self._database)
        embeddings = QueryEmbeddings(embedder, self._side_calls, filled, settings.embedder.usual_similarities)
        prices = settings.price_table()
        self.retrieval = Retrieval(corpora, searched, recording, clock)
        # Cached results are stored under the primary's version, so they must be searched there.
        self._legs = {
            task: ParallelSearch(self._database if task in settings.cache.tasks else searched, settings.pool.max_size)
            for task in (HYBRID, PIPELINE)
        }
        self._cache = Cache(settings) if settings.cache.tasks else None
        caching = ResultCache(self._cache, corpora, settings, embedder, WORKER_VERSION, clock)
        self.hybrid = HybridRetrieval(
            corpora, self._legs[HYBRID], embeddings, transforms, caching, recording, settings.hybrid, prices, clock
        )
        self.replay = Replay(corpora, runs, recording, clock)
        self.files = RunFiles(runs, Artifacts(settings.artifacts))
        self.accepted = settings.citations.accepted
        self.citing = CitationBuilder(corpora, runs, self.replay, self.files, self.accepted, clock)
        self.verifying = DriftCheck(Checks(self._database), self.replay)
        judgements = Judgements(self._database)
        self.feedback = Feedback(corpora, runs, judgements, settings.hybrid, clock)
        readers = {TOP_K: self.retrieval.from_record, HYBRID: self.hybrid.from_record, PIPELINE: self._read_pipeline}
        self.reading = RunReader(runs, RunList(self._database), readers, self.replay, self.citing, self.files, corpora)
        self.exchange = RunArchive(runs, judgements, self.files, self.reading, self._withholds)
        self._remote = RemoteSources(settings.remote)
        self.paths = settings.paths
        queries = QueryMaker(embeddings, self._side_calls, transforms, model, settings.hybrid, clock)
        sessions = Sessions(self._database)
        legs = self._legs[PIPELINE]

        def pipeline() -> RetrievalPipeline:
            chosen, replay, remote = rerankers(settings, model), self.replay, self._remote
            builder = SourceBuilder(
                settings, corpora, legs, queries, chosen, replay, remote, caching, prices, clock, now
            )
            counter = token_counter(settings.language_model.tokenizer)
            executor = Executor(model, prices, self.paths, self.accepted, settings.embedder.evidence_wanted)
            return RetrievalPipeline(builder, executor, self.paths, counter, clock)

        self._make_pipeline = pipeline
        self._make_jobs = partial(
            PipelineJobs, corpora=corpora, sessions=sessions, recording=recording, files=self.files
        )
        self.handlers: Mapping[str, Handler] = {
            "retrieve_top_k": self.retrieval.top_k,
            "pinned_replay": self.replay.pinned,
            "build_citations": self.citing.build,
            "retrieve_hybrid": self.hybrid.retrieve,
            "run_pipeline": self._run_pipeline,
            "record_feedback": self.feedback.answer,
        }
        # A part that can't be built must not stop other tasks; the job that needs it gets the error.
        with contextlib.suppress(SettingsError):
            _ = self.pipeline_jobs

    @cached_property
    def pipeline(self) -> RetrievalPipeline:
        """Pipeline of the three stages, for use from Python.

        Raises:
            SettingsError: a reranker or the tokenizer of the settings can't be built.
        """
        return self._make_pipeline()

    @cached_property
    def pipeline_jobs(self) -> PipelineJobs:
        """Handler of `run_pipeline`; raises as `pipeline` does."""
        return self._make_jobs(self.pipeline)

    def _run_pipeline(self, job: RunPipeline, context: JobContext) -> dict[str, Any]:
        """Answer `run_pipeline`; raises as `pipeline` does."""
        return self.pipeline_jobs.answer(job, context)

    def _read_pipeline(self, record: Record, caller: Principal) -> dict[str, Any]:
        return self.pipeline_jobs.from_record(record, caller).as_answer()

    def _withholds(self, record: Record, caller: Principal) -> bool:
        return record.task == PIPELINE and bool(self.pipeline_jobs.from_record(record, caller).withheld)

    def close(self) -> None:
        """Close the connections to Postgres and the cache, and stop threads."""
        self._side_calls.close()
        for legs in self._legs.values():
            legs.close()
        if self._cache is not None:
            self._cache.close()
        if self._standby is not None:
            self._standby.close()
        self._database.close()
