"""Groups 5, 7 and 8: what was read, in time, against the log, and against what was sent."""

from __future__ import annotations

import dataclasses

import pytest
from tests.audit.scene import Scene, batch, marker, seen

from ottla.audit.chronicles.changes import check_changes
from ottla.audit.chronicles.chronicle import BatchSeen, RecordsDeleted, RecordSeen, TopicPromise
from ottla.audit.chronicles.corruption import check_corruption
from ottla.audit.chronicles.integrity import check_integrity
from ottla.audit.chronicles.judgement import judge
from ottla.audit.chronicles.placement import check_placement, murmur2
from ottla.audit.chronicles.polls import check_polls

# ---- 5: one value per offset ----------------------------------------------------------------------------------------


def test_an_offset_that_held_another_record_before_has_changed(scene: Scene) -> None:
    scene.chronicle.reads[0].records[2] = seen(99, 2)
    finding = scene.ask(check_changes)
    assert finding.count == 1
    assert finding.evidence[0].detail == "offset 2 held record 99 for r until 1800 us, and record 2 for r until 4000 us"
    assert finding.evidence[0].offsets == (2,)


def test_a_record_that_was_read_and_is_gone_has_changed(scene: Scene) -> None:
    del scene.final().records[4]
    scene.chronicle.reads.insert(0, scene.read("r", 0, 4_600, 4_700, 7, [(12, 5)], committed=False))
    (piece,) = scene.ask(check_changes).evidence
    assert "record 12 was read at offset 5 by r (read_uncommitted) until 4700 us" in piece.detail


def test_what_read_committed_leaves_out_has_not_changed(scene: Scene) -> None:
    scene.chronicle.reads.insert(0, scene.read("r", 0, 4_600, 4_700, 7, [(12, 5)], committed=False))
    assert scene.ask(check_changes).passed


def test_rounds_that_overlap_may_end_in_another_order_than_they_read(scene: Scene) -> None:
    scene.fall(1_750, 1, "power_off", 2)
    scene.elect(1_760, 1, 1, (1, 2))
    scene.chronicle.reads[0].records[2] = seen(99, 2)  # from 1700 to 1800
    scene.chronicle.reads.insert(0, scene.read("s", 0, 1_770, 1_790, 3, [(0, 0), (1, 1), (2, 2)], committed=False))
    scene.mark(0, 1_765, 0, 3, 3, leader=1, epoch=1)  # broker 0 has heard of it
    assert scene.ask(check_changes).passed
    scene.chronicle.reads[1].began_us = 1_780  # behind the power cut
    assert scene.ask(check_changes).count == 2  # there, and back again


def test_a_power_cut_before_the_last_read_of_a_record_does_not_excuse_its_change(scene: Scene) -> None:
    for read in scene.chronicle.reads[:2]:
        read.records[2] = seen(99, 2)
    scene.fall(1_850, 1, "power_off", 2)
    scene.elect(1_900, 1, 1, (1, 2))
    scene.mark(0, 1_950, 0, 3, 3, leader=1, epoch=1)  # broker 0 has heard of it
    assert scene.ask(check_changes).count == 1


def test_a_change_that_a_power_cut_excuses_is_none(scene: Scene) -> None:
    scene.chronicle.reads[0].records[2] = seen(99, 2)
    scene.fall(1_850, 1, "power_off", 2)
    scene.elect(1_900, 1, 1, (1, 2))
    assert scene.ask(check_changes).passed


# A power cut takes the commit marker of producer 2 from t-0, from `cut` on; what stands there then is `rest`.


def lose_the_marker(scene: Scene, cut: int, rest: list[BatchSeen], shown: list[tuple[int, int]], end: int) -> None:
    scene.mark(0, 4_010, 1, 5, 7)  # more than any of the cuts leaves
    scene.fall(4_050, 1, "power_off", cut)
    scene.elect(4_060, 1, 1, (1, 2))
    for broker in range(3):
        scene.batches(broker)[2:] = rest
    scene.final(committed=True).records[:] = [seen(number, offset) for number, offset in shown]
    scene.final(committed=True).end = end
    scene.final().records[:] = [seen(number, number) for number in range(3)] + [seen(10, 3)]
    scene.final().end = 5


FIRST = [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("rest", "end"), [([marker(4, commits=False)], 5), ([], 3)], ids=["aborted afterwards", "open for good"]
)
def test_a_committed_record_whose_marker_a_power_cut_took_is_hidden_innocently(
    scene: Scene, rest: list[BatchSeen], end: int
) -> None:
    lose_the_marker(scene, 4, rest, FIRST, end)
    assert scene.ask(check_changes).passed


def test_a_record_behind_a_transaction_whose_marker_was_lost_is_hidden_innocently(scene: Scene) -> None:
    before = scene.chronicle.reads[1]
    before.records.append(seen(20, 4))
    before.end = 6
    scene.let_pass(0, 3_600, 5, 6)  # the marker, which stood at 5
    lose_the_marker(scene, 5, [batch(4, [20], producer_id=3)], FIRST, 3)
    scene.final().records.append(seen(20, 4))
    assert scene.ask(check_changes).passed


@pytest.mark.parametrize(
    ("cut", "rest", "end"),
    [
        (4, [marker(4, commits=True)], 5),
        (5, [marker(4, commits=False)], 5),
        (5, [marker(4, commits=True)], 3),
        (5, [], 3),
    ],
    ids=[
        "a commit marker stands",
        "the abort marker is older than the cut",
        "the end stands back behind a marker",
        "the cut is behind all that was committed then",
    ],
)
def test_a_committed_record_that_is_hidden_though_no_marker_was_lost_has_changed(
    scene: Scene, cut: int, rest: list[BatchSeen], end: int
) -> None:
    lose_the_marker(scene, cut, rest, FIRST, end)
    (piece,) = scene.ask(check_changes).evidence
    assert "record 10 was read at offset 3 by r (read_committed) until 4000 us" in piece.detail


def test_a_marker_that_nothing_took_excuses_nothing(scene: Scene) -> None:
    lose_the_marker(scene, 4, [], FIRST, 3)
    scene.chronicle.broker_ends.clear()
    assert scene.ask(check_changes).count == 1


def test_a_marker_that_was_lost_before_the_read_excuses_nothing(scene: Scene) -> None:
    lose_the_marker(scene, 4, [], FIRST, 3)
    scene.chronicle.reads[1].began_us = 4_070
    assert scene.ask(check_changes).count == 1


def test_a_lost_marker_does_not_excuse_that_its_record_is_gone_altogether(scene: Scene) -> None:
    lose_the_marker(scene, 4, [marker(4, commits=False)], FIRST, 5)
    scene.final().records.pop()
    assert scene.ask(check_changes).count == 1


def test_a_lost_marker_does_not_excuse_records_of_no_transaction(scene: Scene) -> None:
    lose_the_marker(scene, 4, [marker(4, commits=False)], FIRST[:2], 5)
    (piece,) = scene.ask(check_changes).evidence
    assert piece.sequence == 2


def test_a_replica_that_holds_something_else_below_its_high_watermark_has_changed(scene: Scene) -> None:
    scene.replica(2).bytes_crc = 41
    scene.batches(2)[0] = batch(0, [0, 1, 98])
    (piece,) = scene.ask(check_changes).evidence
    assert piece.detail == "offset 2 holds record 98 on broker 2, and readers get record 2"
    assert piece.brokers == (2,)


def test_what_a_replica_holds_above_its_high_watermark_is_not_promised_yet(scene: Scene) -> None:
    scene.replica(2).bytes_crc = 41
    scene.batches(2)[0] = batch(0, [0, 1, 98])
    scene.replica(2).high_watermark = 0
    assert scene.ask(check_changes).passed


def test_replicas_nobody_saw_are_not_observable(scene: Scene) -> None:
    scene.blind()
    assert scene.ask(check_changes).unseen == ("what the replicas hold",)


# ---- 7: polls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([(0, 0), (1, 1), (1, 1), (2, 2)], "returned offset 1 again, behind offset 1"),
        ([(0, 0), (2, 2), (1, 1)], "returned offset 1 backwards, behind offset 2"),
        ([(0, 0), (2, 2)], "did not return offset 1, between 0 and 3"),
        ([(0, 0), (1, 1)], "did not return offset 2, between 0 and 3"),
        ([], "did not return offset 0, between 0 and 3"),
        ([(0, 0), (1, 1), (2, 2), (10, 3)], "returned offset 3, which is not between 0 and 3"),
    ],
)
def test_a_round_returns_each_offset_once_and_in_order(scene: Scene, found: list[tuple[int, int]], words: str) -> None:
    scene.chronicle.reads[0] = scene.read("r", 0, 1_700, 1_800, 3, found, committed=False)
    evidence = scene.ask(check_polls).evidence
    assert evidence[0].detail == f"r (read_uncommitted) {words}, in the round of 1700 to 1800 us"


@pytest.mark.parametrize("committed", [False, True])
def test_an_offset_at_which_the_log_has_no_record_is_never_returned(scene: Scene, committed: bool) -> None:
    found = [(0, 0), (1, 1), (2, 2), (10, 3), (2, 4)]  # a marker stands at 4
    scene.chronicle.reads.append(scene.read("s", 0, 4_600, 4_700, 5, found, committed=committed))
    (piece,) = scene.ask(check_polls).evidence
    assert "returned offset 4, at which the log has no record" in piece.detail
    assert piece.offsets == (4,)


def test_nothing_is_returned_from_a_log_that_is_empty(scene: Scene) -> None:
    for broker in range(3):
        scene.batches(broker, 1).clear()
    finding = scene.ask(check_polls)
    assert [piece.offsets for piece in finding.evidence] == [(0,), (0,)]


def test_what_somebody_asked_to_be_deleted_is_not_missed(scene: Scene) -> None:
    delete_records(scene)
    assert not [each for each in judge(scene.chronicle) if each.count]


def delete_records(scene: Scene) -> None:
    """Records 0 to 2 are deleted before the final reads: the log starts at 3."""
    scene.chronicle.deletions.append(RecordsDeleted(7_000, "t", 0, 3))
    for broker in range(3):
        scene.replica(broker).log_start_offset = 3
        del scene.batches(broker)[0]
        scene.mark(0, 7_100, broker, 7, 7, log_start=3)
    for committed in (False, True):
        final = scene.final(committed=committed)
        final.start = 3
        del final.records[:3]


def test_what_nobody_asked_to_be_deleted_is_missed(scene: Scene) -> None:
    delete_records(scene)
    scene.chronicle.deletions.clear()
    found = {each.kind: each.count for each in judge(scene.chronicle) if each.count}
    assert found["lost"] == 3
    assert found["changed after it was read"] == 6  # by level
    scene.chronicle.deletions.append(RecordsDeleted(7_000, "t", 0, 2))
    found = {each.kind: each.count for each in judge(scene.chronicle) if each.count}
    assert found["lost"] == 1
    assert found["changed after it was read"] == 2  # by level


def test_holes_where_markers_and_aborted_records_stand_are_none(scene: Scene) -> None:
    scene.chronicle.reads.append(scene.read("s", 0, 4_600, 4_700, 7, [(0, 0), (1, 1), (2, 2), (10, 3)]))
    assert scene.ask(check_polls).passed


def test_a_committed_record_that_is_left_out_is_skipped(scene: Scene) -> None:
    scene.chronicle.reads.append(scene.read("s", 0, 4_600, 4_700, 7, [(0, 0), (1, 1), (2, 2)]))
    assert "s (read_committed) did not return offset 3" in scene.ask(check_polls).evidence[0].detail


def test_a_round_that_an_error_ended_is_held_to_what_it_reached(scene: Scene) -> None:
    scene.chronicle.reads[0] = scene.read("r", 0, 1_700, 1_800, 3, [(0, 0), (1, 1)], committed=False)
    scene.chronicle.reads[0].error = "timed out"
    assert scene.ask(check_polls).passed
    scene.chronicle.reads[0].records = [seen(0, 0), seen(2, 2)]
    assert scene.ask(check_polls).count == 1


def test_holes_in_a_log_nobody_saw_are_not_observable(scene: Scene) -> None:
    scene.chronicle.reads[0].records.pop()
    scene.blind()
    finding = scene.ask(check_polls)
    assert not finding.count
    assert finding.unseen == ("skips in t-0, whose log was not seen", "skips in t-1, whose log was not seen")


def test_without_transactions_every_offset_is_due_though_nobody_saw_the_log(scene: Scene) -> None:
    scene.chronicle.reads = [scene.read("r", 0, 1_700, 1_800, 3, [(0, 0), (2, 2)], committed=False)]
    del scene.chronicle.producers[1]
    scene.blind()
    assert scene.ask(check_polls).count == 1


# ---- 8: integrity, place, CRC ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"value_crc": 5}, "its value has CRC 0x5, sent was 0x7d1"),
        ({"key_crc": 5}, "its key has CRC 0x5, sent was 0x3e9"),
        ({"headers_crc": 5}, "its headers have CRC 0x5, sent was 0xbb9"),
    ],
)
def test_a_record_that_was_read_with_other_bytes_once_is_altered(
    scene: Scene, change: dict[str, int], words: str
) -> None:
    scene.chronicle.reads[0].records[1] = seen(1, 1, **change)
    (piece,) = scene.ask(check_integrity).evidence
    assert piece.detail == f"record 1 stands altered at offset 1: {words} (r, 1800 us)"


def standing(scene: Scene) -> list[list[RecordSeen]]:
    """The records of the first batch of t-0 on each broker."""
    return [scene.batches(broker)[0].records for broker in range(3)]


def test_a_record_that_an_excused_rewrite_brought_is_compared_too(scene: Scene) -> None:
    scene.fall(1_850, 1, "power_off", 2)
    scene.elect(1_900, 1, 1, (1, 2))
    for records in (*(read.records for read in scene.chronicle.reads[1:4]), *standing(scene)):
        records[2] = seen(2, 2, value_crc=5)
    assert scene.ask(check_changes).passed
    (piece,) = scene.ask(check_integrity).evidence
    assert piece.detail == "record 2 stands altered at offset 2: its value has CRC 0x5, sent was 0x7d2 (r, 4000 us)"


def test_a_record_that_an_excused_rewrite_brought_from_another_partition_is_misplaced(scene: Scene) -> None:
    scene.fall(1_850, 1, "power_off", 2)
    scene.elect(1_900, 1, 1, (1, 2))
    for records in (*(read.records for read in scene.chronicle.reads[1:4]), *standing(scene)):
        records[2] = seen(11, 2)
    assert scene.ask(check_changes).passed
    (piece,) = scene.ask(check_placement).evidence
    assert piece.detail == "record 11 was sent to t-1 and stands in t-0 at offset 2"


def test_headers_nobody_took_the_crc_of_are_not_observable(scene: Scene) -> None:
    scene.record(1).headers_crc = None
    finding = scene.ask(check_integrity)
    assert not finding.count
    assert finding.unseen == ("the headers of records whose checksum nobody took",)


@pytest.mark.parametrize(("number", "words"), [(77, "record 77"), (-1, "a record without a number")])
def test_a_record_nobody_sent_is_altered(scene: Scene, number: int, words: str) -> None:
    scene.final().records.append(seen(number, 8))
    assert scene.ask(check_integrity).evidence[0].detail == (
        f"{words} stands at offset 8, and nobody sent it (final, 8100 us)"
    )


def test_the_hash_is_javas() -> None:
    # As org.apache.kafka.common.utils.UtilsTest has them, signed.
    vectors = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    for key, signed in vectors.items():
        assert murmur2(key) == signed & 0xFFFFFFFF, key


def test_a_record_in_another_partition_than_its_key_asks_for_is_misplaced(scene: Scene) -> None:
    scene.record(1).hashed_key = b"foobar"
    assert (murmur2(b"foobar") & 0x7FFFFFFF) % 2 == 0
    assert scene.ask(check_placement).passed
    scene.record(1).hashed_key = b"abc"
    (piece,) = scene.ask(check_placement).evidence
    assert piece.detail == "record 1 was sent to partition 0 of t; 1 its key asks for"


def test_a_record_in_another_partition_than_was_chosen_is_misplaced(scene: Scene) -> None:
    scene.record(1).chosen_partition = 0
    assert scene.ask(check_placement).passed
    scene.record(1).chosen_partition = 1
    assert scene.ask(check_placement).count == 1


def test_a_record_that_stands_where_it_was_not_sent_is_misplaced(scene: Scene) -> None:
    scene.final(1).records.append(seen(2, 2))
    (piece,) = scene.ask(check_placement).evidence
    assert piece.detail == "record 2 was sent to t-0 and stands in t-1 at offset 2"
    scene.chronicle.sent.append(scene.sent(2, "p", 1, 2, 6_000, 6_100))
    assert scene.ask(check_placement).passed


def test_partitioners_of_ones_own_are_not_second_guessed(scene: Scene) -> None:
    assert scene.record(1).hashed_key is None
    assert scene.ask(check_placement).passed


def test_a_batch_whose_crc_is_wrong_is_corrupt(scene: Scene) -> None:
    scene.batches(1)[2].crc_is_right = False
    (piece,) = scene.ask(check_corruption).evidence
    assert piece.detail == "the batch at offset 4 on broker 1 has a CRC that does not fit its bytes"
    assert piece.brokers == (1,)


def test_offsets_that_come_again_in_a_log_are_corrupt(scene: Scene) -> None:
    scene.batches(1).append(batch(6, [0]))
    assert "reaches to offset 6, and the one before it to 6" in scene.ask(check_corruption).evidence[0].detail


def test_what_was_corrupted_on_purpose_must_not_be_there_in_the_end(scene: Scene) -> None:
    scene.fall(3_000, 1, "corrupt", 4)
    assert scene.ask(check_corruption).passed
    scene.batches(1)[2].crc_is_right = False
    assert scene.ask(check_corruption).count == 1


def test_a_gap_of_offsets_is_not_corrupt(scene: Scene) -> None:
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, cleanup=True)
    del scene.batches(1)[2]
    assert scene.ask(check_corruption).passed


def test_what_was_read_before_a_power_cut_may_stand_otherwise_though_the_offset_was_committed_again(
    scene: Scene,
) -> None:
    scene.chronicle.reads[0].records[2] = seen(99, 2)
    scene.fall(1_850, 1, "power_off", 2)
    scene.elect(1_900, 1, 1, (1, 2))
    scene.let_pass(0, 2_000, 2, 3, leader=1, epoch=1)
    assert scene.ask(check_changes).passed


@pytest.mark.parametrize(("committed_us", "heard_us"), [(1_500, 1_965), (1_500, 1_955), (1_950, 1_965)])
def test_a_leader_that_has_not_heard_of_a_power_cut_shows_what_is_gone(
    scene: Scene, committed_us: int, heard_us: int
) -> None:
    scene.chronicle.commits[0] = dataclasses.replace(scene.chronicle.commits[0], at_us=committed_us)
    scene.chronicle.reads[0] = scene.read("r", 0, 1_960, 1_970, 3, [(0, 0), (1, 1), (99, 2)], committed=False)
    assert not scene.ask(check_changes).passed
    scene.fall(1_850, 1, "power_off", 2)
    scene.elect(1_900, 1, 1, (1, 2))
    scene.mark(0, heard_us, 0, 2, 3, leader=1, epoch=1)
    assert scene.ask(check_changes).passed == (committed_us < 1_900 and heard_us > 1_960)


def test_in_a_log_that_is_empty_nothing_is_skipped(scene: Scene) -> None:
    for broker in range(3):
        scene.replica(broker, 1).batches = []
    scene.chronicle.reads = [scene.read("r", 1, 1_700, 1_800, 0, [])]
    assert scene.ask(check_polls).passed


@pytest.mark.parametrize("change", ["key_crc", "value_crc", "headers_crc", "timestamp_ms"])
def test_an_offset_that_showed_the_same_record_otherwise_has_changed(scene: Scene, change: str) -> None:
    scene.chronicle.reads[0].records[2] = seen(2, 2, **{change: 5})
    assert scene.ask(check_changes).count == 1


@pytest.mark.parametrize(("high_watermark", "end", "changes"), [(3, 7, 1), (2, 7, 0), (7, 3, 1), (7, 2, 0)])
def test_a_replica_is_held_to_what_lies_below_its_high_watermark_and_the_end_of_the_final_read(
    scene: Scene, high_watermark: int, end: int, changes: int
) -> None:
    scene.replica(2).bytes_crc = 41
    scene.batches(2)[0] = batch(0, [0, 1, 98])
    scene.replica(2).high_watermark = high_watermark
    scene.final().end = end
    assert scene.ask(check_changes).count == changes


def test_the_last_batch_of_a_replica_is_held_to_what_is_read_as_well(scene: Scene) -> None:
    scene.final().records.append(seen(1, 7))
    scene.final().end = 8
    for broker in range(3):
        scene.batches(broker).append(batch(7, [1], sequence=3))
        scene.replica(broker).high_watermark = 8
    assert scene.ask(check_changes).passed
    scene.replica(2).bytes_crc = 41
    scene.batches(2)[-1] = batch(7, [98], sequence=3)
    assert [piece.offsets for piece in scene.ask(check_changes).evidence] == [(7,)]


def test_a_record_that_vanished_is_named_with_the_final_read_that_lacks_it(scene: Scene) -> None:
    final = scene.final(committed=True)
    final.start = 1
    final.records.pop(0)
    (piece,) = scene.ask(check_changes).evidence
    assert piece.detail.endswith("(read_committed) until 4000 us, and the final read from 1 to 7 does not have it")


def test_where_nothing_had_been_committed_no_marker_was_lost(scene: Scene) -> None:
    lose_the_marker(scene, 4, [], FIRST, 3)
    assert scene.ask(check_changes).passed
    scene.chronicle.commits.clear()
    assert scene.ask(check_changes).count == 1


def test_skips_where_records_are_cleaned_up_are_not_observable(scene: Scene) -> None:
    scene.chronicle.topics[0] = TopicPromise("t", 2, 3, 2, cleanup=True)
    scene.chronicle.reads[0].records.pop(0)
    finding = scene.ask(check_polls)
    assert not finding.count
    assert finding.unseen == ("skips in t-0, where records may go", "skips in t-1, where records may go")


def test_headers_are_not_observable_where_only_one_of_two_sendings_took_their_crc(scene: Scene) -> None:
    again = scene.sent(1, "p", 0, 1, 1_000, 2_000)
    again.headers_crc = None
    scene.chronicle.sent.append(again)
    assert scene.ask(check_integrity).unseen == ("the headers of records whose checksum nobody took",)


def test_record_0_has_a_number_though_nobody_sent_it(scene: Scene) -> None:
    scene.chronicle.sent.remove(scene.record(0))
    assert scene.ask(check_integrity).evidence[0].detail == (
        "record 0 stands at offset 0, and nobody sent it (r, 1800 us)"
    )


def test_a_hash_is_taken_as_a_positive_number(scene: Scene) -> None:
    scene.chronicle.topics[0] = TopicPromise("t", 3, 3, 2)
    scene.record(1).hashed_key = b"foobar"  # its hash is negative in Java
    wanted = (-790332482 & 0x7FFFFFFF) % 3
    assert wanted != murmur2(b"foobar") % 3
    scene.record(1).partition = wanted
    assert not [piece for piece in scene.ask(check_placement).evidence if "its key asks for" in piece.detail]
    scene.record(1).partition = (wanted + 1) % 3
    assert [piece for piece in scene.ask(check_placement).evidence if "its key asks for" in piece.detail]


def test_what_was_committed_when_a_round_ended_can_have_lost_its_marker(scene: Scene) -> None:
    lose_the_marker(scene, 4, [], FIRST, 3)
    scene.chronicle.commits[1] = dataclasses.replace(scene.chronicle.commits[1], at_us=4_000)
    assert scene.ask(check_changes).passed
    scene.chronicle.commits[1] = dataclasses.replace(scene.chronicle.commits[1], at_us=4_001)
    assert scene.ask(check_changes).count == 1


def test_a_power_cut_between_two_rounds_excuses_a_change_though_no_commit_was_seen(scene: Scene) -> None:
    scene.chronicle.commits.clear()
    scene.chronicle.reads[0].records[2] = seen(99, 2)
    scene.fall(1_850, 1, "power_off", 2)
    scene.elect(1_900, 1, 1, (1, 2))
    assert scene.ask(check_changes).passed


def test_a_stray_record_that_was_sent_to_two_topics_is_named_by_the_first(scene: Scene) -> None:
    scene.final(1).records.append(seen(2, 2))
    scene.chronicle.sent.append(dataclasses.replace(scene.record(2), topic="u"))
    (piece,) = scene.ask(check_placement).evidence
    assert piece.detail == "record 2 was sent to t-0 and stands in t-1 at offset 2"
