"""What a partition knows of its producers: sequences, open transactions, markers, snapshots."""

from __future__ import annotations

import pytest

from ottla.broker.log.aborted_transactions import AbortedTransactions
from ottla.broker.log.end_markers import end_marker_batch, read_end_marker
from ottla.broker.log.files import AbortedTransaction, read_producer_snapshot, write_producer_snapshot
from ottla.broker.log.producer_state import SEQUENCE_MODULO, EndMarker, ProducerStates
from ottla.protocol.error_codes import ErrorCode
from ottla.records.batch_header import BatchHeader, read_header, stamp_offset

from .world import TOPIC, World, batch_of

COMMIT, ABORT = EndMarker(True, 3), EndMarker(False, 3)


def header(producer_id: int = 1, epoch: int = 0, sequence: int = 0, count: int = 1, *, txn: bool = True) -> BatchHeader:
    values = [b"v"] * count
    batch = batch_of(*values, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, is_transactional=txn)
    return read_header(batch)


def marker(producer_id: int = 1, epoch: int = 0, ended_by: EndMarker = COMMIT) -> BatchHeader:
    return read_header(end_marker_batch(producer_id, epoch, ended_by, 5000))


def end(
    states: ProducerStates, offset: int, producer_id: int = 1, epoch: int = 0, ended_by: EndMarker = COMMIT
) -> None:
    states.note(marker(producer_id, epoch, ended_by), offset, end_marker=ended_by)


def test_a_transaction_is_unstable_from_its_first_batch_until_its_marker_is_replicated() -> None:
    states = ProducerStates()
    states.note(header(1), 10)
    states.note(header(1, sequence=1), 11)
    assert states.first_unstable_offset == 10
    assert states.stable_end(12) == 10
    end(states, 12)
    assert states.first_unstable_offset == 10
    assert states.stable_end(12) == 10
    assert states.stable_end(13) == 13
    assert states.first_unstable_offset is None


def test_the_oldest_of_several_transactions_decides() -> None:
    states = ProducerStates()
    states.note(header(1), 0)
    states.note(header(2), 1)
    ended = states.note(marker(1, ended_by=ABORT), 2, end_marker=ABORT)
    assert ended is not None
    assert (ended.first_offset, ended.last_offset, ended.last_stable_offset, ended.committed) == (0, 2, 1, False)
    assert states.stable_end(3) == 1
    end(states, 3, producer_id=2)
    assert states.stable_end(3) == 1
    assert states.stable_end(4) == 4


def test_a_marker_of_a_transaction_without_records_here_ends_nothing() -> None:
    states = ProducerStates()
    assert states.note(marker(), 0, end_marker=COMMIT) is None
    assert states.first_unstable_offset is None


def test_records_outside_the_open_transaction_are_refused() -> None:
    states = ProducerStates()
    states.note(header(), 0)
    checked = states.check(header(sequence=1, txn=False))
    assert (checked.error_code, checked.base_offset) == (ErrorCode.INVALID_TXN_STATE, -1)
    assert states.check(header(sequence=1)).error_code == 0


def test_after_a_marker_with_a_new_epoch_sequences_begin_at_zero() -> None:
    states = ProducerStates()
    states.note(header(epoch=4), 0)
    end(states, 1, epoch=5)
    for epoch, error in ((4, 47), (5, 45), (6, 45)):  # INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER
        refused = states.check(header(epoch=epoch, sequence=1))
        assert (refused.error_code, refused.base_offset) == (error, -1)
    assert states.check(header(epoch=5, sequence=0)) == (0, -1, None, -1)


def test_after_a_marker_of_the_same_epoch_sequences_go_on_and_duplicates_are_known() -> None:
    states = ProducerStates()
    states.note(header(), 7)
    end(states, 8)
    assert states.check(header()).base_offset == 7
    assert states.check(header(sequence=1)) == (0, -1, None, -1)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "error"),
    [
        (4, 3, 1, 0),
        (3, 3, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 2, 1, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (4, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, 3, 2, 0),
    ],
)
def test_late_markers_are_refused(epoch: int, coordinator_epoch: int, version: int, error: int) -> None:
    states = ProducerStates()
    states.note(header(epoch=4), 0)
    end(states, 1, epoch=4)
    states.note(header(epoch=4, sequence=1), 2)
    assert states.check_marker(1, epoch, coordinator_epoch, version) == error


@pytest.mark.parametrize("begins_at", [0, 7])
def test_a_marker_with_the_epoch_of_the_open_transaction_is_too_old(begins_at: int) -> None:
    states = ProducerStates()
    states.note(header(epoch=4), begins_at)
    assert states.check_marker(1, 4, 3, 2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check_marker(1, 5, 3, 2) == 0


def test_a_repeated_marker_is_let_through_where_no_transaction_is_open() -> None:
    states = ProducerStates()
    states.note(header(epoch=4), 0)
    end(states, 1, epoch=5)
    assert states.check_marker(1, 5, 3, 2) == 0


def test_a_guard_is_worth_nothing_once_the_transaction_ended() -> None:
    states = ProducerStates()
    guard = states.begin_verification(1, 0, 0, new_epochs=False, wall_ms=0)
    assert states.begin_verification(1, 0, 0, new_epochs=False, wall_ms=0) == guard
    assert states.is_verified(1, guard)
    end(states, 0)
    assert not states.is_verified(1, guard)
    assert states.begin_verification(1, 0, 0, new_epochs=False, wall_ms=0) != guard


def test_a_guard_of_the_next_transaction_outlives_a_late_marker_of_the_one_before() -> None:
    states = ProducerStates()
    states.note(header(epoch=4), 0)
    guard = states.begin_verification(1, 5, 0, new_epochs=True, wall_ms=0)
    # Transaction version 2: the marker bears the epoch that the client goes on with (KIP-890).
    end(states, 1, epoch=5)
    assert states.is_verified(1, guard)
    states.note(header(epoch=5), 2)
    assert not states.is_verified(1, guard)


def test_a_fenced_producer_is_not_in_the_way_of_its_successor() -> None:
    states = ProducerStates()
    states.note(header(epoch=2), 0)
    guard = states.begin_verification(1, 1, 0, new_epochs=True, wall_ms=0)
    assert not states.is_verified(1, guard)
    assert states.check(header(epoch=1)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.check(header(epoch=2, sequence=1)).error_code == 0


def test_a_lower_sequence_that_waits_is_not_overtaken() -> None:
    states = ProducerStates()
    states.begin_verification(1, 0, 5, new_epochs=False, wall_ms=0)
    states.begin_verification(1, 0, 3, new_epochs=False, wall_ms=0)
    assert states.check(header(sequence=5)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(sequence=3)).error_code == 0


def test_only_batches_of_a_transaction_end_the_question_about_it() -> None:
    states = ProducerStates()
    states.begin_verification(1, 0, 0, new_epochs=True, wall_ms=0)
    states.note(header(sequence=0, txn=False), 0)
    assert states.check(header(sequence=1, txn=False)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states.note(header(sequence=1), 1)
    assert states.check(header(sequence=2)).error_code == 0


def test_with_an_epoch_for_each_transaction_unknown_producers_begin_with_zero() -> None:
    states = ProducerStates()
    states.begin_verification(1, 0, 3, new_epochs=True, wall_ms=0)
    assert states.check(header(sequence=3)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_snapshots_bring_back_sequences_and_open_transactions() -> None:
    states = ProducerStates()
    states.note(header(1, epoch=2, sequence=SEQUENCE_MODULO - 2, count=4), 100)
    states.note(header(2, count=3, txn=False), 104)
    end(states, 107, producer_id=3, epoch=9)
    rows = states.entries()
    assert read_producer_snapshot(write_producer_snapshot(rows)) == rows
    # As Apache Kafka writes it of a producer of which there is only a marker.
    assert (rows[2].last_sequence, rows[2].last_offset, rows[2].offset_delta) == (-1, -1, 0)
    again = ProducerStates()
    again.restore(rows)
    assert again.entries() == rows
    assert again.first_unstable_offset == 100
    assert again.check(header(1, epoch=2, sequence=SEQUENCE_MODULO - 2, count=4)).base_offset == 100
    assert again.check(header(1, epoch=2, sequence=2)).error_code == 0
    assert again.check_marker(3, 9, 2, 1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    states = ProducerStates()
    states.note(header(1), 0)
    states.note(header(2, txn=False), 1)
    states.expire(1000 + 60_000, 60_000)
    assert [row.producer_id for row in states.entries()] == [1]


@pytest.mark.parametrize("ended_by", [COMMIT, ABORT])
def test_a_marker_is_read_as_it_was_written(ended_by: EndMarker) -> None:
    assert read_end_marker(end_marker_batch(1, 0, ended_by, 5)) == ended_by


def test_followers_learn_markers_from_the_batches_they_copy(replicated: World) -> None:
    data = batch_of(b"a", producer_id=1, sequence=0, is_transactional=True)
    for core in replicated.brokers.values():
        log = core.topics[TOPIC][0].log
        assert log is not None
        # The marker stands in the middle of what is copied, behind the first bytes of the segment.
        log.append_copies([bytes(data)], [read_header(data)])
        marker_at_1, behind = end_marker_batch(1, 0, ABORT, 5), bytearray(batch_of(b"b"))
        stamp_offset(marker_at_1, 0, 1, 0)
        stamp_offset(behind, 0, 2, 0)
        buffer = bytes(marker_at_1 + behind)
        log.append_copies([buffer], [read_header(buffer), read_header(buffer, len(marker_at_1))])
        assert log.producers.first_unstable_offset == 0
        assert log.producers.stable_end(2) == 2
        assert log.aborted.between(0, 3) == [AbortedTransaction(1, 0, 1, 2)]


def test_aborted_transactions_are_found_by_what_is_read() -> None:
    aborted = AbortedTransactions()
    rows = [AbortedTransaction(1, 0, 5, 3), AbortedTransaction(2, 3, 9, 10), AbortedTransaction(1, 20, 25, 26)]
    for row in rows:
        aborted.add(row)
    assert aborted.between(0, 3) == rows[:1]
    assert aborted.between(0, 100) == rows
    assert aborted.between(6, 10) == rows[1:2]
    assert aborted.between(10, 20) == []
    again = AbortedTransactions()
    for begin, after in ((0, 9), (9, 26)):
        again.load(aborted.to_bytes(begin, after))
    assert again.between(0, 100) == rows
    again.truncate(25)
    again.forget_below(6)
    assert again.between(0, 100) == rows[1:2]
