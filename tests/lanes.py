"""The lanes: `make test` runs the quick one, `make test-rest` the full one, `make test-all` both.

The quick lane is for each change: all that needs no servers, the worker's parts on PostgreSQL 18 and Redis, a worker of
each kind. The full lane has what takes servers of its own, many rows, many starts of workers, or faults; and it runs
the property tests of the quick lane again, with more examples. What compares with packages of others, each in an
environment that takes minutes to make, has a lane of its own, for releases: `make test-peers`.
"""

from __future__ import annotations

# Of the full lane: files, folders and tests below `tests`, by the beginnings of their names. All others are quick.
FULL = (
    "acceptance",
    "acceptance/test_readme.py::test_those_of_the_client_type_check",
    "containers",
    "integration/test_access_control.py::test_no_caller_sees_anothers_rights_over_thousands_of_jobs_on_one_connection[3000]",
    "integration/test_adopted_layouts.py",
    "integration/test_adopted_tables.py",
    "integration/test_adopted_tenants.py",
    "integration/test_bodies.py",
    "integration/test_cache.py",
    "integration/test_chaos_fuzz.py",
    "integration/test_chaos_producer.py",
    "integration/test_chaos_proxy.py",
    "integration/test_chaos_watcher.py",
    "integration/test_claims.py",
    "integration/test_client_outages.py",
    "integration/test_column_types.py",
    "integration/test_crashes.py",
    "integration/test_delayed.py",
    "integration/test_doctor_faults.py",
    "integration/test_evaluate_beside_ranx.py",
    "integration/test_foreign_objects.py",
    "integration/test_fulltext_plans.py",
    "integration/test_inspector_faces.py",
    "integration/test_inspector_hostile.py",
    "integration/test_inspector_pages.py::test_a_hostile_text",
    "integration/test_inspector_pages.py::test_a_text_of_a_megabyte",
    "integration/test_load_folder.py",
    "integration/test_local_embedder.py",
    "integration/test_local_servers.py::test_a_folder",
    "integration/test_message_memory.py",
    "integration/test_misconfigured_tables.py",
    "integration/test_owners.py",
    "integration/test_partitions.py",
    "integration/test_pipeline_cache.py",
    "integration/test_pipeline_models.py",
    "integration/test_plans.py",
    "integration/test_priorities.py",
    "integration/test_redis_as_shipped.py::test_a_worker_",
    "integration/test_remote_control_links.py",
    "integration/test_replay_stability.py",
    "integration/test_replay_two_callers.py",
    "integration/test_rights_at_each_read.py::test_no_read_answers",
    "integration/test_rights_at_each_read.py::test_records_are_not_read",
    "integration/test_run_files.py",
    "integration/test_search_width.py",
    "integration/test_standby.py",
    "integration/test_tenants.py::test_no_command",
    "integration/test_terminal_inspector.py",
    "integration/test_turns.py",
    "integration/test_unanswerable.py",
    "unit/core/test_across_pythons.py",
    "unit/core/test_growth.py",
    "unit/core/test_visible.py",
    "unit/test_message_growth.py",
    "unit/test_wrong_invocations.py::test_a_process_says_the_same",
)

# Of the lane of packages of others.
PEERS = (
    "integration/test_adopted_tables.py::test_a_table_that_is_there_is_adopted[LangChain",
    "integration/test_adopted_tables.py::test_a_table_that_is_there_is_adopted[LlamaIndex",
    "integration/test_evaluate_beside_ranx.py",
)

_ADOPTED = "integration/test_adopted_tables.py::test_"
_FAULT = "integration/test_doctor_faults.py::test_a_fault_is_one_sentence_whose_mend_ends_it"
_RIGHTS = (
    "integration/test_rights_at_each_read.py::test_no_read_answers_while_its_rights_are_too_wide_and_all_do_again_after"
)

# Of these, quick all the same.
QUICK = (
    "acceptance/test_command_line.py::test_the_demo_answers_two_callers_and_leaves_nothing_running",
    "acceptance/test_each_task.py",
    "acceptance/test_readme.py",
    f"{_ADOPTED}a_table_that_can_not_be_a_corpus",
    f"{_ADOPTED}a_table_that_is_there_is_adopted[partitioned]",
    f"{_ADOPTED}a_table_that_is_there_is_adopted[uuids with tenants]",
    f"{_ADOPTED}adopt_changes_nothing",
    f"{_ADOPTED}names_can_not_end_a_comment",
    "integration/test_adopted_tenants.py::test_no_tenant_sees_a_row_of_another[the same name of the key]",
    "integration/test_cache.py::test_a_hit_is",
    "integration/test_cache.py::test_a_revoked_grant",
    "integration/test_cache.py::test_no_caller_gets",
    "integration/test_client_outages.py::test_an_idle_client",
    "integration/test_crashes.py::test_after_any_events_every_message_has_one_outcome[1",
    "integration/test_doctor_faults.py::test_a_caller_sees",
    f"{_FAULT}[a third of the embeddings missing]",
    f"{_FAULT}[no right on a table that a policy reads]",
    "integration/test_doctor_faults.py::test_there_are",
    "integration/test_foreign_objects.py::test_migrate_keeps",
    "integration/test_foreign_objects.py::test_no_code_of_a_table_s_owner_runs_as_whoever_adopts[True-an index]",
    "integration/test_foreign_objects.py::test_no_function",
    "integration/test_local_embedder.py::test_a_corpus_that_another",
    "integration/test_pipeline_cache.py::test_a_hit_is",
    "integration/test_pipeline_models.py::test_without_an_answer",
    f"{_RIGHTS}_and_all_do_again_after[row security of the chunks]",
    f"{_RIGHTS}_and_all_do_again_after[superuser]",
    "integration/test_run_files.py::test_a_run_goes_out",
    "integration/test_terminal_inspector.py::test_a_question_goes_on",
    "integration/test_turns.py::test_a_lone_message_of_another_caller_is_next_but_one_whatever_the_backlog[bundled]",
    "integration/test_turns.py::test_an_error_while_it_sorts_loses_nothing[bundled]",
    "integration/test_turns.py::test_callers_take_turns_whatever_each_has_waiting[bundled]",
    "unit/test_wrong_invocations.py::test_a_process_says_the_same[no-such-command]",
)


def is_full(nodeid: str) -> bool:
    """Return whether a test is of the full lane: of the names above that it begins with, the longest decides.

    >>> is_full("tests/acceptance/test_chaos.py::test_it"), is_full("tests/unit/test_errors.py::test_it")
    (True, False)
    >>> is_full("tests/acceptance/test_readme.py::test_every_example_can_be_read")
    False
    >>> is_full("tests/acceptance/test_readme.py::test_those_of_the_client_type_check")
    True
    """
    name = nodeid.removeprefix("tests/")
    if not name.startswith(FULL):
        return False
    in_full, in_quick = (max((len(one) for one in names if name.startswith(one)), default=0) for names in (FULL, QUICK))
    return in_full > in_quick


def is_of_peers(nodeid: str) -> bool:
    """Return whether a test, of the full lane, needs packages of others.

    >>> is_of_peers("tests/integration/test_evaluate_beside_ranx.py::test_it")
    True
    """
    return nodeid.removeprefix("tests/").startswith(PEERS)


def has_quick_tests(file: str) -> bool:
    """Return whether a file may have tests of the quick lane.

    >>> has_quick_tests("tests/acceptance/test_command_line.py"), has_quick_tests("tests/acceptance/test_chaos.py")
    (True, False)
    """
    return not is_full(file) or any(one.startswith(file.removeprefix("tests/")) for one in QUICK)
