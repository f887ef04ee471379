"""Frames as a client and a broker send them, made by hand for the tests of tap."""

from __future__ import annotations

from typing import Any

from ottla.protocol.frames import encode_request, encode_response
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.records.batch_header import pack_header, stamp_crc
from ottla.tap.conversation import Conversation
from ottla.tap.exchange import Entry, Exchange, Remark, Way

CLIENT, BROKER = "127.0.0.1:40000", "127.0.0.1:9092"


def conversation(**options: Any) -> Conversation:
    return Conversation(1, CLIENT, BROKER, **options)


def asked(message: Any, version: int, correlation_id: int = 1, client_id: str | None = "app") -> bytes:
    return b"".join(bytes(chunk) for chunk in encode_request(correlation_id, client_id, message, version))


def answered(message: Any, version: int, correlation_id: int = 1) -> bytes:
    return b"".join(bytes(chunk) for chunk in encode_response(correlation_id, message, version))


def batch(record_count: int = 3, body: bytes = b"records", **fields: int) -> bytes:
    header = pack_header(
        records_bytes=len(body),
        record_count=record_count,
        last_offset_delta=record_count - 1,
        base_timestamp=0,
        max_timestamp=0,
        **fields,
    )
    whole = header + body
    stamp_crc(whole)
    return bytes(whole)


def produce(records: bytes | None, *, topic: str = "orders", partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def produced(base_offset: int, error_code: int = 0, *, topic: str = "orders", partition: int = 0) -> ProduceResponse:
    answer = PartitionProduceResponse(index=partition, base_offset=base_offset, error_code=error_code)
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[answer])])


def exchanges(entries: list[Entry]) -> list[Exchange]:
    return [entry for entry in entries if isinstance(entry, Exchange)]


def remarks(entries: list[Entry]) -> list[Remark]:
    return [entry for entry in entries if isinstance(entry, Remark)]


def heard(told: Conversation, *pieces: tuple[Way, bytes], end: bool = True) -> list[Entry]:
    """All that is told of these pieces, each a millisecond after the one before."""
    found: list[Entry] = []
    for number, (way, data) in enumerate(pieces):
        found += told.receive(way, data, 1_000_000 + 1_000 * number)
    return found + (told.end() if end else [])
