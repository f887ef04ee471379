"""The appender: what `send` writes, where it cuts, whom it wakes, and what becomes of deliveries."""

from __future__ import annotations

import gc
import itertools
import logging
import threading
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.records.handing_over import taken_from

from ottla.errors import ClosedError, DeliveryFailed, DeliveryUnknown, KafkaError, RecordError
from ottla.records.append import Appender
from ottla.records.delivery import Delivery, RecordMetadata, run_callbacks
from ottla.records.plain import decode_batches, encode_batch, partition_for_key


class Hooks:
    """What the client would do, noted."""

    def __init__(self):
        self.log = []
        self.appender = None

    def topic_missing(self, topic, call):
        self.log.append(("topic", topic))
        self.appender.set_topic(topic, 3)

    def memory_wanted(self, call):
        self.log.append(("memory", call.wanted_bytes))
        for batch in taken_from(self.appender):
            self.appender.release(batch.buffer_bytes)

    def wake(self):
        self.log.append("wake")

    def wait(self, batch, timeout_s):
        self.log.append(("wait", timeout_s))
        return False

    def check_usable(self):
        self.log.append("check")


def appender(hooks=None, **settings):
    hooks = hooks or Hooks()
    defaults = {
        "batch_size": 16384,
        "max_request_size": 1 << 20,
        "buffer_memory": 1 << 25,
        "linger_us": 5000,
        "clock_us": lambda: 1_000_000,
        "clock_ms": lambda: 1_700_000_000_000,
    }
    made = Appender(**{**defaults, **settings}, hooks=hooks)
    hooks.appender = made
    made.set_topic("flights", 3)
    return made


def stored(batches):
    """partition -> records, as the plain decoder reads them."""
    found = {}
    for batch in batches:
        [(header, records)] = decode_batches(b"".join(batch.buffers()))
        assert header.record_count == batch.record_count
        assert header.size_bytes == batch.size_bytes
        assert (header.base_timestamp, header.max_timestamp) == (batch.base_timestamp, batch.max_timestamp)
        found.setdefault(batch.partition, []).extend(records)
    return found


blobs = st.none() | st.binary(max_size=300)
sent_headers = st.none() | st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3)
sent_records = st.lists(
    st.tuples(blobs, blobs, sent_headers, st.integers(0, (1 << 63) - 1), st.none() | st.integers(0, 2)), max_size=60
)


@settings(deadline=None)
@given(
    sent_records, st.sampled_from([61, 100, 1000, 20_000]), st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])
)
def test_every_record_is_stored_as_it_was_sent(rows, batch_size, codec):
    made = appender(batch_size=batch_size, compression=codec)
    expected = {}
    for value, key, headers, timestamp, partition in rows:
        delivery = made.send("flights", value, key, headers=headers, partition=partition, timestamp_ms=timestamp)
        if partition is not None:
            assert delivery.partition == partition
        elif key is not None:
            assert delivery.partition == partition_for_key(key, 3)
        row = (timestamp, key, value, tuple(headers or ()))
        expected.setdefault(delivery.partition, []).append(row)
    batches = taken_from(made, force=True)
    got = {partition: [record[1:] for record in records] for partition, records in stored(batches).items()}
    assert got == expected
    assert made.records_appended == len(rows)
    assert all(batch.size_bytes <= batch_size or batch.record_count == 1 for batch in batches)
    assert made.buffered_bytes == sum(batch.buffer_bytes for batch in batches)


@given(st.lists(st.tuples(blobs, blobs, st.integers(0, 1 << 62)), min_size=1, max_size=20))
def test_bytes_are_those_of_the_plain_twin(rows):
    made = appender(batch_size=1 << 20)
    for value, key, timestamp in rows:
        made.send("flights", value, key, partition=1, timestamp_ms=timestamp)
    [batch] = taken_from(made, force=True)
    batch.assign(77, 3, 12)
    [(_, records)] = decode_batches(b"".join(batch.buffers()))
    twin = encode_batch(records, producer_id=77, producer_epoch=3, base_sequence=12)
    assert b"".join(batch.buffers()) == twin


def test_text_and_bytes_like_are_taken():
    made = appender()
    made.send("flights", "größe", bytearray(b"k"), partition=0, headers=[("h", "text"), ("n", None)])
    made.send("flights", memoryview(b"abcd")[::2], memoryview(b"xk")[1:], partition=0)
    [first, second] = stored(taken_from(made, force=True))[0]
    assert (first.value, first.key, first.headers) == ("größe".encode(), b"k", (("h", b"text"), ("n", None)))
    assert (second.value, second.key) == (b"ac", b"k")
    assert first.timestamp_ms == 1_700_000_000_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"value": 5}, "value is bytes, str or None, not int"),
        ({"value": {"a": 1}}, "not dict"),
        ({"key": 1.5}, "key is bytes, str or None, not float"),
        ({"value": "\ud800"}, "cannot be sent as UTF-8"),
        ({"headers": 5}, "Headers are a list"),
        ({"headers": [("a",)]}, "Headers are a list"),
        ({"headers": [(b"a", b"")]}, "header's name is a str"),
        ({"headers": [("\ud800", b"")]}, "The text"),
        ({"headers": [("a", 5)]}, "header value is bytes"),
        ({"partition": 3}, "partitions 0 to 2, not 3"),
        ({"partition": -1}, "not -1"),
        ({"partition": True}, "not True"),
        ({"partition": "0"}, "not '0'"),
        ({"timestamp_ms": -1}, "timestamp_ms is an int"),
        ({"timestamp_ms": 1 << 63}, "timestamp_ms is an int"),
        ({"timestamp_ms": 1.0}, "timestamp_ms is an int"),
        ({"value": b"x" * (1 << 20)}, r"needs \d+ bytes with its batch; max.request.size allows 1048576"),
        ({"topic": b"flights"}, "topic is a non-empty str"),
        ({"topic": ""}, "topic is a non-empty str"),
    ],
)
def test_what_cannot_be_sent_is_explained(arguments, words):
    made = appender()
    with pytest.raises(RecordError, match=words):
        made.send(**{"topic": "flights", **arguments})
    assert taken_from(made, force=True) == []
    assert made.buffered_bytes == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"value": {"a": 1}},
            "A record's value is bytes, str or None, not dict: {'a': 1}. Serialize it first, for example with "
            "json.dumps, or give the producer a value_serializer.",
        ),
        (
            {"key": 17},
            "A record's key is bytes, str or None, not int: 17. Serialize it first, for example with json.dumps, or "
            "give the producer a key_serializer.",
        ),
        (
            {"headers": [("a", 5)]},
            "A record's header value is bytes, str or None, not int: 5. Serialize it first, for example with "
            "json.dumps.",
        ),
        (
            {"headers": {"a": b"b"}},
            "Headers are a list of (str, bytes or str or None) pairs, not {'a': b'b'}. Give list(headers.items()).",
        ),
    ],
)
def test_what_can_be_sent_in_its_place_is_told(arguments, told):
    with pytest.raises(RecordError) as caught:
        appender().send("flights", **arguments)
    assert str(caught.value) == told


def test_no_topic_is_none_even_where_none_was_looked_up_last():
    made = appender()
    for _ in range(2):
        with pytest.raises(RecordError, match="topic is a non-empty str, not None"):
            made.send(None, b"x")
        made.send("flights", b"x")
        made.forget_topic("flights")


def test_record_larger_than_the_memory_is_refused():
    with pytest.raises(RecordError, match=r"buffer\.memory is 1000"):
        appender(buffer_memory=1000).send("flights", b"x" * 1000)


def test_record_larger_than_a_batch_goes_alone():
    made = appender(batch_size=200)
    for size in (10, 500, 10):
        made.send("flights", b"x" * size, partition=0)
    assert [batch.record_count for batch in taken_from(made, force=True)] == [1, 1, 1]


def test_keyless_records_fill_a_batch_before_they_move_on():
    made = appender(batch_size=1000, seed=5)
    partitions = [made.send("flights", b"x" * 90).partition for _ in range(100)]
    changes = sum(before != after for before, after in itertools.pairwise(partitions))
    assert set(partitions) == {0, 1, 2}
    assert changes == (len(partitions) - 1) // 9
    assert all(batch.record_count == 9 for batch in taken_from(made))


def test_same_seed_same_partitions():
    def partitions(seed):
        made = appender(batch_size=300, seed=seed)
        return [made.send("flights", b"x" * 90).partition for _ in range(50)]

    assert partitions(1) == partitions(1)
    assert partitions(1) != partitions(2)


def test_keys_can_be_ignored():
    made = appender(ignore_keys=True)
    assert len({made.send("flights", b"", b"%d" % i).partition for i in range(20)}) == 1


def test_unknown_topic_is_asked_for_and_then_sent():
    hooks = Hooks()
    made = appender(hooks)
    made.send("other", b"1")
    made.forget_topic("other")
    made.send("other", b"2")
    made.send("other", b"3")
    assert hooks.log == [("topic", "other")] * 2
    assert made.partition_count("other") == 3
    assert made.partition_count("none") == 0


def test_forgotten_topic_keeps_its_order():
    made = appender(batch_size=200)
    made.send("flights", b"first", partition=1)
    made.forget_topic("flights")
    made.set_topic("flights", 3)
    for _ in range(5):
        made.send("flights", b"x" * 90, partition=1)
    assert stored(taken_from(made, force=True))[1][0].value == b"first"


def test_topic_may_grow():
    made = appender()
    made.set_topic("flights", 5)
    assert made.send("flights", b"", partition=4).partition == 4


def test_batch_is_handed_over_with_its_first_record_and_grows_until_it_is_closed():
    made = appender()
    assert not made.has_news()
    made.send("flights", b"a", partition=0)
    assert made.has_news()
    [batch] = made.take_new()
    assert (batch.is_open, batch.is_finished) == (True, False)
    made.send("flights", b"b", partition=0)
    assert not made.has_news()
    assert made.close(batch)
    assert (batch.is_open, batch.is_finished, batch.record_count) == (False, True, 2)
    made.send("flights", b"c", partition=0)
    [behind] = made.take_new()
    assert behind is not batch


def test_full_batch_is_returned_by_take_filled():
    made = appender(batch_size=200)
    made.send("flights", b"x" * 100, partition=0)
    [full] = made.take_new()
    assert made.take_filled() == []
    made.send("flights", b"x" * 100, partition=0)
    assert made.has_news()
    [behind] = made.take_new()
    assert made.take_filled() == [full]
    assert (full.is_finished, behind.is_finished) == (True, False)


def test_sleeper_is_woken_once_by_the_first_record_and_by_a_full_batch():
    hooks = Hooks()
    made = appender(hooks, batch_size=200)
    made.send("flights", b"a", partition=0)
    assert hooks.log == []
    taken_from(made, force=True)
    made.sleeping, made.wakes_us = True, 1_005_001
    made.send("flights", b"a", partition=0)
    assert (hooks.log, made.sleeping) == (["wake"], False)
    # The I/O thread wakes by itself before linger.ms of the second one is over: no wake-up is needed.
    made.sleeping, made.wakes_us = True, 1_005_000
    made.send("flights", b"a", partition=1)
    assert hooks.log == ["wake"]
    made.send("flights", b"x" * 150, partition=1)
    assert hooks.log == ["wake", "wake"]


def test_full_memory_makes_the_sender_wait_and_open_batches_leave():
    hooks = Hooks()
    made = appender(hooks, buffer_memory=6000, batch_size=3000)
    for i in range(200):
        made.send("flights", b"x" * 90, partition=i % 3)
        assert made.buffered_bytes <= 6000
    assert any(entry[0] == "memory" for entry in hooks.log)


def test_closed_appender_says_so():
    made = appender()
    made.refusal = ClosedError("This producer is closed.")
    for _ in range(2):
        with pytest.raises(ClosedError, match="is closed") as raised:
            made.send("flights", b"")
        # A new one each time: one object would keep the traceback of every call that it was raised in.
        assert raised.value is not made.refusal
    assert made.refusal.__traceback__ is None


def test_sealed_batches_queue_behind_the_open_one():
    other = appender()
    other.send("flights", b"second", partition=1)
    sealed = taken_from(other, force=True)
    made = appender()
    made.send("flights", b"first", partition=1)
    made.add_sealed(sealed)
    made.send("flights", b"third", partition=1)
    batches = taken_from(made, force=True)
    assert [record.value for record in stored(batches)[1]] == [b"first", b"second", b"third"]
    assert made.records_appended == 3
    for batch in batches:
        made.release(batch.buffer_bytes)
    assert made.buffered_bytes == 0


def test_identity_can_be_written_again():
    made = appender()
    made.send("flights", b"a", partition=0)
    [batch] = taken_from(made, force=True)
    for transactional in (True, False):
        batch.assign(2**40, 7, 2**31 - 1, transactional)
        [(header, _)] = decode_batches(b"".join(batch.buffers()))
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 7, 2**31 - 1)
        assert header.is_transactional is transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2**40, 7, 2**31 - 1)


def one_batch(count=3, **arguments):
    made = appender()
    deliveries = [made.send("flights", b"%d" % i, partition=2, timestamp_ms=10 + i, **arguments) for i in range(count)]
    [batch] = taken_from(made, force=True)
    return batch, deliveries


def test_acked_delivery_says_where_the_record_is():
    batch, deliveries = one_batch()
    assert not deliveries[0].done()
    batch.complete(100)
    assert deliveries[2].done()
    assert deliveries[2].result() == RecordMetadata("flights", 2, 102, 12)
    assert deliveries[2].exception() is None
    assert (batch.outcome, batch.base_offset, batch.unlooked(), batch.buffers()) == (1, 100, 0, [])


def test_unacknowledged_delivery_has_no_offset_and_append_time_replaces_the_timestamp():
    batch, deliveries = one_batch()
    batch.complete(-1)
    assert deliveries[1].result() == RecordMetadata("flights", 2, -1, 11)
    batch, deliveries = one_batch()
    batch.complete(5, 999)
    assert deliveries[1].result() == RecordMetadata("flights", 2, 6, 999)


def test_failed_and_unknown_deliveries_raise_with_the_cause_until_somebody_looks():
    cause = KafkaError(10, "MESSAGE_TOO_LARGE", "The message is too large.")
    for settle, kind in (("fail", DeliveryFailed), ("lose", DeliveryUnknown)):
        batch, deliveries = one_batch()
        getattr(batch, settle)(cause)
        assert batch.unlooked() == 3
        with pytest.raises(kind, match=r"flights-2.*too large") as raised:
            deliveries[0].result()
        assert raised.value.__cause__ is cause
        assert raised.value.first is cause
        assert isinstance(deliveries[0].exception(), kind)
        assert batch.unlooked() == 2
        batch.mark_looked()
        assert batch.unlooked() == 0


def test_outcome_is_settled_once():
    batch, deliveries = one_batch()
    batch.complete(7)
    batch.fail(ValueError("late"))
    batch.complete(9)
    assert deliveries[0].result().offset == 7


def test_waiting_asks_the_hooks_and_times_out():
    hooks = Hooks()
    made = appender(hooks)
    delivery = made.send("flights", b"a")
    with pytest.raises(TimeoutError, match=r"no outcome after 0\.5 s"):
        delivery.result(timeout=0.5)
    assert hooks.log == [("wait", 0.5)]


def test_callbacks_run_in_order_and_their_errors_are_logged(caplog):
    told = []

    def broken(delivery):
        raise ValueError("broken callback")

    batch, deliveries = one_batch(1, on_delivery=lambda delivery: told.append(("first", delivery)))
    deliveries[0].add_done_callback(broken)
    deliveries[0].add_done_callback(lambda delivery: told.append(("second", delivery)))
    with caplog.at_level(logging.ERROR, "ottla.producer"):
        batch.complete(1)
    deliveries[0].add_done_callback(lambda delivery: told.append(("late", delivery)))
    assert [word for word, _ in told] == ["first", "second", "late"]
    assert all(delivery is deliveries[0] for _, delivery in told)
    assert "broken callback" in caplog.text


def interrupt(delivery):
    raise KeyboardInterrupt


def test_an_interrupt_in_a_callback_does_not_reach_who_settles_the_batch(caplog):
    told = []
    batch, [delivery] = one_batch(1, on_delivery=interrupt)
    delivery.add_done_callback(told.append)
    batch.fail(ValueError())
    assert told == [delivery]
    assert "The delivery callback" in caplog.text


def test_an_interrupt_in_a_callback_added_too_late_reaches_who_adds_it():
    batch, [delivery] = one_batch(1)
    batch.complete(0)
    with pytest.raises(KeyboardInterrupt):
        delivery.add_done_callback(interrupt)


def test_an_interrupt_in_an_event_loop_reaches_it_after_all_callbacks():
    told = []
    _, [delivery] = one_batch(1)
    with pytest.raises(KeyboardInterrupt):
        run_callbacks([delivery, interrupt, delivery, told.append])
    assert told == [delivery]


def test_delivery_cannot_be_made_by_hand():
    with pytest.raises(TypeError, match=r"Producer\.send"):
        Delivery()


def test_callback_that_sends_again_is_fine():
    made = appender()
    made.send("flights", b"1", partition=0, on_delivery=lambda _: made.send("flights", b"2", partition=0))
    [batch] = taken_from(made, force=True)
    batch.complete(0)
    assert stored(taken_from(made, force=True))[0][0].value == b"2"


def test_collector_running_inside_send_leaves_the_order_intact():
    """Objects whose finalizers send are collected while `send` allocates."""
    made = appender(batch_size=150)
    sent = []

    class Sender:
        me: object

        def __del__(self):
            sent.append(b"f%d" % len(sent))
            made.send("flights", sent[-1], partition=0)

    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for i in range(300):
            cycle = Sender()
            cycle.me = cycle
            del cycle
            made.send("flights", b"m%d" % i, partition=0)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    values = [record.value for record in stored(taken_from(made, force=True))[0]]
    assert len(values) == 300 + len(sent)
    assert [value for value in values if value[:1] == b"m"] == [b"m%d" % i for i in range(300)]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_senders_and_taker_in_their_own_threads_lose_and_mix_up_nothing(codec):
    """Two threads send to the same partitions while a third takes; memory is short enough to block."""
    room = threading.Condition()

    class Waiting(Hooks):
        def memory_wanted(self, call):
            with room:
                room.wait_for(lambda: call.has_memory)

    made = appender(Waiting(), batch_size=2000, buffer_memory=100_000, compression=codec, clock_us=None)
    deliveries = {0: [], 1: []}
    done = threading.Event()
    batches = []

    def send_all(sender):
        for i in range(4000):
            deliveries[sender].append(made.send("flights", b"%d:%d" % (sender, i) + b"x" * 40, partition=i % 3))

    def take_all():
        next_offset = {}
        while True:
            last = done.is_set()
            if made.memory.has_served:
                made.memory.has_served = False
                with room:
                    room.notify_all()
            for batch in taken_from(made, force=last):
                offset = next_offset.get(batch.partition, 0)
                next_offset[batch.partition] = offset + batch.record_count
                batch.assign(1, 0, offset)
                batches.append(b"".join(batch.buffers()))
                batch.complete(offset)
                with room:
                    made.release(batch.buffer_bytes)
                    room.notify_all()
            if last:
                return

    taker = threading.Thread(target=take_all)
    senders = [threading.Thread(target=send_all, args=(sender,)) for sender in deliveries]
    for thread in [taker, *senders]:
        thread.start()
    for thread in senders:
        thread.join()
    done.set()
    taker.join()
    assert made.buffered_bytes == 0
    at = {}
    partition_of_batch = iter(batches)
    total = 0
    by_sequence = {}
    for raw in partition_of_batch:
        [(header, records)] = decode_batches(raw)
        total += len(records)
        for row, record in enumerate(records):
            at.setdefault(record.value, []).append(header.base_sequence + row)
            by_sequence.setdefault(record.value.split(b":")[0], []).append(record.value)
    assert total == 8000
    for sender, sent in deliveries.items():
        for i, delivery in enumerate(sent):
            assert at[b"%d:%d" % (sender, i) + b"x" * 40] == [delivery.result().offset]
        for partition in range(3):
            offsets = [delivery.result().offset for delivery in sent[partition::3]]
            assert offsets == sorted(offsets)


def test_dropped_appender_with_open_batches_is_freed():
    hooks = Hooks()
    made = appender(hooks)
    deliveries = [made.send("flights", b"x" * 100, partition=i % 3) for i in range(10)]
    # The appender and its batches hold the hooks, which hold the appender.
    held = weakref.ref(hooks)
    del hooks, made
    gc.collect()
    assert held() is not None, "a delivery keeps its batch"
    del deliveries
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_batch_says_how_large_it_was_and_how_large_its_largest_record(codec):
    made = appender(compression=codec)
    for value in (b"a" * 10, b"b" * 500, b"c" * 20):
        made.send("flights", value, partition=0)
    [first] = taken_from(made, force=True)
    made.send("flights", b"d", partition=0)
    [second] = taken_from(made, force=True)
    # A record: length, attributes, two deltas, no key, length of the value, the value, no headers.
    assert first.record_bytes_max == 2 + 1 + 1 + 1 + 1 + 2 + 500 + 1
    assert first.uncompressed_bytes == 61 + 17 + first.record_bytes_max + 27
    assert (first.size_bytes < first.uncompressed_bytes) == (codec != "none")
    assert second.record_bytes_max == second.uncompressed_bytes - 61 == 8
