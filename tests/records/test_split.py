"""A batch in two: the records are those of the whole, bytes as the plain twin's, and no Delivery is lost on the way."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.records.handing_over import taken_from
from tests.records.test_append import appender, blobs, one_batch, sent_headers

from ottla.errors import ClosedError, DeliveryFailed, KafkaError
from ottla.records.batch_header import CODECS
from ottla.records.delivery import SPLIT
from ottla.records.plain import decode_batches, encode_batch
from ottla.records.split import split, split_out

timestamps = st.integers(0, (1 << 62)) | st.integers(1000, 1010)
rows_sent = st.lists(st.tuples(blobs, blobs, sent_headers, timestamps), min_size=2, max_size=40)


def halved(batch, codec="none"):
    """All batches that splitting again and again ends with."""
    if batch.record_count == 1:
        return [batch]
    return [leaf for part in split(batch, codec) for leaf in halved(part, codec)]


def records_of(batch):
    [(header, records)] = decode_batches(b"".join(batch.buffers()))
    assert header.size_bytes == batch.size_bytes == batch.buffer_bytes
    assert header.record_count == batch.record_count == len(records)
    assert (header.base_timestamp, header.max_timestamp) == (batch.base_timestamp, batch.max_timestamp)
    assert header.base_timestamp == records[0].timestamp_ms
    assert header.max_timestamp == max(record.timestamp_ms for record in records)
    assert [record.offset for record in records] == list(range(len(records)))
    return [record[1:] for record in records]


@settings(deadline=None)
@given(rows_sent, st.sampled_from(CODECS))
def test_parts_hold_the_records_of_the_whole(rows, codec):
    made = appender(batch_size=1 << 20, compression=codec)
    for value, key, headers, timestamp in rows:
        made.send("flights", value, key, headers=headers, partition=1, timestamp_ms=timestamp)
    [whole] = taken_from(made, force=True)
    expected = records_of(whole)
    parts = split(whole, codec)
    assert [record for part in parts for record in records_of(part)] == expected
    assert all(part.codec in (codec, "none") for part in parts)
    leaves = [leaf for part in parts for leaf in halved(part, codec)]
    assert [records_of(leaf) for leaf in leaves] == [[row] for row in expected]
    assert leaves == whole.leaves()


@given(st.lists(st.tuples(blobs, blobs, st.integers(0, 1 << 62)), min_size=2, max_size=20), st.booleans())
def test_bytes_of_the_parts_are_those_of_the_plain_twin(rows, transactional):
    made = appender(batch_size=1 << 20)
    for value, key, timestamp in rows:
        made.send("flights", value, key, partition=1, timestamp_ms=timestamp)
    [whole] = taken_from(made, force=True)
    whole.assign(77, 3, (1 << 31) - 2, transactional)
    sequence = (1 << 31) - 2
    for part in split(whole):
        [(_, records)] = decode_batches(b"".join(part.buffers()))
        twin = encode_batch(
            records, producer_id=77, producer_epoch=3, base_sequence=sequence, is_transactional=transactional
        )
        assert b"".join(part.buffers()) == twin
        sequence = (sequence + part.record_count) % (1 << 31)


def test_halves_are_halves_of_the_bytes():
    made = appender(batch_size=1 << 20)
    for size in [10] * 90 + [1000, 1000]:
        made.send("flights", b"x" * size, partition=1)
    [whole] = taken_from(made, force=True)
    first, second = split(whole)
    assert (first.record_count, second.record_count) == (90, 2)


def test_deliveries_follow_their_records():
    whole, deliveries = one_batch(5)
    first, second = split(whole)
    assert whole.outcome == SPLIT
    assert not any(delivery.done() for delivery in deliveries)
    second.complete(70)
    first.fail(KafkaError(10, "MESSAGE_TOO_LARGE", "too large"))
    count = first.record_count
    for delivery in deliveries[:count]:
        with pytest.raises(DeliveryFailed, match="too large"):
            delivery.result()
    assert [delivery.result().offset for delivery in deliveries[count:]] == list(range(70, 70 + 5 - count))
    assert [delivery.result().timestamp_ms for delivery in deliveries[count:]] == [10 + n for n in range(count, 5)]
    assert (first.unlooked(), second.unlooked(), whole.unlooked()) == (0, 0, 0)


def test_callbacks_follow_their_records_and_run_once():
    heard = []
    whole, deliveries = one_batch(4, on_delivery=heard.append)
    first, second = split(whole)
    deliveries[3].add_done_callback(lambda delivery: heard.append("again"))
    assert heard == []
    second.complete(7)
    assert heard == [deliveries[2], deliveries[3], "again"]
    first.complete(5)
    assert heard[3:] == deliveries[:2]
    whole.complete(0)
    assert len(heard) == 5


def test_what_callbacks_take_stays_counted():
    whole, _ = one_batch(100, on_delivery=print)
    taken_bytes = whole.buffer_bytes - whole.size_bytes
    assert taken_bytes > 0
    parts = split(whole)
    assert abs(sum(part.buffer_bytes - part.size_bytes for part in parts) - taken_bytes) <= len(parts)


def test_who_waits_for_a_batch_that_is_split_waits_for_the_part():
    waited = []

    class Hooks:
        def wake(self): ...

        def wait(self, batch, timeout):
            waited.append((batch, timeout))
            if len(waited) == 1:
                split(batch)
            elif len(waited) == 2:
                batch.complete(40)

    made = appender(Hooks())
    deliveries = [made.send("flights", b"%d" % n, partition=2) for n in range(4)]
    [whole] = taken_from(made, force=True)
    assert deliveries[3].result(60).offset == 41
    assert [batch for batch, _ in waited] == [whole, whole.leaves()[1]]
    assert 0 < waited[1][1] <= 60


def test_rows_of_a_table_stay_those_of_their_records():
    pa = pytest.importorskip("pyarrow")
    from ottla.records.encode_columns import encode_stream

    table = pa.table({"v": [str(n) for n in range(10)], "p": [n % 2 for n in range(10)]})
    kept = {"key": None, "headers": None, "timestamp": None, "batch_size": 10_000, "max_request_size": 1 << 20}
    batches = [
        batch
        for some in encode_stream(
            table, topic="t", partition_count=2, value="v", partition="p", ignore_keys=False, sticky=None, **kept
        )
        for batch in some
    ]
    for whole in batches:
        rows = list(whole.rows)
        assert [row for part in split(whole) for row in part.rows] == rows


def test_what_cannot_be_split_says_so():
    single, _ = one_batch(1)
    with pytest.raises(ValueError, match="single record"):
        split(single)
    settled, _ = one_batch(2)
    settled.complete(0)
    with pytest.raises(ClosedError):
        split(settled)


def test_callbacks_added_while_it_is_split_are_neither_lost_nor_called_twice():
    for _ in range(50):
        whole, deliveries = one_batch(60)
        heard = []
        ready = threading.Barrier(2)

        def add(deliveries=deliveries, heard=heard, ready=ready):
            ready.wait()
            for delivery in deliveries:
                delivery.add_done_callback(heard.append)

        adder = threading.Thread(target=add)
        adder.start()
        ready.wait()
        leaves = halved(whole)
        for leaf in leaves:
            leaf.complete(1)
        adder.join()
        assert sorted(map(id, heard)) == sorted(map(id, deliveries))


@given(rows_sent, st.sampled_from(CODECS), st.data())
def test_rows_that_are_split_out_are_alone_and_the_others_stay_together(rows, codec, data):
    made = appender(batch_size=1 << 20, compression=codec)
    deliveries = [
        made.send("flights", value, key, headers=headers, partition=1, timestamp_ms=timestamp)
        for value, key, headers, timestamp in rows
    ]
    [whole] = taken_from(made, force=True)
    expected = records_of(whole)
    whole.assign(7, 1, 40)
    bad = data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1))
    parts = split_out(whole, bad, codec)
    assert [record for part in parts for record in records_of(part)] == expected
    starts = [sum(part.record_count for part in parts[:number]) for number in range(len(parts))]
    assert [part.base_sequence for part in parts] == [40 + start for start in starts]
    alone = {start for start, part in zip(starts, parts, strict=True) if start in bad}
    assert alone == bad
    assert all(part.record_count == 1 for start, part in zip(starts, parts, strict=True) if start in bad)
    # No two parts of good records are neighbours.
    assert not any(first not in bad and second not in bad for first, second in pairwise(starts))
    assert whole.outcome == SPLIT
    assert whole.leaves() == parts
    error = KafkaError(87, "INVALID_RECORD", "refused")
    for start, part in zip(starts, parts, strict=True):
        if start in bad:
            part.fail(error)
        else:
            part.complete(100 + start)
    for row, delivery in enumerate(deliveries):
        if row in bad:
            with pytest.raises(DeliveryFailed):
                delivery.result(0)
        else:
            assert delivery.result(0).offset == 100 + row


def test_callbacks_go_along_with_the_rows_that_are_split_out():
    made = appender(batch_size=1 << 20)
    seen = []
    for number in range(5):
        made.send("flights", b"%d" % number, partition=1).add_done_callback(
            lambda _, number=number: seen.append(number)
        )
    [whole] = taken_from(made, force=True)
    first, bad, second = split_out(whole, [2])
    bad.fail(KafkaError(87, "INVALID_RECORD", "refused"))
    assert seen == [2]
    second.complete(7)
    first.complete(5)
    assert seen == [2, 3, 4, 0, 1]


@pytest.mark.parametrize("rows", [[], [2], [-1]])
def test_rows_that_are_not_there_leave_the_batch_whole(rows):
    made = appender(batch_size=1 << 20)
    made.send("flights", b"a", partition=1)
    made.send("flights", b"b", partition=1)
    [whole] = taken_from(made, force=True)
    with pytest.raises(ValueError, match="A batch"):
        split_out(whole, rows)
    assert whole.buffers()
