"""The control batches that end a transaction in a partition (KIP-98), read and written.

A control batch holds one record. Key: version int16, type int16 (0 abort, 1 commit; others are no end of a
transaction). Value: version int16, coordinator epoch int32. Newer versions may append fields, which are passed over.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ottla.broker.log.producer_state import EndMarker
from ottla.broker.storage import Buffer

if TYPE_CHECKING:
    from ottla.records.plain import Record

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_ABORT, _COMMIT = 0, 1


def end_marker_batch(producer_id: int, producer_epoch: int, marker: EndMarker, timestamp_ms: int) -> bytearray:
    """The control batch of a marker, offset 0."""
    # Imported here: most brokers never meet a transaction.
    from ottla.records.plain import Record, encode_batch

    key = _KEY.pack(0, _COMMIT if marker.committed else _ABORT)
    record = Record(0, timestamp_ms, key, _VALUE.pack(0, marker.coordinator_epoch))
    batch = encode_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )
    return bytearray(batch)


def read_end_marker(batch: Buffer) -> EndMarker | None:
    """What a control batch says; None for one that ends no transaction, or whose records were compacted away."""
    from ottla.records.plain import decode_batches

    for _, records in decode_batches(batch, verify=False):
        for record in records:
            return read_marker_record(record)
    return None


def read_marker_record(record: Record) -> EndMarker | None:
    """What a record of a control batch says; None for one that ends no transaction."""
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    kind = _KEY.unpack_from(key)[1]
    return EndMarker(kind == _COMMIT, _VALUE.unpack_from(value)[1]) if kind in (_ABORT, _COMMIT) else None
