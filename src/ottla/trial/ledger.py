"""What a producer was told of the records of one side, in columns, as the judge wants it."""

from __future__ import annotations

from ottla.audit.history import Sent
from ottla.clock import MACHINE
from ottla.ledger.checksum import record_crc
from ottla.ledger.schema import ACKED, FAILED, NO_OFFSET, NO_PARTITION, UNKNOWN


class SideLedger:
    """By record number, which is the place in each list."""

    def __init__(self) -> None:
        self.outcome: list[str] = []
        self.partition: list[int] = []
        self.offset: list[int] = []
        self.error: list[str] = []
        # (when, how many records had been handed over): the producer had been told of all of them.
        self.flushes: list[tuple[int, int]] = []
        self._key_crc: list[int] = []
        self._value_crc: list[int] = []

    def hand_over(self, key: bytes, value: bytes) -> int:
        """Note a record that is handed over now; returns its number. Until it is told, its outcome is unknown."""
        self.outcome.append(UNKNOWN)
        self.partition.append(NO_PARTITION)
        self.offset.append(NO_OFFSET)
        self.error.append("")
        self._key_crc.append(record_crc(key))
        self._value_crc.append(record_crc(value))
        return len(self.outcome) - 1

    def tell_acked(self, number: int, partition: int, offset: int) -> None:
        """It was acknowledged."""
        self.outcome[number], self.partition[number], self.offset[number] = ACKED, partition, offset

    def tell_failed(self, number: int, partition: int, error: str) -> None:
        """It is certainly not stored."""
        self.outcome[number], self.partition[number], self.error[number] = FAILED, partition, error

    def tell_unknown(self, number: int, partition: int, error: str) -> None:
        """Nobody knows."""
        self.partition[number], self.error[number] = partition, error

    def note_flush(self) -> None:
        """All records handed over so far have an outcome."""
        self.flushes.append((MACHINE.now_us(), len(self.outcome)))

    def sent_to(self, partition: int) -> Sent:
        """The rows of one partition."""
        rows = [row for row, place in enumerate(self.partition) if place == partition]
        return Sent(
            rows,
            [self.outcome[row] for row in rows],
            [self._key_crc[row] for row in rows],
            [self._value_crc[row] for row in rows],
            [self.offset[row] for row in rows],
        )
