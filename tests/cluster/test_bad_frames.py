"""What is not the Kafka protocol closes the connection it came on, costs no memory, and harms nobody else."""

from __future__ import annotations

import os
import random
import socket
import struct
from typing import Any

import pytest

from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

_LIMIT = 104_857_600


def _request(api_key: int, version: int, body: bytes, *, tags: bytes = b"") -> bytes:
    content = struct.pack(">hhih4s", api_key, version, 7, 4, b"test") + tags + body
    return struct.pack(">i", len(content)) + content


def _noise(seed: int) -> bytes:
    """Random bytes behind a length that fits them."""
    rng = random.Random(seed)
    content = rng.randbytes(rng.randrange(1, 200))
    return struct.pack(">i", len(content)) + content


_METADATA_OF_MANY = struct.pack(">i", 0x7FFFFFFF)
_FAR_ARRAY = b"\xff\xff\xff\xff\x07"

BAD = {
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS client hello": bytes.fromhex("16030100f8010000f40303") + bytes(200),
    "text": b"hello, is anybody there?\n",
    "a negative length": struct.pack(">i", -1),
    "the most negative length": struct.pack(">i", -(2**31)),
    "the longest length": struct.pack(">i", 2**31 - 1),
    "a length just above the limit": struct.pack(">i", _LIMIT + 1),
    "an empty frame": struct.pack(">i", 0),
    "one byte": struct.pack(">i", 1) + b"\0",
    "half a header": struct.pack(">ihh", 4, 3, 9),
    "a header without its client id": struct.pack(">ihhih", 10, 3, 9, 1, 500),
    "a client id that is not UTF-8": struct.pack(">ihhih2s", 12, 3, 0, 1, 2, b"\xff\xfe"),
    "an API nobody knows": _request(9999, 0, b""),
    "a negative API": _request(-1, 0, b""),
    "a version nobody knows": _request(3, 99, b""),
    "a negative version": _request(3, -1, b""),
    "a Produce request from the past": _request(0, 0, b""),
    "a body that ends too early": _request(3, 1, b"\0\0"),
    "a list longer than its frame": _request(3, 1, _METADATA_OF_MANY),
    "a compact list longer than its frame": _request(3, 9, _FAR_ARRAY, tags=b"\0"),
    "a string longer than its frame": _request(3, 1, struct.pack(">ih", 1, 30_000)),
    "a varint that never ends": _request(3, 9, b"\xff" * 30, tags=b"\0"),
    "tags that never end": _request(3, 9, b"", tags=b"\xff\xff\xff\xff\x0f"),
    "records longer than their frame": _request(
        0, 3, struct.pack(">hhiih1siii", -1, -1, 1000, 1, 1, b"t", 1, 0, 0x7FFFFFFF)
    ),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD.keys())
def test_a_bad_frame_closes_its_connection_and_no_other(broker: Any, connect: Any, content: bytes) -> None:
    bystander, culprit = connect(broker), connect(broker)
    assert bystander.call(MetadataRequest(), 12).brokers
    culprit.send(content)
    assert culprit.is_closed_by_broker()
    assert bystander.call(MetadataRequest(), 12).brokers


@pytest.mark.parametrize("seed", range(40))
def test_noise_never_takes_the_broker_down(broker: Any, connect: Any, seed: int) -> None:
    bystander, culprit = connect(broker), connect(broker)
    culprit.send(_noise(seed))
    culprit.socket.shutdown(socket.SHUT_WR)
    assert culprit.is_closed_by_broker()
    assert bystander.call(ApiVersionsRequest(), 2).error_code == 0


def test_a_request_cut_anywhere_is_never_taken_for_a_whole_one(broker: Any, connect: Any, make: Any) -> None:
    """The length says how much is left after the cut, so that each frame is complete and its message is not."""
    whole = make.frame(MetadataRequest(topics=[MetadataRequestTopic(name="flights")]), 12)[4:]
    for end in range(len(whole)):
        culprit = connect(broker)
        culprit.send(struct.pack(">i", end) + whole[:end])
        assert culprit.is_closed_by_broker()
        culprit.close()
    assert connect(broker).call(MetadataRequest(), 12).brokers


def test_a_client_that_leaves_in_the_middle_of_a_frame_is_forgotten(broker: Any, connect: Any, make: Any) -> None:
    whole = make.frame(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
    for end in range(len(whole)):
        culprit = connect(broker)
        culprit.send(whole[:end])
        culprit.close()
    assert connect(broker).call(MetadataRequest(), 12).brokers


def test_what_came_before_a_bad_frame_is_answered(broker: Any, connect: Any, make: Any) -> None:
    wire = connect(broker)
    wire.ask(MetadataRequest(), 12)
    assert wire.answer().brokers
    wire.ask(MetadataRequest(), 12)
    wire.send(_request(9999, 0, b""))
    assert wire.answer().brokers
    assert wire.is_closed_by_broker()


def test_bytes_after_a_request_are_passed_over(broker: Any, connect: Any) -> None:
    """As Apache Kafka's brokers do: librdkafka sends three of them after asking for the metadata of all topics."""
    wire = connect(broker)
    wire.send(bytes.fromhex("00000019 0003000c 00000003 0007 72646b61666b61 00 00000000 000000"))
    assert int.from_bytes(wire.next_frame()[:4]) == 3
    assert wire.call(MetadataRequest(), 12).brokers


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: Any, connect: Any) -> None:
    """KIP-511: so a newer client learns which versions there are."""
    wire = connect(broker)
    wire.ask(ApiVersionsRequest(), 0)
    wire.answer()
    wire.send(_request(18, 99, b"whatever the future brings", tags=b"\0"))
    content = bytes(wire.next_frame())
    correlation_id, error_code, count = struct.unpack_from(">ihi", content)
    assert (correlation_id, error_code) == (7, 35)
    keys = [struct.unpack_from(">hhh", content, 10 + 6 * number)[0] for number in range(count)]
    assert 18 in keys
    assert wire.call(ApiVersionsRequest(), 2).error_code == 0


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads the memory of a process from /proc")
def test_a_length_field_promises_memory_and_gets_none(broker: Any, connect: Any, processes: Any) -> None:
    wires = [connect(broker) for _ in range(50)]
    for wire in wires:
        wire.call(ApiVersionsRequest(), 2)
    before = processes.resident_bytes(broker.pid)
    for wire in wires:
        wire.send(struct.pack(">i", _LIMIT) + bytes(1000))
    assert connect(broker).call(MetadataRequest(), 12).brokers
    promised = len(wires) * _LIMIT
    assert processes.resident_bytes(broker.pid) - before < promised / 500


def test_bad_frames_are_logged_where_the_cluster_was_made(connect: Any, caplog: pytest.LogCaptureFixture) -> None:
    # A broker of its own: what was said in the last minute is only counted.
    with Cluster(brokers=1) as broker:
        culprit = connect(broker)
        culprit.send(struct.pack(">i", -5))
        host, port = culprit.socket.getsockname()
        assert culprit.is_closed_by_broker()
        broker.create_topic("after-the-bad-frame")
        assert any(f"closes the connection of {host}:{port}" in message for message in caplog.messages)


def test_what_came_whole_before_a_bad_frame_is_served_first(
    broker: Any, connect: Any, make: Any, kafka_name: str
) -> None:
    broker.create_topic(kafka_name)
    culprit = connect(broker)
    culprit.ask(make.produce(kafka_name, b"value"), 9)
    culprit.ask(MetadataRequest(), 12)
    whole = [make.frame(make.produce(kafka_name, b"more"), 9, 2), make.frame(MetadataRequest(), 12, 3)]
    culprit.send(b"".join(whole) + struct.pack(">i", -1))
    culprit._asked += [(type(make.produce(kafka_name, b"")), 9), (MetadataRequest, 12)]
    assert culprit.answer().responses[0].partition_responses[0].base_offset == 0
    assert culprit.answer().brokers
    assert culprit.answer().responses[0].partition_responses[0].base_offset == 1
    assert culprit.answer().brokers
    assert culprit.is_closed_by_broker()


def test_a_broker_does_not_log_a_line_for_every_bad_frame(connect: Any, caplog: pytest.LogCaptureFixture) -> None:
    with Cluster(brokers=1) as cluster:
        for _ in range(50):
            wire = connect(cluster)
            wire.send((-1).to_bytes(4, signed=True))
            assert wire.is_closed_by_broker()
    assert sum("closes the connection of" in line for line in caplog.messages) == 1
