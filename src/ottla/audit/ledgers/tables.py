"""Arrow tables of what was sent and of what is stored, as the history of one slice; both engines build theirs here.

Sent: the ledger's columns `sequence outcome key_crc value_crc offset`. Stored: `offset sequence key_crc value_crc
timestamp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.audit.history import PartitionHistory, Sent, Stored
from ottla.ledger import schema

if TYPE_CHECKING:
    import pyarrow as pa

TIMESTAMP = "timestamp"
SENT_COLUMNS = (schema.SEQUENCE, schema.OUTCOME, schema.KEY_CRC, schema.VALUE_CRC, schema.OFFSET)
STORED_COLUMNS = (schema.OFFSET, schema.SEQUENCE, schema.KEY_CRC, schema.VALUE_CRC, TIMESTAMP)


@dataclass(slots=True, frozen=True)
class TopicTraits:
    """What a judge has to know of a topic: see `PartitionHistory`."""

    is_transactional: bool = False
    is_compacted: bool = False
    is_answered: bool = False


def history_of(
    place: tuple[str, int],
    sent: pa.Table | None,
    stored: pa.Table | None,
    within: tuple[int, int],
    traits: TopicTraits,
    later: tuple[int, int] | None = None,
) -> PartitionHistory:
    """The history of one slice of the partition `place`, which holds the offsets `within`; None is an empty side."""
    return PartitionHistory(
        *place,
        _sent_of(sent),
        _stored_of(stored),
        *within,
        is_transactional=traits.is_transactional,
        is_compacted=traits.is_compacted,
        is_answered=traits.is_answered,
        is_slice=True,
        later=later,
    )


def nothing_of(place: tuple[str, int], within: tuple[int, int], traits: TopicTraits) -> PartitionHistory:
    """The history of a whole partition without records."""
    history = history_of(place, None, None, within, traits)
    history.is_slice = False
    return history


def _sent_of(table: pa.Table | None) -> Sent:
    if table is None:
        return Sent([], [], [], [], [])
    numbers = table.column(schema.SEQUENCE).to_numpy()
    if (numbers[1:] < numbers[:-1]).any():
        # Rows come in the order of files, and of Spark's tasks; evidence comes in that of the records.
        table = table.take(numbers.argsort(kind="stable"))
    outcome: list[Any] = table.column(schema.OUTCOME).to_pylist()
    return Sent(
        sequence=_numbers(table, schema.SEQUENCE),
        outcome=outcome,
        key_crc=_numbers(table, schema.KEY_CRC),
        value_crc=_numbers(table, schema.VALUE_CRC),
        offset=_numbers(table, schema.OFFSET),
    )


def _stored_of(table: pa.Table | None) -> Stored:
    if table is None:
        return Stored([], [], [], [], [])
    return Stored(
        offset=_numbers(table, schema.OFFSET),
        sequence=_numbers(table, schema.SEQUENCE),
        key_crc=_numbers(table, schema.KEY_CRC),
        value_crc=_numbers(table, schema.VALUE_CRC),
        timestamp=_numbers(table, TIMESTAMP),
    )


def _numbers(table: pa.Table, name: str) -> list[int]:
    # By way of numpy, which Spark needs anyway: many times faster than a Python object per Arrow scalar.
    numbers: list[int] = table.column(name).to_numpy().tolist()
    return numbers
