"""The shipped alerts and dashboard: checked by promtool, and asked of a real Prometheus that scrapes a real worker."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.waiting import wait_for

from retrieval_client import RetrieveTopK
from workbench.devstack.processes import free_port
from worker.queue.metrics import DEFINITIONS, GAUGES
from worker.settings.base import config_folder

from .jobs import PATIENT, QUERY, wait_for_locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from retrieval_client import Client

    from .jobs import Start

MONITORING = config_folder() / "monitoring"
CASES = Path(__file__).with_name("alert_cases.yaml")
RATE_INTERVAL = "1m"
TOP_K = RetrieveTopK(query_embedding=QUERY, principal={"user_id": "alice"})

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")), reason="no prometheus and promtool on PATH"
)


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return list(json.loads((MONITORING / "dashboard.json").read_text())["panels"])


def expressions() -> list[str]:
    """Every question of the dashboard and of the alerts."""
    targets = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [*targets, *(rule["expr"] for rule in rules())]


def test_every_question_is_about_metrics_that_there_are() -> None:
    """By their names, and by the labels that these have."""
    labels = {definition.name: {*definition.labels} for definition in DEFINITIONS}
    labels |= {gauge.name: {gauge.label} for gauge in GAUGES}
    for expression in expressions():
        names = {name.removesuffix("_bucket") for name in re.findall(r"\bretrieval_\w+", expression)}
        assert names <= labels.keys(), expression
        groups = re.findall(r"(?:by|on) \(([^)]*)\)", expression)
        said = {label for group in groups for label in group.split(", ") if label}
        said |= {*re.findall(r"[{,]\s*(\w+)(?:!?=~?)\"", expression)}
        known = {"le", "job", "instance"}.union(*(labels[name] for name in names))
        assert said <= known, expression


def test_every_panel_has_a_place_of_its_own() -> None:
    """None covers another; each has a title and names its data."""
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len({*places}) == len(places) == len({panel["title"] for panel in panels()})
    assert all(target["legendFormat"] for panel in panels() for target in panel["targets"])


@needs_prometheus
def test_alerts_are_raised_when_they_should_be(tmp_path: Path) -> None:
    """Each of them, of a fleet in trouble, in a readable sentence; none of a worker at work."""
    for file in (MONITORING / "alerts.yaml", CASES):
        shutil.copy(file, tmp_path)
    tests = yaml.safe_load(CASES.read_text())["tests"]
    tested = {case["alertname"] for test in tests for case in test["alert_rule_test"]}
    assert tested == {rule["alert"] for rule in rules()}
    command = ["promtool", "test", "rules", CASES.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A running Prometheus, to be asked."""

    def __init__(self, url: str) -> None:
        self._url = url

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"{self._url}{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
            return json.loads(answer.read())["data"]

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=60) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def values(self, expression: str) -> dict[str, float]:
        """Newest value of each series, by its labels."""
        result = self.get("/api/v1/query", query=expression.replace("$__rate_interval", RATE_INTERVAL))["result"]
        return {json.dumps(series["metric"], sort_keys=True): float(series["value"][1]) for series in result}


@contextlib.contextmanager
def prometheus(folder: Path, target: int) -> Iterator[Prometheus]:
    """A Prometheus that scrapes a port each second, and has the shipped alerts."""
    folder.mkdir()
    port = free_port()
    scraped = {"job_name": "retrieval-worker", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
    every = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    configuration = {"global": every, "rule_files": [str(MONITORING / "alerts.yaml")], "scrape_configs": [scraped]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    options = {
        "config.file": str(folder / "prometheus.yml"),
        "storage.tsdb.path": str(folder / "data"),
        "web.listen-address": f"127.0.0.1:{port}",
    }
    command = ["prometheus", *(f"--{name}={value}" for name, value in options.items())]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        wait_for(server.is_ready)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=60)


@needs_prometheus
def test_prometheus_sees_what_waits_as_long_as_it_waits(
    client: Client, admin: psycopg.Connection[Any], start: Start, tmp_path: Path
) -> None:
    """Every question of the dashboard has an answer; the newest scrape tells what this test has sent, and its age."""
    target = free_port()
    wait_for_locks(admin)
    with (
        start("--concurrency=1", METRICS__PORT=str(target), **PATIENT),
        prometheus(tmp_path / "prometheus", target) as server,
    ):
        for _ in range(3):
            client.call(TOP_K)
        with admin.transaction():
            admin.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
            queue = '{queue="retrieval"}'
            first = client.enqueue(TOP_K)
            wait_for(lambda: [*server.values(f"retrieval_running_jobs{queue}").values()] == [1.0])
            sent_at = time.monotonic()
            waiting = [client.enqueue(TOP_K) for _ in range(7)]
            wait_for(lambda: [*server.values(f"retrieval_waiting_jobs{queue}").values()] == [7])
            wait_for(lambda: min(server.values(f"retrieval_oldest_waiting_seconds{queue}").values()) >= 3)
            oldest = min(server.values(f"retrieval_oldest_waiting_seconds{queue}").values())
            assert oldest <= time.monotonic() - sent_at
            assert [*server.values(f"retrieval_running_jobs{queue}").values()] == [1]
            assert {'{"state": "busy"}': 1.0}.items() <= server.values("sum by (state) (retrieval_processes)").items()
        for task_id in (first, *waiting):
            client.result(task_id, timeout=180)
        wait_for(lambda: sum(server.values('retrieval_jobs_total{outcome="ok"}').values()) == 11)
        for expression in expressions():
            server.values(expression)  # an error, if Prometheus can't answer it
        groups = server.get("/api/v1/rules")["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} <= {"ok", "unknown"}
    assert len([rule for group in groups for rule in group["rules"]]) == len(rules())
