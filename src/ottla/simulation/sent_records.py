"""The record that an act sends, and its entry in the chronicle: for scripts, and for plans run over real sockets."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.audit.chronicles.chronicle import SentRecord
from ottla.errors import DeliveryFailed
from ottla.ledger.checksum import headers_crc, record_crc
from ottla.ledger.schema import ACKED, FAILED, NO_OFFSET, SEQUENCE_HEADER, UNKNOWN, pack_sequence
from ottla.simulation.plan import Act

Headers = list[tuple[str, bytes | None]]


class Contents(NamedTuple):
    """Key, value and headers of a record; the first header is its number."""

    key: bytes | None
    value: bytes
    headers: Headers


def contents(act: Act) -> Contents:
    """Key, value and headers of the record that the act sends."""
    key = None if act.key is None else b"key %d" % act.key
    value = (b"value %d " % act.number).ljust(act.value_bytes, b".")
    headers: Headers = [(SEQUENCE_HEADER, pack_sequence(act.number))]
    for name, text in act.headers:
        assert name is not None
        headers.append((name, None if text is None else text.encode()))
    return Contents(key, value, headers)


def sent_record(
    act: Act,
    producer: str,
    instance: int,
    transaction: int,
    delivery: Any,
    sent: Contents,
    now_us: int,
) -> SentRecord:
    """The entry of a record that was just sent, without an outcome; `transaction` is -1 if there is none."""
    return SentRecord(
        number=act.number,
        producer=producer,
        instance=instance,
        topic=act.topic,
        partition=delivery.partition,
        key_crc=record_crc(sent.key),
        value_crc=record_crc(sent.value),
        outcome=UNKNOWN,
        offset=NO_OFFSET,
        transaction=transaction,
        sent_us=now_us,
        chosen_partition=-1 if act.partition is None else act.partition,
        hashed_key=sent.key if act.partition is None else None,
        headers_crc=headers_crc(sent.headers[1:]),
    )


def take_down(sent: SentRecord, delivery: Any, now_us: int) -> None:
    """Put the outcome of a delivery into a record's entry."""
    error = delivery.exception(0)
    sent.told_us = now_us
    sent.partition = delivery.partition
    if error is None:
        sent.offset = delivery.result(0).offset
        sent.outcome = ACKED if sent.offset >= 0 else UNKNOWN
    else:
        sent.error = str(error)
        sent.outcome = FAILED if isinstance(error, DeliveryFailed) else UNKNOWN
