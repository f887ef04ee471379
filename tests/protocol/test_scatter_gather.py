"""Records on their way through Produce and Fetch are passed on, never copied: shown by the identity of buffers."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest

from ottla.protocol.frames import (
    FrameBuffer,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


class Slice:
    """Stands where the broker puts a range of a file."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.size = len(content)


def receive(connection: socket.socket, buffer: FrameBuffer) -> memoryview:
    """One frame, read by `recv_into` straight into the buffer."""
    while True:
        size = connection.recv_into(buffer.get_buffer())
        assert size > 0
        frames = buffer.advance(size)
        if frames:
            (frame,) = frames
            return frame


@pytest.mark.parametrize("version", [8, 12])
def test_records_go_from_producer_to_reader_uncopied(version: int) -> None:
    header, payload = bytearray(61), b"p" * 30_000
    client, broker = socket.socketpair()
    with client, broker:
        # Producer: the batch's own buffers are chunks of the request.
        request = ProduceRequest(
            acks=-1,
            topic_data=[
                TopicProduceData(
                    name="flights",
                    partition_data=[
                        PartitionProduceData(index=0, records=[header, payload]),
                        PartitionProduceData(index=1, records=payload),
                    ],
                )
            ],
        )
        chunks = encode_request(1, "me", request, version)
        assert [id(chunk) for chunk in chunks if chunk is header or chunk is payload] == [
            id(header),
            id(payload),
            id(payload),
        ]
        total = sum(map(len, chunks))
        assert client.sendmsg(chunks) == total

        # Broker: the records are views of the frame's memory, and stay writable there.
        frame = receive(broker, FrameBuffer(1 << 20))
        assert len(frame) == total - 4
        _, decoded = decode_request(frame)
        first, second = (partition.records for partition in decoded.topic_data[0].partition_data)
        assert first.obj is frame.obj
        assert second.obj is frame.obj
        assert (first, second) == (bytes(61) + payload, payload)
        struct.pack_into(">q", first, 0, 4711)
        assert bytes(frame).count(struct.pack(">q", 4711)) == 1

        # Broker: a range of a file is a chunk of the response, for `sendfile`.
        stored = Slice(bytes(first))
        response = FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic="flights", partitions=[PartitionData(records=stored), PartitionData(records=None)]
                )
            ]
        )
        answer = encode_response(2, response, version)
        assert sum(chunk is stored for chunk in answer) == 1
        assert struct.unpack(">i", answer[0][:4])[0] == sum(map(size_of, answer)) - 4
        for chunk in answer:
            broker.sendall(chunk.content if chunk is stored else chunk)

        # Reader: again views of the frame.
        frame = receive(client, FrameBuffer(1 << 20))
        _, message = decode_response(frame, FetchRequest, version)
        fetched, nothing = (partition.records for partition in message.responses[0].partitions)
        assert fetched.obj is frame.obj
        assert fetched == struct.pack(">q", 4711) + bytes(53) + payload
        assert nothing is None


def size_of(chunk: Any) -> int:
    return chunk.size if isinstance(chunk, Slice) else len(chunk)


@pytest.mark.parametrize("version", [8, 12])
@pytest.mark.parametrize("records", [b"", [], [b"", bytearray()], Slice(b"")])
def test_no_records_are_no_chunk(version: int, records: Any) -> None:
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=records)])])
    chunks = encode_request(1, None, request, version)
    assert all(type(chunk) is bytearray for chunk in chunks)
    _, decoded = decode_request(memoryview(b"".join(chunks))[4:])
    assert decoded.topic_data[0].partition_data[0].records == b""


def test_a_chunk_counts_in_bytes_whatever_its_items_are() -> None:
    records = memoryview(struct.pack("=3q", 1, 2, 3)).cast("q")
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[PartitionProduceData(records=records)])])
    chunks = encode_request(1, None, request, 9)
    assert any(chunk is records for chunk in chunks)
    assert struct.unpack(">i", chunks[0][:4])[0] == len(b"".join(chunks)) - 4
