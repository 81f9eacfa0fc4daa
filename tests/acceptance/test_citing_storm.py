"""Documents of one run that are answered side by side by real workers: none is lost, whatever ends or fills up."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from chaos.servers import folders

from .citing_storm import expected, kept_events, stored, storm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from retrieval_client import Client

JOBS, RUNS = 240, 2


@pytest.mark.parametrize("full_disk", [False, True], ids=["kills", "kills and a full disk"])
def test_every_answered_document_is_there_once(
    client: Client, worker_environment: Callable[..., dict[str, str]], tmp_path: Path, full_disk: bool
) -> None:
    """Whole, as the current file or as an earlier version of its run, and named by the run's exported events."""
    with folders() as (root, small):
        if full_disk and small is None:
            pytest.skip("no tmpfs may be mounted here: it takes root")
        store = small if full_disk and small is not None else root
        environment = worker_environment(ARTIFACTS__URL=str(store))
        numbers = argparse.Namespace(jobs=JOBS, runs=RUNS, kills=3, full_disk=full_disk)
        storm(client, environment, tmp_path, numbers)
        assert stored(store) == expected(JOBS, RUNS)
        assert kept_events(store) == dict.fromkeys(map(str, range(RUNS)), JOBS // RUNS)
