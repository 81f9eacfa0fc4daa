"""The producer holds jobs back, and sends others at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.waiting import wait_for

from chaos.corpus import Corpus
from chaos.jobs import QUEUE, Questions
from chaos.ledger import Ledger
from chaos.oracle import Oracle
from chaos.producer import Producer
from chaos.servers import RedisServer
from chaos.sleepers import Sleepers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTIONS = Questions(1, Oracle(Corpus(rows=400), queries=20))
JOBS = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def producer(server: RedisServer, ledger: Ledger) -> Iterator[Producer]:
    """Before its first job."""
    with server.client() as admin:
        admin.delete(QUEUE)
    made = Producer(server, QUESTIONS, JOBS, ledger, most_open=JOBS)
    made.allow(0)
    with made:
        yield made


def held_back(producer: Producer) -> int:
    """How many jobs it has submitted once it submits no more."""
    wait_for(lambda: producer.is_held_back)
    return producer.acknowledged


def test_no_more_jobs_come_than_are_allowed(producer: Producer, ledger: Ledger) -> None:
    assert held_back(producer) == 0
    producer.allow(7)
    assert held_back(producer) == 7
    producer.burst(5)
    assert (held_back(producer), len(ledger.open)) == (12, 12)
    producer.burst(2 * JOBS)
    assert held_back(producer) == JOBS


def test_no_job_comes_twice_or_is_left_out(producer: Producer, ledger: Ledger) -> None:
    producer.allow(3)
    held_back(producer)
    producer.burst(4)
    producer.allow(JOBS)
    assert held_back(producer) == JOBS
    assert ledger.open == [QUESTIONS[number].task_id for number in range(JOBS)]


def test_sleepers_come_beside_the_jobs_of_a_run(
    producer: Producer, ledger: Ledger, server: RedisServer, tmp_path: Path
) -> None:
    """They are in the ledger, and their diary says which process runs them."""
    sleepers = Sleepers(QUESTIONS, producer, tmp_path / "diary")
    first, second = sorted(sleepers.send(2, 30))
    assert set(ledger.open) == {first, second}
    assert producer.acknowledged == 0
    with server.client() as admin:
        assert admin.llen(QUEUE) == 2
    assert not sleepers.wait_for_begin({first}, 0.0)
    (tmp_path / "diary").write_text(f"began {first} 7\nbegan {second} 8\nended {second} 8\n")
    assert sleepers.wait_for_begin({first, second}, 0.0)
    assert sleepers.running({first, second}) == {first: 7}
    assert sleepers.wait_until_all_sleep([7], {first}, 0.0)
    assert sleepers.wait_for_end({second}, 0.0)
