"""Many `build_citations` for few runs, answered side by side while processes are killed and the disk fills.

As a script, with other numbers: ``python -m tests.acceptance.citing_storm --jobs 10000 --runs 100 --kills 100``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
from tests.waiting import wait_for

from chaos.servers import fill, folders
from retrieval_client import BuildCitations, Client, RunRef
from workbench.devstack.stack import local_stack
from workbench.devstack.workers import celery_worker, stack_environment
from worker.cli.loader import migrate

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

WORKERS = 2


@contextlib.contextmanager
def workers(environment: Mapping[str, str], folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers of two processes each, which log into the folder."""
    with contextlib.ExitStack() as stack:
        logs = [folder / f"storm-{number}.log" for number in range(WORKERS)]
        yield [stack.enter_context(celery_worker(environment, log, "--concurrency=2")) for log in logs]


def document(number: int, runs: int) -> BuildCitations:
    """A job whose document is unlike all others."""
    return BuildCitations.model_validate(
        {
            "principal": {"user_id": "alice"},
            "records": [{"source_id": str(number), "text": f"document {number} " + "x" * 2000, "weight": 0.5}],
            "verify": False,
            "run": RunRef(subject_id="storm", run_id=str(number % runs)),
        }
    )


def kill_a_process(worker: subprocess.Popen[bytes]) -> None:
    """Kill a pool process with what it is doing."""
    with contextlib.suppress(psutil.Error, IndexError):
        psutil.Process(worker.pid).children()[0].kill()


def storm(client: Client, environment: Mapping[str, str], folder: Path, numbers: argparse.Namespace) -> None:
    """Send the jobs in batches, kill a process within each, fill the disk for one, and wait until all are answered."""
    store, ids = Path(environment["RETRIEVAL_WORKER_ARTIFACTS__URL"]), []
    size = -(-numbers.jobs // numbers.kills)
    with workers(environment, folder) as running:
        for kill in range(numbers.kills):
            is_full = numbers.full_disk and kill == numbers.kills // 2
            ballast = fill(store) if is_full else None
            jobs = range(kill * size, min(numbers.jobs, (kill + 1) * size))
            ids += [client.enqueue(document(number, numbers.runs)) for number in jobs]
            if ballast is not None:
                wait_for(lambda: any('"job delayed"' in log.read_text() for log in folder.glob("storm-*.log")))
                ballast.unlink()
            client.result(ids[-len(jobs) // 2], timeout=600)
            kill_a_process(running[kill % WORKERS])
        for task_id in ids:
            client.result(task_id, timeout=600)


def stored(store: Path) -> dict[str, Counter[str]]:
    """The documents of each run, all versions, with how often each is there; a truncated one is an error."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in store.glob("*/runs/storm/*/citations*"):
        found[path.parent.name].update(json.loads(path.read_text())["source_ids"])
    return found


def expected(jobs: int, runs: int) -> dict[str, Counter[str]]:
    """Each document once, in its run."""
    return {str(run): Counter(map(str, range(run, jobs, runs))) for run in range(min(jobs, runs))}


def kept_events(store: Path) -> dict[str, int]:
    """How many documents each run's exported events name."""
    return {
        path.parent.name: len({event["sha256"] for event in map(json.loads, path.read_text().splitlines())})
        for path in store.glob("*/runs/storm/*/events.jsonl")
    }


def main() -> None:
    """Run the storm on servers of its own, and say what became of the documents."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("jobs", 10_000), ("runs", 100), ("kills", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    numbers = parser.parse_args(namespace=argparse.Namespace(full_disk=True))
    with tempfile.TemporaryDirectory() as logs, folders() as (root, small), local_stack() as stack:
        numbers.full_disk = small is not None
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as connection:
            migrate(connection)
        environment = stack_environment(
            stack, TRUST_QUEUE="true", LOG__FORMAT="json", ARTIFACTS__URL=str(small or root)
        )
        client, began = Client(*stack.redis.urls("producer")), time.monotonic()
        storm(client, environment, Path(logs), numbers)
        print(summary(small or root, numbers), f"in {time.monotonic() - began:.0f} s")  # noqa: T201 -- the script's answer
        client.close()


def summary(store: Path, numbers: argparse.Namespace) -> dict[str, Any]:
    """Count what is lost, and what is there more than once."""
    there, wanted = stored(store), expected(numbers.jobs, numbers.runs)
    lost = sum((wanted[run] - there[run]).total() for run in wanted)
    more = sum((there[run] - wanted[run]).total() for run in wanted)
    return {**vars(numbers), "lost": lost, "more than once": more, "events lost": _events_lost(store, wanted)}


def _events_lost(store: Path, wanted: Mapping[str, Counter[str]]) -> int:
    named = kept_events(store)
    return sum(counts.total() - named[run] for run, counts in wanted.items())


if __name__ == "__main__":
    main()
