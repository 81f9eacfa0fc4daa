"""A pool process and its keeper, on a real server: its messages outlive whatever breaks between two steps."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import redis
import structlog
from celery import Celery
from kombu import Connection, Producer
from tests.waiting import wait_for

from retrieval_client.errors import DeadLettered, TimedOut
from worker.queue import records
from worker.queue.broker import keys
from worker.queue.broker.dead_letters import every
from worker.queue.broker.inspection import DeliveredJob
from worker.queue.broker.owners import LIFE_SECONDS
from worker.queue.processes.events import _AT_ONCE, _MOST_KEPT, Events
from worker.queue.processes.keeper import DeadProcess
from worker.queue.processes.pool import Member
from worker.queue.processes.table import State, Table
from worker.queue.records import RecordStore, record_key

from .claims import DONE, OTHER, QUEUE, RULES, Worker, envelope, ids, places, stored_failures
from .faulty_link import FaultyLink, faulty_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.devstack.stack import Stack
    from worker.queue.outcome import Outcome

    from .faulty_link import Fault


@pytest.fixture
def links(stack: Stack) -> Iterator[dict[str, FaultyLink]]:
    """A way to Redis for each of the three clients of a process, and for the keeper's."""
    with contextlib.ExitStack() as opened:
        names = ("claims", "records", "other", "keeper")
        yield {name: opened.enter_context(faulty_link(stack.redis.port)) for name in names}


@pytest.fixture
def linked(stack: Stack, url: str, links: dict[str, FaultyLink]) -> Iterator[Worker]:
    """A process behind them, with the rights of a worker."""
    urls = {name: stack.redis.url(0, "worker", port=link.port) for name, link in links.items()}
    with Worker(url, urls=urls) as worker:
        yield worker


# --- one process ------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["claims", "records", "other"])
@pytest.mark.parametrize("fault", ["command", "reply"])
@pytest.mark.parametrize("number", range(14))
def test_a_message_is_answered_whichever_connection_breaks(
    broker: redis.Redis, links: dict[str, FaultyLink], linked: Worker, client: str, fault: Fault, number: int
) -> None:
    """Between its claim and its outcome nothing acknowledges it; afterwards nothing of it is left."""
    links[client].lose(fault, number)
    for name in ("1", "2", "3"):
        broker.lpush(QUEUE, envelope(name))
    linked.run(lambda: broker.exists(*map(record_key, "123")) == 3 and not broker.keys("*.inflight.*"))
    records: list[Any] = [json.loads(broker.get(record_key(name)) or b"{}") for name in "123"]  # type: ignore[arg-type] # bytes
    assert [record["status"] for record in records] == ["SUCCESS"] * 3
    assert linked.slot.state != State.RUNNING
    assert not broker.exists(QUEUE, keys.deliveries(QUEUE))
    assert broker.keys("*.inflight.*") == []


def test_a_job_revoked_before_the_process_began_does_not_run(url: str, broker: redis.Redis) -> None:
    """A process that replaces another one knows what was revoked before."""
    broker.lpush(QUEUE, envelope("1"))
    with Worker(url) as worker:
        worker.revoke("1")
        worker.run(lambda: broker.exists(record_key("1")) and not places(broker))
        assert worker.ids == []
    assert json.loads(broker.get(record_key("1")) or b"{}")["status"] == "REVOKED"


def test_a_job_costs_two_commands(url: str, broker: redis.Redis) -> None:
    """Its outcome is stored by one, and the next one acknowledges it and takes the next job; Redis' time is known."""
    broker.lpush(QUEUE, *(envelope(f"{number}") for number in range(12)))
    with Worker(url) as worker:

        def answer(job: DeliveredJob) -> Outcome:
            if job.id == "1":
                broker.config_resetstat()
            if job.id == "11":
                statistics.update(broker.info("commandstats"))
            return DONE

        statistics: dict[str, Any] = {}
        worker.answer = answer
        assert worker.take(12) == [f"{number}" for number in range(12)]
    assert statistics["cmdstat_evalsha"]["calls"] == 20
    assert not {"cmdstat_blmove", "cmdstat_rpop", "cmdstat_lrem", "cmdstat_hincrby"} & statistics.keys()


def test_a_job_of_another_queue_does_not_wait(url: str, broker: redis.Redis) -> None:
    """Two arrived at the same moment: the other one is for another process while this one runs."""
    with Worker(url, QUEUE, OTHER) as worker:

        def answer(_: DeliveredJob) -> Outcome:
            waiting.append((broker.llen(QUEUE), broker.llen(OTHER)))
            return DONE

        def push_once_blocked() -> bool:
            if broker.info("clients")["blocked_clients"] == 2 and not waiting:
                with broker.pipeline() as pipe:
                    pipe.lpush(QUEUE, envelope("a")).lpush(OTHER, envelope("b"))
                    pipe.execute()
                wait_for(lambda: len(waiting) == 2)
            return len(waiting) == 2

        waiting: list[tuple[Any, Any]] = []
        worker.answer = answer
        worker.run(push_once_blocked)
        assert sorted(worker.ids) == ["a", "b"]
    assert sorted(waiting[0]) == [0, 1]
    assert waiting[1] == (0, 0)


def test_jobs_in_a_flood_of_refused_messages_run_in_their_order(url: str, broker: redis.Redis) -> None:
    """Once each, though many messages are taken at a time, and only one of the jobs among these runs."""
    tasks = [*["unknown"] * 4, *["retrieve_top_k"] * 2] * 50
    broker.lpush(QUEUE, *(envelope(f"{number}", task=task) for number, task in enumerate(tasks)))
    with Worker(url, bundle=16) as worker:
        worker.run(lambda: places(broker) == {"dead": 200})
        assert worker.ids == [f"{number}" for number in range(300) if number % 6 >= 4]
        assert stored_failures(broker).keys() == {f"{number}" for number in range(300) if number % 6 < 4}


EXPIRED = "2020-01-01T00:00:00+00:00"


def first_of_a_chain(**headers: Any) -> bytes:
    """A message whose chain goes on with the job `next`."""
    following = {"task": "retrieve_top_k", "args": [], "kwargs": {}, "options": {"task_id": "next"}}
    body = json.dumps([[{}], {}, {"chain": [following]}])
    return json.dumps({**json.loads(envelope("first", **headers)), "body": body}).encode()


@pytest.mark.parametrize("reason", ["expired", "max_deliveries"])
def test_the_rest_of_a_chain_fails_with_a_refused_job(url: str, broker: redis.Redis, reason: str) -> None:
    """Whoever waits for the end of the chain is told; also if storing its failure had to be repeated."""
    message = first_of_a_chain(expires=EXPIRED if reason == "expired" else None)
    if reason == "max_deliveries":
        broker.hset(keys.deliveries(QUEUE), keys.digest(message), RULES.max_deliveries)
        RecordStore(broker, 60, is_on_broker=True).put([records.refusal("first", DeadLettered("before"))])
    broker.lpush(QUEUE, message)
    with Worker(url, rules=replace(RULES, callbacks=True)) as worker:
        worker.run(lambda: places(broker) == {"dead": 1})
        failures = stored_failures(broker)
        assert (worker.ids, [*sorted(failures)]) == ([], ["first", "next"])
        assert failures["next"].message == failures["first"].message != "before"
    assert [letter.reason for letter in every(broker, QUEUE)] == [reason]


def store_success(broker: redis.Redis, task_id: str) -> None:
    RecordStore(broker, 60, is_on_broker=True).put([records.compose(task_id, "SUCCESS", {"status": "ok"})])


@pytest.mark.parametrize("reason", ["expired", "max_deliveries"])
def test_the_chain_of_an_answered_job_goes_on(url: str, broker: redis.Redis, reason: str) -> None:
    """Its process stored the answer, which stands, and may have died before it sent the next job."""
    message = first_of_a_chain(expires=EXPIRED if reason == "expired" else None)
    if reason == "max_deliveries":
        broker.hset(keys.deliveries(QUEUE), keys.digest(message), RULES.max_deliveries)
    broker.lpush(QUEUE, message)
    store_success(broker, "first")
    with Worker(url, rules=replace(RULES, callbacks=True)) as worker:
        assert worker.take(1) == ["next"]
        assert worker.jobs[0].args == [{"status": "ok"}]
        assert stored_failures(broker) == {}
    assert places(broker) == {}


def test_a_failure_that_stands_fails_the_chain_of_a_job_that_succeeds_when_it_comes_again(
    url: str, broker: redis.Redis
) -> None:
    """Whoever waits for the end of the chain is told what was told of the job."""
    broker.lpush(QUEUE, first_of_a_chain())
    failure = records.compose("first", "FAILURE", TimedOut("before"))
    RecordStore(broker, 60, is_on_broker=True).put([failure])
    with Worker(url, rules=replace(RULES, callbacks=True)) as worker:
        assert worker.take(1) == ["first"]
        assert [(type(error), error.message) for error in stored_failures(broker).values()] == [
            (TimedOut, "before")
        ] * 2
    assert places(broker) == {}


def test_further_tasks_of_a_message_that_kills_its_readers_are_not_read(url: str, broker: redis.Redis) -> None:
    """The process that should have refused it died, so no other one decodes it again."""
    message = first_of_a_chain()
    broker.hset(keys.deliveries(QUEUE), keys.digest(message), RULES.max_deliveries + 1)
    broker.lpush(QUEUE, message)
    with Worker(url, rules=replace(RULES, callbacks=True)) as worker:
        worker.run(lambda: places(broker) == {"dead": 1})
        assert [*stored_failures(broker)] == ["first"]


def test_a_record_s_key_of_another_type_holds_no_process(url: str, broker: redis.Redis) -> None:
    """Whoever may write results has put a list there: it is no record, and the outcome takes its place."""
    broker.lpush(QUEUE, envelope("1"), envelope("2"))
    broker.lpush(record_key("1"), "x")
    with Worker(url) as worker:
        assert worker.take(2) == ["1", "2"]
    stored: list[Any] = [json.loads(broker.get(record_key(name)) or b"{}") for name in "12"]  # type: ignore[arg-type] # bytes
    assert [record["status"] for record in stored] == ["SUCCESS", "SUCCESS"]


def test_of_more_events_than_are_kept_the_oldest_are_dropped(stack: Stack, broker: redis.Redis) -> None:
    """Redis takes none meanwhile: the log says so once, and the newest are sent later, in their order."""

    def is_last_heard() -> bool:
        while message := listener.get_message():
            if message["type"] == "pmessage":
                batch = json.loads(base64.b64decode(json.loads(message["data"])["body"]))
                heard.extend((event["type"], event["uuid"]) for event in batch)
        return heard[-1:] == sent[-1:]

    heard: list[tuple[str, str]] = []
    jobs = [DeliveredJob("retrieve_top_k", f"{number}", [{}], {}, {}) for number in range(5000)]
    sent = [(kind, job.id) for job in jobs for kind in ("task-received", "task-started")]
    head = Table(1).head
    head.sends_events = 1
    with (
        Celery(broker=stack.redis.url(0, "worker"), set_as_current=False) as app,
        broker.pubsub() as listener,
        structlog.testing.capture_logs() as lines,
    ):
        listener.psubscribe("/0.celeryev/task.*")
        events = Events(app, "w@host", head)
        channels = broker.acl_getuser("worker")["channels"]
        broker.execute_command("ACL SETUSER", "worker", "resetchannels")
        try:
            events.begun(jobs)
            wait_for(lambda: any(line["event"] == "events not sent" for line in lines))
        finally:  # Redis 7.0 ends every subscription when it loads the file of its users
            broker.execute_command("ACL SETUSER", "worker", *channels)
        wait_for(is_last_heard)
        events.close()
        events._dispatcher.connection.close()  # a process ends instead
    assert heard[-_MOST_KEPT:] == sent[-_MOST_KEPT:]
    assert len(heard) <= _MOST_KEPT + _AT_ONCE  # these were being sent
    assert [line["event"] for line in lines].count("events dropped") == 1


# --- what the keeper does ---------------------------------------------------------------------------


def test_a_job_that_expires_while_it_runs_into_its_time_limit_fails_its_chain(url: str, broker: redis.Redis) -> None:
    """It had begun in time; its sender wants no record of its own."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, first_of_a_chain(expires=EXPIRED, ignore_result=True))
    with Worker(url, rules=replace(RULES, callbacks=True)) as worker:
        worker.slot.announce([place])
        worker.slot.begin(place, [("retrieve_top_k", "first")], 1.0, together=False)
        worker.settle("time limit")
        assert [*stored_failures(broker)] == ["next"]
    assert places(broker) == {}


def test_the_chain_of_a_job_that_was_killed_after_it_was_answered_goes_on(url: str, broker: redis.Redis) -> None:
    """Its answer stands, not the time limit."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, first_of_a_chain())
    store_success(broker, "first")
    with Worker(url, rules=replace(RULES, callbacks=True)) as worker:
        worker.slot.announce([place])
        worker.slot.begin(place, [("retrieve_top_k", "first")], 1.0, together=False)
        worker.settle("time limit")
        assert worker.take(1) == ["next"]
        assert stored_failures(broker) == {}
    assert places(broker) == {}


def chord_of_one(broker: redis.Redis) -> bytes:
    """A message that is the only part of a chord, whose body is the job `body`."""
    broker.set("celery-taskset-meta-g.s", 1)
    following = {"task": "retrieve_top_k", "args": [], "kwargs": {}, "options": {"task_id": "body"}}
    body = json.dumps([[{}], {}, {"chord": following}])
    return json.dumps({**json.loads(envelope("part", group="g")), "body": body}).encode()


def test_the_chord_of_a_part_that_was_killed_after_it_was_answered_ends(stack: Stack, broker: redis.Redis) -> None:
    """Its body gets the answer that stands, not the time limit."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, chord_of_one(broker))
    store_success(broker, "part")
    with Worker(stack.redis.url(0), rules=replace(RULES, callbacks=True)) as worker:
        worker.slot.announce([place])
        worker.slot.begin(place, [("retrieve_top_k", "part")], 1.0, together=False)
        worker.settle("time limit")
        assert ids(broker) == ["body"]
        worker.take(1)
        assert worker.jobs[0].args == [[{"status": "ok"}]]
    assert places(broker) == {}


def test_the_last_part_of_a_chord_that_another_process_claimed_is_kept(stack: Stack, broker: redis.Redis) -> None:
    """That process may have died since; then the keeper of the part's ended process sends the body."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, chord_of_one(broker))
    store_success(broker, "part")
    broker.set("celery-taskset-meta-g.c", "claim of a dead process")
    with Worker(stack.redis.url(0), rules=replace(RULES, callbacks=True)) as worker:
        worker.slot.announce([place])
        worker.slot.begin(place, [("retrieve_top_k", "part")], 1.0, together=False)
        worker.keeper._unsettled.append(DeadProcess(worker.slot, "time limit"))
        worker.maintain()
        assert places(broker) == {"inflight": 1}
        broker.delete("celery-taskset-meta-g.c")
        worker.maintain()
        assert places(broker) == {"queue": 1}
        assert ids(broker) == ["body"]


@pytest.mark.parametrize("ignored", [False, True])
def test_the_outcome_of_a_killed_process_is_of_the_job_that_it_ran(
    url: str, broker: redis.Redis, ignored: bool
) -> None:
    """Not of another id that its sender wrote into the message; none where the sender wants none. No count is left."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    raw = json.dumps({"id": "yours", **json.loads(envelope("mine", ignore_result=ignored))}).encode()
    broker.lpush(place, raw)
    broker.hset(keys.deliveries(QUEUE), mapping={keys.digest(raw): 1, f"{keys.digest(raw)}:alone": 2})
    with Worker(url) as worker:
        worker.slot.announce([place])
        worker.slot.begin(place, [("retrieve_top_k", "mine")], 1.0, together=False)
        worker.settle("time limit")
    assert [broker.exists(record_key(task_id)) for task_id in ("mine", "yours")] == [not ignored, 0]
    assert places(broker) == {}
    assert not broker.exists(keys.deliveries(QUEUE))


def test_a_process_that_leaves_without_redis_did_not_die_of_its_job(
    stack: Stack, url: str, broker: redis.Redis, links: dict[str, FaultyLink]
) -> None:
    """It can neither store the outcome nor requeue the message: the keeper does that, uncounted."""
    broker.lpush(QUEUE, envelope("1"))
    urls = {"claims": stack.redis.url(0, "worker", port=links["claims"].port), "records": "redis://127.0.0.1:1/0"}
    with Worker(url, urls=urls) as worker:

        def is_storing() -> bool:
            if worker.ids != ["1"] or worker.slot.state != State.STORING:
                return False
            links["claims"].lose("command")  # of a connection that it may accept still
            links["claims"].close()
            return True

        worker.run(is_storing)
        assert places(broker) == {"inflight": 1}
        worker.settle()
    assert places(broker) == {"queue": 1}
    assert not broker.exists(keys.deliveries(QUEUE))


class Died(BaseException):
    """In place of a process's death: it does nothing more."""


class Deadly(tuple[str, ...]):
    """Names of tasks; a message of another one ends the process that inspects it."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        if name == "deadly":
            raise Died
        return super().__contains__(name)


@pytest.mark.parametrize("refused", [0, 15])
def test_a_message_that_kills_whoever_reads_it_ends_as_a_dead_letter(
    url: str, broker: redis.Redis, refused: int
) -> None:
    """It counts, messages taken with it do not; if the process that should dead-letter it dies, no other reads it."""
    tasks = [*["unknown"] * refused, "deadly", *["retrieve_top_k"] * 3]
    broker.lpush(QUEUE, *(envelope(f"{number}", task=task) for number, task in enumerate(tasks)))
    jobs, deaths = [], 0
    while places(broker) != {"dead": refused + 1}:
        assert deaths < 10
        with Worker(url, rules=replace(RULES, tasks=Deadly(RULES.tasks or ())), bundle=16) as worker:
            try:
                worker.run(lambda: places(broker).keys() <= {"dead", "deferred"})
            except Died:
                deaths += 1
                worker.settle()
            worker.maintain()
            jobs += worker.ids
    assert jobs == [f"{refused + number}" for number in (1, 2, 3)]
    assert [letter.deliveries for letter in every(broker, QUEUE)] == [RULES.max_deliveries + 1, *[0] * refused]
    assert not broker.exists(keys.deliveries(QUEUE))


def test_deferred_messages_come_back_a_few_at_a_time(url: str, broker: redis.Redis) -> None:
    """Only to an empty queue, in their order, two for each process; whatever is deferred in another queue."""
    broker.lpush(keys.deferred(QUEUE), *(envelope(f"{number}") for number in range(70)))
    broker.lpush(keys.deferred(OTHER), envelope("idle"))
    broker.lpush(QUEUE, envelope("healthy"))
    with Worker(url, QUEUE, OTHER) as worker:
        worker.maintain()
        assert (ids(broker), ids(broker, OTHER)) == (["healthy"], ["idle"])
        broker.delete(QUEUE)
        worker.maintain()
        assert ids(broker) == ["0", "1"]
        worker.maintain()
        assert (ids(broker), broker.llen(keys.deferred(QUEUE))) == (["0", "1"], 68)


def test_owners_are_renewed_while_a_job_runs(broker: redis.Redis, links: dict[str, FaultyLink], linked: Worker) -> None:
    """With when it began; a renewal that failed is tried again at once, not when the next one is due."""
    broker.lpush(QUEUE, envelope("job"))

    def answer(_: DeliveredJob) -> Outcome:
        before, now = float(broker.time()[0]), time.monotonic()
        owners = [keys.owner_key(keys.parse_inflight(place)[1]) for place in linked.slot.places]
        for owner in owners:
            broker.expire(owner, 1)
        links["keeper"].lose("command")
        with pytest.raises(redis.ConnectionError):
            linked.keeper._turn(now)
        linked.keeper._turn(now)
        assert all(int(str(broker.ttl(owner))) > LIFE_SECONDS - 5 for owner in owners)
        values: list[Any] = [broker.get(owner) for owner in owners]
        began = [keys.parse_owner_value(value.decode()).began for value in values]
        assert [abs(moment - before) < 60 for moment in began if moment is not None] == [True]
        return DONE

    linked.answer = answer
    assert linked.take(1) == ["job"]


@pytest.mark.parametrize("left", [0, 1])
def test_the_message_of_a_killed_process_s_job_is_found_by_its_id(url: str, broker: redis.Redis, left: int) -> None:
    """Others of its list may have left it meanwhile: they are requeued, and nothing but that one is removed."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, *(envelope(name) for name in "abc"))
    for _ in range(left):
        broker.rpop(place)
    with Worker(url) as worker:
        worker.slot.announce([place])
        jobs = [("retrieve_top_k", name) for name in "abc"]
        worker.slot.begin(place, jobs, 1.0, together=False)
        worker.slot.begin_next(1, 1.0)
        worker.settle("time limit")
        assert {*stored_failures(broker)} == {"b"}
    assert ids(broker) == [name for name in "abc"[left:] if name != "b"]


def test_each_try_to_store_an_outcome_is_a_sign_of_life(
    broker: redis.Redis, links: dict[str, FaultyLink], linked: Worker
) -> None:
    """However long the results' Redis is away, the process that waits for it does not count as stopped."""

    def is_over() -> bool:
        if linked.slot.signs < 5:
            links["records"].lose("command")
            return False
        return places(broker) == {}

    links["records"].lose("command")
    broker.lpush(QUEUE, envelope("1"))
    linked.run(is_over)
    assert linked.ids == ["1"]


def test_an_idle_process_gives_signs_of_life(url: str, broker: redis.Redis) -> None:
    """Each time that it has waited for messages, however long none comes."""
    with Worker(url) as worker:
        first = worker.slot.signs + 1  # of its start
        worker.run(lambda: worker.slot.signs >= first + 3)
        assert worker.ids == []
    assert places(broker) == {}


@pytest.mark.parametrize(
    ("state", "messages", "looks"),
    [(State.IDLE, 1, 4), (State.ENDED, 1, 4), (State.STORING, 1, 30), (State.IDLE, 0, 30), (State.ENDED, 0, 30)],
)
def test_a_process_without_a_sign_of_life_counts_as_stopped(
    url: str, broker: redis.Redis, state: State, messages: int, looks: int
) -> None:
    """After so many looks: later while it stores, or if no message waits for it; and once only."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    for _ in range(messages):
        broker.lpush(place, envelope("job"))
    with Worker(url) as worker:
        worker.slot.announce([place])
        for silent in (looks - 1, looks):
            worker.slot.signs += 1
            worker.slot.state = state
            for _ in range(silent):
                assert worker.keeper.stuck == {}
                worker.keeper._find_stuck({7: worker.slot})
        assert worker.keeper.stuck == {7: worker.slot.signs}
        worker.slot.clear()
        assert worker.keeper.stuck != {7: worker.slot.signs}  # the next process in its place
        worker.keeper._find_stuck({7: worker.slot})
        assert worker.keeper.stuck == {}


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING])
def test_a_process_that_starts_or_runs_a_job_gives_no_sign_of_life(url: str, broker: redis.Redis, state: State) -> None:
    """Both have time limits of their own, and a start has hardly any."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, envelope("job"))
    with Worker(url) as worker:
        worker.slot.announce([place])
        worker.slot.state = state
        for _ in range(100):
            worker.keeper._find_stuck({7: worker.slot})
        assert worker.keeper.stuck == {}


def test_a_job_that_ended_is_not_taken_for_the_next_message(url: str, broker: redis.Redis) -> None:
    """Its process is killed for it while it reads another message in the same list: that one runs, uncounted."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, envelope("next"))
    with Worker(url) as worker:
        worker.slot.announce([place])
        worker.slot.begin(place, [("retrieve_top_k", "ended")], 1.0, together=False)
        worker.slot.begin_reading(place, together=False)
        member = Member(0, worker.slot, 0, 0)
        member.ended_for = "ended", "revoked"
        worker.settle(member.cause)
    assert not broker.exists(record_key("ended"))
    assert places(broker) == {"queue": 1}
    assert not broker.exists(keys.deliveries(QUEUE))


def test_nothing_is_requeued_when_redis_clock_has_jumped(url: str, broker: redis.Redis) -> None:
    """The keys of all owners expire then: they get the time to be renewed."""
    place = keys.inflight(QUEUE, "host-1-abcdef01-1a")
    broker.lpush(place, envelope("job"))
    with Worker(url) as worker:
        worker.maintain()
        broker.zadd(keys.OWNERS, {place: 1})
        clock, seen = worker.keeper._seen
        worker.keeper._seen = (clock - 60.0, seen)
        worker.maintain()
        assert places(broker) == {"inflight": 1}
        assert worker.keeper._next_dead > time.monotonic() + LIFE_SECONDS / 2
        worker.maintain()
        assert places(broker) == {"queue": 1}


@pytest.mark.parametrize("priority", [1, 9])
def test_priorities_of_stock_producers_are_refused(url: str, broker: redis.Redis, priority: int) -> None:
    """Also those that they write to lists that no process reads; their senders get a failure."""
    with Connection(url) as stock, Worker(url) as worker:
        for number in (priority, 0):
            Producer(stock).publish(
                [[{}], {}, {}],
                routing_key=QUEUE,
                priority=number,
                headers={"id": f"priority-{number}", "task": "retrieve_top_k"},
            )
        worker.maintain()
        worker.run(lambda: places(broker) == {"dead": 1})
        assert worker.ids == ["priority-0"]
        assert stored_failures(broker)[f"priority-{priority}"].message == "properties.priority: expected no priority"


# --- deliveries of workers of older versions --------------------------------------------------------


def deliver(broker: redis.Redis, tag: str, message: bytes, at: float) -> None:
    """Record a message as unacknowledged, as these workers did."""
    broker.hset(keys.UNACKED, tag, b'[%b,"","%b"]' % (message, QUEUE.encode()))
    broker.zadd(keys.UNACKED_INDEX, {tag: at})


def test_what_a_dead_worker_of_an_older_version_held_comes_back_in_order(url: str, broker: redis.Redis) -> None:
    """The first one taken comes first, before any that was sent later; only what had begun stays counted."""
    place = keys.inflight(QUEUE, "dead-1")
    broker.lpush(place, *(envelope(f"claimed-{number}") for number in range(2)))
    broker.zadd(keys.OWNERS, {place: 1})
    for number in range(3):
        message = envelope(f"delivered-{number}", shadow='","pipeline"]')
        deliver(broker, f"dead-1:{number}", message, number)
        broker.hset(keys.deliveries(QUEUE), keys.digest(message), 1)
    broker.sadd(keys.WAITING, "dead-1:2")
    broker.lpush(QUEUE, envelope("later"))
    with Worker(url) as worker:
        for _ in range(2):
            worker.maintain()
        counted: Any = broker.hkeys(keys.deliveries(QUEUE))
        assert sorted(key[40:] for key in counted) == [b"", b"", b":alone", b":alone"]
        assert worker.take(6) == [*(f"delivered-{n}" for n in range(3)), *(f"claimed-{n}" for n in range(2)), "later"]
    assert places(broker) == {}
    assert not broker.exists(keys.UNACKED_INDEX, keys.WAITING, keys.deliveries(QUEUE))


def test_deliveries_of_others_stay(url: str, broker: redis.Redis) -> None:
    """Those of workers that live, and stock ones; values that are no deliveries end no keeper."""
    for number, tag in enumerate(["alive-1:1", "2f5b-of-a-stock-worker", "dead-1:1"]):
        deliver(broker, tag, envelope(tag), number)
    broker.set(keys.owner_key("alive-1"), keys.owner_value("alive", 0), ex=60)
    broker.hset(keys.UNACKED, mapping={"a:1": "rubbish", "b:1": "[1]"})
    broker.zadd(keys.UNACKED_INDEX, {"a:1": 1, "b:1": 2, "c:1": 3})
    with Worker(url) as worker:
        for _ in range(2):
            worker.maintain()
    assert ids(broker) == ["dead-1:1"]
    assert places(broker) == {"queue": 1, "unacked": 4}
