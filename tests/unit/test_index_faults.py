from __future__ import annotations

import pytest

from worker.cli.doctor.servers import index_faults


@pytest.mark.parametrize(
    ("version", "kinds", "told"),
    [
        ("0.8.3", ["hnsw"], ["0.8.4"]),
        ("0.8.1", ["hnsw"], ["0.8.2", "0.8.3", "0.8.4"]),
        ("0.5.0", ["hnsw", "ivfflat"], ["0.8.2", "0.8.3", "0.8.4", "0.8.7"]),
        ("0.8.5", ["hnsw"], []),
        ("0.8.6", ["ivfflat"], ["0.8.7"]),
        ("0.8.7", ["hnsw", "ivfflat"], []),
        ("0.10.0", ["hnsw", "ivfflat"], []),
        ("0.8.1", [], []),
        ("unknown", ["hnsw"], []),
    ],
)
def test_faults_of_the_indexes_that_there_are_are_told(version: str, kinds: list[str], told: list[str]) -> None:
    """By the version that mended each: by number, not by letters."""
    sentence = index_faults(version, kinds)
    assert [mended for mended in ("0.8.2", "0.8.3", "0.8.4", "0.8.7") if f"(mended in {mended})" in sentence] == told
    assert bool(sentence) == bool(told)
