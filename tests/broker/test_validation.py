"""What a topic's settings make of a batch: refused, stamped, compressed anew, or left alone."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from ottla.broker.log.validation import DECODED_BYTES_MAX
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.produce import PartitionProduceResponse
from ottla.records.batch_header import HEADER_BYTES, iterate_headers, stamp_crc
from ottla.records.plain import Record, encode_batch

from .world import TOPIC, WALL_OFFSET_US, World, batch_of, produce_request, records_of

WALL_MS = WALL_OFFSET_US // 1000 + 1000
HOUR_MS = 3_600_000


def made(**configs: object) -> World:
    world = World(1)
    assert world.create_topic(**configs) == 0
    return world


@pytest.mark.parametrize(
    ("timestamp_ms", "refused"),
    [
        (-1, False),
        (0, False),
        (WALL_MS, False),
        (WALL_MS + HOUR_MS, False),
        (WALL_MS + HOUR_MS + 1, True),
    ],
)
def test_records_from_too_far_in_the_future_are_refused(timestamp_ms: int, refused: bool) -> None:
    answer = made().produce(batch_of(b"a", timestamp_ms=timestamp_ms))
    assert answer.error_code == (ErrorCode.INVALID_TIMESTAMP if refused else 0)


def test_records_that_are_too_old_are_refused() -> None:
    world = made(message_timestamp_before_max_ms=1000)
    assert world.produce(batch_of(b"a", timestamp_ms=WALL_MS - 1000)).error_code == 0
    assert world.produce(batch_of(b"a", b"b", timestamp_ms=WALL_MS - 1001)).error_code == ErrorCode.INVALID_TIMESTAMP
    assert world.produce(batch_of(b"a", timestamp_ms=-1)).error_code == 0


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_log_append_time_is_the_brokers_clock(codec: str) -> None:
    world = made(message_timestamp_type="LogAppendTime")
    answer = world.produce(batch_of(b"a", b"b", timestamp_ms=5, codec=codec))
    assert (answer.error_code, answer.log_append_time_ms) == (0, WALL_MS)
    [header] = iterate_headers(bytes(world.storages[1].contents[f"{TOPIC}-0/{0:020d}.log"]))
    assert header.log_append_time
    assert header.max_timestamp == WALL_MS
    assert [(r.timestamp_ms, r.value) for r in records_of(world.fetch())] == [(WALL_MS, b"a"), (WALL_MS, b"b")]
    assert world.end_offset(timestamp=WALL_MS).offset == 0


def test_times_before_1970_are_kept_but_are_nothing_to_look_for() -> None:
    world = made()
    assert world.produce(batch_of(b"a", b"b", timestamp_ms=-5)).error_code == 0
    [header] = iterate_headers(bytes(world.storages[1].contents[f"{TOPIC}-0/{0:020d}.log"]))
    assert (header.base_timestamp, header.max_timestamp) == (-5, -1)
    assert [(r.timestamp_ms, r.value) for r in records_of(world.fetch())] == [(-5, b"a"), (-4, b"b")]


def test_a_producers_time_is_not_told_as_the_brokers() -> None:
    assert made().produce(batch_of(b"a")).log_append_time_ms == -1


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
@pytest.mark.parametrize("sent", ["none", "gzip", "zstd"])
def test_a_topic_has_the_compression_it_asks_for(wanted: str, sent: str) -> None:
    world = made(compression_type=wanted)
    rows = [Record(n, WALL_MS + n, b"key", b"value " * 50, (("h", b"x"),)) for n in range(3)]
    batch = encode_batch(rows, codec=sent, producer_id=7, producer_epoch=0, base_sequence=0)
    assert world.produce(batch).error_code == 0
    content = bytes(world.storages[1].contents[f"{TOPIC}-0/{0:020d}.log"])
    [header] = iterate_headers(content)
    assert header.codec == {"producer": sent, "uncompressed": "none"}.get(wanted, wanted)
    assert (header.producer_id, header.base_sequence) == (7, 0)
    assert records_of(world.fetch()) == rows
    assert world.produce(batch).base_offset == 0, "still known as a duplicate"


def test_a_compacted_topic_wants_keys() -> None:
    world = made(cleanup_policy="compact,delete")
    keyed = encode_batch([Record(0, WALL_MS, b"k", b"v")])
    half = encode_batch([Record(0, WALL_MS, b"k", b"v"), Record(1, WALL_MS, None, b"v")])
    assert world.produce(keyed).error_code == 0
    assert world.produce(half).error_code == ErrorCode.INVALID_RECORD
    assert world.end_offset().offset == 1


def refused_records(answer: PartitionProduceResponse) -> dict[int, str | None]:
    return {each.batch_index: each.batch_index_error_message for each in answer.record_errors}


def test_records_that_are_refused_are_named_with_what_is_wrong_with_each() -> None:
    world = made(cleanup_policy="compact", message_timestamp_before_max_ms=1000)
    rows = [
        Record(0, WALL_MS, b"k", b"v"),
        Record(1, WALL_MS, None, b"v"),
        Record(2, WALL_MS - 5000, b"k", b"v"),
        Record(3, WALL_MS, None, b"v"),
    ]
    answer = world.produce(encode_batch(rows[:2]))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert list(refused_records(answer)) == [1]
    assert answer.error_message is not None
    assert answer.error_message.startswith("1 of 2 records are refused; the first is number 1: a record without a key")
    answer = world.produce(encode_batch(rows))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_TIMESTAMP, -1)
    told = refused_records(answer)
    assert list(told) == [1, 2, 3]
    assert told[1] == told[3] == "a record without a key, in a topic with cleanup.policy=compact"
    assert str(told[2]).startswith(f"timestamp {WALL_MS - 5000} is more than 1000 ms before")
    assert world.end_offset().offset == 0
    assert world.produce(encode_batch(rows[:1])).record_errors == []


def test_one_answer_names_a_bounded_number_of_records_and_the_first_of_each_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kilobyte may hold a million records without a key: the answer would have a hundred megabytes."""
    monkeypatch.setattr("ottla.broker.apis.produce.NAMED_MAX", 5)
    monkeypatch.setattr("ottla.broker.log.validation.NAMED_MAX", 5)
    world = World(1)
    assert world.create_topic(TOPIC, 3, 1, cleanup_policy="compact") == 0
    batches = [encode_batch([Record(n, WALL_MS, None, b"v") for n in range(count)]) for count in (4, 9, 3)]
    answer = world.ask(1, produce_request({(TOPIC, number): batch for number, batch in enumerate(batches)}))
    found = answer.responses[0].partition_responses
    assert [list(refused_records(each)) for each in found] == [[0, 1, 2, 3], [0], [0]]
    assert [str(each.error_message).split(";")[0] for each in found] == [
        f"{count} of {count} records are refused" for count in (4, 9, 3)
    ]


def test_headers_and_keys_are_looked_at_without_an_object_for_each() -> None:
    """A batch of a kilobyte may hold millions of headers: what is taken of memory is what its bytes take."""
    world = made(cleanup_policy="compact")
    headers = encode_batch([Record(0, WALL_MS, b"k", None, ((("", None),) * 200_000))], codec="zstd")
    records = encode_batch([Record(n, WALL_MS, b"k", None) for n in range(50_000)], codec="zstd")
    for batch in (headers, records):
        tracemalloc.start()
        assert world.produce(batch).error_code == 0
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak_bytes < 3_000_000


@pytest.mark.parametrize(("count", "code"), [(16_384, 0), (16_385, ErrorCode.MESSAGE_TOO_LARGE)])
def test_a_record_counts_as_64_bytes_at_least(monkeypatch: pytest.MonkeyPatch, count: int, code: int) -> None:
    monkeypatch.setattr("ottla.broker.apis.produce.DECODED_BYTES_MAX", 1 << 20)
    batch = encode_batch([Record(n, WALL_MS, b"k", None) for n in range(count)], codec="zstd")
    assert made(cleanup_policy="compact").produce(batch).error_code == code


def test_a_record_of_the_future_is_named() -> None:
    world = made(message_timestamp_after_max_ms=1000)
    answer = world.produce(encode_batch([Record(0, WALL_MS, None, b"v"), Record(1, WALL_MS + 9000, None, b"v")]))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert list(refused_records(answer)) == [1]


def test_records_that_cannot_be_read_are_refused_where_they_must_be_read() -> None:
    world = made(compression_type="zstd")
    batch = bytearray(batch_of(b"a", codec="gzip"))
    batch[HEADER_BYTES:] = b"\0" * (len(batch) - HEADER_BYTES)
    stamp_crc(batch)
    assert world.produce(bytes(batch)).error_code == ErrorCode.INVALID_RECORD


def partitions_answers(world: World, batches: list[bytes]) -> list[int]:
    """The error codes of one request with a batch for each partition."""
    answer = world.ask(1, produce_request({(TOPIC, number): batch for number, batch in enumerate(batches)}))
    return [each.error_code for each in answer.responses[0].partition_responses]


def test_the_batches_of_a_request_are_decompressed_up_to_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is told that a batch is too large divides it."""
    monkeypatch.setattr("ottla.broker.apis.produce.DECODED_BYTES_MAX", 1 << 20)
    world = World(1)
    assert world.create_topic(TOPIC, 5, 1, cleanup_policy="compact") == 0
    size = (1 << 19) - 1000
    large = encode_batch([Record(0, WALL_MS, b"k", bytes(size))], codec="gzip")
    small = encode_batch([Record(0, WALL_MS, b"k", b"v")], codec="gzip")
    codes = partitions_answers(world, [large, large, large, small, small])
    assert codes == [0, 0, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE]
    # The next request begins anew.
    assert partitions_answers(world, [small, small, large]) == [0, 0, 0]


def test_empty_members_of_many_batches_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 0
    begin = zlib.decompressobj

    def count(wbits: int) -> object:
        nonlocal begun
        begun += 1
        return begin(wbits=wbits)

    monkeypatch.setattr(zlib, "decompressobj", count)
    world = World(1)
    assert world.create_topic(TOPIC, 12, 1, cleanup_policy="compact") == 0
    batch = bytearray(encode_batch([Record(0, WALL_MS, b"k", b"v")])[:HEADER_BYTES])
    batch += gzip.compress(b"") * 20_000
    batch[22] = 1
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    stamp_crc(batch)
    codes = partitions_answers(world, [bytes(batch)] * 12)
    assert set(codes) == {ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE}
    assert begun <= DECODED_BYTES_MAX // 1024 + 12
