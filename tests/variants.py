"""Tests with many variants of one behaviour: how many of them run in `make test`; the others are in `make prove`.

Those that run are spread evenly over the variants, in the order of the parameters. 0 is for a test that has no variant
and takes long: others in `make test` show what it shows, if less of it. A test belongs here if it takes more than a
second or two of a core, and not if its variants take different ways through the code.
"""

from __future__ import annotations

IN_TEST = {
    "tests/broker/test_compaction_storm.py::test_nothing_committed_is_lost_and_nothing_old_comes_back": 10,
    "tests/broker/test_fuzz_files.py::test_damaged_segments_give_no_record_that_was_not_written": 6,
    "tests/broker/test_fuzz_files.py::test_what_is_derived_from_the_log_is_made_again": 6,
    "tests/broker/test_fuzz_requests.py::test_damaged_requests_of_every_version_harm_nobody": 9,
    "tests/broker/test_groups_storm.py::test_every_request_is_answered_and_the_group_comes_to_rest": 1,
    "tests/broker/test_log_storm.py::test_a_log_stays_what_was_written": 10,
    "tests/broker/test_transactions_storm.py::test_readers_see_committed_transactions_whole_and_nothing_else": 1,
    "tests/cli/test_bad_input.py::test_address_where_nobody_listens": 0,
    "tests/cli/test_bad_input.py::test_command_line_that_cannot_be_used": 5,
    "tests/cli/test_bad_input.py::test_disk_that_takes_no_more": 0,
    "tests/cli/test_characters.py::test_commands_do_without_what_the_terminal_lacks": 4,
    "tests/cli/test_command_config.py::test_every_command_refuses_a_mistake_with_the_name_of_the_file": 4,
    "tests/cli/test_command_config.py::test_settings_of_other_programs_are_passed_over_by_name": 1,
    "tests/cli/test_command_config.py::test_what_is_wrong_with_the_file_is_one_sentence": 2,
    "tests/cli/test_command_config.py::test_what_other_clients_are_told_is_not_refused": 1,
    "tests/cli/test_help.py::test_everything_can_be_read_on_a_narrow_terminal": 16,
    "tests/cli/test_inspect.py::test_entries_are_shown_one_by_one_as_json_and_as_a_table": 1,
    "tests/cli/test_inspect.py::test_small_files_are_shown_and_their_damage_too": 1,
    "tests/cli/test_inspect.py::test_what_is_no_file_of_a_broker_is_said_in_a_sentence": 2,
    "tests/cli/test_output.py::test_a_reader_that_has_seen_enough_is_no_failure": 2,
    "tests/cli/test_serve.py::test_a_damaged_batch_is_never_lost_in_silence": 1,
    "tests/cli/test_serve.py::test_a_line_that_is_no_user_is_named_and_never_repeated": 1,
    "tests/cli/test_serve.py::test_a_signal_ends_it_in_order_and_the_next_start_has_nothing_to_repair": 1,
    "tests/cli/test_serve.py::test_damaged_small_files_cost_no_record": 2,
    "tests/cli/test_serve.py::test_kill_9_of_the_command_alone_ends_its_brokers_and_costs_nothing_acked": 1,
    "tests/cli/test_serve.py::test_what_cannot_be_served_is_one_sentence": 3,
    "tests/cli/test_simulate.py::test_a_file_that_is_no_plan_of_this_version_is_never_run": 3,
    "tests/cli/test_simulate.py::test_a_kept_plan_is_run_again_with_the_same_trace": 0,
    "tests/cli/test_simulate.py::test_a_seed_gives_the_same_trace_whatever_python_hashes_strings_to": 0,
    "tests/cli/test_simulate.py::test_a_trace_hash_is_whole_on_a_narrow_terminal": 0,
    "tests/cli/test_simulate.py::test_what_cannot_be_used_is_refused_in_a_sentence": 4,
    "tests/cli/test_topic_commands.py::test_bad_changes_of_topics_are_one_sentence": 0,
    "tests/cli/test_topic_commands.py::"
    "test_interrupted_produce_does_not_wait_for_silent_brokers_and_tells_what_it_does_not_know": 1,
    "tests/cli/test_topic_commands.py::test_topic_that_does_not_exist_is_named": 0,
    "tests/client/test_event_loops_turn.py::test_an_answer_that_never_comes_is_noticed_in_time": 1,
    "tests/client/test_leaderless_partitions.py::test_records_without_a_key_go_to_partitions_that_have_a_leader": 1,
    "tests/client/test_stalled_memory.py::test_a_stalled_broker_leaves_memory_within_its_limit": 1,
    "tests/client/test_too_large.py::test_records_of_batches_too_large_arrive_in_order_with_their_offsets": 2,
    "tests/cluster/test_breaking_brokers.py::test_a_fault_that_cuts_the_power_leaves_the_same_bytes_again": 1,
    "tests/cluster/test_breaking_brokers.py::"
    "test_a_page_cache_outlives_its_killed_broker_and_not_the_power_of_the_cluster": 1,
    "tests/cluster/test_breaking_brokers.py::test_who_was_stopped_in_order_has_nothing_to_lose_without_power": 1,
    "tests/cluster/test_pytest_plugin.py::test_a_failing_test_shows_the_users_lines_and_no_frame_without_source": 1,
    "tests/cluster/test_pytest_plugin.py::test_brokers_and_settings_are_as_told": 1,
    "tests/cluster/test_pytest_plugin.py::test_what_cannot_be_is_said": 1,
    "tests/cluster/test_secure_listeners.py::test_librdkafka_renews_a_short_session": 0,
    "tests/conformance/test_leader_killed.py::"
    "test_with_idempotence_every_record_is_there_once_in_order_where_its_delivery_says": 2,
    "tests/house/test_tiers.py::test_a_choice_that_leaves_nothing_is_an_error_that_says_where_to_look": 1,
    "tests/house/test_tiers.py::test_a_tier_runs_what_is_in_it_and_what_is_named": 3,
    "tests/interop/test_ottla_and_apache_kafka.py::test_records_sent_by_ottla_are_read_by_librdkafka": 2,
    "tests/producer/test_settings.py::test_a_secret_in_the_wrong_place_is_not_told": 65,
    "tests/producer/test_storms.py::test_idempotence_with_patience_stores_everything_once_and_in_order": 40,
    "tests/producer/test_storms.py::test_idempotence_without_patience_never_claims_what_is_not_so": 40,
    "tests/producer/test_storms.py::test_logs_that_forget_or_lose_between_storms_get_everything_that_follows": 20,
    "tests/protocol/test_generator.py::test_every_api_of_kafka_can_be_added": 0,
    "tests/protocol/test_kio_agrees.py::test_a_frame_fed_byte_by_byte_gives_the_message": 50,
    "tests/protocol/test_kio_agrees.py::test_both_write_the_same_and_read_each_other": 60,
    "tests/protocol/test_kio_agrees.py::test_every_value_survives_and_no_other_length_is_accepted": 60,
    "tests/seeds/test_simulate.py::test_files_are_written_before_anybody_can_have_enough_of_the_story": 0,
    "tests/simulation/test_negative_controls.py::test_copies_beyond_those_the_application_made_are_found": 0,
    "tests/simulation/test_plan.py::test_every_plan_drawn_survives_a_file": 1,
    "tests/simulation/test_plan.py::test_every_plan_that_reality_is_asked_about_survives_a_file": 0,
    "tests/simulation/test_timed_faults.py::test_most_of_what_is_drawn_fires": 0,
    "tests/trial/test_run.py::test_a_trial_that_comes_with_ottla_is_as_expected": 3,
}


def beyond_their_number(nodeids: list[str]) -> set[str]:
    """Those of these tests that are variants for `make prove`."""
    variants: dict[str, list[str]] = {}
    for nodeid in nodeids:
        variants.setdefault(nodeid.split("[", 1)[0], []).append(nodeid)
    return {
        nodeid
        for name, count in IN_TEST.items()
        for nodeid in {*variants.get(name, ())} - {*spread(variants.get(name, []), count)}
    }


def spread(values: list[str], count: int) -> list[str]:
    """So many of these values, from the first to the last."""
    if count >= len(values):
        return values
    return [values[number * (len(values) - 1) // max(count - 1, 1)] for number in range(count)]
