"""Guarantees that are taken out of the shipped cores, one by one: the controls of the simulation's judges.

A judge that has never convicted anybody proves nothing. Each row is a change of the source that takes one guarantee
away. A process that runs with it (`control.py`) must be convicted of what the row says, and the unchanged source
acquitted in the same seeds (`tests/simulation/test_negative_controls.py`).

Each change is as small as it can be. If the text it looks for is no longer there, or is there more than once, it cannot
be applied: whoever changed the source says here what takes the guarantee away now.
"""

from __future__ import annotations

from typing import NamedTuple

from tools.mutation.control import Control
from tools.mutation.source import Edit, changed, insert_after, insert_before, replace

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
    UNCAUSED,
    UNDER_REPLICATED,
    UNSETTLED,
    WATERMARK,
    WRONG_OFFSET,
    ZOMBIE,
)

PRODUCE, PARTITION = "broker/apis/produce.py", "broker/partition.py"
PRODUCER_STATE, SENDER = "broker/log/producer_state.py", "producer/sender.py"


class Weakness(NamedTuple):
    """What is switched off, how that shows in the end, and the change of the source that does it."""

    switched_off: str
    shows_as: str
    # Of which kinds (`audit.findings`) the judges must convict it: one of them is enough.
    convicted_of: tuple[str, ...]
    edits: list[Edit]


WEAKNESSES: dict[str, Weakness] = {
    "record_spoilt_on_append": Weakness(
        "A leader spoils the last byte of a batch it takes, and writes a CRC that fits.",
        "A record stands under a number that is not its own, or that nobody used.",
        (ALTERED,),
        [
            replace(PRODUCE, "    read_header,\n)", "    read_header,\n    stamp_crc,\n)"),
            insert_before(
                PRODUCE,
                "base_offset = partition.append(records, header, now_us)",
                "records[-1] ^= 0xFF",
                "stamp_crc(records)",
            ),
        ],
    ),
    "appends_to_another_partition": Weakness(
        "A leader appends every batch to the first partition of the topic that it leads.",
        "Records stand in a partition that they were not sent to.",
        (MISPLACED,),
        [
            insert_before(
                PRODUCE,
                "partition = partitions.get(index) if partitions is not None else None",
                "if partitions is not None:",
                "    index = min([own for own, each in partitions.items() if each.is_leader] or [index])",
            ),
        ],
    ),
    "no_sequence_check": Weakness(
        "A partition takes a batch whatever its sequence number says (KIP-98).",
        "A batch sent again after a lost answer is stored twice.",
        (DUPLICATED, SEQUENCE),
        [
            replace(PRODUCER_STATE, "if first != (last_appended + 1) % SEQUENCE_MODULO:", "if False:"),
        ],
    ),
    "dedupe_window_of_four": Weakness(
        "A partition remembers four batches of a producer, where five may be in flight.",
        "The oldest of five batches that come again is called out of order, though it is stored.",
        (REFUSED,),
        [
            replace(PRODUCER_STATE, "BATCHES_REMEMBERED = 5", "BATCHES_REMEMBERED = 4"),
        ],
    ),
    "producer_state_lost_on_failover": Weakness(
        "A replica that begins to lead knows nothing of the producers in its log.",
        "A batch whose answer was lost with the old leader is stored twice.",
        (DUPLICATED, SEQUENCE, ABORTED_READ, EARLY_READ),
        [
            insert_after(
                PARTITION,
                "self.epoch_start_offset = self.log.log_end_offset if self.log is not None else 0",
                "if self.is_leader and self.log is not None:",
                "    self.log.producers.restore([])",
            ),
        ],
    ),
    "producer_state_lost_on_restart": Weakness(
        "A broker that starts rebuilds no producer state from snapshot and log.",
        "A batch whose answer was lost with the broker is stored twice when that leads again.",
        (DUPLICATED, SEQUENCE, ABORTED_READ, EARLY_READ),
        [
            insert_after(
                "broker/log/recovery.py",
                "restore_producers(log, end, distrust_from=checked_from)",
                "log.producers.restore([])",
            ),
        ],
    ),
    "no_producer_fencing": Weakness(
        "Coordinator and partitions take an older producer epoch for the present one.",
        "A replaced producer ends the transaction of its successor: half of that is committed.",
        (TORN, FENCED, ZOMBIE, ABORTED_READ, STUCK),
        [
            replace(
                PRODUCER_STATE, "return SequenceCheck(ErrorCode.INVALID_PRODUCER_EPOCH, -1, detail)", "return NEW_BATCH"
            ),
            replace("broker/transactions/transaction.py", "if transaction.data.epoch != epoch:", "if False:"),
            replace(
                "broker/transactions/transaction.py",
                "if client_version < 2:\n        _check_owner(",
                "if True:\n        _check_owner(",
            ),
        ],
    ),
    "ack_before_replication": Weakness(
        "acks=all is answered after the leader's own append.",
        "Acknowledged records are gone with their leader.",
        (UNDER_REPLICATED, LOST),
        [
            replace(PRODUCE, "if acks == -1 and end_offset > partition.high_watermark:", "if False:"),
        ],
    ),
    "deposed_leader_acks": Weakness(
        "A leader that is deposed tells those who wait for replication that all is well.",
        "Acknowledged records that only the old leader had are cut off.",
        (UNDER_REPLICATED, LOST),
        [
            replace(PARTITION, "waiter.replicated(order, error_code, now_us)", "waiter.replicated(order, 0, now_us)"),
        ],
    ),
    "high_watermark_one_too_far": Weakness(
        "The high watermark is one record ahead of the slowest replica in sync.",
        "A record is committed, acknowledged and read that only the leader has.",
        (UNDER_REPLICATED, LOST, TRUNCATED),
        [
            insert_before(
                PARTITION, "if reached <= self.high_watermark:", "reached = min(reached + 1, log.log_end_offset)"
            ),
        ],
    ),
    "isr_shrink_unasked": Weakness(
        "A leader goes on without a slow follower before the controller has agreed (KIP-497).",
        "What is committed meanwhile is missing on a replica that may be elected.",
        (UNDER_REPLICATED, LOST, TRUNCATED),
        [
            replace(
                PARTITION,
                "self._proposals.propose(self)\n        else:",
                "self.isr, self.proposed = self.proposed, None\n            self.reconsider(now_us)\n        else:",
            ),
        ],
    ),
    "min_insync_ignored": Weakness(
        "acks=all is content with one replica, whatever min.insync.replicas says.",
        "Records are acknowledged that fewer replicas hold than were promised.",
        (UNDER_REPLICATED,),
        [
            replace(PARTITION, "return min(self.settings.min_insync_replicas, len(self.replicas))", "return 1"),
        ],
    ),
    "unclean_election_always": Weakness(
        "Any living replica may lead, though the topic forbids it.",
        "Acknowledged records are cut off, and the controller elects who was not in sync.",
        (EPOCH, LOST, TRUNCATED),
        [
            insert_before("broker/controller/leadership.py", "if not topic.configs:", "return True"),
        ],
    ),
    "moved_before_they_are_in_sync": Weakness(
        "Replicas that are moved count as in sync at once, and those that are to go do not wait for them.",
        "Acknowledged records are gone, as the brokers that had them hold the partition no more.",
        (LOST, UNDER_REPLICATED, TRUNCATED, EPOCH),
        [
            replace("broker/controller/moves.py", "if len(isr) < len(replicas):", "isr = replicas\n    if not isr:"),
        ],
    ),
    "no_epoch_check_on_truncation": Weakness(
        "A follower does not tell its last leader epoch, so it is never told where logs part (KIP-101, KIP-279).",
        "Replicas hold different records under the same offsets.",
        (DIVERGED, CHANGED, LOST, STUCK),
        [
            replace("broker/replica.py", "epoch = log.epochs.latest", "epoch = -1"),
        ],
    ),
    "truncates_below_high_watermark": Weakness(
        "A follower cuts its log in front of its high watermark when a leader epoch begins.",
        "A high watermark falls, and what was committed is missing on a replica.",
        (TRUNCATED, WATERMARK, LOST),
        [
            insert_before(
                PARTITION,
                "self.epoch_start_offset = self.log.log_end_offset if self.log is not None else 0",
                "if not self.is_leader and self.log is not None:",
                "    self.truncate(max(self.log.log_start_offset, self.high_watermark - 1))",
            ),
        ],
    ),
    "torn_batch_kept": Weakness(
        "Recovery leaves what a power cut tore at the end of a log.",
        "The log behind it cannot be read.",
        (CORRUPT, DIVERGED, STUCK),
        [
            replace(
                "broker/log/segment.py",
                "        if self.size < self.file.size:\n            self.file.truncate(self.size)\n",
                "",
            ),
        ],
    ),
    "markers_skipped": Weakness(
        "Of a transaction over several partitions the last one gets no marker.",
        "The last stable offset stands still there, or the next marker decides for it.",
        (HANGING, TORN, ABORTED_READ),
        [
            insert_after(
                "broker/transactions/markers.py",
                "self._outstanding: dict[Place, None] = dict.fromkeys(transaction.data.partitions)",
                "if len(self._outstanding) > 1:",
                "    self._outstanding.popitem()",
            ),
        ],
    ),
    "end_told_before_stored": Weakness(
        "EndTxn is answered before its outcome is replicated.",
        "A transaction told committed is aborted by the coordinator that takes over.",
        (TORN, LOST, ABORTED_READ, GROUP_OFFSET),
        [
            replace(
                "broker/transactions/coordinator.py",
                "self._store(transaction, data, stored, now_us)\n\n    def known(",
                "self._store(transaction, data, _ignore, now_us)\n        stored(0, now_us)\n\n    def known(",
            ),
        ],
    ),
    "no_transaction_verification": Weakness(
        "Leaders do not ask the coordinator about producers of transaction version 1 (KIP-890).",
        "A batch that comes after its transaction's marker hangs, or goes with the next transaction.",
        (HANGING, ABORTED_READ, EARLY_READ, REORDERED, SEQUENCE),
        [
            replace(
                "broker/transactions/verification.py",
                "strict = adds or settings.transaction_partition_verification_enable",
                "strict = adds",
            ),
        ],
    ),
    "transactions_refused": Weakness(
        "A leader takes every producer that it has asked the coordinator about for one without an open transaction.",
        "The first batch of each transaction is refused with INVALID_TXN_STATE, and no commit is granted.",
        (UNCAUSED,),
        [
            replace(
                PRODUCER_STATE,
                "return found is not None and found.guard == guard",
                "return False",
            ),
        ],
    ),
    "lso_ignores_open_transactions": Weakness(
        "The last stable offset is the high watermark.",
        "read_committed reads what is undecided, and what is aborted later.",
        (EARLY_READ, ABORTED_READ),
        [
            replace(
                PARTITION,
                "stable_end = log.producers.stable_end(self.high_watermark)",
                "stable_end = self.high_watermark",
            ),
        ],
    ),
    "aborted_index_lost": Weakness(
        "A broker that starts does not know the aborted transactions in its log.",
        "read_committed reads aborted records.",
        (ABORTED_READ, EARLY_READ),
        [
            insert_after(
                "broker/log/recovery.py",
                "restore_producers(log, end, distrust_from=checked_from)",
                "log.aborted.truncate(0)",
            ),
        ],
    ),
    "group_offsets_before_commit": Weakness(
        "Offsets sent to a transaction count before it is committed.",
        "A group stands where an aborted transaction has put it.",
        (GROUP_OFFSET,),
        [
            insert_after(
                "broker/groups/coordinator.py",
                "undecided.update((place, (committed, end_offset)) for place, committed in offsets.items())",
                "group.decide(producer[0], True)",
            ),
        ],
    ),
    "keys_hashed_over_fewer_partitions": Weakness(
        "The default partitioner takes the hash of a key modulo one partition less than there are.",
        "A key goes into another partition than with every other client.",
        (MISPLACED,),
        [
            replace("producer/partitioner.py", "TopicKnown(topic, count, ", "TopicKnown(topic, count - (count > 1), "),
        ],
    ),
    "delivery_timeout_begins_anew": Weakness(
        "delivery.timeout.ms is counted from the last attempt instead of the first (KIP-91).",
        "What became of a record is told long after its time.",
        (OVERDUE,),
        [
            insert_before(SENDER, "batch.move(_SEND)", "batch.deadline_us = now_us + self._delivery_timeout_ms * 1000"),
        ],
    ),
    "expired_batch_forgotten": Weakness(
        "A batch whose delivery.timeout.ms is over is taken out of its queue, and nobody is told.",
        "A producer lives to the end and never says what became of its records.",
        (UNSETTLED,),
        [
            replace(SENDER, "in self._accumulator.expired(now_us):", "in self._accumulator.expired(now_us)[:0]:"),
        ],
    ),
    "retries_with_new_sequence": Weakness(
        "A batch that is sent again gets the next sequence numbers.",
        "A batch whose answer was lost is stored twice.",
        (DUPLICATED, SEQUENCE),
        [
            replace(SENDER, "if not batch.numbered:", "if True:"),
        ],
    ),
    "reorders_on_retry": Weakness(
        "A refused batch is queued behind the younger ones, and all are numbered anew.",
        "Records are stored in another order than they were sent.",
        (REORDERED,),
        [
            insert_before(
                SENDER,
                "batch.queue.put_back(batch)",
                "if batch.state is BatchState.WAITING and not batch.queue.in_flight:",
                "    batch.queue.waiting.append(batch)",
                "    for each in batch.queue.waiting:",
                "        if each.numbered:",
                "            batch.queue.next_sequence -= each.sealed.record_count",
                "            each.numbered = False",
                "    return",
            ),
        ],
    ),
    "failed_told_for_unknown": Weakness(
        "A batch given up after it was sent is told failed.",
        "Records told failed are stored.",
        (FAILED_BUT_STORED,),
        [
            replace(SENDER, "if state is BatchState.FAILED:", "if True:"),
        ],
    ),
    "acks_told_before_answer": Weakness(
        "A batch is told acknowledged when its request leaves.",
        "Acknowledged records are missing, or stand at other offsets.",
        (LOST, WRONG_OFFSET, UNDER_REPLICATED),
        [
            insert_after(
                SENDER,
                "self._connection.request(node_id, message, request, now_us, self._answered)",
                "for batch in batches:",
                "    self._ack(batch, batch.number, -1)",
            ),
        ],
    ),
    "commit_timeout_aborts": Weakness(
        "A commit that is not answered is followed by an abort.",
        "A transaction told aborted is committed.",
        (ABORTED_READ, TORN),
        [
            insert_after(
                "producer/transactions.py",
                "request.coordinator.forget()\n            self._talk.pause(now_us)",
                "if kind is RequestKind.END:",
                "    self.fail(kafka_error(ErrorCode.REQUEST_TIMED_OUT, self.problem))",
            ),
        ],
    ),
    "epoch_not_bumped_after_abort": Weakness(
        "After an abort that may have left gaps the sequence begins anew in the old epoch (transaction version 1).",
        "New batches are taken for old ones: acknowledged, and not stored.",
        (LOST, TORN),
        [
            insert_before(
                "producer/transactions.py",
                "if self._needs_epoch and not self._bumps:",
                "if self._needs_epoch:",
                "    self._adopt(self._idempotence.producer_id, self._idempotence.producer_epoch)",
            ),
        ],
    ),
    "closes_by_clock": Weakness(
        "Open batches are closed when linger.ms is over, whether a request can leave or not.",
        "A busy broker gets requests of a few records each; records wait longer and longer.",
        (KEPT_WAITING,),
        [
            insert_before(
                "producer/accumulator.py",
                "queue.waiting.append(batch)\n        if self._expiry_us",
                "if not sealed.is_finished:",
                "    self._note_linger(batch)",
            ),
            replace(
                "producer/accumulator.py",
                (
                    "            if self._still_lingers(batch):\n"
                    "                self._unlist(batch.queue)\n"
                    "                self.schedule(batch.queue, now_us)\n"
                ),
                (
                    "            if self._still_lingers(batch):\n"
                    "                self._close(batch)\n"
                    "                self.filled(batch.sealed, now_us)\n"
                ),
            ),
            replace(
                "producer/accumulator.py",
                "return queue.lingers and queue.waiting[0] is batch",
                "return batch.sealed.is_open",
            ),
            replace(
                SENDER,
                "if not self._answered:\n            return True\n        limit",
                "return True\n        limit",
            ),
        ],
    ),
    "reads_aborted": Weakness(
        "A reader passes over no aborted transaction.",
        "read_committed reads aborted records.",
        (ABORTED_READ, EARLY_READ),
        [
            replace(
                "reader/core.py",
                "aborted = tuple((a.producer_id, a.first_offset) for a in told.aborted_transactions or ())",
                "aborted = ()",
            ),
        ],
    ),
    "skips_after_leader_change": Weakness(
        "A reader goes on one record further after each request that failed, as it does when leaders change.",
        "A record is missing between two that were read.",
        (MISPOLLED, MISREAD, LOST),
        [
            insert_before("reader/core.py", "position.failures += 1", "position.fetch_offset += 1"),
        ],
    ),
}


def weakened(*names: str) -> Control:
    """A control with these weaknesses."""
    return Control(changed(edit for name in names for edit in WEAKNESSES[name].edits))
