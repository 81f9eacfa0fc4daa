"""Remote control's commands about jobs, of a worker whose processes claim their own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from celery.worker import state as worker_state
from celery.worker.control import control_command, inspect_command

from worker.adapters import logs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.queue.processes.pool import Member
    from worker.queue.processes.table import RunningJob


log = logs.logger("worker.remote_control")


def _shown(state: Any, member: Member, job: RunningJob) -> dict[str, Any]:
    slot = member.slot
    return {
        "id": job.task_id,
        "name": job.task,
        "args": ["(job)"],
        "kwargs": {},
        "type": job.task,
        "hostname": state.hostname,
        "time_start": time.time() - (time.monotonic() - slot.since),
        "acknowledged": False,
        "delivery_info": {"exchange": "", "routing_key": slot.place.partition(".inflight.")[0], "priority": 0},
        "worker_pid": member.pid,
    }


@inspect_command(alias="dump_active")
def active(state: Any, safe: bool = False, **_: Any) -> list[dict[str, Any]]:
    """Jobs that run."""
    del safe
    return [_shown(state, member, job) for member, job in state.consumer.pool.running() if job.is_running]


@inspect_command(alias="dump_reserved")
def reserved(state: Any, **_: Any) -> list[dict[str, Any]]:
    """Jobs that a process has and does not run yet."""
    return [_shown(state, member, job) for member, job in state.consumer.pool.running() if not job.is_running]


@inspect_command(alias="dump_schedule")
def scheduled(_: Any, **__: Any) -> list[dict[str, Any]]:
    """Nothing: delayed jobs wait in Redis."""
    return []


@inspect_command(args=[("ids", str)], signature="[id1 [id2 [... [idN]]]]")
def query_task(state: Any, ids: str | Sequence[str], **_: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """State of jobs that this worker has, by their ids."""
    task_ids = {ids} if isinstance(ids, str) else {*ids}
    return {
        job.task_id: ("active" if job.is_running else "reserved", _shown(state, member, job))
        for member, job in state.consumer.pool.running()
        if job.task_id in task_ids
    }


@control_command()
def disable_events(state: Any, **_: Any) -> dict[str, str]:
    """Send no more events of jobs: Celery's command finds none to disable where they were on from the start."""
    state.consumer.event_dispatcher.groups = {"worker"}
    return {"ok": "task events disabled"}


@control_command(name="add_consumer", args=[("queue", str)], signature="<queue>")
@control_command(name="cancel_consumer", args=[("queue", str)], signature="<queue>")
def change_queues(_: Any, **__: Any) -> dict[str, str]:
    """Nothing: a process has its queues from its start."""
    return {"error": "processes that claim for themselves keep their queues: start another worker with -Q"}


@control_command(
    name="rate_limit", args=[("task_name", str), ("rate_limit", str)], signature="<task_name> <rate_limit>"
)
@control_command(
    name="time_limit",
    args=[("task_name", str), ("soft_secs", float), ("hard_secs", float)],
    signature="<task_name> <soft_secs> [hard_secs]",
)
def change_limits(_: Any, **__: Any) -> dict[str, str]:
    """Nothing: a process has its limits from its start, and claims what waits."""
    return {"error": "limits are those of the worker's settings, for all jobs: start a worker with others"}


@control_command(variadic="task_id", signature="[id1 [id2 [... [idN]]]]")
def revoke(state: Any, task_id: str | Sequence[str], terminate: bool = False, **_: Any) -> dict[str, str]:
    """Revoke jobs: they are not begun; with ``terminate``, the process of one that runs is ended."""
    ids = [task_id] if isinstance(task_id, str) else [*task_id]
    worker_state.revoked.update(ids)
    log.info("jobs revoked", jobs=len(ids), terminate=terminate)
    for revoked in ids:
        state.consumer.pool.revoke(revoked, terminate=terminate)
    return {"ok": f"tasks {', '.join(ids)} {'terminating' if terminate else 'flagged as revoked'}"}


@control_command(variadic="task_id", args=[("signal", str)], signature="<signal> [id1 [id2 [...]]]")
def terminate(state: Any, signal: str, task_id: str | Sequence[str], **_: Any) -> dict[str, str]:
    """Revoke jobs, and end the process of one that runs."""
    del signal  # a process that is asked to stop would end its job first
    answer: dict[str, str] = revoke(state, task_id, terminate=True)
    return answer
