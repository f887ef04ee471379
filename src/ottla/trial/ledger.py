"""What the producers of one side were told of its records, in columns, as the judge wants it."""

from __future__ import annotations

from ottla.audit.history import Sent
from ottla.clock import MACHINE
from ottla.errors import DeliveryError, KafkaError, OttlaError
from ottla.ledger.checksum import record_crc
from ottla.ledger.schema import ACKED, FAILED, NO_OFFSET, UNKNOWN

NO_PARTITION = -1


class SideLedger:
    """By record number, which is the index in each list.

    A record may be sent again, by an application that was started again or that got no answer. Then it is acknowledged
    if any sending was, and failed if all have failed.

    `errors`: what was told of records that were not acknowledged, by Kafka's name of it, and of how many. `attempts`:
    how often batches that have failed were sent, and how many records say so. `transactions`: the records of each that
    was committed or is unknown. `flushes`: (when, how many records had been handed over), where all of them had an
    outcome. `again`: how often a record was handed over once more.
    """

    def __init__(self) -> None:
        self.outcome: list[str] = []
        self.partition: list[int] = []
        self.offset: list[int] = []
        self.errors: dict[str, int] = {}
        self.attempts: dict[int, int] = {}
        self.transactions: list[tuple[int, ...]] = []
        self.flushes: list[tuple[int, int]] = []
        self.again = 0
        self._doubtful: dict[int, None] = {}
        self._key_crc: list[int] = []
        self._value_crc: list[int] = []

    def hand_over(self, number: int, partition: int | None, key: bytes | None, value: bytes) -> None:
        """Note a record that is handed over now, again or as the next one. Until it has an outcome, it is unknown.

        `partition` None: the producer chooses it, and `place` or `tell_acked` says which it was.
        """
        if number < len(self.outcome):
            self.again += 1
            return
        self.outcome.append(UNKNOWN)
        self.partition.append(NO_PARTITION if partition is None else partition)
        self.offset.append(NO_OFFSET)
        self._key_crc.append(record_crc(key))
        self._value_crc.append(record_crc(value))

    def note_partition(self, number: int, partition: int) -> None:
        """The producer has chosen this partition."""
        self.partition[number] = partition

    @property
    def without_partition(self) -> int:
        """How many records there are whose partition is not known."""
        return self.partition.count(NO_PARTITION)

    def tell_acked(self, number: int, partition: int, offset: int) -> None:
        """It was acknowledged."""
        self.outcome[number], self.partition[number], self.offset[number] = ACKED, partition, offset

    def tell_failed(self, number: int) -> None:
        """What was sent now is certainly not stored."""
        if self.outcome[number] != ACKED and number not in self._doubtful:
            self.outcome[number] = FAILED

    def tell_unknown(self, number: int) -> None:
        """It is not known whether it is stored."""
        if self.outcome[number] != ACKED:
            self._doubtful[number] = None
            self.outcome[number] = UNKNOWN

    def count_error(self, error: BaseException) -> None:
        """Count what was told of a record, or of a transaction."""
        self.count_told(error_name(error))
        attempts = getattr(error, "attempts", None)
        if attempts is not None:
            self.attempts[attempts] = self.attempts.get(attempts, 0) + 1

    def count_told(self, name: str) -> None:
        """Count an error by the name under which it was reported."""
        self.errors[name] = self.errors.get(name, 0) + 1

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


def error_name(error: BaseException) -> str:
    """Kafka's name of an error, or that of its class where it is not Kafka's."""
    cause = error.first if isinstance(error, DeliveryError) else error.__cause__
    if isinstance(cause, OttlaError) and not isinstance(error, KafkaError):
        return error_name(cause)
    return error.name if isinstance(error, KafkaError) else type(error).__name__
