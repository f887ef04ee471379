"""Lives of a topic in which nothing is broken, and what looks like it in a capture."""

from __future__ import annotations

from dataclasses import replace

from tests.explain.made_entries import BEGUN, batch, exchange, fetched, produced, told

from ottla.explain.explanation import read
from ottla.tap.exchange import Batch, Exchange, Outcome, PartitionPart, Remark, RemarkKind, Way

FIRST_ID, SECOND_ID = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"


def at(each: Batch, offset: int) -> Batch:
    return replace(each, base_offset=offset)


def metadata(at_ms: int, topic_id: str) -> Exchange:
    return exchange("Metadata", at_ms, PartitionPart(topic="orders", topic_id=topic_id))


def sent_to(each: Exchange, topic_id: str) -> Exchange:
    return replace(each, partitions=tuple(replace(part, topic_id=topic_id) for part in each.partitions))


def before_and_behind() -> tuple[list[Exchange], list[Exchange]]:
    """Two lives of a topic, both from offset 0."""
    before = [produced(10, batch("a"), 0), produced(20, batch("b"), 1)]
    return before, [produced(9_000, batch("c"), 0), produced(9_010, batch("d"), 1)]


def test_a_topic_that_was_made_again_lost_nothing_where_requests_have_topic_ids() -> None:
    before, behind = before_and_behind()
    named = [sent_to(each, FIRST_ID) for each in before], [sent_to(each, SECOND_ID) for each in behind]
    assert told(*named[0], *named[1]) == []
    again = [produced(9_020, batch("e")), produced(9_030, batch("e"), 3)]
    assert told(*named[0], *named[1], *(sent_to(each, SECOND_ID) for each in again)) == [("duplicated", (2, 3))]


def test_a_topic_that_was_made_again_lost_nothing_where_metadata_tells_its_ids() -> None:
    before, behind = before_and_behind()
    ids = [metadata(5, FIRST_ID), metadata(30, FIRST_ID), metadata(8_990, SECOND_ID)]
    assert told(*ids[:1], *before, *ids[1:], *behind) == []


def test_a_topic_that_was_deleted_during_the_capture_lost_nothing() -> None:
    before, behind = before_and_behind()
    deletion = exchange("DeleteTopics", 5_000, PartitionPart(topic="orders"))
    assert told(*before, deletion, *behind) == []


def test_offsets_that_begin_again_at_0_may_be_another_topics() -> None:
    before, behind = before_and_behind()
    found = read([BEGUN, *before, *behind], "it")
    assert not found.breaches
    assert any("orders-0: its offsets begin again at 0" in each for each in found.seen.unseen)


def test_offsets_that_begin_again_at_0_of_a_topic_that_is_still_the_same_were_lost() -> None:
    before, behind = before_and_behind()
    entries = [metadata(5, FIRST_ID), *before, *behind, metadata(9_500, FIRST_ID)]
    assert ("lost", (0,)) in told(*entries)


def test_topics_of_two_clusters_with_the_same_name_are_two() -> None:
    one, other = batch("a"), batch("b")
    first = [metadata(5, FIRST_ID), produced(10, one, 0), metadata(15, FIRST_ID)]
    second = [metadata(6, SECOND_ID), produced(11, other, 0), metadata(16, SECOND_ID)]
    second = [replace(each, broker="10.9.9.9:9092", client="10.0.0.9:40000") for each in second]
    assert told(*(each for pair in zip(first, second, strict=True) for each in pair)) == []


def test_equal_records_from_before_the_capture_are_no_duplicates() -> None:
    entries = [produced(500, batch("a"), 2), fetched(600, batch("a"), at(batch("b"), 1), at(batch("a"), 2))]
    assert told(*entries) == []
    assert read([BEGUN, *entries], "it").suspects == []


def test_a_batch_that_the_broker_compressed_anew_was_not_lost() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b"), 1)]
    assert told(*entries, fetched(30, batch("a, compressed anew")), fetched(31, at(batch("b"), 1))) == []


def test_a_batch_of_which_compaction_has_left_a_part_was_not_lost() -> None:
    entries = [produced(10, batch("a", 3), 0), produced(20, batch("b"), 3)]
    left = replace(batch("what is left of a"), base_offset=1)
    assert told(*entries, fetched(9_000, left, at(batch("b"), 3))) == []


def test_what_acks_0_sent_before_the_reader_began_was_not_lost() -> None:
    entries = [produced(10, batch("a"), acks=0), produced(20, batch("b"), acks=0)]
    assert told(*entries, fetched(9_000, at(batch("b"), 1))) == []


def test_what_acks_0_sent_last_may_be_held_back_from_readers() -> None:
    entries = [produced(10, batch("a"), acks=0), produced(20, batch("b"), acks=0)]
    assert told(*entries, fetched(30_000, batch("a"))) == []
    assert told(*entries, fetched(90_000, batch("a"))) == [("lost", ())]


def test_a_follower_that_is_read_from_may_not_have_what_was_acknowledged() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b"), 1)]
    behind = fetched(90_000, batch("a"))
    assert told(*entries, behind) == [("lost", (1, 1))]
    assert told(*entries, replace(behind, broker="10.0.0.3:9092")) == []


def test_a_clock_that_was_set_back_puts_nothing_out_of_order() -> None:
    late = replace(produced(20, batch("b"), 1), request_us=30_000, response_us=21_000)
    found = read([BEGUN, produced(10, batch("a"), 0), late, produced(25, batch("c"), 2)], "it")
    assert not found.breaches
    assert any("clock was set back" in each for each in found.seen.unseen)


def not_captured(at_ms: int, way: Way, kind: RemarkKind = RemarkKind.LOST, connection: int = 1) -> Remark:
    return Remark(
        time_us=at_ms * 1000,
        connection=connection,
        client="10.0.0.1:40000",
        broker="10.0.0.2:9092",
        kind=kind,
        way=way,
        size_bytes=100,
        what="100 bytes were not captured",
    )


def test_what_stands_in_a_gap_may_be_what_was_not_captured() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b")), produced(30, batch("b"), 2)]
    assert told(*entries) == [("duplicated", (1, 2))]
    assert told(*entries[:1], not_captured(15, Way.TO_BROKER, connection=7), *entries[1:]) == []
    assert told(*entries[:1], not_captured(15, Way.TO_BROKER, RemarkKind.TLS, connection=7), *entries[1:]) == []
    unread = replace(produced(15, batch("x"), 1), partitions=(), unread="requests of this version are not decoded")
    assert told(*entries[:1], unread, *entries[1:]) == []
    unasked = replace(exchange("Produce", 15, None), outcome=Outcome.UNASKED, request_us=None, api=None)
    assert told(*entries[:1], unasked, *entries[1:]) == []


def test_what_was_not_captured_before_the_first_known_offset_stands_in_no_gap_behind_it() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b")), produced(30, batch("b"), 2)]
    early = not_captured(5, Way.TO_BROKER, RemarkKind.BEGINNING_UNSEEN, connection=7)
    assert told(early, *entries) == [("duplicated", (1, 2))]


def test_a_request_whose_answer_may_not_have_been_captured_met_no_fault() -> None:
    entries = [produced(10, batch("a"), 0), produced(20, batch("b")), produced(30, batch("c"), 2)]
    assert read([BEGUN, *entries], "it").suspects
    assert not read([BEGUN, *entries, not_captured(25, Way.TO_CLIENT)], "it").suspects


def test_requests_that_are_seen_at_the_same_time_are_in_the_order_of_their_numbers() -> None:
    # What is behind a packet that was not captured is seen at once; answers stand first.
    first = replace(produced(20, batch("b")), correlation_id=7)
    second = replace(produced(20, batch("c"), 2), correlation_id=8)
    assert told(produced(10, batch("a"), 0), second, produced(30, batch("d"), 3), first) == []


def carried_on(each: Exchange) -> Exchange:
    """The same on the way from a proxy to the broker, half a millisecond later."""
    at_us = (each.request_us or 0) + 500
    answered_us = None if each.response_us is None else each.response_us - 100
    return replace(each, connection=2, client="10.0.0.3:50000", request_us=at_us, response_us=answered_us)


def test_what_a_proxy_carries_on_was_sent_once() -> None:
    entries = [produced(10 + number, batch(f"b{number}"), acks=0) for number in range(4)]
    both = [each for entry in entries for each in (entry, carried_on(entry))]
    read_whole = fetched(20_000, *(at(batch(f"b{number}"), number) for number in range(4)))
    assert told(*both, read_whole) == []
    assert told(*both, fetched(20_000, batch("b0"), at(batch("b2"), 1), at(batch("b3"), 2))) == [("lost", ())]


def test_what_a_proxy_carries_on_is_in_the_order_in_which_the_client_sent_it() -> None:
    sent = [produced(10, batch("a"), 0), produced(10, batch("b"), 1)]
    entries = [replace(each, correlation_id=number, request_us=10_000 + number) for number, each in enumerate(sent)]
    found = read([BEGUN, *entries, *map(carried_on, entries)], "it")
    assert not found.breaches
    assert any("1 connection of a proxy" in each for each in found.seen.unseen)


def test_of_many_requests_without_an_answer_those_that_were_stored_are_found() -> None:
    entries = [produced(10, batch("first"), 0)]
    offset, at_ms, stored = 0, 20, []
    for number in range(40):
        name = f"b{number}"
        # Of every four, one is stored although its answer is lost.
        if is_stored := number % 4 == 0:
            offset += 1
            stored.append((offset, offset + 1))
        offset += 1
        entries += [produced(at_ms, batch(name)), produced(at_ms + 10, batch(name), offset)]
        at_ms += 20
        assert is_stored == (stored[-1][1] == offset)
    assert told(*entries) == [("duplicated", each) for each in stored]


def test_of_many_requests_without_an_answer_one_that_was_never_acknowledged_may_be_what_was_stored() -> None:
    lost = [produced(20 + number, batch(f"b{number}")) for number in range(20)]
    again = [produced(50 + number, batch(f"b{number}"), 2 + number) for number in range(19)]
    assert told(produced(10, batch("first"), 0), *lost, *again) == []
