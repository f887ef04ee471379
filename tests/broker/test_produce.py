"""Produce: what is appended, what is refused and why, and who is told what."""

from __future__ import annotations

import gzip
import io
import random
from typing import Any

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.batch_header import pack_header, read_header, stamp_crc
from ottla.records.plain import Record, encode_batch

from .world import TOPIC, World, batch_of, fetch_request, produce_request, records_of


def test_batches_get_offsets_one_behind_the_other(world: World) -> None:
    first = world.produce(batch_of(b"a", b"b"))
    second = world.produce(batch_of(b"c"), acks=1)
    assert (first.error_code, first.base_offset, first.log_start_offset) == (0, 0, 0)
    assert (second.error_code, second.base_offset, second.log_append_time_ms) == (0, 2, -1)
    assert [(r.offset, r.value) for r in world.stored()] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_offset_and_leader_epoch_are_stamped_into_the_frame_itself(world: World) -> None:
    world.produce(batch_of(b"a"))
    frame = memoryview(bytearray(batch_of(b"b", b"c")))
    world.ask(1, produce_request({(TOPIC, 0): frame}))
    header = read_header(frame)
    assert (header.base_offset, header.partition_leader_epoch) == (1, 0)


def test_read_only_and_scattered_records_are_taken_too(world: World) -> None:
    batch = batch_of(b"a")
    for records in (memoryview(batch), [batch[:70], batch[70:]]):
        answer = world.ask(1, produce_request({(TOPIC, 0): records}))
        assert answer.responses[0].partition_responses[0].error_code == 0
    assert batch == batch_of(b"a")
    assert [r.offset for r in world.stored()] == [0, 1]


def test_acks_0_is_stored_and_not_answered(world: World) -> None:
    assert world.produce(batch_of(b"a"), acks=0) is None
    assert [r.value for r in world.stored()] == [b"a"]


def test_acks_0_that_fails_closes_the_connection(world: World) -> None:
    assert world.ask(1, produce_request({("missing", 0): batch_of(b"a")}, acks=0)) == "hung up"


def stored_bytes(world: World, broker_id: int) -> bytes:
    """A replica's only segment, byte for byte."""
    return bytes(world.storages[broker_id].contents[f"{TOPIC}-0/{0:020d}.log"])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_passes_through_untouched(replicated: World, codec: str) -> None:
    """Base offset and leader epoch are the broker's to set, outside of the CRC; nothing else becomes another byte."""
    world = replicated
    sent = [batch_of(name * 100, name * 200, codec=codec) for name in (b"a", b"b", b"c")]
    assert len({len(batch) for batch in sent}) == 1
    size = len(sent[0])
    for batch in sent:
        assert world.produce(batch).error_code == 0
    expected = b"".join(
        (2 * number).to_bytes(8) + batch[8:12] + bytes(4) + batch[16:] for number, batch in enumerate(sent)
    )
    assert read_header(expected).codec == codec
    assert [stored_bytes(world, broker_id) for broker_id in (1, 2, 3)] == [expected] * 3
    for first in range(3):
        assert world.fetch(2 * first).records.read() == expected[first * size :]
    # Recovery reads every batch, and the log goes on behind them.
    again = World(3, world.storages)
    assert [stored_bytes(again, broker_id) for broker_id in (1, 2, 3)] == [expected] * 3
    assert [record.value for record in records_of(again.fetch(4))] == [b"c" * 100, b"c" * 200]


def test_what_no_codec_of_ours_would_have_made_is_not_made_again(world: World) -> None:
    """Gzip at level 0, with a name in its header: whoever unpacked it and packed it again would get other bytes."""
    plain = batch_of(b"a" * 100, b"b" * 100)
    out = io.BytesIO()
    with gzip.GzipFile("a-name", "wb", compresslevel=0, fileobj=out, mtime=4711) as file:
        file.write(plain[61:])
    batch = bytearray(plain[:61] + out.getvalue())
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    batch[22] |= 1
    stamp_crc(batch)
    assert world.produce(bytes(batch)).error_code == 0
    assert stored_bytes(world, 1)[16:] == bytes(batch)[16:]
    assert [record.value for record in records_of(world.fetch())] == [b"a" * 100, b"b" * 100]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_log_append_time_is_set_in_the_header_and_leaves_compressed_records_alone(codec: str) -> None:
    world = World(1)
    world.create_topic(message_timestamp_type="LogAppendTime")
    batch = batch_of(b"a" * 100, b"b" * 100, codec=codec)
    assert world.produce(batch).error_code == 0
    assert stored_bytes(world, 1)[61:] == batch[61:]
    assert read_header(stored_bytes(world, 1)).log_append_time


def test_each_partition_succeeds_or_fails_by_itself(world: World) -> None:
    world.create_topic("weather", partitions=2)
    batches = {("weather", 1): batch_of(b"a"), ("weather", 7): batch_of(b"b"), (TOPIC, 0): b"rubbish"}
    response = world.ask(1, produce_request(batches))
    found = {(t.name, p.index): p.error_code for t in response.responses for p in t.partition_responses}
    assert found == {
        ("weather", 1): 0,
        ("weather", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (TOPIC, 0): ErrorCode.INVALID_RECORD,
    }


def test_unknown_topic_is_told_with_a_sentence(world: World) -> None:
    response = world.ask(1, produce_request({("missing", 0): batch_of(b"a")}))
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "missing-0" in answer.error_message


def test_a_broker_that_does_not_lead_names_the_leader() -> None:
    world = World(3)
    world.create_topic(replicas=1)
    leader = world.leader()
    other = leader % 3 + 1
    response = world.ask(other, produce_request({(TOPIC, 0): batch_of(b"a")}))
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (leader, 0)
    assert [(n.node_id, n.host, n.port) for n in response.node_endpoints] == [(leader, "localhost", 9090 + leader)]


def with_header(**fields: Any) -> bytes:
    """A batch of one record with a right CRC and a header that says something else."""
    batch = bytearray(batch_of(b"a"))
    given = {"records_bytes": len(batch) - 61, "record_count": 1, "last_offset_delta": 0}
    given |= {"base_timestamp": 0, "max_timestamp": 0}
    batch[:61] = pack_header(**(given | fields))
    stamp_crc(batch)
    return bytes(batch)


def corrupted(batch: bytes, position: int) -> bytes:
    return batch[:position] + bytes([batch[position] ^ 1]) + batch[position + 1 :]


GARBAGE = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "a few bytes": (b"abc", ErrorCode.INVALID_RECORD),
    "noise": (random.Random(1).randbytes(300), ErrorCode.INVALID_RECORD),
    "old message format": (corrupted(batch_of(b"a"), 16), ErrorCode.INVALID_RECORD),
    "a flipped bit in a value": (corrupted(batch_of(b"abcdef"), -2), ErrorCode.CORRUPT_MESSAGE),
    "a flipped bit in the header": (corrupted(batch_of(b"abcdef"), 30), ErrorCode.CORRUPT_MESSAGE),
    "cut short": (batch_of(b"abcdef")[:-1], ErrorCode.CORRUPT_MESSAGE),
    "a huge length": (corrupted(batch_of(b"abcdef"), 8), ErrorCode.CORRUPT_MESSAGE),
    "a byte too many": (batch_of(b"a") + b"\0", ErrorCode.INVALID_RECORD),
    "two batches": (batch_of(b"a") + batch_of(b"b"), ErrorCode.INVALID_RECORD),
    "no records": (with_header(record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "fewer records than offsets": (with_header(last_offset_delta=9), ErrorCode.INVALID_RECORD),
    "a control batch": (with_header(attributes=0x20), ErrorCode.INVALID_RECORD),
    "a transaction": (with_header(attributes=0x10), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    "an unknown compression": (with_header(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "a producer without a sequence": (with_header(producer_id=1, producer_epoch=0), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_and_harms_nobody(world: World, name: str) -> None:
    batch, error_code = GARBAGE[name]
    world.produce(batch_of(b"before"))
    answer = world.produce(batch)
    assert (answer.error_code, answer.base_offset) == (error_code, -1)
    assert answer.error_message
    assert world.produce(batch_of(b"after")).base_offset == 1
    assert [r.value for r in world.stored()] == [b"before", b"after"]


def test_null_records_are_refused(world: World) -> None:
    request = produce_request({(TOPIC, 0): b""})
    request.topic_data[0].partition_data[0].records = None
    answer = world.ask(1, request).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_RECORD


def test_zstd_is_refused_before_version_7(world: World) -> None:
    request = produce_request({(TOPIC, 0): batch_of(b"a", codec="zstd")})
    answer = world.ask(1, request, version=6).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_batch_above_max_message_bytes_is_refused() -> None:
    world = World(1)
    world.create_topic(max_message_bytes=500)
    answer = world.produce(batch_of(b"x" * 500))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "500" in answer.error_message
    assert world.produce(batch_of(b"x" * 100)).error_code == 0


def test_acks_must_be_known(world: World) -> None:
    assert world.produce(batch_of(b"a"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert world.stored() == []


def test_a_transactional_id_does_not_make_plain_records_a_transaction(world: World) -> None:
    request = produce_request({(TOPIC, 0): batch_of(b"a")})
    request.transactional_id = "t"
    assert world.ask(1, request).responses[0].partition_responses[0].error_code == 0


def test_too_few_replicas_in_sync_refuse_acks_all_only() -> None:
    world = World(2)
    world.create_topic(replicas=2, min_insync_replicas=2)
    world.kill(3 - world.leader())
    world.pass_time(2000)
    assert world.produce(batch_of(b"a"), acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.produce(batch_of(b"b"), acks=1).error_code == 0
    assert [r.value for r in world.stored()] == [b"b"]


def test_no_more_replicas_need_be_in_sync_than_there_are(world: World) -> None:
    world.create_topic("modest", min_insync_replicas=2)
    assert world.produce(batch_of(b"a"), topic="modest").error_code == 0


def test_an_empty_request_gets_an_empty_answer(world: World) -> None:
    assert world.ask(1, ProduceRequest(acks=-1)).responses == []


def test_batches_go_to_segments_of_the_size_asked_for() -> None:
    world = World(1)
    world.create_topic(segment_bytes=1024)
    for _ in range(9):
        assert world.produce(batch_of(b"x" * 300)).error_code == 0
    names = [name for name in world.storages[1].files(f"{TOPIC}-0") if name.endswith(".log")]
    assert names == [f"{base:020d}.log" for base in (0, 2, 4, 6, 8)]
    assert [r.offset for r in world.stored()] == list(range(9))


def test_keys_headers_and_timestamps_come_back_as_sent(world: World) -> None:
    sent = [
        Record(0, 5, b"k", None, (("h", b"1"), ("h", None))),
        Record(1, -1, None, b""),
        Record(2, 1 << 40, b"", b"v"),
    ]
    world.produce(encode_batch(sent))
    response = world.ask(1, fetch_request(max_wait_ms=0))
    assert records_of(response.responses[0].partitions[0]) == sent
