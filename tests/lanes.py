"""What `make test` runs, and what it leaves to `make test-all`.

`make test` is for whoever changes something: all that needs no servers, the worker's parts on PostgreSQL 18 and Redis,
and a worker of each kind. The rest takes servers of its own, many rows, many starts of workers, or faults.
"""

from __future__ import annotations

# Files and folders below `tests`; all others are quick.
FULL = (
    "acceptance",
    "containers",
    "integration/test_chaos_fuzz.py",
    "integration/test_chaos_producer.py",
    "integration/test_chaos_proxy.py",
    "integration/test_chaos_watcher.py",
    "integration/test_claims_repeated.py",
    "integration/test_delayed.py",
    "integration/test_fulltext_plans.py",
    "integration/test_message_memory.py",
    "integration/test_owners.py",
    "integration/test_partitions.py",
    "integration/test_plans.py",
    "integration/test_priorities.py",
    "integration/test_probing.py",
    "integration/test_remote_control_links.py",
    "integration/test_replay_stability.py",
    "integration/test_replay_two_callers.py",
    "integration/test_search_width.py",
    "integration/test_side_by_side.py",
    "integration/test_standby.py",
    "integration/test_transport_faults.py",
)

# What of these is quick all the same.
QUICK = (
    "acceptance/test_command_line.py::test_the_demo_answers_two_callers_and_leaves_nothing_running",
    "acceptance/test_each_task.py",
    "acceptance/test_readme.py",
)


def is_full(nodeid: str) -> bool:
    """Whether a test is left to `make test-all`.

    >>> is_full("tests/acceptance/test_chaos.py::test_it"), is_full("tests/unit/test_errors.py::test_it")
    (True, False)
    >>> is_full("tests/acceptance/test_readme.py::test_it_type_checks")
    False
    """
    name = nodeid.removeprefix("tests/")
    return name.startswith(FULL) and not name.startswith(QUICK)
