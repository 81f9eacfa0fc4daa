"""The drift watch on a real Postgres with the sample corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import asker

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import NotAuthorised, SettingsError
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.drift import PAGE, watcher

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.jobs.engine import Engine
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]

QUERY = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()


def record(engine: Engine, user: str, run_id: str) -> list[dict[str, Any]]:
    run = {"subject_id": "song-1", "run_id": run_id}
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": run, "k": 10})
    chunks: list[dict[str, Any]] = engine.retrieval.top_k(job, JobContext(lambda: asker(user)))["chunks"]
    return chunks


def test_what_drifted_is_told_run_by_run(engine: Engine, admin: Admin) -> None:
    """Edited and missing chunks are drift; a moved one and white space are not."""
    chunks = record(engine, "alice", "r1")
    assert [run.as_json() for run in engine.verifying.all(asker("alice"), "alice")] == [
        {"subject_id": "song-1", "run_id": "r1", "drifted": False, "verdicts": {"exact": 10}}
    ]
    ids = [chunk["chunk_id"] for chunk in chunks]
    admin.execute("UPDATE document_chunks SET text_content = text_content || E'\\n' WHERE id = %s", (ids[0],))
    admin.execute("UPDATE document_chunks SET id = 'moved' WHERE id = %s", (ids[1],))
    (harmless,) = engine.verifying.all(asker("alice"), "alice")
    assert (harmless.drifted, harmless.verdicts) == (False, {"exact": 8, "moved": 1, "normalised": 1})
    admin.execute("UPDATE document_chunks SET text_content = 'x' WHERE id = %s", (ids[2],))
    admin.execute("DELETE FROM document_chunks WHERE id = %s", (ids[3],))
    (drifted,) = engine.verifying.all(asker("alice"), "alice")
    assert drifted.drifted
    assert drifted.verdicts == {"edited": 1, "exact": 6, "missing": 1, "moved": 1, "normalised": 1}


def test_runs_are_those_of_the_owner_and_seen_with_the_rights_of_who_looks(engine: Engine) -> None:
    """Bob's check counts bob's runs; everybody's, seen by bob, miss what bob may not see."""
    record(engine, "alice", "r1")
    record(engine, "bob", "r2")
    assert [run.run_id for run in engine.verifying.all(asker("bob"), "bob")] == ["r2"]
    assert engine.verifying.count("bob") == 1
    seen_by_bob = {run.run_id: run.drifted for run in engine.verifying.all(asker("bob"), None)}
    assert seen_by_bob == {"r1": True, "r2": False}
    with pytest.raises(NotAuthorised):
        [*engine.verifying.all(None, None)]


def test_the_schedule_takes_new_runs_first_then_those_checked_longest_ago(engine: Engine, admin: Admin) -> None:
    """Each tick its batch, so that every run has its turn; a drift is noted once, as an event of the run."""
    for n in range(5):
        record(engine, "alice", f"r{n}")
    turns = [[run.run_id for run in engine.verifying.due(asker("alice"), 2)] for _ in range(4)]
    assert turns == [["r0", "r1"], ["r2", "r3"], ["r4", "r0"], ["r1", "r2"]]
    admin.execute("UPDATE document_chunks SET text_content = 'x' || text_content")
    for _ in range(3):
        assert all(run.drifted for run in engine.verifying.due(asker("alice"), 5))
    reported = admin.execute(
        "SELECT data, count(*) FROM retrieval.run_events WHERE kind = 'drifted' GROUP BY 1"
    ).fetchall()
    assert reported == [({"edited": 10}, 5)]


def test_more_runs_than_a_page(engine: Engine, admin: Admin) -> None:
    """Every run once, in order, across pages; a corpus that is configured no more holds nothing."""
    record(engine, "alice", "r")
    admin.execute(
        "INSERT INTO retrieval.runs (owner, subject_id, run_id)"
        " SELECT 'alice', 'many', lpad(n::text, 4, '0') FROM generate_series(1, %s) AS n",
        (2 * PAGE + 1,),
    )
    admin.execute(
        """
        WITH records AS (
          INSERT INTO retrieval.run_records (run, task, step, job, job_sha256, claims_sha256, answer)
          SELECT id, 'retrieve_top_k', '', '{}', '', '', '{}' FROM retrieval.runs WHERE subject_id = 'many'
          RETURNING run
        )
        INSERT INTO retrieval.run_pins
        SELECT records.run, 'retrieve_top_k', '', p.rank, CASE WHEN p.rank = 1 THEN 'gone' ELSE p.corpus END,
               p.chunk_hash, p.hash_version, p.raw_hash, p.chunk_id, p.document_id, p.score
          FROM records, retrieval.run_pins p
        """
    )
    checked = [*engine.verifying.all(asker("alice"), "alice", "many")]
    assert [run.run_id for run in checked] == [f"{n:04}" for n in range(1, 2 * PAGE + 2)]
    assert {tuple(run.verdicts.items()) for run in checked} == {(("exact", 9), ("missing", 1))}
    assert [run.run_id for run in engine.verifying.all(asker("alice"), "alice", "many", "0007")] == ["0007"]


def test_the_audit_of_all_runs_can_write_no_record(engine: Engine, admin: Admin) -> None:
    """The setting of the check lets a transaction read runs of all owners, and make none."""
    record(engine, "alice", "r1")
    database = engine._database
    ((row,),) = database.audit([(b"SELECT count(*) FROM retrieval.runs", {})])
    assert row == (1,)
    insert = b"INSERT INTO retrieval.runs (owner, subject_id, run_id) VALUES ('bob', 's', 'r')"
    with pytest.raises(SettingsError):
        database.audit([(insert, {})], write=True)
    assert admin.execute("SELECT owner FROM retrieval.runs").fetchall() == [("alice",)]


@pytest.mark.parametrize(
    ("principal", "said"), [({}, "verify.principal is missing"), ({"user_id": ["a", "b"] * 2000}, "verify.principal")]
)
def test_a_watcher_that_is_nobody_stops_the_start(
    make_settings: Callable[..., Settings], principal: dict[str, Any], said: str
) -> None:
    """Everybody's runs are checked with rights that the settings name."""
    with pytest.raises(SettingsError, match=said):
        watcher(make_settings(verify={"principal": principal}))
