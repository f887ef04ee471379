"""Tests with many variants of one behaviour: how many of them run in `make test`; the others are in `make prove`.

Those that run are spread evenly over the variants, in the order of the parameters. 0 is for a test that has no variant
and takes long: others in `make test` show what it shows, if less of it. A test belongs here if it takes more than a
second or two of a core, and not if its variants take different ways through the code.
"""

from __future__ import annotations

IN_TEST = {
    "tests/audit/test_slices.py::test_slices_add_up_to_the_whole": 50,
    "tests/broker/test_compaction_storm.py::test_nothing_committed_is_lost_and_nothing_old_comes_back": 10,
    "tests/broker/test_fuzz_files.py::test_damaged_segments_give_no_record_that_was_not_written": 6,
    "tests/broker/test_fuzz_files.py::test_what_is_derived_from_the_log_is_made_again": 6,
    "tests/broker/test_fuzz_requests.py::test_damaged_requests_of_every_version_harm_nobody": 4,
    "tests/broker/test_fuzz_requests.py::test_whatever_hypothesis_thinks_of_harms_nobody": 0,
    "tests/broker/test_groups_storm.py::test_every_request_is_answered_and_the_group_comes_to_rest": 1,
    "tests/broker/test_log_storm.py::test_a_log_stays_what_was_written": 10,
    "tests/broker/test_transactions_storm.py::test_readers_see_committed_transactions_whole_and_nothing_else": 1,
    "tests/broker/test_what_survives.py::test_what_the_guide_says_of_acknowledged_records_is_so": 5,
    "tests/cli/test_bad_input.py::test_address_where_nobody_listens": 0,
    "tests/cli/test_bad_input.py::test_command_line_that_cannot_be_used": 5,
    "tests/cli/test_bad_input.py::test_disk_that_takes_no_more": 0,
    "tests/cli/test_characters.py::test_commands_do_without_what_the_terminal_lacks": 2,
    "tests/cli/test_command_config.py::test_every_command_refuses_a_mistake_with_the_name_of_the_file": 4,
    "tests/cli/test_command_config.py::test_settings_of_other_programs_are_passed_over_by_name": 1,
    "tests/cli/test_command_config.py::test_what_is_wrong_with_the_file_is_one_sentence": 2,
    "tests/cli/test_command_config.py::test_what_other_clients_are_told_is_not_refused": 1,
    "tests/cli/test_explain.py::test_a_capture_may_come_through_a_pipe": 0,
    "tests/cli/test_explain.py::test_a_capture_with_any_name_becomes_a_trial": 1,
    "tests/cli/test_help.py::test_everything_can_be_read_on_a_narrow_terminal": 16,
    "tests/cli/test_help.py::test_json_is_the_same_flag_of_every_command_and_a_file_for_it_has_another_name": 0,
    "tests/cli/test_inspect.py::test_entries_are_shown_one_by_one_as_json_and_as_a_table": 1,
    "tests/cli/test_inspect.py::test_small_files_are_shown_and_their_damage_too": 1,
    "tests/cli/test_inspect.py::test_what_is_no_file_of_a_broker_is_said_in_a_sentence": 2,
    "tests/cli/test_output.py::test_a_reader_that_has_seen_enough_is_no_failure": 2,
    "tests/cli/test_schemas.py::test_bytes_and_values_of_several_types_can_be_sent_again": 1,
    "tests/cli/test_schemas.py::test_lines_of_json_come_back_decoded": 1,
    "tests/cli/test_schemas.py::test_what_cannot_be_used_is_told_in_one_line": 6,
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
    "tests/cli/test_simulate.py::test_many_seeds_are_summed_up": 0,
    "tests/cli/test_simulate.py::test_what_cannot_be_used_is_refused_in_a_sentence": 4,
    "tests/cli/test_simulate.py::test_without_a_first_seed_fresh_ones_are_run_and_named": 0,
    "tests/cli/test_topic_commands.py::test_bad_changes_of_topics_are_one_sentence": 0,
    "tests/cli/test_topic_commands.py::"
    "test_interrupted_produce_does_not_wait_for_silent_brokers_and_tells_what_it_does_not_know": 1,
    "tests/cli/test_topic_commands.py::test_topic_that_does_not_exist_is_named": 0,
    "tests/cli/test_trial.py::test_what_cannot_be_used_is_one_sentence": 4,
    "tests/client/test_callers_turn.py::test_others_send_and_flush_while_one_waits_for_each_of_its_records": 0,
    "tests/client/test_diagnosis.py::test_brokers_that_answer_late_while_batches_fill_are_told": 0,
    "tests/client/test_event_loops_turn.py::test_an_answer_that_never_comes_is_noticed_in_time": 1,
    "tests/client/test_leaderless_partitions.py::test_records_without_a_key_go_to_partitions_that_have_a_leader": 1,
    "tests/client/test_leaving.py::test_ctrl_c_tells_what_is_waited_for_and_a_second_one_ends_it": 1,
    "tests/client/test_reader_and_elections.py::test_leaders_that_change_in_order_are_followed_without_an_alarm": 0,
    "tests/client/test_stalled_memory.py::test_a_stalled_broker_leaves_memory_within_its_limit": 1,
    "tests/client/test_stores.py::test_a_client_comes_in_by_stores_of_javas": 2,
    "tests/client/test_too_large.py::test_records_of_batches_too_large_arrive_in_order_with_their_offsets": 2,
    "tests/cluster/test_breaking_brokers.py::test_a_fault_that_cuts_the_power_leaves_the_same_bytes_again": 1,
    "tests/cluster/test_breaking_brokers.py::"
    "test_a_page_cache_outlives_its_killed_broker_and_not_the_power_of_the_cluster": 0,
    "tests/cluster/test_breaking_brokers.py::test_who_was_stopped_in_order_has_nothing_to_lose_without_power": 0,
    "tests/cluster/test_pytest_plugin.py::test_a_failing_test_shows_the_users_lines_and_no_frame_without_source": 1,
    "tests/cluster/test_pytest_plugin.py::test_brokers_and_settings_are_as_told": 1,
    "tests/cluster/test_pytest_plugin.py::test_each_worker_of_xdist_has_a_cluster_of_its_own": 0,
    "tests/cluster/test_pytest_plugin.py::test_what_cannot_be_is_said": 1,
    "tests/cluster/test_secure_listeners.py::test_librdkafka_renews_a_short_session": 0,
    "tests/conformance/test_leader_killed.py::"
    "test_with_idempotence_every_record_is_there_once_in_order_where_its_delivery_says": 2,
    "tests/conformance/test_transactions.py::test_a_transaction_is_whole_or_not_there_when_a_broker_is_killed": 2,
    "tests/embedded_registry/test_security.py::test_the_body_of_who_is_not_let_in_is_not_waited_for": 0,
    "tests/explain/test_known_plans.py::test_a_capture_that_shows_a_part_invents_nothing": 0,
    "tests/explain/test_known_plans.py::test_what_is_broken_is_found_and_nothing_is_invented": 0,
    "tests/house/test_public_names.py::test_a_checker_knows_every_public_name_and_its_type": 0,
    "tests/house/test_scheduling.py::test_apache_kafka_is_on_one_worker_and_spark_on_the_other": 0,
    "tests/house/test_scheduling.py::test_files_are_measured_in_the_tier_that_runs": 0,
    "tests/house/test_tiers.py::test_a_choice_that_leaves_nothing_is_an_error_that_says_where_to_look": 1,
    "tests/house/test_tiers.py::test_a_tier_runs_what_is_in_it_and_what_is_named": 1,
    "tests/interop/test_oauthbearer_and_embedded.py::test_librdkafka_is_refused_with_a_token_that_is_none": 0,
    "tests/interop/test_ottla_and_apache_kafka.py::test_records_sent_by_ottla_are_read_by_librdkafka": 2,
    "tests/interop/test_trials_and_apache_kafka.py::test_lost_acks_of_apache_kafka_tell_the_guarantees_apart": 0,
    "tests/producer/test_settings.py::test_a_secret_in_the_wrong_place_is_not_told": 65,
    "tests/producer/test_storms.py::test_idempotence_with_patience_stores_everything_once_and_in_order": 40,
    "tests/producer/test_storms.py::test_idempotence_without_patience_never_claims_what_is_not_so": 40,
    "tests/producer/test_storms.py::test_logs_that_forget_or_lose_between_storms_get_everything_that_follows": 20,
    "tests/protocol/test_generator.py::test_every_api_of_kafka_can_be_added": 0,
    "tests/protocol/test_generator.py::test_the_checked_in_messages_are_fresh": 0,
    "tests/protocol/test_kio_agrees.py::test_a_frame_fed_byte_by_byte_gives_the_message": 50,
    "tests/protocol/test_kio_agrees.py::test_both_write_the_same_and_read_each_other": 60,
    "tests/protocol/test_kio_agrees.py::test_every_value_survives_and_no_other_length_is_accepted": 60,
    "tests/proxy/test_secured_recordings.py::"
    "test_a_lost_ack_of_a_client_by_tls_and_sasl_is_in_a_capture_without_secrets": 2,
    "tests/proxy/test_sockets.py::test_a_client_that_never_reads_keeps_nobody_waiting": 0,
    "tests/registry/test_client.py::test_a_client_that_is_dropped_leaves_no_connection_open": 0,
    "tests/schemas/test_avro_schema.py::test_records_that_hold_each_other_without_end_are_no_object": 0,
    "tests/seeds/test_simulate.py::test_files_are_written_before_anybody_can_have_enough_of_the_story": 0,
    "tests/showcase/test_properties.py::test_two_runs_place_the_faults_on_the_same_records": 0,
    "tests/showcase/test_tour.py::test_a_tour_that_is_interrupted_leaves_nothing_behind": 0,
    "tests/simulation/test_arrivals.py::test_plans_are_drawn_in_which_brokers_take_their_time": 0,
    "tests/simulation/test_client_clocks.py::test_some_seeds_have_clients_whose_clocks_drift": 0,
    "tests/simulation/test_cut_short.py::test_what_had_not_come_to_its_end_is_nobodys_fault": 0,
    "tests/simulation/test_determinism.py::test_a_run_has_more_than_a_thousand_messages": 0,
    "tests/simulation/test_determinism.py::test_looking_on_and_bytes_on_the_wire_change_nothing": 0,
    "tests/simulation/test_mutation.py::test_tests_run_the_changed_module": 1,
    "tests/simulation/test_negative_controls.py::test_copies_beyond_those_the_application_made_are_found": 0,
    "tests/simulation/test_plan.py::test_every_plan_drawn_survives_a_file": 1,
    "tests/simulation/test_plan.py::test_every_plan_that_reality_is_asked_about_survives_a_file": 0,
    "tests/simulation/test_reality.py::test_no_clock_is_moved_so_far_that_a_transaction_may_have_had_its_time": 0,
    "tests/simulation/test_reality.py::test_schedules_have_many_kinds_of_faults": 0,
    "tests/simulation/test_shrink.py::"
    "test_a_seed_that_fails_for_a_bug_in_a_core_is_shrunk_to_a_handful_and_still_fails": 0,
    "tests/simulation/test_storms.py::test_in_any_storm_what_was_told_is_what_is_stored": 8,
    "tests/simulation/test_timed_faults.py::test_most_of_what_is_drawn_fires": 0,
    "tests/simulation/test_transaction_storms.py::test_the_storms_do_bring_about_every_outcome": 0,
    "tests/simulation/test_world.py::test_idempotence_stores_each_record_once_whatever_acks_are_lost": 20,
    "tests/simulation/test_world.py::test_without_idempotence_lost_acks_duplicate_and_lose_nothing": 20,
    "tests/sink/simulated/test_controls.py::test_a_weakness_is_found": 0,
    "tests/sink/simulated/test_histories.py::test_every_row_is_there_once": 6,
    "tests/sink/test_compaction.py::test_neither_topic_grows_with_the_number_of_batches": 0,
    "tests/sink/test_downtime.py::test_before_the_decision": 0,
    "tests/sink/test_held_up_attempts.py::test_held_up_for_four_batches_it_takes_nothing": 3,
    "tests/sink/test_stale_brokers.py::test_a_driver_that_was_replaced_does_not_hear_of_a_broker_that_it_may_sweep": 0,
    "tests/sink/test_stale_brokers.py::test_a_late_attempt_does_not_hear_of_a_cut_off_broker_that_it_is_alone": 1,
    "tests/spark/test_source_gaps.py::test_ranges_that_begin_and_end_in_transactions": 0,
    "tests/spark/test_source_gaps.py::test_ranges_that_begin_and_end_where_compaction_has_left_nothing": 0,
    "tests/spark/test_source_page.py::test_the_code_of_the_page_reads_a_batch_and_a_stream": 0,
    "tests/trial/test_foreign_side.py::test_what_cannot_be_used_is_one_sentence": 4,
    "tests/trial/test_known_bugs.py::test_ottla_does_not_have_what_another_client_is_known_for": 1,
    "tests/trial/test_report_in_chromium.py::test_a_report_can_be_read_at_every_width": 1,
    "tests/trial/test_run.py::test_a_hold_without_end_is_ended_by_the_times_of_the_producer": 1,
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
