"""The ceiling: what a broker takes when it is fed finished batches by a client that does nothing else.

The batches are those `send_table` makes of the same records, encoded and compressed beforehand, one to a request as
the producer sends them; five requests are on their way at any time. What is left is the broker, the kernel and the
writing of frames.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.protocol.frames import decode_response, encode_request
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.encode_columns import StickyPartition, encode_stream

_VERSION = 12
_IN_FLIGHT = 5
# What `send_table` makes where no batch.size is given.
_BATCH_BYTES = 1_000_000


def raw(bootstrap: str, topic: str, table: Any, partitions: int, codec: str) -> Callable[[], None]:
    """Encode everything and connect; what is returned sends it and waits for the last answer."""
    from ottla.producer.settings import ProducerSettings

    settings = ProducerSettings({"bootstrap_servers": bootstrap, "compression_type": codec})
    stream = encode_stream(
        table,
        topic=topic,
        partition_count=partitions,
        value="value",
        key="key" if "key" in table.column_names else None,
        batch_size=_BATCH_BYTES,
        max_request_size=settings.max_request_size,
        compression=codec,
        compression_level=settings.compression_level,
        sticky=StickyPartition(0),
    )
    frames = [_frame(topic, batch) for batches in stream for batch in batches]
    host, port = bootstrap.split(",")[0].rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), 60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = sock.makefile("rb")

    def send() -> None:
        on_their_way = 0
        for frame in frames:
            if on_their_way == _IN_FLIGHT:
                _take_answer(answers)
                on_their_way -= 1
            _send_all(sock, frame)
            on_their_way += 1
        for _ in range(on_their_way):
            _take_answer(answers)

    return send


def _frame(topic: str, batch: Any) -> list[Any]:
    batch.assign(-1, -1, -1)
    partition = PartitionProduceData(index=batch.partition, records=batch.buffers())
    data = [TopicProduceData(name=topic, partition_data=[partition])]
    return list(encode_request(1, "raw", ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data), _VERSION))


def _send_all(sock: socket.socket, chunks: list[Any]) -> None:
    left = deque(memoryview(chunk).cast("B") for chunk in chunks)
    while left:
        sent = sock.sendmsg(left)
        while left and sent >= len(left[0]):
            sent -= len(left.popleft())
        if sent:
            left[0] = left[0][sent:]


def _take_answer(answers: Any) -> None:
    frame = answers.read(int.from_bytes(answers.read(4)))
    _, answer = decode_response(memoryview(frame), ProduceRequest, _VERSION)
    for topic in answer.responses:
        for place in topic.partition_responses:
            assert place.error_code == 0, place
