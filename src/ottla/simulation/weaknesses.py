"""Negative controls: what each weakness switches off in a shipped core, and what is bound to be seen of it.

A run of a plan with weaknesses (`execute(plan, weaknesses=...)`) is a run of the same cores with one guarantee taken
out; a judge must then find something, or it could not find anything. `ottla.weaknesses` holds the names that the cores
know. The table here is for people and for tests: every name has its line, and every line its name.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.audit.findings import (
    ABORTED_READ,
    ALTERED,
    CHANGED,
    CORRUPT,
    DIVERGED,
    DUPLICATED,
    EARLY_READ,
    EPOCH,
    FAILED_BUT_STORED,
    FENCED,
    GROUP_OFFSET,
    HANGING,
    KEPT_WAITING,
    LOST,
    MISPLACED,
    MISPOLLED,
    MISREAD,
    OVERDUE,
    REFUSED,
    REORDERED,
    SEQUENCE,
    STUCK,
    TORN,
    TRUNCATED,
    UNDER_REPLICATED,
    UNSETTLED,
    WATERMARK,
    WRONG_OFFSET,
    ZOMBIE,
)
from ottla.weaknesses import Weakness


class Line(NamedTuple):
    """What is switched off, and how that shows in the end."""

    switched_off: str
    shows_as: str
    # Of which kinds (`audit.findings`) the judges are to convict it: one of them is enough.
    convicted_of: tuple[str, ...]


WEAKNESSES: dict[Weakness, Line] = {
    "record_spoilt_on_append": Line(
        "A leader spoils the last byte of a batch it takes, and writes a CRC that fits.",
        "A record stands under a number that is not its own, or that nobody used.",
        (ALTERED,),
    ),
    "appends_to_another_partition": Line(
        "A leader appends every batch to the first partition of the topic that it leads.",
        "Records stand in a partition that they were not sent to.",
        (MISPLACED,),
    ),
    "no_sequence_check": Line(
        "A partition takes a batch whatever its sequence number says (KIP-98).",
        "A batch sent again after a lost answer is stored twice.",
        (DUPLICATED, SEQUENCE),
    ),
    "dedupe_window_of_four": Line(
        "A partition remembers four batches of a producer, where five may be in flight.",
        "The oldest of five batches that come again is called out of order, though it is stored.",
        (REFUSED,),
    ),
    "producer_state_lost_on_failover": Line(
        "A replica that begins to lead knows nothing of the producers in its log.",
        "A batch whose answer was lost with the old leader is stored twice.",
        (DUPLICATED, SEQUENCE, ABORTED_READ, EARLY_READ),
    ),
    "producer_state_lost_on_restart": Line(
        "A broker that starts rebuilds no producer state from snapshot and log.",
        "A batch whose answer was lost with the broker is stored twice when that leads again.",
        (DUPLICATED, SEQUENCE, ABORTED_READ, EARLY_READ),
    ),
    "no_producer_fencing": Line(
        "Coordinator and partitions take an older producer epoch for the present one.",
        "A replaced producer ends the transaction of its successor: half of that is committed.",
        (TORN, FENCED, ZOMBIE, ABORTED_READ, STUCK),
    ),
    "ack_before_replication": Line(
        "acks=all is answered after the leader's own append.",
        "Acknowledged records are gone with their leader.",
        (UNDER_REPLICATED, LOST),
    ),
    "deposed_leader_acks": Line(
        "A leader that is deposed tells those who wait for replication that all is well.",
        "Acknowledged records that only the old leader had are cut off.",
        (UNDER_REPLICATED, LOST),
    ),
    "high_watermark_one_too_far": Line(
        "The high watermark is one record ahead of the slowest replica in sync.",
        "A record is committed, acknowledged and read that only the leader has.",
        (UNDER_REPLICATED, LOST, TRUNCATED),
    ),
    "isr_shrink_unasked": Line(
        "A leader goes on without a slow follower before the controller has agreed (KIP-497).",
        "What is committed meanwhile is missing on a replica that may be elected.",
        (UNDER_REPLICATED, LOST, TRUNCATED),
    ),
    "min_insync_ignored": Line(
        "acks=all is content with one replica, whatever min.insync.replicas says.",
        "Records are acknowledged that fewer replicas hold than were promised.",
        (UNDER_REPLICATED,),
    ),
    "unclean_election_always": Line(
        "Any living replica may lead, though the topic forbids it.",
        "Acknowledged records are cut off, and the controller elects who was not in sync.",
        (EPOCH, LOST, TRUNCATED),
    ),
    "no_epoch_check_on_truncation": Line(
        "A follower does not tell its last leader epoch, so it is never told where logs part (KIP-101, KIP-279).",
        "Replicas hold different records under the same offsets.",
        (DIVERGED, CHANGED, LOST, STUCK),
    ),
    "truncates_below_high_watermark": Line(
        "A follower cuts its log in front of its high watermark when a leader epoch begins.",
        "A high watermark falls, and what was committed is missing on a replica.",
        (TRUNCATED, WATERMARK, LOST),
    ),
    "torn_batch_kept": Line(
        "Recovery leaves what a power cut tore at the end of a log.",
        "The log behind it cannot be read.",
        (CORRUPT, DIVERGED, STUCK),
    ),
    "markers_skipped": Line(
        "Of a transaction over several partitions the last one gets no marker.",
        "The last stable offset stands still there, or the next marker decides for it.",
        (HANGING, TORN, ABORTED_READ),
    ),
    "end_told_before_stored": Line(
        "EndTxn is answered before its verdict is replicated.",
        "A transaction told committed is aborted by the coordinator that takes over.",
        (TORN, LOST, ABORTED_READ, GROUP_OFFSET),
    ),
    "no_transaction_verification": Line(
        "Leaders do not ask the coordinator about producers of transaction version 1 (KIP-890).",
        "A batch that comes after its transaction's marker hangs, or goes with the next transaction.",
        (HANGING, ABORTED_READ, EARLY_READ, REORDERED, SEQUENCE),
    ),
    "lso_ignores_open_transactions": Line(
        "The last stable offset is the high watermark.",
        "read_committed reads what is undecided, and what is aborted later.",
        (EARLY_READ, ABORTED_READ),
    ),
    "aborted_index_lost": Line(
        "A broker that starts does not know the aborted transactions in its log.",
        "read_committed reads aborted records.",
        (ABORTED_READ, EARLY_READ),
    ),
    "group_offsets_before_commit": Line(
        "Offsets sent to a transaction count before it is committed.",
        "A group stands where an aborted transaction has put it.",
        (GROUP_OFFSET,),
    ),
    "keys_hashed_over_fewer_partitions": Line(
        "The default partitioner takes the hash of a key modulo one partition less than there are.",
        "A key goes into another partition than with every other client.",
        (MISPLACED,),
    ),
    "delivery_timeout_begins_anew": Line(
        "delivery.timeout.ms is counted from the last attempt instead of the first (KIP-91).",
        "What became of a record is told long after its time.",
        (OVERDUE,),
    ),
    "expired_batch_forgotten": Line(
        "A batch whose delivery.timeout.ms is over is taken out of its queue, and nobody is told.",
        "A producer lives to the end and never says what became of its records.",
        (UNSETTLED,),
    ),
    "retries_with_new_sequence": Line(
        "A batch that is sent again gets the next sequence numbers.",
        "A batch whose answer was lost is stored twice.",
        (DUPLICATED, SEQUENCE),
    ),
    "reorders_on_retry": Line(
        "A refused batch is queued behind the younger ones, and all are numbered anew.",
        "Records are stored in another order than they were sent.",
        (REORDERED,),
    ),
    "failed_told_for_unknown": Line(
        "A batch given up after it was sent is told failed.",
        "Records told failed are stored.",
        (FAILED_BUT_STORED,),
    ),
    "acks_told_before_answer": Line(
        "A batch is told acknowledged when its request leaves.",
        "Acknowledged records are missing, or stand at other offsets.",
        (LOST, WRONG_OFFSET, UNDER_REPLICATED),
    ),
    "commit_timeout_aborts": Line(
        "A commit that is not answered is followed by an abort.",
        "A transaction told aborted is committed.",
        (ABORTED_READ, TORN),
    ),
    "epoch_not_bumped_after_abort": Line(
        "After an abort that may have left gaps the sequence begins anew in the old epoch (transaction version 1).",
        "New batches are taken for old ones: acknowledged, and not stored.",
        (LOST, TORN),
    ),
    "closes_by_clock": Line(
        "Open batches are closed when linger.ms is over, whether a request can leave or not.",
        "A busy broker gets requests of a few records each; records wait longer and longer.",
        (KEPT_WAITING,),
    ),
    "reads_aborted": Line(
        "A reader passes over no aborted transaction.",
        "read_committed reads aborted records.",
        (ABORTED_READ, EARLY_READ),
    ),
    "skips_after_leader_change": Line(
        "A reader goes on one record further after each request that failed, as it does when leaders change.",
        "A record is missing between two that were read.",
        (MISPOLLED, MISREAD, LOST),
    ),
}
