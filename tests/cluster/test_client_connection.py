"""One client's socket: order, pace, and patience with slow readers, over real sockets."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from typing import Any

import pytest

from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.records.plain import decode_batches

_RECORD = bytes(range(256)) * 3_000  # 750 KiB


@pytest.fixture(scope="module")
def long_topic(broker: Any) -> str:
    """A topic with 30 MB in it."""
    broker.create_topic("long")
    return "long"


@pytest.fixture
def filled(broker: Any, long_topic: str, connect: Any, make: Any) -> str:
    wire = connect(broker)
    end = wire.call(make.fetch(long_topic), 12).responses[0].partitions[0].high_watermark
    for _ in range(end, 40):
        answer = wire.call(make.produce(long_topic, _RECORD), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
    return long_topic


def _offsets(response: Any) -> list[int]:
    records = response.responses[0].partitions[0].records
    batches = decode_batches(bytes(records))
    return [record.offset for _, rows in batches for record in rows if record.value == _RECORD]


def test_a_request_that_comes_byte_by_byte_is_answered(broker: Any, connect: Any, make: Any) -> None:
    wire = connect(broker)
    wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.call(ApiVersionsRequest(), 2)
    content = make.frame(MetadataRequest(), 12, 4711)
    for position in range(len(content)):
        wire.send(content[position : position + 1])
    assert int.from_bytes(wire.next_frame()[:4]) == 4711


def test_requests_sent_at_once_are_answered_in_order(broker: Any, connect: Any, make: Any) -> None:
    wire = connect(broker)
    wire.send(b"".join(make.frame(MetadataRequest(), 12, number) for number in range(2000)))
    assert [int.from_bytes(wire.next_frame()[:4]) for _ in range(2000)] == list(range(2000))


def test_a_request_waits_for_the_answer_to_the_one_before(
    broker: Any, connect: Any, make: Any, kafka_name: str
) -> None:
    """A Fetch that waits for records holds back what was sent after it on its connection, and nothing else."""
    broker.create_topic(kafka_name)
    waiting, other = connect(broker), connect(broker)
    waiting.ask(make.fetch(kafka_name, max_wait_ms=600_000), 12)
    for _ in range(20):
        waiting.ask(MetadataRequest(), 12)
    assert other.call(MetadataRequest(), 12).brokers
    assert not select.select([waiting.socket], [], [], 0)[0]
    other.call(make.produce(kafka_name, b"at last"), 9)
    assert waiting.answer().responses[0].partitions[0].high_watermark == 1
    for _ in range(20):
        assert waiting.answer().brokers


def test_no_answer_is_owed_to_acks_0(broker: Any, connect: Any, make: Any, kafka_name: str) -> None:
    broker.create_topic(kafka_name)
    wire = connect(broker)
    for _ in range(10):
        wire.ask(make.produce(kafka_name, b"fire and forget", acks=0), 9, answered=False)
    answer = wire.call(make.produce(kafka_name, b"the last", acks=1), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 10


def test_a_client_that_does_not_read_holds_up_nobody(broker: Any, connect: Any, make: Any, filled: str) -> None:
    lazy, busy = connect(broker), connect(broker)
    for _ in range(3):
        lazy.ask(make.fetch(filled), 12)
    for _ in range(20):
        assert _offsets(busy.call(make.fetch(filled, 39), 12)) == [39]
    for _ in range(3):
        assert _offsets(lazy.answer()) == list(range(40))


def test_a_client_that_leaves_without_reading_is_forgotten(broker: Any, connect: Any, make: Any, filled: str) -> None:
    for _ in range(5):
        lazy = connect(broker)
        lazy.ask(make.fetch(filled), 12)
        lazy.next_bytes = lazy.socket.recv(1000)
        lazy.close()
    assert connect(broker).call(MetadataRequest(), 12).brokers


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads the memory of a process from /proc")
def test_a_client_that_only_sends_fills_its_own_buffers(broker: Any, connect: Any, make: Any, processes: Any) -> None:
    """Answers nobody reads make the broker stop reading; when they are read, all requests are answered."""
    wire = connect(broker)
    topics = [MetadataRequestTopic(name=f"not-there-{number}") for number in range(300)]
    request = make.frame(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12, 5)
    wire.send(request)
    wire.next_frame()
    before = processes.resident_bytes(broker.pid)
    wire.socket.setblocking(False)
    sent = 0
    while select.select([], [wire.socket], [], 0.5)[1]:
        sent += wire.socket.send((request * 100)[sent % len(request) :])
        assert sent < 500_000_000, "the broker reads on although nobody takes its answers"
    assert processes.resident_bytes(broker.pid) - before < 8_000_000
    assert connect(broker).call(MetadataRequest(), 12).brokers
    wire.socket.setblocking(True)
    wire.socket.shutdown(socket.SHUT_WR)
    answers = 0
    with contextlib.suppress(EOFError):
        while True:
            wire.next_frame()
            answers += 1
    assert answers == sent // len(request)


def test_requests_without_answers_wait_outside_while_one_of_them_is_held(
    broker: Any, connect: Any, make: Any, kafka_name: str
) -> None:
    broker.create_topic(kafka_name)
    wire = connect(broker)
    request = make.frame(make.produce(kafka_name, _RECORD, acks=0), 9)
    with broker.faults.hold(topic=kafka_name) as held:
        count, rest = wire.send_what_is_taken(request)
        assert held.await_fired() == 1
    wire.send(rest)
    last = wire.call(make.produce(kafka_name, b"the last", acks=1), 9)
    assert last.responses[0].partition_responses[0].base_offset == count


def test_a_client_that_has_said_its_last_word_still_gets_the_answer(
    broker: Any, connect: Any, make: Any, kafka_name: str
) -> None:
    broker.create_topic(kafka_name)
    wire = connect(broker)
    with broker.faults.delay_ack(topic=kafka_name, delay_ms=100) as late:
        wire.ask(make.produce(kafka_name, b"last record"), 9)
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.answer().responses[0].partition_responses[0].base_offset == 0
        assert wire.is_closed_by_broker()
        assert late.fired == 1


@pytest.mark.parametrize("first", [0, 17, 39])
def test_fetched_bytes_are_those_that_were_stored(
    broker: Any, connect: Any, make: Any, filled: str, first: int
) -> None:
    assert _offsets(connect(broker).call(make.fetch(filled, first), 12)) == list(range(first, 40))


def test_many_clients_come_and_go(broker: Any, connect: Any) -> None:
    for _ in range(5):
        wires = [connect(broker) for _ in range(100)]
        for wire in wires:
            wire.ask(MetadataRequest(), 12)
        for wire in wires:
            assert wire.answer().brokers
            wire.close()
