"""A Kafka connection with nothing around it: for what a benchmark asks of brokers itself."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

from ottla.protocol.frames import decode_response, encode_request
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


class Wire:
    """One connection to "host:port"; one request at a time. What takes longer than `patience_s` raises TimeoutError."""

    def __init__(self, address: str, patience_s: float = 60) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), patience_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, message: ApiMessage, version: int) -> Any:
        """The answer to a request; EOFError when the broker closes the connection instead."""
        self.send(request(message, version))
        return decode_response(self.frame(), type(message), version)[1]

    def send(self, content: bytes) -> None:
        """Send whole frames."""
        self._socket.sendall(content)

    def frame(self) -> memoryview:
        """The next frame, without its length."""
        size = int.from_bytes(self._receive(4))
        return memoryview(self._receive(size))

    def _receive(self, size: int) -> bytearray:
        content = bytearray(size)
        left = memoryview(content)
        while left:
            received = self._socket.recv_into(left)
            if not received:
                raise EOFError
            left = left[received:]
        return content

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.close()


def request(message: ApiMessage, version: int) -> bytes:
    """A request as one piece of bytes, length first."""
    return b"".join(bytes(chunk) for chunk in encode_request(1, "bench", message, version))


def create_topics(
    address: str, names: list[str], partitions: int, replication_factor: int, configs: dict[str, str] | None = None
) -> None:
    """Make topics in one request; return when all their partitions have leaders in the eyes of this broker."""
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        for name in names
    ]
    with Wire(address) as wire:
        answer = wire.call(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
        refused = [
            f"{topic.name}: {topic.error_code} {topic.error_message}" for topic in answer.topics if topic.error_code
        ]
        if refused:
            raise SystemExit(f"topics were not made: {refused[0]}")
        while not _all_led(wire, names):
            pass


def _all_led(wire: Wire, names: list[str]) -> bool:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    return all(
        topic.error_code == 0 and all(each.leader_id >= 0 for each in topic.partitions)
        for topic in wire.call(asked, 9).topics
    )


def delete_topic(address: str, name: str) -> None:
    """Remove a topic and its records."""
    with Wire(address) as wire:
        answer = wire.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000), 5)
        assert not answer.responses[0].error_code, answer
