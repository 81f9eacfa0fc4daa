"""A pool process that claims for itself, on a real server: its messages outlive whatever breaks between two steps."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
import redis
from celery import Celery
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.waiting import wait_for

from chaos.jobs import envelope
from retrieval_client.contract.jobs import RetrieveTopK
from worker.cli.devstack.redis import redis_server
from worker.queue.claims import Claims
from worker.queue.outcome import Answers, outcome_of
from worker.queue.processes.events import Events
from worker.queue.processes.keeper import DeadProcess, Keeper
from worker.queue.processes.pool import Member
from worker.queue.processes.process import Limits, Process, revocation_key
from worker.queue.processes.table import State, Table
from worker.queue.records import RecordStore, record_key
from worker.queue.together import AnsweredTogether
from worker.queue.transport import keys
from worker.queue.transport.inspection import Rules

from .faulty_link import FaultyLink, faulty_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.cli.devstack.redis import Redis
    from worker.settings import Settings

    from .faulty_link import Fault

QUEUE = "retrieval"
JOB = json.dumps([[{"query_embedding": [0.5] * 768, "principal": {"user_id": "u1"}}], {}, {}])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def broker(server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url()) as client:
        client.flushall()
        yield client


@pytest.fixture
def links(server: Redis) -> Iterator[dict[str, FaultyLink]]:
    """A way to Redis for each of the three clients of a process."""
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(faulty_link(server.port)) for name in ("claims", "records", "other")}


@pytest.fixture
def table() -> Table:
    """What the process does."""
    return Table(1)


@pytest.fixture
def run(
    server: Redis, links: dict[str, FaultyLink], make_settings: Callable[..., Settings], table: Table
) -> Iterator[Callable[..., None]]:
    """Runs a process in this thread until something came true."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    alive, parent = os.pipe()

    opened = contextlib.ExitStack()

    def connect(name: str) -> redis.Redis:
        url = server.url(user="worker", port=links[name].port)
        return opened.enter_context(redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=5))

    def run_until(is_done: Callable[[], object], *, revoked: str = "") -> None:
        settings = make_settings(trust_queue=True)
        if revoked:
            table.head.revoke(revocation_key(revoked))
        together = AnsweredTogether(settings, lambda: pytest.fail("no bundle here"))
        tasks: dict[str, Any] = {"retrieve_top_k": (RetrieveTopK, lambda *_: {"status": "empty", "chunks": []})}
        pool_process = Process(
            Claims(connect("claims"), [QUEUE], "host-1", table.slots[0].announce),
            [QUEUE],
            RecordStore(connect("records"), is_on_broker=True),
            connect("other"),
            Answers(tasks, settings, outcome_of, together),
            Rules(tasks=("retrieve_top_k",)),
            Limits(5.0, 0, 0, 1, 0.05, 60),
            table.head,
            table.slots[0],
            Events(Celery(set_as_current=False), "w@host", table.head),
            alive,
        )

        def stop() -> None:
            try:
                wait_for(is_done)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=stop)
        thread.start()
        pool_process.run()
        thread.join()
        assert table.slots[0].state != State.RUNNING

    with opened:
        yield run_until
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for end in (alive, parent):
        os.close(end)


@pytest.mark.parametrize("client", ["claims", "records", "other"])
@pytest.mark.parametrize("fault", ["command", "reply"])
@pytest.mark.parametrize("number", range(14))
def test_a_message_is_answered_whichever_connection_breaks(
    broker: redis.Redis,
    links: dict[str, FaultyLink],
    run: Callable[[Callable[[], object]], None],
    client: str,
    fault: Fault,
    number: int,
) -> None:
    """Between its claim and its outcome nothing acknowledges it; afterwards nothing of it is left."""
    links[client].lose(fault, number)
    for name in ("1", "2", "3"):
        broker.lpush(QUEUE, envelope(name, "retrieve_top_k", JOB))
    run(lambda: broker.exists(*map(record_key, "123")) == 3 and not broker.keys("*.inflight.*"))
    records: list[Any] = [json.loads(broker.get(record_key(name)) or b"{}") for name in "123"]  # type: ignore[arg-type] # bytes
    assert [record["status"] for record in records] == ["SUCCESS"] * 3
    assert not broker.exists(QUEUE, keys.deliveries(QUEUE))
    assert broker.keys("*.inflight.*") == []


def test_a_job_revoked_before_the_process_began_does_not_run(broker: redis.Redis, run: Callable[..., None]) -> None:
    """A process that replaces another one knows what was revoked before."""
    broker.lpush(QUEUE, envelope("1", "retrieve_top_k", JOB))
    run(lambda: broker.exists(record_key("1")) and not broker.keys("*.inflight.*"), revoked="1")
    assert json.loads(broker.get(record_key("1")) or b"{}")["status"] == "REVOKED"


def test_each_try_to_store_an_outcome_is_a_sign_of_life(
    broker: redis.Redis, links: dict[str, FaultyLink], run: Callable[..., None], table: Table
) -> None:
    """However long the results' Redis is away, the process that waits for it does not count as stopped."""

    def is_over() -> bool:
        if table.slots[0].signs < 5:
            links["records"].lose("command")
            return False
        return bool(broker.exists(record_key("1"))) and not broker.keys("*.inflight.*")

    links["records"].lose("command")
    broker.lpush(QUEUE, envelope("1", "retrieve_top_k", JOB))
    run(is_over)
    assert table.slots[0].claims == 1


@contextlib.contextmanager
def settling(server: Redis) -> Iterator[Keeper]:
    """A keeper of no process, at work."""
    with redis.Redis.from_url(server.url(user="worker")) as client:
        store = RecordStore(client, is_on_broker=True)
        keeper = Keeper(client, store, "host-1", [QUEUE], dict, Rules(tasks=("retrieve_top_k",)), 60)
        keeper.start()
        yield keeper
        keeper.stop(5)


@pytest.mark.parametrize("ignored", [False, True])
def test_the_outcome_of_a_killed_process_is_of_the_job_that_it_ran(
    server: Redis, broker: redis.Redis, ignored: bool
) -> None:
    """Not of another id that its sender wrote into the message; none where the sender wants none."""
    message = json.loads(envelope("mine", "retrieve_top_k", JOB))
    message["headers"]["ignore_result"] = ignored
    raw = json.dumps({"id": "yours", **message})
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, raw)
    slot = Table(1).slots[0]
    slot.announce([place])
    slot.begin(place, [("retrieve_top_k", "mine", 0)], 1.0, together=False)
    with settling(server) as keeper:
        keeper.settle(DeadProcess.of(slot, "time limit"))
        wait_for(lambda: not broker.exists(place))
    assert [broker.exists(record_key(task_id)) for task_id in ("mine", "yours")] == [not ignored, 0]
    assert not broker.exists(QUEUE, keys.deferred(QUEUE), keys.deliveries(QUEUE))


@pytest.mark.parametrize(("state", "looks"), [(State.IDLE, 3), (State.ENDED, 3), (State.STORING, 20)])
def test_a_process_without_a_sign_of_life_counts_as_stopped(
    server: Redis, broker: redis.Redis, state: State, looks: int
) -> None:
    """If it has messages, after so many looks: later while it stores, whose tries are such signs; and once only."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, "0")
    slot = Table(1).slots[0]
    slot.announce([place])
    slot.take_up(place)
    with redis.Redis.from_url(server.url(user="worker")) as client:
        store = RecordStore(client, is_on_broker=True)
        keeper = Keeper(client, store, "host-1", [QUEUE], dict, Rules(), 60)
        for silent in (looks - 1, looks):
            slot.signs += 1
            slot.state = state
            for _ in range(silent):
                assert keeper.stuck == {}
                keeper._find_stuck({7: slot})
        assert keeper.stuck == {7: slot.signs}
        slot.clear()
        assert keeper.stuck != {7: slot.signs}  # the next process in its place
        keeper._find_stuck({7: slot})
        assert keeper.stuck == {}


def test_a_job_that_ended_is_not_taken_for_the_next_message(server: Redis, broker: redis.Redis) -> None:
    """Its process is killed for it while it reads another message in the same list: that one runs, uncounted."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    raw = json.dumps(json.loads(envelope("next", "retrieve_top_k", JOB)))
    broker.lpush(place, raw)
    slot = Table(1).slots[0]
    slot.announce([place])
    slot.begin(place, [("retrieve_top_k", "ended", 0)], 1.0, together=False)
    slot.take_up(place)
    member = Member(0, slot, 0, 0)
    member.ended_for = "ended", "revoked"
    with settling(server) as keeper:
        keeper.settle(DeadProcess.of(slot, member.cause))
        wait_for(lambda: broker.lrange(QUEUE, 0, -1) == [raw.encode()])
    assert not broker.exists(record_key("ended"), place, keys.deferred(QUEUE), keys.deliveries(QUEUE))


@pytest.mark.parametrize("messages", ["0", "012"])
def test_a_message_that_kills_whoever_reads_it_is_counted(server: Redis, broker: redis.Redis, messages: str) -> None:
    """Else it would do so for ever; of several it is not known which one did: each is marked to run alone."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    for message in messages:
        broker.lpush(place, message)
    slot = Table(1).slots[0]
    slot.announce([place])
    slot.take_up(place)
    with settling(server) as keeper:
        keeper.settle(DeadProcess.of(slot, ""))
        wait_for(lambda: not broker.exists(place))
    digests = [keys.digest(message.encode()) for message in messages]
    names = digests if len(messages) == 1 else [f"{digest}:alone" for digest in digests]
    assert broker.hgetall(keys.deliveries(QUEUE)) == {name.encode(): b"1" for name in names}
