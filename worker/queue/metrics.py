"""Prometheus metrics of the workers on a machine.

Every pool process writes its numbers into mapped files of one folder (the multi-process mode of prometheus_client); the
process that serves a scrape sums the files. A file belongs to a slot, not to a process: to the number of a worker and
the number of a process in its pool. The next process in a slot continues its file, so nothing is lost when a process
dies, sums never decrease, and there are as many files as there were slots at once, however often processes restart.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import glob
import itertools
import os
import shutil
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, Summary, values
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

from retrieval_client.errors import SettingsError
from worker.adapters import logs
from worker.core.observations import Observation, of_job
from worker.queue.metrics_server import MetricsServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prometheus_client import Metric

    from worker.queue.broker.depths import Depth
    from worker.queue.metrics_server import Probed
    from worker.settings.serving import MetricsSettings

log = logs.logger("worker.metrics")

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_WAITS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
_SIMILARITIES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class Definition(NamedTuple):
    """Definition of a metric; `core.observations` makes its values."""

    kind: type[Counter | Histogram | Summary]
    name: str
    meaning: str
    labels: tuple[str, ...]
    options: Mapping[str, Any] = {}


DEFINITIONS = (
    Definition(
        Counter,
        "retrieval_jobs_total",
        "Attempts of jobs that ended. Outcome: ok, delayed (to be retried), interrupted (its process was asked to "
        "stop) or the class of the failure.",
        ("task", "outcome"),
    ),
    Definition(
        Histogram,
        "retrieval_job_duration_seconds",
        "Seconds of one attempt of a job, without its time in the queue.",
        ("task", "outcome"),
        {"buckets": _SECONDS},
    ),
    Definition(
        Histogram,
        "retrieval_stage_duration_seconds",
        "Seconds of a stage of an answered job, as in its trace; for a batch, of the whole batch.",
        ("task", "stage"),
        {"buckets": _SECONDS},
    ),
    Definition(
        Histogram,
        "retrieval_leg_duration_seconds",
        "Seconds of a leg of a hybrid search over all its corpora, if it did not fail.",
        ("leg",),
        {"buckets": _SECONDS},
    ),
    Definition(
        Histogram,
        "retrieval_queue_wait_seconds",
        "Seconds that messages waited from when a worker first saw them until a process took them, within a second. A "
        "message that an idle process waited for: 0. With turns, of its place in the queue.",
        ("queue",),
        {"buckets": _WAITS},
    ),
    Definition(
        Counter,
        "retrieval_degraded_answers_total",
        "Answers for which less was done, by what was missing, as in an answer's `degraded`.",
        ("task", "missing"),
    ),
    Definition(
        Counter,
        "retrieval_processes_ended_total",
        "Processes of pools that ended. Cause: exit (it was asked to, or had reached a limit), lost (it died), time "
        "limit, revoked (its job was) or stopped (it gave no sign of life, or the worker ended it).",
        ("cause",),
    ),
    Definition(
        Counter, "retrieval_cache_lookups_total", "Cache lookups of jobs. State: hit or miss.", ("task", "state")
    ),
    Definition(
        Counter,
        "retrieval_contextual_searches_total",
        "Hybrid searches by state of the contextual leg: used, skipped (no keywords, or no such leg) or failed.",
        ("state",),
    ),
    Definition(Counter, "retrieval_leg_results_total", "Chunks that a leg found.", ("corpus", "leg")),
    Definition(
        Counter,
        "retrieval_duplicate_results_total",
        "Chunks of a leg that an earlier leg had found.",
        ("corpus",),
    ),
    Definition(
        Histogram,
        "retrieval_leg_top_similarity",
        "Similarity of a leg's best chunk.",
        ("corpus", "leg"),
        {"buckets": _SIMILARITIES},
    ),
    Definition(
        Summary,
        "retrieval_leg_mean_similarity",
        "Mean similarity of a leg's chunks, search by search.",
        ("corpus", "leg"),
    ),
)


CAUSES = ("exit", "lost", "time limit", "revoked", "stopped")


class Gauge(NamedTuple):
    """Gauge that is read when it is asked for; `part` names its value in a queue's depth."""

    name: str
    meaning: str
    part: str = ""
    label: str = "queue"


_COUNTS = (
    Gauge("retrieval_dead_letters", "Dead letters in Redis; none while Redis is unavailable.", "dead"),
    Gauge(
        "retrieval_delayed_jobs",
        "Messages that wait for their due time (eta, countdown, retries) or were deferred.",
        "delayed",
    ),
)
_DETAILS = (
    Gauge("retrieval_waiting_jobs", "Messages that no process took.", "waiting"),
    Gauge(
        "retrieval_oldest_waiting_seconds",
        "How long the first message of the queue has waited since a worker first saw it, within a second; 0 if none "
        "waits.",
        "oldest_waiting_seconds",
    ),
    Gauge("retrieval_dead_letter_oldest_seconds", "Age of a queue's oldest dead letter.", "oldest_dead_seconds"),
)
_OF_POOL = (
    Gauge("retrieval_running_jobs", "Jobs that a worker's processes have and have not answered."),
    Gauge("retrieval_processes", "Processes of a worker's pool, by state: idle, busy, starting.", label="state"),
)

GAUGES = (*_COUNTS, *_DETAILS, *_OF_POOL)
"""Those of queues are the same from every worker: use max, not sum; Flower's user may only read the first two. The last
are of each worker: use sum."""


class Metrics:
    """Metrics of one worker, what its queues hold, and how it is."""

    def __init__(
        self,
        settings: MetricsSettings,
        depths: Callable[[], Iterable[Depth]] = list,
        of_pool: Callable[[], Sequence[Mapping[str, int]]] = list,
        probes: Probed | None = None,
    ) -> None:
        self._settings = settings
        self._depths = depths
        self._of_pool = of_pool
        self._probes = probes
        self._place = ""
        self._exits = contextlib.ExitStack()
        self._families: dict[str, Any] = {}

    @property
    def on(self) -> bool:
        """True if anything is counted."""
        return bool(self._families)

    def start(self) -> None:
        """Take a slot in the folder and serve ``/metrics`` until `close`; in the main process, before any fork.

        Raises:
            SettingsError: the folder can't be used, or the address and port can't be bound.
        """
        atexit.register(self.close)
        folder = Path(self._settings.folder or self._private_folder()).absolute()
        try:
            worker, reserved = _free_number(folder)
            self._exits.callback(reserved.close)
            own_files = _Files(f"{glob.escape(str(folder))}/*_{worker}-*.db")
            own_files.collect()  # checks that files it continues are readable
        except OSError as error:
            raise SettingsError(f"the setting metrics.folder, {folder}: {error.strerror}") from None
        except (RuntimeError, ValueError, struct.error):
            raise SettingsError(f"the setting metrics.folder, {folder}: a file in it is broken; empty it") from None
        self._place = f"{worker}-main"
        # prometheus_client takes the folder only from this variable. Its value class is set here and not by that
        # variable, so that a Flower started from the same environment keeps its own kind of metrics.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        values.ValueClass = values.MultiProcessValue(lambda: self._place)  # type: ignore[no-untyped-call] # it has no types
        self._families = {d.name: d.kind(d.name, d.meaning, d.labels, registry=None, **d.options) for d in DEFINITIONS}
        for cause in CAUSES:  # from 0 on: Prometheus sees no increase in the first value of a series
            self._families["retrieval_processes_ended_total"].labels(cause)
        if self._settings.port and self._probes is not None:
            self._serve(own_files, self._probes)

    def _serve(self, files: _Files, probes: Probed) -> None:
        registry = CollectorRegistry()
        registry.register(files)
        registry.register(_Depths(self._depths))
        registry.register(_OfPool(self._of_pool))
        where = self._settings
        try:
            server = MetricsServer(where.address, where.port, registry, probes)
        except OSError as error:
            raise SettingsError(
                f"the setting metrics.port: {where.address} port {where.port}: {error.strerror}"
            ) from None
        self._exits.callback(server.close)

    def _private_folder(self) -> str:
        folder = tempfile.mkdtemp(prefix="retrieval-metrics-")
        self._exits.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def forked(self, process: int) -> None:
        """Switch to a pool process's slot, after a fork, by its number in the pool."""
        self._place = f"{self._place.partition('-')[0]}-{process}"

    def close(self) -> None:
        """Release the slot, stop listening, remove a private folder."""
        self._exits.close()

    def job(self, task: str, outcome: str, seconds: float, answer: Mapping[str, Any] | None) -> None:
        """Add one job; arguments as for `of_job`. Does nothing before `start`."""
        if self._families:
            self._add(of_job(task, outcome, seconds, answer))

    def waited(self, queue: str, seconds: float, messages: int = 1) -> None:
        """Add messages that a process took after a wait. Does nothing before `start`."""
        if self._families:
            self._add([Observation("retrieval_queue_wait_seconds", (queue,), seconds)] * messages)

    def process_ended(self, cause: str) -> None:
        """Add the end of a process. Does nothing before `start`."""
        if self._families:
            self._add([Observation("retrieval_processes_ended_total", (cause,), 1)])

    def _add(self, observations: Iterable[Observation]) -> None:
        try:
            for metric, labels, value in observations:
                child = self._families[metric].labels(*labels)
                (child.inc if isinstance(child, Counter) else child.observe)(value)
        except Exception as error:  # noqa: BLE001 -- a full disk must not cost a job that is already answered
            log.warning("metrics not written", error=type(error).__name__, where=logs.where(error))


class _Files:
    """Collector for prometheus_client that sums the files matching a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def collect(self) -> Iterable[Metric]:
        # A file that a process creates at this moment is empty, and would fail the whole answer.
        files = [file for file in glob.glob(self._pattern) if os.path.getsize(file)]  # noqa: PTH202, PTH207 -- whole paths
        return list(MultiProcessCollector.merge(files))  # type: ignore[no-untyped-call] # it has no types


def _family(gauge: Gauge) -> GaugeMetricFamily:
    return GaugeMetricFamily(gauge.name, gauge.meaning, labels=[gauge.label])


class _Depths:
    """Collector of current queue depths, read from Redis and so the same on every worker."""

    def __init__(self, depths: Callable[[], Iterable[Depth]]) -> None:
        self._depths = depths

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering does not query Redis, which may be unavailable."""
        return []

    def collect(self) -> Iterable[Metric]:
        families = {gauge: _family(gauge) for gauge in (*_COUNTS, *_DETAILS)}
        for depth in self._depths():
            for gauge in _COUNTS:
                families[gauge].add_metric([depth.queue], getattr(depth, gauge.part))
            for gauge in _DETAILS if depth.details else ():
                families[gauge].add_metric([depth.queue], getattr(depth.details, gauge.part))
        return families.values()


class _OfPool:
    """Collector of what the processes of this worker's pool do."""

    def __init__(self, look: Callable[[], Sequence[Mapping[str, int]]]) -> None:
        self._look = look

    def collect(self) -> Iterable[Metric]:
        families = [_family(gauge) for gauge in _OF_POOL]
        for family, counts in zip(families, self._look(), strict=False):
            for label, count in counts.items():
                family.add_metric([label], count)
        return families


def show_shared(folder: str, depths: Callable[[], Iterable[Depth]] = list) -> None:
    """Add the metrics of all workers of a folder, if one is set, to this process's own ``/metrics`` (Flower's).

    Raises:
        SettingsError: there is no such folder, and it can't be created.
    """
    if folder:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"the setting metrics.folder, {folder}: {error.strerror}") from None
        MultiProcessCollector(REGISTRY, path=folder)  # type: ignore[no-untyped-call] # it has no types
        REGISTRY.register(_Depths(depths))


def _free_number(folder: Path) -> tuple[int, BinaryIO]:
    """Return the lowest number that no running worker of this folder has, and the open file that reserves it.

    Pool processes inherit the file, so a number is free only once the last process that could write has ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        file = (folder / f"{number}.lock").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
        else:
            return number, file
    raise AssertionError  # there is always a next number
