"""Inspector over the sample corpora: servers, recorded runs, and the pages of a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from workbench.devstack.stack import local_stack
from workbench.devstack.workers import stack_environment
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import count_words, load, migrate
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal
from worker.settings import load as load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.devstack.stack import Stack
    from worker.model import Principal
    from worker.settings import Settings

CALLER = "alice"
HUM = "What causes the 50 Hz hum on channel 18?"
KEY = "a key of the benchmarks"
SIGN_IN = "/sign-in?key=a+key+of+the+benchmarks"
"""Address that opens a session on the `pages`."""

NOISE = "noise floor of the stereo bus of the Calder 32 desk, unweighted"


@contextlib.contextmanager
def sample_engine(**changes: str) -> Iterator[tuple[Stack, Engine, Settings, Principal]]:
    """Servers with the sample corpora, an engine on them in this process, its settings, and a caller."""
    with local_stack() as stack:
        os.environ.update(stack_environment(stack, TRUST_QUEUE="true", EMBEDDER__KIND="lexical", **changes))
        os.environ["RETRIEVAL_WORKER_ARTIFACTS__URL"] = str(stack.root / "artifacts")
        settings = load_settings()
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
            migrate(admin)
            files = [read(file) for file in SAMPLES.values()]
            for file in files:
                load(admin, file, LexicalEmbedder())
            count_words(admin, settings.corpora, files)
        with contextlib.closing(Engine(settings, time.perf_counter)) as engine:
            yield stack, engine, settings, as_principal({"user_id": CALLER}, settings, "caller")


def record(engine: Engine, caller: Principal, subject: str, run: str, question: str, **fields: Any) -> None:
    """Answer a question, recorded as a run."""
    job_fields = {"question": question, "mode": "grounded", "run": {"subject_id": subject, "run_id": run}, **fields}
    engine.handlers["run_pipeline"](parse_job(RunPipeline, job_fields), JobContext(lambda: caller, run))


@contextlib.contextmanager
def pages() -> Iterator[str]:
    """Address of the pages of `retrieval-worker inspect`, with the environment of this process; see `SIGN_IN`."""
    command = [sys.executable, "-m", "workbench", "inspect", f"--as={CALLER}", "--port=0"]
    environment = {**os.environ, "INSPECTOR_KEY": KEY}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().strip().rstrip("/")
        finally:
            process.terminate()
