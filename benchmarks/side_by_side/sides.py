"""The sides that are compared: each can answer many queries as fast as it can, and one with its latency."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import redis
from benchmarks.side_by_side.peers import WORKERS
from celery import Celery

from retrieval_client.errors import RetrievalError
from synthetic.loading import TENANT
from synthetic.stage import CORPUS
from workbench.calibration import fixed_width
from workbench.devstack.processes import spawn_python, stop, wait_until
from workbench.devstack.workers import celery_worker
from worker.settings import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from synthetic.vectors import Vectors

PROCESSES = 2
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.004
BROKER, RESULTS, PREPARED, LISTS = range(4)
"""Databases of the Redis server: queues, results, messages that wait for their round, and those of `ListSide`."""


class Failed(RetrievalError):
    """A side did not answer, or not as it should."""


@dataclass(frozen=True)
class Site:
    """Servers and data that all sides use.

    Attributes:
        root: folder for logs and files.
        redis_port: of the server that all share.
        dsn: of the worker's own role, which row-level security holds for.
        url: of a superuser, for the libraries, which have no way to state a caller.
        queries: shape (n, 768).
        k: chunks wanted.
        ef_search: the same for all.
    """

    root: Path
    redis_port: int
    dsn: str
    url: str
    queries: Vectors
    k: int
    ef_search: int

    def redis_url(self, database: int) -> str:
        """Return the URL of one numbered database."""
        return f"redis://127.0.0.1:{self.redis_port}/{database}"

    def client(self, database: int) -> redis.Redis:
        """A connection to it."""
        return redis.Redis.from_url(self.redis_url(database), socket_timeout=None)  # for commands that block

    @cached_property
    def environment(self) -> dict[str, str]:
        """Return the environment of a process, without the caller's own variables for workers."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith((PREFIX, "CELERY_"))}
        return {
            **inherited,
            "BENCH_DSN": self.dsn,
            "BENCH_URL": self.url,
            "BENCH_TENANT": TENANT,
            "BENCH_K": str(self.k),
            "BENCH_BROKER": self.redis_url(BROKER),
            "BENCH_RESULTS": self.redis_url(RESULTS),
            "BENCH_LISTS": self.redis_url(LISTS),
        }


class Side(Protocol):
    """One of those compared."""

    def processes(self) -> list[int]:
        """Whose processor time is the side's own, with their children's."""

    def prepare(self, count: int) -> None:
        """Make ready to answer the first ``count`` queries (from the start again where there are fewer)."""

    def run(self) -> float:
        """Answer what was prepared with all processes; the seconds that it took."""

    def found(self) -> list[list[str]]:
        """Chunk ids of each answer of the last run, in the order of the queries."""

    def call(self, place: int) -> float:
        """Ask one query and wait for its answer; milliseconds."""


# --- without Celery -----------------------------------------------------------------------------


class BareSide:
    """Loops around the plain query: no queue at all."""

    def __init__(self, site: Site, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._site, self._loops = site, processes
        self._count = 0
        self._answers: list[list[str]] = []

    def processes(self) -> list[int]:
        return [loop.pid for loop in self._loops]

    def prepare(self, count: int) -> None:
        self._count = count

    def run(self) -> float:
        loops = len(self._loops)
        for place, loop in enumerate(self._loops):
            _tell(loop, first=place, step=loops, count=len(range(place, self._count, loops)))
        replies = [_heard(loop) for loop in self._loops]
        self._answers = [replies[i % loops]["ids"][i // loops] for i in range(self._count)]
        return max(reply["seconds"] for reply in replies)

    def found(self) -> list[list[str]]:
        return self._answers

    def call(self, place: int) -> float:
        _tell(self._loops[0], first=place, step=1, count=1)
        return float(_heard(self._loops[0])["ms"][0])


def _tell(loop: subprocess.Popen[str], **order: int) -> None:
    assert loop.stdin is not None
    loop.stdin.write(json.dumps(order) + "\n")
    loop.stdin.flush()


def _heard(loop: subprocess.Popen[str]) -> dict[str, Any]:
    assert loop.stdout is not None
    line = loop.stdout.readline()
    if not line:
        raise Failed("the bare loop ended; its errors are above")
    return dict(json.loads(line))


@contextlib.contextmanager
def bare(site: Site, queries: Path) -> Iterator[Side]:
    """Two processes that wait for their orders."""
    with contextlib.ExitStack() as exits:
        loops = []
        for _ in range(PROCESSES):
            loop = subprocess.Popen(
                [sys.executable, str(WORKERS / "bare.py"), str(queries)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=site.environment,
                start_new_session=True,
            )
            exits.callback(_close, loop)
            _heard(loop)  # it is ready
            loops.append(loop)
        yield BareSide(site, loops)


def _close(loop: subprocess.Popen[str]) -> None:
    stop(loop, signal.SIGTERM)  # of text, where `stop` says bytes: it reads neither
    for pipe in (loop.stdin, loop.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class ListSide:
    """Bare processes that take jobs from a Redis list."""

    def __init__(self, site: Site, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._site, self._workers = site, processes
        self._client = site.client(LISTS)
        self._embeddings = [encoded(query) for query in site.queries]
        self._jobs: list[bytes] = []
        self._names: list[str] = []

    def processes(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def prepare(self, count: int) -> None:
        self._client.flushdb()
        self._names = [uuid.uuid4().hex for _ in range(count)]
        self._jobs = [self._job(i, name) for i, name in enumerate(self._names)]

    def _job(self, place: int, name: str) -> bytes:
        return orjson.dumps({"id": name, "embedding": self._embeddings[place % len(self._embeddings)]})

    def run(self) -> float:
        started = time.perf_counter()
        self._client.lpush("jobs", *self._jobs)
        # One key for each answer, and one for the list of those that are being answered.
        wait_for(lambda: self._client.dbsize() >= len(self._jobs) and not self._client.exists("doing", "jobs"))
        return time.perf_counter() - started

    def found(self) -> list[list[str]]:
        with self._client.pipeline(transaction=False) as pipe:
            for name in self._names:
                pipe.lindex(f"reply:{name}", 0)
            return [chunk_ids(orjson.loads(answer)) for answer in pipe.execute()]

    def call(self, place: int) -> float:
        name = uuid.uuid4().hex
        started = time.perf_counter()
        self._client.lpush("jobs", self._job(place, name))
        answer = self._client.blpop([f"reply:{name}"], timeout=PATIENCE_SECONDS)
        if answer is None:
            raise Failed("the bare Redis worker does not answer")
        orjson.loads(answer[1])
        return (time.perf_counter() - started) * 1000


@contextlib.contextmanager
def lists(site: Site) -> Iterator[Side]:
    """Two processes that wait for jobs."""
    with contextlib.ExitStack() as exits:
        workers = []
        for i in range(PROCESSES):
            log = site.root / f"blmove-{i}.log"
            worker, file = spawn_python([sys.executable, str(WORKERS / "blmove.py")], site.environment, log)
            exits.callback(file.close)
            exits.callback(stop, worker, signal.SIGTERM)
            wait_until(lambda log=log: "ready" in log.read_text(), worker, "the bare Redis worker", log)
            workers.append(worker)
        yield ListSide(site, workers)


# --- in Celery ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Route:
    """Queue and task of a Celery side.

    Attributes:
        task: name of its task.
        queue: which its worker serves.
        batch: queries of one job; 0: one, in the task's form for a single query.
        ours: whether the job is of this project's contract; a list of numbers otherwise.
    """

    task: str
    queue: str
    batch: int = 0
    ours: bool = False


class CelerySide:
    """A Celery worker with two processes."""

    def __init__(self, site: Site, route: Route, worker: subprocess.Popen[bytes]) -> None:
        self._site, self._route, self._worker = site, route, worker
        self._broker, self._results = site.client(BROKER), site.client(RESULTS)
        self._preparing = _app(site, PREPARED)
        self._asking = _app(site, BROKER)
        self._form = encoded if route.ours else lambda query: query.tolist()
        self._embeddings = [self._form(query) for query in site.queries]
        self._messages: list[bytes] = []
        self._tasks: list[str] = []

    def processes(self) -> list[int]:
        return [self._worker.pid]

    def batched(self, size: int) -> CelerySide:
        """The same worker, with several queries a job."""
        return CelerySide(self._site, dataclasses.replace(self._route, batch=size), self._worker)

    def close(self) -> None:
        """Close the connections to Redis."""
        for app in (self._preparing, self._asking):
            app.close()
        self._broker.close()
        self._results.close()

    def prepare(self, count: int) -> None:
        size = max(1, self._route.batch)
        self._results.flushdb()
        self._tasks = [self._send(self._preparing, range(i, min(i + size, count))).id for i in range(0, count, size)]
        with self._site.client(PREPARED) as prepared:
            # In a list, the next one is at the right end.
            self._messages = prepared.lrange(self._route.queue, 0, -1)
            prepared.flushdb()

    def _send(self, app: Celery, places: Sequence[int]) -> Any:
        embeddings = [self._embeddings[place % len(self._embeddings)] for place in places]
        job: Any = embeddings[0]
        if self._route.ours:
            embedding_field = (
                {"query_embeddings": embeddings} if self._route.batch else {"query_embedding": embeddings[0]}
            )
            job = {**embedding_field, "k": self._site.k, "principal": {"tenant_id": TENANT}}
        return app.send_task(self._route.task, (job,), queue=self._route.queue, argsrepr="(job)", kwargsrepr="{}")

    def run(self) -> float:
        started = time.perf_counter()
        # As messages that wait already: what a client takes to send them is no part of a worker's throughput.
        self._broker.rpush(self._route.queue, *self._messages)
        wait_for(lambda: self._results.dbsize() >= len(self._messages))
        return time.perf_counter() - started

    def found(self) -> list[list[str]]:
        stored = self._results.mget([f"celery-task-meta-{task}" for task in self._tasks])
        ids = []
        for record in stored:
            answer = orjson.loads(record)
            if answer["status"] != "SUCCESS":
                raise Failed(f"{self._route.queue}: a job failed: {answer['result']}")
            result = answer["result"]
            ids += [chunk_ids(query_answer) for query_answer in (result["results"] if self._route.batch else [result])]
        return ids

    def call(self, place: int) -> float:
        started = time.perf_counter()
        places = [place + i for i in range(max(1, self._route.batch))]
        self._send(self._asking, places).get(timeout=PATIENCE_SECONDS)
        return (time.perf_counter() - started) * 1000


def _app(site: Site, database: int) -> Celery:
    """A plain Celery client, the same for every side."""
    app = Celery(set_as_current=False)
    app.backend_cls = site.redis_url(RESULTS)
    url = site.redis_url(database)
    app.conf.update(broker_read_url=url, broker_write_url=url)
    return app


@contextlib.contextmanager
def ours(site: Site) -> Iterator[tuple[Side, Side]]:
    """This project's worker, asked with one query a job, and with sixteen."""
    settings = {
        "TRUST_QUEUE": "true",
        "LOG__LEVEL": "WARNING",
        # The same width as the others', not one by the corpus.
        "CALIBRATION": json.dumps({CORPUS: fixed_width(site.ef_search).model_dump()}),
    }
    environment = {
        **site.environment,
        "DATABASE_CONNECTION_STRING": site.dsn,
        "CELERY_BROKER_URL": site.redis_url(BROKER),
        "CELERY_RESULT_BACKEND": site.redis_url(RESULTS),
        **{PREFIX + name: value for name, value in settings.items()},
    }
    options = (f"--concurrency={PROCESSES}", "--loglevel=WARNING")
    with contextlib.ExitStack() as exits:
        log = site.root / "ours.log"
        worker = exits.enter_context(celery_worker(environment, log, *options, queues="retrieval"))
        routes = [Route("retrieve_top_k", "retrieval", batch, ours=True) for batch in (0, 16)]
        single, sixteen = (exits.enter_context(contextlib.closing(CelerySide(site, route, worker))) for route in routes)
        yield single, sixteen


@contextlib.contextmanager
def in_celery(site: Site, name: str, python: Path) -> Iterator[Side]:
    """``workers/of_<name>.py`` in a Celery worker of a given environment."""
    command = [
        *(str(python), "-m", "celery", "-A", f"of_{name}", "worker", "-n", f"{name}@localhost", "-Q", name),
        *("--without-mingle", "--without-gossip", f"--concurrency={PROCESSES}", "--loglevel=WARNING"),
    ]
    log = site.root / f"{name}.log"
    with contextlib.ExitStack() as exits:
        worker, file = spawn_python(command, {**site.environment, "PYTHONPATH": str(WORKERS)}, log)
        exits.callback(file.close)
        exits.callback(stop, worker, signal.SIGTERM)
        app = _app(site, BROKER)
        exits.callback(app.close)
        with app.connection_for_write() as connection:  # one of kombu's pool may have been silent for two minutes
            wait_until(
                lambda: bool(app.control.ping([f"{name}@localhost"], timeout=0.25, connection=connection)),
                worker,
                name,
                log,
            )
        yield exits.enter_context(contextlib.closing(CelerySide(site, Route("search", name), worker)))


# --- what they have in common -------------------------------------------------------------------


def encoded(query: Any) -> str:
    """An embedding as base64 of little-endian float32."""
    return base64.b64encode(query.astype("<f4").tobytes()).decode()


def chunk_ids(answer: Mapping[str, Any]) -> list[str]:
    """Return the ids of one answer, nearest first."""
    return [chunk["chunk_id"] for chunk in answer["chunks"]]


def wait_for(is_so: Callable[[], bool]) -> None:
    """Poll until it is so.

    Raises:
        Failed: it takes too long.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise Failed(f"no answer within {PATIENCE_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
