"""The ceiling: what a broker takes when it is fed finished batches by a client that does nothing else.

The batches are those `send_table` makes of the same records, encoded and compressed beforehand. A request has one batch
of each partition, as many as it may hold: one of 1 MB, or one of 16 KiB for each of six partitions, which is the best
that a producer can do; five requests are on their way at any time. What is left is the broker, the kernel and the
sending of frames.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ottla.protocol.frames import decode_response, encode_request
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.encode_columns import StickyPartition, encode_stream

_VERSION = 12
_IN_FLIGHT = 5


def raw(bootstrap: str, topic: str, table: Any, partitions: int, codec: str, batch_bytes: int) -> Callable[[], None]:
    """Encode everything and connect; what is returned sends it and waits for the last answer."""
    from ottla.producer.settings import ProducerSettings

    settings = ProducerSettings({"bootstrap_servers": bootstrap, "compression_type": codec})
    stream = encode_stream(
        table,
        topic=topic,
        partition_count=partitions,
        value="value",
        key="key" if "key" in table.column_names else None,
        batch_size=batch_bytes,
        max_request_size=settings.max_request_size,
        compression=codec,
        compression_level=settings.compression_level,
        sticky=StickyPartition(0),
    )
    batches = (batch for some in stream for batch in some)
    frames = [_frame(topic, request) for request in _requests(batches, settings.max_request_size)]
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


def _requests(batches: Iterable[Any], max_request_size: int) -> Iterator[list[Any]]:
    """Batches as they come, no two of one partition in a request."""
    waiting: dict[int, deque[Any]] = {}
    for batch in batches:
        waiting.setdefault(batch.partition, deque()).append(batch)
    while waiting:
        request: list[Any] = []
        room = max_request_size
        for partition, queue in list(waiting.items()):
            if request and queue[0].size_bytes > room:
                continue
            room -= queue[0].size_bytes
            request.append(queue.popleft())
            # Who was left out is first next time.
            waiting.pop(partition)
            if queue:
                waiting[partition] = queue
        yield request


def _frame(topic: str, batches: list[Any]) -> list[Any]:
    for batch in batches:
        batch.assign(-1, -1, -1)
    partitions = [PartitionProduceData(index=batch.partition, records=batch.buffers()) for batch in batches]
    data = [TopicProduceData(name=topic, partition_data=partitions)]
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
