"""Nothing is lost under faults that are aimed at one moment of a job."""

from __future__ import annotations

from chaos.plan import AIMED

from .chaos_runs import assert_none, figure, run_chaos


def test_nothing_is_lost_under_aimed_faults() -> None:
    """Time limits without results, forks before silence, kills after a grace; with wrong clocks and recycling."""
    done = run_chaos("--only-aimed", "--aimed=1", "--jobs=400", seed=12, seconds=1500)
    assert figure(done, "faults that met work") == len(AIMED)
    assert_none(done, "lost", "wrong answers", "dead-lettered without cause", "ended as REVOKED")
    assert_none(done, "workers that ended by themselves")
    assert done.returncode == 0
