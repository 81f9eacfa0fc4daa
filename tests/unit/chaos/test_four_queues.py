"""The table of four queues: of those that have run, by their histories."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import chaos.further  # noqa: F401 -- defines its commands
from chaos import four_queues
from chaos.brokers import BROKERS
from chaos.commands import cli
from chaos.four_queues import FAULTS, WARM_UP, table
from chaos.ledger import Ledger
from chaos.stage import RunOptions
from retrieval_client.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_row_says_what_the_history_and_the_logs_say(tmp_path: Path) -> None:
    """A queue that has not run to its end has no row; without any there is no table."""
    (tmp_path / "ours.jsonl").touch()
    with pytest.raises(SettingsError, match="no queue has run"):
        [*table(tmp_path)]
    invoke = {"type": "invoke", "process": "p", "time": 0, "question": "q"}
    fault = {"type": "info", "process": "nemesis", "time": 1, "fault": "killed", "event": "begin"}
    answer = {"type": "ok", "process": "r", "time": 3.5, "answer": "x"}
    events = [invoke | {"id": "a"}, invoke | {"id": "b"}, fault, answer | {"id": "a"}]
    (tmp_path / "stock.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    said = {"again": 4, "held": "1", "throughput": 99.6, "seed": 7, "on": "Redis 7", "date": "2026-11-27"}
    (tmp_path / "stock.json").write_text(json.dumps(said))
    lines = [*table(tmp_path)]
    assert lines[2:4] == ["| Celery on Redis | 2 | 1 | 1 | 0 | 0 | 4 | 2.5 s | 2.5 s | 100 |", ""]
    assert BROKERS["stock"].promise in lines[-1]


def test_a_queue_that_answers_nothing_before_the_faults_gets_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs would all count as lost by the faults."""
    ledger = Ledger()

    def burst(count: int) -> None:
        for number in range(count):
            job: Any = SimpleNamespace(task_id=str(number))
            ledger.submitted(job, 0.0)

    fleet = SimpleNamespace(workers=[], crashes=["none"], replace_ended=lambda: None)
    ends: Any = SimpleNamespace(fleet=fleet, missing=(), burst=burst, error=None)
    run = four_queues._Run(RunOptions(100, 7, FAULTS, "stock"), ends, ledger, ends, ends, lambda *_: None, ())
    with pytest.raises(SettingsError, match="a worker ended at its start: none"):
        run.warm_up()
    fleet.crashes.clear()
    monkeypatch.setattr(four_queues, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(SettingsError, match=f"^{WARM_UP} of {WARM_UP} jobs are not answered, before any fault$"):
        run.warm_up()


@pytest.mark.parametrize("words", [["queues"], ["--jobs", "1", "--histories"], ["--jobs", "1", "--logs"]])
def test_a_file_in_the_place_of_a_folder_is_wrong_usage(tmp_path: Path, words: list[str]) -> None:
    """Exit code 1 would say that something was lost."""
    (tmp_path / "file").touch()
    assert CliRunner().invoke(cli, [*words, str(tmp_path / "file")]).exit_code == 2
