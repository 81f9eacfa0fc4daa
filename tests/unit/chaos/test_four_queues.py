"""The table of four queues: of those that have run, by their histories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from chaos.brokers import BROKERS
from chaos.four_queues import table
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
