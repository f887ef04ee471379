"""What a plan's act sends, and how the chronicle takes it down: the same for scripts and for who acts in reality."""

from __future__ import annotations

from typing import Any

from ottla.audit.chronicle import SentRecord
from ottla.errors import DeliveryFailed
from ottla.ledger.checksum import record_crc
from ottla.ledger.schema import ACKED, FAILED, NO_OFFSET, SEQUENCE_HEADER, UNKNOWN, pack_sequence
from ottla.simulation.plan import Act

Headers = list[tuple[str, bytes]]


def contents(act: Act) -> tuple[bytes | None, bytes, Headers]:
    """Key, value and headers of the record that the act sends."""
    key = None if act.key is None else b"key %d" % act.key
    value = (b"value %d " % act.number).ljust(act.value_bytes, b".")
    return key, value, [(SEQUENCE_HEADER, pack_sequence(act.number))]


def sent_record(
    act: Act,
    producer: str,
    instance: int,
    transaction: int,
    delivery: Any,
    key: bytes | None,
    value: bytes,
    now_us: int,
) -> SentRecord:
    """A record that was just sent, nothing told of it yet; `transaction` is -1 outside of any."""
    return SentRecord(
        number=act.number,
        producer=producer,
        instance=instance,
        topic=act.topic,
        partition=delivery.partition,
        key_crc=record_crc(key),
        value_crc=record_crc(value),
        outcome=UNKNOWN,
        offset=NO_OFFSET,
        transaction=transaction,
        sent_us=now_us,
        chosen_partition=-1 if act.partition is None else act.partition,
        hashed_key=key if act.partition is None else None,
    )


def take_down(sent: SentRecord, delivery: Any, now_us: int) -> None:
    """What the producer was just told of a record."""
    error = delivery.exception(0)
    sent.told_us = now_us
    sent.partition = delivery.partition
    if error is None:
        sent.offset = delivery.result(0).offset
        sent.outcome = ACKED if sent.offset >= 0 else UNKNOWN
    else:
        sent.error = str(error)
        sent.outcome = FAILED if isinstance(error, DeliveryFailed) else UNKNOWN
