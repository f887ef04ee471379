"""The names of what can be switched off in a core on purpose, for the simulator's negative controls alone.

A judge that has never convicted anybody proves nothing. So guarantees can be taken out of the shipped cores one by
one, and the simulator must find out (`simulation/weaknesses.py` says what each name switches off and who convicts it).
A core has the weaknesses of the settings it is made with. Those are never read from what a user gives: no keyword, no
property file and no topic setting leads there, only the attribute itself, which nobody but `simulation` sets.

Cores import this module for type checkers only; there is nothing in it to run.
"""

from __future__ import annotations

from typing import Literal

Weakness = Literal[
    # broker/
    "record_spoilt_on_append",
    "appends_to_another_partition",
    "no_sequence_check",
    "dedupe_window_of_four",
    "producer_state_lost_on_failover",
    "producer_state_lost_on_restart",
    "no_producer_fencing",
    "ack_before_replication",
    "deposed_leader_acks",
    "high_watermark_one_too_far",
    "isr_shrink_unasked",
    "min_insync_ignored",
    "unclean_election_always",
    "no_epoch_check_on_truncation",
    "truncates_below_high_watermark",
    "torn_batch_kept",
    "markers_skipped",
    "end_told_before_stored",
    "no_transaction_verification",
    "lso_ignores_open_transactions",
    "aborted_index_lost",
    "group_offsets_before_commit",
    # producer/
    "keys_hashed_over_fewer_partitions",
    "delivery_timeout_begins_anew",
    "expired_batch_forgotten",
    "retries_with_new_sequence",
    "reorders_on_retry",
    "failed_told_for_unknown",
    "acks_told_before_answer",
    "commit_timeout_aborts",
    "epoch_not_bumped_after_abort",
    "closes_by_clock",
    # reader/
    "reads_aborted",
    "skips_after_leader_change",
]
Weaknesses = tuple[Weakness, ...]
