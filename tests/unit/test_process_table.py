"""The table that pool processes and their main process share."""

from __future__ import annotations

import os

import pytest

from worker.queue.processes.table import MOST_JOBS, RunningJob, State, Table


def test_a_forked_process_writes_what_its_parent_reads() -> None:
    """Its jobs, also after it died."""
    table = Table(2)
    slot = table.slots[1]
    slot.clear()
    pid = os.fork()
    if pid == 0:
        slot.announce(["retrieval.inflight.a", "retrieval.inflight.b"])
        slot.begin("retrieval.inflight.a", [("retrieve_top_k", "é"), ("ask", "2")], 5.0, together=True)
        os._exit(0)
    os.waitpid(pid, 0)
    assert slot.places == ["retrieval.inflight.a", "retrieval.inflight.b"]
    assert (slot.place, slot.state, slot.since, slot.claims) == ("retrieval.inflight.a", State.RUNNING, 5.0, 1)
    assert slot.running == [RunningJob("retrieve_top_k", "é", True), RunningJob("ask", "2", True)]
    assert table.slots[0].running == []


def test_a_job_that_runs_alone_is_the_first_of_those_that_are_left() -> None:
    slot = Table(1).slots[0]
    slot.begin("list", [("a", "1"), ("a", "2"), ("a", "3")], 1.0, together=True)
    slot.begin_next(1, 2.0)
    assert [(job.task_id, job.is_running) for job in slot.running] == [("2", True), ("3", False)]
    assert (slot.position, bool(slot.together), slot.since) == (1, False, 2.0)
    for state in (State.ENDED, State.IDLE):
        slot.state = state
        assert slot.running == []


def test_the_next_process_of_a_slot_begins_anew() -> None:
    slot = Table(1).slots[0]
    slot.announce(["list"])
    slot.begin("list", [("a", "1")], 1.0, together=False)
    slot.is_leaving = True
    slot.clear()
    assert (slot.places, slot.running, slot.state, slot.is_leaving, slot.claims) == ([], [], State.STARTING, 0, 0)


def test_an_id_as_long_as_any_is_kept_whole_and_a_longer_bundle_is_cut() -> None:
    """Senders choose ids: at most 512 characters, of four bytes each."""
    slot = Table(1).slots[0]
    slot.begin("list", [("a", "𝕏" * 512) for _ in range(MOST_JOBS + 1)], 1.0, together=True)
    assert [job.task_id for job in slot.running] == ["𝕏" * 512] * MOST_JOBS


def test_a_process_learns_of_revocations_since_it_looked() -> None:
    head = Table(1).head
    head.revoke(2**64 - 1)
    seen = head.revocations
    head.revoke(7)
    assert (head.revoked_since(0), head.revoked_since(seen), head.revoked_since(2)) == ({2**64 - 1, 7}, {7}, set())


def test_more_lists_than_the_table_has_room_for_are_refused() -> None:
    """Not cut: an owner that is not renewed counts as dead."""
    with pytest.raises(ValueError, match="too many queues"):
        Table(1).slots[0].announce(["x" * 400] * 11)
