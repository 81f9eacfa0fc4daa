from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from prometheus_client import CollectorRegistry, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector

from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import InvalidJob, SettingsError
from worker.core.observations import of_job
from worker.queue.broker.inspection import DeliveredJob
from worker.queue.metrics import DEFINITIONS, Metrics, _Files
from worker.queue.outcome import Answers
from worker.queue.probes import Probes
from worker.settings.serving import MetricsSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "contract" / "examples"


@pytest.fixture(autouse=True)
def _own_kind_of_values(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starting metrics chooses how prometheus_client keeps values, for the whole process."""
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    yield
    values.close_all_multiprocess_files()


@pytest.fixture
def start(tmp_path: Path, make_settings: Callable[..., Settings]) -> Iterator[Callable[..., Metrics]]:
    """Starts the metrics of a worker on this test's folder."""
    started = []

    def make(folder: Path = tmp_path, **settings: Any) -> Metrics:
        probes = Probes(make_settings(), lambda: None)
        metrics = Metrics(MetricsSettings(folder=str(folder), **settings), probes=probes)
        started.append(metrics)
        metrics.start()
        return metrics

    yield make
    for metrics in started:
        metrics.close()


def text(folder: Path) -> str:
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))
    return generate_latest(registry).decode()


def test_each_process_writes_its_own_file_and_they_are_added_up(start: Callable[..., Metrics], tmp_path: Path) -> None:
    """The place in the pool names the file: the next process in it continues the file."""
    metrics = start()
    for place in (0, 1, 0):
        metrics.forked(place)
        metrics.job("retrieve_top_k", "ok", 0.25, None)
    names = [f"counter_0-{place}.db" for place in ("0", "1", "main")]
    assert sorted(file.name for file in tmp_path.glob("counter_*")) == names
    assert 'retrieval_jobs_total{outcome="ok",task="retrieve_top_k"} 3.0' in text(tmp_path)
    assert 'retrieval_job_duration_seconds_sum{outcome="ok",task="retrieve_top_k"} 0.75' in text(tmp_path)


def test_a_file_that_is_only_just_created_costs_no_answer(start: Callable[..., Metrics], tmp_path: Path) -> None:
    """Another process creates it while this one adds up: it is empty for a moment."""
    start().job("retrieve_top_k", "ok", 0.25, None)
    (tmp_path / "counter_0-7.db").touch()
    registry = CollectorRegistry()
    registry.register(_Files(str(tmp_path / "*.db")))
    assert 'retrieval_jobs_total{outcome="ok",task="retrieve_top_k"} 1.0' in generate_latest(registry).decode()


def test_workers_of_one_folder_have_different_numbers(start: Callable[..., Metrics], tmp_path: Path) -> None:
    """A number is free again once its worker has ended."""
    first, second = start(), start()
    for metrics in (first, second):
        metrics.job("retrieve_top_k", "ok", 0.25, None)
    first.close()
    start().job("retrieve_top_k", "ok", 0.25, None)
    assert sorted(file.name for file in tmp_path.glob("counter_*")) == ["counter_0-main.db", "counter_1-main.db"]
    assert 'retrieval_jobs_total{outcome="ok",task="retrieve_top_k"} 3.0' in text(tmp_path)


def test_a_folder_that_is_none_stops_the_start(start: Callable[..., Metrics], tmp_path: Path) -> None:
    """One sentence with the setting's name and the folder."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SettingsError, match=r"metrics\.folder, .*/file: "):
        start(file)


def test_a_broken_file_stops_the_start(start: Callable[..., Metrics], tmp_path: Path) -> None:
    """Before it is carried on: a number would be written into the middle of something else."""
    (tmp_path / "counter_0-0.db").write_bytes(b"\xff\x00\x00\x00" + b"\xff" * 300)
    with pytest.raises(SettingsError, match="a file in it is broken; empty it"):
        start()


def test_a_port_that_is_taken_stops_the_start(start: Callable[..., Metrics]) -> None:
    """One sentence with the setting's name, the address and the port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"metrics\.port: 127\.0\.0\.1 port {port}: Address already in use"):
            start(port=port)


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (InvalidJob("expected another", "corpus"), "InvalidJob"),
        (SoftTimeLimitExceeded(), "TimedOut"),
        (KeyError("canary"), "InternalError"),
        (SystemExit(1), "interrupted"),
    ],
)
def test_a_failure_counts_under_its_name_on_the_wire(
    start: Callable[..., Metrics],
    make_settings: Callable[..., Settings],
    tmp_path: Path,
    raised: BaseException,
    outcome: str,
) -> None:
    """A process exits as it would without metrics, and a failure to write them is no failure of the job."""

    def answer(*_: Any) -> dict[str, Any]:
        raise raised

    job = DeliveredJob("retrieve_top_k", "an id", [{"query_embedding": [0.5] * 768}], {}, {})
    with contextlib.suppress(SystemExit):
        unused: Any = None
        Answers({"retrieve_top_k": (RetrieveTopK, answer)}, make_settings(), start(), unused).outcome(job, 0.0)
    assert f'retrieval_jobs_total{{outcome="{outcome}",task="retrieve_top_k"}} 1.0' in text(tmp_path)


def test_nothing_is_kept_before_the_start(tmp_path: Path) -> None:
    """Flower makes the same app, and starts no metrics."""
    Metrics(MetricsSettings(folder=str(tmp_path))).job("retrieve_top_k", "ok", 0.25, None)
    assert not list(tmp_path.iterdir())


def test_what_the_contract_s_answers_add_is_defined() -> None:
    """Each observation of each published example of an answer names a metric, and has a value for each label."""
    of_queues = {"retrieval_queue_wait_seconds", "retrieval_processes_ended_total"}
    labels = {definition.name: len(definition.labels) for definition in DEFINITIONS if definition.name not in of_queues}
    answers = [{"trace": {}, "degraded": ["contextual"]}]
    answers += [json.loads(file.read_text()) for file in sorted(EXAMPLES.rglob("*.json"))]
    seen = [
        each
        for answer in answers
        if isinstance(answer, dict) and "trace" in answer
        for each in of_job("retrieve_hybrid", "ok", 0.1, answer)
    ]
    assert {each.metric: len(each.labels) for each in seen} == labels
