"""Searches on a streaming standby, everything else on its primary: real servers, whose links are cut and who lag."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import HUM, asker, without_trace
from tests.integration.asking import ask as ask_pipeline
from tests.integration.replicated import SECONDS, Pair, pair, wait_for

from retrieval_client import Client, RunRef
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.errors import InvalidJob, NotAuthorised, Unavailable
from workbench.devstack.workers import celery_worker, stack_environment
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.read_replica import REST_SECONDS, Standby
from worker.app import refuse_unsafe_start
from worker.cli.doctor import examine
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.settings import read_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from workbench.devstack.stack import Stack
    from worker.settings import Settings

QUERY = lexical.embed([HUM])[0].tolist()
RUN = {"subject_id": "song-1", "run_id": "r1"}
WHOLE_DAY = {"max_lag_seconds": 86_400.0}
IN_RECOVERY = [(b"SELECT pg_is_in_recovery()", {})]
EDITED = "UPDATE document_chunks SET text_content = 'edited' WHERE id = 'handbook-desk-notes-006'"
EDITED_ID = "handbook-desk-notes-006"


@pytest.fixture(scope="module", params=[16, 18])
def replicated_servers(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with (
        tempfile.TemporaryDirectory(prefix="rw-", ignore_cleanup_errors=True) as folder,
        pair(Path(folder), request.param) as both,
    ):
        yield both


@pytest.fixture
def both(replicated_servers: Pair) -> Iterator[Pair]:
    """Both servers, with the sample as it was loaded; what a test changes is restored."""
    replicated_servers.write("CREATE TABLE kept AS SELECT id, text_content FROM document_chunks")
    replicated_servers.write("CREATE TABLE kept_documents AS SELECT id, owner_id, visibility FROM documents")
    replicated_servers.catch_up()
    yield replicated_servers
    replicated_servers.standby.link.refuse(False)
    replicated_servers.write(
        "UPDATE document_chunks AS c SET text_content = k.text_content FROM kept AS k"
        " WHERE k.id = c.id AND k.text_content <> c.text_content;"
        "UPDATE documents AS d SET owner_id = k.owner_id FROM kept_documents AS k WHERE k.id = d.id;"
        "DROP TABLE kept, kept_documents; TRUNCATE retrieval.runs CASCADE"
    )
    replicated_servers.catch_up()


@pytest.fixture
def failing() -> Iterator[Pair]:
    """Both servers, for a test that breaks them."""
    with (
        tempfile.TemporaryDirectory(prefix="rw-", ignore_cleanup_errors=True) as folder,
        pair(Path(folder), 18) as both,
    ):
        yield both


@pytest.fixture
def start() -> Iterator[Callable[[Settings], Engine]]:
    made: list[Engine] = []

    def make(settings: Settings) -> Engine:
        made.append(Engine(settings, time.perf_counter))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def search_side(clock: Clock) -> Iterator[Callable[[Settings], Standby]]:
    """Makes what searches read from."""
    made: list[tuple[Standby, Database]] = []

    def make(settings: Settings) -> Standby:
        reading = settings.of_the_standby
        assert reading is not None
        primary = Database(settings)
        made.append((Standby(primary, reading, clock), primary))
        return made[-1][0]

    yield make
    for standby, primary in made:
        standby.close()
        primary.close()


def search(engine: Engine, user: str | None = "alice", **fields: Any) -> dict[str, Any]:
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "k": 12, **fields})
    return engine.retrieval.top_k(job, JobContext(lambda: asker(user) if user else None, min_lsn=job.min_lsn))


def replay(engine: Engine, user: str = "alice", **fields: Any) -> dict[str, Any]:
    return engine.replay.pinned(parse_job(PinnedReplay, fields), JobContext(lambda: asker(user)))


def hybrid(engine: Engine, user: str = "alice", **fields: Any) -> dict[str, Any]:
    job = parse_job(RetrieveHybrid, {"query": HUM, "searches": [{"corpus": "documents", "top_k": 9}], **fields})
    return engine.hybrid.retrieve(job, JobContext(lambda: asker(user), min_lsn=job.min_lsn))


def texts(chunks: list[dict[str, Any]]) -> dict[str, str]:
    return {chunk["chunk_id"]: chunk["text"] for chunk in chunks}


def on_standby(reads: Standby) -> bool:
    """Which server answers now."""
    (((answer,),),) = reads.read(asker("alice"), IN_RECOVERY)
    return bool(answer)


def rested(reads: Standby, clock: Clock) -> bool:
    """Whether it answers after a rest: its pool of connections tries again in its own time."""
    clock.now += REST_SECONDS
    return on_standby(reads)


# --- who reads where ----------------------------------------------------------------------------


def test_searches_read_the_standby(both: Pair, start: Callable[[Settings], Engine]) -> None:
    """All three tasks that search find what the standby has, which is what the primary had."""
    engine = start(both.settings(standby=WHOLE_DAY))
    both.hold_back()
    both.write(EDITED)
    assert texts(search(engine)["chunks"])[EDITED_ID] != "edited"
    assert texts(hybrid(engine)["results"]["documents"]["chunks"])[EDITED_ID] != "edited"
    found = ask_pipeline(engine, question=HUM, mode="grounded", stop_after="build_sources")
    assert "edited" not in texts(found["package"]["candidates"]).values()


def test_a_run_just_recorded_is_replayed_from_the_primary(both: Pair, start: Callable[[Settings], Engine]) -> None:
    """A standby that is behind knows nothing of the run: records and pins are the primary's."""
    engine = start(both.settings(standby=WHOLE_DAY))
    both.hold_back()
    first = search(engine, run=RUN)
    assert both.standby.execute("SELECT count(*) FROM retrieval.runs") == 0
    again = replay(engine, run=RUN)
    assert {pin["verdict"] for pin in again["pins"]} == {"exact"}
    assert [chunk["chunk_id"] for chunk in again["chunks"]] == [chunk["chunk_id"] for chunk in first["chunks"]]
    assert without_trace(search(engine, run=RUN)) == without_trace(first)
    with pytest.raises(InvalidJob, match="another job"):
        search(engine, run=RUN, k=11)


def test_a_replay_says_what_the_primary_says(both: Pair, start: Callable[[Settings], Engine]) -> None:
    """A chunk that was edited a moment ago is `edited`, though a search still finds it as it was."""
    engine = start(both.settings(standby=WHOLE_DAY))
    both.hold_back()
    both.write(EDITED)
    search(engine, run=RUN)
    verdicts = {pin["chunk_id"]: pin["verdict"] for pin in replay(engine, run=RUN)["pins"]}
    assert verdicts[EDITED_ID] == "edited"
    again = search(engine, run=RUN)
    assert EDITED_ID not in texts(again["chunks"])
    assert again["short_reason"] == "changed"


def test_a_conversation_goes_on_though_the_standby_is_behind(both: Pair, start: Callable[[Settings], Engine]) -> None:
    """Packages and responses are written to the primary, and read there."""
    engine = start(both.settings(standby=WHOLE_DAY))
    both.hold_back()
    first = ask_pipeline(engine, question=HUM, mode="grounded")
    then = ask_pipeline(engine, question=HUM, mode="grounded", prior_response_id=first["response_id"])
    assert then["conversation_id"] == first["conversation_id"]
    stopped = ask_pipeline(engine, question=HUM, mode="grounded", stop_after="build_sources", k=3)
    resumed = ask_pipeline(engine, resume=stopped["package"]["package_id"])
    assert resumed["status"] == "ok"


def test_what_a_cache_keeps_is_found_on_the_primary(both: Pair, start: Callable[[Settings], Engine]) -> None:
    """It is kept under the version that the primary has: an older find would stand there as a new one."""
    cache = {"tasks": ["retrieve_hybrid"], "url": "redis://127.0.0.1:1/0"}
    engine = start(both.settings(standby=WHOLE_DAY, cache=cache))
    both.hold_back()
    both.write(EDITED)
    assert texts(hybrid(engine)["results"]["documents"]["chunks"])[EDITED_ID] == "edited"
    assert texts(search(engine)["chunks"])[EDITED_ID] != "edited"


def test_a_worker_process_reads_what_its_environment_says(
    both: Pair, stack: Stack, broker: redis.Redis, tmp_path: Path
) -> None:
    """Two variables and nothing else: a search reads the standby, its record stands on the primary."""
    del broker  # emptied
    environment = {
        **stack_environment(stack, TRUST_QUEUE="true", STANDBY__MAX_LAG_SECONDS="86400"),
        "DATABASE_CONNECTION_STRING": both.dsn("primary"),
        "DATABASE_READ_CONNECTION_STRING": both.dsn("prefer-standby"),
    }
    both.hold_back()
    both.write(EDITED)
    job = RetrieveTopK(query_embedding=QUERY, principal={"user_id": "alice"}, run=RunRef(**RUN))
    with (
        celery_worker(environment, tmp_path / "worker.log", "--concurrency=1"),
        contextlib.closing(Client(stack.redis.url(0), stack.redis.url(1))) as client,
    ):
        first, again = (client.call(job, timeout=SECONDS) for _ in range(2))
    assert EDITED_ID in {chunk.chunk_id for chunk in first.chunks}
    assert EDITED_ID not in {chunk.chunk_id for chunk in again.chunks}
    assert both.primary.execute("SELECT count(*) FROM retrieval.runs") == 1


# --- who may see what ---------------------------------------------------------------------------


def test_the_standby_shows_each_caller_what_the_primary_does(both: Pair, start: Callable[[Settings], Engine]) -> None:
    """The policies are copied with the rows, and the claims are stated in each transaction there, too."""
    standby = start(both.settings(standby=WHOLE_DAY))
    primary = start(both.settings(database_read_connection_string=None))
    both.hold_back()
    answers = {}
    for user in ("alice", "bob", "carol", "nobody", "alice"):
        answers[user] = without_trace(search(standby, user))
        assert answers[user] == without_trace(search(primary, user))
    assert answers["alice"]["chunks"] != answers["bob"]["chunks"]
    with pytest.raises(NotAuthorised):
        search(standby, None)


def test_a_revoked_right_ends_on_the_standby_once_it_gets_there(
    both: Pair, start: Callable[[Settings], Engine]
) -> None:
    """A search may show what was visible within the lag; a replay does not."""
    engine = start(both.settings(standby=WHOLE_DAY))
    before = search(engine, "bob", run=RUN)
    both.hold_back()
    both.write("UPDATE documents SET owner_id = 'x' WHERE owner_id = 'bob'")
    during = search(engine, "bob")
    assert during["chunks"] == before["chunks"]
    assert "missing" in {pin["verdict"] for pin in replay(engine, "bob", run=RUN)["pins"]}
    both.catch_up()
    assert search(engine, "bob")["chunks"] != before["chunks"]


# --- min_lsn ------------------------------------------------------------------------------------


def test_no_right_revoked_before_min_lsn_is_shown(both: Pair, start: Callable[[Settings], Engine]) -> None:
    """By no task that searches; the standby goes on to answer jobs that ask for less."""
    engine = start(both.settings(standby=WHOLE_DAY))

    def ids_of(**min_lsn: str) -> list[set[str]]:
        pipeline = ask_pipeline(engine, user="bob", question=HUM, mode="grounded", **min_lsn)
        chunk_lists = [
            search(engine, "bob", **min_lsn)["chunks"],
            hybrid(engine, "bob", **min_lsn)["results"]["documents"]["chunks"],
            pipeline["package"]["candidates"],
        ]
        return [{chunk["chunk_id"] for chunk in chunks} for chunks in chunk_lists]

    before = ids_of()
    both.hold_back()
    own = both.primary.execute(
        "SELECT array_agg(c.id) FROM document_chunks AS c JOIN documents AS d ON d.id = c.document_id"
        " WHERE d.owner_id = 'bob' AND d.visibility = 'private'"
    )
    both.write("UPDATE documents SET owner_id = 'x' WHERE owner_id = 'bob'")
    position = both.primary.execute("SELECT pg_current_wal_lsn()")
    assert all(ids & {*own} for ids in before)
    assert not any(ids & {*own} for ids in ids_of(min_lsn=position))
    assert ids_of() == before


def test_a_standby_that_has_replayed_min_lsn_answers(both: Pair, search_side: Callable[[Settings], Standby]) -> None:
    reads = search_side(both.settings(standby=WHOLE_DAY))
    both.hold_back()
    both.write(EDITED)
    principal = dataclasses.replace(asker("alice"), min_lsn=both.primary.execute("SELECT pg_current_wal_lsn()"))
    assert reads.read(principal, IN_RECOVERY) == [[(False,)]]
    both.catch_up()
    assert reads.read(principal, IN_RECOVERY) == [[(True,)]]


def test_a_position_that_no_server_has_replayed_is_waited_for(both: Pair, start: Callable[[Settings], Engine]) -> None:
    """As after a failover that lost writes: no server is searched, and the queue tries the job again."""
    engine = start(both.settings(standby=WHOLE_DAY))
    for ask in (search, hybrid):
        with pytest.raises(Unavailable, match="min_lsn: no server"):
            ask(engine, min_lsn="FFFFFFFF/0")


def test_a_role_that_sees_past_the_policies_there_is_refused(
    both: Pair, start: Callable[[Settings], Engine], capsys: pytest.CaptureFixture[str]
) -> None:
    """At the start; and in a process, that server is never read."""
    settings = both.settings(
        standby=WHOLE_DAY, database_read_connection_string=both.dsn("prefer-standby", user="postgres")
    )
    with pytest.raises(SystemExit) as ended:
        refuse_unsafe_start(settings)
    assert ended.value.code == 78
    said = capsys.readouterr().err
    assert "DATABASE_READ_CONNECTION_STRING: the role postgres is a superuser" in said
    assert any("superuser" in one.text for one in examine(settings) if one.level == "problem")
    engine = start(settings)
    both.hold_back()
    both.write(EDITED)
    assert texts(search(engine)["chunks"])[EDITED_ID] == "edited"


# --- lag ----------------------------------------------------------------------------------------


def test_a_standby_too_far_behind_is_left_alone_for_a_while(
    both: Pair, search_side: Callable[[Settings], Standby], clock: Clock
) -> None:
    """Then the primary answers; the standby is asked again after a rest, and answers once it has caught up."""
    reads = search_side(both.settings(standby={"max_lag_seconds": 0.2}))
    assert on_standby(reads)
    both.hold_back()
    both.write(EDITED)
    wait_for(lambda: not on_standby(reads))
    both.catch_up()
    assert not on_standby(reads)
    clock.now += REST_SECONDS
    assert on_standby(reads)


def test_a_standby_of_an_idle_primary_is_not_behind(both: Pair, search_side: Callable[[Settings], Standby]) -> None:
    """However old the last commit is: all there is has been replayed."""
    assert both.standby.execute("SELECT now() - pg_last_xact_replay_timestamp() > interval '1 microsecond'")
    reads = search_side(both.settings(standby={"max_lag_seconds": 0.000001}))
    wait_for(lambda: on_standby(reads))


# --- servers that go away -----------------------------------------------------------------------


def test_the_primary_answers_while_the_standby_is_away(
    both: Pair, search_side: Callable[[Settings], Standby], clock: Clock
) -> None:
    """From its first read on, and again where it came back."""
    only = f"postgresql://retrieval_worker@127.0.0.1:{both.standby.link.port}/postgres"
    reads = search_side(both.settings(database_read_connection_string=only))
    assert on_standby(reads)
    both.standby.link.refuse(True)
    assert not on_standby(reads)
    clock.now += REST_SECONDS
    assert not on_standby(reads)
    both.standby.link.refuse(False)
    wait_for(lambda: rested(reads, clock))


def test_a_process_begins_though_the_standby_is_away(
    both: Pair, search_side: Callable[[Settings], Standby], clock: Clock
) -> None:
    """It is no reason not to start, and is used as soon as it is there."""
    both.standby.link.refuse(True)
    only = f"postgresql://retrieval_worker@127.0.0.1:{both.standby.link.port}/postgres"
    settings = both.settings(database_read_connection_string=only)
    refuse_unsafe_start(settings)
    reads = search_side(settings)
    assert not on_standby(reads)
    both.standby.link.refuse(False)
    wait_for(lambda: rested(reads, clock))


def test_a_standby_that_says_nothing_is_not_waited_for_for_ever(
    both: Pair, search_side: Callable[[Settings], Standby]
) -> None:
    """Its connections are given up after the statement's own limit, and the read is answered elsewhere."""
    shipped = both.settings().search.model_dump()
    settings = both.settings(search=shipped | {"statement_timeout_seconds": 1.0})
    reads = search_side(settings)
    assert on_standby(reads)
    both.standby.link.go_silent()
    assert reads.read(asker("alice"), [(b"SELECT 1", {})]) == [[(1,)]]


def test_a_connection_string_that_prefers_a_standby_takes_the_primary_where_there_is_none(
    failing: Pair, search_side: Callable[[Settings], Standby], clock: Clock
) -> None:
    """The string names both servers, the primary first."""
    reads = search_side(failing.settings())
    assert on_standby(reads)
    failing.standby.end()
    assert not on_standby(reads)
    clock.now += REST_SECONDS
    assert not on_standby(reads)


def test_a_promoted_standby_is_searched_and_written_to(failing: Pair, start: Callable[[Settings], Engine]) -> None:
    """Both strings find it by themselves, and what was recorded before is there."""
    engine = start(failing.settings())
    search(engine, run=RUN)
    failing.catch_up()
    failing.primary.end()
    failing.standby.execute("SELECT pg_promote()")

    def answered() -> bool:
        try:  # as the queue would, again and again
            search(engine, run={**RUN, "run_id": "r2"})
        except Unavailable:
            return False
        return True

    wait_for(answered)
    assert failing.standby.execute("SELECT count(*) FROM retrieval.runs") == 2
    assert {pin["verdict"] for pin in replay(engine, run=RUN)["pins"]} == {"exact"}


def test_a_standby_promoted_beside_its_primary_is_not_read(
    failing: Pair, search_side: Callable[[Settings], Standby]
) -> None:
    """It would show for ever what was revoked since: the primary answers."""
    only = f"postgresql://retrieval_worker@127.0.0.1:{failing.standby.link.port}/postgres"
    reads = search_side(failing.settings(database_read_connection_string=only))
    assert on_standby(reads)
    failing.standby.execute("SELECT pg_promote()")
    failing.write("UPDATE documents SET owner_id = 'nobody', visibility = 'private'")
    assert reads.read(asker("alice"), [(b"SELECT count(*) FROM documents WHERE owner_id <> 'nobody'", {})]) == [[(0,)]]


def test_a_server_that_is_no_copy_of_the_primary_is_not_read(
    failing: Pair, make_settings: Callable[..., Settings], database: str, search_side: Callable[[Settings], Standby]
) -> None:
    """Tables of the same names, other rows, on the standby of somebody else: whatever set-up led there."""
    failing.write(
        "ALTER TABLE document_chunks RENAME TO others; CREATE TABLE document_chunks (LIKE others INCLUDING ALL);"
        "ALTER TABLE document_chunks ENABLE ROW LEVEL SECURITY; GRANT SELECT ON document_chunks TO retrieval_worker"
    )
    failing.catch_up()
    read = {"database_read_connection_string": failing.dsn("prefer-standby")}
    assert on_standby(search_side(failing.settings(**read)))
    assert not on_standby(search_side(make_settings(database, **read)))


@pytest.fixture
def partitioned(both: Pair) -> Iterator[Settings]:
    """The settings of a corpus whose table has one partition."""
    both.write(
        "CREATE TABLE parts (LIKE document_chunks) PARTITION BY LIST (document_id);"
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN ('one');"
        "ALTER TABLE parts ENABLE ROW LEVEL SECURITY; GRANT SELECT ON parts TO retrieval_worker"
    )
    both.catch_up()
    corpora: dict[str, Any] = read_values()["corpora"]
    documents = {**corpora["documents"], "table": "public.parts"}
    yield both.settings(
        database_read_connection_string=f"postgresql://retrieval_worker@127.0.0.1:{both.standby.link.port}/postgres",
        corpora={**corpora, "documents": documents},
    )
    both.write("DROP TABLE parts")


def test_a_new_partition_makes_the_standby_no_other_server(
    both: Pair, partitioned: Settings, search_side: Callable[[Settings], Standby], clock: Clock
) -> None:
    """It came after the process began; once the standby was away, both are looked at as they are now."""
    reads = search_side(partitioned)
    assert on_standby(reads)
    both.write("CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN ('two')")
    both.catch_up()
    both.standby.link.refuse(True)
    assert not on_standby(reads)
    both.standby.link.refuse(False)
    wait_for(lambda: rested(reads, clock))


# --- doctor -------------------------------------------------------------------------------------


def test_doctor_shows_the_lag(both: Pair) -> None:
    """Searches on a standby: their rows, their lag, and what could hide a lag."""

    def said(settings: Settings) -> list[tuple[str, str]]:
        return [(one.level, one.text) for one in examine(settings) if one.subject == "standby"]

    ok, silence = said(both.settings())
    assert ok == ("ok", "it answers searches, and is 0.0 s behind its primary")
    assert silence[0] == "advice"
    command = silence[1][silence[1].index("ALTER SYSTEM") : silence[1].index(", and reload")]
    both.standby.execute(command)
    both.standby.execute("SELECT pg_reload_conf()")
    wait_for(lambda: both.standby.execute("SHOW wal_receiver_timeout") == "10s")
    assert said(both.settings()) == [ok]
    both.standby.execute("ALTER SYSTEM RESET wal_receiver_timeout")
    both.standby.execute("SELECT pg_reload_conf()")
    both.hold_back()
    both.write(EDITED)
    behind = both.settings(standby={"max_lag_seconds": 0.001})
    assert "behind its primary" in said(behind)[0][1]
    assert said(behind)[0][0] == "advice"
    assert said(both.settings(database_read_connection_string=None)) == []
    primary = both.settings(database_read_connection_string=both.dsn("primary"))
    assert said(primary) == [("advice", "DATABASE_READ_CONNECTION_STRING leads to a primary: no standby answers")]
    away = both.settings(database_read_connection_string="postgresql://retrieval_worker@127.0.0.1:1/postgres")
    assert said(away) == [("advice", "it does not answer: searches ask the primary")]


def test_doctor_says_what_a_failover_would_lose(both: Pair) -> None:
    """A standby that no commit waits for has not yet received what was answered last; one that is named has."""

    def losing(settings: Settings) -> list[str]:
        return [one.text for one in examine(settings) if "loses the records that it has not received" in one.text]

    (advice,) = losing(both.settings())
    assert advice.startswith("synchronous_standby_names is empty: a failover to a standby")
    both.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    both.primary.execute("SELECT pg_reload_conf()")
    wait_for(lambda: both.primary.execute("SHOW synchronous_standby_names") == "*")
    assert losing(both.settings()) == []
    both.write("ALTER ROLE retrieval_worker SET synchronous_commit = local")
    (advice,) = losing(both.settings())
    assert advice.startswith("synchronous_commit is local: ")
    both.write("ALTER ROLE retrieval_worker RESET synchronous_commit")
    both.primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
    both.primary.execute("SELECT pg_reload_conf()")
