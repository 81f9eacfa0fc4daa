"""Nothing is lost under faults."""

from __future__ import annotations

from .chaos_runs import NO_FAULTS, assert_none, figure, run_chaos

# Seeds are fixed here, so that a run of CI tells of its change and of nothing else; `make chaos-slice` takes others.
SLICE = ("--jobs=5000", "--worker-kills=40", "--redis-kills=6", "--postgres-kills=6", "--blackholes=4", "--freezes=4")
"""One of the runs of `make chaos-slice`."""


def test_nothing_is_lost_under_faults() -> None:
    """Every job that Redis acknowledged is answered, rightly, with no row of another caller."""
    done = run_chaos(*SLICE, "--transport=reliable", seed=423727, seconds=1500)
    assert figure(done, "jobs that Redis acknowledged") == 5000
    assert_none(done, "lost", "still in Redis at the end, unanswered", "wrong answers", "ended as REVOKED")
    assert_none(done, "answers with a row of another caller", "jobs answered twice, and not the same")
    assert_none(done, "dead-lettered without cause", "recorded other than once")
    assert done.returncode == 0


def test_a_run_whose_faults_met_no_work_is_refused() -> None:
    """Six faults and three jobs: what such a run shows is nothing."""
    done = run_chaos(NO_FAULTS[0], NO_FAULTS[1], *NO_FAULTS[3:], "--postgres-kills=6", "--jobs=3", seed=1, seconds=300)
    assert figure(done, "lost") == 0
    assert done.returncode == 3
    assert "met no work" in done.stdout
