"""The ledger's columns, the words for an outcome, and how a record carries its own number.

One row per record sent. The row's `sequence` (the record's number in the input, from 0) also travels with the
record itself, in the header `ottla.sequence`, as eight bytes big-endian: that is how the audit recognises a stored
record without trusting its key, its value or its offset.

Invariant: an outcome is one of three words, and `unknown` is never counted as `failed`. `failed` says that the record
is certainly not stored; `unknown` says that this is not known.
"""

from __future__ import annotations

SEQUENCE_HEADER = "ottla.sequence"

ACKED = "acked"
FAILED = "failed"
UNKNOWN = "unknown"
OUTCOMES = (ACKED, FAILED, UNKNOWN)

AT_MOST_ONCE = "at-most-once"
AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"
GUARANTEES = (AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE)

NO_CRC = -1
"""`key_crc` or `value_crc` of a null key or a null value."""
NO_OFFSET = -1
"""`offset` of a record whose offset the producer was not told."""
NO_PARTITION = -1
"""`partition` of a record that failed before a partition was chosen for it."""
NO_TIMESTAMP = -1
"""Timestamp of a stored record whose time the broker has set (message.timestamp.type=LogAppendTime)."""

RUN_ID = "run_id"
GUARANTEE = "guarantee"
TOPIC = "topic"
PARTITION = "partition"
SEQUENCE = "sequence"
KEY_CRC = "key_crc"
VALUE_CRC = "value_crc"
OUTCOME = "outcome"
OFFSET = "offset"
ERROR = "error"

COLUMNS = (
    (RUN_ID, "string"),
    (GUARANTEE, "string"),
    (TOPIC, "string"),
    (PARTITION, "int32"),
    (SEQUENCE, "int64"),
    (KEY_CRC, "int64"),
    (VALUE_CRC, "int64"),
    (OUTCOME, "string"),
    (OFFSET, "int64"),
    (ERROR, "string"),
)
"""(name, Arrow type) in file order; only `error` is ever null."""


def pack_sequence(sequence: int) -> bytes:
    """The value of the header `ottla.sequence` for record number `sequence` (0 or above)."""
    return sequence.to_bytes(8, "big")


def unpack_sequence(value: bytes | None) -> int | None:
    """The record number in a header value, or None where it is not eight bytes: not a record of ours."""
    if value is None or len(value) != 8:
        return None
    return int.from_bytes(value, "big")
